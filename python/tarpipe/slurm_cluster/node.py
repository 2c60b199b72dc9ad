"""The program of one node of a cluster: starts a master or a worker, restarts workers, and leaves nothing behind.

Slurm starts it as `python -c SOURCE SPEC` on every node, so it imports nothing from this package. It ends when its
process ends (a master), when its stdin ends (if SPEC requests it: the starting process has ended), or on TERM.
"""

import fcntl
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

GRACE = 3  # seconds from TERM to KILL; Ray would give its tasks 30 s
SIOCGIFADDR = 0x8915
NODE = ("SLURM_CONF", "SLURM_CLUSTER_NAME", "SLURMD_NODENAME")  # a machine can run nodes of several clusters


class Ending(Exception):
    """This node has been asked to end."""


def main():
    if sys.argv[1] == "find":
        return find(*sys.argv[2:])
    if sys.argv[1] == "await-end":
        return await_end(*sys.argv[2:])
    spec = json.loads(sys.argv[1])
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if spec["is_watching"]:
        threading.Thread(target=watch, daemon=True).start()
    if spec["is_nice"]:
        os.nice(19)
        if shutil.which("ionice"):
            subprocess.run(["ionice", "-c", "3", "-p", str(os.getpid())])
    node = Node(spec)
    try:
        status = node.run()
    except Ending:
        status = 0
    except OSError as err:
        print(f"slurm-cluster: {err}", flush=True)
        status = 1
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    node.terminate()
    shutil.rmtree(spec["temp"], ignore_errors=True)
    sys.stdout.flush()
    os._exit(status)  # the thread that watches stdin holds it


def find(address, interface, *numbers):
    """Prints an address of this node and two free ports, for the master and its dashboard."""
    port, web, low, high = map(int, numbers)
    opened = [listen(number or low, number or high) for number in (port, web)]
    try:
        where = interface_address(interface) if interface else own_name() if address == "name" else own_ip()
    except OSError as err:
        sys.exit(str(err))
    print(where, *(each.getsockname()[1] for each in opened))


def await_end(job, *steps):
    """Waits for the processes of some steps of a job on this node; kills those that ignore TERM."""
    deadline = time.monotonic() + GRACE + 27
    while True:
        left = [pid for step in steps for pid in step_processes(job, step)]
        if not left:
            return
        for pid in left if time.monotonic() > deadline else []:
            signal_process(pid, signal.SIGKILL)
        time.sleep(0.2)


def step_processes(job, step):
    """Returns the processes of a step on this node, except this one."""
    here = {name: os.environ[name] for name in NODE if name in os.environ}
    wanted = {**here, "SLURM_JOB_ID": job, "SLURM_STEP_ID": step}
    wanted = {f"{name}={value}".encode() for name, value in wanted.items()}
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return [pid for pid in pids if pid != os.getpid() and belongs(pid, wanted)]


def belongs(pid, variables):
    """Whether a process has these variables; those of other users cannot be read."""
    try:
        words = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return variables.issubset(words) and state != "Z"


def listen(low, high):
    for port in range(low, high + 1):
        found = socket.socket()
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind(("", port))
            found.listen(1)
            return found
        except OSError:
            found.close()
    sys.exit(f"port {low} is in use" if low == high else f"no free port from {low} to {high}")


def end(*_):
    raise Ending


def watch():
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


