"""Records as samples of a tar stream, and shards of them, cut by tarsplit."""

from __future__ import annotations

import io
import json
import math
import shutil
import subprocess
import sys
import tarfile
import warnings
from typing import IO, Any, Callable, Dict, Iterable, List, Optional, Sequence, Set, Tuple

from .partition import PipelineError
from .record import PROTECTED, Record

KeyFunction = Optional[Callable[[Record], str]]
Member = Tuple[str, bytes]


def write_shards(
    records: Iterable[Record],
    pattern: str,
    samples: int,
    size: Optional[str],
    failed: str,
    key: KeyFunction,
    arguments: Sequence[str],
) -> int:
    """Writes records as shards; see `Records.write_shards`."""
    if failed not in ("skip", "mark"):
        raise ValueError(f"failed must be 'skip' or 'mark', not {failed!r}")
    words = ["tarsplit", "-o", pattern, "-n", str(samples), *(["-s", size] if size else []), *arguments]
    skipped = 0
    with Tool(words, stdin=subprocess.PIPE) as tool, SampleWriter(tool.stdin, key) as output:
        for record in records:
            if not record.errors:
                output.write(record, members(record))
            elif failed == "mark":
                output.write(record, [("json", failure(record))])
            else:
                skipped += 1
    if skipped:
        total = skipped + output.count
        warnings.warn(f"left {skipped} of {total} records out of the shards: they have errors", stacklevel=3)
    return output.count


class Tool:
    """A tool of tarpipe that reads what this process writes. It is killed if the writing fails."""

    def __init__(self, words: List[str], **options: Any) -> None:
        self.name = words[0]
        program = shutil.which(self.name) or shutil.which("tarpipe")
        if program is None:
            raise PipelineError(f"{self.name} not found: install tarpipe's tools, or put them on the PATH")
        sys.stdout.flush()
        self.process = subprocess.Popen(words, executable=program, bufsize=1 << 20, **options)

    @property
    def stdin(self) -> IO[bytes]:
        """The input of the tool."""
        assert self.process.stdin is not None
        return self.process.stdin

    def __enter__(self) -> Tool:
        return self

    def __exit__(self, kind: Any, error: Any, _: Any) -> None:
        is_broken_pipe = isinstance(error, BrokenPipeError)
        if error is not None and not is_broken_pipe:
            self.process.kill()  # else it would take an incomplete stream for a damaged one
        if self.process.stdin is not None:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                is_broken_pipe = True
        status = self.process.wait()
        if error is None or is_broken_pipe:
            if status != 0 or is_broken_pipe:
                raise PipelineError(f"{self.name} failed with exit status {status}") from error


class SampleWriter:
    """Writes samples to a tar stream."""

    def __init__(self, output: IO[bytes], key: KeyFunction) -> None:
        self.output, self.key = output, key
        self.seen: Set[int] = set()
        self.count = 0

    def write(self, record: Record, fields: Iterable[Member]) -> None:
        """Writes a sample."""
        key = self.key_of(record)
        for field, data in fields:
            header = tarfile.TarInfo(f"{key}.{field}")
            header.size, header.mode = len(data), 0o444
            self.output.write(header.tobuf(tarfile.PAX_FORMAT))
            self.output.write(data)
            self.output.write(bytes(-len(data) % tarfile.BLOCKSIZE))
        self.count += 1

    def key_of(self, record: Record) -> str:
        """Returns the key of a record, which must be unique."""
        key = str(self.key(record) if self.key else record.shot)
        base = key.rsplit("/", 1)[-1]
        if not base or "." in base or key.startswith("/"):
            raise PipelineError(f"{key!r} cannot be the key of a sample; pass key=FUNCTION to make one from the record")
        if hash(key) in self.seen:
            raise PipelineError(f"the key {key!r} appears twice; pass key=FUNCTION to make unique ones")
        self.seen.add(hash(key))
        return key

    def __enter__(self) -> SampleWriter:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.output.write(bytes(2 * tarfile.BLOCKSIZE))
            self.output.flush()


def members(record: Record) -> List[Member]:
    """Returns the fields of a record as members of a sample."""
    values: Dict[str, Any] = {}
    rest: List[Member] = []
    for name, value in vars(record).items():
        if name == "errors":
            continue
        arrays = arrays_of(value)
        if isinstance(value, (bytes, bytearray, memoryview)):
            rest.append((name, bytes(value)))
        elif arrays is None:
            values[name] = value
        elif isinstance(value, dict):
            rest.append((f"{name}.npz", saved("savez", **arrays)))
            values[name] = {part: content for part, content in value.items() if part not in arrays}
        else:
            rest.append((f"{name}.npy", saved("save", value)))
    return [("json", to_json(record, values)), *rest]


def arrays_of(value: Any) -> Optional[Dict[str, Any]]:
    """Returns the arrays in a value: itself, or the arrays among the values of a dictionary; None without any."""
    numpy = sys.modules.get("numpy")  # without it, there are no arrays
    if numpy is None:
        return None
    if isinstance(value, numpy.ndarray) and value.dtype != object:
        return {"": value}
    if isinstance(value, dict):
        return {str(part): content for part, content in value.items() if isinstance(content, numpy.ndarray)} or None
    return None


def saved(function: str, *arrays: Any, **named: Any) -> bytes:
    """Returns arrays as numpy.save or numpy.savez write them."""
    import numpy

    output = io.BytesIO()
    getattr(numpy, function)(output, *arrays, **named)
    return output.getvalue()


def failure(record: Record) -> bytes:
    """Returns the json that marks a failed sample, as tarpipe's tools know it."""
    label, error = next(iter(record.errors.items()))
    mark = {"shot": record.shot, "status": "failed", "tool": "pipeline", "code": "step_failed"}
    return to_json(record, {**mark, "error_message": f"{label}: {error['message']}"})


def to_json(record: Record, values: Dict[str, Any]) -> bytes:
    """Returns values as JSON."""
    try:
        return json.dumps({name: plain(value) for name, value in values.items()}, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise PipelineError(f"{record.shot!r} cannot be written: {error}; convert the field in a map step") from error


def plain(value: Any) -> Any:
    """Returns a value as JSON has it: numpy's numbers and arrays become Python's, NaN and infinities become null.

    >>> plain({"a": (1.5, float("nan")), 2: True})
    {'a': [1.5, None], '2': True}
    """
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(name): plain(content) for name, content in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(content) for content in value]
    return plain(value.tolist()) if hasattr(value, "tolist") else value


def names_of(record: Record) -> List[str]:
    """Returns the names of a record's own fields."""
    return [name for name in vars(record) if name not in PROTECTED]
