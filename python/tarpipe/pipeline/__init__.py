"""Fetch, map, keep: the same steps for many items, on one machine, on Ray or on Spark.

A pipeline takes items (shot numbers, names, rows of a database), fetches what belongs to each, computes with it, and
keeps what matters. It is written as TokSearch's are; a script that has ``from toksearch import Pipeline`` needs no
other change than that line.

>>> from tarpipe.pipeline import Pipeline
>>> def read_signal(shot):                          # a source: any function of the item
...     if shot == 3:
...         raise OSError("no data")
...     return {"data": [shot, -2 * shot], "times": [0.0, 0.1]}
>>> pipeline = Pipeline(range(1, 5))
>>> _ = pipeline.fetch("ip", read_signal)
>>> @pipeline.map
... def largest(rec):
...     rec["largest"] = max(abs(value) for value in rec["ip"]["data"])
>>> _ = pipeline.keep(["largest"])
>>> results = pipeline.compute_serial()             # or compute_multiprocessing(), compute_ray(), compute_spark()
>>> [rec.get("largest") for rec in results]
[2, 4, None, 8]

**Errors** stay with their record, and the run goes on. A source that fails leaves None in its field; a function that
fails, for instance because of that, leaves the record as it is. Both are in ``rec.errors``, by field and by function:

>>> {step: error["message"] for step, error in results[2].errors.items()}
{'ip': 'no data', 'largest': "'NoneType' object is not subscriptable"}

`Pipeline.where` selects records, for instance those without errors:

>>> len(pipeline.where(lambda rec: not rec.errors).compute_serial())
3

**Sources** are functions, objects with a method ``fetch(item)``, or file templates: ``/data/{shot:06}.npz`` is read
with numpy, ``.h5`` with h5py, ``.parquet`` with pyarrow, ``.json`` and ``.txt`` as they are, others as bytes. See
`Npz`, `Hdf5` and `Parquet` to select what to read, and `MdsSignal` as a pattern for an archive of your own: a source
lives as long as its worker, so one connection serves thousands of items.

**Backends.** Results come in the order of the items on all of them.

- `Pipeline.compute_serial` runs in this process: for the debugger.
- `Pipeline.compute_multiprocessing` starts one worker per CPU. A worker that the kernel kills costs one record.
- `Pipeline.compute_ray` uses the connected Ray or that of RAY_ADDRESS, `Pipeline.compute_spark` the active Spark
  session or that of SPARK_MASTER. In a Slurm allocation without any of these, they start a cluster on all of its nodes,
  which ends with the program, as ``slurm-cluster submit`` describes. Elsewhere they fail without a cluster; they never
  fall back to this machine. Lost workers and nodes cost time, not results.

Functions are sent to the workers by value, so the nodes need the modules that the functions import, but not tarpipe.

**Large runs.** ``compute_...`` returns all records, ``stream_...`` an iterator that holds few. Either can be written
as shards or as a table by tarpipe's tools::

    pipeline.stream_ray().write_shards("s3://bucket/shots-%06d.tar", size="1G")
    pipeline.compute_spark().to_table("largest.parquet")
"""

from .core import Pipeline
from .partition import PipelineError
from .record import InvalidItem, Record
from .results import Results, Stream
from .sources import FileSource, Hdf5, MdsSignal, Npz, Parquet

__all__ = [
    "FileSource",
    "Hdf5",
    "InvalidItem",
    "MdsSignal",
    "Npz",
    "Parquet",
    "Pipeline",
    "PipelineError",
    "Record",
    "Results",
    "Stream",
]
