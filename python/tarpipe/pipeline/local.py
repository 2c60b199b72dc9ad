"""Runs a program on this machine: in this process, or in worker processes that stay."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import selectors
import signal
import sys
import time
from collections import deque
from typing import Any, Deque, Dict, Iterator, List, Optional, Sequence, Tuple, Union

from .partition import PipelineError
from .steps import Outcome, Program, encode, lost

#: The work of one message to a worker should take about this long, so that sending it costs nothing beside it.
TARGET_SECONDS = 0.05
LARGEST_MESSAGE = 256
#: How often to look for workers that died without closing their pipe.
HEARTBEAT_SECONDS = 1.0
#: How long a worker may take to release what its sources hold.
CLOSE_SECONDS = 10.0

Job = Tuple[int, Any]


def serial(program: Program, items: Sequence[Any]) -> Iterator[Outcome]:
    """Handles the items one by one, in this process."""
    try:
        for item in items:
            yield program.run(item)
    finally:
        program.close()


def processes(
    program: Program,
    items: Sequence[Any],
    workers: Optional[int],
    size: Union[int, str],
    window: int,
    memory: Optional[int],
) -> Iterator[Outcome]:
    """Handles the items in worker processes; yields the outcomes in the order of the items.

    Workers run ahead by at most `window` items, and pause while the outcomes that wait are larger than `memory` bytes.
    If a worker dies, the record of the item it was processing gets an error.
    """
    count = workers if workers is not None else available_cpus()
    if count < 1:
        raise ValueError(f"num_workers must be at least 1, not {count}")
    if size != "auto" and (not isinstance(size, int) or size < 1):
        raise ValueError(f"batch_size must be 'auto' or at least 1, not {size!r}")
    if window < 1:
        raise ValueError(f"window must be at least 1, not {window}")
    count = min(count, max(len(items), 1))
    return Pool(program, items, count, None if size == "auto" else int(size), window, memory).run()


def available_cpus() -> int:
    """Returns how many CPUs this process may use, which in a Slurm job can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Worker:
    """A worker process, seen from this one."""

    def __init__(self, context: Any, program: Program, others: List[Worker]) -> None:
        self.pipe, theirs = context.Pipe()
        inherited = [other.pipe for other in others] + [self.pipe] if context.get_start_method() == "fork" else []
        self.process = context.Process(target=serve, args=(program, theirs, inherited), daemon=True)
        try:
            self.process.start()
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise PipelineError(
                f"a step cannot be sent to a worker process: {error}; define functions at the top of a module"
            ) from error
        theirs.close()  # so that the end of the worker is the end of the pipe
        self.jobs: Deque[Job] = deque()
        self.size = 1
        self.sent_at = 0.0
        self.sent = 0

    def send(self, jobs: List[Job]) -> None:
        """Gives an idle worker jobs. It reads, so this cannot block for long."""
        self.jobs.extend(jobs)
        self.sent, self.sent_at = len(jobs), time.monotonic()
        try:
            self.pipe.send([item for _, item in jobs])
        except OSError:
            pass  # it died: the end of the pipe says so, and its jobs are dealt with there

    def adapt(self) -> None:
        """Doubles or halves the size of the next message, by the time that the last one took."""
        seconds = time.monotonic() - self.sent_at
        if seconds < TARGET_SECONDS and self.sent == self.size:
            self.size = min(self.size * 2, LARGEST_MESSAGE)
        elif seconds > 2 * TARGET_SECONDS:
            self.size = max(self.size // 2, 1)

    def ending(self) -> str:
        """Waits for a worker whose pipe has ended, and describes how it ended."""
        self.pipe.close()
        self.process.join(CLOSE_SECONDS)
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()
        code = self.process.exitcode
        if code < 0:
            hint = "; the machine may be out of memory" if -code == getattr(signal, "SIGKILL", 9) else ""
            return f"the worker process was killed by signal {-code}{hint}"
        return f"the worker process ended with exit status {code}"


class Pool:
    """Worker processes, the jobs they have, and the outcomes that wait for an earlier one."""

    def __init__(
        self,
        program: Program,
        items: Sequence[Any],
        count: int,
        size: Optional[int],
        window: int,
        memory: Optional[int],
    ) -> None:
        can_fork = "fork" in multiprocessing.get_all_start_methods() and sys.platform != "darwin"
        self.context = multiprocessing.get_context("fork" if can_fork else "spawn")
        self.program, self.count, self.size = program, count, size
        self.window, self.memory = window, memory
        self.total = len(items)
        self.coming: Iterator[Job] = iter(enumerate(items))
        self.again: Deque[Job] = deque()  # jobs behind one that killed its worker
        self.started = self.yielded = 0
        self.waiting: Dict[int, bytes] = {}  # encoded: their size is known, and they take less memory
        self.waiting_bytes = 0
        self.workers: List[Worker] = []
        self.selector = selectors.DefaultSelector()

    def run(self) -> Iterator[Outcome]:
        """Yields the outcomes in order."""
        try:
            while self.yielded < self.total:
                self._assign()
                self._receive()
                while self.yielded in self.waiting:
                    data = self.waiting.pop(self.yielded)
                    self.waiting_bytes -= len(data)
                    self.yielded += 1
                    yield pickle.loads(data)[0]
            self._finish()
        finally:
            self._terminate()

    def _assign(self) -> None:
        while len(self.workers) < min(self.count, self.total - self.yielded):
            worker = Worker(self.context, self.program, self.workers)
            self.workers.append(worker)
            self.selector.register(worker.pipe, selectors.EVENT_READ, worker)
        for worker in self.workers:
            if not worker.jobs:
                jobs = self._next_jobs(self.size or worker.size)
                if jobs:
                    worker.send(jobs)

    def _next_jobs(self, size: int) -> List[Job]:
        # Towards the end, messages get smaller, so that all workers end at about the same time.
        left = self.total - self.started
        size = size if self.size else max(min(size, left // (2 * self.count)), 1)
        jobs: List[Job] = []
        while len(jobs) < size and self.again:
            jobs.append(self.again.popleft())
        # The outcome that the others wait for has a worker, or is among those again: holding back is safe.
        is_full = self.memory is not None and self.waiting_bytes > self.memory
        end = self.started if is_full else min(self.total, self.yielded + self.window)
        while len(jobs) < size and self.started < end:
            jobs.append(next(self.coming))
            self.started += 1
        return jobs

    def _receive(self) -> None:
        ready = self.selector.select(HEARTBEAT_SECONDS)
        for key, _ in ready:
            worker = key.data
            try:
                data = worker.pipe.recv_bytes()
            except (EOFError, OSError):
                self._bury(worker)
                continue
            index, _ = worker.jobs.popleft()
            self._hold(index, data)
            if not worker.jobs:
                worker.adapt()
        if not ready:
            # A process that the user's code left behind may hold the pipe open.
            for worker in [worker for worker in self.workers if not worker.process.is_alive()]:
                if not worker.pipe.poll():
                    self._bury(worker)

    def _hold(self, index: int, data: bytes) -> None:
        self.waiting[index] = data
        self.waiting_bytes += len(data)

    def _bury(self, worker: Worker) -> None:
        """Blames the death of a worker on the job it was at, and keeps the others for later."""
        self.selector.unregister(worker.pipe)
        self.workers.remove(worker)
        why = worker.ending()
        if worker.jobs:
            index, item = worker.jobs.popleft()
            self._hold(index, pickle.dumps([lost(item, why)]))
            self.again.extend(worker.jobs)

    def _finish(self) -> None:
        for worker in self.workers:
            worker.send([])
        deadline = time.monotonic() + CLOSE_SECONDS
        for worker in self.workers:
            worker.process.join(max(deadline - time.monotonic(), 0))

    def _terminate(self) -> None:
        for worker in self.workers:
            worker.pipe.close()
            if worker.process.is_alive():
                worker.process.kill()
            worker.process.join()
        self.selector.close()


def serve(program: Program, pipe: Any, inherited: List[Any]) -> None:
    """Runs in a worker process: answers every item of a message with its outcome; an empty message is the end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that has the terminal
    for other in inherited:  # else a worker would not see the end of the main process
        other.close()
    try:
        while True:
            items = pipe.recv()
            if not items:
                break
            for item in items:
                pipe.send_bytes(encode([program.run(item)], pickle.dumps))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the main process has ended, or nobody wants the rest
    program.close()
