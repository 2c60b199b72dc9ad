#!/usr/bin/env python3
"""Runs the tasks of a shardrun submission on Spark or Ray.

shardrun copies this file to the folder of a submission and starts it for --on spark and --on ray. To start it by hand:

    spark-submit driver.py spark SUBMISSION --run DIR --shardrun COMMAND
    ray job submit -- python3 driver.py ray SUBMISSION --run DIR --shardrun COMMAND

Each task is sent to a `shardrun item` on a worker. When it ends, its result lines come back and go to `shardrun record DIR`
at once; there are no barriers between tasks. A task is repeated by the engine if its worker could not run it, or if the worker
or its node died. When the engine gives up on a task, its items are recorded as lost and the others continue.

It works with any Spark master, with `ray start` clusters, Ray Jobs and ray://, and inside a program that has a session
already: run_on_spark(context, …) and run_on_ray(…). It needs only pyspark or ray, and is a single file because it is sent to
the workers. It leaves the cluster as it was.

Three files in SUBMISSION connect the driver to its shardrun, wherever in the cluster it runs. shardrun holds a lock on
shardrun.lock; when that lock is free, the driver cancels its tasks and ends. The driver holds a lock on driver.lock, which
shows shardrun that it is alive. `shardrun cancel` creates the file cancel. Workers that can see SUBMISSION record the start of
each item in started/HOST, for `shardrun status`.
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
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time

Task = collections.namedtuple("Task", "bundle items")  # the input of `shardrun item`, and the numbers of the items


class Interrupted(BaseException):
    """INT or TERM has arrived; the argument is its number."""


class EngineError(Exception):
    """The engine or a worker could not run tasks. A worker's error has the result lines so far as its second argument."""


# On a worker.


def run_task(bundle, items, command, started=None):
    """Runs a task and returns its result lines; raises EngineError if this worker cannot run it, so that the engine repeats
    it. The start of each item is recorded in the folder `started`, if this worker can see it.

    The shardrun process is kept for the next task of this Python process. It is stored in the module sys, because engines send
    many copies of this function, each with its own globals. A program that has changed on disk is started anew."""
    command = command if os.access(command[0], os.X_OK) else find_shardrun() or command
    program = command[0]
    idle = vars(sys).setdefault("_shardruns", {})
    lines, child, version, items = [], None, None, iter(items)
    try:
        version = program, os.stat(program).st_mtime_ns
        child = idle.pop(version, None) or start_server(command)
        record_start(started, next(items, None))
        child.stdin.write(bundle)
        child.stdin.flush()
        for line in child.stdout:
            if line == "\n":
                idle[version], child = child, None
                return lines
            lines.append(line.rstrip("\n"))
            record_start(started, next(items, None))
        message = f"{program} item ended too early on {os.uname().nodename}"
    except OSError as err:
        message = f"{program}: {err.strerror} on {os.uname().nodename}"
    finally:
        if child:  # failed or cancelled: without stdin it ends, and ends its pipeline first
            with contextlib.suppress(OSError):
                child.stdin.close()
            child.stdout.read()
    raise EngineError(message, lines)


def record_start(started, item):
    """Appends the item and the time to the file of this host. It is a single write, because all workers of a host share the
    file."""
    if started is None or item is None:
        return
    with contextlib.suppress(OSError):  # a worker that cannot see the folder runs its tasks anyway
        path = os.path.join(started, os.uname().nodename)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(file, f"{item} {time.time():.3f}\n".encode())
        finally:
            os.close(file)


def find_shardrun():
    """The command that starts the shardrun on PATH, by its own name or as part of tarpipe; None if there is none."""
    for name, words in [("shardrun", []), ("tarpipe", ["shardrun"])]:
        if path := shutil.which(name):
            return [path, *words]


