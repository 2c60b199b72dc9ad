"""A Spark or Ray cluster on the nodes of a job: its processes are steps of the job, the master runs on the first node."""

import getpass
import json
import os
import pathlib
import secrets
import socket
import subprocess
import sys
import time

from tarpipe.slurm_cluster import node
from tarpipe.slurm_cluster.slurm import Failure, environment, show

PROGRAM = pathlib.Path(node.__file__).read_text()
# Each runs in the Python of the first node.
SPARK_UP = """import json, sys, urllib.request as r
r.install_opener(r.build_opener(r.ProxyHandler({})))
sys.exit(json.load(r.urlopen(sys.argv[1], timeout=5))["aliveworkers"] != int(sys.argv[2]))"""
RAY_UP = """import sys, ray
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
sys.exit(sum(node["Alive"] for node in ray.nodes()) != int(sys.argv[2]))"""
PAUSES = (1, 10, 60)  # seconds until the step of a worker is started again, the first time and later
HAS_DASHBOARD = "import aiohttp, ray.dashboard.optional_deps"
SPARK_HOME = "import os, pyspark; print(os.path.dirname(pyspark.__file__))"


def ray_token():
    """The variables for a Ray cluster with a token of its own."""
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


class Cluster:
    """The cluster of one command. `options` are its flags, `job` is the allocation, `site` the settings of the site files."""

    prefix = "cluster"

    def __init__(self, options, job, site, logs):
        self.options, self.job, self.site, self.logs = options, job, site, logs
        self.kind, self.first = options.kind, job.nodes[0]
        self.parts = []  # names and processes, in the order of their start
        self.ends = {}  # per worker whose step has ended: how often, and when it is started again
        self.python = options.python
        self.temp = self.temporary_folder()
        self.env = {}  # what the command finds
        self.host = self.address = ""
        self.port = self.web = 0

    def temporary_folder(self):
        base = self.options.local_dir or os.environ.get("TMPDIR") or "/tmp"
        number = self.logs.name.rpartition("-")[2] if self.logs else self.job.id
        return f"{base}/{self.kind}-{number}"

    def run_first(self, *command):
        """Runs a command on the node of the master, which is this machine."""
        return subprocess.run(command, **self.captured())

    def captured(self):
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return {"universal_newlines": True, "timeout": 120, "env": {**environment(), **self.env}, **pipes}

    def ask(self, *words):
        """Runs a Python program on the first node and returns its output."""
        try:
            done = self.run_first(self.python, "-c", *map(str, words))
        except FileNotFoundError:
            raise Failure(f"{self.python}: not found; use --python") from None
        except subprocess.TimeoutExpired as err:
            raise Failure(f"{self.first}: no answer within {err.timeout:g} s") from None
        if done.returncode:
            raise Failure(f"{self.first}: {' '.join(done.stdout.split())[-500:]}")
        return (done.stdout.strip().splitlines() or [""])[-1]  # srun may have warned before

    def start(self):
        """Starts the master, then the workers, and returns when all of them are ready."""
        options = self.options
        wanted = [options.port or 0, options.dashboard_port or 0, *(options.port_range or (0, 0))]
        found = self.ask(PROGRAM, "find", options.address or "name", options.interface or "", *wanted)
        address, port, web = found.split()
        self.host, self.port, self.web = options.host or address, int(port), int(web)
        self.address = f"{self.host}:{self.port}"
        workers = self.prepare_spark() if self.kind == "spark" else self.prepare_ray()
        print("STARTING CLUSTER on", *self.job.nodes, file=sys.stderr)
        self.launch("master", "master", [self.first])
        self.await_up("the master", 0 if self.kind == "spark" else 1)
        if workers:
            self.launch_workers(workers)
            self.await_up("the workers", len(self.job.nodes))
        self.tell_dashboard()

    def prepare_spark(self):
        """Returns the nodes of workers: all nodes."""
        home = os.environ.get("SPARK_HOME") or self.ask(SPARK_HOME)
        self.env = {"SPARK_HOME": home, "SPARK_MASTER": f"spark://{self.address}"}
        self.env.update({name: self.python for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")})
        memory = self.job.memory.get("CLUSTER_MEM_PER_NODE")
        offer = memory and (int(memory) - 1024 if int(memory) > 2048 else int(memory) // 2)
        is_set = self.options.memory or self.site.arguments("spark", "worker", "start")
        # Spark's default for an executor; with smaller workers every application would wait forever.
        if offer and offer < 1024 and not is_set:
            problem = f"a worker would offer {offer} MB, too little for an executor"
            raise Failure(f"{problem}: ask Slurm for more (--mem), or use --memory")
        return self.job.nodes

    def prepare_ray(self):
        """Returns the nodes of workers: all but the head, which is a worker too."""
        # A busy machine needs more than Ray's default of 30 s.
        self.env = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_raylet_start_wait_time_s": "120"}
        # By default, Ray's head would require the token in ~/.ray, if there is one, but its clients would not send it.
        if not os.environ.get("RAY_AUTH_MODE"):
            self.env.update(self.authentication())
        return self.job.nodes[1:]

    def authentication(self):
        return ray_token()

    def spec(self, role):
        options = self.options
        keys = ("cores", "memory", "address", "interface", "dashboard_host", "local_dir")
        shape = {key: getattr(options, key) for key in keys}
        master = f"spark://{self.address}" if self.kind == "spark" else self.address
        where = {"host": self.host, "port": self.port, "web": self.web, "master": master, "temp": self.temp}
        how = {"start": self.site.arguments(self.kind, role, "start")}
        how.update(is_nice=self.is_nice, is_watching=self.is_watching)
        is_given = options.cores is not None or options.memory is not None
        return {"kind": self.kind, "role": role, "is_given": is_given, **shape, **where, **how}

    is_nice, is_watching = False, True

    def step_name(self, name):
        return f"{self.prefix}-{self.kind}-{name}"

    def launch_workers(self, nodes):
        """Starts a step per node, so that the loss of one leaves the others alone."""
        for name in nodes:
            self.launch(f"worker-{name}", "worker", [name])

    def launch(self, name, role, nodes):
        """Starts a step with one process per node."""
        spec = json.dumps(self.spec(role))
        arguments = self.site.arguments(self.kind, role, "srun")
        command = self.job.srun(self.step_name(name), nodes, arguments, [self.python, "-c", PROGRAM, spec])
        show([*command[:-1], *self.described(role)], {PROGRAM})
        env = {**environment(), **self.job.memory, **self.env}
        env.pop("RAY_ADDRESS", None)
        with open(self.log(name), "a") as log:
            # In its own session it receives no Ctrl-C; it ends with its stdin, also when this process is killed.
            stdin = subprocess.PIPE if self.is_watching else subprocess.DEVNULL
            process = subprocess.Popen(command, stdin=stdin, stdout=log, stderr=log, env=env, start_new_session=True)
        self.parts.append((name, process))

    def described(self, role):
        """Describes the processes of a node for the printed command line; the log has all details."""
        start, is_master = self.site.arguments(self.kind, role, "start"), role == "master"
        if self.kind == "spark":
            where = ["--host", self.host, "--port", str(self.port)] if is_master else []
            name = f"org.apache.spark.deploy.{role}.{role.title()}"
            return ["spark-class", name, *where, *start, *([] if is_master else [f"spark://{self.address}"])]
        where = ["--head", f"--port={self.port}"] if is_master else [f"--address={self.address}"]
        return ["ray", "start", "--block", *where, *start]

    def log(self, name):
        return self.logs / f"{name}.log"

    def ended(self):
        """Returns the name of a part that has ended."""
        return next((name for name, process in self.parts if process.poll() is not None), None)

    def tend(self):
        """Starts the steps of workers that have ended again; the name of the part without which the cluster is over."""
        for name, process in list(self.parts):
            if process.poll() is None:
                continue
            if name == "master":
                return name
            count, when, handled = self.ends.get(name, (0, 0, None))
            if handled is not process:
                pause = PAUSES[min(count, len(PAUSES) - 1)]
                self.ends[name] = (count + 1, time.monotonic() + pause, process)
                print(f"slurm-cluster: the {name} ended; starting it again in {pause} s", file=sys.stderr, flush=True)
            elif time.monotonic() > when:
                self.parts.remove((name, process))
                self.launch(name, "worker", [name.partition("-")[2]])
        return None

    def await_up(self, what, number):
        """Waits until the master knows this many workers; fails if a part ends."""
        deadline = time.monotonic() + self.options.patience
        where = self.options.dashboard_host
        where = where if where and where != "0.0.0.0" else self.host
        check = [SPARK_UP, f"http://{where}:{self.web}/json/"] if self.kind == "spark" else [RAY_UP, self.address]
        while True:
            try:
                done = self.run_first(self.python, "-c", *check, str(number))
                said = done.stdout
            except subprocess.TimeoutExpired:
                done, said = None, "no answer within two minutes"
            if done and done.returncode == 0:
                return
            self.log("check").write_text(said)
            name = self.ended()
            if name:
                raise Failure(self.with_logs(f"{what}: the {name} of the cluster ended", name))
            if time.monotonic() > deadline:
                late = f"{what}: not there within {self.options.patience:g} seconds"
                raise Failure(self.with_logs(late, self.parts[-1][0], "check"))
            time.sleep(self.pause)

    pause = 0.2

    def with_logs(self, message, *names):
        """Returns a message with the end of each log."""
        text = f"{message} (see {self.logs})"
        for name in names:
            lines = self.log(name).read_text(errors="replace").splitlines()[-15:] if self.log(name).exists() else []
            text += "".join("\n" + line for line in [f"--- the end of {name}.log:", *lines] if lines)
        return text

    def tell_dashboard(self):
        """Prints the URL of the dashboard and the ssh command that forwards it."""
        if self.kind == "ray" and self.run_first(self.python, "-c", HAS_DASHBOARD).returncode:
            print("slurm-cluster: no dashboard: this Ray was installed without ray[default]", file=sys.stderr)
            return
        outside = self.options.dashboard_host or ("0.0.0.0" if self.kind == "spark" else "127.0.0.1")
        user, login = getpass.getuser(), os.environ.get("SLURM_SUBMIT_HOST") or socket.gethostname()
        if outside.startswith("127.") or outside == "localhost":
            tunnel = f"ssh -J {user}@{login} -L {self.web}:localhost:{self.web} {user}@{self.host}"
            print(f"slurm-cluster: dashboard: http://localhost:{self.web} on {self.host}", file=sys.stderr)
        else:
            tunnel = f"ssh -L {self.web}:{self.host}:{self.web} {user}@{login}"
            print(f"slurm-cluster: dashboard: http://{self.host}:{self.web}", file=sys.stderr)
        print(f"slurm-cluster: tunnel: {tunnel}   then http://localhost:{self.web}", file=sys.stderr, flush=True)

    def stop(self):
        """Ends all parts and waits for them, for a limited time."""
        is_forced = False
        for _, process in self.parts:
            process.stdin.close()
        for _, process in self.parts:
            try:
                process.wait(node.GRACE + 57)  # slow on a busy machine
            except subprocess.TimeoutExpired:
                process.kill()
                is_forced = True
        if is_forced:
            self.clear()
        node.shutil.rmtree(self.temp, ignore_errors=True)

    def clear(self):
        """Removes the temporary folders that nodes have left."""
        command = self.job.srun(self.step_name("clear"), self.job.nodes, [], ["rm", "-rf", self.temp])
        try:
            subprocess.run(command, env=environment(), timeout=20, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            pass
