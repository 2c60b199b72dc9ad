"""tarresize against Pillow, OpenCV as img2dataset uses it, libvips and ImageMagick; and how good its pictures are."""

import pathlib
import subprocess
import tarfile

from measure import Bar, Contestant

# Makes photos like those of ImageNet, the same every time: windows of the photographs in a Debian package.
MAKE = """
import io, pathlib, random, sys, tarfile
from PIL import Image
folder, out, count, width, height, quality = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
sources = [Image.open(path).convert("RGB") for path in sorted(pathlib.Path(folder).rglob("nature/*.jpg"))]
dice = random.Random(width)
with tarfile.open(out, "w", format=tarfile.USTAR_FORMAT) as archive:
    for i in range(count):
        source = sources[i % len(sources)]
        near = dice.uniform(0.7, 1.3)
        w, h = (int(side * near * dice.uniform(0.85, 1.15)) for side in (width, height))
        zoom = min(dice.uniform(2, 5), source.width / w, source.height / h)
        x, y = (dice.uniform(0, max(0, room)) for room in (source.width - w * zoom, source.height - h * zoom))
        data = io.BytesIO()
        photo = source.resize((w, h), Image.LANCZOS, box=(x, y, min(x + w * zoom, source.width), min(y + h * zoom, source.height)))
        photo.save(data, "JPEG", quality=quality)
        info = tarfile.TarInfo(f"photo{i:05}.jpg")
        info.size = data.tell()
        data.seek(0)
        archive.addfile(info, data)
"""

# The peers read the same archive and do the same to its images; with a count of 0 they only start.
PEER = """
import io, sys, tarfile
import cv2, numpy
from PIL import Image
cv2.setNumThreads(1)
name, path, size, limit = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])

def sides(width, height):
    return round(width * size / min(width, height)), round(height * size / min(width, height))

def opencv(data):
    image = cv2.imdecode(numpy.frombuffer(data, numpy.uint8), cv2.IMREAD_UNCHANGED)
    height, width = image.shape[:2]
    way = cv2.INTER_AREA if min(width, height) > size else cv2.INTER_LANCZOS4
    image = cv2.resize(image, sides(width, height), interpolation=way)
    return cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 95])[1]

def pillow(data, way=None):
    image, out = Image.open(io.BytesIO(data)), io.BytesIO()
    image.resize(sides(*image.size), way).save(out, "JPEG", quality=95)

def box(data):
    pillow(data, Image.BOX)

if limit:
    with tarfile.open(path, "r|") as archive:
        for member in archive:
            globals()[name](archive.extractfile(member).read())
"""

