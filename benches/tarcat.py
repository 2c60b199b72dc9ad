"""tarcat against cat, GNU tar and Python's tarfile."""

import io
import random
import tarfile

from measure import Bar, Contestant


def large_members(count, size):
    """An archive of members that no codec shrinks."""

    def make(path):
        block = random.Random(1).randbytes(size)
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
            for i in range(count):
                info = tarfile.TarInfo(f"sample{i:07}.jpg")
                info.size = size
                archive.addfile(info, io.BytesIO(block))

    return make


def tiny_members(count):
    def make(path):
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
            for i in range(count):
                data = str(i).encode()
                info = tarfile.TarInfo(f"sample{i // 2:07}.{'cls' if i % 2 else 'txt'}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))

    return make


READ_ALL = """
import sys, tarfile
with tarfile.open(sys.argv[1], "r|") as archive:
    for member in archive:
        archive.extractfile(member).read()
"""


def run(bench):
    tarcat = bench.tool("tarcat")
    count = 1_000 if bench.quick else 10_000
    big = bench.made(f"large-{count}.tar", large_members(count, 100_000))
    bench.compare(
        f"copy {count:,} members of 100 KB, file to /dev/null",
        [Contestant("cat (floor)", ["cat", big]), Contestant("tarcat", [tarcat, big])],
        [Bar("tarcat", "cat (floor)", 0.8, "wall"), Bar("tarcat", "cat (floor)", 0.8)],
        items=count,
        unit="members",
        headline="tarcat",
        size=big,
    )
    bench.compare(
        f"copy {count:,} members of 100 KB, pipe to pipe",
        [
            Contestant("cat (floor)", f"cat {big} | cat | cat >/dev/null"),
            Contestant("tarcat", f"cat {big} | {tarcat} | cat >/dev/null"),
        ],
        [Bar("tarcat", "cat (floor)", 0.8, "wall")],
        size=big,
    )
    tiny = bench.made("tiny-100000.tar", tiny_members(100_000))
    bench.compare(
        "copy 100,000 tiny members",
        [
            Contestant("tar -t", ["tar", "-tf", tiny]),
            Contestant("Python tarfile", ["python3", "-c", READ_ALL, tiny]),
            Contestant("cat (floor)", ["cat", tiny]),
            Contestant("tarcat", [tarcat, tiny]),
        ],
        [Bar("tarcat", "Python tarfile", 5.0), Bar("tarcat", "tar -t", 1.0)],
        items=100_000,
        unit="members",
        headline="tarcat",
        size=tiny,
    )
    rows = bench.compare(
        "peak memory",
        [
            Contestant("tarcat, streaming", [tarcat, big]),
            Contestant("tarcat, through memory", [tarcat, "--select", "key.startsWith('sample')", big]),
            Contestant("tarcat, tiny members", [tarcat, tiny]),
        ],
    )
    for name, row in rows.items():
        bench.expect("peak memory", f"{name}: {row['rss'] / 1024:.1f} MB, bar 32 MB", row["rss"] < 32 * 1024)
    rows = bench.compare(
        "start-up, 100 times",
        [
            Contestant("/bin/true (for scale)", "for i in {1..100}; do /bin/true; done"),
            Contestant("tarcat --version", f"for i in {{1..100}}; do {tarcat} --version; done"),
        ],
    )
    each = rows["tarcat --version"]["best"] * 10
    bench.expect("start-up", f"tarcat --version takes {each:.1f} ms, bar 5 ms", each < 5)
