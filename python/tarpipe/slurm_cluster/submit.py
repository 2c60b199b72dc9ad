"""Runs a command in a new allocation, at once on this terminal or later as a batch job."""

import os
import shlex

from tarpipe.slurm_cluster import inside
from tarpipe.slurm_cluster.cluster import ray_token
from tarpipe.slurm_cluster.flags import variable_of
from tarpipe.slurm_cluster.site import Site
from tarpipe.slurm_cluster.slurm import Failure, Job, show


def submit(options, program):
    """Replaces this process by salloc, srun or sbatch."""
    words = list(options.words)
    for name, value in options.given.items():
        os.environ[variable_of(name)] = str(value)  # for a cluster that the command itself asks for
    if "--" in words:
        words.remove("--")  # between the command and its arguments, as users of toksearch_submit write it
    if not words:
        raise Failure("no command; use slurm-cluster submit -N NODES COMMAND [ARGS…]")
    if not os.environ.get("RAY_AUTH_MODE") and not os.environ.get("RAY_ADDRESS"):
        os.environ.update(ray_token())  # a program that imports Ray before its cluster starts must have it by then
    if options.with_engine != "none":
        words = [program, options.with_engine, *cluster_flags(options), *words]
    site = Site(options.config)
    command = batch(options, site, words) if options.batch else interactive(options, site, words)
    show(command)
    try:
        os.execvp(command[0], command)
    except FileNotFoundError:
        raise Failure(f"{command[0]} not found: Slurm is not installed on this machine") from None


def cluster_flags(options):
    """Returns the flags for the command inside the allocation."""
    found = []
    for name, value in sorted(options.given.items()):
        found += [f"--{name.replace('_', '-')}", str(value)]
    return found


def interactive(options, site, words):
    """Returns the command for an allocation on this terminal or, inside an allocation, for a step of it."""
    terminal = ["--pty"] if inside.has_terminal() else ["--quit-on-interrupt"]
    own = site.arguments("interactive", "srun")
    if inside.job_id():
        job = Job(inside.job_id())
        if options.nodes and options.nodes != len(job.nodes):
            raise Failure(f"this allocation has {len(job.nodes)} nodes, not {options.nodes}; leave -N out to use it")
        return ["srun", "-u", *terminal, "-N", "1", "-n", "1", "--overlap", "--propagate", *own, *words]
    flags = [*site.flags("interactive", "salloc"), *options.slurm_arg]
    allocation = ["salloc", "-N", nodes(options), "--exclusive", *flags]
    # Slurm 22.05 refuses the two together, but older site files have --overlap.
    exclusive = [] if "--overlap" in own else ["--exclusive"]
    return [*allocation, "srun", "-u", *terminal, "-N", "1", *exclusive, "--propagate", *own, *words]


def batch(options, site, words):
    flags = [*site.flags("batch", "sbatch"), *options.slurm_arg]
    # exec: the shell of sbatch must not keep Slurm's signals from the command.
    return ["sbatch", "-N", nodes(options), "--exclusive", *flags, "--wrap", "exec " + shlex.join(words)]


def nodes(options):
    return str(options.nodes or 1)
