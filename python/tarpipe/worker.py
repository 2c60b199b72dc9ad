"""For a Python program that ``tarproc --worker`` runs: read samples, write results.

    from tarpipe import worker

    for sample in worker.samples():
        sample["txt"] = sample["txt"].upper()
        worker.write(sample)

    tarproc -p 4 --worker 'python3 upper.py' in.tar -o out.tar

A sample is a dictionary: ``"__key__"`` is its key as a string, every other item is a field as bytes. Call `write` once
for each sample, not at all (the sample is dropped) or several times with different keys. ``fail("reason")`` makes tarproc
count the sample as failed; an uncaught exception does the same, but ends this process, and tarproc starts
another one.

stdin and stdout belong to tarproc: from the first call of `samples` on, print() goes to stderr. Do not print before that.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from . import _tar

__all__ = ["fail", "samples", "write"]

_END = "__end__"
_ERROR = "__error__"
_KEY = "__key__"
# The fixed part of a header, from the mode on.
_IDS = b"0000444\0" b"0001750\0" b"0001750\0"
_TAIL = b"0".ljust(101, b"\0") + b"ustar\x0000" + b"bigdata".ljust(32, b"\0") + b"bigdata".ljust(32, b"\0")
_TAIL = _TAIL.ljust(_tar.BLOCK - 156, b"\0")
_FIXED_SUM = sum(_IDS) + sum(b"%011o\0" % 0) + sum(_TAIL) + 8 * 32
_NO_LIMIT = 1 << 62  # tarproc has one

_input = _output = -1
_pending: list[bytes] = []


def samples() -> Iterator[dict[str, Any]]:
    """Yield the samples that tarproc sends. Requesting the next one completes the result of the previous one."""
    _take_over()
    sample: dict[str, Any] = {}
    try:
        for name, data in _tar.members(_tar.Blocks(_input), _NO_LIMIT):
            if name == _END:
                yield sample
                _put(_END, b"")
                _flush()
                sample = {}
            elif name == _KEY:
                sample[_KEY] = data.decode()
            else:
                dot = name.index(".", name.rfind("/") + 1)
                sample.setdefault(_KEY, name[:dot])
                sample[name[dot + 1 :]] = data
    except _tar.Unusual:
        return  # tarproc has gone


def write(sample: Mapping[str, Any]) -> None:
    """Write a sample: bytes unchanged, strings as UTF-8. Items whose names begin with _ are not fields."""
    key = sample[_KEY]
    for field, value in sample.items():
        if not field.startswith("_"):
            _put(f"{key}.{field}", value.encode() if isinstance(value, str) else bytes(value))


def fail(reason: object) -> None:
    """Report that the current sample failed, and why."""
    _put(_ERROR, str(reason).encode())


def _take_over() -> None:
    """Keeps stdin and stdout for the protocol: what the program prints must not be mixed into the results."""
    global _input, _output
    if _output < 0:
        _input, _output = os.dup(0), os.dup(1)
        os.dup2(2, 1)


def _put(path: str, data: bytes, kind: bytes = b"0") -> None:
    name = path.encode()
    if len(name) > 100:
        _put("PaxHeaders/long", _pax_record(name), b"x")
        name = name[:100]
    size = b"%011o\0" % len(data)
    total = _FIXED_SUM + sum(name) + sum(size) + kind[0] - _TAIL[0]
    parts = (name.ljust(100, b"\0"), _IDS, size, b"%011o\0" % 0, b"%06o\0 " % total, kind, _TAIL[1:])
    _pending.append(b"".join(parts))
    if data:
        _pending.append(data)
        _pending.append(bytes(-len(data) % _tar.BLOCK))


def _pax_record(path: bytes) -> bytes:
    rest = len(b" path=\n") + len(path)
    length = rest + 1
    while rest + len(str(length)) != length:
        length = rest + len(str(length))
    return b"%d path=%s\n" % (length, path)


def _flush() -> None:
    data = memoryview(b"".join(_pending))
    _pending.clear()
    while data:
        data = data[os.write(_output, data) :]
