"""`tarpipe.samples`: an iterator over the samples of shards or of a pipeline."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from . import _tar
from ._error import Error
from ._names import expand_globs, local_files
from ._process import Stderr, exit_status, failure, shell, start, terminate
from ._program import environment, tool

# With more names than this, the names are passed in a file.
MAX_ARGUMENTS = 1000
PIPE_SIZE = 1 << 20
F_SETPIPE_SZ = 1031  # fcntl has it from Python 3.10 on
SIGPIPE_STATUS = 128 + 13
# Seconds to wait for a stage when the stage after it has failed: it may be the cause.
PATIENCE = 10.0


def samples(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    *,
    pipeline: str | None = None,
    partition: tuple[int, int] | None = None,
    fields: str | Sequence[str] | None = None,
    shuffle: int = 0,
    seed: int = 0,
) -> Iterator[dict[str, Any]]:
    """Iterate over the samples of shards, or of the stream that a pipeline writes.

    A sample is a dictionary: ``"__key__"`` is its key as a string; every other item is a field as bytes.

    >>> for sample in samples("train-{000..001}.tar"):
    ...     print(sample["__key__"], sample["cls"], len(sample["jpg"]))
    a b'1' 3
    b b'2' 5
    >>> first = next(samples(pipeline="tarcat train-000.tar | tarproc --each cls -c 'tr 1 7' -o -"))
    >>> first["cls"]
    b'7'

    As a PyTorch dataset, in four lines; each worker of a DataLoader reads its own shards::

        class Shards(torch.utils.data.IterableDataset):
            def __iter__(self):
                worker = torch.utils.data.get_worker_info()
                return tarpipe.samples("train-{000..147}.tar", partition=worker and (worker.id, worker.num_workers))

    Args:
        source: One name or a list of names: paths, globs, ranges such as ``{000..147}`` and lists such as ``{a,b}``,
            ``s3://``, ``gs://``, ``az://``, ``hf://``, ``http(s)://`` and ``pipe:COMMAND``, plain or compressed.
        pipeline: A shell pipeline that writes a stream of samples to stdout, instead of `source`. It can only be given by
            keyword, so that a file name is never run as a command.
        partition: ``(rank, world)``: read only part `rank` of `world`, counted from 0. It is every world-th shard, or
            every world-th sample if there is a single shard. A pipeline must contain ``--shard env`` in its first tool
            (or use ``$TARPIPE_SHARD``, which is set to ``rank/world``).
        fields: Only these fields, as ``tarcat -f`` takes them: ``["jpg", "cls"]`` or ``"jpg cls=class;label"``.
        shuffle: Shuffle the shards, and the samples through a buffer of this many.
        seed: Random seed; the same number gives the same order.

    Returns:
        An iterator. Processes are started when the first sample is asked for; they are ended when the iterator is
        exhausted, closed (``close()``) or garbage collected, for example after a ``break``.

    Raises:
        ValueError: An argument is invalid.
        tarpipe.Error: The tools are not installed, a source is missing or damaged, or a stage of the pipeline failed.
            Samples that come before the failure may have been delivered already.

    Shards on local disks that are not compressed are read by this process itself, without a copy through a pipe.
    """
    if (source is None) == (pipeline is None):
        raise ValueError("give either a source or pipeline=, and not both")
    check_partition(partition)
    flags = tarcat_flags(fields, shuffle, seed)
    if pipeline is not None:
        if partition and "--shard" not in pipeline and "TARPIPE_SHARD" not in pipeline:
            raise ValueError("partition: the pipeline does not use it: write --shard env in its first tool")
        extra = {"TARPIPE_SHARD": f"{partition[0]}/{partition[1]}"} if partition else {}
        return read_pipeline(pipeline, [tool("tarcat"), "-q", *flags], extra)
    names = names_of(source)
    files = None if flags else local_files(names)
    if files is not None:
        return read_files(files, partition)
    shard = ["--shard", f"{partition[0]}/{partition[1]}"] if partition else []
    return read_sources(names, [tool("tarcat"), "-q", *flags, *shard])


def check_partition(partition: tuple[int, int] | None) -> None:
    if partition is None:
        return
    try:
        rank, world = partition
        is_fine = 0 <= rank < world and int(rank) == rank and int(world) == world
    except (TypeError, ValueError):
        is_fine = False
    if not is_fine:
        raise ValueError(f"partition: {partition!r} is not (rank, world), counted from 0")


def tarcat_flags(fields: str | Sequence[str] | None, shuffle: int, seed: int) -> list[str]:
    if shuffle < 0:
        raise ValueError(f"shuffle: {shuffle} is negative")
    flags = ["--shuffle", str(shuffle), "--seed", str(seed)] if shuffle else []
    if fields is not None:
        flags += ["-f", fields if isinstance(fields, str) else " ".join(fields)]
    return flags


def names_of(source: Any) -> list[str]:
    """Returns the names that a caller gave, with local globs expanded."""
    given = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    names = [os.fspath(name) for name in given]
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError("source: give one name or more, as text")
    for name in names:
        if " | " in name and not name.startswith("pipe:") and not os.path.exists(name):
            raise ValueError(f"source: '{name}' is not a name; a pipeline is given as samples(pipeline=…)")
    return expand_globs(names)


def read_files(files: list[str], partition: tuple[int, int] | None) -> Iterator[dict[str, Any]]:
    """Reads files one after another, in this process."""
    rank, world = partition or (0, 1)
    if len(files) == 1:
        yield from itertools.islice(read_file(files[0]), rank, None, world)
        return
    for file in files[rank::world]:
        yield from read_file(file)


def read_file(name: str) -> Iterator[dict[str, Any]]:
    """Reads a file to its end, or to data that only tarcat understands; tarcat then reads from there."""
    count = 0
    with contextlib.suppress(_tar.Unusual, OSError):
        with open(name, "rb", buffering=0) as file:
            for sample in _tar.samples(file.fileno()):
                yield sample
                count += 1
        return
    yield from read_sources([name], [tool("tarcat"), "-q", "--skip", str(count)])


def read_sources(names: list[str], command: list[str]) -> Iterator[dict[str, Any]]:
    """Reads the output of tarcat for these sources."""
    if len(names) <= MAX_ARGUMENTS:
        yield from read_output([[*command, "--", *names]])
        return
    with tempfile.TemporaryFile() as file:
        file.write("".join(f"{name}\n" for name in names).encode())
        file.seek(0)
        yield from read_output([[*command, "-T", "-"]], stdin=file)


def read_pipeline(pipeline: str, command: list[str], extra: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Reads the output of a pipeline through tarcat, which checks and decompresses it."""
    yield from read_output([shell(pipeline), command], extra=extra, forward=True)


