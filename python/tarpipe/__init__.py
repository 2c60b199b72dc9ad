"""Pipelines over tar archives of samples (WebDataset shards), for Python programs.

- `tarpipe.samples` iterates over the samples of shards or of a pipeline.
- `tarpipe.run` runs a pipeline of the tools.
- `tarpipe.worker` is for programs that ``tarproc --worker`` runs.
- `tarpipe.img2dataset`, `tarpipe.video2dataset` and `tarpipe.any2dataset` take the arguments of the programs of these
  names and write the same datasets.

Failures raise `tarpipe.Error`, invalid arguments `ValueError`. The package looks for the tools in its own folder,
on PATH, and in the release build of a checkout.
"""

import sys

if sys.version_info < (3, 9):
    raise ImportError(f"tarpipe needs Python 3.9 or later, and this is {sys.version_info[0]}.{sys.version_info[1]}: {sys.executable}")

from ._error import Error  # noqa: E402  (older versions cannot read it)
from ._process import run  # noqa: E402
from ._samples import samples  # noqa: E402

__all__ = ["Error", "run", "samples"]
