"""The pipelines under test. Each writes shards below `out` and is resumed by running it again."""

import shutil
from dataclasses import dataclass, field

NETWORK = ["cut", "away"]
SIGNALS = ["kill", "killall", "term", "termall"]
LOCAL = [*SIGNALS, "readonly", "disk", "short", "fds", "procs", "pids"]


@dataclass
class Pipeline:
    name: str
    stages: object  # place -> a list of command lines
    inner: list = field(default_factory=list)  # our tools that a stage starts
    faults: list = field(default_factory=lambda: LOCAL)
    needs: str = ""  # a program that must be there
    rows: list = field(default_factory=list)  # stages whose output has no end mark: JSON lines
    stored: bool = False  # in an object store, not in `out`
    alone: str = ""  # an archive of the corpus: each of its samples has the result that it has alone

    def tools(self, place):
        return [words[0] for words in self.stages(place)] + self.inner


def fetch(place):
    report = ["--report", place.side / "report.jsonl"]
    return [
        ["urlcat", place.corpus / "urls.csv"],
        ["fetch", "-j", 8, "--allow-private", "--retries", 3, "--retry-wait", "100ms", *report],
        ["tarresize", "-s", 32, "-p", 2],
        ["tarsplit", "-n", 9, "-o", place.out / "{shard:03}.tar"],
    ]


def proc(place):
    command = "tr a-j A-J < sample.txt > sample.up.txt; rm sample.json"
    return [
        ["tarcat", place.corpus / "in" / "{0..1}.tar"],
        ["tarproc", "-p", 2, "--tmpdir", place.tmp, "-c", command, "-o", "-"],
        ["tarsplit", "-n", 7, "--index", "--stats", "-o", place.out / "{shard:03}.tar"],
    ]


def each(place):
    return [
        ["tarcat", "--shuffle", 20, "--seed", 5, place.corpus / "in" / "{2..3}.tar"],
        ["tarproc", "-p", 2, "--tmpdir", place.tmp, "--each", "txt:up.txt", "-c", "tr a-j A-J", "-o", "-"],
        ["tarsplit", "-s", "40K", "-z", "-o", place.out / "{shard:03}.tar.gz"],
    ]


def worker(place):
    python = shutil.which("python3", path="/usr/bin:/bin") or "python3"
    return [
        ["tarcat", place.corpus / "in" / "{0..2}.tar"],
        ["tarproc", "-p", 2, "--tmpdir", place.tmp, "--worker", f"{python} {place.here / 'worker.py'}", "-o", "-"],
        ["tarsplit", "--shards", 5, "-o", place.out / "{shard:03}.tar"],
    ]


def http(place):
    return [
        ["tarcat", f"http://127.0.0.1:{place.web_port}/{{0..5}}.tar"],
        ["tarsplit", "--by-hash", "train=0.7,val=0.3", "-n", 10, "-o", place.out / "{split}-{shard:03}.tar"],
    ]


def shards(place):
    command = "tr a-j A-J < sample.txt > sample.up.txt"
    # An item is done when its pipeline ends well, so samples that are lost to a full disk must not count as that.
    tarproc = f"tarproc -p 2 --max-failures 0 --tmpdir {place.tmp} -c '{command}' -o -"
    pipeline = f"tarcat {place.corpus}/in/{{}}.tar | {tarproc}"
    return [["shardrun", "--run", place.side / "run", "-n", 6, "-j", 2, "-o", place.out / "{:03}.tar", pipeline]]


def sort(place):
    return [
        ["tarcat", place.corpus / "in" / "{0..5}.tar"],
        ["tarsort", "--shuffle", "--memory", "64K", "--tmpdir", place.tmp, "-o", place.out / "sorted.tar"],
    ]


def create(place):
    return [
        ["tarcreate", "--dir", place.corpus / "files", "--memory", "4K", "--tmpdir", place.tmp],
        ["tarsplit", "-n", 16, "--compress", "zstd", "-o", place.out / "{shard:03}.tar.zst"],
    ]


def photos(place):
    return [
        ["tarcat", place.corpus / "photos.tar"],
        ["tarresize", "-s", 10, "-p", 2],
        ["tarsplit", "-n", 5, "-o", place.out / "{shard:03}.tar"],
    ]


def video(place):
    return [
        ["tarcreate", "--dir", place.corpus / "videos"],
        ["tarvideo", "-p", 2, "--tmpdir", place.tmp, "--scale", 24, "--frames", "2"],
        ["tarsplit", "-n", 2, "-o", place.out / "{shard:03}.tar"],
    ]


def store(place):
    return [
        ["tarcat", place.corpus / "large.tar"],
        ["tarsplit", "-s", "9M", "-o", "s3://test/faults/{shard:03}.tar"],
    ]


ALL = [
    Pipeline("fetch", fetch, faults=LOCAL + NETWORK, rows=["urlcat"]),
    Pipeline("proc", proc),
    Pipeline("each", each),
    Pipeline("worker", worker),
    Pipeline("http", http, faults=[*LOCAL, *NETWORK, "change"]),
    Pipeline("shardrun", shards, inner=["tarcat", "tarproc"]),
    Pipeline("sort", sort),
    Pipeline("create", create),
    Pipeline("photos", photos, alone="photos.tar"),
    Pipeline("video", video, needs="ffmpeg"),
    Pipeline("store", store, faults=[*SIGNALS, "short", "fds", "procs", *NETWORK], stored=True),
]
