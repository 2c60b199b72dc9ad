"""any2dataset, run by tarpipe: `from any2dataset import any2dataset` and the command any2dataset."""

from tarpipe.any2dataset import any2dataset, main

__all__ = ["any2dataset", "main"]
