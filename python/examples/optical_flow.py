"""Optical flow between the frames of a video, with OpenCV on the CPU, in a persistent worker.

    tarvideo --scale 128 --frames 4 --no-video in.tar |
      PYTHONPATH=python tarproc -p 0 --worker 'python3 python/examples/optical_flow.py' -o flow.tar

Reads the frames 00000.jpg, 00001.jpg … of a sample, replaces them by flow.npy (half floats: pairs
of frames, rows, columns, x and y in pixels), and adds the mean motion of each pair to the json. To run a model
on a GPU, replace cv2.calcOpticalFlowFarneback; a worker that captions or transcribes has the same structure.
"""

import io
import json

import cv2
import numpy
import tarworker

cv2.setNumThreads(1)  # tarproc -p decides how much runs at once

for sample in tarworker.samples():
    names = sorted(field for field in sample if field[0].isdigit() and field.endswith(".jpg"))
    pictures = [cv2.imdecode(numpy.frombuffer(sample.pop(name), numpy.uint8), cv2.IMREAD_GRAYSCALE) for name in names]
    if len(pictures) < 2 or any(picture is None for picture in pictures):
        tarworker.fail(f"{len(pictures)} frames that can be read")
        continue
    flow = numpy.stack(
        [
            cv2.calcOpticalFlowFarneback(before, after, None, 0.5, 3, 15, 3, 5, 1.2, 0)
            for before, after in zip(pictures, pictures[1:])
        ]
    )
    out = io.BytesIO()
    numpy.save(out, flow.astype(numpy.float16))
    facts = json.loads(sample.get("json", b"{}"))
    facts["motion"] = [round(float(pair), 4) for pair in numpy.linalg.norm(flow, axis=-1).mean(axis=(1, 2))]
    sample["flow.npy"] = out.getvalue()
    sample["json"] = json.dumps(facts)
    tarworker.write(sample)
