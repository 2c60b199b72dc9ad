"""tarshow against GNU tar's listing, Python's tarfile, and a page of photographs by itself."""

import io
import json
import random
import tarfile

from measure import Bar, Contestant


def described(count):
    """An archive of samples with some JSON and bytes beside it."""

    def make(path):
        block = random.Random(1).randbytes(2_000)
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
            for i in range(count):
                facts = json.dumps({"url": f"http://example.org/{i}", "width": i % 1000, "height": i % 700}).encode()
                for field, data in (("bin", block), ("json", facts)):
                    info = tarfile.TarInfo(f"sample{i:07}.{field}")
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))

    return make


PYTHON_CSV = """
import csv, json, sys, tarfile
rows = csv.writer(sys.stdout)
with tarfile.open(sys.argv[1], "r|") as archive:
    for member in archive:
        if member.name.endswith(".json"):
            facts = json.load(archive.extractfile(member))
            rows.writerow([member.name[:-5], facts["url"], facts["width"]])
"""


def run(bench):
    tarshow = bench.tool("tarshow")
    count = 10_000 if bench.quick else 100_000
    archive = bench.made(f"described-{count}.tar", described(count))
    bench.compare(
        f"the names of {count:,} samples",
        [
            Contestant("tar -t", ["tar", "-tf", archive]),
            Contestant("tarshow --keys", [tarshow, "--keys", archive]),
            Contestant("cat (floor)", ["cat", archive]),
        ],
        [Bar("tarshow --keys", "tar -t", 1.0)],
        items=count,
        unit="samples",
        size=archive,
    )
    columns = ["-f", "json.url json.width"]
    bench.compare(
        f"a table of what the JSON of {count:,} samples says",
        [
            Contestant("Python, tarfile and csv", ["python3", "-c", PYTHON_CSV, archive]),
            Contestant("tarshow --csv", [tarshow, "--csv", *columns, archive]),
            Contestant("tarshow --parquet", [tarshow, "--parquet", "/dev/null", *columns, archive]),
            Contestant("cat (floor)", ["cat", archive]),
        ],
        [Bar("tarshow --csv", "Python, tarfile and csv", 2.0)],
        items=count,
        unit="samples",
        headline="tarshow --csv",
        size=archive,
    )
    bench.compare(
        f"a page about {count:,} samples",
        [Contestant("tarshow --html", [tarshow, "--html", "/dev/null", archive])],
        items=count,
        unit="samples",
    )
