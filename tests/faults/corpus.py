"""What goes into the pipelines: made once, the same for the same seed, small."""

import base64
import io
import json
import random
import subprocess
import tarfile

ARCHIVES, SAMPLES, PICTURES, PHOTOS, VIDEOS = 6, 14, 48, 36, 3
FIELDS = ["txt", "json", "bin"]
# A test picture of 24x20, by ffmpeg.
JPEG = base64.b64decode(
    "/9j/4AAQSkZJRgABAgAAAQABAAD//gAQTGF2YzU5LjM3LjEwMAD/2wBDAAgYGBwYHCEhISEhISckJygoKCcnJycoKCgrKyszMzMrKysoKCsrMD"
    "AzMzc5NzQ0MzQ5OTw8PEhIRUVUVFdnZ3z/xAGiAAABBQEBAQEBAQAAAAAAAAAAAQIDBAUGBwgJCgsBAAMBAQEBAQEBAQEAAAAAAAABAgMEBQYH"
    "CAkKCxAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIhMUEGE1FhByJxFDKBkaEII0KxwRVS0fAkM2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRk"
    "dISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKTlJWWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi"
    "4+Tl5ufo6erx8vP09fb3+Pn6EQACAQIEBAMEBwUEBAABAncAAQIDEQQFITEGEkFRB2FxEyIygQgUQpGhscEJIzNS8BVictEKFiQ04SXxFxgZGi"
    "YnKCkqNTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqCg4SFhoeIiYqSk5SVlpeYmZqio6Slpqeoqaqys7S1tre4ubrCw8TF"
    "xsfIycrS09TV1tfY2dri4+Tl5ufo6ery8/T19vf4+fr/wAARCAAUABgDASIAAhEAAxEA/9oADAMBAAIRAxEAPwDy4+a0hVOwz2wABySTwB9a17"
    "yS6uGRXO4qGYfcAC8ZbcMLjjrmpIiD5643E+WQvQsF5IH4fjWzIV8jytuW+95WeSofcVz67e33vauOpi5zrwnazi3y63cVNatO6sls9lpufRVK"
    "S5pxcm7X+bTfu7PX8fIwluLmEkbsZAPRCCOxBwQR9Ksfbrn/AJ6f+Op/8TSOcCBRhGUscE/c3Nldx+nrz61q75/+fiH81/8Aia7fbTkrt9+r6O"
    "1+u++58jiKMJ1puS5npq4pv4Vu209Njh3/ANY34fyqrP8Aw/j/AEq0/wDrG/D+VVZ/4fx/pXFR+OHp/wC2ns4j+PW/xD071ZqsnerNey9zwa38"
    "R/L8j//Z"
)


class Corpus:
    """Archives in/0.tar to in/5.tar, a folder of files, a table of URLs, and what a web server has."""

    def __init__(self, home, with_videos):
        self.home = home
        rng = random.Random("corpus")
        (home / "in").mkdir(parents=True)
        (home / "files").mkdir()
        self.web, self.changed = {}, {}
        for number in range(ARCHIVES):
            archive = make_archive(number, SAMPLES, lambda: {field: content(rng, field) for field in FIELDS})
            (home / "in" / f"{number}.tar").write_bytes(archive)
            self.web[f"{number}.tar"] = archive
            self.changed[f"{number}.tar"] = other_version(archive)
        for number in range(90):
            for field in FIELDS:
                (home / "files" / f"f{number:03}.{field}").write_bytes(content(rng, field))
        for number in range(PICTURES):
            self.web[f"{number}.ppm"] = picture(rng)
        # Shards of it are sent in parts.
        (home / "large.tar").write_bytes(make_archive("L", 11, lambda: {"bin": rng.randbytes(2_000_000)}))
        photos = (photo(rng, number % 3 == 0) for number in range(PHOTOS))
        (home / "photos.tar").write_bytes(make_archive("P", PHOTOS, lambda: {"jpg": next(photos)}))
        if with_videos:
            make_videos(home)

    def write_table(self, port):
        """The URLs, which name the port of the relay, and two that are not there."""
        rows = [f"http://127.0.0.1:{port}/{number}.ppm,picture {number}" for number in range(PICTURES)]
        rows += [f"http://127.0.0.1:{port}/missing-{number}.ppm,none" for number in range(2)]
        (self.home / "urls.csv").write_text("\n".join(["url,caption", *rows]) + "\n")


def content(rng, field):
    size = rng.choice([0, 1, 511, 512, 513, 3000, rng.randrange(20_000)])
    if field == "bin":
        return rng.randbytes(size)
    if field == "json":
        return json.dumps({"n": rng.random(), "pad": "x" * (size // 8)}).encode()
    return bytes(rng.choices(b"abcdefghij \n", k=size // 4))


def make_archive(number, samples, make):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for sample in range(samples):
            for field, data in make().items():
                member = tarfile.TarInfo(f"part{number}/s{sample:04}.{field}")
                member.size, member.mtime, member.mode = len(data), 1_700_000_000 + sample, 0o644
                archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


def other_version(archive):
    """The same members with other bytes, so that every one tells which version it is of."""
    out = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(archive)) as old, tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as new:
        for member in old:
            data = bytes(255 - byte for byte in old.extractfile(member).read())
            new.addfile(member, io.BytesIO(data))
    return out.getvalue()


def picture(rng):
    width, height = rng.randrange(40, 90), rng.randrange(40, 90)
    row = rng.randbytes(3 * width)
    return b"P6 %d %d 255\n" % (width, height) + row * height


def photo(rng, is_damaged):
    """A JPEG, whole or with a wrong byte in its tables, after which a decoder cannot be used again."""
    data = bytearray(JPEG)
    if is_damaged:
        data[data.index(b"\xff\xc4") + 5] = rng.randrange(100, 256)
    return bytes(data)


def make_videos(home):
    (home / "videos").mkdir()
    for number in range(VIDEOS):
        made = f"testsrc=size=64x48:rate=10:duration=1,hue=h={number * 40}"
        words = ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", made, "-c:v", "mpeg4", "-threads", "1"]
        subprocess.run([*words, home / "videos" / f"v{number}.mp4"], check=True, stdin=subprocess.DEVNULL)