class Node:
    """One process of a cluster, and the folder of its temporary files."""

    def __init__(self, spec):
        self.spec, self.process = spec, None
        self.temp = pathlib.Path(spec["temp"])
        self.cores = spec["cores"] or os.environ.get("SLURM_CPUS_ON_NODE") or os.cpu_count()
        self.name = socket.gethostname()

    def run(self):
        """Runs a master once; restarts a worker whenever it ends."""
        (self.temp / "tmp").mkdir(parents=True, exist_ok=True)
        os.environ["TMPDIR"] = str(self.temp / "tmp")
        command = self.spark() if self.spec["kind"] == "spark" else self.ray()
        print("slurm-cluster:", *command, flush=True)
        while True:
            status = self.start(command)
            self.terminate()
            if self.spec["role"] == "master":
                return status or 1
            print(f"slurm-cluster: the worker on {self.name} ended; starting it again", flush=True)
            time.sleep(1)

    def start(self, command):
        """Starts the process and waits for its end."""
        if self.spec["kind"] == "spark":
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
            return self.process.wait()
        # Ray nodes on one machine start one after another; otherwise they would use the same socket.
        with open(self.temp / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
            self.process = subprocess.Popen(command, start_new_session=True, text=True, **pipes)
            for line in self.process.stdout:
                print(line, end="", flush=True)
                if "runtime started" in line:
                    fcntl.flock(lock, fcntl.LOCK_UN)
            return self.process.wait()

    def terminate(self):
        """Ends the process and its children, which have process groups of their own in Ray and Spark."""
        if self.process is None:
            return
        group, deadline = self.process.pid, time.monotonic() + GRACE
        if self.process.poll() is None:
            signal_group(group, signal.SIGTERM)
            while self.process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
        signal_group(group, signal.SIGKILL)
        for pid in step_processes(os.environ.get("SLURM_JOB_ID"), os.environ.get("SLURM_STEP_ID")):
            signal_process(pid, signal.SIGKILL)
        self.process.wait()
        self.process = None

    def spark(self):
        spec, start = self.spec, self.spec["start"]
        program = [f"{spark_home()}/bin/spark-class"]
        address = self.address()
        host = ["--host", address] if address else []
        if spec["role"] == "master":
            if spec["dashboard_host"]:
                os.environ["SPARK_LOCAL_IP"] = spec["dashboard_host"]
            ports = ["--port", str(spec["port"]), "--webui-port", str(spec["web"])]
            return [*program, "org.apache.spark.deploy.master.Master", "--host", spec["host"], *ports, *start]
        if spec["local_dir"] or not os.environ.get("SPARK_LOCAL_DIRS"):
            os.environ["SPARK_LOCAL_DIRS"] = str(self.temp / "local")
        memory = offered(spec["memory"])
        offer = ["--cores", str(self.cores), *(["--memory", f"{memory}m"] if memory else [])]
        work = ["--work-dir", str(self.temp / f"work-{os.environ.get('SLURM_PROCID', '0')}")]
        words = [*program, "org.apache.spark.deploy.worker.Worker", *host, "--webui-port", "0", *work]
        # Flags override the site's arguments, which override the values of the allocation.
        words += [*start, *offer] if spec["is_given"] else [*offer, *start]
        return [*words, spec["master"]]

    def ray(self):
        spec, start = self.spec, self.spec["start"]
        words = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block"]
        # The head must use the address that the workers get; otherwise Ray chooses one.
        address = self.address() or (spec["host"] if spec["role"] == "master" and is_address(spec["host"]) else None)
        words += [f"--node-ip-address={address}"] if address else []
        if spec["role"] == "master":
            words += ["--head", f"--port={spec['port']}", f"--dashboard-port={spec['web']}"]
            words += [f"--temp-dir={self.temp}"]
            words += [f"--dashboard-host={spec['dashboard_host']}"] if spec["dashboard_host"] else []
        else:
            words += [f"--address={spec['master']}"]
        offer = [f"--num-cpus={self.cores}", *ray_memory(offered(spec["memory"]))]
        return [*words, *start, *offer] if spec["is_given"] else [*words, *offer, *start]

    def address(self):
        """Returns the address of this node as requested; None leaves the choice to Spark and Ray."""
        if self.spec["interface"]:
            return interface_address(self.spec["interface"])
        if self.spec["address"] == "ip":
            return own_ip()
        return own_name() if self.spec["address"] == "name" and self.spec["kind"] == "spark" else None


def spark_home():
    found = os.environ.get("SPARK_HOME")
    if not found:
        module = importlib.util.find_spec("pyspark")
        found = module and os.path.dirname(module.origin)
    if not found:
        raise OSError(f"no Spark on {socket.gethostname()}: set SPARK_HOME, or --python to a Python that has pyspark")
    return found


def own_name():
    """Returns the full name of this node, unless the site maps it to localhost, which is another machine elsewhere."""
    name = socket.getfqdn()
    return socket.gethostname() if name.startswith(("localhost", "ip6-")) else name


def own_ip():
    """Returns the IPv4 address of this node's name or, if that is a loopback address, of its default route."""
    found = socket.gethostbyname(socket.gethostname())
    if not found.startswith("127."):
        return found
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            any_socket.connect(("192.0.2.1", 9))  # sends nothing
            return any_socket.getsockname()[0]
        except OSError:
            return found


def is_address(host):
    try:
        socket.inet_aton(host)
    except OSError:
        return False
    return host.count(".") == 3


def interface_address(name):
    """Returns the IPv4 address of a network interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            answer = fcntl.ioctl(any_socket, SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
        except OSError as err:
            there = ", ".join(each for _, each in socket.if_nameindex())
            text = f"{socket.gethostname()}: no address of the interface {name}: {err.strerror} (there are: {there})"
            raise OSError(text) from None
    return socket.inet_ntoa(answer[20:24])


def signal_process(pid, number):
    try:
        os.kill(pid, number)
    except OSError:
        pass


def signal_group(group, number):
    try:
        os.killpg(group, number)
    except OSError:
        pass


def offered(wanted):
    """Returns the megabytes that a worker offers; None without a limit. The rest is for the cluster itself: a
    gigabyte, or half of a small allocation."""
    if wanted:
        return wanted
    has = allocated()
    return has and (has - 1024 if has > 2048 else has // 2)


def allocated():
    """Returns the megabytes of the allocation on this node: Slurm's value, else the limit of the control group."""
    per_node, per_cpu = (int(os.environ.get(f"CLUSTER_MEM_PER_{what}") or 0) for what in ("NODE", "CPU"))
    if per_node or per_cpu:
        return per_node or per_cpu * int(os.environ.get("SLURM_CPUS_ON_NODE") or 1)
    with open("/proc/self/cgroup") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            base = {"": "/sys/fs/cgroup", "memory": "/sys/fs/cgroup/memory"}.get(controllers)
            limit = base and group_limit(pathlib.Path(base), base + path)
            if limit:
                return limit >> 20
    return None


def group_limit(base, folder):
    """Returns the lowest memory limit of a control group and its parents, in bytes."""
    folder = pathlib.Path(folder)
    while folder != base and base in folder.parents:
        for name in ("memory.max", "memory.limit_in_bytes"):
            try:
                text = (folder / name).read_text().strip()
            except OSError:
                continue
            # Without a limit, version 2 has "max", and version 1 a number larger than any memory.
            if text.isdigit() and len(text) <= 15:
                return int(text)
        folder = folder.parent
    return None


def ray_memory(offer):
    """Reserves a third of what a node offers for objects; by default Ray would use a share of the whole machine."""
    if not offer:
        return []
    objects = max(offer * 3 // 10, 80)
    rest = offer - objects if offer > objects else offer
    return [f"--memory={rest << 20}", f"--object-store-memory={objects << 20}"]


if __name__ == "__main__":
    main()
