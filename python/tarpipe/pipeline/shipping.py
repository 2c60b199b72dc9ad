"""Sends a program to the workers of Ray and Spark, and runs it there.

Everything goes by value: the nodes need Python and the modules that the user's functions import, but not tarpipe.
A worker process loads a program once and keeps it, with all that its sources hold open, for its further partitions.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import pickle
import sys
import sysconfig
import types
from typing import Any, Callable, List, Sequence, Tuple

from .partition import PipelineError
from .steps import Outcome, Program, encode, lost


def ship(program: Program, pickler: str) -> Tuple[str, bytes]:
    """Returns the identity of a program, and the program as bytes, by the engine's own cloudpickle."""
    cloudpickle = importlib.import_module(pickler)
    # Versions before 2.0 do not have it: there, tarpipe must be installed on the nodes.
    if hasattr(cloudpickle, "register_pickle_by_value"):
        cloudpickle.register_pickle_by_value(sys.modules[__package__])
    try:
        payload = pickle.dumps((import_paths(), cloudpickle.dumps(program)))
    except Exception as error:
        raise PipelineError(
            f"a step cannot be sent to other machines: {type(error).__name__}: {error}; "
            "open files, connections and locks in the step itself, not outside of it"
        ) from error
    return hashlib.sha256(payload).hexdigest(), payload


def import_paths() -> List[str]:
    """Returns where this program imports modules from, apart from the standard library.

    Workers add those that exist there: on a shared file system, the user's own modules are found.
    """
    standard = sysconfig.get_path("stdlib")
    own = {standard, sysconfig.get_path("platstdlib"), os.path.join(standard, "lib-dynload")}
    paths = [os.path.abspath(path) for path in sys.path]
    return [path for path in paths if path not in own]


def work(pickler: str, identity: str, payload: bytes, items: Sequence[Any], is_retry: bool = False) -> bytes:
    """Runs in a worker: handles the items of a partition, and returns the outcomes as bytes.

    In a retry, each item runs in a process of its own: an item that kills its process is found out, and costs no other.
    """
    cloudpickle = importlib.import_module(pickler)
    # A module that exists only here survives from partition to partition, which globals sent by value do not.
    keeper: Any = sys.modules.setdefault("_tarpipe_pipeline", types.ModuleType("_tarpipe_pipeline"))
    if getattr(keeper, "identity", None) != identity:
        if hasattr(keeper, "program"):
            keeper.program.close()
        keeper.program = load(payload)
        keeper.identity = identity
    run: Callable[[Any], Outcome] = keeper.program.run
    if is_retry:
        outcomes = [run_apart(run, item, cloudpickle) for item in items]
    else:
        outcomes = [run(item) for item in items]
    return encode(outcomes, cloudpickle.dumps)


def load(payload: bytes) -> Program:
    """Makes the program from its bytes; first the import paths, since the program may need them."""
    paths, program = pickle.loads(payload)
    sys.path.extend(path for path in paths if path not in sys.path and os.path.exists(path))
    return pickle.loads(program)


def run_apart(run: Callable[[Any], Outcome], item: Any, cloudpickle: Any) -> Outcome:
    """Handles one item in a forked process; if it dies, the record has an error under the label "worker"."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            with os.fdopen(writing, "wb") as output:
                output.write(encode([run(item)], cloudpickle.dumps))
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        data = answer.read()
    _, status = os.waitpid(child, 0)
    if status == 0:
        return pickle.loads(data)[0]
    return lost(item, f"the worker process {ending(status)}")


def ending(status: int) -> str:
    """Describes how a process ended, by its wait status."""
    if os.WIFSIGNALED(status):
        return f"was killed by signal {os.WTERMSIG(status)}"
    return f"ended with exit status {os.WEXITSTATUS(status)}"
