#!/usr/bin/env python3
"""Runs the tasks of a shardrun submission on Spark or Ray, without barriers between them.

    shardrun --on spark … and --on ray … call it; by hand:
    spark-submit shardrun_driver.py spark SUBMISSION --run DIR --shardrun PATH
    ray job submit -- python3 shardrun_driver.py ray SUBMISSION --run DIR --shardrun PATH

Every task is handed to a `shardrun item` on a worker; its result lines come back with its end and go to `shardrun
record DIR` at once. A task that could not work, or whose worker or node died, is repeated by the engine; when the engine
gives up on it, its items are recorded as lost and the others go on. Works with any Spark master, `ray start` clusters,
Ray Jobs and ray://, and in a program that has a session already: run_on_spark(context, …), run_on_ray(…).
Needs pyspark or ray, nothing else; one file, for it is sent to the workers. The cluster is left as it was.

Three files in SUBMISSION tie the driver to its shardrun, wherever in the cluster it runs: shardrun holds a lock on
shardrun.lock, and the driver cancels its tasks and ends when that lock is gone; the driver holds driver.lock, by which
shardrun knows that it is at work; and `shardrun cancel` creates the file cancel. Workers that see SUBMISSION note in
started/HOST which item they begin, for `shardrun status`.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import fcntl
import itertools
import json
import os
import pathlib
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

Task = collections.namedtuple("Task", "stdin items")  # what `shardrun item` reads; the numbers of its items


class Interrupted(BaseException):
    """INT or TERM; its argument is the number."""


class Trouble(Exception):
    """The engine, or a worker, could not work. A worker's has the result lines that there are as well."""


# On a worker.


def work(stdin, items, program, started=None):
    """Result lines of a task; raises, so that the engine repeats it, when the worker could not work. Items that begin are
    noted in the folder `started`, where it can be seen from here.

    A shardrun stays for the next task of this process. It is kept where no copy of this function, of which engines send
    many, is in the way; another program, or another version of it, is started anew."""
    program = program if os.access(program, os.X_OK) else shutil.which("shardrun") or program
    stay = vars(sys).setdefault("_shardruns", {})
    lines, child, which, items = [], None, None, iter(items)
    try:
        which = program, os.stat(program).st_mtime_ns
        child = stay.pop(which, None) or serve(program)
        note_start(started, next(items, None))
        child.stdin.write(stdin)
        child.stdin.flush()
        for line in child.stdout:
            if line == "\n":
                stay[which], child = child, None
                return lines
            lines.append(line.rstrip("\n"))
            note_start(started, next(items, None))
        trouble = f"{program} item ended too early on {os.uname().nodename}"
    except OSError as err:
        trouble = f"{program}: {err.strerror} on {os.uname().nodename}"
    finally:
        if child:  # cancelled, or no more to do: it ends, and what it has started
            with contextlib.suppress(OSError):
                child.stdin.close()
            child.stdout.read()
    raise Trouble(trouble, lines)


def note_start(started, item):
    """Appends the item and the time to this host's file: several workers of a host write it, each line at once."""
    if started is None or item is None:
        return
    with contextlib.suppress(OSError):  # a worker that does not see the folder does its work all the same
        path = os.path.join(started, os.uname().nodename)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(file, f"{item} {time.time():.3f}\n".encode())
        finally:
            os.close(file)


def serve(program):
    """A shardrun that runs task after task and ends with its stdin, whatever may become of us. It is nobody's child: Ray
    kills the children of a worker that it ends, which would leave it no time to end what it has started."""
    # The other tools are installed beside it.
    env = {**os.environ, "PATH": os.path.dirname(program) + os.pathsep + os.environ.get("PATH", "/usr/bin:/bin")}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    leave = lambda: os.fork() and os._exit(0)
    child = subprocess.Popen([program, "item", "--serve"], **pipes, env=env, start_new_session=True, preexec_fn=leave)
    child.wait()  # for the one that left
    return child


def lost(task, message, lines=()):
    """Result lines for the items of a task that nobody could run, but those that have a line."""
    result = {"state": "failed", "code": "lost", "message": message}
    known = {json.loads(line)["item"] for line in lines}
    return [json.dumps({"item": item, **result}) for item in task.items if item not in known]


# Where the driver runs.


def read_bundles(submission):
    """The tasks of a submission, and how many items may fail (None: any number)."""
    tasks, head = [], "{}"
    for path in sorted(pathlib.Path(submission).glob("[0-9]*.jsonl")):
        with path.open() as bundle:
            head = next(bundle)
            tasks.extend(Task(head + line, [item[0] for item in json.loads(line)]) for line in bundle)
    return tasks, json.loads(head).get("max_failures")