# Luma SSIM and mean chroma difference against a reference in floating point.
QUALITY = """
import io, sys, tarfile
import cv2, numpy as np
from PIL import Image
original, ours, filter_name = sys.argv[1:4]

def area(n, m):
    edges = np.arange(m + 1) * n / m
    k = np.arange(n)
    return np.maximum(0, np.minimum(edges[1:, None], k + 1) - np.maximum(edges[:-1, None], k)) * m / n

def lanczos(n, m):
    x = (np.arange(n) + 0.5 - (np.arange(m)[:, None] + 0.5) * n / m) / max(n / m, 1)
    weights = np.where(abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0)
    return weights / weights.sum(1, keepdims=True)

def scaled(image, width, height):
    way = {"area": area, "lanczos": lanczos}[filter_name]
    down, across = way(image.shape[0], height), way(image.shape[1], width)
    return np.clip(np.stack([down @ image[..., c] @ across.T for c in range(3)], -1), 0, 255)

def planes(image):
    return np.moveaxis(image @ np.array([[.299, -.168736, .5], [.587, -.331264, -.418688], [.114, .5, -.081312]]), -1, 0)

def ssim(a, b):
    blur = lambda x: cv2.GaussianBlur(x, (11, 11), 1.5)
    ma, mb = blur(a), blur(b)
    va, vb, both = blur(a * a) - ma * ma, blur(b * b) - mb * mb, blur(a * b) - ma * mb
    return (((2 * ma * mb + 6.5) * (2 * both + 58.5)) / ((ma * ma + mb * mb + 6.5) * (va + vb + 58.5))).mean()

def images(path):
    with tarfile.open(path, "r|") as archive:
        for member in archive:
            if member.name.endswith(".jpg"):
                yield np.asarray(Image.open(archive.extractfile(member)).convert("RGB")).astype(float)

rows = []
for before, after in zip(images(original), images(ours)):
    height, width = after.shape[:2]
    if before.shape[0] <= height:
        continue
    wanted = planes(scaled(before, width, height))
    theirs = cv2.resize(before.astype(np.uint8), (width, height), interpolation=cv2.INTER_AREA)
    theirs = cv2.imdecode(cv2.imencode(".jpg", theirs[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 95])[1], 1)[..., ::-1]
    ours_planes, their_planes = planes(after), planes(theirs.astype(float))
    chroma = [abs(wanted[1:] - made[1:]).mean() for made in (ours_planes, their_planes)]
    rows.append([ssim(wanted[0], ours_planes[0]), ssim(wanted[0], their_planes[0]), *chroma])
rows = np.array(rows)
print(*rows.mean(0), rows[:, 0].min())
"""


def photographs(bench):
    """The folder of a Debian package with photographs."""

    def make(path):
        path.mkdir()
        subprocess.run(["apt-get", "download", "-qq", "mate-backgrounds"], cwd=path, check=True)
        package = next(path.glob("*.deb"))
        subprocess.run(["dpkg-deb", "-x", package, path], check=True)

    return bench.made("photographs", make)


def archive(bench, python, count, width, height, quality):
    folder = photographs(bench)
    words = [python, "-c", MAKE, folder]
    numbers = [str(n) for n in (count, width, height, quality)]
    return bench.made(f"photos-{count}-{width}.tar", lambda path: subprocess.run([*words, path, *numbers], check=True))


def unpacked(bench, path):
    """A folder with the images of an archive, for programs that know only files."""

    def make(folder):
        folder.mkdir()
        with tarfile.open(path) as archive:
            archive.extractall(folder, filter="data")

    return bench.made(pathlib.Path(path).stem, make)


def codec(bench):
    if not pathlib.Path("/usr/include/turbojpeg.h").exists():
        bench.check(["apt-get", "install", "-y", "-qq", "libturbojpeg0-dev"])
    source = bench.root / "benches" / "codec.c"
    words = ["cc", "-O3", "-march=native", source, "-lturbojpeg", "-lm", "-o"]
    return bench.made("codec", lambda path: bench.check([*words, path]))


def run(bench):
    python = bench.python("pillow", "opencv-python-headless", "numpy")
    if python is None:
        print("  (no Pillow and OpenCV to compare with: left out)")
        return
    count = 200 if bench.quick else 1_000
    for width, height, quality in [(480, 400, 99), (1000, 800, 92)]:
        photos = archive(bench, python, count, width, height, quality)
        for size in (256, 384):
            speed(bench, python, photos, count, f"{width}x{height}", size)
            cores(bench, photos, f"{width}x{height}", size)
        pictures(bench, python, photos, f"{width}x{height}")


