"""tarpipe.pipeline: what it reads and what it writes. Plain unittest; uses numpy, h5py and pyarrow if installed."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "python"))

from tarpipe.pipeline import Hdf5, MdsSignal, Npz, Parquet, Pipeline, PipelineError  # noqa: E402
from tarpipe.pipeline.shards import write_shards  # noqa: E402

BUILDS = [str(REPOSITORY / "target" / kind) for kind in ("release", "debug")]
TOOLS = os.pathsep.join([os.environ.get("PATH", ""), *BUILDS])


def signal_of(shot):
    """A source: fails for every tenth shot."""
    if shot % 10 == 9:
        raise OSError(f"no data for {shot}")
    return {"data": [shot, -2 * shot], "times": [0.0, 0.1]}


def calc_peak(rec):
    """A step."""
    rec["peak"] = max(abs(value) for value in rec["ip"]["data"])


def peaks(shots):
    """The pipeline of the tutorial."""
    return Pipeline(shots).fetch("ip", signal_of).map(calc_peak).keep(["peak"])


class Sources(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def value(self, source, shot=7):
        record = Pipeline([shot]).fetch("a", source).compute_serial()[0]
        self.assertEqual(record.errors, {})
        return record["a"]

    def test_templates_read_files_by_suffix(self):
        (self.folder / "0007.json").write_text('{"a": [1]}')
        (self.folder / "7.txt").write_text("é", encoding="utf-8")
        (self.folder / "7.raw").write_bytes(b"\xff")
        self.assertEqual(self.value(f"{self.folder}/{{shot:04}}.json"), {"a": [1]})
        self.assertEqual(self.value(f"{self.folder}/{{item}}.txt"), "é")
        self.assertEqual(self.value(self.folder / "{shot}.raw"), b"\xff")
        self.assertEqual(self.value(f"{self.folder}/{{name}}.txt", {"shot": 1, "name": "7"}), "é")

    def test_a_missing_file_is_an_error_of_the_record(self):
        record = Pipeline([1]).fetch("a", f"{self.folder}/{{shot}}.txt").compute_serial()[0]
        self.assertRegex(record.errors["a"]["message"], "No such file")

    def test_what_is_not_a_source_is_refused(self):
        with self.assertRaisesRegex(TypeError, "3 is not a source"):
            Pipeline([1]).fetch("a", 3)

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "needs numpy")
    def test_npz_and_npy_files(self):
        import numpy

        numpy.savez(self.folder / "7.npz", a=[1, 2], b=[3])
        numpy.save(self.folder / "7.npy", [4, 5])
        arrays = self.value(f"{self.folder}/{{shot}}.npz")
        self.assertEqual({name: list(array) for name, array in arrays.items()}, {"a": [1, 2], "b": [3]})
        self.assertEqual(list(self.value(Npz(f"{self.folder}/{{shot}}.npz", names=["b"]))), ["b"])
        self.assertEqual(list(self.value(f"{self.folder}/{{shot}}.npy")), [4, 5])

    @unittest.skipUnless(importlib.util.find_spec("h5py"), "needs h5py")
    def test_hdf5_files(self):
        import h5py

        with h5py.File(self.folder / "7.h5", "w") as file:
            file["magnetics/ip"] = [1.0, 2.0]
            file["gain"] = 3
        value = self.value(f"{self.folder}/{{shot}}.h5")
        self.assertEqual((list(value["magnetics/ip"]), value["gain"]), ([1.0, 2.0], 3))
        self.assertEqual(list(self.value(Hdf5(f"{self.folder}/{{shot}}.h5", names=["gain"]))), ["gain"])

    @unittest.skipUnless(importlib.util.find_spec("pyarrow"), "needs pyarrow")
    def test_parquet_files(self):
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.table({"a": [1, 2], "b": [3, 4]}), self.folder / "7.parquet")
        value = self.value(Parquet(f"{self.folder}/{{shot}}.parquet", columns=["b"]))
        self.assertEqual({name: list(column) for name, column in value.items()}, {"b": [3, 4]})

    def test_an_mdsplus_signal_keeps_its_connection(self):
        opened = []

        class Connection:
            def __init__(self, host):
                opened.append(host)

            def openTree(self, tree, shot):
                self.shot = shot

            closeTree = openTree

            def get(self, expression):
                if expression.startswith("units_of"):
                    raise RuntimeError("no units")
                return types.SimpleNamespace(data=lambda: (expression, self.shot))

            def disconnect(self):
                opened.append("closed")

        with mock.patch.dict(sys.modules, MDSplus=types.SimpleNamespace(Connection=Connection)):
            results = Pipeline([1, 2]).fetch("ip", MdsSignal("ip", "efit01", "remote://atlas")).compute_serial()
        self.assertEqual(results[1]["ip"], {"data": ("ip", 2), "times": ("dim_of(ip)", 2), "units": {"data": ""}})
        self.assertEqual(opened, ["atlas", "closed"])

    def test_without_mdsplus_the_signal_is_an_error_of_the_record(self):
        with mock.patch.dict(sys.modules, MDSplus=None):
            record = Pipeline([1]).fetch("ip", MdsSignal("ip", "efit01")).compute_serial()[0]
        self.assertIn("MDSplus", record.errors["ip"]["message"])


@unittest.skipUnless(shutil.which("tarsplit", path=TOOLS), "needs the tools: cargo build, or put them on the PATH")
class Outputs(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        patch = mock.patch.dict(os.environ, PATH=TOOLS)
        patch.start()
        self.addCleanup(patch.stop)

    def shown(self, *arguments):
        return subprocess.run(["tarshow", *arguments], check=True, stdout=subprocess.PIPE).stdout.decode().splitlines()

    def test_shards_have_a_sample_per_record_without_errors(self):
        with self.assertWarnsRegex(UserWarning, "left 1 of 7 records out of the shards"):
            count = peaks(range(5, 12)).compute_serial().write_shards(f"{self.folder}/out-%06d.tar", samples=4)
        self.assertEqual(count, 6)
        self.assertEqual(sorted(os.listdir(self.folder)), ["out-000000.tar", "out-000001.tar"])
        lines = self.shown("--json", "-f", "json.peak", *(f"{self.folder}/out-{shard:06}.tar" for shard in (0, 1)))
        rows = [json.loads(line) for line in lines]
        self.assertEqual([row["__key__"] for row in rows], ["5", "6", "7", "8", "10", "11"])
        self.assertEqual([row["json.peak"] for row in rows], [10, 12, 14, 16, 20, 22])

    def test_failures_can_be_marked(self):
        peaks([8, 9]).stream_multiprocessing().write_shards(f"{self.folder}/%d.tar", failed="mark")
        lines = self.shown("--json", "-f", "json.status json.error_message", f"{self.folder}/0.tar")
        self.assertEqual(json.loads(lines[1])["json.error_message"], "ip: no data for 9")
        self.assertEqual([json.loads(line)["json.status"] for line in lines], [None, "failed"])

    def test_a_run_that_fails_leaves_no_shard_behind(self):
        def records():
            yield from peaks(range(3)).compute_serial()
            raise OSError("the archive is gone")

        with self.assertRaisesRegex(OSError, "archive"):
            write_shards(records(), f"{self.folder}/%d.tar", 10, None, "skip", None, ())
        self.assertEqual([name for name in os.listdir(self.folder) if not name.startswith(".")], [])

    def test_keys_must_be_valid_and_unique(self):
        for items, message in ((["a.b"], "cannot be the key"), ([1, 1], "appears twice")):
            with self.subTest(items), self.assertRaisesRegex(PipelineError, message):
                Pipeline(items).compute_serial().write_shards(f"{self.folder}/%d.tar")
        count = Pipeline(["a.b"]).compute_serial().write_shards(f"{self.folder}/%d.tar", key=lambda rec: "a_b")
        self.assertEqual(count, 1)

    def test_tables_have_a_row_per_record(self):
        results = peaks([8, 9]).compute_serial()
        for suffix in ("csv", "tsv", "jsonl", "parquet"):
            self.assertEqual(results.to_table(f"{self.folder}/t.{suffix}"), 2)
        lines = (self.folder / "t.csv").read_text().splitlines()
        self.assertEqual(lines[:2], ["__key__,shot,peak,errors", "8,8,16,"])
        self.assertIn("no data for 9", lines[2])
        self.assertEqual((self.folder / "t.parquet").read_bytes()[:4], b"PAR1")
        self.assertEqual(len(os.listdir(self.folder)), 4)
        with self.assertRaisesRegex(ValueError, "unknown kind of table"):
            results.to_table("t.xlsx")

    def test_a_tool_that_fails_is_an_error(self):
        with self.assertRaisesRegex(PipelineError, "tarsplit failed with exit status 2"), redirected_stderr():
            peaks([1]).compute_serial().write_shards(f"{self.folder}/%d.tar", arguments=["--no-such-flag"])

    def test_missing_tools_are_named(self):
        with mock.patch.dict(os.environ, PATH=""), self.assertRaisesRegex(PipelineError, "tarsplit not found"):
            peaks([1]).compute_serial().write_shards("%d.tar")

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "needs numpy")
    def test_arrays_become_fields(self):
        import numpy

        pipeline = Pipeline([1])
        pipeline.fetch("ip", lambda shot: {"data": numpy.arange(3), "units": "A"})
        pipeline.fetch("rate", lambda shot: numpy.ones(2))
        pipeline.fetch("top", lambda shot: numpy.float64(1.5))
        pipeline.compute_serial().write_shards(f"{self.folder}/%d.tar")
        lines = subprocess.run(["tar", "tf", f"{self.folder}/0.tar"], check=True, stdout=subprocess.PIPE).stdout
        self.assertEqual(lines.decode().split(), ["1.json", "1.ip.npz", "1.rate.npy"])
        shown = json.loads(self.shown("--json", "-f", "json.ip json.top", f"{self.folder}/0.tar")[0])
        self.assertEqual((shown["json.ip"], shown["json.top"]), ({"units": "A"}, 1.5))


class redirected_stderr:
    """Sends what children write to stderr to nowhere."""

    def __enter__(self):
        self.saved = os.dup(2)
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)

    def __exit__(self, *_):
        os.dup2(self.saved, 2)
        os.close(self.saved)


if __name__ == "__main__":
    unittest.main()
