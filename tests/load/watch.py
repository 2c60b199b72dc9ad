"""Runs a pipe and samples the memory of its stages: it must not grow from the first half to the second."""

import pathlib
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field

EVERY = 0.2  # seconds
MB = 1 << 20
SLACK = 16 * MB  # what the second half may have over the first, beside a tenth


@dataclass
class Stage:
    """A command, and the most memory that it may have; None is not watched."""

    words: list
    limit: int = None
    rss: list = field(default_factory=list)
    sockets: list = field(default_factory=list)
    status: int = None

    @property
    def name(self):
        return pathlib.Path(str(self.words[0])).name

    @property
    def peaks(self):
        """The most memory of each half."""
        middle = len(self.rss) // 2
        return max(self.rss[:middle], default=0), max(self.rss[middle:], default=0)

    def problems(self):
        first, last = self.peaks
        if self.status:
            yield f"{self.name} ended with status {self.status}"
        if self.limit is None:
            return
        if len(self.rss) < 10:
            yield f"{self.name} was over before its memory could be seen"
        if last > first * 1.1 + SLACK:
            yield f"{self.name} grows: {first / MB:.0f} MB in the first half, {last / MB:.0f} MB in the second"
        if max(first, last) > self.limit:
            yield f"{self.name} took {max(first, last) / MB:.0f} MB, more than {self.limit / MB:.0f} MB"


def run(stages, cwd, count_sockets=None):
    """Runs the pipe to its end; returns the seconds it took. `count_sockets` is a stage whose connections are counted."""
    started, processes, stdin = time.monotonic(), [], subprocess.DEVNULL
    for stage in stages:
        last = stage is stages[-1]
        words = [str(word) for word in stage.words]
        process = subprocess.Popen(words, stdin=stdin, stdout=sys.stderr if last else subprocess.PIPE, cwd=cwd)
        if stdin is not subprocess.DEVNULL:
            stdin.close()
        stdin = process.stdout
        processes.append(process)
    try:
        while any(process.poll() is None for process in processes):
            for stage, process in zip(stages, processes):
                if process.returncode is None:
                    look(stage, process.pid, stage is count_sockets)
            time.sleep(EVERY)
    except BaseException:
        for process in processes:
            process.send_signal(signal.SIGTERM)
        raise
    for stage, process in zip(stages, processes):
        stage.status = process.returncode
    return time.monotonic() - started


def look(stage, pid, sockets):
    try:
        pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])
        if pages:
            stage.rss.append(pages * 4096)
        if sockets:
            links = pathlib.Path(f"/proc/{pid}/fd").iterdir()
            stage.sockets.append(sum(str(link.readlink()).startswith("socket:") for link in links))
    except OSError:
        pass  # it has just ended
