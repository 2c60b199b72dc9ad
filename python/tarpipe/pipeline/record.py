"""A record: the fields that a pipeline has gathered for one item, and the errors of the steps that failed."""

from __future__ import annotations

import traceback
from typing import Any, Dict, Iterable, Iterator, KeysView, Mapping, Optional, Union

#: Fields that no step can remove.
PROTECTED = frozenset({"shot", "errors"})


class InvalidItem(ValueError):
    """An item that cannot become a record."""


class Record:
    """The fields of one item, by name: ``rec["name"]`` and ``rec.name`` are the same value.

    Every record has the fields ``shot`` (the item: a number, a name) and ``errors``, which maps the name of each step
    that failed to a dictionary with its ``label``, ``type``, ``message`` and ``traceback``.

    >>> rec = Record(165920)
    >>> rec["peak"] = 1.5
    >>> rec.shot, rec["shot"], rec.item, rec.peak, "peak" in rec
    (165920, 165920, 165920, 1.5, True)
    >>> rec.keep([])
    >>> sorted(rec.keys())
    ['errors', 'shot']
    """

    shot: Any
    errors: Dict[str, Dict[str, str]]

    def __init__(self, shot: Any) -> None:
        self.shot = shot
        self.errors = {}

    @classmethod
    def from_item(cls, item: Any) -> Record:
        """Makes a record from an item: a dictionary of fields, among them ``shot``, or any other value, as ``shot``.

        >>> Record.from_item({"shot": 7, "gain": 2}).gain
        2
        """
        return cls.from_fields(item) if isinstance(item, dict) else cls(item)

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Record:
        """Makes a record from all its fields, as `fields` returns them."""
        record = cls(fields["shot"])
        vars(record).update(fields, errors=dict(fields.get("errors", {})))
        return record

    def fields(self) -> Dict[str, Any]:
        """Returns all fields, ``shot`` and ``errors`` among them, as a new dictionary."""
        return {**vars(self), "errors": dict(self.errors)}

    @property
    def item(self) -> Any:
        """The item of this record; another name of ``shot``."""
        return self.shot

    def __getitem__(self, name: str) -> Any:
        return vars(self)[name]

    def __setitem__(self, name: str, value: Any) -> None:
        vars(self)[name] = value

    def __delitem__(self, name: str) -> None:
        if name in PROTECTED:
            raise KeyError(f"{name} cannot be removed from a record")
        del vars(self)[name]

    def __contains__(self, name: object) -> bool:
        return name in vars(self)

    def __iter__(self) -> Iterator[str]:
        return iter(vars(self))

    def __len__(self) -> int:
        return len(vars(self))

    def __repr__(self) -> str:
        return f"Record({vars(self)!r})"

    def get(self, name: str, default: Any = None) -> Any:
        """Returns a field, or `default` if the record does not have it."""
        return vars(self).get(name, default)

    def keys(self) -> KeysView[str]:
        """Returns the names of all fields, ``shot`` and ``errors`` among them."""
        return vars(self).keys()

    def pop(self, name: str) -> Any:
        """Removes a field and returns its value; ``shot`` and ``errors`` stay, and None is returned."""
        return None if name in PROTECTED else vars(self).pop(name)

    def keep(self, names: Iterable[str]) -> None:
        """Removes all other fields, except ``shot`` and ``errors``."""
        kept = PROTECTED.union(names)
        for name in list(vars(self)):
            if name not in kept:
                del vars(self)[name]

    def discard(self, names: Iterable[str]) -> None:
        """Removes these fields, if they exist; ``shot`` and ``errors`` stay."""
        for name in set(names) - PROTECTED:
            vars(self).pop(name, None)

    def set_error(self, label: str, error: Union[BaseException, str]) -> None:
        """Records that a step failed. The second error of a label gets the name ``label_1``, and so on.

        >>> rec = Record(1)
        >>> rec.set_error("fit", ValueError("no data")); rec.set_error("fit", "killed")
        >>> rec.errors["fit"]["message"], list(rec.errors)
        ('no data', ['fit', 'fit_1'])
        """
        name, number = label, 0
        while name in self.errors:
            number += 1
            name = f"{label}_{number}"
        self.errors[name] = describe(name, error)


def describe(label: str, error: Union[BaseException, str]) -> Dict[str, str]:
    """Returns an error as text, since not every exception can be sent to another process."""
    if isinstance(error, str):
        return {"label": label, "type": "", "message": error, "traceback": ""}
    trace: Optional[str] = None
    try:
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        message = str(error)
    except Exception as second:  # an exception whose __str__ fails
        message = f"{type(error).__name__} (its text cannot be shown: {type(second).__name__})"
    return {"label": label, "type": str(type(error)), "message": message, "traceback": trace or ""}


def plain_item(item: Any) -> Any:
    """Returns an item as data that every worker understands, and refuses an invalid one.

    >>> plain_item(165920), plain_item(Record(1))
    (165920, {'shot': 1, 'errors': {}})
    >>> plain_item({"gain": 2})
    Traceback (most recent call last):
    tarpipe.pipeline.record.InvalidItem: the item {'gain': 2} has no field 'shot'
    """
    if isinstance(item, Record):
        return item.fields()
    if not isinstance(item, Mapping):
        return item
    if "shot" not in item:
        raise InvalidItem(f"the item {dict(item)!r} has no field 'shot'")
    if "errors" in item:
        raise InvalidItem(f"the item {dict(item)!r} has a field 'errors', which is reserved")
    return dict(item)
