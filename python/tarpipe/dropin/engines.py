"""Makes shards on the Spark or Ray cluster that the calling program is connected to.

Each shard is one task, whose pipeline runs on a worker. Workers need bash and access to the tables and the output folder, but
neither this package nor the tools: the executable is sent to workers that do not have it.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any, Callable

from .._error import NotInstalled, UsageError
from .._process import TICK
from .._program import find_program, search_path

# Shard number and pipeline.
Task = tuple[int, str]
# Shard number, exit status of the pipeline, and its stderr.
Result = tuple[int, int, str]
Runner = Callable[[list[Task], Callable[[], None]], Iterator[Result]]

# Ray's retries after the death of a worker or a node; for Spark, spark.task.maxFailures applies.
RAY_RETRIES = 3
# Runs the pipeline given as argument and ends it together with its parent process, whose death closes the pipe to stdin.
GUARDED = """
exec 3<&0 </dev/null
{ read -r -u 3; kill -TERM 0; } 2>/dev/null & guard=$!
exec 3<&-
(set -o pipefail; eval "$1"); status=$?
kill "$guard"
exit "$status"
"""


def active_engine(distributor: str, cores: int) -> Runner | None:
    """Returns a runner for the engine that this program is connected to; None if there is none."""
    if distributor == "pyspark":
        context = spark_context()
        return None if context is None else lambda tasks, on_tick: run_on_spark(context, tasks, on_tick)
    if distributor == "ray":
        ray = sys.modules.get("ray")
        if ray is not None and ray.is_initialized():
            return lambda tasks, on_tick: run_on_ray(ray, tasks, cores, on_tick)
    return None


def spark_context() -> Any:
    """The SparkContext of the active session, or the one that is active without a session; None if there is none."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is not None:
        try:
            return session.sparkContext
        except Exception as error:
            raise UsageError("--distributor: the active SparkSession is one of Spark Connect, which runs no pipelines: use a classic one") from error
    from pyspark import SparkContext

    return SparkContext._active_spark_context


def launch_words(distributor: str, flags: dict[str, Any]) -> list[str]:
    """The flags of shardrun that say where the engine is. What cannot be passed on is refused."""
    given = {name: flags.get(name) for name in ("master", "launcher", "conf") if flags.get(name)}
    if distributor != "pyspark":
        if given:
            raise UsageError(f"--{next(iter(given))}: only for --distributor pyspark")
        return []
    words = ["--launcher", given.get("launcher") or spark_launcher()]
    master = given.get("master") or os.environ.get("SPARK_MASTER")
    words += ["--master", master] if master else []
    for setting in given.get("conf", []):
        if "=" not in setting:
            raise UsageError(f"--conf: '{setting}' is not NAME=VALUE")
        words += [f"--engine-arg={setting}"]
    return [*words, f"--engine-arg=--local-cores={flags['processes_count']}"]


def spark_launcher() -> str:
    """This Python, or spark-submit of an installation of Spark if this Python has no pyspark."""
    submit = shutil.which("spark-submit", path=search_path())
    if submit and importlib.util.find_spec("pyspark") is None:
        return shlex.quote(submit)
    return shlex.quote(sys.executable or "python3")


def run_on_spark(context: Any, tasks: list[Task], on_tick: Callable[[], None]) -> Iterator[Result]:
    """Runs one Spark job with one task per shard."""
    program, digest = our_program()
    context.addFile(program)
    run, group = make_worker(program, digest), f"tarpipe-{os.getpid()}"

    def work(task: Task) -> Result:
        from pyspark import SparkFiles

        def load(path: str) -> None:
            shutil.copyfile(SparkFiles.get(os.path.basename(program)), path)

        return run(task, load)

    def job() -> list[Result]:
        context.setJobGroup(group, "tarpipe", interruptOnCancel=True)
        return context.parallelize(tasks, len(tasks)).map(work).collect()

    # In its own thread, because the thread that waits for a job cannot cancel it.
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        future = thread.submit(job)
        try:
            while not future.done():
                concurrent.futures.wait([future], timeout=TICK)
                on_tick()
        except BaseException:
            context.cancelJobGroup(group)
            raise
    error = future.exception()
    if error is None:
        yield from future.result()
    else:
        yield -1, 1, first_line(error)