def start_server(command):
    """Starts a shardrun that runs task after task until its stdin ends, however this process ends. It is detached from this
    process, because Ray kills the children of a worker that it ends, without time to end the pipeline."""
    # The other tools are installed in the same folder.
    env = {**os.environ, "PATH": os.path.dirname(command[0]) + os.pathsep + os.environ.get("PATH", "/usr/bin:/bin")}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    detach = lambda: os.fork() and os._exit(0)
    words = [*command, "item", "--serve"]
    child = subprocess.Popen(words, **pipes, env=env, start_new_session=True, preexec_fn=detach)
    child.wait()  # reaps the parent of the detached process
    return child


def lost_lines(task, message, lines=()):
    """Result lines for the items of a task that could not be run, except those that have a line."""
    result = {"state": "failed", "code": "lost", "message": message}
    known = {json.loads(line)["item"] for line in lines}
    return [json.dumps({"item": item, **result}) for item in task.items if item not in known]


# On the machine of the driver.


def read_bundles(submission):
    """The tasks of a submission, and how many items may fail (None: any number)."""
    tasks, spec = [], "{}"
    for path in sorted(pathlib.Path(submission).glob("[0-9]*.jsonl")):
        with path.open() as bundle:
            spec = next(bundle)
            tasks.extend(Task(spec + line, [item[0] for item in json.loads(line)]) for line in bundle)
    return tasks, json.loads(spec).get("max_failures")


class Recorder:
    """Passes result lines to `shardrun record`, and counts failures."""

    def __init__(self, command, run, tasks, max_failures=None):
        words = [*command, "record", run]
        self.child = subprocess.Popen(words, stdin=subprocess.PIPE, text=True, start_new_session=True)
        self.left = {item for task in tasks for item in task.items}
        self.failed, self.max_failures = 0, max_failures

    def add(self, line):
        result = json.loads(line)
        self.left.discard(result["item"])
        self.failed += result["state"] == "failed"
        self.child.stdin.write(line + "\n")

    def flush(self):
        self.child.stdin.flush()

    def has_failed(self):
        """Whether more items have failed than allowed, so that no further task may start."""
        return self.max_failures is not None and self.failed > self.max_failures

    def close(self):
        self.child.stdin.close()
        if self.child.wait() != 0:
            raise EngineError(f"shardrun record ended with status {self.child.returncode}")


# Spark: all tasks are one Spark job, each task one Spark task.


def run_on_spark(context, tasks, command, recorder, started=None):
    """Runs tasks in a SparkContext and passes their lines to `recorder`. `started` is a folder that workers may see. Stops
    after too many failures."""
    group = f"shardrun-{os.getpid()}"
    if __name__ != "__main__":
        context.addPyFile(__file__)  # Spark does not send imported modules to workers

    def deliver(line):
        recorder.add(line)
        recorder.flush()
        if recorder.has_failed():
            context.cancelJobGroup(group)

    results = context.accumulator([], result_lines(deliver))
    attempts = max_attempts(context)

    def run_partition(partition):
        from pyspark import TaskContext

        is_last = TaskContext.get().attemptNumber() + 1 >= attempts
        for task in partition:
            try:
                results.add(run_task(*task, command, started))
            except EngineError as err:
                # A task that fails for the last time would end the whole job, so its error becomes its result.
                if not is_last:
                    raise
                results.add(err.args[1] + lost_lines(task, *err.args))

    def run_job(tasks):
        context.setJobGroup(group, "shardrun", interruptOnCancel=True)
        while tasks:
            try:
                context.parallelize(tasks, len(tasks)).foreachPartition(run_partition)
                return
            except Exception as err:
                if recorder.has_failed():
                    return
                tasks = give_up(tasks, str(err), recorder)

    # In its own thread, because the thread that waits for a job cannot cancel it.
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        try:
            thread.submit(run_job, tasks).result()
        except Interrupted:
            with contextlib.suppress(Exception):  # the signal may have ended Spark too
                context.cancelJobGroup(group)
            raise


