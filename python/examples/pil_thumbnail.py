"""Thumbnails with Pillow, in a persistent worker.

    PYTHONPATH=python tarproc -p 0 --worker 'python3 python/examples/pil_thumbnail.py 256' in.tar -o out.tar
"""

import io
import sys

import tarworker
from PIL import Image

size = int(sys.argv[1]) if len(sys.argv) > 1 else 256

for sample in tarworker.samples():
    try:
        picture = Image.open(io.BytesIO(sample["jpg"])).convert("RGB")
    except (KeyError, OSError) as err:
        tarworker.fail(f"no picture: {err}")
        continue
    picture.thumbnail((size, size))
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=90)
    sample["jpg"] = out.getvalue()
    tarworker.write(sample)
