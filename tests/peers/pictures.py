"""A folder of pictures of every kind and of files that are not pictures, like those behind a list of URLs from the web."""

import io
import random

from PIL import Image

HTML = b"<!doctype html><title>Not here</title><p>This picture has moved."


def make(folder, count):
    """Writes `count` files and returns (name, kind) for each; their bytes are the same every time."""
    folder.mkdir(parents=True, exist_ok=True)
    kinds = list(KINDS)
    made = []
    for i in range(count):
        kind = kinds[i % len(kinds)]
        chance = random.Random(f"{kind}{i}")
        name = f"{i:05}-{kind}"
        (folder / name).write_bytes(KINDS[kind](chance))
        made.append((name, kind))
    return made


def noise(chance, mode="RGB", size=None):
    """A soft picture: small noise, enlarged."""
    width, height = size or (chance.randint(40, 700), chance.randint(40, 700))
    channels = len(Image.new(mode, (1, 1)).getbands())
    small = Image.frombytes(mode, (8, 8), chance.randbytes(64 * channels))
    return small.resize((width, height), Image.Resampling.BICUBIC)


def saved(image, form, **options):
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def rotated(chance):
    exif = Image.Exif()
    exif[0x0112] = chance.choice([3, 6, 8])
    exif[0x010F] = "Maker"
    return saved(noise(chance, size=(400, 250)), "JPEG", exif=exif)


def with_exif(chance):
    exif = Image.Exif()
    exif[0x010F], exif[0x0110] = "Maker", "Model 1"
    return saved(noise(chance), "JPEG", exif=exif)


def animated(chance):
    frames = [noise(chance, size=(120, 90)) for _ in range(3)]
    return saved(frames[0], "GIF", save_all=True, append_images=frames[1:])


def sixteen(chance):
    return saved(noise(chance, "L", (300, 200)).convert("I").point(lambda v: v * 257).convert("I;16"), "PNG")


def cut(data, part):
    return data[: int(len(data) * part)]


KINDS = {
    "jpeg": lambda chance: saved(noise(chance), "JPEG", quality=chance.randint(60, 95)),
    "jpeg_large": lambda chance: saved(noise(chance, size=(1600, 1100)), "JPEG"),
    "progressive": lambda chance: saved(noise(chance), "JPEG", progressive=True),
    "gray": lambda chance: saved(noise(chance, "L"), "JPEG"),
    "cmyk": lambda chance: saved(noise(chance, "CMYK"), "JPEG"),
    "exif": with_exif,
    "rotated": rotated,
    "wide": lambda chance: saved(noise(chance, size=(900, 60)), "JPEG"),
    "png": lambda chance: saved(noise(chance), "PNG"),
    "png_alpha": lambda chance: saved(noise(chance, "RGBA"), "PNG"),
    "png_gray": lambda chance: saved(noise(chance, "L"), "PNG"),
    "png_gray_alpha": lambda chance: saved(noise(chance, "LA"), "PNG"),
    "png_palette": lambda chance: saved(noise(chance).convert("P"), "PNG"),
    "png_bits": lambda chance: saved(noise(chance, "L").convert("1"), "PNG"),
    "png16": sixteen,
    "webp": lambda chance: saved(noise(chance), "WEBP"),
    "webp_alpha": lambda chance: saved(noise(chance, "RGBA"), "WEBP"),
    "gif": lambda chance: saved(noise(chance).convert("P"), "GIF"),
    "animated": animated,
    "bmp": lambda chance: saved(noise(chance), "BMP"),
    "tiff": lambda chance: saved(noise(chance), "TIFF"),
    "tiny": lambda chance: saved(noise(chance, size=(chance.randint(1, 3), chance.randint(1, 3))), "JPEG"),
    "tiny_png": lambda chance: saved(noise(chance, size=(1, 1)), "PNG"),
    "truncated": lambda chance: cut(saved(noise(chance, size=(500, 400)), "JPEG"), 0.6),
    "truncated_png": lambda chance: cut(saved(noise(chance, size=(500, 400)), "PNG"), 0.6),
    "truncated_webp": lambda chance: cut(saved(noise(chance, size=(500, 400)), "WEBP"), 0.6),
    "corrupt": lambda chance: b"\xff\xd8\xff\xe0" + chance.randbytes(2000),
    "corrupt_png": lambda chance: b"\x89PNG\r\n\x1a\n" + chance.randbytes(2000),
    "text": lambda chance: b"no picture at all " * 20,
    "empty": lambda chance: b"",
    "html": lambda chance: HTML,
    "404": lambda chance: b"",
    "403": lambda chance: b"",
    "500": lambda chance: b"",
    "redirect": lambda chance: saved(noise(chance), "JPEG"),
    "optout_noai": lambda chance: saved(noise(chance), "JPEG"),
    "optout_list": lambda chance: saved(noise(chance), "JPEG"),
    "optout_other": lambda chance: saved(noise(chance), "JPEG"),
    "optout_date": lambda chance: saved(noise(chance), "JPEG"),
}

# What the server says about a kind.
HEADERS = {
    "optout_noai": "noai",
    "optout_list": "all, NoImageAI",
    "optout_other": "otherbot: noai",
    "optout_date": "noai, unavailable_after: 25 Jun 2030 15:00:00 PST",
}
