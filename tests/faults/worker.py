"""Converts to upper case: the persistent worker of the pipeline `worker`."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import tarworker  # noqa: E402  (needs the path above)

for sample in tarworker.samples():
    sample["txt"] = sample["txt"].upper()
    tarworker.write(sample)
