"""tarvideo against the same operations as a chain of ffmpeg runs through files, as video2dataset has it."""

import io
import json
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

from measure import Bar, Contestant
from tarresize import unpacked

# What both do: the short side to 180, 10 frames a second, sound as 16 kHz mono flac, ffprobe's JSON.
CHAIN = """
import concurrent.futures, io, json, os, subprocess, sys, tarfile, tempfile

def run(*words):
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-nostdin", "-threads", "1", *words], check=True)

def work(item):
    key, data = item
    with tempfile.TemporaryDirectory() as folder:
        at = lambda name: os.path.join(folder, name)
        with open(at("in.mp4"), "wb") as file:
            file.write(data)
        words = ["ffprobe", "-v", "error", "-of", "json", "-show_format", "-show_streams", at("in.mp4")]
        probe = subprocess.run(words, check=True, capture_output=True).stdout
        scale = "scale=w='if(lt(iw,ih),180,-2)':h='if(lt(iw,ih),-2,180)'"
        encode = ["-c:v", "libx264", "-threads", "1"]
        run("-i", at("in.mp4"), "-vf", scale, *encode, "-c:a", "copy", at("scaled.mp4"))
        run("-i", at("scaled.mp4"), "-vf", "fps=10", *encode, "-c:a", "copy", at("timed.mp4"))
        run("-i", at("in.mp4"), "-vn", "-ar", "16000", "-ac", "1", at("sound.flac"))
        read = lambda name: open(at(name), "rb").read()
        return key, [("mp4", read("timed.mp4")), ("flac", read("sound.flac")), ("json", probe)]

source, workers = sys.argv[1], int(sys.argv[2])
with tarfile.open(source) as archive:
    items = [(member.name.split(".")[0], archive.extractfile(member).read()) for member in archive]
with concurrent.futures.ThreadPoolExecutor(workers) as pool, tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as out:
    for key, fields in pool.map(work, items):
        for field, data in fields:
            info = tarfile.TarInfo(f"{key}.{field}")
            info.size = len(data)
            out.addfile(info, io.BytesIO(data))
"""

BARE = """
set -e
ffprobe -v error -of json -show_format -show_streams "$1" >"$2/$$.json"
ffmpeg -v error -y -nostdin -filter_complex_threads 1 -threads 1 -i "$1" -filter_complex \\
  "[0:v]scale=w='if(lt(iw,ih),180,-2)':h='if(lt(iw,ih),-2,180)',fps=10[v]" \\
  -map '[v]' -map 0:a -c:v libx264 -threads 1 -c:a copy "$2/$$.mp4" -map 0:a -ar 16000 -ac 1 "$2/$$.flac"
rm "$2/$$".*
"""


def clips(count):
    """Clips of 4 s with sound, upright and not, no two alike."""

    def make(path):
        folder = pathlib.Path(tempfile.mkdtemp())
        try:
            with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
                for i in range(count):
                    size = "640x360" if i % 2 else "360x640"
                    video = f"testsrc2=s={size}:r=25:d=4,hue=h={i * 7}"
                    words = ["-f", "lavfi", "-i", video, "-f", "lavfi", "-i", f"sine={200 + i * 10}:d=4", "-c:v", "libx264"]
                    words += ["-preset", "veryfast", "-c:a", "aac", folder / "clip.mp4"]
                    subprocess.run(["ffmpeg", "-v", "error", "-y", *words], check=True)
                    archive.add(folder / "clip.mp4", f"clip{i:04}.mp4")
        finally:
            shutil.rmtree(folder)

    return make


def run(bench):
    if not bench.has("ffmpeg"):
        return
    count = 10 if bench.quick else 50
    source = bench.made(f"clips-{count}.tar", clips(count))
    chain = bench.cache / "chain.py"
    chain.write_text(CHAIN)
    flags = ["--scale", "180", "--fps", "10", "--audio", "flac", "--rate", "16000", "--channels", "1", "--probe"]
    cores = 2
    ours = [bench.tool("tarvideo"), "-p", str(cores), *flags, source]
    peer = [sys.executable, str(chain), source, str(cores)]
    check(ours, peer)
    bench.compare(
        f"resize, fps, sound and probe of {count} clips, {cores} at a time",
        [
            Contestant("tarvideo", ours),
            Contestant("a chain of ffmpeg runs", peer),
            Contestant("bare ffmpeg (floor)", bare(bench, source, cores)),
        ],
        [Bar("tarvideo", "a chain of ffmpeg runs", 1.5, "wall")],
        items=count,
        unit="clips",
        headline="tarvideo",
        size=source,
    )


def bare(bench, source, cores):
    """One run of ffmpeg and one of ffprobe for each clip that lies on disk already; nothing is put together."""
    script, out = bench.cache / "bare-clip", bench.cache / "bare-clips"
    out.mkdir(exist_ok=True)
    script.write_text(BARE)
    return f"ls {unpacked(bench, source)}/* | xargs -P{cores} -I CLIP bash {script} CLIP {out}"


def check(ours, peer):
    """Both must do the same work: the same members, frames and sizes."""
    looked = []
    for words in (ours, peer):
        archive = subprocess.run(words, check=True, capture_output=True).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as members:
            found = {member.name: members.extractfile(member).read() for member in members}
        name = next(name for name in found if name.endswith("mp4"))
        probe = ["ffprobe", "-v", "error", "-count_frames", "-of", "json", "-show_entries", "stream=width,height,nb_read_frames"]
        with tempfile.NamedTemporaryFile(suffix=".mp4") as file:
            file.write(found[name])
            file.flush()
            said = subprocess.run([*probe, "-select_streams", "v", file.name], check=True, capture_output=True).stdout
        looked.append((sorted(found), json.loads(said)["streams"]))
    if looked[0] != looked[1]:
        sys.exit(f"bench: the two do not do the same: {looked[0][1]} {looked[1][1]}")
