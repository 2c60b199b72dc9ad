"""shardrun's cost of an item on Slurm, Spark and Ray against the bare engine starting the same command.

What an engine takes to start a run is left out: the cost of an item is the difference between a run of many
items and a run of few, divided by their number. The engines are those of `tests/engines/install`.
"""

import contextlib
import os
import pathlib
import statistics
import subprocess
import tempfile

import measure

LIMIT = 1.2
FEW = 8

# The engine's own way to run `bash -c true` N times.
BARE_SPARK = """
import subprocess, sys
from pyspark import SparkConf, SparkContext
context = SparkContext(conf=SparkConf().set("spark.ui.showConsoleProgress", "false").set("spark.log.level", "ERROR"))
context.parallelize(range(int(sys.argv[1])), int(sys.argv[1])).foreach(lambda _: subprocess.run(["bash", "-c", "true"], check=True) and None)
context.stop()
"""
BARE_RAY = """
import subprocess, sys, ray
ray.init(log_to_driver=False, logging_level="ERROR")
@ray.remote
def work():
    subprocess.run(["bash", "-c", "true"], check=True)
ray.get([work.remote() for _ in range(int(sys.argv[1]))])
"""
# Both ways of Slurm end when the queue is empty: sbatch --wait looks only every ten seconds.
EMPTY = 'until [ -z "$(squeue -h)" ]; do sleep 0.1; done'


# How many items, flags of shardrun, the program of the bare engine and what runs it. Ray's items are so short that few
# of them would drown in the noise of its start.
DRIVEN = {
    "Spark": (600, "--on spark --launcher python --master $SPARK_MASTER", BARE_SPARK, "spark-submit --master $SPARK_MASTER"),
    "Ray": (5000, "--on ray --launcher python", BARE_RAY, "$enter python"),
}


def run(bench):
    with tempfile.TemporaryDirectory(prefix="tarpipe-bench-") as work:
        slurm(bench, pathlib.Path(work))
        for name, parts in DRIVEN.items():
            driven(bench, pathlib.Path(work), name, *parts)


def slurm(bench, work):
    """An array of `true`. There is room for 48 at once: with few places most of the time is Slurm's own, which waits for a
    second now and then before it gives a place away again, and 200 items take 15 or 30 seconds by chance."""
    ours = lambda n: shardrun(bench, work, n, "--on slurm") + EMPTY
    bare = lambda n: f"cd {work}; sbatch -Q --array=0-{n - 1} -o /dev/null --wrap true; {EMPTY}"
    with engine(bench, "slurm", 3, 16) as environment:
        compare(bench, "Slurm", 1000, environment, ours, bare)


def driven(bench, work, name, many, flags, program, launcher):
    """`foreach` of Spark, a remote function of Ray."""
    (work / f"{name}.py").write_text(program)
    ours = lambda n: shardrun(bench, work, n, flags)
    bare = lambda n: f"{launcher} {work}/{name}.py {n}"
    with engine(bench, name.lower(), installed(bench, name.lower())) as environment:
        compare(bench, name, many, environment, ours, bare)


def shardrun(bench, work, n, flags):
    return f"cd {work}; rm -rf run; $enter {bench.tool('shardrun')} -q {flags} --run run -n {n} true; "


def installed(bench, name):
    """Where tests/engines/install has put an engine."""
    return pathlib.Path(os.environ.get("TARPIPE_ENGINES", bench.root / "target" / "engines")) / name


@contextlib.contextmanager
def engine(bench, name, *words):
    """An engine at work: the command that sets its environment; None where it is not installed."""
    control = str(bench.root / "tests" / "engines" / name)
    if not (bench.has("sbatch") if name == "slurm" else words[0].exists()):
        print(f"  ({name} is not installed: left out; tests/engines/install has it)")
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="tarpipe-bench-") as home:
        try:
            subprocess.run([control, "up", home, *map(str, words)], check=True)
            yield f"enter=; . {home}/env; "
        finally:
            subprocess.run([control, "down", home], check=True)


def compare(bench, title, many, environment, ours, bare):
    """Prints the seconds that an item costs both ways, and whether ours is within the limit."""
    if environment is None:
        return
    many = many // 5 if bench.quick else many
    walls = {(name, n): [] for name in ("shardrun", "bare") for n in (FEW, many)}
    for _ in range(bench.rounds):
        for (name, n), found in walls.items():
            command = {"shardrun": ours, "bare": bare}[name](n)
            found.append(measure.run_once(measure.Contestant(name, environment + command))["wall"])
    cost = {pick.__name__: per_item(pick, walls, many) for pick in (statistics.median, min)}
    print(f"\n{title}: an item of {many} ({bench.rounds} rounds)")
    for name in ("shardrun", "bare"):
        print(f"  {name:<28} {cost['median'][name] * 1000:8.2f} ms, {cost['min'][name] * 1000:8.2f} by the quickest rounds")
    rows = {name: {"wall": wall, "best": cost["min"][name], "spread": 0, "cpu": 0, "rss": 0} for name, wall in cost["median"].items()}
    bench.record(f"{title}: wall time of an item of {many}", rows)
    ratio, best = (found["shardrun"] / max(found["bare"], 1e-9) for found in cost.values())
    bench.expect(title, f"an item costs {ratio:.2f} x the bare engine's ({best:.2f} by the quickest rounds), at most {LIMIT}", ratio <= LIMIT)


def per_item(pick, walls, many):
    """Seconds that an item costs each way, by the medians of its rounds or by another pick of them."""
    found = {run: pick(rounds) for run, rounds in walls.items()}
    return {name: (found[name, many] - found[name, FEW]) / (many - FEW) for name in ("shardrun", "bare")}