class Record:
    """Takes result lines; counts the failed."""

    def __init__(self, program, run, tasks, max_failures=None):
        words = [program, "record", run]
        self.child = subprocess.Popen(words, stdin=subprocess.PIPE, text=True, start_new_session=True)
        self.left = {item for task in tasks for item in task.items}
        self.failed, self.max_failures = 0, max_failures

    def line(self, line):
        result = json.loads(line)
        self.left.discard(result["item"])
        self.failed += result["state"] == "failed"
        self.child.stdin.write(line + "\n")

    def flush(self):
        self.child.stdin.flush()

    def is_over(self):
        """Whether more items have failed than may: nothing more is to begin."""
        return self.max_failures is not None and self.failed > self.max_failures

    def close(self):
        self.child.stdin.close()
        if self.child.wait() != 0:
            raise Trouble(f"shardrun record ended with status {self.child.returncode}")


# Spark: one job, a Spark task each.


def run_on_spark(context, tasks, program, record, started=None):
    """Runs tasks in a SparkContext; `record` takes their lines, `started` is a folder that workers may see. Ends early
    after too many failures."""
    from pyspark.accumulators import AccumulatorParam

    group = f"shardrun-{os.getpid()}"
    if __name__ != "__main__":
        context.addPyFile(__file__)  # what is imported is not sent along

    class Results(AccumulatorParam):
        """An accumulator arrives once for each task that succeeded, as soon as it ends."""

        def __init__(self, take=None):
            self.take = take

        def __reduce__(self):  # workers only gather
            return Results, ()

        def zero(self, value):
            return []

        def addInPlace(self, gathered, lines):
            if self.take is None:
                return gathered + lines
            for line in lines:
                self.take(line)
            return []

    def take(line):
        record.line(line)
        record.flush()
        if record.is_over():
            context.cancelJobGroup(group)

    results = context.accumulator([], Results(take))
    attempts = max_attempts(context)

    def each(partition):
        from pyspark import TaskContext

        last = TaskContext.get().attemptNumber() + 1 >= attempts
        for task in partition:
            try:
                results.add(work(*task, program, started))
            except Trouble as err:
                # A job that gives up on one task would lose the others: the trouble itself is the last result.
                if not last:
                    raise
                results.add(err.args[1] + lost(task, *err.args))

    def job(tasks):
        context.setJobGroup(group, "shardrun", interruptOnCancel=True)
        while tasks:
            try:
                context.parallelize(tasks, len(tasks)).foreachPartition(each)
                return
            except Exception as err:
                if record.is_over():
                    return
                tasks = give_up(tasks, str(err), record)

    # In a thread of its own: the one that waits for a job cannot cancel it.
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        try:
            thread.submit(job, tasks).result()
        except Interrupted:
            with contextlib.suppress(Exception):  # the signal may have ended Spark as well
                context.cancelJobGroup(group)
            raise


def give_up(tasks, error, record):
    """A task that took its executors down with it ends the job: it is lost, what is left starts anew."""
    found = re.search(r"Task (\d+) in stage \S+ failed \d+ times[^\n]*", error)
    if not found:
        raise Trouble(error.strip().splitlines()[0])
    for line in lost(tasks[int(found[1])], found[0]):
        record.line(line)
    return [task for task in tasks if not record.left.isdisjoint(task.items)]


def max_attempts(context):
    local = re.fullmatch(r"local(?:\[[^,\]]*(?:,\s*(\d+))?\])?", context.master)
    return int(local[1] or 1) if local else int(context.getConf().get("spark.task.maxFailures", "4"))


@contextlib.contextmanager
def spark(args):
    """A context of ours, or the one of the session that is there, as a function that runs tasks."""
    try:
        from pyspark import SparkConf, SparkContext
    except ImportError:
        missing("pyspark", "--launcher spark-submit")
    # Workers need the driver's Python version; theirs may be elsewhere, then the user sets this.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # below spark-submit, whose JVM has its settings
        SparkContext._ensure_initialized()
    conf = SparkConf().setIfMissing("spark.app.name", "shardrun")
    conf.setIfMissing("spark.log.level", "ERROR").setIfMissing("spark.ui.showConsoleProgress", "false")
    for setting in args.settings:
        conf.set(*setting.split("=", 1))
    master = args.master or conf.get("spark.master", "local[*]")
    local = re.fullmatch(r"local(?:\[([^,]*)\])?", master)
    if local:
        # Spark's local mode repeats nothing unless it is told to.
        master = f"local[{args.j or local[1] or 1},{conf.get('spark.task.maxFailures', '4')}]"
    elif args.j:
        limit(conf, master, args.j)
    context = SparkContext.getOrCreate(conf.setMaster(master))
    try:
        yield lambda *work: run_on_spark(context, *work)
    finally:
        with contextlib.suppress(Exception):
            context.stop()


