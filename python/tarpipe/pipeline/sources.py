"""Sources: where `Pipeline.fetch` gets a value for an item.

A source is a function of the item, an object with a method ``fetch(item)`` (as TokSearch's signals have), or a file
template such as ``/data/{shot:06}.npz``, whose suffix selects a reader. A source is created once in each worker and
stays there, so what it opens at the first item (a connection, a model) serves all further items: see `MdsSignal`.

Optional methods: ``cleanup_shot(item)`` is called after each item, ``cleanup()`` when a worker of
`compute_multiprocessing` or `compute_serial` ends.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Optional, Sequence

from .record import Record


class FileSource:
    """Reads the file that a template names; fields of the record and ``item`` are filled in.

    The value is what `decode` makes of the path, by default the content as bytes.

    >>> FileSource("/data/{machine}/{shot:06}.bin").path(Record.from_item({"shot": 42, "machine": "d3d"}))
    '/data/d3d/000042.bin'
    """

    def __init__(self, template: str, decode: Optional[Callable[[str], Any]] = None) -> None:
        self.template, self.decode = template, decode or read_bytes

    def path(self, record: Record) -> str:
        """Returns the path for a record."""
        return self.template.format_map({**vars(record), "item": record.shot})

    def fetch_record(self, record: Record) -> Any:
        """Reads the file of a record."""
        return self.decode(self.path(record))


class Npz(FileSource):
    """Reads an ``.npz`` file as a dictionary of arrays, or an ``.npy`` file as an array (needs numpy)."""

    def __init__(self, template: str, names: Optional[Sequence[str]] = None, mmap: bool = False) -> None:
        super().__init__(template)
        self.names, self.mmap = names, mmap

    def fetch_record(self, record: Record) -> Any:
        """Reads the arrays of a record."""
        import numpy

        loaded = numpy.load(self.path(record), mmap_mode="r" if self.mmap else None, allow_pickle=False)
        if not hasattr(loaded, "files"):
            return loaded
        with loaded:
            return {name: loaded[name] for name in self.names or loaded.files}


class Hdf5(FileSource):
    """Reads datasets of an HDF5 file as a dictionary of arrays (needs h5py).

    Without `names`, all datasets are read; a dataset below a group has a name such as ``magnetics/ip``.
    """

    def __init__(self, template: str, names: Optional[Sequence[str]] = None) -> None:
        super().__init__(template)
        self.names = names

    def fetch_record(self, record: Record) -> Dict[str, Any]:
        """Reads the datasets of a record."""
        import h5py

        values: Dict[str, Any] = {}

        def read(name: str, node: Any) -> None:
            if isinstance(node, h5py.Dataset):
                values[name] = node[()]

        with h5py.File(self.path(record), "r") as file:
            if self.names is None:
                file.visititems(read)
            for name in self.names or ():
                read(name, file[name])
        return values


class Parquet(FileSource):
    """Reads a parquet file as a dictionary of columns (needs pyarrow): arrays if numpy is installed, else lists."""

    def __init__(self, template: str, columns: Optional[Sequence[str]] = None) -> None:
        super().__init__(template)
        self.columns = columns

    def fetch_record(self, record: Record) -> Dict[str, Any]:
        """Reads the columns of a record."""
        import pyarrow.parquet

        columns = list(self.columns) if self.columns is not None else None
        table = pyarrow.parquet.read_table(self.path(record), columns=columns)
        try:
            import numpy  # noqa: F401  (to_numpy needs it)
        except ImportError:
            return {name: table[name].to_pylist() for name in table.column_names}
        return {name: table[name].to_numpy() for name in table.column_names}


class MdsSignal:
    """A signal of an MDSplus tree: a dictionary with ``data``, ``times`` and ``units`` (needs MDSplus).

    `location` is None for local trees, or ``remote://HOST`` for a server. For another archive, write a class of your
    own with the same three methods: ``fetch`` opens what it needs at the first call and keeps it, so that one
    connection per worker serves all items.
    """

    def __init__(self, expression: str, treename: Optional[str] = None, location: Optional[str] = None) -> None:
        self.expression, self.treename, self.location = expression, treename, location
        self._connection: Any = None

    def fetch(self, shot: int) -> Dict[str, Any]:
        """Reads the signal for a shot."""
        evaluate = self._open(shot)
        data = evaluate(self.expression).data()
        times = evaluate(f"dim_of({self.expression})").data()
        try:
            units = str(evaluate(f"units_of({self.expression})").data())
        except Exception:  # many signals have none
            units = ""
        return {"data": data, "times": times, "units": {"data": units}}

    def _open(self, shot: int) -> Callable[[str], Any]:
        import MDSplus

        if self.location is None:
            return MDSplus.Tree(self.treename, shot).tdiExecute
        if self._connection is None:
            self._connection = MDSplus.Connection(self.location.split("://", 1)[-1])
        if self.treename is not None:
            self._connection.openTree(self.treename, shot)
        return self._connection.get

    def cleanup_shot(self, shot: int) -> None:
        """Closes the tree of a shot; the connection stays."""
        if self._connection is not None and self.treename is not None:
            self._connection.closeTree(self.treename, shot)

    def cleanup(self) -> None:
        """Closes the connection."""
        if self._connection is not None:
            self._connection.disconnect()
        self._connection = None

    def __getstate__(self) -> Dict[str, Any]:
        return {**vars(self), "_connection": None}


def source_of(source: Any) -> Any:
    """Returns the source that the user means; a text is a file template.

    >>> type(source_of("/data/{shot}.h5")).__name__
    'Hdf5'
    """
    if not isinstance(source, (str, os.PathLike)):
        if callable(source) or hasattr(source, "fetch") or hasattr(source, "fetch_record"):
            return source
        raise TypeError(f"{source!r} is not a source: give a function, an object with fetch(), or a file template")
    template = os.fspath(source)
    reader = _READERS.get(os.path.splitext(template)[1].lower(), FileSource)
    return reader(template)


def read_bytes(path: str) -> bytes:
    """Returns the content of a file."""
    with open(path, "rb") as file:
        return file.read()


def _json(template: str) -> FileSource:
    return FileSource(template, read_json)


def _text(template: str) -> FileSource:
    return FileSource(template, read_text)


def read_json(path: str) -> Any:
    """Returns the value of a JSON file."""
    import json

    return json.loads(read_bytes(path))


def read_text(path: str) -> str:
    """Returns the content of a UTF-8 text file."""
    return read_bytes(path).decode()


_READERS: Dict[str, Callable[[str], Any]] = {
    ".npz": Npz,
    ".npy": Npz,
    ".h5": Hdf5,
    ".hdf5": Hdf5,
    ".parquet": Parquet,
    ".json": _json,
    ".txt": _text,
}
