"""Calls Slurm's commands: the nodes of a job, and its steps."""

import os
import re
import shlex
import subprocess
import sys

TIMEOUT = 60  # seconds per query; without a controller a client gives up after 10 s


class Failure(Exception):
    """An error that ends the command with a message."""


def environment():
    """Returns our environment without the variables of the current step, which would change srun's defaults."""
    kept = ("SLURM_CONF", "SLURM_CLUSTERS")
    return {name: value for name, value in os.environ.items() if not name.startswith("SLURM") or name in kept}


def query(*command):
    """Runs a Slurm command and returns its output."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    try:
        done = subprocess.run(command, timeout=TIMEOUT, universal_newlines=True, env=environment(), **pipes)
    except FileNotFoundError:
        raise Failure(f"{command[0]} not found: Slurm is not installed on this machine") from None
    except subprocess.TimeoutExpired:
        raise Failure(f"{command[0]}: no answer within {TIMEOUT} s") from None
    if done.returncode:
        raise Failure(f"{command[0]}: {' '.join(done.stderr.split()) or 'failed'}")
    return done.stdout


class Job:
    """A running job: its id and the names of its nodes."""

    def __init__(self, job_id):
        self.id = job_id
        text = query("scontrol", "show", "job", "-o", job_id)
        listed = re.search(r" NodeList=(\S+)", text)
        state = re.search(r" JobState=(\S+)", text)
        if not listed or listed[1] == "(null)" or state and state[1] not in ("RUNNING", "COMPLETING"):
            raise Failure(f"job {job_id} does not run (it is {state[1].lower() if state else 'unknown'})")
        self.nodes = query("scontrol", "show", "hostnames", listed[1]).split()
        self.memory = memory(text)  # the environment of a step may contain less

    def srun(self, name, nodes, arguments, command):
        """Returns the command line of a step with one task per node that shares the nodes with other steps."""
        shape = [f"--nodes={len(nodes)}", f"--ntasks={len(nodes)}", "-w", ",".join(nodes)]
        share = ["--overlap", "--mem=0", "--cpu-bind=none", "--kill-on-bad-exit=1"]
        return ["srun", f"--jobid={self.id}", f"--job-name={name}", *shape, *share, *arguments, *command]


def memory(text):
    """Returns the memory settings of a job in megabytes, as a step's program expects them."""
    found = re.search(r" MinMemory(Node|CPU)=(\d+(?:\.\d+)?)([MGT]?)", text)
    if not found:
        return {}
    megabytes = float(found[2]) * {"": 1, "M": 1, "G": 1 << 10, "T": 1 << 20}[found[3]]
    return {f"CLUSTER_MEM_PER_{found[1].upper()}": str(int(megabytes))}


def show(command, hidden=()):
    """Prints a command line before it runs, without embedded programs and their parameters."""
    words = ("…" if word in hidden else shlex.quote(word) for word in command)
    print(" ".join(words), file=sys.stderr, flush=True)
