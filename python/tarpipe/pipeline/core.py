"""The class `Pipeline`: its steps, and the backends that run them."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Union

from .local import processes, serial
from .on_ray import on_ray
from .on_spark import on_spark
from .record import Record, plain_item
from .results import Results, Stream
from .sources import source_of
from .steps import Discard, Fetch, Keep, Map, Program, Where

#: How far the workers of a stream run ahead on this machine: in items, and in bytes of results.
WINDOW = 1024
MEMORY = 256 << 20


class Pipeline:
    """Steps that run on every item.

    An item is any value (a shot number, a name), a dictionary with the field ``shot``, or a record. The items can
    also be another pipeline, whose steps come first, or the results of one. Every step returns the pipeline, and
    `map` and `where` can decorate a function.

    >>> pipeline = Pipeline(range(4)).fetch("square", lambda shot: shot * shot)
    >>> @pipeline.where
    ... def is_even(rec):
    ...     return rec.shot % 2 == 0
    >>> [(rec.shot, rec["square"]) for rec in pipeline.compute_serial()]
    [(0, 0), (2, 4)]
    """

    def __init__(self, items: Union[Iterable[Any], Pipeline]) -> None:
        self._steps: List[Any] = []
        self._items: Sequence[Any]
        if isinstance(items, Pipeline):
            self._steps = list(items._steps)
            self._items = items._items
        else:
            self._items = [plain_item(item) for item in items]

    @classmethod
    def from_sql(cls, connection: Any, query: str, *parameters: Any) -> Pipeline:
        """Makes the items from the rows of an SQL query, which must have a column ``shot``.

        >>> import sqlite3
        >>> rows = Pipeline.from_sql(sqlite3.connect(":memory:"), "select 7 as shot, ? as gain", 2).compute_serial()
        >>> rows[0].shot, rows[0].gain
        (7, 2)
        """
        cursor = connection.cursor()
        cursor.execute(query, parameters)
        names = [column[0] for column in cursor.description]
        if not all(names):
            raise ValueError("a column of the query has no name")
        return cls(dict(zip(names, row)) for row in cursor.fetchall())

    def fetch(self, name: str, source: Any) -> Pipeline:
        """Stores what `source` has for the item in the field `name`: see `tarpipe.pipeline.sources`.

        If the source fails, the field is None and the error is in ``rec.errors[name]``.
        """
        return self._add(Fetch(name, source_of(source)))

    def map(self, function: Callable[[Record], Any]) -> Pipeline:
        """Calls `function` with the record, to change it; the return value is ignored.

        An exception is kept in ``rec.errors`` under the function's name, and the next step runs.
        """
        return self._add(Map(function))

    def where(self, predicate: Callable[[Record], Any]) -> Pipeline:
        """Keeps only the records for which `predicate` is true.

        A record for which it raises an exception is removed, and a warning tells how many were.
        """
        return self._add(Where(predicate))

    def keep(self, names: Sequence[str]) -> Pipeline:
        """Removes all other fields; ``shot`` and ``errors`` always stay."""
        return self._add(Keep(_names(names)))

    def discard(self, names: Sequence[str]) -> Pipeline:
        """Removes these fields, if they exist."""
        return self._add(Discard(_names(names)))

    def _add(self, step: Any) -> Pipeline:
        self._steps.append(step)
        return self

    def _program(self) -> Program:
        return Program(self._steps)

    def compute_shot(self, shot: Any) -> Optional[Record]:
        """Runs the steps on one item, here, to try them; None if `where` removes it."""
        return self.compute_record(Record.from_item(plain_item(shot)))

    def compute_record(self, record: Record) -> Optional[Record]:
        """Runs the steps on a record, in place; None if `where` removes it."""
        return record if self._program().apply(record) is None else None

    def compute_serial(self) -> Results:
        """Runs the steps in this process."""
        return Results(self.stream_serial())

    def stream_serial(self) -> Stream:
        """Runs the steps in this process, and returns each record when it is asked for."""
        return Stream(serial(self._program(), self._items))

    def compute_multiprocessing(
        self, num_workers: Optional[int] = None, batch_size: Union[int, str] = "auto"
    ) -> Results:
        """Runs the steps in worker processes on this machine, one per CPU without `num_workers`.

        Items are sent to a worker in messages of `batch_size`, by default as many as take it about 50 ms. If a worker
        is killed, the record it was at gets an error under the label ``worker``, and another worker goes on.
        """
        # All results are held anyway: a slow item at the front holds up nothing.
        window = max(len(self._items), 1)
        return Results(self.stream_multiprocessing(num_workers, batch_size, window, None))

    def stream_multiprocessing(
        self,
        num_workers: Optional[int] = None,
        batch_size: Union[int, str] = "auto",
        window: int = WINDOW,
        memory: Optional[int] = MEMORY,
    ) -> Stream:
        """As `compute_multiprocessing`, but streams the records.

        The workers run ahead by at most `window` items, and pause while results that wait to be read, or for an
        earlier one, take more than `memory` bytes (default: 256 MB).
        """
        return Stream(processes(self._program(), self._items, num_workers, batch_size, window, memory))

    def compute_ray(
        self,
        numparts: Optional[int] = None,
        batch_size: Optional[int] = None,
        verbose: bool = True,
        memory_per_shot: Optional[int] = None,
        retries: int = 3,
        **ray_init: Any,
    ) -> Results:
        """Runs the steps on a Ray cluster: the one that is connected, else that of RAY_ADDRESS, else one that is started on
        the nodes of this Slurm allocation, else this node's.

        `numparts` is the number of tasks per batch, by default about 32 per CPU; `batch_size` the number of items per
        batch, by default all; `memory_per_shot` the memory in bytes that Ray reserves per item of a task. A task
        whose worker or node dies is repeated up to `retries` times; an item that kills its worker every time gets an
        error under the label ``worker``. Further arguments go to ray.init; ``address="local"`` starts a Ray on this
        machine.
        """
        return Results(self._ray(numparts, batch_size, verbose, memory_per_shot, retries, False, ray_init))

    def stream_ray(
        self,
        numparts: Optional[int] = None,
        batch_size: Optional[int] = None,
        verbose: bool = True,
        memory_per_shot: Optional[int] = None,
        retries: int = 3,
        **ray_init: Any,
    ) -> Stream:
        """As `compute_ray`, but streams the records; those of at most 4 tasks per CPU are held."""
        return self._ray(numparts, batch_size, verbose, memory_per_shot, retries, True, ray_init)

    def _ray(
        self,
        numparts: Optional[int],
        batch_size: Optional[int],
        verbose: bool,
        memory: Optional[int],
        retries: int,
        is_stream: bool,
        ray_init: Dict[str, Any],
    ) -> Stream:
        program, items = self._program(), self._items
        return Stream(on_ray(program, items, numparts, batch_size, verbose, retries, memory, is_stream, ray_init))

    def compute_spark(
        self,
        sc: Any = None,
        numparts: Optional[int] = None,
        batch_size: Optional[int] = None,
        verbose: bool = True,
        master: Optional[str] = None,
    ) -> Results:
        """Runs the steps on a Spark cluster: `sc` or the active session, else that of SPARK_MASTER or spark-defaults, else
        one that is started on the nodes of this Slurm allocation.

        `numparts` is the number of tasks per batch, by default about 16 per core; `batch_size` the number of items
        per job, by default all. Spark repeats a task whose executor dies (spark.task.maxFailures); an item that kills
        its worker every time gets an error under the label ``worker``. ``master="local[*]"`` uses this machine.
        """
        return Results(self._spark(sc, numparts, batch_size, verbose, master, False))

    def stream_spark(
        self,
        sc: Any = None,
        numparts: Optional[int] = None,
        batch_size: Optional[int] = None,
        verbose: bool = True,
        master: Optional[str] = None,
    ) -> Stream:
        """As `compute_spark`, but streams the records; those of one batch are held, by default 1024 per core."""
        return self._spark(sc, numparts, batch_size, verbose, master, True)

    def _spark(
        self,
        sc: Any,
        numparts: Optional[int],
        batch_size: Optional[int],
        verbose: bool,
        master: Optional[str],
        is_stream: bool,
    ) -> Stream:
        program, items = self._program(), self._items
        return Stream(on_spark(program, items, sc, master, numparts, batch_size, verbose, is_stream))


def _names(names: Sequence[str]) -> List[str]:
    if isinstance(names, str):
        raise TypeError(f"give a list of names: [{names!r}]")
    return list(names)
