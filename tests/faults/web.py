"""A web server on loopback, and a relay before it that breaks connections at chosen bytes."""

import http.server
import re
import socket
import struct
import threading
import time


class Web:
    """Serves files and ranges of them from memory. While `changing` is set, a second request for a file returns the one
    of that name in `changed`, with another ETag."""

    def __init__(self, files, changed):
        self.files, self.changed = files, changed
        self.settle()
        handler = type("Handler", (Handler,), {"web": self})
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # clients that leave are what this is about
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def settle(self, changing=False):
        self.changing, self.asked = changing, set()

    def get(self, name):
        """A file and its version."""
        again, _ = name in self.asked, self.asked.add(name)
        is_new = self.changing and again and name in self.changed
        return (self.changed if is_new else self.files).get(name), 2 if is_new else 1


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    web, version = None, 1

    def do_GET(self):
        body, self.version = self.web.get(self.path.lstrip("/"))
        if body is None:
            return self.answer(404, b"")
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not asked:
            return self.answer(200, body, ("Accept-Ranges", "bytes"))
        first, last = int(asked[1]), int(asked[2] or len(body) - 1)
        if first >= len(body):
            return self.answer(416, b"", ("Content-Range", f"bytes */{len(body)}"))
        last = min(last, len(body) - 1)
        self.answer(206, body[first : last + 1], ("Content-Range", f"bytes {first}-{last}/{len(body)}"))

    def answer(self, status, body, *headers):
        self.send_response(status)
        kind = "image/x-portable-pixmap" if self.path.endswith(".ppm") else "application/x-tar"
        # Some can be resumed by range, others have to be read again and compared.
        strong = f'"{self.version}"'
        tag = [[("ETag", strong)], [("ETag", f"W/{strong}")], []][sum(self.path.encode()) % 3]
        for name, value in [*headers, *tag, ("Content-Type", kind), ("Content-Length", str(len(body)))]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Relay:
    """Forwards connections. Bytes are counted over all connections in both directions; when the count reaches a
    number in `cuts`, the connection that carries the byte is reset; when it reaches `away`, the network fails
    for some seconds: new connections are reset or, if `silent`, no data is forwarded any more, as with
    a pulled cable."""

    def __init__(self, port):
        self.target = port
        self.lock = threading.Lock()
        self.open = set()
        self.listener = listen(0)
        self.port = self.listener.getsockname()[1]
        self.settle()
        threading.Thread(target=self.accept, daemon=True).start()

    def settle(self, cuts=(), away=None, seconds=0.0, silent=False):
        """Resets the state and sets the next faults. Connections of earlier runs are closed."""
        with self.lock:
            self.passed, self.struck = 0, 0
            self.cuts, self.away = sorted(cuts), away
            self.seconds, self.silent = seconds, silent
            self.back_at = 0.0
            for one in list(self.open):
                reset(one)

    def is_away(self):
        return time.monotonic() < self.back_at

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            if self.is_away() and not self.silent:
                reset(client)
                client.close()
                continue
            threading.Thread(target=self.serve, args=[client], daemon=True).start()

    def serve(self, client):
        try:
            server = socket.create_connection(("127.0.0.1", self.target))
        except OSError:
            client.close()
            return
        with self.lock:
            self.open |= {client, server}
        forth = threading.Thread(target=self.copy, args=[client, server], daemon=True)
        forth.start()
        self.copy(server, client)
        forth.join()
        with self.lock:
            self.open -= {client, server}
        client.close()
        server.close()

    def copy(self, source, sink):
        try:
            while data := source.recv(4096):
                while self.is_away() and self.silent:
                    time.sleep(0.05)
                data, cut = self.take(data)
                sink.sendall(data)
                if cut:
                    raise ConnectionResetError
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            reset(source)
            reset(sink)

    def take(self, data):
        """What of the data passes, and whether the connection is cut behind it."""
        with self.lock:
            before = self.passed
            self.passed += len(data)
            if self.away is not None and self.passed >= self.away:
                self.away, self.back_at = None, time.monotonic() + self.seconds
                self.struck += 1
                if not self.silent:
                    for one in list(self.open):
                        reset(one)
            if self.cuts and self.passed >= self.cuts[0]:
                self.struck += 1
                return data[: max(0, self.cuts.pop(0) - before)], True
        return data, False


def listen(port):
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind(("127.0.0.1", port))
    one.listen(512)
    return one


def reset(one):
    """Breaks a connection off, for whoever waits on it here too."""
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
