"""Runs a command with a cluster inside an allocation."""

import os
import pathlib
import signal
import subprocess
import sys
import time

from tarpipe.slurm_cluster.cluster import Cluster
from tarpipe.slurm_cluster.site import Site
from tarpipe.slurm_cluster.slurm import Failure, Job, show

GRACE = 10  # grace period after TERM, in seconds


class Signalled(Exception):
    """A signal ended the run; the argument is its number."""


def job_id():
    return os.environ.get("SLURM_JOB_ID") or os.environ.get("SLURM_JOBID")


def run(options, program):
    """Runs the command and returns its exit status."""
    if not options.words:
        raise Failure(f"no command; use slurm-cluster {options.kind} COMMAND…")
    if not job_id():
        raise Failure("not inside an allocation; use slurm-cluster submit, sbatch or salloc")
    job, site = Job(job_id()), Site(options.config)
    here = os.environ.get("SLURMD_NODENAME")
    if here not in job.nodes and not os.environ.get("CLUSTER_ON_NODE"):
        move(job, site, program)
    # The master runs on the node of the command.
    job.nodes.sort(key=lambda name: name != here)
    with_signals(stop_on)
    cluster = Cluster(options, job, site, log_folder(job))
    try:
        cluster.start()
        return Command(options.words, cluster).wait()
    except Signalled as err:
        return 128 + err.args[0]
    finally:
        with_signals(signal.SIG_IGN)
        cluster.stop()


def move(job, site, program):
    """Moves to the first node. Under plain salloc this is the user's machine, on which nothing may run."""
    os.environ["CLUSTER_ON_NODE"] = "1"
    terminal = ["--pty"] if has_terminal() else ["--quit-on-interrupt"]
    step = ["srun", "-u", *terminal, "-N", "1", "-n", "1", "-w", job.nodes[0], "--overlap"]
    command = [*step, *site.arguments("interactive", "srun"), program, *sys.argv[1:]]
    show(command)
    os.execvp(command[0], command)


def has_terminal():
    return os.isatty(0) and os.isatty(1)


def log_folder(job):
    """Creates cluster-JOB in the current folder; a further cluster of the same job gets a number."""
    for number in range(1, 10000):
        folder = pathlib.Path.cwd() / (f"cluster-{job.id}" if number == 1 else f"cluster-{job.id}.{number}")
        try:
            folder.mkdir()
            return folder
        except FileExistsError:
            continue
        except OSError as err:
            raise Failure(f"{folder}: {err.strerror}") from None
    raise Failure(f"too many folders cluster-{job.id}*")


def with_signals(handler):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, handler)


def stop_on(number, _):
    raise Signalled(number)


class Command:
    """Starts the user's command, which gets our terminal."""

    def __init__(self, words, cluster):
        self.cluster = cluster
        # On a terminal it must stay in our process group to be in the foreground; Ctrl-C then reaches it directly.
        self.is_apart = not os.isatty(0)
        env = {**os.environ, **cluster.env, "CLUSTER_PYTHON": cluster.python}
        if cluster.kind == "ray":
            env["RAY_ADDRESS"] = cluster.address
        env.pop("CLUSTER_ON_NODE", None)
        try:
            self.process = subprocess.Popen(words, env=env, preexec_fn=self.prepare)
        except OSError as err:
            raise Failure(f"{words[0]}: {err.strerror}") from None
        if not self.is_apart:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    def prepare(self):
        with_signals(signal.SIG_DFL)
        if self.is_apart:
            os.setpgid(0, 0)

    def wait(self):
        """Returns the exit status; fails if the cluster ends first."""
        try:
            while True:
                try:
                    return status(self.process.wait(0.5))
                except subprocess.TimeoutExpired:
                    pass
                name = self.cluster.tend()
                if name and self.process.poll() is None:
                    raise Failure(self.cluster.with_logs(f"the {name} of the cluster ended before the command", name))
        except Signalled as err:
            self.end(err.args[0])
            raise
        except Failure:
            self.end(signal.SIGTERM)
            raise

    def end(self, number):
        """Forwards a signal and waits for the end."""
        with_signals(signal.SIG_IGN)
        self.send(number)
        deadline = time.monotonic() + GRACE
        while self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        self.send(signal.SIGKILL)
        self.process.wait()

    def send(self, number):
        try:
            if self.is_apart:
                os.killpg(self.process.pid, number)
            elif self.process.poll() is None:
                self.process.send_signal(number)
        except OSError:
            pass


def status(code):
    """Returns the exit status as a shell reports it: 128+N for signal N."""
    return 128 - code if code < 0 else code
