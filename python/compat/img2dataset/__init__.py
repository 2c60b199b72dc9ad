"""img2dataset, run by tarpipe: `from img2dataset import download` and the command img2dataset."""

from tarpipe.img2dataset import download, main

__all__ = ["download", "main"]
