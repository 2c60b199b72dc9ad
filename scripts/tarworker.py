"""Samples for a Python program that tarproc --worker runs.

    import tarworker

    for sample in tarworker.samples():
        sample["txt"] = sample["txt"].upper()
        tarworker.write(sample)

A sample is a dictionary: "__key__" holds the key as text, every other item is a field with its
bytes. write() may be called once for a sample, not at all (the sample is dropped) or several times
with different keys. fail("why") lets tarproc count the sample as failed; an exception that nobody
catches does the same, but ends this process, and tarproc starts another one. print() goes to stderr,
for stdout belongs to the answers.

Standard library only; copy the file to where your program is, or put its folder on PYTHONPATH.
"""

import os
import sys

_BLOCK = 512
_END = b"__end__"
_ERROR = b"__error__"
_KEY = b"__key__"
# A header of ours from the mode on, with blanks where the checksum goes.
_IDS = b"0000444\0" b"0001750\0" b"0001750\0"
_TAIL = b"0".ljust(101, b"\0") + b"ustar\x0000" + b"bigdata".ljust(32, b"\0") + b"bigdata".ljust(32, b"\0")
_TAIL = _TAIL.ljust(_BLOCK - 156, b"\0")
_FIXED_SUM = sum(_IDS) + sum(b"%011o\0" % 0) + sum(_TAIL) + 8 * 32

_input = os.fdopen(os.dup(0), "rb", 1 << 20)
_output = os.dup(1)
os.dup2(2, 1)  # whatever the program prints must not get among the answers
_pending = []


def samples():
    """Yields samples as they come. Asking for the next one ends the answer to the one before."""
    while True:
        sample = _read_sample()
        if sample is None:
            return
        yield sample
        _put(_END, b"")
        _flush()


def write(sample):
    """Writes a sample: bytes as they are, text as UTF-8. Items whose names start with _ are no fields."""
    key = sample["__key__"]
    for field, value in sample.items():
        if not field.startswith("_"):
            data = value.encode() if isinstance(value, str) else bytes(value)
            _put(f"{key}.{field}".encode(), data)


def fail(reason):
    """Says that the current sample failed, and why."""
    _put(_ERROR, str(reason).encode())


def _read_sample():
    sample = {}
    long_name = None
    read = _input.read
    while True:
        header = read(_BLOCK)
        if len(header) < _BLOCK or header[0] == 0:
            return None
        size = _number(header[124:136])
        kind = header[156:157]
        data = read(size + -size % _BLOCK)[:size] if size else b""
        if len(data) < size:
            return None
        if kind == b"x":
            long_name = _pax_path(data) or long_name
            continue
        if kind == b"L":
            long_name = data.rstrip(b"\0")
            continue
        name, long_name = long_name or _name(header), None
        if name == _END:
            return sample
        if name == _KEY:
            sample["__key__"] = data.decode()
            continue
        slash = name.rfind(b"/") + 1
        dot = name.index(b".", slash)
        if "__key__" not in sample:
            sample["__key__"] = name[:dot].decode()
        sample[name[dot + 1 :].decode()] = data


def _number(field):
    if field[0] & 0x80:
        return int.from_bytes(field[1:], "big")
    return int(field.rstrip(b"\0 ") or b"0", 8)


def _name(header):
    name = header[:100].rstrip(b"\0")
    if header[345] and header[257:263] == b"ustar\0":
        return header[345:500].rstrip(b"\0") + b"/" + name
    return name


def _pax_path(records):
    path = None
    while records and records[0]:
        length = int(records[: records.index(b" ")])
        keyword, _, value = records[records.index(b" ") + 1 : length - 1].partition(b"=")
        if keyword == b"path":
            path = value
        records = records[length:]
    return path


def _put(name, data, kind=None):
    if len(name) > 100:
        _put(b"PaxHeaders/long", _pax_record(name), b"x")
        name = name[:100]
    size = b"%011o\0" % len(data)
    total = _FIXED_SUM + sum(name) + sum(size)
    tail = _TAIL
    if kind:
        tail = kind + _TAIL[1:]
        total += kind[0] - _TAIL[0]
    _pending.append(b"".join((name.ljust(100, b"\0"), _IDS, size, b"%011o\0" % 0, b"%06o\0 " % total, tail)))
    if data:
        _pending.append(data)
        _pending.append(bytes(-len(data) % _BLOCK))


def _pax_record(path):
    rest = len(b" path=\n") + len(path)
    length = rest + 1
    while rest + len(str(length)) != length:
        length = rest + len(str(length))
    return b"%d path=%s\n" % (length, path)


def _flush():
    data = memoryview(b"".join(_pending))
    _pending.clear()
    while data:
        data = data[os.write(_output, data) :]


sys.stdout.flush()
