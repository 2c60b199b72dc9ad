"""scripts/img2dataset against the real one: the same URLs on a real nginx, end to end, on the same cores."""

import os
import pathlib
import shutil
import subprocess
import threading
import time

import fetch
import tarresize
from measure import Bar, Contestant

WORKERS = 2


def run(bench):
    python = bench.python("img2dataset==1.47.0", "opencv-python-headless", "pillow", "numpy")
    if python is None or not bench.has("nginx", "nginx-light"):
        print("  (no img2dataset or no nginx to compare with: left out)")
        return
    count = 200 if bench.quick else 1_000
    for width, height, quality in [(480, 400, 99), (1000, 800, 92)]:
        photos = tarresize.archive(bench, python, count, width, height, quality)
        with fetch.nginx(bench, tarresize.unpacked(bench, photos)) as servers:
            compare(bench, python, servers.plain, photos, count, f"{width}x{height}")


def compare(bench, python, base, photos, count, title):
    names = sorted(file.name for file in pathlib.Path(tarresize.unpacked(bench, photos)).iterdir() if file.suffix == ".jpg")
    urls = bench.cache / "img2dataset-urls.txt"
    urls.write_text("".join(f"{base}/{name}\n" for name in names))
    output = bench.cache / "img2dataset-output"
    flags = ["--url_list", urls, "--output_folder", output, "--output_format", "webdataset", "--image_size", "256"]
    flags += ["--resize_mode", "keep_ratio", "--processes_count", WORKERS, "--number_sample_per_shard", count // WORKERS]
    flags = [str(word) for word in flags]
    ours = [str(bench.root / "scripts" / "img2dataset"), *flags, "--allow_private"]
    theirs = [python, "-W", "ignore", "-m", "img2dataset.main", *flags, "--thread_count", "64"]
    clean = lambda: shutil.rmtree(output, ignore_errors=True)  # noqa: E731
    environment = {"NO_ALBUMENTATIONS_UPDATE": "1"}
    contestants = [
        Contestant("scripts/img2dataset", ours, env={"PATH": f"{bench.tools}:{os.environ['PATH']}"}, prepare=clean),
        Contestant("img2dataset 1.47", theirs, env=environment, prepare=clean),
    ]
    floor = Contestant("bare codecs (floor)", [tarresize.codec(bench), photos, "256"])
    bars = [Bar("scripts/img2dataset", "img2dataset 1.47", 3.0, measure) for measure in ("cpu", "wall")]
    title = f"{count:,} URLs of {title} to 256, end to end"
    bench.compare(title, [*contestants, floor], bars, count, "samples", contestants[0].name, photos)
    peaks = []
    for contestant in contestants:
        clean()
        peaks.append(peak_memory(contestant))
        made = sum(1 for file in output.glob("*.tar") for line in subprocess.run(["tar", "tf", file], capture_output=True).stdout.split() if line.endswith(b".jpg"))
        if made != count:
            bench.expect(title, f"{contestant.name} made {made} samples of {count}", False)
    text = f"all processes together hold {peaks[0] / 1024:.0f} MB, img2dataset's {peaks[1] / 1024:.0f} MB, bar a fifth"
    bench.expect(title, text, peaks[0] * 5 <= peaks[1])
    clean()


def peak_memory(contestant):
    """The most that a command and all that it starts hold at once, in KB; pages that they share count once."""
    process = subprocess.Popen(
        contestant.command, env={**os.environ, **contestant.env}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    peak, ended = 0, threading.Event()
    threading.Thread(target=lambda: (process.wait(), ended.set()), daemon=True).start()
    while not ended.is_set():
        peak = max(peak, sum(held(pid) for pid in tree(process.pid)))
        time.sleep(0.05)
    return peak


def tree(root):
    """A process and all that descend from it."""
    children = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(words[1]), []).append(int(stat.parent.name))
    found, left = [], [root]
    while left:
        pid = left.pop()
        found.append(pid)
        left += children.get(pid, [])
    return found


def held(pid):
    try:
        lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
