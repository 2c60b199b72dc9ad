"""Lists of hosts: text files with a name per line, and CSV tables."""

import csv
import difflib
import pathlib
import re

from tarpipe.ssh_cluster.remote import Failure

COLUMNS = ("host", "address", "user", "port", "key")
# The columns of other tools' lists that say nothing about the connection.
IGNORED = ("", "hostname", "comment")
PASSWORDS = "passwords are not supported; use a key (ssh-copy-id HOST) and leave the column empty"


class Host:
    """A host: its name for ssh, the address by which others reach it, and what else ssh needs."""

    def __init__(self, name, address="", user="", port="", key=""):
        if name.startswith("-"):  # ssh would take it for a flag
            raise Failure(f"{name!r} is not the name of a host")
        self.name, self.address, self.user, self.port, self.key = name, address or name, user, port, key

    def ssh_flags(self):
        """Returns the flags of ssh for this host."""
        pairs = (("-l", self.user), ("-p", self.port), ("-i", self.key))
        return [word for flag, value in pairs if value for word in (flag, str(value))]


def parse(text):
    """Returns the host that a word such as ubuntu@10.0.0.7 names.

    >>> host = parse("ubuntu@10.0.0.7")
    >>> host.name, host.address, host.ssh_flags()
    ('10.0.0.7', '10.0.0.7', ['-l', 'ubuntu'])
    """
    user, _, name = text.rpartition("@")
    return Host(name, user=user)


def read(file):
    """Returns the hosts of a file; those of a name that ends in .csv are the rows of a table."""
    path = pathlib.Path(file)
    try:
        text = path.read_text()
    except OSError as err:
        raise Failure(f"{file}: {err.strerror}") from None
    try:
        found = read_table(text, path.parent) if path.suffix == ".csv" else read_lines(text)
    except Failure as err:
        raise Failure(f"{file}: {err}") from None
    if not found:
        raise Failure(f"{file}: no hosts")
    names = [host.name for host in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise Failure(f"{file}: {twice} appears twice")
    return found


def read_lines(text):
    """A line is a name for ssh and, if others reach the host by another one, its address."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        host = parse(words[0])
        host.address = words[1] if len(words) > 1 else host.address
        found.append(host)
    return found


def read_table(text, folder):
    """A row is a host; the columns are those of COLUMNS, of which only host is required."""
    rows = csv.DictReader(text.splitlines())
    names = [(name or "").strip().lower() for name in rows.fieldnames or []]
    rows.fieldnames = names
    if "host" not in names:
        raise Failure("no column host")
    for name in names:
        if name not in (*COLUMNS, *IGNORED, "password"):
            near = difflib.get_close_matches(name, COLUMNS, 1, 0)
            raise Failure(f"unknown column {name}; did you mean {near[0]}?")
    return [host for row in rows if (host := host_of(row, rows.line_num, folder))]


def host_of(row, line, folder):
    values = {name: (value or "").strip() for name, value in row.items() if isinstance(name, str)}
    if values.get("password"):
        raise Failure(f"line {line}: {PASSWORDS}")
    if not values["host"]:
        return None
    host = parse(values["host"])
    host.address, host.user = values.get("address") or host.address, values.get("user") or host.user
    host.port = values.get("port", "")
    if host.port and not re.fullmatch(r"\d+", host.port):
        raise Failure(f"line {line}: {host.port!r} is not a port")
    if values.get("key"):
        host.key = str((folder / pathlib.Path(values["key"]).expanduser()).resolve())
    return host
