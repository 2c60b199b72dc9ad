"""A cluster of Spark or Ray over ssh: its processes, its hosts, and the folder that records them."""

import contextlib
import getpass
import json
import os
import pathlib
import shlex
import sys
import time

from tarpipe.slurm_cluster.node import ray_memory
from tarpipe.ssh_cluster import programs
from tarpipe.ssh_cluster.hosts import Host, read
from tarpipe.ssh_cluster.remote import Failure, Remote, Unreachable, each, one_line

PATIENCE = 600  # seconds until all workers must be ready
# What workers offer; `add` uses the values of `start`.
SHAPE = ("cores", "memory")


def token():
    path = os.environ.get("RAY_AUTH_TOKEN_PATH") or pathlib.Path.home() / ".ray" / "auth_token"
    try:
        return os.environ.get("RAY_AUTH_TOKEN") or pathlib.Path(path).read_text().strip()
    except OSError as err:
        raise Failure(f"RAY_AUTH_MODE=token, but there is no token: {err}") from None


class Cluster:
    """The processes of a cluster, and the file that records them with the hosts, for any machine that can read it."""

    def __init__(self, args):
        self.args, self.file = args, pathlib.Path(args.state) / "cluster.json"
        self.known = json.loads(self.file.read_text()) if self.file.exists() else None
        self.hosts = {}  # by name: all of the list, and those that were added by name
        if self.known:
            args.python, args.ssh = self.known["python"], self.known["ssh"]
            self.hosts = {host["name"]: Host(**host) for host in self.known["hosts"]}
        self.ssh = Remote(args.ssh)

    def save(self):
        self.known["hosts"] = [vars(host) for host in self.hosts.values()]
        self.file.parent.mkdir(parents=True, exist_ok=True)
        part = self.file.with_suffix(".part")
        part.write_text(json.dumps(self.known, indent=1) + "\n")
        part.replace(self.file)

    def remote(self, host, script, *words):
        """Runs a bash script on a host and returns the completed process."""
        return self.ssh.run(host, self.environment() + script, *words)

    def on(self, process, script, *words):
        """The same on the host of a process."""
        return self.remote(self.hosts[process["host"]], script, *words)

    def environment(self):
        """Returns the setup of all Ray processes. It is sent by stdin, so that the token does not appear in `ps`."""
        if not self.known or self.known["kind"] != "ray":
            return ""
        mode = os.environ.get("RAY_AUTH_MODE", "disabled")
        text = f"export RAY_AUTH_MODE={shlex.quote(mode)}\n"
        if mode == "token":
            text += f"export RAY_AUTH_TOKEN={shlex.quote(token())}\n"
        return text

    def python(self, host, program, *words):
        return self.remote(host, '"$@"', self.args.python, "-c", program, *words)

    @property
    def first(self):
        return self.hosts[self.known["first"]]

    def launch(self, role, host, *command):
        """Starts a process on a host that outlives the connection."""
        done = self.remote(host, programs.LAUNCH, *command)
        if done.returncode:
            raise Failure(f"{host.name}: the {role} cannot be started: {one_line(done.stderr)}")
        pid, start, folder = done.stdout.split()
        where = {"role": role, "host": host.name, "address": host.address}
        process = {**where, "pid": pid, "start": start, "folder": folder}
        self.known["processes"].append(process)
        self.hosts.setdefault(host.name, host)
        self.save()
        return process

    def start(self):
        if self.known:
            raise Failure(f"there is a cluster in {self.args.state} already: stop it first")
        args, hosts = self.args, read(self.args.hosts)
        self.hosts = {host.name: host for host in hosts}
        ports = self.python(hosts[0], programs.PORTS, args.port or 0, args.web_port or 0)
        if ports.returncode:
            raise Failure(f"{hosts[0].name}: {one_line(ports.stderr) or f'cannot run {args.python}'}")
        self.known = {"kind": args.kind, "first": hosts[0].name, "processes": [], "python": args.python, "ssh": args.ssh}
        self.known["shape"] = {"cores": args.cores, "memory": args.memory and int(args.memory)}
        try:
            master = self.start_master(*ports.stdout.split())
            self.until(master, 0)
            failures = self.start_workers(hosts[: args.workers])
        except (Failure, KeyboardInterrupt):
            with contextlib.suppress(Failure):
                self.stop(keep_logs=True)
            raise
        print(self.known["address"], flush=True)
        for line in self.dashboard():
            print(f"ssh-cluster: {line}", file=sys.stderr)
        return self.tell(failures)

    def start_workers(self, hosts, before=None):
        """Starts all processes, those of one address one after another: two Ray nodes on one machine that
        start together would use the same socket. `before` is the number of workers that an address has already.
        Fails if none can be started."""
        failures = {host: answer for host, answer in each(lambda host: self.remote(host, ""), hosts)}
        failures = {host: answer for host, answer in failures.items() if isinstance(answer, Failure)}
        before, started = before or {}, {}

        def expected(address):
            return before.get(address, 0) + len(started[address])

        for host in hosts:
            if host in failures:
                continue
            try:
                if host.address in started:
                    self.until(started[host.address][-1], expected(host.address))
                started.setdefault(host.address, []).append(self.start_worker(host))
            except Failure as err:
                failures[host] = err
        is_any = False
        for address, processes in started.items():
            try:
                self.until(processes[-1], expected(address))
                is_any = True
            except Failure as err:
                failures[self.hosts[processes[-1]["host"]]] = err
                self.end(processes[-1:], keep_logs=True)
        if not is_any:
            raise Failure("; ".join(map(str, failures.values())))
        return list(failures.values())

    def tell(self, failures):
        """Prints each failure and returns the exit status."""
        for failure in failures:
            print(f"ssh-cluster: {failure}", file=sys.stderr)
        return 1 if failures else 0

    def spark(self, role, *words):
        return [self.args.python, "-c", programs.SPARK_CLASS, f"org.apache.spark.deploy.{role}.{role.title()}", *words]

    def start_master(self, port, web):
        host = self.first
        self.known["web"] = f"http://{host.address}:{web}"
        if self.known["kind"] == "spark":
            self.known["address"] = f"spark://{host.address}:{port}"
            words = self.spark("master", "--host", host.address, "--port", port, "--webui-port", web)
            return self.launch("master", host, *words)
        self.known["address"] = f"{host.address}:{port}"
        ports = [f"--port={port}", f"--dashboard-port={web}"]
        # Other nodes use the folder of the head.
        words = [*self.ray(host), "--head", *ports, "--num-cpus=0", "--temp-dir=@FOLDER@"]
        return self.launch("head", host, *words)

    def start_worker(self, host):
        cores, memory = (self.known["shape"][name] for name in SHAPE)
        if self.known["kind"] == "spark":
            offer = ["--cores", cores] if cores else []
            offer += ["--memory", f"{memory}m"] if memory else []
            words = self.spark("worker", "--host", host.address, "--webui-port", "0", *offer, self.known["address"])
            return self.launch("worker", host, *words)
        offer = [*([f"--num-cpus={cores}"] if cores else []), *ray_memory(memory)]
        return self.launch("worker", host, *self.ray(host), f"--address={self.known['address']}", *offer)

    def ray(self, host):
        # A busy machine needs more than Ray's default of 30 s.
        env = ["env", "-u", "RAY_ADDRESS", f"RAY_raylet_start_wait_time_s={PATIENCE}"]
        program = [self.args.python, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"]
        return [*env, *program, f"--node-ip-address={host.address}"]

    def dashboard(self):
        """Returns the lines that tell where the dashboard is and how to reach it through ssh."""
        host, port = self.first, self.known["web"].rpartition(":")[2]
        # Ray's listens on its own machine only.
        where = host.address if self.known["kind"] == "spark" else "localhost"
        login = f"{host.user or getpass.getuser()}@{host.name}"
        flags = ["-p", host.port] if host.port else []
        flags += ["-i", host.key] if host.key else []
        tunnel = shlex.join([*self.ssh.ssh, *flags, "-N", "-L", f"{port}:{where}:{port}", login])
        return [f"dashboard: {self.known['web']}", f"tunnel: {tunnel}   then http://localhost:{port}"]

    def workers(self):
        return [process for process in self.known["processes"] if process["role"] == "worker"]

    def count(self, address):
        """Returns the master's number of workers at an address, or a message if it cannot be determined."""
        is_spark = self.known["kind"] == "spark"
        program, word = (programs.SPARK_COUNT, "web") if is_spark else (programs.RAY_COUNT, "address")
        done = self.python(self.first, program, self.known[word], address)
        return int(done.stdout.split()[-1]) if done.returncode == 0 else (done.stderr.strip().splitlines() or [""])[-1]

    def until(self, process, number):
        """Waits until the master answers and, for a worker, lists this many at its address."""
        deadline = time.monotonic() + PATIENCE
        while True:
            count = self.count(process["address"])
            if count == number or isinstance(count, int) and process["role"] != "worker":
                return
            if not self.lives(process):
                raise Failure(f"{process['host']}: the {process['role']} ended{self.last_lines(process)}")
            if time.monotonic() > deadline:
                why = f" ({count})" if isinstance(count, str) else ""
                role = process["role"]
                raise Failure(f"{process['host']}: no {role} within {PATIENCE} s{why}{self.last_lines(process)}")
            time.sleep(0.5)

    def last_lines(self, process):
        log = f"{process['folder']}/log"
        lines = self.on(process, 'tail -n 10 "$1"', log).stdout.strip()
        return f"; the end of {log} there:\n{lines}" if lines else f" (see {log} there)"

    def lives(self, process):
        return self.on(process, programs.LOOK, process["pid"], process["start"]).returncode == 0

    def end(self, processes, force=False, keep_logs=False):
        """Ends processes, host by host in parallel, and forgets those that have ended. With `force` it also forgets those
        on hosts that cannot be reached. Fails if a process remains."""

        def end_one(process):
            if self.on(process, programs.END, process["pid"], process["start"]).returncode:
                raise Failure(f"{process['host']}: the {process['role']} does not end (pid {process['pid']})")
            if not keep_logs and process["role"] != "head":  # a head's folder is shared by all nodes on its machine
                self.on(process, programs.CLEAR, process["folder"])

        failures = []
        for process, answer in each(end_one, processes):
            if isinstance(answer, Unreachable) and force:
                print(f"ssh-cluster: {answer}; pid {process['pid']} there is forgotten", file=sys.stderr)
            elif isinstance(answer, Failure):
                failures.append(str(answer))
                continue
            self.known["processes"].remove(process)
        self.save()
        if failures:
            raise Failure("; ".join(dict.fromkeys(failures)))

    def free(self):
        """Returns the hosts of the list that have no worker."""
        busy = {process["host"] for process in self.workers()}
        return [host for name, host in self.hosts.items() if name not in busy]

    def add(self):
        args = self.args
        if args.host.isdigit():
            hosts = self.free()[: int(args.host)]
            if len(hosts) < int(args.host):
                raise Failure(f"{len(hosts)} hosts of the list are free, not {args.host}")
        else:
            given = Host(args.host, args.address)
            hosts = [self.hosts.get(args.host, given)]
        before = {}
        for address in {host.address for host in hosts}:
            before[address] = self.count(address)
            if not isinstance(before[address], int):
                raise Failure(f"{self.first.name}: the master does not answer: {before[address]}")
        count = len(self.known["processes"])
        try:
            failures = self.start_workers(hosts, before)
        except KeyboardInterrupt:
            self.end(self.known["processes"][count:], keep_logs=True)
            raise
        return self.tell(failures)

    def remove(self):
        workers = self.workers()
        if self.args.host.isdigit():
            number = int(self.args.host)
            if number > len(workers):
                raise Failure(f"there are {len(workers)} workers, not {number}")
            processes = workers[len(workers) - number :]
        else:
            processes = [process for process in workers if process["host"] == self.args.host]
        if not processes:
            raise Failure(f"{self.args.host}: no worker of this cluster")
        self.end(processes, self.args.force)

    def status(self):
        print(self.known["address"], *self.dashboard(), sep="\n")
        states = each(self.lives, self.known["processes"])
        for process, lives in states:
            state = "unreachable" if isinstance(lives, Failure) else "runs" if lives else "gone"
            print(f"{process['host']}\t{process['role']}\t{process['pid']}\t{state}", flush=True)
        for host in self.free():
            print(f"{host.name}\tfree", flush=True)
        self.tell(dict.fromkeys(str(state) for _, state in states if isinstance(state, Failure)))
        return 0 if all(state is True for _, state in states) else 1

    def stop(self, keep_logs=False):
        """Workers first. The folder of a Ray head goes last, on all hosts: their nodes have used it, too."""
        force = getattr(self.args, "force", False)
        failures = []
        heads = [process["folder"] for process in self.known["processes"] if process["role"] == "head"]
        masters = [process for process in self.known["processes"] if process["role"] != "worker"]
        for processes in (self.workers(), masters):
            try:
                self.end(processes, force, keep_logs)
            except Failure as err:
                failures.append(str(err))
        if failures:
            raise Failure("; ".join(failures))
        if not keep_logs:
            each(lambda host: self.remote(host, programs.CLEAR, *heads), list(self.hosts.values()))
        self.file.unlink(missing_ok=True)
