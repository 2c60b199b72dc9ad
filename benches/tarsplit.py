"""tarsplit against webdataset's ShardWriter, with cat as the floor."""

import shutil
import tempfile

from measure import Bar, Contestant
from tarcat import large_members

RESHARD = """
import sys, webdataset
with webdataset.ShardWriter(sys.argv[2] + "/w-%06d.tar", maxcount=1000, encoder=False, verbose=0) as out:
    for sample in webdataset.WebDataset(sys.argv[1], shardshuffle=False):
        sample.pop("__url__", None)
        sample.pop("__local_path__", None)
        out.write(sample)
"""


def run(bench):
    count = 1_000 if bench.quick else 10_000
    big = bench.made(f"large-{count}.tar", large_members(count, 100_000))
    out = tempfile.mkdtemp(dir="/dev/shm")
    python = bench.python("webdataset")
    try:
        bench.compare(
            f"reshard {count:,} samples of 100 KB, on tmpfs",
            [
                Contestant("cat (floor)", f"cat {big} > {out}/copy"),
                Contestant("webdataset", [python, "-c", RESHARD, big, out]),
                Contestant("tarsplit", [bench.tool("tarsplit"), "-n", "1000", "-o", f"{out}/o-%06d.tar", big]),
            ],
            [Bar("tarsplit", "webdataset", 2.0)],
            items=count,
            unit="samples",
            headline="tarsplit",
            size=big,
        )
    finally:
        shutil.rmtree(out)
