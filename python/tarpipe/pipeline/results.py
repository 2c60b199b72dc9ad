"""What a run returns: all records at once, or a stream of them. Either can be written as shards or as a table."""

from __future__ import annotations

import warnings
from typing import Any, Callable, Iterable, Iterator, List, Optional, Sequence, Union, overload

from .record import Record
from .shards import write_shards
from .steps import Outcome
from .table import write_table


class Records(Iterable[Record]):
    """Records that can be written by tarpipe's tools, which must be on the PATH."""

    def write_shards(
        self,
        pattern: str,
        samples: int = 10000,
        size: Optional[str] = None,
        failed: str = "skip",
        key: Optional[Callable[[Record], str]] = None,
        arguments: Sequence[str] = (),
    ) -> int:
        """Writes one sample per record into shards, by tarsplit(1), and returns the number of samples.

        `pattern` names the shards, such as ``out-%06d.tar`` or ``s3://bucket/out-{shard:06}.tar``. A shard is closed
        when it has `samples` samples or reaches `size` (such as ``1G``); `arguments` are passed to tarsplit.

        The key of a sample is the item, or what `key` returns for the record. Arrays become fields such as
        ``ip.npy``, dictionaries of arrays ``ip.npz``, bytes a field of their own; all other values are in ``json``.

        Records with errors are left out, and a warning tells how many. With ``failed="mark"`` they are written as
        failures of the stream, which tardataset(1) counts.
        """
        return write_shards(self, pattern, samples, size, failed, key, arguments)

    def to_table(self, path: str, key: Optional[Callable[[Record], str]] = None) -> int:
        """Writes one row per record to a table, by tarshow(1), and returns the number of rows.

        The suffix selects the format: ``.parquet``, ``.csv``, ``.tsv`` or ``.jsonl``. The columns are ``__key__``,
        ``shot``, the fields, and ``errors``: the messages of the failed steps as JSON, or null. Lists, arrays and
        dictionaries are JSON text; NaN and infinities, which JSON does not have, are null.
        """
        return write_table(self, path, key)


class Stream(Records, Iterator[Record]):
    """Records as they are ready, in the order of the items. Few are held at a time; it can be read once.

    Close it, or use it in a ``with`` statement, to end a run early.
    """

    def __init__(self, outcomes: Iterator[Outcome]) -> None:
        self._outcomes = outcomes
        self._removed: List[Any] = []
        self._removals = 0

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Record:
        for outcome in self._outcomes:
            if isinstance(outcome, dict):
                return Record.from_fields(outcome)
            if outcome:
                self._removals += 1
                self._removed = self._removed or list(outcome)
        self._warn()
        raise StopIteration

    def _warn(self) -> None:
        if self._removed:
            shot, step, message = self._removed
            self._removed = []
            warnings.warn(
                f"where({step}) failed and removed the record of {shot!r}: {message} "
                f"(records removed by failures: {self._removals})",
                RuntimeWarning,
                stacklevel=3,
            )

    def close(self) -> None:
        """Ends the run; its workers end, and no further records come."""
        close = getattr(self._outcomes, "close", None)
        if close is not None:
            close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Results(Records, Sequence[Record]):
    """All records of a run, in the order of the items: a sequence.

    >>> results = Results([Record(1), Record(2)])
    >>> len(results), results[-1].shot, [rec.shot for rec in results[:1]], results.failed
    (2, 2, [1], [])
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self._records = list(records)

    @property
    def failed(self) -> List[Record]:
        """The records with errors."""
        return [record for record in self._records if record.errors]

    @overload
    def __getitem__(self, index: int) -> Record: ...

    @overload
    def __getitem__(self, index: slice) -> List[Record]: ...

    def __getitem__(self, index: Union[int, slice]) -> Union[Record, List[Record]]:
        return self._records[index]

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def __repr__(self) -> str:
        return f"<Results: {len(self)} records, {len(self.failed)} with errors>"
