"""Compressed streams: gzip, pigz, Python and webdataset against tarcat and tarsplit, igzip as the floor; and what they save.

The photographs are JPEGs, which no codec shrinks; the captions are text, which all do.
"""

import os
import random
import shutil
import tempfile

import tarresize
from measure import Bar, Contestant
from tarcat import READ_ALL
from tarsplit import RESHARD


def run(bench):
    python = bench.python("pillow", "numpy", "webdataset")
    if python is None or not (bench.has("pigz") and bench.has("igzip", "isal")):
        print("  (no Pillow, webdataset, pigz or igzip to compare with: left out)")
        return
    photos = tarresize.archive(bench, python, 200 if bench.quick else 1_000, 1000, 800, 92)
    count = 5_000 if bench.quick else 40_000
    texts = bench.made(f"captions-{count}.txt", captions(count))
    archive = bench.made(f"captions-{count}.tar", lambda path: bench.check([bench.tool("tarcreate"), "--lines", "txt", texts, "-o", path]))
    for name, tar in (("photographs", photos), ("captions", archive)):
        packed = bench.made(f"{os.path.basename(tar)}.gz", lambda path: bench.check(["bash", "-c", f"gzip -6 <{tar} >{path}"]))
        reading(bench, name, tar, packed)
        writing(bench, name, tar)
        resharding(bench, python, name, tar, packed)


def captions(count):
    """Lines of common words."""
    words = "a the of in on with old new red blue house river dog street morning light photo portrait green hill".split()

    def make(path):
        dice = random.Random(1)
        path.write_text("".join(" ".join(dice.choices(words, k=12)) + "\n" for _ in range(count)))

    return make


def reading(bench, name, tar, packed):
    bench.compare(
        f"read {name} from a .tar.gz",
        [
            Contestant("gzip -d", ["gzip", "-dc", packed]),
            Contestant("pigz -d", ["pigz", "-dc", packed]),
            Contestant("Python tarfile", ["python3", "-c", READ_ALL.replace("r|", "r|gz"), packed]),
            Contestant("igzip -d (floor)", ["igzip", "-dc", packed]),
            Contestant("tarcat", [bench.tool("tarcat"), packed]),
        ],
        [Bar("tarcat", "gzip -d", 1.5)],
        headline="tarcat",
        size=tar,
    )


def writing(bench, name, tar):
    tarcat = bench.tool("tarcat")
    bench.compare(
        f"write {name} as a .tar.gz, two threads",
        [
            Contestant("gzip -6", ["gzip", "-6", "-c", tar]),
            Contestant("pigz -p 2", ["pigz", "-6", "-p", "2", "-c", tar]),
            Contestant("igzip (floor)", ["igzip", "-c", tar]),
            Contestant("tarcat -z", [tarcat, "-p", "2", "-z", tar]),
            Contestant("tarcat --compress zstd", [tarcat, "-p", "2", "--compress", "zstd", tar]),
        ],
        [Bar("tarcat -z", "gzip -6", 1.0), Bar("tarcat -z", "pigz -p 2", 1.0, "wall")],
        headline="tarcat -z",
        size=tar,
    )
    for codec, most in (("gzip", 1.02), ("zstd", 1.02)):
        left, theirs = (packed_size(command) for command in (f"{tarcat} --compress {codec} {tar}", f"{codec} -c {tar}"))
        share = left / os.path.getsize(tar)
        bench.expect(name, f"{codec} leaves {share:.1%} of them, {left / theirs:.3f} x {codec}'s own, at most {most}", left <= most * theirs)


def packed_size(command):
    """How many bytes a command writes."""
    return int(os.popen(f"{command} | wc -c").read())


def resharding(bench, python, name, tar, packed):
    out = tempfile.mkdtemp(dir=bench.cache)
    try:
        theirs = RESHARD.replace("%06d.tar", "%06d.tar.gz")
        bench.compare(
            f"reshard {name}, .tar.gz to .tar.gz",
            [
                Contestant("webdataset", [python, "-c", theirs, packed, out]),
                Contestant("tarsplit", [bench.tool("tarsplit"), "-n", "1000", "-o", f"{out}/o-%06d.tar.gz", packed]),
            ],
            [Bar("tarsplit", "webdataset", 1.5)],
            headline="tarsplit",
            size=tar,
        )
    finally:
        shutil.rmtree(out)