def limit(conf, master, parallel):
    """At most `parallel` tasks at once: whole executors on YARN and Kubernetes, cores elsewhere."""
    if master.startswith(("yarn", "k8s")):
        cores = int(conf.get("spark.executor.cores", "1"))
        conf.set("spark.executor.instances", str(max(1, parallel // cores)))
        conf.set("spark.dynamicAllocation.maxExecutors", str(max(1, parallel // cores)))
    else:
        conf.set("spark.cores.max", str(parallel))


# Ray: a remote function each, as many at once as there is room for.

RETRIES = 3  # by Ray, after the first attempt
WAITING = 10_000  # tasks at most that Ray knows of
PAUSE = 0.05  # seconds in which results gather


def run_on_ray(tasks, program, record, started=None, parallel=0, options=None):
    """Runs tasks on the Ray that is connected; `record` takes their lines, `started` is a folder that workers may see.
    Ends early after too many failures."""
    import ray

    if __name__ != "__main__":
        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # what is imported is not sent along
    # A list of exceptions would be pickled with each task.
    settings = {"num_cpus": 1, "scheduling_strategy": "SPREAD", "max_retries": RETRIES, "retry_exceptions": True}
    remote = ray.remote(work).options(**{**settings, **(options or {})})
    # Each tells of its own end: to ask all that run, again and again, would take more the more there are.
    waiting, running, ended = iter(tasks), {}, queue.SimpleQueue()
    # Many wait at the nodes, so that none is idle while results gather, which costs less for many at once. But Ray holds in
    # memory all that is submitted; and a limit to what runs is a limit to what is submitted.
    most, pause = (parallel, 0) if parallel else (WAITING, PAUSE)
    try:
        while True:
            for task in itertools.islice(waiting, 0 if record.is_over() else most - len(running)):
                reference = remote.remote(*task, program, started)
                future = reference.future()
                running[future] = reference, task
                future.add_done_callback(ended.put)
            if not running:
                return
            for future in all_ended(ended, pause):
                for line in lines_of(ray, future, running.pop(future)[1]):
                    record.line(line)
            record.flush()
    except Interrupted:
        for reference, _ in running.values():
            ray.cancel(reference, recursive=False)
        concurrent.futures.wait(running, timeout=10)
        raise


def all_ended(ended, pause):
    """The next in the queue, and those that come while we pause."""
    yield ended.get()
    time.sleep(pause)
    with contextlib.suppress(queue.Empty):
        while True:
            yield ended.get_nowait()


def lines_of(ray, future, task):
    """The result lines of a task that has ended, one way or the other."""
    try:
        return future.result()
    except ray.exceptions.RayTaskError as err:
        trouble, lines = err.cause.args if isinstance(err.cause, Trouble) else (str(err.cause), [])
        return lines + lost(task, trouble, lines)
    except ray.exceptions.RayError as err:  # its worker or its node died, and again
        return lost(task, f"{type(err).__name__}: {str(err).strip().splitlines()[0]}")


@contextlib.contextmanager
def ray(args):
    """A connection of ours, or the one that a program has already, as a function that runs tasks."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        missing("ray", "--launcher with a Python that has it")
    ours, session = not ray.is_initialized(), None
    try:
        if ours:
            session = connect(ray, args.address)
        yield lambda *work: run_on_ray(*work, args.j, dict(map(option, args.settings)))
    finally:
        if ours:
            ray.shutdown()
        if session:
            shutil.rmtree(session, ignore_errors=True)


def connect(ray, address):
    """Connects to a cluster, or starts one on this machine, whose folder of sockets and logs is the result: Ray leaves it."""
    try:
        found = ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except ConnectionError as err:
        hint = "" if "RAY_AUTH_MODE" in os.environ else "; set RAY_AUTH_MODE=token if the cluster requires a token"
        raise Trouble(f"{str(err).strip().splitlines()[0]}{hint}") from err
    node = getattr(ray._private.worker, "_global_node", None)
    return getattr(found, "address_info", {}).get("session_dir") if getattr(node, "head", False) else None


def option(word):
    """NAME=VALUE, the value as JSON: num_cpus=2, resources={"disk": 1}; other texts as they are."""
    name, _, value = word.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


# The ties to shardrun.

LOOK_EVERY = 1  # second
LAST_WORDS = 25  # seconds that ending the tasks may take; shardrun waits somewhat longer
ending = threading.Event()


def take_lock(submission):
    """Locks driver.lock until this process ends; the file must be kept."""
    file = open(os.path.join(submission, "driver.lock"), "a")
    for _ in range(100):
        with contextlib.suppress(BlockingIOError):  # somebody who looks whether it is locked holds it for a moment
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        time.sleep(0.1)
    raise Trouble(f"{submission}: another driver is at work on this submission")


class Owner:
    """The shardrun that holds a submission's shardrun.lock, which has the name of its machine's boot in it."""

    def __init__(self, submission):
        self.file = open(os.path.join(submission, "shardrun.lock"))
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id")
        self.is_here = boot.exists() and boot.read_text().strip() == self.file.read().strip()
        # Some file systems keep locks to the machine they were taken on.
        self.is_seen = self.is_here or not self.is_free()
        if not self.is_seen:
            print("shardrun: its lock is not seen on this machine: the driver will not notice its end", file=sys.stderr)

    def is_free(self):
        try:
            fcntl.flock(self.file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return False
        fcntl.flock(self.file, fcntl.LOCK_UN)
        return True

    def is_gone(self):
        return self.is_seen and self.is_free()


def watch(submission, owner):
    """Interrupts the main thread when the run is cancelled or its shardrun is gone; ends the process when that takes
    too long, as it may in an engine that does not answer. The engine then ends the tasks."""
    cancel = os.path.join(submission, "cancel")
    while not ending.wait(LOOK_EVERY):
        if os.path.exists(cancel) or owner and owner.is_gone():
            # To this thread: another one's signal would not wake it.
            signal.pthread_kill(threading.main_thread().ident, signal.SIGTERM)
            break
    time.sleep(LAST_WORDS)
    os._exit(128 + signal.SIGTERM)


# The command line.


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine", choices=["spark", "ray"], help="what runs them")
    parser.add_argument("submission", help="folder of bundles")
    words = "Spark configuration, options of Ray's remote function"
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help=words)
    parser.add_argument("--run", required=True, metavar="DIR", help="the run's folder")
    parser.add_argument("--shardrun", default="shardrun", metavar="PATH", help="the program on the workers")
    parser.add_argument("--owned", action="store_true", help="end when the shardrun that submitted this ends")
    parser.add_argument("-j", type=int, default=0, metavar="N", help="tasks at once (0: all that have room)")
    parser.add_argument("--master", metavar="URL", help="Spark master (default: spark-submit's, else local)")
    parser.add_argument("--address", metavar="ADDRESS", help="of Ray (default: RAY_ADDRESS, else a local Ray)")
    return parser.parse_args()


def main():
    args = arguments()
    heed_signals()
    try:
        lock = take_lock(args.submission)
        owner = Owner(args.submission) if args.owned else None
        if not owner:  # started by hand, perhaps to go on with what was cancelled
            pathlib.Path(args.submission, "cancel").unlink(missing_ok=True)
        threading.Thread(target=watch, args=(args.submission, owner), daemon=True).start()
        run_all(args)
        lock.close()
        return 0
    except Interrupted as number:
        return 128 + number.args[0]
    except (Trouble, OSError, ValueError, RuntimeError) as err:
        print(f"shardrun {args.engine}: {str(err).strip().splitlines()[0]}", file=sys.stderr)
        return 1


def run_all(args):
    program = shutil.which(args.shardrun) or args.shardrun
    tasks, max_failures = read_bundles(args.submission)
    started = pathlib.Path(args.submission, "started")
    started.mkdir(exist_ok=True)
    with {"spark": spark, "ray": ray}[args.engine](args) as run:
        heed_signals()  # the engine has set its own
        record = Record(program, args.run, tasks, max_failures)
        try:
            run(tasks, program, record, str(started.absolute()))
        finally:
            record.close()


def missing(package, otherwise):
    print(f"shardrun: {sys.executable} has no {package}: pip install {package}, or {otherwise}", file=sys.stderr)
    sys.exit(4)


def heed_signals():
    if ending.is_set():
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)


def interrupt(number, _frame):
    for other in (signal.SIGINT, signal.SIGTERM):
        signal.signal(other, signal.SIG_IGN)
    ending.set()
    raise Interrupted(number)


if __name__ == "__main__":
    sys.exit(main())
