"""Runs pipelines: starts them, captures their stderr, and ends all of their processes."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import IO, Any, Callable

from ._error import Error
from ._program import environment

# Characters of stderr that are kept.
KEPT = 1 << 16
# Lines of stderr that an exception shows: the stages after the one that failed complain too, and come last.
SHOWN = 5
# Grace period after SIGTERM, in seconds.
GRACE = 10.0
# Seconds between two calls of `on_tick`.
TICK = 2.0


class Stderr:
    """Reads the stderr of processes in a thread, keeps the end of it, and passes it on to sys.stderr if asked to."""

    def __init__(self, pipe: IO[bytes], forward: bool) -> None:
        self.forward = forward
        self._text = ""
        lines = pipe if isinstance(pipe, io.BufferedReader) else io.BufferedReader(pipe)  # type: ignore[type-var]
        self._thread = threading.Thread(target=self._read, args=(lines,), daemon=True)
        self._thread.start()

    def _read(self, pipe: IO[bytes]) -> None:
        with pipe:
            for line in pipe:
                text = line.decode(errors="replace")
                self._text = (self._text + text)[-KEPT:]
                if self.forward:
                    with contextlib.suppress(Exception):  # whatever sys.stderr is, it must not block the pipeline
                        sys.stderr.write(text)

    def text(self) -> str:
        """Returns the captured text once the processes have ended. Waits only briefly for the end of the pipe, since a process
        that they left behind may hold it open."""
        self._thread.join(timeout=GRACE)
        return self._text


def start(command: list[str], *, env: Mapping[str, str] | None = None, **options: Any) -> subprocess.Popen[bytes]:
    """Starts a command in its own process group, so that `terminate` reaches everything it started."""
    try:
        return subprocess.Popen(command, env=dict(env or environment()), start_new_session=True, **options)
    except OSError as err:
        raise Error(f"{command[0]}: {err.strerror}") from err


def shell(pipeline: str) -> list[str]:
    """Returns the command that runs a pipeline and fails if any of its stages fails."""
    return ["bash", "-o", "pipefail", "-c", pipeline]


def terminate(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and everything it started, and waits for it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=GRACE)


def exit_status(process: subprocess.Popen[bytes]) -> int:
    """Returns the exit status of a process that has ended, as a shell reports it: 128+N for signal N."""
    code = process.wait()
    return code if code >= 0 else 128 - code


def failure(status: int, stderr: str, what: str) -> Error:
    """Makes the exception for a process that failed."""
    lines = stderr.strip().splitlines()
    return Error("\n".join(lines[-SHOWN:]) or f"{what}: exit status {status}", status=status, stderr=stderr)


@contextlib.contextmanager
def exit_on_signals() -> Iterator[None]:
    """Turns SIGTERM and SIGHUP into SystemExit, so that clean-up runs. Keeps handlers that the program has set, and does
    nothing in other threads than the main one, which cannot set handlers."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    ours = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def wait(process: subprocess.Popen[bytes], on_tick: Callable[[], object] = lambda: None) -> int:
    """Waits for a process, calling `on_tick` every 2 s, and returns its exit status. On an exception, ends the process first."""
    with exit_on_signals():
        try:
            while True:
                try:
                    process.wait(timeout=TICK)
                    return exit_status(process)
                except subprocess.TimeoutExpired:
                    on_tick()
        except BaseException:
            terminate(process)
            raise


def run(
    pipeline: str,
    *,
    check: bool = True,
    input: bytes | None = None,
    capture_output: bool = False,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run a shell pipeline with the tools on its PATH and wait for its end.

    The pipeline runs under ``bash -o pipefail``: it fails if any of its stages fails. Its stderr is passed on to
    ``sys.stderr`` as it comes.

    >>> done = run("tarcreate a.txt=pipe:'echo hello' | tarshow --fields txt", capture_output=True)  # doctest: +SKIP
    >>> run("printf 'b\\na\\n' | sort", capture_output=True).stdout
    b'a\\nb\\n'
    >>> run("exit 3", check=False).returncode
    3

    Args:
        pipeline: The pipeline, as typed in a shell.
        check: Raise `tarpipe.Error` if the pipeline fails. Otherwise look at ``returncode`` of the result.
        input: Bytes for stdin; without it, stdin is empty.
        capture_output: Return what the pipeline writes to stdout as ``stdout`` of the result, instead of passing it on.
        cwd: Folder to run in.
        env: Variables to set in addition to the current environment.

    Returns:
        A `subprocess.CompletedProcess`; ``stderr`` holds at least the last 64 KB.

    Raises:
        tarpipe.Error: The pipeline failed, or the tools are not installed.

    If the call is interrupted (Ctrl-C, SIGTERM), the whole pipeline is ended first.
    """
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL if input is None else subprocess.PIPE, "stderr": subprocess.PIPE}
    pipes["stdout"] = subprocess.PIPE if capture_output else None
    process = start(shell(pipeline), env=environment(env or {}), cwd=cwd, **pipes)
    stderr = Stderr(process.stderr, forward=True)  # type: ignore[arg-type]
    process.stderr = None  # belongs to the thread
    with exit_on_signals():
        try:
            output, _ = process.communicate(input)
        except BaseException:
            terminate(process)
            raise
    status = exit_status(process)
    if check and status != 0:
        raise failure(status, stderr.text(), "pipeline")
    return subprocess.CompletedProcess(pipeline, status, output, stderr.text().encode())
