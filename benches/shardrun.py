"""shardrun on this machine against xargs and GNU parallel, and its own limits on planning and status. The engines: engines.py."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

from measure import Bar, Contestant


def no_ops(bench, shardrun, folder, count):
    """The same bash commands, two at a time."""
    if not shutil.which("parallel"):
        subprocess.run(["apt-get", "install", "-y", "-qq", "parallel"], check=True, stdout=subprocess.DEVNULL)
    run = folder / "no-ops"
    bench.compare(
        f"{count:,} no-op items, two at a time",
        [
            Contestant("xargs -P2 (floor)", f"seq {count} | xargs -P2 -n1 bash -c true"),
            Contestant("GNU parallel -j2", f"seq {count} | parallel -j2 -n1 bash -c true"),
            Contestant("shardrun -j 2", [shardrun, "--run", run, "-j", "2", "-n", str(count), "true"],
                       prepare=lambda: shutil.rmtree(run, ignore_errors=True)),
        ],  # fmt: skip
        [
            Bar("shardrun -j 2", "xargs -P2 (floor)", 0.7, "wall"),
            Bar("shardrun -j 2", "xargs -P2 (floor)", 0.7),
            Bar("shardrun -j 2", "GNU parallel -j2", 1.0, "wall"),
        ],
        items=count,
        unit="items",
        headline="shardrun -j 2",
    )


def planning(bench, shardrun, folder):
    """Half a million names: found, checked, listed, cut into tasks and written down."""
    names = folder / "names"
    names.write_text("".join(f"s3://bucket/some/longer/prefix/train-{i:07}.tar\n" for i in range(500_000)))
    run = folder / "planned"
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    # A site whose arrays hold as many tasks as Slurm allows; it takes what it is given.
    (programs / "scontrol").write_text("#!/bin/sh\necho 'MaxArraySize = 4000001'\n")
    (programs / "sbatch").write_text("#!/bin/sh\ncat > /dev/null; echo 1\n")
    for program in programs.iterdir():
        program.chmod(0o755)
    flags = ["--on", "slurm", "--chunk", "10", "--run", run, "-T", names, "-o", f"{folder}/out/{{base}}.tar", "tarcat {}"]
    rows = bench.compare(
        "planning 500,000 items for Slurm",
        [
            Contestant("shardrun", [shardrun, "-q", *map(str, flags)], env={"PATH": f"{programs}:{os.environ['PATH']}"},
                       prepare=lambda: shutil.rmtree(run, ignore_errors=True)),
        ],  # fmt: skip
    )
    row = rows["shardrun"]
    bench.expect("planning", f"{row['wall']:.2f} s, bar 2", row["wall"] < 2)
    bench.expect("planning", f"{row['rss'] / 1024:.0f} MB, bar 200", row["rss"] < 200 * 1024)


def status(bench, shardrun, folder):
    """A run of 100,000 items with a full job log."""
    run = folder / "large"
    subprocess.run([shardrun, "--run", run, "-n", "100000", "--max-failures", "0", "-j", "1", "false"], stderr=subprocess.DEVNULL)
    log = next((run / "log").iterdir())
    with log.open("w") as out:
        for i in range(100_000):
            line = {"item": i, "shard": str(i), "state": "done" if i % 100 else "failed", "host": "n1", "start": 1.7e9 + i,
                    "seconds": 1.5, "bytes": 12345, "samples": 100, "attempts": 1, "exit": 0 if i % 100 else 1,
                    "code": None if i % 100 else "exit_status", "message": None}  # fmt: skip
            out.write(json.dumps(line) + "\n")
    rows = bench.compare("status of 100,000 items", [Contestant("shardrun status", [shardrun, "status", run])])
    wall = rows["shardrun status"]["wall"]
    bench.expect("status", f"{wall:.2f} s, bar 1", wall < 1)


def run(bench):
    shardrun = bench.tool("shardrun")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="shardrun-bench-"))
    try:
        no_ops(bench, shardrun, folder, 300 if bench.quick else 1_000)
        planning(bench, shardrun, folder)
        status(bench, shardrun, folder)
    finally:
        shutil.rmtree(folder)