def speed(bench, python, photos, count, title, size):
    tarresize = bench.tool("tarresize")
    flags = ["-s", str(size), "--quality", "95", photos, "-o", "/dev/null"]
    start = "start-up of Python (taken off)"
    contestants = [Contestant("tarresize -p 1", [tarresize, "-p", "1", *flags])]
    contestants.append(Contestant("bare codecs (floor)", [codec(bench), photos, str(size)]))
    for peer, function in (("opencv", "opencv"), ("pillow", "pillow"), ("pillow, BOX", "box")):
        contestants.append(Contestant(peer, [python, "-c", PEER, function, photos, str(size), "1"], less=start))
    contestants.append(Contestant(start, [python, "-c", PEER, "opencv", photos, str(size), "0"]))
    folder = unpacked(bench, photos)
    if bench.has("vipsthumbnail", "libvips-tools"):
        made = f"vipsthumbnail --vips-concurrency 1 -s x{size} -o /tmp/%s-thumb.jpg[Q=95]"
        contestants.append(Contestant("vipsthumbnail", f"cd {folder} && ls | xargs -n 500 {made}; rm -f /tmp/photo*-thumb.jpg"))
    if bench.has("convert-im6.q16", "imagemagick"):
        made = f"convert-im6.q16 {folder}/photo000[0-4]?.jpg -resize '{size}x{size}^' -quality 95 jpg:/dev/null"
        contestants.append(Contestant("convert", made, env={"MAGICK_THREAD_LIMIT": "1"}, share=50 / count))
    least = {"opencv": 2.0, "pillow": 2.5, "bare codecs (floor)": round(1 / 1.15, 2), "vipsthumbnail": 3.0, "convert": 8.0}
    names = {contestant.name for contestant in contestants}
    bars = [Bar("tarresize -p 1", peer, ratio) for peer, ratio in least.items() if peer in names]
    headline = "tarresize -p 1" if size == 256 else None
    bench.compare(f"{count:,} photos of {title} to {size}", contestants, bars, count, "images", headline, photos)


def cores(bench, photos, title, size):
    """What a second core buys, beside two processes that share nothing."""
    ours = f"{bench.tool('tarresize')} -s {size} --quality 95 {photos} -o /dev/null -p"
    bare = f"{codec(bench)} {photos} {size}"
    ways = {"-p 1": f"{ours} 1", "-p 2": f"{ours} 2", "one bare codec": bare, "two (floor)": f"{bare} 0 2 & {bare} 1 2; wait"}
    rows = bench.compare(f"{title} to {size} by two cores", [Contestant(*way) for way in ways.items()], size=photos)
    gain = lambda one, two: rows[one]["wall"] / rows[two]["wall"]
    ratio, floor = gain("-p 1", "-p 2"), gain("one bare codec", "two (floor)")
    bench.expect(title, f"-p 2 is {ratio:.2f} x -p 1 (wall), bar 1.9; two bare codecs are {floor:.2f} x one", ratio >= 1.9)
    memory = rows["-p 2"]["rss"] / 1024
    bench.expect(title, f"-p 2 takes {memory:.0f} MB, bar 80 MB", memory <= 80)


def pictures(bench, python, photos, title):
    """How far the pictures are from what they should be."""
    for way in ("area", "lanczos"):
        made = bench.cache / f"quality-{way}.tar"
        subprocess.run([bench.tool("tarresize"), "-s", "256", "--down", way, photos, "-o", made], check=True)
        words = [python, "-c", QUALITY, photos, made, way]
        said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        ours, theirs, chroma, their_chroma, worst = map(float, said.split())
        print(f"  {title} to 256, {way}: SSIM {ours:.4f} (OpenCV area {theirs:.4f}), worst {worst:.4f}; chroma off by {chroma:.2f} (OpenCV {their_chroma:.2f})")
        if way == "area":
            bench.expect(title, f"SSIM {ours:.4f}, bar OpenCV's {theirs:.4f} - 0.005", ours >= theirs - 0.005)
            bench.expect(title, f"the worst SSIM is {worst:.4f}, bar 0.95", worst >= 0.95)
        else:
            bench.expect(title, f"SSIM {ours:.4f} against Lanczos, bar 0.99", ours >= 0.99)
        bench.expect(title, f"chroma is off by {chroma:.2f}, bar OpenCV's {their_chroma:.2f} + 0.5", chroma <= their_chroma + 0.5)
