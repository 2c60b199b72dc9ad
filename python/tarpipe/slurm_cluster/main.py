"""Runs Spark or Ray on Slurm: for one command in an allocation, or in the background of another job.

    slurm-cluster submit -N 3 --with ray COMMAND [ARGS…]    in a new allocation, on this terminal
    slurm-cluster submit -N 3 --with ray --batch COMMAND…   the same as a batch job
    slurm-cluster spark COMMAND…                            inside an allocation; COMMAND finds SPARK_MASTER
    slurm-cluster ray COMMAND…                              inside an allocation; COMMAND finds RAY_ADDRESS
    slurm-cluster attach --job JOBID start spark …          beside a running job; also: status, stop

COMMAND starts on the first node once the workers of all nodes are ready, and has the terminal; its exit status is that
of slurm-cluster. Everything that was started ends with it. Under plain salloc the command and the cluster run on the
nodes, too. Workers that die are restarted; if the master or a node is lost, COMMAND is ended and the exit status
is 1. Logs are in cluster-JOBID/ in the current folder. See slurm-cluster(1) for site files and all flags.
"""

import argparse
import os
import re
import sys

from tarpipe.slurm_cluster import attach, inside, submit
from tarpipe.slurm_cluster.site import SiteError
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


def build_parser():
    style = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
    parser = argparse.ArgumentParser(prog="slurm-cluster", description=__doc__, **style)
    commands = parser.add_subparsers(dest="command", metavar="submit|spark|ray|attach")
    run = commands.add_parser("submit", help="run COMMAND in a new allocation", allow_abbrev=False)
    run.add_argument("-N", "--nodes", type=count, metavar="N", help="nodes (default: 1)")
    run.add_argument("--batch", action="store_true", help="submit a batch job instead of waiting on this terminal")
    engines = {"choices": ["ray", "spark", "none"], "default": "none"}
    run.add_argument("--with", dest="with_engine", help="cluster to start (default: none)", **engines)
    run.add_argument("--slurm-arg", action="append", default=[], metavar="ARG", help="pass ARG to salloc or sbatch")
    for kind in ("spark", "ray"):
        text = f"run COMMAND with {kind.title()} inside an allocation"
        inner = commands.add_parser(kind, help=text, allow_abbrev=False)
        add_cluster_flags(inner)
        inner.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND")
    add_cluster_flags(run)
    run.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND")
    beside = commands.add_parser("attach", help="start workers beside a running job", allow_abbrev=False)
    beside.add_argument("--job", required=True, metavar="JOBID", help="the running job")
    actions = beside.add_subparsers(dest="action", required=True, metavar="start|status|stop")
    text = "start a cluster on its nodes; prints variables for a shell"
    start = actions.add_parser("start", help=text, allow_abbrev=False)
    start.add_argument("kind", choices=["spark", "ray"])
    add_cluster_flags(start)
    actions.add_parser("status", help="one line per step; exit status 1 if there is none")
    actions.add_parser("stop", help="end what start started, and nothing else")
    return parser


def resolve(options, parser):
    """Sets flags from the environment: CLUSTER_PYTHON for --python, and so on."""
    options.given = {name: value for name, *_ in CLUSTER_FLAGS if (value := getattr(options, name, None)) is not None}
    for name, kind, *_ in CLUSTER_FLAGS:
        value, variable = getattr(options, name, None), f"CLUSTER_{name.upper()}"
        if value is None and os.environ.get(variable):
            try:
                value = kind(os.environ[variable])
            except argparse.ArgumentTypeError as err:
                parser.error(f"{variable}: {err}")
        setattr(options, name, value)
    options.python = options.python or "python3"
    options.patience = options.patience or 600
    options.host = None if options.address in (None, "name", "ip") else options.address
    options.address = options.address if options.host is None else None
    if options.command in ("spark", "ray"):
        options.kind = options.command
        options.words = options.words[1:] if options.words[:1] == ["--"] else options.words
    return options


def main(program):
    parser = build_parser()
    options = resolve(parser.parse_args(), parser)
    try:
        if options.command is None:
            parser.error("use submit, spark, ray or attach (see --help)")
        if options.command == "submit":
            return submit.submit(options, program)
        if options.command == "attach":
            problem = attach.check(options)
            return parser.error(problem) if problem else attach.run(options)
        return inside.run(options, program)
    except SiteError as err:
        print(f"slurm-cluster: {err}", file=sys.stderr)
        return 2
    except Failure as err:
        print(f"slurm-cluster: {err}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
