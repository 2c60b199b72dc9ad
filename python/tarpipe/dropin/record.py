"""Records the parameters of the first run in a folder, so that a run is resumed only with the same ones."""

import json
import os

from .._error import UsageError


def stats_files(folder):
    """Returns the stats file of each finished shard, which is written last."""
    numbers = ((file.name.removesuffix("_stats.json"), file) for file in folder.glob("*_stats.json"))
    return {int(number): file for number, file in numbers if number.isdigit()}


def done_shards(folder):
    return set(stats_files(folder))


def check_record(program, folder, parameters, inputs, mode):
    """Raises if the folder was started with other parameters or inputs, and names them."""
    file = folder / f".{program}" / "run.json"
    if not file.exists():
        return
    before = json.loads(file.read_text())
    now = {"parameters": parameters, "inputs": inputs}
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
    if differences:
        raise UsageError(
            f"{folder} was started with other parameters: {'; '.join(differences)}. Use the same ones, another --output_folder, "
            "or --incremental_mode overwrite (extend for new inputs)"
        )


def difference_of_inputs(old, new):
    for before, now in zip(old, new):
        if before != now:
            same = before["file"] == now["file"]
            what = [f"{key} {before[key]} then, {now[key]} now" for key in before if before[key] != now.get(key)]
            return f"input {now['file']} has changed ({', '.join(what)})" if same else f"input {before['file']} was where {now['file']} is"
    return f"{len(old)} inputs then, {len(new)} now"


def write_record(program, folder, record, name="run.json"):
    file = folder / f".{program}" / name
    file.parent.mkdir(exist_ok=True)
    temporary = file.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(json.dumps(record, indent=1) + "\n")
    temporary.replace(file)
    return file


def describe_inputs(plan):
    """Returns what a resumed run compares: names, rows and sizes."""
    size = lambda file: os.path.getsize(file) if os.path.exists(file) else None  # noqa: E731
    return [{"file": part["file"], "rows": part["rows"], "size": size(part["file"])} for part in plan]
