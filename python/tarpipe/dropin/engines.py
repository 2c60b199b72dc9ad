"""Shards on a Spark or Ray that the calling program is connected to.

Each shard is a task, whose pipeline runs on a worker. Workers need bash and a view of the tables and the output folder, but
neither this package nor the tools: the executable is sent along where it is not in the same place.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any, Callable

from .._error import NotInstalled
from .._process import TICK
from .._program import find_program

# Number and pipeline of a shard.
Task = tuple[int, str]
# Number of a shard, exit status of its pipeline, and what it wrote to stderr.
Result = tuple[int, int, str]
Runner = Callable[[list[Task], Callable[[], None]], Iterator[Result]]

# Attempts that Ray makes after the death of a worker or a node; Spark has spark.task.maxFailures.
RAY_RETRIES = 3
# Ends the pipeline, the argument, with the process that started it, however that ends: its end of the pipe to stdin closes.
GUARDED = """
exec 3<&0 </dev/null
{ read -r -u 3; kill -TERM 0; } 2>/dev/null & guard=$!
exec 3<&-
(set -o pipefail; eval "$1"); status=$?
kill "$guard"
exit "$status"
"""


def active_engine(distributor: str, cores: int) -> Runner | None:
    """What runs tasks on the engine that this program uses already; None if it uses none."""
    if distributor == "pyspark":
        context = spark_context()
        return None if context is None else lambda tasks, on_tick: run_on_spark(context, tasks, on_tick)
    if distributor == "ray":
        ray = sys.modules.get("ray")
        if ray is not None and ray.is_initialized():
            return lambda tasks, on_tick: run_on_ray(ray, tasks, cores, on_tick)
    return None


def spark_context() -> Any:
    """The SparkContext of the active session, which has imported pyspark. Spark Connect has none."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    try:
        return None if session is None else session.sparkContext
    except Exception:
        return None


def run_on_spark(context: Any, tasks: list[Task], on_tick: Callable[[], None]) -> Iterator[Result]:
    """One job, with a Spark task for each shard."""
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

    # In a thread of its own: the one that waits for a job cannot cancel it.
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
    """A remote function for each shard."""
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
    """The executable, and a name for its content."""
    program = find_program()
    if program is None:
        raise NotInstalled("tarpipe not found: install the tools, build them (cargo build --release), or put them on the PATH")
    with open(program, "rb") as file:
        return os.path.realpath(program), hashlib.sha256(file.read()).hexdigest()[:16]


def first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def make_worker(program: str, digest: str) -> Callable[[Task, Callable[[str], None]], Result]:
    """The function that workers run. It is defined in here, with all that it needs: engines send such a function by value.
    `load` puts the executable where there is none."""
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
        """The folder of the tools on this machine: that of the driver if it is here too, else one of our own."""
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
        """Under another name first: only a complete folder has this one."""
        new = tempfile.mkdtemp(prefix="tarpipe-")
        executable = os.path.join(new, "tarpipe")
        try:
            load(executable)
            os.chmod(executable, 0o700)
            subprocess.run([executable, "link", new], check=True, stdout=subprocess.DEVNULL)
            os.rename(new, folder)
        except OSError:
            shutil.rmtree(new, ignore_errors=True)
            if not os.path.isdir(folder):  # or another task was quicker
                raise

    return run
