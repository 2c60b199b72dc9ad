"""A table with one row per record, written by tarshow."""

from __future__ import annotations

import os
import re
import tempfile
from typing import Any, Dict, Iterable, List

from .partition import PipelineError
from .record import Record
from .shards import KeyFunction, Member, SampleWriter, Tool, names_of, to_json

FORMATS = {".csv": "--csv", ".tsv": "--tsv", ".jsonl": "--json"}
#: What tarshow takes for the name of a column.
COLUMN = re.compile(r"[^\s.;=,]+")


def write_table(records: Iterable[Record], path: str, key: KeyFunction) -> int:
    """Writes records as a table; see `Records.to_table`."""
    path = os.fspath(path)
    suffix = os.path.splitext(path)[1]
    if suffix != ".parquet" and suffix not in FORMATS:
        raise ValueError(f"{path}: unknown kind of table (use .parquet, .csv, .tsv or .jsonl)")
    columns: Dict[str, str] = {"shot": "json.shot"}
    # The columns are known at the end, so the rows are kept in a file, not in memory.
    with tempfile.TemporaryFile() as rows:
        with SampleWriter(rows, key) as output:
            for record in records:
                output.write(record, row(record, columns))
        columns["errors"] = "json.errors"
        rows.seek(0)
        show(rows, path, suffix, [f"{name}={place}" for name, place in columns.items()])
    return output.count


def row(record: Record, columns: Dict[str, str]) -> List[Member]:
    """Returns a row as a sample: bytes in members of their own, all else in json. Adds new columns."""
    values: Dict[str, Any] = {"shot": record.shot, "errors": None}
    if record.errors:
        values["errors"] = {label: error["message"] for label, error in record.errors.items()}
    rest: List[Member] = []
    for name in names_of(record):
        if not COLUMN.fullmatch(name):
            raise PipelineError(f"{name!r} cannot be the name of a column: no blanks, dots, commas, semicolons or '='")
        if isinstance(record[name], bytes):
            rest.append((name, record[name]))
            columns[name] = f"{name};json.{name}"
        else:
            values[name] = record[name]
            columns.setdefault(name, f"json.{name}")
    return [("json", to_json(record, values)), *rest]


def show(rows: Any, path: str, suffix: str, fields: List[str]) -> None:
    """Makes the table from the rows; it appears under its name only when it is complete."""
    words = ["tarshow", "-f", " ".join(fields)]
    if suffix == ".parquet":
        # tarshow does the same by itself.
        with Tool([*words, "--force", "--parquet", path], stdin=rows):
            return
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as output, Tool([*words, FORMATS[suffix]], stdin=rows, stdout=output):
            pass
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
