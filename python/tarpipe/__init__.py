"""Pipelines over tar archives of samples (WebDataset shards), for Python programs.

- `tarpipe.samples` iterates over the samples of shards or of a pipeline.
- `tarpipe.run` runs a pipeline of the tools.
- `tarpipe.worker` is for programs that ``tarproc --worker`` runs.
- `tarpipe.img2dataset`, `tarpipe.video2dataset` and `tarpipe.any2dataset` take the arguments of the programs of these
  names and write the same datasets.

Failures raise `tarpipe.Error`, invalid arguments `ValueError`. The package looks for the tools in its own folder,
on PATH, and in the release build of a checkout.
"""

from ._error import Error
from ._process import run
from ._samples import samples

__all__ = ["Error", "run", "samples"]
