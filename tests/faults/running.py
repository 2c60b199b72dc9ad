"""Starts the stages of a pipeline, waits for their end, and finds what outlives them."""

import os
import signal
import subprocess
import time
from dataclasses import dataclass, field

PATIENCE = 90  # seconds after which a run hangs


@dataclass
class Ended:
    """How a run ended."""

    stages: list  # (tool, exit status as a shell has it)
    said: dict  # tool: stderr
    seconds: float
    hung: list = field(default_factory=list)

    @property
    def status(self):
        """As `set -o pipefail` gives it."""
        return next((status for _, status in reversed(self.stages) if status), 0)


def run(stages, env, prefix, errors, patience=PATIENCE):
    """Runs stages as a shell runs a pipe: all in one process group, each joined to the next."""
    started = time.monotonic()
    processes, group, stdin = [], 0, subprocess.DEVNULL
    for number, words in enumerate(stages):
        last = number == len(stages) - 1
        with open(errors / f"{number}-{words[0]}", "wb") as stderr:
            process = subprocess.Popen(
                [*prefix, *map(str, words)],
                stdin=stdin,
                stdout=subprocess.DEVNULL if last else subprocess.PIPE,
                stderr=stderr,
                env=env,
                process_group=group,
                cwd=errors.parent,
            )
        if stdin is not subprocess.DEVNULL:
            stdin.close()
        group = group or process.pid
        stdin = process.stdout
        processes.append(process)
    hung = wait(processes, started + patience)
    ended = [(words[0], shell_status(process)) for words, process in zip(stages, processes)]
    texts = {path.name.split("-")[1]: path.read_text(errors="replace") for path in sorted(errors.iterdir())}
    names = [words[0] for number, words in enumerate(stages) if number in hung]
    return Ended(ended, texts, time.monotonic() - started, names)


def wait(processes, deadline):
    """Waits for all; what is not over in time is killed, and its numbers returned."""
    hung = []
    for number, process in enumerate(processes):
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            hung.append(number)
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.wait()
    return hung


def shell_status(process):
    code = process.returncode
    return 128 - code if code < 0 else code


def survivors(token):
    """Processes that were started for a run: they have its token in their environment."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as environ:
                if token.encode() in environ.read():
                    with open(f"/proc/{name}/comm") as comm:
                        found.append((int(name), comm.read().strip()))
        except OSError:
            pass  # gone, or not ours
    return found


def end_survivors(token, seconds):
    """Lets them end by themselves; the names of those that had to be killed."""
    deadline = time.monotonic() + seconds
    while (left := survivors(token)) and time.monotonic() < deadline:
        time.sleep(0.02)
    for pid, _ in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return [name for _, name in left]
