"""A web server on a free port of the loopback, for pictures.py's kinds."""

import http.server
import threading

import pictures


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        name = self.path.lstrip("/")
        kind = name.removeprefix("to/").partition("-")[2]
        if kind.isdigit():
            self.send_error(int(kind))
        elif kind == "redirect" and not name.startswith("to/"):
            self.send_response(302)
            self.send_header("Location", f"/to/{name}")
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self.path = "/" + name.removeprefix("to/")
            super().do_GET()

    def end_headers(self):
        kind = self.path.partition("-")[2]
        if kind in pictures.HEADERS:
            self.send_header("X-Robots-Tag", pictures.HEADERS[kind])
        super().end_headers()

    def guess_type(self, path):
        return "text/html" if str(path).endswith("-html") else "application/octet-stream"

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 512

    def handle_error(self, request, address):
        """Says nothing: clients close connections that they keep alive, and an opt-out ends a download early."""


def start(folder):
    """Starts to serve a folder; ends with the process. Returns its address."""
    server = Server(("127.0.0.1", 0), lambda *args: Handler(*args, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"
