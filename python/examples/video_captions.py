"""Captions videos by their frames in a persistent worker, as video2dataset's stage caption does.

    tarvideo --scale 224 --frames 1 --no-video videos.tar |
      PYTHONPATH=python tarproc -p 1 --worker 'python3 python/examples/video_captions.py' -o captions.tar

Reads the frames 00000.jpg, 00001.jpg … of a sample, replaces them by a caption in txt, and adds it to the json as
"generated_caption". To have a model write the captions, replace the class Model: it is loaded once, before the first
sample. With transformers, for example, __init__ is self.model = pipeline("image-to-text", MODEL). This one only names
the colours.
"""

import io
import json

import tarworker
from PIL import Image

COLOURS = {"black": (0, 0, 0), "white": (255, 255, 255), "red": (255, 0, 0), "green": (0, 128, 0), "blue": (0, 0, 255), "gray": (128, 128, 128)}


class Model:
    def caption(self, frames):
        """Returns one caption for all frames of a video."""
        names = [self.nearest(frame.resize((1, 1), Image.Resampling.BOX).getpixel((0, 0))) for frame in frames]
        return "a video that is " + ", then ".join(name for at, name in enumerate(names) if names[at - 1 : at] != [name])

    def nearest(self, pixel):
        return min(COLOURS, key=lambda name: sum((a - b) ** 2 for a, b in zip(COLOURS[name], pixel)))


model = Model()

for sample in tarworker.samples():
    names = sorted(field for field in sample if field[0].isdigit() and field.endswith(".jpg"))
    frames = [Image.open(io.BytesIO(sample.pop(name))).convert("RGB") for name in names]
    if not frames:
        tarworker.fail("no frames")
        continue
    facts = json.loads(sample.get("json", b"{}"))
    sample["txt"] = facts["generated_caption"] = model.caption(frames)
    sample["json"] = json.dumps(facts)
    tarworker.write(sample)
