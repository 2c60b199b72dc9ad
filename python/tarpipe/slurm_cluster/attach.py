"""A cluster in the background of a running job: additional steps at low priority, identified by their names."""

import pathlib
import shlex
import signal
import subprocess
import sys

from tarpipe.slurm_cluster.cluster import PROGRAM, Cluster
from tarpipe.slurm_cluster.site import Site
from tarpipe.slurm_cluster.slurm import Failure, Job, environment, query

PREFIX = "attached"


class AttachedCluster(Cluster):
    """A cluster whose steps outlive this command."""

    prefix, is_nice, is_watching, pause = PREFIX, True, False, 1

    def run_first(self, *command):
        step = self.job.srun(f"{PREFIX}-{self.kind}-check", [self.first], ["--quiet"], command)
        return subprocess.run(step, **self.captured())

    def launch_workers(self, nodes):
        self.launch("workers", "worker", nodes)

    def step_name(self, name):
        """Stores the address in the name of the master's step, where `status` reads it."""
        return f"{PREFIX}-{self.kind}-{name}" + (f"@{self.address}" if name == "master" else "")


class Step:
    """A step that `start` made."""

    def __init__(self, line):
        self.id, name, self.nodes = line.split(" ", 2)
        name, _, self.address = name.partition("@")
        _, self.kind, self.role = name.split("-", 2)


def steps(job_id):
    """Returns our steps in a job, in the order of their start."""
    lines = query("squeue", "-h", "-s", "-j", job_id, "-o", "%i %j %N").splitlines()
    ours = tuple(f"{PREFIX}-{kind}-{role}" for kind in ("spark", "ray") for role in ("master", "workers"))
    found = [line.strip() for line in lines if line.strip().split(" ")[1].startswith(ours)]
    return sorted(map(Step, found), key=lambda step: int(step.id.rpartition(".")[2]))


def start(options):
    job = Job(options.job)
    if steps(job.id):
        raise Failure(f"job {job.id} has an attached cluster already; use slurm-cluster attach --job {job.id} stop")
    logs = pathlib.Path.cwd() / f"{PREFIX}-{job.id}"
    logs.mkdir(exist_ok=True)
    cluster = AttachedCluster(options, job, Site(options.config), logs)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # undo what has been started
    try:
        cluster.start()
    except BaseException:
        end(options)
        raise
    master = {"RAY_ADDRESS": cluster.address} if cluster.kind == "ray" else {}
    for name, value in {**master, **cluster.env}.items():
        print(f"export {name}={shlex.quote(value)}")
    return 0


def status(options):
    found = steps(options.job)
    for step in found:
        print(step.kind, step.role, step.id, step.nodes, step.address, sep="\t")
    if not found:
        print(f"slurm-cluster: job {options.job} has no attached cluster", file=sys.stderr)
    return 0 if found else 1


def stop(options):
    if not end(options):
        print(f"slurm-cluster: job {options.job} has no attached cluster", file=sys.stderr)
    return 0


def end(options):
    """Ends our steps only, workers first, and returns their number."""
    found = steps(options.job)
    for step in reversed(found):
        subprocess.run(["scancel", "--signal=TERM", step.id], env=environment(), stderr=subprocess.DEVNULL)
    if found:
        await_end(options, [step.id.rpartition(".")[2] for step in found])
    return len(found)


def await_end(options, numbers):
    """Waits for the processes on the nodes, because Slurm forgets a step as soon as it is signalled."""
    job = Job(options.job)
    program = [options.python, "-c", PROGRAM, "await-end", job.id, *numbers]
    command = job.srun(f"{PREFIX}-{options.action}-wait", job.nodes, ["--quiet"], program)
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(command, env=environment(), universal_newlines=True, **pipes)
    if done.returncode:
        said = " ".join(done.stdout.split())
        raise Failure(f"processes of the steps {', '.join(numbers)} of job {job.id} may not have ended: {said}")


def run(options):
    return {"start": start, "status": status, "stop": stop}[options.action](options)


def check(options):
    """Returns what is missing on the command line, if anything."""
    if options.action == "start" and not (options.cores and options.memory):
        return "start needs --cores and --memory: what the job can spare"
    return None