def result_lines(deliver):
    """Returns the type of an accumulator that delivers the lines of each successful task, once and as soon as it ends."""
    from pyspark.accumulators import AccumulatorParam

    class ResultLines(AccumulatorParam):
        def __init__(self, deliver=None):
            self.deliver = deliver

        def __reduce__(self):  # workers only collect
            return ResultLines, ()

        def zero(self, value):
            return []

        def addInPlace(self, collected, lines):
            if self.deliver is None:
                return collected + lines
            for line in lines:
                self.deliver(line)
            return []

    return ResultLines(deliver)


def give_up(tasks, error, recorder):
    """Records a task as lost that ended the job because its executors died with it; returns the tasks that are left."""
    found = re.search(r"Task (\d+) in stage \S+ failed \d+ times[^\n]*", error)
    if not found:
        raise EngineError(error.strip().splitlines()[0])
    for line in lost_lines(tasks[int(found[1])], found[0]):
        recorder.add(line)
    return [task for task in tasks if not recorder.left.isdisjoint(task.items)]


def max_attempts(context):
    local = re.fullmatch(r"local(?:\[[^,\]]*(?:,\s*(\d+))?\])?", context.master)
    return int(local[1] or 1) if local else int(context.getConf().get("spark.task.maxFailures", "4"))


@contextlib.contextmanager
def spark(args):
    """Yields a function that runs tasks, in a new SparkContext or in the one of an existing session."""
    try:
        from pyspark import SparkConf, SparkContext
    except ImportError:
        exit_without_package("pyspark", "--launcher spark-submit")
    # Workers need the same version of Python. If theirs has another path, the user sets this.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = [setting.split("=", 1) for setting in args.settings]
    # Only the JVM knows what spark-defaults.conf, PYSPARK_SUBMIT_ARGS and spark-submit have set.
    SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll(settings))
    conf = SparkConf().setIfMissing("spark.app.name", "shardrun").setAll(settings)
    conf.setIfMissing("spark.log.level", "ERROR").setIfMissing("spark.ui.showConsoleProgress", "false")
    master = args.master or conf.get("spark.master", "local[*]")
    local = re.fullmatch(r"local(?:\[([^,]*)\])?", master)
    if local:
        if args.local_cores and not args.master:
            print(f"shardrun: Spark has no master: running {args.local_cores} tasks at once on this machine (--master names a cluster)", file=sys.stderr)
            args.j = args.local_cores
        # By default, Spark's local mode does not repeat failed tasks.
        master = f"local[{args.j or local[1] or 1},{conf.get('spark.task.maxFailures', '4')}]"
    elif args.j:
        limit_parallel(conf, master, args.j)
    context = SparkContext.getOrCreate(conf.setMaster(master))
    try:
        yield lambda *work: run_on_spark(context, *work)
    finally:
        with contextlib.suppress(Exception):
            context.stop()


