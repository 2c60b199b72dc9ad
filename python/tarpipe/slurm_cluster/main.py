"""Runs Spark or Ray on Slurm: for one command in an allocation, or in the background of another job.

    slurm-cluster submit -N 3 COMMAND [ARGS…]               in a new allocation; compute_ray and compute_spark of
                                                            tarpipe.pipeline start their cluster on its nodes
    slurm-cluster submit -N 3 --with ray COMMAND [ARGS…]    in a new allocation, on this terminal
    slurm-cluster submit -N 3 --with ray --batch COMMAND…   the same as a batch job
    slurm-cluster spark COMMAND…                            inside an allocation; COMMAND finds SPARK_MASTER
    slurm-cluster ray COMMAND…                              inside an allocation; COMMAND finds RAY_ADDRESS
    slurm-cluster attach --job JOBID start spark …          beside a running job; also: status, stop

COMMAND starts on the first node once the workers of all nodes are ready, and has the terminal; its exit status is that
of slurm-cluster. Everything that was started ends with it. Under plain salloc the command and the cluster run on the
nodes, too. Workers that die are restarted; if the master is lost, or a node of a job without --no-kill, COMMAND is
ended and the exit status is 1. Logs are in cluster-JOBID/ in the current folder. See slurm-cluster(1) for site files
and all flags.
"""

import argparse
import sys

from tarpipe.slurm_cluster import attach, inside, submit
from tarpipe.slurm_cluster.flags import UsageError, add_cluster_flags, complete, count
from tarpipe.slurm_cluster.site import SiteError
from tarpipe.slurm_cluster.slurm import Failure


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


def main(program):
    parser = build_parser()
    try:
        options = complete(parser.parse_args())
        if options.command is None:
            parser.error("use submit, spark, ray or attach (see --help)")
        if options.command == "submit":
            return submit.submit(options, program)
        if options.command == "attach":
            problem = attach.check(options)
            return parser.error(problem) if problem else attach.run(options)
        options.kind = options.command
        options.words = options.words[1:] if options.words[:1] == ["--"] else options.words
        return inside.run(options, program)
    except UsageError as err:
        return parser.error(str(err))
    except SiteError as err:
        print(f"slurm-cluster: {err}", file=sys.stderr)
        return 2
    except Failure as err:
        print(f"slurm-cluster: {err}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