def read_output(
    commands: list[list[str]],
    *,
    stdin: IO[bytes] | int = subprocess.DEVNULL,
    extra: Mapping[str, str] | None = None,
    forward: bool = False,
) -> Iterator[dict[str, Any]]:
    """Yields the samples in the output of commands that are connected by pipes."""
    stages = Stages(commands, stdin, environment(extra or {}), forward)
    try:
        is_damaged = False
        try:
            yield from _tar.samples(stages.output.fileno())
        except _tar.Unusual:
            is_damaged = True
        stages.finish()
        if is_damaged:
            raise Error("the stream that tarcat wrote cannot be read")
    finally:
        stages.stop()


class Stages:
    """Processes that are connected by pipes."""

    def __init__(self, commands: list[list[str]], stdin: IO[bytes] | int, env: Mapping[str, str], forward: bool) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self.stderr: list[Stderr] = []
        for command in commands:
            pipes = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            try:
                process = start(command, env=env, bufsize=0, **pipes)
            except Error:
                self.stop()
                raise
            finally:
                if self.processes:
                    self.output.close()  # belongs to the process that reads it
            self.processes.append(process)
            self.stderr.append(Stderr(process.stderr, forward and command is not commands[-1]))  # type: ignore[arg-type]
            process.stderr = None  # belongs to the thread
            stdin = self.output
            with contextlib.suppress(OSError):
                fcntl.fcntl(self.output, F_SETPIPE_SZ, PIPE_SIZE)

    @property
    def output(self) -> IO[bytes]:
        """The output of the last process."""
        output = self.processes[-1].stdout
        assert output is not None
        return output

    def finish(self) -> None:
        """Waits for all processes and raises if one failed. The first failure is the cause, except for SIGPIPE, which comes
        from a later stage that has ended."""
        self.output.close()
        *before, last = self.processes
        is_over = exit_status(last) != 0  # those before it work for nobody then
        failed = [] if not is_over else [(exit_status(last), self.stderr[-1])]
        for process, stderr in zip(reversed(before), reversed(self.stderr[:-1])):
            if is_over and not ends_within(process, PATIENCE):
                terminate(process)
            elif exit_status(process) not in (0, SIGPIPE_STATUS) or not failed and exit_status(process):
                failed.append((exit_status(process), stderr))
        if failed:
            status, stderr = failed[-1]
            raise failure(status, stderr.text(), "pipeline")

    def stop(self) -> None:
        """Ends processes that are still running, without an error."""
        for stderr in self.stderr:
            stderr.forward = False
        for process in self.processes:
            terminate(process)
        if self.processes:
            self.output.close()


def ends_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(timeout=seconds)
        return True
    except subprocess.TimeoutExpired:
        return False
