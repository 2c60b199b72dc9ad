#!/usr/bin/env python3
"""Runs the tasks of a shardrun submission on Ray: a remote function each, as many at once as there is room for.

    shardrun --on ray … calls it; by hand: python3 shardrun_ray.py SUBMISSION --run DIR --shardrun PATH
    as a Ray job: ray job submit -- python3 shardrun_ray.py …

Every task is handed to `shardrun item -` on a worker; its result lines go to `shardrun record DIR` as they arrive.
A task that could not work, or whose worker or node died, is repeated by Ray; when Ray gives up on it, its items
are recorded as lost and the others go on. Works with `ray start` clusters, Ray Jobs, ray:// and in a program that has
called ray.init: run(tasks, …). Needs ray alone. The cluster is left as it was.
"""

import argparse
import collections
import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

Task = collections.namedtuple("Task", "stdin items")  # what `shardrun item -` reads; the numbers of its items
RETRIES = 3  # by Ray, after the first attempt


class Interrupted(BaseException):
    """INT or TERM; its argument is the number."""


class Trouble(Exception):
    """The engine, or a worker, could not work."""


# On a worker.


def work(task, program):
    """Result lines of a task; raises, so that the engine repeats it, when the worker could not work."""
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
    raise Trouble(trouble, lines)


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


def run(tasks, program, record, parallel=0, max_failures=None, options=None):
    """Runs tasks on the Ray that is connected; `record` takes their lines. Ends early after too many failures."""
    import ray

    settings = {"num_cpus": 1, "scheduling_strategy": "SPREAD", "max_retries": RETRIES, "retry_exceptions": [Trouble]}
    remote = ray.remote(work).options(**{**settings, **(options or {})})
    program_ref = ray.put(program)
    waiting, running = iter(tasks), {}
    try:
        while True:
            # Beyond what can run at once only enough to keep it busy: Ray holds all that is submitted in memory.
            room = (parallel or 2 * int(ray.cluster_resources().get("CPU", 1)) + 16) - len(running)
            if max_failures is None or record.failed <= max_failures:
                running.update((remote.remote(task, program_ref), task) for task in itertools.islice(waiting, room))
            if not running:
                return
            ready, _ = ray.wait(list(running), num_returns=1)
            ready, _ = (
                ray.wait(list(running), num_returns=len(running), timeout=0) if len(running) > 1 else (ready, None)
            )
            for reference in ready:
                for line in lines_of(ray, reference, running.pop(reference)):
                    record.line(line)
    except Interrupted:
        for reference in running:
            ray.cancel(reference, recursive=False)
        ray.wait(list(running), num_returns=len(running), timeout=10)
        raise


def lines_of(ray, reference, task):
    """The result lines of a task that has ended, one way or the other."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as err:
        trouble, lines = err.cause.args if isinstance(err.cause, Trouble) else (str(err.cause), [])
        return lines + lost(task, trouble, lines)
    except ray.exceptions.RayError as err:  # its worker or its node died, and again
        return lost(task, f"{type(err).__name__}: {str(err).strip().splitlines()[0]}")


def connect(address):
    """Whether the connection is ours: a program may have one already."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        print(
            f"shardrun_ray: {sys.executable} has no ray: pip install ray, or --launcher with a Python that has it",
            file=sys.stderr,
        )
        sys.exit(4)
    if ray.is_initialized():
        return False
    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    return True


def option(word):
    """NAME=VALUE, the value as JSON: num_cpus=2, resources={"disk": 1}; other texts as they are."""
    name, _, value = word.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("submission", help="folder of bundles")
    parser.add_argument("--run", required=True, metavar="DIR", help="the run's folder")
    parser.add_argument("--shardrun", default="shardrun", metavar="PATH", help="the program on the workers")
    parser.add_argument("-j", type=int, default=0, metavar="N", help="tasks at once (0: all that have room)")
    parser.add_argument("--address", metavar="ADDRESS", help="of the cluster (default: RAY_ADDRESS, else a local Ray)")
    parser.add_argument("options", nargs="*", type=option, metavar="NAME=VALUE", help="options of the remote function")
    args = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    program = shutil.which(args.shardrun) or args.shardrun
    ours = False
    try:
        tasks, max_failures = read_bundles(args.submission)
        ours = connect(args.address)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, interrupt)  # ray.init has set its own
        record = Record(program, args.run, tasks)
        try:
            run(tasks, program, record, args.j, max_failures, dict(args.options))
        finally:
            record.close()
        return 0
    except Interrupted as number:
        return 128 + number.args[0]
    except (Trouble, OSError, ValueError, RuntimeError) as err:
        print(f"shardrun_ray: {str(err).strip().splitlines()[0]}", file=sys.stderr)
        return 1
    finally:
        if ours:
            import ray

            ray.shutdown()


def interrupt(number, _frame):
    for other in (signal.SIGINT, signal.SIGTERM):
        signal.signal(other, signal.SIG_IGN)
    raise Interrupted(number)


if __name__ == "__main__":
    sys.exit(main())
