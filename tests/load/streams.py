"""Generates streams that are larger than the disk, on stdout: `streams.py tiny|large|rows|urls …`.

    tiny N             N samples of one short text each
    large BYTES EACH   samples of EACH zero bytes, until there are BYTES
    rows SECONDS URL   URL/0, URL/1, … until the time is over
    urls N URL         N of them
"""

import os
import sys
import tarfile
import time

BLOCK = 512
CHUNK = 1 << 20


def write(data):
    while data:
        data = data[os.write(1, data) :]


def header(name, size):
    member = tarfile.TarInfo(name)
    member.size = size
    return member.tobuf(tarfile.USTAR_FORMAT)


def tiny(count):
    """A header is made once; a number and the sum over it are put into copies."""
    text = b"a short text"
    head, body = header("s00000000.txt", len(text)), text.ljust(BLOCK, b"\0")
    rest = sum(head[:148]) + sum(head[156:]) + 8 * 32 - 8 * ord("0")
    pending = []
    for number in range(count):
        digits = b"%08d" % number
        total = b"%06o\0 " % (rest + sum(digits))
        pending += [b"s", digits, head[9:148], total, head[156:], body]
        if len(pending) > 6000:
            write(memoryview(b"".join(pending)))
            pending.clear()
    write(memoryview(b"".join(pending) + bytes(2 * BLOCK)))


def large(total, each):
    zeros = memoryview(bytes(CHUNK))
    each -= each % BLOCK
    for number in range(-(-total // each)):
        write(memoryview(header(f"s{number:06}.bin", each)))
        left = each
        while left:
            n = min(left, CHUNK)
            write(zeros[:n])
            left -= n
    write(memoryview(bytes(2 * BLOCK)))


def rows(seconds, url):
    """As many as the reader takes: it decides how far ahead it reads."""
    end, number = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        text = "".join(f"{url}/{i}.jpg\n" for i in range(number, number + 100))
        write(memoryview(text.encode()))
        number += 100


if __name__ == "__main__":
    kind, *values = sys.argv[1:]
    try:
        if kind == "tiny":
            tiny(int(values[0]))
        elif kind == "large":
            large(int(values[0]), int(values[1]))
        elif kind == "rows":
            rows(float(values[0]), values[1])
        else:
            write(memoryview("".join(f"{values[1]}/{i}\n" for i in range(int(values[0]))).encode()))
    except BrokenPipeError:
        sys.exit(1)
