"""Processes existing shards: each goes through its own pipeline and keeps its number."""

import os
import shlex

from .._error import UsageError
from .._program import tool
from .tables import ask, exists, input_files


def plan_subset(url_list):
    """Returns the shards of --url_list (a folder or names with braces) and the columns of their tables."""
    files = input_files(url_list, "tar")
    plan = []
    for file in files:
        stem = file.rsplit("/", 1)[-1].removesuffix(".tar")
        if not stem.isdigit() or not file.endswith(".tar"):
            raise UsageError(f"--url_list: {file}: not the name of a shard; expected a number, such as 00000.tar")
        size = os.path.getsize(file) if "://" not in file else None
        plan.append({"file": file, "shard": int(stem), "digits": len(stem), "size": size})
    if len({part["shard"] for part in plan}) < len(plan):
        raise UsageError(f"--url_list: {url_list}: a shard number appears twice")
    return plan, table_columns(plan)


def table_columns(plan):
    """Returns the first table beside a shard, and its columns."""
    tables = (part["file"].removesuffix(".tar") + ".parquet" for part in plan)
    table = next((name for name in tables if exists(name)), None)
    if table is None:
        return {"table": None, "names": ["key", "status", "error_message"]}
    names = [line.split("\t")[0] for line in ask([tool("urlcat"), "--columns", table]).splitlines()]
    return {"table": table, "names": [name for name in names if name not in ("code", "url_host")]}


def subset_pipeline(plan, numbers, stages, columns, dataset):
    """Returns one pipeline per shard; after a failure the next ones still run."""
    typed = [f"{name}:={name}" if columns["table"] else name for name in columns["names"]]
    words = ["tardataset", "--columns", " ".join([*typed, "code", "url_host"]), *dataset, "-q"]
    words += ["--types-from", columns["table"]] if columns["table"] else []
    wanted = [part for part in plan if part["shard"] in set(numbers)]
    lines = []
    for part in wanted:
        last = [*words, "--only-shard", str(part["shard"]), "--shard-digits", str(part["digits"])]
        (first, *rest) = stages or [["tarcat", "--max-sample", "4G", "-q"]]
        lines.append(" |\n  ".join(map(shlex.join, [[*first, part["file"]], *rest, last])))
    return lines[0] if len(lines) == 1 else "\n".join(["failed=0", *(f"{line} || failed=1" for line in lines), "exit $failed"])
