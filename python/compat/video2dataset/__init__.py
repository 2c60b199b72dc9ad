"""video2dataset, run by tarpipe: `from video2dataset import video2dataset` and the command video2dataset."""

from tarpipe.video2dataset import main, video2dataset

__all__ = ["main", "video2dataset"]
