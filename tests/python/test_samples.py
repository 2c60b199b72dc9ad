"""tarpipe.samples: what it yields, what it refuses, and how it ends."""

import gc
import gzip
import os
import pathlib
import subprocess
import tarfile

from support import InFolder, group_is_alive, tar, wait_for

import tarpipe
from tarpipe import _samples, _tar

THREE = [(f"d/{key}.{field}", f"{key}{field}".encode()) for key in "abc" for field in ("cls", "jpg")]


def keys(*args, **options):
    return [sample["__key__"] for sample in tarpipe.samples(*args, **options)]


class Names(InFolder):
    def setUp(self):
        super().setUp()
        for number in range(12):
            self.write(f"s-{number:02}.tar", tar([(f"k{number:02}.txt", b"x")]))

    def test_paths_lists_globs_and_braces(self):
        self.assertEqual(keys("s-03.tar"), ["k03"])
        self.assertEqual(keys(pathlib.Path("s-03.tar")), ["k03"])
        self.assertEqual(keys(["s-03.tar", "s-01.tar"]), ["k03", "k01"])
        self.assertEqual(keys("s-0*.tar"), [f"k{number:02}" for number in range(10)])
        self.assertEqual(keys("s-{09..11}.tar"), ["k09", "k10", "k11"])
        self.assertEqual(keys("s-{11..09}.tar"), ["k11", "k10", "k09"])
        self.assertEqual(keys("s-{01,1{0..1}}.tar::s-03.tar"), ["k01", "k10", "k11", "k03"])
        self.assertEqual(keys("s-{00,1?}.tar"), ["k00", "k10", "k11"])
        self.assertEqual(keys("pipe:cat s-05.tar"), ["k05"])

    def test_a_file_is_found_whatever_it_is_called(self):
        for name in ["-x.tar", "a b | c.tar", "{1..2}.tar", "[1].tar", "ä$x.tar"]:
            self.write(name, tar([("a.txt", b"1")]))
            self.assertEqual(keys(name), ["a"], name)

    def test_names_expand_as_in_tarcat(self):
        for name in ["s-{00..11..2}.tar", "s-{1..3}.tar", "s-0{1..3}.tar", "s-{01..3}.tar", "s-{,00}.tar", "{s,t}-00.tar", "s-{00}.tar"]:
            done = tarpipe.run(f"tarcat -q -- '{name}' 2>/dev/null | tarshow 2>/dev/null", capture_output=True, check=False)
            try:
                ours = keys(name)
            except tarpipe.Error as error:
                self.assertNotEqual(done.returncode, 0, f"{name}: {error}")
                continue
            self.assertEqual(done.returncode, 0, name)
            self.assertEqual(ours, [key for key in (f"k{number:02}" for number in range(12)) if key.encode() in done.stdout], name)

    def test_many_names_go_past_the_command_line(self):
        names = ["s-00.tar", "s-{02..04}.tar", "pipe:cat s-01.tar", "s-05.tar"]
        before, _samples.MAX_ARGUMENTS = _samples.MAX_ARGUMENTS, 3
        self.addCleanup(setattr, _samples, "MAX_ARGUMENTS", before)
        self.assertEqual(keys(names), ["k00", "k02", "k03", "k04", "k01", "k05"])

    def test_a_partition_is_every_nth_shard(self):
        for source in ("s-*.tar", "s-{00..11}.tar", [f"pipe:cat s-{number:02}.tar" for number in range(12)]):
            parts = [keys(source, partition=(rank, 5)) for rank in range(5)]
            self.assertEqual(parts[3], ["k03", "k08"])
            self.assertEqual(sorted(sum(parts, [])), [f"k{number:02}" for number in range(12)])

    def test_a_partition_of_one_shard_is_every_nth_sample(self):
        self.write("one.tar", tar(THREE))
        self.write("one.tar.gz", gzip.compress(tar(THREE)))
        for source in ("one.tar", "one.tar.gz", "pipe:cat one.tar"):
            self.assertEqual([keys(source, partition=(rank, 2)) for rank in (0, 1)], [["d/a", "d/c"], ["d/b"]])

    def test_a_pipeline_is_told_its_partition(self):
        self.assertEqual(keys(pipeline="tarcat --shard env s-*.tar", partition=(1, 6)), ["k01", "k07"])
        with self.assertRaisesRegex(ValueError, "does not use it: write --shard env"):
            tarpipe.samples(pipeline="tarcat s-*.tar", partition=(1, 6))

    def test_arguments_that_make_no_sense_are_refused_at_once(self):
        for options in [
            {},
            {"source": "a", "pipeline": "b"},
            {"source": []},
            {"source": [""]},
            {"source": "tarcat a.tar | tarresize"},
            {"source": "a", "partition": (2, 2)},
            {"source": "a", "partition": (-1, 2)},
            {"source": "a", "partition": 3},
            {"source": "a", "shuffle": -1},
        ]:
            with self.assertRaises(ValueError, msg=str(options)):
                tarpipe.samples(**options)


