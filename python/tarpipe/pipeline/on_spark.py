"""Runs a program on a Spark cluster: one job per batch, one task per partition."""

from __future__ import annotations

import os
import re
import sys
import time
from typing import Any, Iterator, Optional, Sequence

from .allocation import cluster_of_allocation
from .partition import STREAM_PARTITION, PipelineError, batches, partitions, report
from .shipping import ship, work
from .steps import Outcome, Program

PICKLER = "pyspark.cloudpickle"
#: Partitions per core: a task costs Spark some milliseconds.
PARTITIONS_PER_CORE = 16
#: How long to wait for further executors once the first one is there.
EXECUTORS_SECONDS = 5.0


def connect(sc: Any, master: Optional[str]) -> Any:
    """Returns the SparkContext of the allocation: the given or active one, else a new one."""
    try:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise PipelineError("compute_spark needs PySpark: pip install pyspark") from error
    if sc is None:
        session = SparkSession.getActiveSession()
        sc = session.sparkContext if session is not None else SparkContext._active_spark_context
    sc = getattr(sc, "sparkContext", sc)  # a SparkSession will do
    if sc is None:
        return start(master)
    if master is not None and sc.master != master:
        raise PipelineError(f"Spark is connected to {sc.master} already: cannot use {master}")
    return sc


def start(master: Optional[str]) -> Any:
    """Connects to the master that the environment names; Spark itself would fall back to this machine."""
    from pyspark import SparkConf, SparkContext

    if os.environ.get("SPARK_REMOTE"):
        raise PipelineError("SPARK_REMOTE is set: Spark Connect cannot run this; set SPARK_MASTER instead")
    conf = SparkConf().setIfMissing("spark.app.name", "tarpipe.pipeline")
    master = master or os.environ.get("SPARK_MASTER") or configured_master()
    if not master and "PYSPARK_GATEWAY_PORT" not in os.environ:  # spark-submit has chosen the master
        address = cluster_of_allocation("spark", stop)
        master = address and f"spark://{address}"
    if master:
        conf.setMaster(master)
    elif "PYSPARK_GATEWAY_PORT" not in os.environ:
        raise PipelineError(
            "no Spark cluster found: set SPARK_MASTER or spark.master in spark-defaults.conf, use spark-submit, "
            "start a cluster with slurm-cluster or ssh-cluster, or call compute_spark(master='local[*]') to use "
            "this machine alone"
        )
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        sc = SparkContext(conf=conf)
        # The first task waits for the first executor; the others come about the same time.
        sc.parallelize([0], 1).count()
    except Exception as error:
        raise PipelineError(f"cannot use the Spark cluster at {master}: {brief(error)}") from error
    deadline, cores = time.monotonic() + EXECUTORS_SECONDS, 0
    while cores != sc.defaultParallelism and time.monotonic() < deadline:
        cores = sc.defaultParallelism
        time.sleep(1)
    return sc


def stop() -> None:
    """Ends the active SparkContext, if there is one."""
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:
        SparkContext._active_spark_context.stop()


def configured_master() -> Optional[str]:
    """Returns the master of PYSPARK_SUBMIT_ARGS, MASTER or spark-defaults.conf."""
    words = os.environ.get("PYSPARK_SUBMIT_ARGS", "").split()
    if "--master" in words[:-1]:
        return words[words.index("--master") + 1]
    if os.environ.get("MASTER"):
        return os.environ["MASTER"]
    home = os.environ.get("SPARK_HOME", "")
    folder = os.environ.get("SPARK_CONF_DIR") or os.path.join(home, "conf")
    try:
        with open(os.path.join(folder, "spark-defaults.conf"), encoding="utf-8") as lines:
            entries = [line.replace("=", " ", 1).split(None, 1) for line in lines if not line.startswith("#")]
    except FileNotFoundError:
        return None
    masters = [entry[1].strip() for entry in entries if len(entry) == 2 and entry[0] == "spark.master"]
    return masters[-1] if masters else None


class PartitionTask:
    """What an executor's Python process does with a partition."""

    def __init__(self, identity: str, payload: bytes) -> None:
        self.identity, self.payload = identity, payload

    def __call__(self, parts: Iterator[Any]) -> Iterator[bytes]:
        from pyspark import TaskContext

        context = TaskContext.get()
        is_retry = context is not None and context.attemptNumber() > 0
        for items in parts:
            yield work(PICKLER, self.identity, self.payload, items, is_retry)


def on_spark(
    program: Program,
    items: Sequence[Any],
    sc: Any,
    master: Optional[str],
    numparts: Optional[int],
    batch_size: Optional[int],
    verbose: bool,
    is_stream: bool,
) -> Iterator[Outcome]:
    """Handles the items on Spark; yields the outcomes in the order of the items."""
    sc = connect(sc, master)
    from pyspark import cloudpickle

    task = PartitionTask(*ship(program, PICKLER))
    cores = sc.defaultParallelism
    if is_stream and batch_size is None:
        batch_size = cores * PARTITIONS_PER_CORE * STREAM_PARTITION
    every = list(batches(items, batch_size))
    for number, batch in enumerate(every, 1):
        parts = partitions(batch, numparts, cores * PARTITIONS_PER_CORE)
        if verbose:
            report(number, len(every), cores, parts)
        rdd = sc.parallelize([list(part) for part in parts], len(parts)).mapPartitions(task)
        try:
            answers = rdd.collect()
        except Exception as error:
            raise PipelineError(f"the Spark job failed: {brief(error)}{hint(error)}") from error
        for answer in answers:
            yield from cloudpickle.loads(answer)


def hint(error: Exception) -> str:
    """Returns what to do about a job that failed."""
    if "maxResultSize" in str(error):
        return "; use batch_size to collect fewer results at once"
    return ""


def brief(error: Exception) -> str:
    """Returns the line of Spark's report that says what happened: that of a Python worker, if there is one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    python = [line for line in lines if re.match(r"[A-Za-z_]\w*(Error|Exception|Interrupt): ", line)]
    java = [line for line in lines if line.startswith(("org.apache.spark", "Caused by", "java."))]
    return (python[:1] or java or lines or [type(error).__name__])[0][:500]
