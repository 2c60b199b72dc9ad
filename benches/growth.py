"""Cost per sample and memory as the input grows, which should both stay constant; and the speed-up of -p."""

import json
import pathlib
import shutil
import tempfile
from dataclasses import dataclass

import fetch as web
import tarproc as corpora
import tarresize as photographs
import tarvideo as videos
from measure import Contestant

SIZES = (1, 4, 16)


@dataclass
class Growing:
    """A tool, its input and its flags."""

    name: str
    count: int  # samples at the smallest size
    command: object  # from the corpus to a command
    corpus: object  # from a count to what the command is made of
    prepare: object = None


def run(bench):
    # In memory, because write-back to a disk counts as the writer's time and varies from run to run.
    place = "/dev/shm" if pathlib.Path("/dev/shm").is_dir() else None
    folder = pathlib.Path(tempfile.mkdtemp(prefix="growth-", dir=place))
    try:
        samples = lambda count: bench.made(f"growth-{count}.tar", corpora.samples(count, 2_000))
        grow(bench, "growth of what reads from disk", list(filters(bench, samples, folder)))
        with web.nginx(bench, bench.made("pictures-8000", web.pictures(8_000, 51_200))) as servers:
            grow(bench, "growth of what is fetched", [fetching(bench, servers.plain)])
        spread(bench, samples)
    finally:
        shutil.rmtree(folder)


def filters(bench, samples, folder):
    """Every tool that reads a stream or a table from disk."""
    tool, out = bench.tool, folder / "out"
    clean = lambda: (shutil.rmtree(out, ignore_errors=True), out.mkdir())
    yield Growing("tarcat", 5_000, lambda path: [tool("tarcat"), path], samples)
    yield Growing("tarcat --select", 5_000, lambda path: [tool("tarcat"), "--select", "key != ''", path], samples)
    yield Growing("tarcat --shuffle", 5_000, lambda path: [tool("tarcat"), "--shuffle", "1000", path], samples)
    yield Growing("tarsplit", 5_000, lambda path: [tool("tarsplit"), "-n", "1000", "-o", f"{out}/{{shard:05}}.tar", path], samples, clean)
    yield Growing("tarsort --memory 16M", 5_000, lambda path: [tool("tarsort"), "--memory", "16M", path], samples)
    yield Growing("tarcheck", 5_000, lambda path: [tool("tarcheck"), path], samples)
    yield Growing("tarshow --csv", 5_000, lambda path: [tool("tarshow"), "--csv", "-f", "json.width", path], samples)
    yield Growing("tarproc -c true", 150, lambda path: [tool("tarproc"), "-p", "1", "-c", "true", path, "-o", "-"], samples)
    yield Growing("tarproc --each cat", 150, lambda path: [tool("tarproc"), "-p", "1", "--each", "jpg", "-c", "cat", path, "-o", "-"], samples)
    dataset = lambda path: f"{tool('tarcat')} --rekey '{{index:09}}' {path} | {tool('tardataset')} -n 10000 -o {out}/set"
    yield Growing("tarcat | tardataset", 5_000, dataset, samples, clean)
    table = lambda count: bench.made(f"growth-{count}.jsonl", rows(count))
    yield Growing("tarcreate", 5_000, lambda path: [tool("tarcreate"), "--key", "{index:09}", path, "-o", "-"], table)
    yield Growing("urlcat", 200_000, lambda path: [tool("urlcat"), path], table)
    python = bench.python("pillow", "opencv-python-headless", "numpy")
    if python:
        photos = lambda count: photographs.archive(bench, python, count, 480, 400, 99)
        yield Growing("tarresize -p 1", 60, lambda path: [tool("tarresize"), "-p", "1", "-s", "256", path, "-o", "-"], photos)
    if bench.has("ffmpeg"):
        clips = lambda count: bench.made(f"clips-{count}.tar", videos.clips(count))
        yield Growing("tarvideo -p 1", 2, lambda path: [tool("tarvideo"), "-p", "1", "--scale", "180", path, "-o", "-"], clips)
    run = folder / "run"
    items = lambda count: [tool("shardrun"), "-q", "--run", str(run), "-j", "2", "-n", str(count), "true"]
    yield Growing("shardrun -j 2", 100, items, lambda count: count, lambda: shutil.rmtree(run, ignore_errors=True))


def rows(count):
    """A table as urlcat meets it."""
    line = lambda i: json.dumps({"url": f"https://cdn{i % 997}.example.com/{i:09}.jpg", "caption": f"thing {i}", "width": i % 1000})
    return lambda path: path.write_text("".join(line(i) + "\n" for i in range(count)))


def fetching(bench, base):
    def urls(count):
        path = bench.cache / f"growth-urls-{count}.txt"
        path.write_text("".join(f"{base}/{i:05}.jpg\n" for i in range(count)))
        return str(path)

    command = lambda path: [bench.tool("fetch"), "-j", "64", "--per-host", "64", "--allow-private", path]
    return Growing("fetch -j 64", 500, command, urls)


def grow(bench, title, tools):
    """Runs each tool at each size; the tools of a list share one chart."""
    rows = {}
    for tool in tools:
        counts = {size: tool.count * size for size in SIZES}
        contestants = [Contestant(f"{size} x", tool.command(tool.corpus(counts[size])), prepare=tool.prepare) for size in SIZES]
        found = bench.compare(f"{tool.name}: {tool.count:,} samples, and 4 and 16 times as many", contestants)
        bench.results.pop()
        for size in SIZES:
            row = found[f"{size} x"]
            rows[f"{tool.name}, {counts[size]:,}"] = {**row, "line": tool.name, "at": size, "items": counts[size]}
    bench.record(title, rows, curve="times the smallest input")
    for tool in tools:
        judge(bench, tool.name, [row for row in rows.values() if row["line"] == tool.name])


def judge(bench, name, points):
    """Compares 4 and 16 times the input: start-up is negligible there, and growth is visible."""
    _, middle, large = points
    cost = (large["cpu"] / large["items"]) / (middle["cpu"] / middle["items"])
    bench.expect(name, f"{name}: a sample of 16 x costs {cost:.2f} x one of 4 x, bar 1.25", cost <= 1.25)
    more = (large["rss"] - middle["rss"]) / 1024
    bench.expect(name, f"{name}: {more:+.1f} MB from 4 x to 16 x, bar 4 MB and a tenth", more <= 4 + middle["rss"] / 10240)


def spread(bench, samples):
    """-p 1, 2 and 4 on this machine's cores."""
    tarproc, small = bench.tool("tarproc"), samples(600)
    burn = "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done"
    ways = {"tarproc, a busy shell": [tarproc, "-c", burn, small, "-o", "-"]}
    python = bench.python("pillow", "opencv-python-headless", "numpy")
    if python:
        ways["tarresize"] = [bench.tool("tarresize"), "-s", "256", photographs.archive(bench, python, 240, 480, 400, 99), "-o", "-"]
    for name, command in ways.items():
        bench.compare(f"{name}: -p 1, 2 and 4", [Contestant(f"-p {p}", [*command, "-p", str(p)]) for p in (1, 2, 4)])