class Content(InFolder):
    def test_samples_are_dictionaries_of_bytes(self):
        self.write("a.tar", tar(THREE))
        expected = [{"__key__": f"d/{key}", "cls": f"{key}cls".encode(), "jpg": f"{key}jpg".encode()} for key in "abc"]
        self.assertEqual(list(tarpipe.samples("a.tar")), expected)
        self.assertEqual(list(tarpipe.samples(pipeline="cat a.tar")), expected)

    def test_fields_are_picked_and_samples_shuffled_by_tarcat(self):
        self.write("a.tar", tar([(f"{number:03}.{field}", b"1") for number in range(100) for field in ("b", "c")]))
        self.assertEqual(list(tarpipe.samples("a.tar", fields="new=c"))[7], {"__key__": "007", "new": b"1"})
        self.assertEqual(list(tarpipe.samples("a.tar", fields=["b"]))[7], {"__key__": "007", "b": b"1"})
        shuffled = keys("a.tar", shuffle=50, seed=3)
        self.assertEqual((sorted(shuffled), shuffled), (keys("a.tar"), keys("a.tar", shuffle=50, seed=3)))
        self.assertNotEqual(shuffled, keys("a.tar"))

    def test_every_size_of_member_comes_out_whole(self):
        sizes = [0, 1, 511, 512, 513, 2047, 2048, 32767, 32768, 32769, 262143, 262144, 262145, 1_500_000, 3, 40_000, 40_000, 7]
        members = [(f"{at:03}.bin", os.urandom(size)) for at, size in enumerate(sizes)]
        self.write("a.tar", tar(members))
        for sample in (list(tarpipe.samples("a.tar")), list(tarpipe.samples(pipeline="cat a.tar"))):
            self.assertEqual([(f"{each['__key__']}.bin", each["bin"]) for each in sample], members)

    def test_all_readers_agree_on_all_formats(self):
        members = [("d", None), ("d/" + "k" * 140 + ".jpg", b"long"), ("p" * 90 + "/" + "q" * 90 + ".jpg", b"prefix"), ("ü.jpg", b"pax")]
        for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
            self.write("a.tar", tar(members, form))
            with open("a.tar", "rb") as file:
                ours = list(_tar.samples(file.fileno()))
            self.assertEqual(ours, [{"__key__": name[:-4], "jpg": data} for name, data in members[1:]])
            self.assertEqual(ours, list(tarpipe.samples(pipeline="cat a.tar")))

    def test_what_is_unusual_is_left_to_tarcat(self):
        self.write("a.tar", tar(THREE[:2] + [("README", b"no field"), ("d/.dot.jpg", b"dot"), ("__meta__/x.jpg", b"m")] + THREE[2:]))
        self.assertEqual(keys("a.tar"), ["d/a", "d/b", "d/c"])
        self.write("a.tar.gz", gzip.compress(tar(THREE)))
        self.assertEqual(keys("a.tar.gz"), ["d/a", "d/b", "d/c"])
        os.symlink("nowhere", "link.txt")
        subprocess.run(["tar", "cf", "b.tar", "--label", "volume", "a.tar", "link.txt"], check=True)
        self.assertEqual(list(tarpipe.samples("b.tar")), [{"__key__": "a", "tar": pathlib.Path("a.tar").read_bytes()}])

    def test_archives_in_a_row_are_one_stream(self):
        self.write("a.tar", tar(THREE[:2]) + tar(THREE[2:4]))
        self.assertEqual(keys("a.tar"), ["d/a", "d/b"])


