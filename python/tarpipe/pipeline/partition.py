"""Batches and partitions: how items are dealt out to the workers of a cluster, and the lines that report it."""

from __future__ import annotations

import statistics
from typing import Any, Iterator, List, Optional, Sequence

#: The largest partition of a run whose results are streamed, so that few results are in flight.
STREAM_PARTITION = 64


class PipelineError(RuntimeError):
    """A run that cannot start or go on; errors of single items are in their records instead."""


def batches(items: Sequence[Any], size: Optional[int]) -> Iterator[Sequence[Any]]:
    """Yields the items in batches of `size`; all at once without a size.

    >>> list(batches([1, 2, 3], 2))
    [[1, 2], [3]]
    """
    if size is not None and size < 1:
        raise ValueError(f"batch_size must be at least 1, not {size}")
    step = size or max(len(items), 1)
    for start in range(0, len(items), step):
        yield items[start : start + step]


def partitions(items: Sequence[Any], count: Optional[int], default: int, largest: int = 1000) -> List[Sequence[Any]]:
    """Splits items into `count` parts of nearly equal size; without a count, `default` parts or more, so that no part
    has more than `largest` items.

    >>> [list(part) for part in partitions(range(7), 3, 1)]
    [[0, 1], [2, 3], [4, 5, 6]]
    >>> len(partitions(range(5000), None, 2))
    5
    """
    if count is not None and count < 1:
        raise ValueError(f"numparts must be at least 1, not {count}")
    total = len(items)
    parts = min(total, count or max(default, -(-total // largest)))
    bounds = [total * part // parts for part in range(parts + 1)] if parts else [0]
    return [items[start:end] for start, end in zip(bounds, bounds[1:])]


def report(batch: int, count: int, cpus: int, parts: Sequence[Sequence[Any]]) -> None:
    """Prints the lines that TokSearch prints for a batch."""
    print("*" * 80)
    print(f"BATCH {batch}/{count}")
    print(f"NUM CPUS: {cpus}")
    print(f"NUM PARTITIONS: {len(parts)}")
    print(f"MEDIAN PARTITION SIZE: {int(statistics.median(map(len, parts)) if parts else 0)}", flush=True)
