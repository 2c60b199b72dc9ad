#!/usr/bin/env python3
"""Counts the instructions per sample, which do not depend on the load: a slow-down shows on any machine.

    scripts/test --instructions             compare with instructions.json; status 1 beyond the margin
    scripts/test --instructions --accept    replace the baseline
    scripts/test --instructions --profile tarcat    list the most expensive functions

Only the tool's own process is counted (cachegrind without cache simulation), at two input sizes: the difference is
the cost of the samples, without start-up. The commands that tarproc runs are not counted. valgrind 3.19 does not
support pidfd_open, so tarproc waits as on an old kernel.
"""

import argparse
import io
import json
import pathlib
import random
import re
import subprocess
import sys
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BASELINE = HERE / "instructions.json"

# Compilers and C libraries differ by less.
MARGIN = 0.10

# Name: flags, samples at the smaller size. The larger has three times as many.
CASES = {
    "tarcat": (["tarcat"], 2_000, "samples"),
    "tarsplit": (["tarsplit", "-n", "500", "-o", "{out}/{shard:05}.tar"], 2_000, "samples"),
    "tarcheck": (["tarcheck"], 2_000, "samples"),
    "tarsort": (["tarsort"], 2_000, "samples"),
    "tarshow --csv": (["tarshow", "--csv", "-f", "cls"], 2_000, "samples"),
    "tarproc -c true": (["tarproc", "-p", "1", "-c", "true", "-o", "-"], 20, "samples"),
    "tarproc --each cat": (["tarproc", "-p", "1", "--each", "cls", "-c", "cat", "-o", "-"], 20, "samples"),
    "tarresize -s 128": (["tarresize", "-p", "1", "-s", "128", "-o", "-"], 10, "pictures"),
    "urlcat": (["urlcat"], 5_000, "rows"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", required=True, type=pathlib.Path, help="where the tools are")
    parser.add_argument("--accept", action="store_true", help="replace the baseline")
    parser.add_argument("--profile", metavar="NAME", choices=CASES, help="list the functions with the most instructions of one case")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if args.profile:
            return profile(args.bin, pathlib.Path(folder), *CASES[args.profile])
        found = {name: cost(args.bin, pathlib.Path(folder), *case) for name, case in CASES.items()}
    if args.accept:
        BASELINE.write_text(json.dumps(found, indent=1) + "\n")
    return compare(found, json.loads(BASELINE.read_text()))


def compare(found, baseline):
    status = 0
    for name, count in found.items():
        expected = baseline.get(name)
        change = count / expected - 1 if expected else 0
        is_slower = change > MARGIN
        status = max(status, int(is_slower or expected is None))
        note = "SLOWER" if is_slower else "faster: run with --accept" if change < -MARGIN else "ok" if expected else "NO BASELINE"
        print(f"  {name:<32} {count:>12,} instructions per sample  {change:+6.1%}  {note}")
    return status


def cost(folder, work, flags, count, kind):
    """Instructions of one sample."""
    small, large = (instructions(folder, work, flags, MAKERS[kind](work, size)) for size in (count, 3 * count))
    return round((large - small) / (2 * count))


def instructions(folder, work, flags, source):
    said = valgrind(folder, work, flags, source, "cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
    return int(re.search(r"I\s+refs:\s+([\d,]+)", said)[1].replace(",", ""))


def profile(folder, work, flags, count, kind):
    """Prints the functions that take most, their callees apart."""
    calls = work / "calls"
    valgrind(folder, work, flags, MAKERS[kind](work, 3 * count), "callgrind", f"--callgrind-out-file={calls}")
    annotated = subprocess.run(["callgrind_annotate", "--threshold=95", str(calls)], stdout=subprocess.PIPE, text=True, check=True)
    shares = re.findall(r"^ *[\d,]+ \( *([\d.]+)%\) +\S*?:(.*?)(?: \[.*)?$", annotated.stdout, re.MULTILINE)
    for share, function in shares[:25]:
        print(f"{share:>6} %  {function}")
    return 0


def valgrind(folder, work, flags, source, tool, *options):
    """Runs a tool under valgrind and returns the instruction count."""
    out = pathlib.Path(tempfile.mkdtemp(dir=work))
    words = [flag.replace("{out}", str(out)) for flag in flags]
    counted = ["valgrind", f"--tool={tool}", *options, str(folder / words[0])]
    done = subprocess.run([*counted, *words[1:], str(source)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"instructions: {' '.join(words)} failed: {done.stderr[-500:]}")
    return done.stderr


def samples(work, count):
    path, block = work / f"samples-{count}.tar", random.Random(1).randbytes(2_000)
    return archive(path, ((f"{i:07}.{field}", data) for i in range(count) for field, data in (("cls", b"7"), ("jpg", block))))


def pictures(work, count):
    """JPEGs with something in them, made by ImageMagick: the same bytes for the same version."""
    path = work / "picture.jpg"
    if not path.exists():
        subprocess.run(["convert-im6.q16", "-seed", "7", "-size", "320x240", "plasma:", "-quality", "90", str(path)], check=True)
    return archive(work / f"pictures-{count}.tar", ((f"{i:07}.jpg", path.read_bytes()) for i in range(count)))


def archive(path, members):
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as out:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            out.addfile(info, io.BytesIO(data))
    return path


def rows(work, count):
    path = work / f"rows-{count}.jsonl"
    path.write_text("".join(json.dumps({"url": f"http://h/{i:07}.jpg", "caption": f"thing {i}", "w": i}) + "\n" for i in range(count)))
    return path


MAKERS = {"samples": samples, "pictures": pictures, "rows": rows}

if __name__ == "__main__":
    sys.exit(main())
