"""Tables of URLs: their files, numbers of rows, and column types."""

import json
import pathlib
import subprocess

from .._error import UsageError
from .._process import failure
from .._program import tool


def ask(words):
    """Runs a tool and returns its output."""
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise failure(done.returncode, done.stderr, words[0])
    return done.stdout


def input_files(url_list, input_format):
    """Returns the tables of --url_list: one file, or all files of the format in a folder."""
    path = pathlib.Path(url_list)
    if not path.is_dir():
        if "://" not in url_list and not path.exists():
            raise UsageError(f"--url_list: {url_list}: no such file")
        return [str(path.absolute()) if "://" not in url_list else url_list]
    files = sorted(str(file.absolute()) for file in path.glob(f"*.{input_format}"))
    if not files:
        raise UsageError(f"No file found at path {url_list} with extension {input_format}")
    return files


def count_rows(file, table_format):
    return int(ask([tool("urlcat"), file, "--format", table_format, "--count-shards", "--rows-per-shard", "1"]))


def first_url(file, words, wanted):
    """Returns the first URL of a table for which `wanted` is true."""
    with subprocess.Popen([tool("urlcat"), file, *words, "-q"], stdout=subprocess.PIPE, text=True) as rows:
        urls = (json.loads(line)["url"] for line in rows.stdout)
        found = next((url for url in urls if url and wanted(url)), None)
        rows.stdout.close()
    return found


def column_types(file, table_format, columns):
    """Returns column types for tardataset: those of the table, or guessed from the first rows."""
    if table_format == "parquet":
        return {column: f"={column}" for column in columns}
    lines = ask([tool("urlcat"), file, "--format", table_format, "--head", "2000"]).splitlines()
    rows = [json.loads(line) for line in lines if line]
    return {column: guess([row.get(column) for row in rows]) for column in columns}


def guess(cells):
    """Returns the type that fits all cells; strings are parsed."""
    cells = [cell for cell in cells if cell is not None and cell != ""]
    if not cells:
        return "string"
    if all(isinstance(cell, (list, dict)) for cell in cells):
        return "json"
    kinds = {kind_of(cell) for cell in cells}
    if kinds <= {"int64"}:
        return "int64"
    if kinds <= {"int64", "double"}:
        return "double"
    return "bool" if kinds == {"bool"} else "string"


def kind_of(cell):
    if isinstance(cell, bool) or cell in ("true", "false", "True", "False"):
        return "bool"
    for kind, convert in (("int64", int), ("double", float)):
        if isinstance(cell, convert):
            return kind
        try:
            if isinstance(cell, str) and convert(cell) is not None:
                return kind
        except ValueError:
            pass
    return "string"
