#!/usr/bin/env python3
"""Runs the tasks of a shardrun submission on Spark: one job, a Spark task each, no barriers.

    shardrun --on spark … calls it; by hand: spark-submit shardrun_spark.py SUBMISSION --run DIR --shardrun PATH

Every task is handed to `shardrun item -` on a worker; its result lines come back with the end of the Spark task
and go to `shardrun record DIR` at once. A task that could not work is repeated by Spark; when Spark gives up on it,
its items are recorded as lost and the others go on. Works with any master, and in a session that is there already:
run(context, tasks, …). Needs pyspark alone. The cluster is left as it was.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

Task = collections.namedtuple("Task", "stdin items")  # what `shardrun item -` reads; the numbers of its items


class Interrupted(BaseException):
    """INT or TERM; its argument is the number."""


class Trouble(Exception):
    """The engine, or a worker, could not work."""


# On a worker.


def work(task, program, last):
    """Result lines of a task; raises, so that the engine repeats it, when the worker could not work.

    On the `last` attempt the trouble itself is the result: a job that gives up on one task would lose the others.
    """
    program = program if os.access(program, os.X_OK) else shutil.which("shardrun") or program
    # The other tools are installed beside it.
    env = {**os.environ, "PATH": os.path.dirname(program) + os.pathsep + os.environ.get("PATH", "/usr/bin:/bin")}
    lines, child = [], None
    try:
        child = subprocess.Popen(
            [program, "item", "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=env,
            text=True,
            preexec_fn=end_with_parent,
        )
        lines = child.communicate(task.stdin)[0].splitlines()
        if child.returncode in (0, 3):
            return lines
        trouble = f"{program} item ended with status {child.returncode} on {os.uname().nodename}"
    except OSError as err:
        trouble = f"{program}: {err.strerror} on {os.uname().nodename}"
    finally:
        if child and child.poll() is None:  # cancelled
            child.terminate()
            child.wait()
    if not last:
        raise Trouble(trouble)
    return lines + lost(task, trouble, lines)


def end_with_parent():
    """Asks Linux for a TERM when the worker dies: an engine that cancels a task kills the worker alone."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGTERM)
    except (ImportError, AttributeError, OSError):
        pass


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

    def __init__(self, program, run, tasks):
        self.child = subprocess.Popen(
            [program, "record", run], stdin=subprocess.PIPE, text=True, start_new_session=True
        )
        self.left = {item for task in tasks for item in task.items}
        self.failed = 0

    def line(self, line):
        result = json.loads(line)
        self.left.discard(result["item"])
        self.failed += result["state"] == "failed"
        self.child.stdin.write(line + "\n")
        self.child.stdin.flush()

    def close(self):
        self.child.stdin.close()
        if self.child.wait() != 0:
            raise Trouble(f"shardrun record ended with status {self.child.returncode}")


def run(context, tasks, program, record, max_failures=None):
    """Runs tasks in a SparkContext; `record` takes their lines. Ends early after too many failures."""
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
        if max_failures is not None and record.failed > max_failures:
            context.cancelJobGroup(group)

    results = context.accumulator([], Results(take))
    attempts = max_attempts(context)

    def each(partition):
        from pyspark import TaskContext

        last = TaskContext.get().attemptNumber() + 1 >= attempts
        for task in partition:
            results.add(work(task, program, last))

    def job(tasks):
        context.setJobGroup(group, "shardrun", interruptOnCancel=True)
        while tasks:
            try:
                context.parallelize(tasks, len(tasks)).foreachPartition(each)
                return
            except Exception as err:
                if max_failures is not None and record.failed > max_failures:
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


def connect(master, parallel, settings):
    """A context of ours, or the one of the session that is there."""
    try:
        from pyspark import SparkConf, SparkContext
    except ImportError:
        print(
            f"shardrun_spark: {sys.executable} has no pyspark: pip install pyspark, or --launcher spark-submit",
            file=sys.stderr,
        )
        sys.exit(4)
    # Workers need the driver's Python version; theirs may be elsewhere, then the user sets this.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf().setIfMissing("spark.app.name", "shardrun")
    conf.setIfMissing("spark.log.level", "ERROR").setIfMissing("spark.ui.showConsoleProgress", "false")
    for setting in settings:
        conf.set(*setting.split("=", 1))
    master = master or conf.get("spark.master", "local[*]")
    if re.fullmatch(r"local(\[[^,]*\])?", master):
        # Spark's local mode repeats nothing unless it is told to.
        master = f"local[{parallel or '*'},{conf.get('spark.task.maxFailures', '4')}]"
    elif parallel:
        limit(conf, master, parallel)
    return SparkContext.getOrCreate(conf.setMaster(master))


def limit(conf, master, parallel):
    """At most `parallel` tasks at once: whole executors on YARN and Kubernetes, cores elsewhere."""
    if master.startswith(("yarn", "k8s")):
        cores = int(conf.get("spark.executor.cores", "1"))
        conf.set("spark.executor.instances", str(max(1, parallel // cores)))
        conf.set("spark.dynamicAllocation.maxExecutors", str(max(1, parallel // cores)))
    else:
        conf.set("spark.cores.max", str(parallel))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("submission", help="folder of bundles")
    parser.add_argument("--run", required=True, metavar="DIR", help="the run's folder")
    parser.add_argument("--shardrun", default="shardrun", metavar="PATH", help="the program on the workers")
    parser.add_argument("-j", type=int, default=0, metavar="N", help="tasks at once (0: all cores)")
    parser.add_argument("--master", metavar="URL", help="Spark master (default: spark-submit's, else local)")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="Spark configuration")
    args = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    program = shutil.which(args.shardrun) or args.shardrun
    context = None
    try:
        tasks, max_failures = read_bundles(args.submission)
        context = connect(args.master, args.j, args.settings)
        signal.signal(signal.SIGINT, interrupt)  # the context has set its own
        record = Record(program, args.run, tasks)
        try:
            run(context, tasks, program, record, max_failures)
        finally:
            record.close()
        return 0
    except Interrupted as number:
        return 128 + number.args[0]
    except (Trouble, OSError, ValueError) as err:
        print(f"shardrun_spark: {err}", file=sys.stderr)
        return 1
    finally:
        if context is not None:
            with contextlib.suppress(Exception):
                context.stop()


def interrupt(number, _frame):
    for other in (signal.SIGINT, signal.SIGTERM):
        signal.signal(other, signal.SIG_IGN)
    raise Interrupted(number)


if __name__ == "__main__":
    sys.exit(main())
