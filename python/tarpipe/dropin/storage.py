"""Where a dataset is stored: a folder on this machine, or a prefix in an object store, which the tools reach for us."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import time

from .._error import UsageError
from .._process import failure
from .._program import environment, tool
from .tables import ask

# Objects of these schemes can be listed.
STORES = ("s3", "gs", "az")
# Names per command line.
CHUNK = 500
# Seconds between two listings of a store, at least, and how many times as long as the last one took.
LISTING_PAUSE, LISTING_SHARE = 20.0, 20.0


def is_remote(name):
    return "://" in name and not name.startswith("file://")


def open_storage(name):
    """The storage that --output_folder names."""
    if not is_remote(name):
        return LocalStorage(name.removeprefix("file://"))
    scheme = name.split("://")[0]
    if scheme not in STORES:
        raise UsageError(
            f"--output_folder: {name}: shards in {scheme}:// cannot be listed, so a run could not be resumed; "
            "use a path, s3://, gs:// or az://"
        )
    return ObjectStorage(name.rstrip("/"))


class Storage:
    """The methods that both kinds have; `name` is how the tools call it."""

    is_local = True

    def stats_files(self):
        """The file of counts of each finished shard; it is written last."""
        names = ((name.rsplit("/", 1)[-1].removesuffix("_stats.json"), name) for name in self.stats_names())
        return {int(number): name for number, name in names if number.isdigit()}

    def done_shards(self):
        return set(self.stats_files())

    def read_json(self, name):
        return next(iter(self.read_all_json([name])))


class LocalStorage(Storage):
    def __init__(self, name):
        self.path = pathlib.Path(name).absolute()
        self.name = str(self.path)

    def exists(self):
        return self.path.exists()

    def create(self):
        self.path.mkdir(parents=True, exist_ok=True)

    def stats_names(self):
        return [str(file) for file in self.path.glob("*_stats.json")]

    def has(self, name):
        return (self.path / name).exists()

    def read_all_json(self, names):
        return [json.loads((self.path / name).read_text()) for name in names]

    def write(self, name, text):
        file = self.path / name
        file.parent.mkdir(exist_ok=True)
        temporary = file.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(text)
        temporary.replace(file)
        return str(file)

    def remove(self):
        shutil.rmtree(self.path)

    def may_look(self):
        return True


class ObjectStorage(Storage):
    is_local = False

    def __init__(self, name):
        self.name = name
        self.listed_at, self.listing_took = 0.0, 0.0

    def listing(self):
        """All objects of the dataset."""
        started = time.monotonic()
        lines = ask([tool("tarpipe"), "names", "list", self.name + "/"]).splitlines()
        self.listed_at, self.listing_took = time.monotonic(), time.monotonic() - started
        return [line.split("\t", 1)[1] for line in lines]

    def exists(self):
        return bool(self.listing())

    def create(self):
        pass

    def stats_names(self):
        at = len(self.name) + 1
        return [name for name in self.listing() if name.endswith("_stats.json") and "/" not in name[at:]]

    def has(self, name):
        return bool(ask([tool("tarpipe"), "names", "list", f"{self.name}/{name}"]))

    def read_all_json(self, names):
        names, found = [name if is_remote(name) else f"{self.name}/{name}" for name in names], []
        for at in range(0, len(names), CHUNK):
            found += documents(ask([tool("tarpipe"), "names", "read", *names[at : at + CHUNK]]))
        return found

    def write(self, name, text):
        name = f"{self.name}/{name}"
        command = [tool("tarpipe"), "names", "write", name]
        done = subprocess.run(command, input=text, stderr=subprocess.PIPE, text=True, env=environment())
        if done.returncode != 0:
            raise failure(done.returncode, done.stderr, "tarpipe")
        return name

    def remove(self):
        ask([tool("tarpipe"), "names", "remove", self.name + "/"])

    def may_look(self):
        """Whether enough time has passed since the last listing: a store charges for each."""
        return time.monotonic() - self.listed_at >= max(LISTING_PAUSE, LISTING_SHARE * self.listing_took)


def documents(text):
    """The JSON documents of a text, one after another."""
    decoder, at, found = json.JSONDecoder(), 0, []
    text = text.strip()
    while at < len(text):
        document, end = decoder.raw_decode(text, at)
        found.append(document)
        at = end + len(text[end:]) - len(text[end:].lstrip())
    return found
