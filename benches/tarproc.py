"""tarproc against a bare loop of spawns, and its ways to run against each other."""

import io
import random
import os
import shutil
import subprocess
import tarfile
import tempfile

from measure import Bar, Contestant

IDENTITY = """
import tarworker
for sample in tarworker.samples():
    tarworker.write(sample)
"""


def samples(count, size):
    """Samples of three members."""

    def make(path):
        block = random.Random(1).randbytes(size)
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
            for i in range(count):
                for field, data in (("cls", b"7"), ("jpg", block), ("json", b'{"width": 64}')):
                    info = tarfile.TarInfo(f"train/sample{i:07}.{field}")
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))

    return make


def bare_loop(bench):
    source = bench.root / "benches" / "bare.rs"
    build = lambda path: subprocess.run(["rustc", "-O", "--edition=2024", "-o", path, source], check=True)
    return bench.made("bare", build)


def against_the_floor(bench, tarproc, small, count):
    bare = bare_loop(bench)
    place = "/dev/shm" if os.path.isdir("/dev/shm") else tempfile.gettempdir()
    folder = tempfile.mkdtemp(prefix="tarproc-bench-", dir=place)
    try:
        for p in (1, 2, 4):
            bench.compare(
                f"-c true on {count:,} samples, -p {p}",
                [
                    Contestant("bare loop (floor)", [bare, folder, str(count), str(p)]),
                    Contestant("tarproc", [tarproc, "-p", str(p), "-c", "true", small, "-o", "-", "--tmpdir", folder]),
                ],
                # At most 1.10 x the floor's CPU.
                [Bar("tarproc", "bare loop (floor)", round(1 / 1.10, 3))],
                items=count,
                unit="samples",
                headline="tarproc" if p == 1 else None,
                size=small,
            )
    finally:
        shutil.rmtree(folder)


def ways(bench, tarproc, small, count):
    worker = bench.cache / "identity.py"
    worker.write_text(IDENTITY)
    path = {"PYTHONPATH": str(bench.root / "python")}
    # Enough samples that the start of Python does not count.
    many = bench.made("tarproc-20000.tar", samples(20_000, 2_000))
    rows = bench.compare(
        f"ways to run, -p 1, {count:,} samples",
        [
            Contestant("a shell a sample", [tarproc, "-c", "cat sample.jpg >x; mv x sample.jpg", small, "-o", "-"]),
            Contestant("default, -c true", [tarproc, "-c", "true", small, "-o", "-"]),
            Contestant("--fast-shell, -c true", [tarproc, "--fast-shell", "-c", "true", small, "-o", "-"]),
            Contestant("--each, cat", [tarproc, "--each", "jpg", "-c", "cat", small, "-o", "-"]),
            Contestant("--batch 100, true", [tarproc, "--batch", "100", "-c", "true", small, "-o", "-"]),
        ],
        [Bar("--each, cat", "default, -c true", 1.3), Bar("--fast-shell, -c true", "default, -c true", 1.3)],
        items=count,
        unit="samples",
    )
    workers = bench.compare(
        "a Python identity, 20,000 samples",
        [Contestant("--worker -p 1", [tarproc, "--worker", f"python3 {worker}", many, "-o", "-"], env=path)]
        + [Contestant("--worker -p 2", [tarproc, "-p", "2", "--worker", f"python3 {worker}", many, "-o", "-"], env=path)],
        items=20_000,
        unit="samples",
    )
    default = rows["default, -c true"]["cpu"] / count
    ratio = default / (workers["--worker -p 1"]["cpu"] / 20_000)
    bench.expect("ways to run", f"--worker is {ratio:.1f} x the default (cpu), bar 10", ratio >= 10)
    rate = 20_000 / min(row["wall"] for row in workers.values())
    bench.expect("ways to run", f"--worker does {rate:,.0f} samples/s (wall), bar 5,000", rate >= 5_000)


def scaling(bench, tarproc, small):
    burn = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"
    flags = ["-c", burn, "--count", "40", small]
    bench.compare(
        "a CPU-bound command",
        [Contestant("-p 1", [tarproc, "-p", "1", *flags]), Contestant("-p 2", [tarproc, "-p", "2", *flags])],
        [Bar("-p 2", "-p 1", 1.8, "wall")],
    )


def memory(bench, tarproc):
    size = 20_000_000
    large = bench.made("tarproc-large.tar", samples(12, size))
    names = {p: f"-p {p}" for p in (1, 4)}
    rows = bench.compare(
        "peak memory, samples of 20 MB",
        [Contestant(names[p], [tarproc, "-p", str(p), "-c", "sleep 0.2", large, "-o", "-"]) for p in names],
    )
    for p, name in names.items():
        most = p * size + (32 << 20)
        used = rows[name]["rss"] * 1024
        bench.expect("peak memory", f"{name}: {used / 1e6:.0f} MB, bar {most / 1e6:.0f} MB", used <= most)


def run(bench):
    tarproc = bench.tool("tarproc")
    count = 500 if bench.quick else 2_000
    small = bench.made(f"tarproc-{count}.tar", samples(count, 2_000))
    against_the_floor(bench, tarproc, small, count)
    ways(bench, tarproc, small, count)
    scaling(bench, tarproc, small)
    memory(bench, tarproc)