class Failures(InFolder):
    def fails(self, expected, *args, **options):
        """The keys before the failure."""
        found = []
        with self.assertRaises(tarpipe.Error) as caught:
            for sample in tarpipe.samples(*args, **options):
                found.append(sample["__key__"])
        self.assertIn(expected, str(caught.exception))
        self.error = caught.exception
        return found

    def test_what_is_missing(self):
        self.fails("tarcat: none.tar: No such file", "none.tar")
        self.fails("none-*.tar: no such files", "none-*.tar")

    def test_a_cut_shard_gives_its_samples_and_then_fails(self):
        whole = tar([(f"{number:02}.bin", bytes(100)) for number in range(10)])
        for end, count, words in [(5 * 1024, 4, "before the end-of-archive blocks"), (5 * 1024 + 700, 5, "in the padding"), (5 * 1024 + 550, 4, "in the middle"), (100, 0, "")]:
            self.write("a.tar", whole[:end])
            self.assertEqual(len(self.fails(words, "a.tar")), count)
            self.assertLessEqual(len(self.fails(words, pipeline="cat a.tar")), count)

    def test_a_damaged_header_fails(self):
        whole = bytearray(tar(THREE))
        whole[4 * 1024 + 3] ^= 1
        self.write("a.tar", bytes(whole))
        self.assertEqual(self.fails("checksum", "a.tar"), ["d/a"])

    def test_a_field_twice_fails(self):
        self.write("a.tar", tar([("a.txt", b"1"), ("a.txt", b"2")]))
        self.fails("txt", "a.tar")

    def test_the_failure_of_any_stage_raises(self):
        self.write("a.tar", tar(THREE))
        self.assertEqual(self.fails("tarcat: none.tar", pipeline="{ tarcat none.tar; } | cat"), [])
        self.assertEqual(self.error.status, 1)
        self.assertEqual(self.fails("exit status 7", pipeline="cat a.tar; exit 7"), ["d/a", "d/b", "d/c"])
        self.assertEqual(self.fails("broken", pipeline="cat a.tar | { cat; echo broken >&2; exit 1; } | cat"), ["d/a", "d/b", "d/c"])
        self.fails("empty input", pipeline="true")
        self.fails("not a tar archive", pipeline="echo hello")


class Endings(InFolder):
    """A consumer that stops early ends all processes, quietly."""

    def setUp(self):
        super().setUp()
        self.write("a.tar", tar([(f"{number:05}.bin", bytes(5000)) for number in range(2000)]))
        self.pipeline = "echo $$ > pid; while true; do cat a.tar; done"

    def check_ended(self):
        pid = int(pathlib.Path("pid").read_text())
        wait_for(lambda: not group_is_alive(pid))

    def test_break(self):
        for _ in tarpipe.samples(pipeline=self.pipeline):
            break
        gc.collect()
        self.check_ended()

    def test_close(self):
        stream = tarpipe.samples(pipeline=self.pipeline)
        next(stream)
        stream.close()
        self.check_ended()
        self.assertEqual(list(stream), [])

    def test_a_stage_that_waits(self):
        stream = tarpipe.samples(pipeline="echo $$ > pid; cat a.tar; sleep 1000")
        next(stream)
        stream.close()
        self.check_ended()

    def test_a_stage_that_waits_after_what_it_wrote_failed(self):
        before, _samples.PATIENCE = _samples.PATIENCE, 0.5
        self.addCleanup(setattr, _samples, "PATIENCE", before)
        with self.assertRaisesRegex(tarpipe.Error, "not a tar archive"):
            next(tarpipe.samples(pipeline="echo $$ > pid; yes | head -c 20000; sleep 1000"))
        self.check_ended()

    def test_an_exception_of_the_consumer(self):
        with self.assertRaises(ZeroDivisionError):
            for _ in tarpipe.samples(pipeline=self.pipeline):
                1 / 0
        gc.collect()
        self.check_ended()

    def test_nothing_starts_before_the_first_sample_is_asked_for(self):
        tarpipe.samples(pipeline=self.pipeline).close()
        self.assertFalse(os.path.exists("pid"))

    def test_no_descriptor_is_left_open(self):
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            next(tarpipe.samples("a.tar"))
            next(tarpipe.samples(pipeline="cat a.tar"))
            len(list(tarpipe.samples(pipeline="cat a.tar")))
        gc.collect()
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)
