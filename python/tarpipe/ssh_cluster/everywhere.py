"""Commands, scripts and files for all hosts at once."""

import hashlib
import os
import pathlib
import subprocess
import sys
import threading
import time

from tarpipe.ssh_cluster.remote import Failure, each, one_line

ATTEMPTS = 3
PAUSE = 2  # seconds between two attempts
# The arguments are the path of a copy, its SHA-256 and its mode. It appears under its name only when it is whole.
HAS = """[[ -f $1 && $(sha256sum <"$1") == "$2 "* ]] && chmod "$3" "$1" """
PUT = """
set -e
mkdir -p "$(dirname "$1")"
part=$(mktemp "$1.XXXXXX")
trap 'rm -f "$part"' EXIT
cat >"$part"
[[ $(sha256sum <"$part") == "$2 "* ]] || { echo 'the copy differs' >&2; exit 1; }
chmod "$3" "$part"
mv "$part" "$1"
"""


class Everywhere:
    """Some hosts, and what is done on all of them in parallel."""

    def __init__(self, remote, hosts):
        self.remote, self.hosts, self.lock = remote, hosts, threading.Lock()

    def run(self, script, words):
        """Runs a bash script, prints each line of its output after the name of its host, and returns the failures."""
        return failures(each(lambda host: self.run_one(host, script, words), self.hosts))

    def run_one(self, host, script, words):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command = self.remote.script_command(host, words)
        process = subprocess.Popen(command, text=True, errors="replace", **pipes)
        pairs = ((process.stdout, sys.stdout), (process.stderr, sys.stderr))
        readers = [threading.Thread(target=self.show, args=(host, *pair)) for pair in pairs]
        for reader in readers:
            reader.start()
        try:
            process.stdin.write(script)
            process.stdin.close()
        except BrokenPipeError:
            pass  # its exit status says why
        for reader in readers:
            reader.join()
        status = process.wait()
        if status:
            raise Failure(f"{host.name}: " + ("ssh failed" if status == 255 else f"exit status {status}"))

    def show(self, host, stream, target):
        for line in stream:
            with self.lock:
                print(f"{host.name}: {line.rstrip()}", file=target, flush=True)

    def install(self, files, folder):
        """Copies files into a folder of all hosts, verifies them by their hashes, and returns the failures."""
        found = [(pathlib.Path(file), sha256(file)) for file in files]

        def install_all(host):
            for file, digest in found:
                self.install_one(host, file, digest, f"{folder}/{file.name}")

        return failures(each(install_all, self.hosts))

    def install_one(self, host, file, digest, target):
        words = (target, digest, "755" if os.access(file, os.X_OK) else "644")
        for attempt in range(1, ATTEMPTS + 1):
            try:
                if self.remote.run(host, HAS, *words).returncode == 0:
                    said = "already there"
                else:
                    done = self.remote.copy(host, file, PUT, *words)
                    if done.returncode:
                        raise Failure(f"{host.name}: {target}: {one_line(done.stderr)}")
                    said = "copied"
            except Failure:
                if attempt == ATTEMPTS:
                    raise
                time.sleep(PAUSE)
                continue
            with self.lock:
                print(f"{host.name}: {target}: {said}", flush=True)
            return


def failures(answers):
    return [answer for _, answer in answers if isinstance(answer, Failure)]


def sha256(file):
    digest = hashlib.sha256()
    try:
        with open(file, "rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    except OSError as err:
        raise Failure(f"{file}: {err.strerror}") from None
    return digest.hexdigest()
