"""What the tests of the Python package have in common."""

import contextlib
import http.server
import io
import os
import pathlib
import shutil
import struct
import sys
import tarfile
import tempfile
import threading
import time
import unittest
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python"))


def png(side=4):
    """A grey picture."""
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))  # noqa: E731
    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress((b"\0" + b"\x80" * side) * side)) + chunk(b"IEND", b"")


def tar(members, format=tarfile.USTAR_FORMAT):
    """The bytes of an archive with these members; a member without data is a directory."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            if data is None:
                info.type = tarfile.DIRTYPE
                archive.addfile(info)
            else:
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


class InFolder(unittest.TestCase):
    """A test that runs in a folder of its own."""

    def setUp(self):
        before, self.folder = os.getcwd(), pathlib.Path(tempfile.mkdtemp(prefix="tarpipe-test-")).resolve()
        self.addCleanup(shutil.rmtree, self.folder)
        self.addCleanup(os.chdir, before)
        os.chdir(self.folder)

    def write(self, name, data):
        (self.folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())
        return name


def group_is_alive(leader):
    """Whether a process of this group still runs; those that only wait to be collected do not."""
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, group = stat.read_text().rpartition(")")[2].split()[:3]
            if int(group) == leader and state != "Z":
                return True
    return False


def wait_for(condition, limit=60):
    """Waits until a condition holds."""
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("waited in vain")
        time.sleep(0.02)


class Pages(http.server.BaseHTTPRequestHandler):
    """Serves what its server has in `pages`, by path."""

    def do_GET(self):
        body = self.server.pages.get(self.path)
        self.send_response(404 if body is None else 200)
        self.end_headers()
        self.wfile.write(body or b"no")

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serve(pages):
    """A web server with these pages; its address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    server.pages = pages
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
