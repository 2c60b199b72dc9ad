"""The steps of a pipeline, and the program they make: what runs in every worker, on every backend.

This code is sent to the workers of Ray and Spark by value, so the nodes need no tarpipe: it must not import modules of
this package inside functions. What workers return is plain data for the same reason.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from .record import Record

#: Why a record was removed: nothing if a predicate was false; the item, the predicate and the message if it raised.
Removal = Tuple[Any, ...]
#: What becomes of an item: the fields of its record, or its removal.
Outcome = Union[Dict[str, Any], Removal]


class Fetch:
    """Stores what a source has for the item; None, and an error under the field's name, if the source fails."""

    def __init__(self, name: str, source: Any) -> None:
        self.name, self.source = name, source

    def __call__(self, record: Record) -> Optional[Removal]:
        try:
            record[self.name] = self._read(record)
        except Exception as error:
            record.set_error(self.name, error)
            record[self.name] = None
        return None

    def _read(self, record: Record) -> Any:
        source = self.source
        if hasattr(source, "fetch_record"):
            return source.fetch_record(record)
        return source.fetch(record.shot) if hasattr(source, "fetch") else source(record.shot)


class Map:
    """Calls a function that changes the record; an exception is an error under the function's name."""

    def __init__(self, function: Callable[[Record], Any]) -> None:
        self.function, self.name = function, name_of(function)

    def __call__(self, record: Record) -> Optional[Removal]:
        try:
            self.function(record)
        except Exception as error:
            record.set_error(self.name, error)
        return None


class Where:
    """Removes records for which the predicate is false, or raises an exception."""

    def __init__(self, predicate: Callable[[Record], Any]) -> None:
        self.predicate, self.name = predicate, name_of(predicate)

    def __call__(self, record: Record) -> Optional[Removal]:
        try:
            return None if self.predicate(record) else ()
        except Exception as error:
            return (record.shot, self.name, f"{type(error).__name__}: {error}")


class Keep:
    """Removes all other fields."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)

    def __call__(self, record: Record) -> Optional[Removal]:
        record.keep(self.names)
        return None


class Discard:
    """Removes some fields."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)

    def __call__(self, record: Record) -> Optional[Removal]:
        record.discard(self.names)
        return None


def name_of(function: Any) -> str:
    """Returns the name under which a step's errors are recorded."""
    return getattr(function, "__name__", None) or type(function).__name__


class Program:
    """The steps in order. One program lives in each worker and handles item after item."""

    def __init__(self, steps: Sequence[Any]) -> None:
        self.steps = list(steps)
        self.sources = [step.source for step in self.steps if isinstance(step, Fetch)]

    def apply(self, record: Record) -> Optional[Removal]:
        """Runs the steps on a record, in place, until one of them removes it."""
        removal: Optional[Removal] = None
        for step in self.steps:
            removal = step(record)
            if removal is not None:
                break
        for source in self.sources:
            if hasattr(source, "cleanup_shot"):
                try:
                    source.cleanup_shot(record.shot)
                except Exception as error:
                    record.set_error("cleanup_shot", error)
        return removal

    def run(self, item: Any) -> Outcome:
        """Makes a record from an item, runs the steps on it, and returns what became of it."""
        record = Record.from_item(item)
        removal = self.apply(record)
        return record.fields() if removal is None else removal

    def close(self) -> None:
        """Releases what the sources hold open."""
        for source in self.sources:
            if hasattr(source, "cleanup"):
                source.cleanup()


def lost(item: Any, why: str) -> Outcome:
    """Returns the outcome of an item whose worker died: a record with an error under the label "worker"."""
    record = Record.from_item(item)
    record.set_error("worker", why)
    return record.fields()


def encode(outcomes: List[Outcome], dumps: Callable[[Any], bytes]) -> bytes:
    """Serialises outcomes. Values that cannot be serialised become errors of their records."""
    try:
        return dumps(outcomes)
    except Exception:
        return dumps([_sendable(outcome, dumps) for outcome in outcomes])


def _sendable(outcome: Outcome, dumps: Callable[[Any], bytes]) -> Outcome:
    if not isinstance(outcome, dict):
        return outcome
    record = Record.from_fields(outcome)
    for name, value in outcome.items():
        error: Optional[Exception] = None
        try:
            dumps(value)
        except Exception as failure:
            error = failure
        if error is not None:
            record.set_error(name, error)
            record[name] = None
    return record.fields()
