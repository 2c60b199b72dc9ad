"""The flags that describe a cluster. The default of each is an environment variable: CLUSTER_CORES for --cores."""

import argparse
import os
import re

from tarpipe.slurm_cluster.slurm import Failure

UNITS = {"": 1, "M": 1, "G": 1 << 10, "T": 1 << 20}


def megabytes(text):
    found = re.fullmatch(r"(\d+)([MGT]?)B?", text.upper())
    if not found or not int(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 24G")
    return Megabytes(int(found[1]) * UNITS[found[2]])


def count(text):
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)


def port(text):
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port")
    return int(text)


def port_range(text):
    low, _, high = text.partition("-")
    if not port(low) < port(high):
        raise argparse.ArgumentTypeError(f"{text!r} is not a range such as 20000-20100")
    return PortRange((int(low), int(high)))


class PortRange(tuple):
    """A range of ports, formatted as on the command line."""

    def __str__(self):
        return f"{self[0]}-{self[1]}"


class Megabytes(int):
    """A size, formatted as on the command line."""

    def __str__(self):
        return f"{int(self)}M"


# Flag, type, metavar and help of the flags that describe a cluster. The environment variable CLUSTER_FLAG is the default.
CLUSTER_FLAGS = [
    ("config", os.path.abspath, "FILE", "site file, on top of the site's and the user's (see slurm-cluster(1))"),
    ("python", str, "PROGRAM", "a Python on every node that has pyspark or ray (default: python3)"),
    ("cores", count, "N", "cores that each node offers (default: those of the allocation)"),
    ("memory", megabytes, "SIZE", "memory that each node offers, such as 24G (default: most of the allocation's)"),
    ("address", str, "HOW", "address nodes by name or ip, or the first node by this address (default: name)"),
    ("interface", str, "NAME", "network interface whose IPv4 address every node uses, such as ib0"),
    ("port", port, "PORT", "port of the master (default: a free one)"),
    ("port_range", port_range, "LOW-HIGH", "take the master's port and the dashboard's from this range"),
    ("dashboard_host", str, "ADDRESS", "address that the dashboard listens on; 0.0.0.0 answers other machines"),
    ("dashboard_port", port, "PORT", "port of the dashboard (default: a free one)"),
    ("local_dir", os.path.abspath, "DIR", "folder for temporary files on every node (default: $TMPDIR or /tmp)"),
    ("patience", count, "SECONDS", "time that the master, and then the workers, may take to start (default: 600)"),
]


def add_cluster_flags(parser):
    group = parser.add_argument_group("cluster")
    for name, kind, metavar, text in CLUSTER_FLAGS:
        group.add_argument(f"--{name.replace('_', '-')}", type=kind, metavar=metavar, help=text)


class UsageError(Failure):
    """A flag or variable with an unusable value."""


def complete(options):
    """Sets flags from the environment; `options.given` keeps those of the command line."""
    options.given = {name: value for name, *_ in CLUSTER_FLAGS if (value := getattr(options, name, None)) is not None}
    for name, kind, *_ in CLUSTER_FLAGS:
        value, variable = getattr(options, name, None), variable_of(name)
        if value is None and os.environ.get(variable):
            try:
                value = kind(os.environ[variable])
            except argparse.ArgumentTypeError as err:
                raise UsageError(f"{variable}: {err}") from None
        setattr(options, name, value)
    options.python = options.python or "python3"
    options.patience = options.patience or 600
    options.host = None if options.address in (None, "name", "ip") else options.address
    options.address = options.address if options.host is None else None
    return options


def variable_of(name):
    """The environment variable that is the default of a flag."""
    return f"CLUSTER_{name.upper()}"
