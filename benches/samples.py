"""tarpipe.samples in Python against webdataset: the same shards, read to the end in one process."""

import os

import tarproc
from measure import Bar, Contestant

OURS = """
import sys
import tarpipe
for _ in range(int(sys.argv[1])):
    for sample in tarpipe.samples(sys.argv[2:]):
        pass
"""
THEIRS = """
import sys
import webdataset
for _ in range(int(sys.argv[1])):
    for sample in webdataset.WebDataset(sys.argv[2:], shardshuffle=False):
        pass
"""
PIPELINE = """
import sys
import tarpipe
for _ in range(int(sys.argv[1])):
    for sample in tarpipe.samples(pipeline=f"tarcat {sys.argv[2]}"):
        pass
"""


def run(bench):
    python = bench.python("webdataset")
    if python is None:
        print("  (no webdataset to compare with: left out)")
        return
    for count, size, times in [(10_000, 100, 5), (2_000, 100_000, 5)]:
        times = 1 if bench.quick else times
        shard = str(bench.made(f"samples-{count}-{size}.tar", tarproc.samples(count, size)))
        compare(bench, python, shard, count, times, f"{count:,} samples of 3 fields, {size:,} bytes of image")


def compare(bench, python, shard, count, times, title):
    env = {"PYTHONPATH": str(bench.root / "python"), "PATH": f"{bench.tools}:{os.environ['PATH']}"}
    contestants = []
    for name, program in [("tarpipe.samples", OURS), ("webdataset", THEIRS), ("tarpipe.samples, by a pipeline", PIPELINE)]:
        start = f"start-up of {name} (taken off)"
        contestants.append(Contestant(start, [python, "-c", program, "0", shard], env=env))
        contestants.append(Contestant(name, [python, "-c", program, str(times), shard], env=env, less=start))
    bars = [Bar("tarpipe.samples", "webdataset", 3.0, measure) for measure in ("wall", "cpu")]
    bench.compare(title, contestants, bars, count * times, "samples", "tarpipe.samples", os.path.getsize(shard) * times)