def run_on_ray(ray: Any, tasks: list[Task], cores: int, on_tick: Callable[[], None]) -> Iterator[Result]:
    """Runs one remote function per shard."""
    program, digest = our_program()
    run = make_worker(program, digest)
    with open(program, "rb") as file:
        content = ray.put(file.read())

    def work(task: Task, content: Any) -> Result:
        def load(path: str) -> None:
            import ray

            with open(path, "wb") as out:
                out.write(ray.get(content[0]))

        return run(task, load)

    remote = ray.remote(work).options(num_cpus=cores, max_retries=RAY_RETRIES, scheduling_strategy="SPREAD")
    # In a list, so that only the nodes that need it fetch it.
    running = [remote.remote(task, [content]) for task in tasks]
    try:
        while running:
            ended, running = ray.wait(running, timeout=TICK)
            for reference in ended:
                try:
                    yield ray.get(reference)
                except ray.exceptions.RayError as error:
                    yield -1, 1, first_line(error)
            on_tick()
    except BaseException:
        for reference in running:
            ray.cancel(reference)
        raise


def our_program() -> tuple[str, str]:
    """Returns the executable and a name derived from its content."""
    program = find_program()
    if program is None:
        raise NotInstalled("tarpipe not found: install the tools, build them (cargo build --release), or put them on the PATH")
    with open(program, "rb") as file:
        return os.path.realpath(program), hashlib.sha256(file.read()).hexdigest()[:16]


def first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def make_worker(program: str, digest: str) -> Callable[[Task, Callable[[str], None]], Result]:
    """Returns the function that workers run. It is nested and imports what it needs, so that engines send it by value.
    `load` stores the executable on a worker that does not have it."""
    guarded, size = GUARDED, os.path.getsize(program)

    def run(task: Task, load: Callable[[str], None]) -> Result:
        number, pipeline = task
        env = {**os.environ, "PATH": tools(load) + os.pathsep + os.environ.get("PATH", os.defpath)}
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        command = ["bash", "-c", guarded, "tarpipe", pipeline]
        with subprocess.Popen(command, env=env, start_new_session=True, **pipes) as process:
            stderr = process.stderr.read()  # type: ignore[union-attr]
            status = process.wait()
        return number, status, stderr[-10_000:].decode(errors="replace")

    def tools(load: Callable[[str], None]) -> str:
        """Returns the folder of the tools on this machine: the driver's if it exists here, else a temporary one."""
        is_here = os.path.isfile(program) and os.path.getsize(program) == size and os.access(program, os.X_OK)
        if is_here and os.path.exists(os.path.join(os.path.dirname(program), "urlcat")):
            return os.path.dirname(program)
        folder = os.path.join(tempfile.gettempdir(), f"tarpipe-{os.getuid()}-{digest}")
        if not os.path.isdir(folder):
            make_folder(folder, load if not is_here else lambda path: os.symlink(program, path))
        status = os.lstat(folder)
        if status.st_uid != os.getuid() or status.st_mode & 0o022:
            raise PermissionError(f"{folder} can be written by others")
        return folder

    def make_folder(folder: str, load: Callable[[str], None]) -> None:
        """Creates it under a temporary name first, so that the final name always has a complete folder."""
        new = tempfile.mkdtemp(prefix="tarpipe-")
        executable = os.path.join(new, "tarpipe")
        try:
            load(executable)
            os.chmod(executable, 0o700)
            subprocess.run([executable, "link", new], check=True, stdout=subprocess.DEVNULL)
            os.rename(new, folder)
        except OSError:
            shutil.rmtree(new, ignore_errors=True)
            if not os.path.isdir(folder):  # or another task was faster
                raise

    return run
