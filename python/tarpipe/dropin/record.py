"""The parameters that a dataset was started with, so that a run is resumed only with the same ones."""

from __future__ import annotations

import os
import sys

from .._error import UsageError


def record_name(program):
    return f".{program}/run.json"


def is_resumable(program, storage, parameters, inputs, mode, done):
    """Whether shards of an earlier run are kept. Raises if they were made with other parameters or inputs, and names these; but
    a run without a single success, such as one with the wrong column, may be replaced."""
    if not storage.has(record_name(program)):
        return True
    differences = differences_of(storage.read_json(record_name(program)), {"parameters": parameters, "inputs": inputs}, mode)
    if not differences:
        return True
    files = storage.stats_files()
    if mode != "extend" and not any(stats["successes"] for stats in storage.read_all_json([files[number] for number in sorted(done)])):
        if done:
            print(f"{program}: {storage.name}: replacing {len(done)} shards of an earlier run, which have no successes", file=sys.stderr)
        return False
    raise UsageError(
        f"{storage.name} was started with other parameters: {'; '.join(differences)}. Use the same ones, another --output_folder, "
        "or --incremental_mode overwrite (extend for new inputs)"
    )


def differences_of(before, now, mode):
    """What differs between two records, in words."""
    if mode == "extend":
        keep = ("number_sample_per_shard", "oom_shard_count", "output_format")
        before, now = ({"parameters": {name: record["parameters"].get(name) for name in keep}} for record in (before, now))
    differences = []
    for name in sorted(set(before["parameters"]) | set(now["parameters"])):
        old, new = before["parameters"].get(name), now["parameters"].get(name)
        if old != new:
            differences.append(f"{name} was {old!r} and is {new!r}")
    if before.get("inputs") != now.get("inputs"):
        differences.append(difference_of_inputs(before["inputs"], now["inputs"]))
    return differences


def difference_of_inputs(old, new):
    for before, now in zip(old, new):
        if before != now:
            same = before["file"] == now["file"]
            what = [f"{key} {before[key]} then, {now[key]} now" for key in before if before[key] != now.get(key)]
            return f"input {now['file']} has changed ({', '.join(what)})" if same else f"input {before['file']} was where {now['file']} is"
    return f"{len(old)} inputs then, {len(new)} now"


def describe_inputs(plan):
    """Returns what a resumed run compares: names, rows and sizes."""
    size = lambda file: os.path.getsize(file) if os.path.exists(file) else None  # noqa: E731
    return [{"file": part["file"], "rows": part["rows"], "size": size(part["file"])} for part in plan]
