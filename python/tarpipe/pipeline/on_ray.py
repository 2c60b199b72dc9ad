"""Runs a program on a Ray cluster: one task per partition, in a window that moves over the items."""

from __future__ import annotations

import logging
import os
import sys
from collections import deque
from typing import Any, Deque, Dict, Iterator, List, Optional, Sequence, Tuple

from .allocation import cluster_of_allocation
from .partition import STREAM_PARTITION, PipelineError, batches, partitions, report
from .shipping import ship, work
from .steps import Outcome, Program, lost

PICKLER = "ray.cloudpickle"
#: Partitions per CPU: enough that a slow one, or a lost node, costs little.
PARTITIONS_PER_CPU = 32
#: Tasks in flight per CPU in a stream: enough that no CPU waits for the next one.
TASKS_PER_CPU = 4
#: Tasks in flight otherwise, so that a slow item at the front holds up nothing.
MOST_TASKS = 10000


def connect(options: Dict[str, Any]) -> Any:
    """Returns the module ray, connected to the cluster of the allocation, which is started if there is none yet."""
    loaded = sys.modules.get("ray")
    is_connected = loaded is not None and loaded.is_initialized()
    if is_connected and options:
        raise PipelineError(f"Ray is connected already: cannot apply {', '.join(sorted(options))}")
    options = {"logging_level": logging.ERROR, **options}
    address = options.pop("address", None) or os.environ.get("RAY_ADDRESS")
    if not address and not is_connected:
        # Before the import: Ray reads the variables with its token only then.
        address = cluster_of_allocation("ray", disconnect)
    try:
        import ray
    except ImportError as error:
        raise PipelineError("compute_ray needs Ray: pip install ray") from error
    if is_connected:
        return ray
    address = address or "auto"
    try:
        ray.init(address=address, **options)
    except Exception as error:
        if address != "auto":
            raise PipelineError(f"cannot connect to the Ray cluster at {address}: {error}") from error
        raise PipelineError(
            "no Ray cluster found: set RAY_ADDRESS, start one with slurm-cluster or ssh-cluster, "
            "or call compute_ray(address='local') to use this machine alone"
        ) from error
    return ray


def disconnect() -> None:
    """Ends the connection of this program."""
    import ray

    ray.shutdown()


class RayRun:
    """One run: the program in the object store, and the options of its tasks."""

    def __init__(self, ray: Any, program: Program, retries: int, memory_per_item: Optional[int]) -> None:
        self.ray, self.retries, self.memory = ray, retries, memory_per_item
        self.identity, payload = ship(program, PICKLER)
        self.payload = ray.put(payload)
        self.task = ray.remote(work)

    def start(self, items: Sequence[Any]) -> Any:
        """Starts the task of a partition. Ray repeats it on another worker if its worker or node dies."""
        options: Dict[str, Any] = {"max_retries": self.retries, "name": "tarpipe.pipeline"}
        if self.memory is not None:
            options["memory"] = self.memory * len(items)
        return self.task.options(**options).remote(PICKLER, self.identity, self.payload, list(items))

    def outcomes(self, reference: Any, items: Sequence[Any]) -> List[Outcome]:
        """Waits for a task. If its worker died in every attempt, each item gets a task of its own."""
        errors = self.ray.exceptions
        try:
            return self._decoded(reference)
        except errors.RayTaskError as error:
            raise PipelineError(f"a worker cannot run the steps: {str(error).strip().splitlines()[-1]}") from error
        except errors.TaskCancelledError:
            raise
        except errors.RayError as error:
            if len(items) == 1:
                return [lost(items[0], f"the Ray worker died: {str(error).strip().splitlines()[0]}")]
        apart = [(self.start([item]), [item]) for item in items]
        return [outcome for reference, item in apart for outcome in self.outcomes(reference, item)]

    def _decoded(self, reference: Any) -> List[Outcome]:
        from ray import cloudpickle

        return cloudpickle.loads(self.ray.get(reference))

    def window(self, parts: Sequence[Sequence[Any]], limit: int) -> Iterator[Outcome]:
        """Yields the outcomes of partitions in order, with at most `limit` tasks started and not yet yielded."""
        coming = iter(parts)
        flying: Deque[Tuple[Any, Sequence[Any]]] = deque()
        try:
            while True:
                for part in coming:
                    flying.append((self.start(part), part))
                    if len(flying) >= limit:
                        break
                if not flying:
                    return
                reference, part = flying[0]
                outcomes = self.outcomes(reference, part)
                flying.popleft()
                del reference  # Ray may free the result
                yield from outcomes
        finally:
            for reference, _ in flying:
                self.ray.cancel(reference, force=True)


def on_ray(
    program: Program,
    items: Sequence[Any],
    numparts: Optional[int],
    batch_size: Optional[int],
    verbose: bool,
    retries: int,
    memory_per_shot: Optional[int],
    is_stream: bool,
    options: Dict[str, Any],
) -> Iterator[Outcome]:
    """Handles the items on Ray; yields the outcomes in the order of the items."""
    ray = connect(options)
    cpus = int(ray.cluster_resources().get("CPU", 0))
    if cpus == 0:
        raise PipelineError("the Ray cluster has no CPUs")
    run = RayRun(ray, program, retries, memory_per_shot)
    largest, limit = (STREAM_PARTITION, cpus * TASKS_PER_CPU) if is_stream else (1000, MOST_TASKS)
    every = list(batches(items, batch_size))
    for number, batch in enumerate(every, 1):
        parts = partitions(batch, numparts, cpus * PARTITIONS_PER_CPU, largest)
        if verbose:
            report(number, len(every), cpus, parts)
        yield from run.window(parts, limit)