def limit_parallel(conf, master, parallel):
    """Limits the number of tasks that run at once: by whole executors on YARN and Kubernetes, by cores elsewhere."""
    if master.startswith(("yarn", "k8s")):
        cores = int(conf.get("spark.executor.cores", "1"))
        conf.set("spark.executor.instances", str(max(1, parallel // cores)))
        conf.set("spark.dynamicAllocation.maxExecutors", str(max(1, parallel // cores)))
    else:
        conf.set("spark.cores.max", str(parallel))


# Ray: each task is one call of a remote function.

RETRIES = 3  # by Ray, after the first attempt
MAX_SUBMITTED = 10_000  # tasks, which Ray keeps in memory
PAUSE = 0.05  # seconds to collect results


def run_on_ray(tasks, command, recorder, started=None, parallel=0, options=None):
    """Runs tasks on the connected Ray and passes their lines to `recorder`. `started` is a folder that workers may see. Stops
    after too many failures."""
    import ray

    if __name__ != "__main__":
        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # Ray does not send imported modules to workers
    # retry_exceptions is not a list, because the list would be pickled with each task.
    settings = {"num_cpus": 1, "scheduling_strategy": "SPREAD", "max_retries": RETRIES, "retry_exceptions": True}
    remote = ray.remote(run_task).options(**{**settings, **(options or {})})
    # Each task reports its own end. Polling all running tasks would cost more the more there are.
    waiting, running, ended = iter(tasks), {}, queue.SimpleQueue()
    # Without a limit, many tasks are submitted ahead, so that no node is idle while results are collected in batches, which is
    # cheaper than one by one. With a limit on running tasks, only that many are submitted.
    most, pause = (parallel, 0) if parallel else (MAX_SUBMITTED, PAUSE)
    try:
        while True:
            for task in itertools.islice(waiting, 0 if recorder.has_failed() else most - len(running)):
                reference = remote.remote(*task, command, started)
                future = reference.future()
                running[future] = reference, task
                future.add_done_callback(ended.put)
            if not running:
                return
            for future in next_batch(ended, pause):
                for line in lines_of(ray, future, running.pop(future)[1]):
                    recorder.add(line)
            recorder.flush()
    except Interrupted:
        for reference, _ in running.values():
            ray.cancel(reference, recursive=False)
        concurrent.futures.wait(running, timeout=10)
        raise


def next_batch(ended, pause):
    """Waits for the next element of a queue, and yields it with those that arrive during the pause."""
    yield ended.get()
    time.sleep(pause)
    with contextlib.suppress(queue.Empty):
        while True:
            yield ended.get_nowait()


def lines_of(ray, future, task):
    """The result lines of a task that has ended, successfully or not."""
    try:
        return future.result()
    except ray.exceptions.RayTaskError as err:
        message, lines = err.cause.args if isinstance(err.cause, EngineError) else (str(err.cause), [])
        return lines + lost_lines(task, message, lines)
    except ray.exceptions.RayError as err:  # its worker or node died in every attempt
        return lost_lines(task, f"{type(err).__name__}: {str(err).strip().splitlines()[0]}")


@contextlib.contextmanager
def ray(args):
    """Yields a function that runs tasks, over a new connection or the one that the program has already."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        exit_without_package("ray", "--launcher with a Python that has it")
    is_ours, session = not ray.is_initialized(), None
    try:
        if is_ours:
            session = connect(ray, args.address)
        yield lambda *work: run_on_ray(*work, args.j, dict(map(parse_option, args.settings)))
    finally:
        if is_ours:
            ray.shutdown()
        if session:
            shutil.rmtree(session, ignore_errors=True)


def connect(ray, address):
    """Connects to a cluster, or starts one on this machine. Returns the session folder of a new cluster, which Ray does not
    remove."""
    try:
        found = ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except ConnectionError as err:
        hint = "" if "RAY_AUTH_MODE" in os.environ else "; set RAY_AUTH_MODE=token if the cluster requires a token"
        raise EngineError(f"{str(err).strip().splitlines()[0]}{hint}") from err
    node = getattr(ray._private.worker, "_global_node", None)
    return getattr(found, "address_info", {}).get("session_dir") if getattr(node, "head", False) else None


def parse_option(word):
    """Parses NAME=VALUE. The value is JSON, such as num_cpus=2 or resources={"disk": 1}; other text is a string."""
    name, _, value = word.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


# The connection to shardrun.

CHECK_INTERVAL = 1  # second
TERM_GRACE = 25  # seconds to end the tasks; shardrun waits slightly longer
ending = threading.Event()


def lock_submission(submission):
    """Locks driver.lock until the returned file is closed or this process ends."""
    file = open(os.path.join(submission, "driver.lock"), "a")
    for _ in range(100):
        with contextlib.suppress(BlockingIOError):  # a process that checks the lock holds it briefly
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        time.sleep(0.1)
    raise EngineError(f"{submission}: another driver is working on this submission")


class Owner:
    """The shardrun that holds shardrun.lock of a submission. The file contains the boot id of its machine."""

    def __init__(self, submission):
        self.file = open(os.path.join(submission, "shardrun.lock"))
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id")
        self.is_here = boot.exists() and boot.read_text().strip() == self.file.read().strip()
        # On some file systems, locks are visible only on the machine that took them.
        self.is_visible = self.is_here or not self.is_free()
        if not self.is_visible:
            message = "shardrun: its lock is not visible on this machine; the driver will not notice when shardrun ends"
            print(message, file=sys.stderr)

    def is_free(self):
        try:
            fcntl.flock(self.file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return False
        fcntl.flock(self.file, fcntl.LOCK_UN)
        return True

    def has_ended(self):
        return self.is_visible and self.is_free()


def watch(submission, owner):
    """Interrupts the main thread when the run is cancelled or its shardrun has ended. Kills this process if that takes too
    long, which can happen if the engine does not respond; the engine then ends the tasks."""
    cancel = os.path.join(submission, "cancel")
    while not ending.wait(CHECK_INTERVAL):
        if os.path.exists(cancel) or owner and owner.has_ended():
            # Sent to the main thread: a signal that another thread receives would not wake it.
            signal.pthread_kill(threading.main_thread().ident, signal.SIGTERM)
            break
    time.sleep(TERM_GRACE)
    os._exit(128 + signal.SIGTERM)


# The command line.


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine", choices=["spark", "ray"], help="engine that runs the tasks")
    parser.add_argument("submission", help="folder of bundles")
    help = "Spark configuration, or options of Ray's remote function"
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help=help)
    parser.add_argument("--run", required=True, metavar="DIR", help="folder of the run")
    help = "command that starts shardrun on the workers"
    parser.add_argument("--shardrun", default="shardrun", metavar="COMMAND", help=help)
    parser.add_argument("--owned", action="store_true", help="end when the shardrun that started this driver ends")
    parser.add_argument("-j", type=int, default=0, metavar="N", help="run up to N tasks at once (0: no limit)")
    parser.add_argument("--master", metavar="URL", help="Spark master (default: that of spark-submit, else local)")
    help = "run up to N tasks at once if Spark has no cluster, and say so"
    parser.add_argument("--local-cores", type=int, default=0, metavar="N", help=help)
    parser.add_argument("--address", metavar="ADDRESS", help="Ray cluster (default: RAY_ADDRESS, else a local Ray)")
    return parser.parse_args()


def main():
    args = parse_arguments()
    handle_signals()
    try:
        lock = lock_submission(args.submission)
        owner = Owner(args.submission) if args.owned else None
        if not owner:  # started by hand, perhaps to resume a cancelled run
            pathlib.Path(args.submission, "cancel").unlink(missing_ok=True)
        threading.Thread(target=watch, args=(args.submission, owner), daemon=True).start()
        run_all(args)
        lock.close()
        return 0
    except Interrupted as number:
        return 128 + number.args[0]
    except (EngineError, OSError, ValueError, RuntimeError) as err:
        print(f"shardrun {args.engine}: {str(err).strip().splitlines()[0]}", file=sys.stderr)
        return 1


def run_all(args):
    command = shlex.split(args.shardrun)
    command[0] = shutil.which(command[0]) or command[0]
    tasks, max_failures = read_bundles(args.submission)
    started = pathlib.Path(args.submission, "started")
    started.mkdir(exist_ok=True)
    with {"spark": spark, "ray": ray}[args.engine](args) as run:
        handle_signals()  # again, because the engine has installed its own handlers
        recorder = Recorder(command, args.run, tasks, max_failures)
        try:
            run(tasks, command, recorder, str(started.absolute()))
        finally:
            recorder.close()


def exit_without_package(package, alternative):
    message = f"shardrun: {sys.executable} has no {package}; run pip install {package}, or use {alternative}"
    print(message, file=sys.stderr)
    sys.exit(4)


def handle_signals():
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
