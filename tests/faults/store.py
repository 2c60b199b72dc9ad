"""A real S3 server, of which a run's shards are one prefix. Looked at from its other side, the filer."""

import json
import pathlib
import shutil
import subprocess
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]


def is_installed():
    return bool(shutil.which("weed")) or (ROOT / "target" / "venv-s3" / "bin" / "weed").exists()


class Store:
    """Starts with the harness, and ends when its stdin closes."""

    bucket, prefix = "test", "faults"

    def __init__(self, home):
        home.mkdir()
        command = [ROOT / "tests" / "stores" / "s3-serve", home]
        self.server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.env = {}
        for line in self.server.stdout:
            name, value = line.strip().split("=", 1)
            if name == "FILER":
                self.filer = value
                break
            self.env[name] = value
        self.port = int(self.env["AWS_ENDPOINT_URL"].rsplit(":", 1)[1])
        self.env |= {"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"}

    def end(self):
        self.server.stdin.close()
        self.server.wait()

    def ask(self, path, method="GET"):
        url = f"{self.filer}/buckets/{self.bucket}/{path}"
        request = urllib.request.Request(url, method=method, headers={"Accept": "application/json"})
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.read()
        except urllib.error.HTTPError as err:
            if err.code == 404:
                return None
            raise

    def entries(self, path):
        listing = json.loads(self.ask(f"{path}/?limit=1000") or "{}")
        return [entry["FullPath"].rsplit("/", 1)[1] for entry in listing.get("Entries") or []]

    def files(self):
        return {name: self.ask(f"{self.prefix}/{name}") for name in self.entries(self.prefix)}

    def unfinished(self):
        """Uploads that nobody completed or aborted."""
        return self.entries(".uploads")

    def empty(self):
        for path in [self.prefix, ".uploads"]:
            self.ask(f"{path}?recursive=true", "DELETE")
