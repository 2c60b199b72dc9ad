"""Runs contestants in turn and compares them."""

import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from dataclasses import dataclass, field


PATH = os.environ["PATH"] + ":/usr/sbin"  # nginx lives there


@dataclass
class Contestant:
    """A command to measure: a list of words, or a string for bash."""

    name: str
    command: object
    stdin: object = None
    env: dict = field(default_factory=dict)
    prepare: object = None  # called before each run, not measured
    less: str = None  # a contestant that only starts: its time is subtracted
    share: float = 1.0  # of its work; the times shown are those of the whole


@dataclass
class Bar:
    """`ours` must be at least `least` times as fast as `peer`."""

    ours: str
    peer: str
    least: float
    measure: str = "cpu"  # or "wall"


class Bench:
    """Shared parts of the benches: folders, corpora, comparisons."""

    def __init__(self, root, tools, quick, rounds):
        self.root, self.tools, self.quick, self.rounds = root, tools, quick, rounds
        self.cache = pathlib.Path(os.environ.get("TARPIPE_BENCH_CACHE", root / "target" / "bench"))
        self.cache.mkdir(parents=True, exist_ok=True)
        self.results, self.missed = [], []

    def tool(self, name):
        """The release binary of one of our tools."""
        return str(self.tools / name)

    def made(self, name, make):
        """Returns a cached file; `make(path)` creates it if it does not exist."""
        path = self.cache / name
        if not path.exists():
            part = path.with_name(path.name + ".part")
            make(part)
            part.rename(path)
        return str(path)

    def check(self, command):
        """Runs a command that makes a corpus."""
        subprocess.run([str(word) for word in command], check=True)

    def python(self, *packages):
        """Returns a Python with these packages, or None if they cannot be installed."""
        home = self.cache / "venv"
        if not home.exists():
            venv.create(home, with_pip=True)
        binary = str(home / "bin" / "python")
        install = [binary, "-m", "pip", "install", "--quiet", *packages]
        return binary if subprocess.run(install, stdout=subprocess.DEVNULL).returncode == 0 else None

    def has(self, program, package=None):
        """Returns whether a peer is available; installs its Debian package if necessary, and reports if that fails."""
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", package or program]
        if shutil.which(program, path=PATH) or subprocess.run(install, stdout=subprocess.DEVNULL).returncode == 0:
            return True
        print(f"  ({program} cannot be installed: left out)")
        return False

    def compare(self, title, contestants, bars=(), items=None, unit="items", headline=None, size=None):
        """Runs the contestants in turn and prints medians and ratios. `headline` names the contestant whose
        ratios to all others appear in the README; `size` is the input size in bytes,
        or the input file."""
        size = os.path.getsize(size) if isinstance(size, str) else size
        runs = {contestant.name: [] for contestant in contestants}
        for _ in range(self.rounds):
            for contestant in contestants:
                runs[contestant.name].append(run_once(contestant))
        print(f"\n{title} ({self.rounds} rounds{f', {size / 1e6:,.1f} MB each' if size else ''})")
        amounts = [(items, unit), (size and size / 1e6, "MB")]
        rows = adjusted(contestants, {name: summarise(samples) for name, samples in runs.items()})
        for name, row in rows.items():
            rate = "".join(f"  {amount / row['cpu']:10,.0f} {what}/CPU s" for amount, what in amounts if amount and row["cpu"] > 0)
            print(
                f"  {name:<28} wall {row['wall']:8.3f} s (±{row['spread']:.0%})"
                f"  CPU {row['cpu']:8.3f} s  RSS {row['rss'] / 1024:7.1f} MB{rate}"
            )
        self.record(title, rows, items, unit, headline, size=size)
        for bar in bars:
            self.judge(title, rows, bar)
        sys.stdout.flush()
        return rows

    def record(self, title, rows, items=None, unit="items", headline=None, curve=None, size=None):
        """Records a comparison; `curve` names the x axis if its rows are points of a curve."""
        self.results.append({
            "title": title, "rounds": self.rounds, "quick": self.quick, "items": items, "unit": unit,
            "size": size, "headline": headline, "curve": curve, "rows": rows, "bars": [],
        })

    def judge(self, title, rows, bar):
        ratio = lambda name: rows[bar.peer][bar.measure] / max(rows[name][bar.measure], 1e-9)
        text = f"{bar.ours} is {ratio(bar.ours):.2f} x {bar.peer} ({bar.measure}), bar {bar.least}"
        # Floors and partial contestants are shown too, for the distance to the bar.
        beside = [name for name in rows if name.startswith(f"{bar.ours}, ") or "(floor)" in name and name != bar.peer]
        text += "".join(f"; {name}: {ratio(name):.2f} x" for name in beside)
        self.expect(title, text, ratio(bar.ours) >= bar.least)

    def expect(self, title, text, met):
        """Prints a bar, and records it if it is missed."""
        print(f"    {'ok    ' if met else 'MISSED'} {text}", flush=True)
        if self.results:
            self.results[-1]["bars"].append({"text": text, "met": met})
        if not met:
            self.missed.append(f"{title}: {text}")


def run_once(contestant):
    """Wall and CPU seconds and peak memory of one run, its children included.

    GNU time starts the command, because a child's peak memory starts with its parent's.
    """
    if contestant.prepare:
        contestant.prepare()
    words = contestant.command
    if isinstance(words, str):
        words = ["bash", "-o", "pipefail", "-c", words]
    stdin = open(contestant.stdin, "rb") if contestant.stdin else subprocess.DEVNULL
    with tempfile.NamedTemporaryFile("r") as figures:
        words = ["/usr/bin/time", "-q", "-o", figures.name, "-f", "%U %S %M", *words]
        started = time.monotonic()
        done = subprocess.run(words, stdin=stdin, stdout=subprocess.DEVNULL, env={**os.environ, "TARPIPE_FORCE": "1", **contestant.env})
        wall = time.monotonic() - started
        if done.returncode != 0:
            sys.exit(f"bench: {contestant.name} failed with exit status {done.returncode}: {contestant.command}")
        user, system, rss = figures.read().split()
    return {"wall": wall, "cpu": float(user) + float(system), "rss": int(rss)}


def summarise(samples):
    walls = [sample["wall"] for sample in samples]
    wall = statistics.median(walls)
    return {
        "wall": wall,
        "best": min(walls),
        "spread": (max(walls) - min(walls)) / 2 / wall,
        "cpu": statistics.median(sample["cpu"] for sample in samples),
        "rss": max(sample["rss"] for sample in samples),
    }


def adjusted(contestants, rows):
    """Without the start of a program where another was measured doing just that, and for the whole of the work."""
    for contestant in contestants:
        row, less = rows[contestant.name], rows.get(contestant.less)
        for figure in ("wall", "cpu"):
            row[figure] = (row[figure] - (less[figure] if less else 0)) / contestant.share
    return rows
