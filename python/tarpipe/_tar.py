"""Reads the samples of a tar stream fast: headers are parsed in Python, data is read in one piece.

Supports what nearly all shards consist of: regular files, directories, and long names in PAX and GNU headers. Anything else
raises `Unusual` and is left to tarcat, so that only tarcat has the rules for it. Used by `samples` and by `worker`.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Iterator
from typing import Any

BLOCK = 512
# tarcat refuses larger samples.
MAX_SIZE = 1 << 30
# Members from this size on are read separately, without a second copy.
LARGE = 1 << 15
# Bytes to read ahead: few after a large member, because another may follow, then doubled each time.
AHEAD = (1 << 11, 1 << 18)
# The most bytes to request at once: a header may claim any size.
MAX_READ = 1 << 26

# name, size, checksum, type, magic, prefix
_header = struct.Struct("100s24x12s12x8sc100x6s82x155s12x").unpack
_pax_record = re.compile(rb"(\d+) ([^=]+)=")

Sample = dict[str, Any]


class Unusual(Exception):
    """Data that is left to tarcat: a damaged or compressed stream, or a rare kind of member."""


class Blocks:
    """Reads a descriptor from its current position."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = b""
        self._at = 0  # may be beyond the end of the buffer if data has to be skipped
        self._ahead = AHEAD[1]
        try:
            os.lseek(descriptor, 0, os.SEEK_CUR)
            self._can_seek = True
        except OSError:
            self._can_seek = False

    def take(self, size: int) -> bytes:
        """Returns the next `size` bytes; fewer at the end of the stream."""
        start = self._at
        end = start + size
        if end <= len(self._buffer):
            self._at = end
            return self._buffer[start:end]
        return self._take_more(size)

    def skip(self, size: int) -> None:
        self._at += size

    def _take_more(self, size: int) -> bytes:
        missing = self._at - len(self._buffer)
        while missing > 0:
            skipped = len(os.read(self._descriptor, min(missing, MAX_READ)))
            if skipped == 0:
                return b""
            missing -= skipped
        have = self._buffer[self._at :]
        if size < LARGE:
            self._buffer = have + self._read(size - len(have), self._ahead)
            self._ahead = min(2 * self._ahead, AHEAD[1])
            self._at = min(size, len(self._buffer))
            return self._buffer[: self._at]
        self._buffer, self._at, self._ahead = b"", 0, AHEAD[0]
        if self._can_seek and have:  # reading these bytes again costs less than moving all others
            os.lseek(self._descriptor, -len(have), os.SEEK_CUR)
            have = b""
        rest = self._read(size - len(have), 0)
        return have + rest if have else rest

    def _read(self, least: int, ahead: int) -> bytes:
        """Buffers at least `least` bytes, and up to `ahead` if that is more."""
        parts: list[bytes] = []
        while least > 0:
            part = os.read(self._descriptor, min(max(least, ahead), MAX_READ))
            if not part:
                break
            parts.append(part)
            least -= len(part)
            ahead -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def members(blocks: Blocks, max_size: int = MAX_SIZE) -> Iterator[tuple[str, bytes]]:
    """Yields name and data of each regular file, up to the end of the stream."""
    take, ended = blocks.take, False
    path: bytes | None = None
    actual: int | None = None
    while True:
        block = take(BLOCK)
        if len(block) < BLOCK or block[0] == 0:
            if not block and ended:
                return
            if len(block) < BLOCK or block.strip(b"\0"):
                raise Unusual
            ended = True  # concatenated archives are one stream
            continue
        name, digits, stored, kind, magic, prefix = _header(block)
        check_sum(block, stored)
        size = number(digits) if actual is None else actual
        if size > max_size:
            raise Unusual
        ended = False
        data = take(size)
        if len(data) < size:
            raise Unusual
        blocks.skip(-size % BLOCK)
        if kind == b"0" or kind == b"\0":
            if path is None:
                path = name.partition(b"\0")[0]
                if prefix[0] and magic == b"ustar\0":
                    path = prefix.partition(b"\0")[0] + b"/" + path
            yield text(path), data
            path = actual = None
        elif kind == b"x":
            path, actual = pax(data, path)
        elif kind == b"L":
            path = path or data.partition(b"\0")[0]
        elif kind == b"5" and size == 0:
            path = actual = None
        elif kind != b"K":
            raise Unusual


def check_sum(block: bytes, stored: bytes) -> None:
    """Checks the checksum of a header, for which its own field counts as blanks. Adler-32 has the sum of
    all bytes plus one in its lower half, modulo 65521: ten times faster than sum()."""
    try:
        expected = int(stored.strip(b"\0 "), 8)
    except ValueError:
        raise Unusual from None
    if ((zlib.adler32(block) & 0xFFFF) - 1 - sum(stored) + 8 * 32 - expected) % 65521 != 0:
        raise Unusual


def number(field: bytes) -> int:
    """Parses octal digits, or GNU's base 256."""
    if field[0] & 0x80:
        return int.from_bytes(field, "big") & (1 << 95) - 1
    try:
        return int(field.rstrip(b"\0 ") or b"0", 8)
    except ValueError:
        raise Unusual from None


def pax(records: bytes, path: bytes | None) -> tuple[bytes | None, int | None]:
    """Returns the path and the size of the next member that a PAX header contains."""
    size, at = None, 0
    while at < len(records) and records[at] != 0:
        found = _pax_record.match(records, at)
        if found is None or found[2].startswith(b"GNU.sparse."):
            raise Unusual
        end = at + int(found[1])
        value = records[found.end() : end - 1]
        if end > len(records) or records[end - 1] != 10 or found.end() >= end:
            raise Unusual
        if found[2] == b"path":
            path = value
        elif found[2] == b"size":
            if not value.isdigit():
                raise Unusual
            size = int(value)
        at = end
    return path, size


def text(path: bytes) -> str:
    try:
        return path.decode()
    except UnicodeDecodeError:
        raise Unusual from None


def samples(descriptor: int) -> Iterator[Sample]:
    """Groups adjacent members with the same key into samples. Raises `Unusual` before the sample that contains unusual data."""
    key: str | None = None
    sample: Sample = {}
    for name, data in members(Blocks(descriptor)):
        base = name.rfind("/") + 1
        dot = name.find(".", base)
        field = name[dot + 1 :]
        # Names that belong to no sample, and hostile ones.
        if dot <= base or not field or name[0] == "/" or ".." in name or name[:2] == "__" or not name.isprintable():
            raise Unusual
        if name[:dot] != key:
            if key is not None:
                yield sample
            key = name[:dot]
            sample = {"__key__": key}
        if field in sample:
            raise Unusual
        sample[field] = data
    if key is not None:
        yield sample
