"""tarsort against sqlite, which tarproc sorted with, and GNU sort on the bare keys.

tarp's own sort needs Go and its modules; where `tarp` is on the PATH it takes part.
"""

import io
import random
import shutil
import tarfile
import tempfile

from measure import Bar, Contestant

# Members into a table, and back in the order of their keys.
SQLITE = """
import io, os, sqlite3, sys, tarfile
source, database = sys.argv[1:]
if os.path.exists(database):
    os.remove(database)
db = sqlite3.connect(database)
db.execute("create table members (key text, name text, data blob)")
with tarfile.open(source, "r|") as archive:
    for member in archive:
        key = member.name.split(".")[0]
        db.execute("insert into members values (?, ?, ?)", (key, member.name, archive.extractfile(member).read()))
db.execute("create index keys on members (key)")
db.commit()
with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as out:
    for name, data in db.execute("select name, data from members order by key, rowid"):
        info = tarfile.TarInfo(name)
        info.size = len(data)
        out.addfile(info, io.BytesIO(data))
os.remove(database)
"""

# A stream of samples of 100 kB with keys in no order, as fast as Python can.
STREAM = """
import random, sys, tarfile
count = int(sys.argv[1])
data = random.Random(1).randbytes(99_840)
numbers = list(range(count))
random.Random(2).shuffle(numbers)
out = sys.stdout.buffer
for number in numbers:
    info = tarfile.TarInfo(f"train/{number:09}.jpg")
    info.size = len(data)
    out.write(info.tobuf(tarfile.USTAR_FORMAT) + data)
out.write(bytes(10_240))
"""


def unordered(count, size):
    """Samples of a picture and a class, with keys in no order."""

    def make(path):
        block = random.Random(1).randbytes(size)
        numbers = list(range(count))
        random.Random(2).shuffle(numbers)
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
            for number in numbers:
                for field, data in [("jpg", block), ("cls", str(number % 1000).encode())]:
                    info = tarfile.TarInfo(f"train/{number:09}.{field}")
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))

    return make


def run(bench):
    tarsort = bench.tool("tarsort")
    count = 2_000 if bench.quick else 10_000
    for count, size in [(count, 50_000), (5 * count, 1_000)]:
        compare(bench, tarsort, count, size)
    stream(bench, tarsort)


def compare(bench, tarsort, count, size):
    source = bench.made(f"unordered-{count}-{size}.tar", unordered(count, size))
    keys = bench.made(f"unordered-{count}-{size}.keys", lambda path: bench.check(["bash", "-c", f"tar -tf {source} >{path}"]))
    with tempfile.TemporaryDirectory(dir=bench.cache) as folder:
        spill = ["--memory", "32M", "--tmpdir", folder]
        contestants = [
            Contestant("cat (floor)", ["cat", source]),
            Contestant("GNU sort of the keys (floor)", ["sort", keys]),
            Contestant("sqlite, as tarproc", ["python3", "-c", SQLITE, source, f"{folder}/db"]),
            Contestant("tarsort, file", [tarsort, source]),
            Contestant("tarsort, stream", [tarsort], stdin=source),
            Contestant("tarsort, spilled", [tarsort, *spill], stdin=source),
            Contestant("tarsort, spilled with lz4", [tarsort, *spill, "--compress-spill"], stdin=source),
            Contestant("tarsort --shuffle, file", [tarsort, "--shuffle", source]),
        ]
        bars = [Bar(name, "sqlite, as tarproc", 5.0) for name in ["tarsort, file", "tarsort, stream", "tarsort, spilled"]]
        if shutil.which("tarp"):
            contestants.append(Contestant("tarp sort", ["tarp", "sort", "-o", "-", source]))
            bars.append(Bar("tarsort, spilled", "tarp sort", 5.0))
        bench.compare(f"sort {count:,} samples of {size:,} bytes", contestants, bars, count, "samples", "tarsort, file", source)


def stream(bench, tarsort):
    """A stream of 10 GB through 256 MB of memory; quick: 1 GB."""
    count = 10_000 if bench.quick else 100_000
    rounds, bench.rounds = bench.rounds, 1
    with tempfile.TemporaryDirectory(dir=bench.cache) as folder:
        script = f"{folder}/stream.py"
        with open(script, "w") as file:
            file.write(STREAM)
        command = f"python3 {script} {count} | {tarsort} --memory 256M --tmpdir {folder} >/dev/null"
        title = f"a stream of {count / 10_000:.0f} GB, --memory 256M"
        rows = bench.compare(title, [Contestant("tarsort", command)], items=count, unit="samples")
    bench.rounds = rounds
    rss = rows["tarsort"]["rss"] / 1024
    bench.expect(title, f"tarsort: {rss:.0f} MB, bar 400 MB", rss < 400)
