"""Starts and stops Spark or Ray on machines that are reached by ssh.

    ssh-cluster start spark|ray HOSTS     start a cluster; the first host gets the master as well
    ssh-cluster status                    where it is, and one line per process; exit status 1 unless all of them run
    ssh-cluster add HOST [ADDRESS] | N    add a worker, or N workers on free hosts of the list
    ssh-cluster remove [--force] HOST | N end the workers of a host, or the N added last
    ssh-cluster stop [--force]            end everything; --force forgets what cannot be reached
    ssh-cluster run COMMAND…              run a command on all hosts
    ssh-cluster install FILE…             copy files to all hosts, verify them, retry; with --setup run a script then
    ssh-cluster setup SCRIPT [ARG…]       run a script of this machine on all hosts

HOSTS is a file with one host per line: a name for ssh (user@name, too) and, should others reach the machine by another
name, its address. A name that ends in .csv is a table with the columns host, address, user, port and key. `run`,
`install` and `setup` take the hosts of the cluster, or those of --hosts FILE.

`start` prints the address of the cluster, for shardrun --master or --address, once all workers are there. Processes are
recorded in the state folder by host, pid and start time: nothing else is ever ended. Any machine that has the folder
and the keys can use it. A host whose key ssh does not know is refused.

Every host is handled on its own: one that cannot be reached within 15 seconds is named on stderr, the others go on,
and the exit status is 1. A cluster that started without some of its workers gets them by `add`, also while a job runs.

Ray asks for no token, unless RAY_AUTH_MODE=token is set here: then RAY_AUTH_TOKEN, or the file RAY_AUTH_TOKEN_PATH
(default: ~/.ray/auth_token), is the token of the whole cluster.
"""

import argparse
import os
import pathlib
import shlex
import signal
import sys

from tarpipe.slurm_cluster.flags import count, megabytes, port
from tarpipe.ssh_cluster.cluster import Cluster
from tarpipe.ssh_cluster.everywhere import Everywhere
from tarpipe.ssh_cluster.hosts import read
from tarpipe.ssh_cluster.remote import Failure


def number_text(text):
    return str(count(text))


def build_parser():
    style = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
    parser = argparse.ArgumentParser(prog="ssh-cluster", description=__doc__, **style)
    state, python = os.environ.get("CLUSTER_STATE", ".cluster"), "python3"
    parser.add_argument("--state", default=state, help="folder that records the cluster (default: .cluster)")
    parser.add_argument("--python", default=python, help="a Python on the hosts that has pyspark or ray (default: python3)")
    parser.add_argument("--ssh", default="ssh", help="how to call ssh (default: ssh)")
    parser.add_argument("--cores", type=number_text, help="cores that a worker offers (default: all of its machine)")
    parser.add_argument("--memory", type=megabytes, help="memory that a worker offers, such as 16G (default: the engine's)")
    commands = parser.add_subparsers(dest="command", required=True)
    start = commands.add_parser("start", help="start a cluster")
    start.add_argument("kind", choices=["spark", "ray"])
    start.add_argument("hosts", metavar="HOSTS")
    start.add_argument("--workers", type=count, metavar="N", help="start only the first N workers; other hosts stay free")
    start.add_argument("--port", type=port, help="port of the master (default: a free one)")
    start.add_argument("--web-port", type=port, metavar="PORT", help="port of the dashboard (default: a free one)")
    commands.add_parser("status", help="show the processes")
    add = commands.add_parser("add", help="add workers")
    add.add_argument("host", metavar="HOST|N")
    add.add_argument("address", nargs="?", metavar="ADDRESS")
    remove = commands.add_parser("remove", help="end workers")
    remove.add_argument("host", metavar="HOST|N")
    for command in (remove, commands.add_parser("stop", help="end everything")):
        command.add_argument("--force", action="store_true", help="forget processes on hosts that cannot be reached")
    for command in everywhere_commands(commands):
        command.add_argument("--hosts", metavar="FILE", help="hosts, instead of those of the cluster")
    return parser


def everywhere_commands(commands):
    run = commands.add_parser("run", help="run a command on all hosts", allow_abbrev=False)
    run.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND")
    install = commands.add_parser("install", help="copy files to all hosts")
    install.add_argument("files", nargs="+", metavar="FILE")
    install.add_argument("--to", default=".local/bin", metavar="DIR", help="folder on the hosts (default: ~/.local/bin)")
    install.add_argument("--setup", metavar="SCRIPT", help="run this script there when the files are in place")
    setup = commands.add_parser("setup", help="run a script on all hosts", allow_abbrev=False)
    setup.add_argument("script", metavar="SCRIPT")
    setup.add_argument("words", nargs=argparse.REMAINDER, metavar="ARG")
    return run, install, setup


def everywhere(cluster, args):
    """Handles run, install and setup; returns the failures."""
    if not args.hosts and not cluster.known:
        raise Failure(f"no cluster in {args.state}; use --hosts FILE")
    all_hosts = Everywhere(cluster.ssh, read(args.hosts) if args.hosts else list(cluster.hosts.values()))
    if args.command == "run":
        words = args.words[1:] if args.words[:1] == ["--"] else args.words
        if not words:
            raise Failure("no command; use ssh-cluster run COMMAND")
        # One word is a line for the shell, as for ssh itself.
        return all_hosts.run(words[0] if len(words) == 1 else shlex.join(words), [])
    if args.command == "setup":
        return all_hosts.run(text_of(args.script), args.words)
    script = text_of(args.setup) if args.setup else None
    failures = all_hosts.install(args.files, args.to)
    if failures or script is None:
        return failures
    return all_hosts.run(script, [])


def text_of(script):
    try:
        return pathlib.Path(script).read_text()
    except OSError as err:
        raise Failure(f"{script}: {err.strerror}") from None


def main():
    args = build_parser().parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was begun is taken back
    cluster = Cluster(args)
    try:
        if args.command in ("run", "install", "setup"):
            return cluster.tell(everywhere(cluster, args))
        if args.command != "start" and not cluster.known:
            raise Failure(f"no cluster in {args.state}")
        return getattr(cluster, args.command)() or 0
    except (Failure, OSError) as err:
        print(f"ssh-cluster: {err}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
