"""Tables of URLs: their files, numbers of rows, and column types."""

import glob
import json
import os
import pathlib
import subprocess

from .._error import UsageError
from .._names import expand_braces
from .._process import failure
from .._program import tool

STORES = ("s3://", "gs://", "az://")


def ask(words):
    """Runs a tool and returns its output."""
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise failure(done.returncode, done.stderr, words[0])
    return done.stdout


def input_files(url_list, input_format):
    """The tables that --url_list names: one, several by braces, wildcards or ::, or those of the format in a folder."""
    files = remote_files(url_list, input_format) if "://" in url_list else local_files(url_list, input_format)
    if not files:
        raise UsageError(f"No file found at path {url_list} with extension {input_format}")
    return files


def local_files(url_list, input_format):
    path = pathlib.Path(url_list)
    if path.is_dir():
        return sorted(str(file.absolute()) for file in path.glob(f"*.{input_format}"))
    names = [url_list] if path.exists() else [name for part in url_list.split("::") for name in expand_braces(part) or [part]]
    files = [name for each in names for name in (sorted(glob.glob(each)) if glob.has_magic(each) and not os.path.exists(each) else [each])]
    for file in files:
        if not os.path.exists(file):
            raise UsageError(f"--url_list: {file}: no such file")
    return [os.path.abspath(file) for file in files]


def remote_files(url_list, input_format):
    """A name in an object store that is not an object is a folder."""
    program = tool("tarpipe")
    if url_list.startswith(STORES) and not any(c in url_list for c in "{*?[") and "::" not in url_list:
        prefix = url_list.rstrip("/")
        found = [line.split("\t", 1)[1] for line in ask([program, "names", "list", prefix]).splitlines()]
        below = [name for name in found if name.startswith(prefix + "/") and "/" not in name[len(prefix) + 1 :]]
        return [url_list] if url_list in found else sorted(name for name in below if name.endswith(f".{input_format}"))
    return ask([program, "names", "expand", url_list]).splitlines()


def exists(name):
    """Whether there is a file or an object of this name."""
    if name.startswith(STORES):
        return name in (line.split("\t", 1)[1] for line in ask([tool("tarpipe"), "names", "list", name]).splitlines())
    return os.path.exists(name)


def count_rows(file, table_format):
    return int(ask([tool("urlcat"), file, "--format", table_format, "--count-shards", "--rows-per-shard", "1"]))


def first_url(file, words, wanted):
    """Returns the first URL of a table for which `wanted` is true."""
    with subprocess.Popen([tool("urlcat"), file, *words, "-q"], stdout=subprocess.PIPE, text=True) as rows:
        urls = (json.loads(line)["url"] for line in rows.stdout)
        found = next((url for url in urls if url and wanted(url)), None)
        rows.stdout.close()
    return found


def column_types(files, table_format, columns):
    """Types of columns as tardataset takes them: those of the table, else such as hold all values of all tables. Refuses columns
    that a table lacks."""
    if not columns:
        return {}
    if table_format == "parquet":
        for file in files:
            check_columns(file, [line.split("\t")[0] for line in ask([tool("urlcat"), "--format", "parquet", "--columns", file]).splitlines()], columns)
        return {column: f"={column}" for column in columns}
    types = dict(line.rsplit("\t", 1) for line in ask([tool("urlcat"), *files, "--format", table_format, "--types"]).splitlines() if line)
    if types:
        check_columns(", ".join(files[:3]), list(types), columns)
    return {column: types.get(column, "string") for column in columns}


def check_columns(file, names, columns):
    for column in columns:
        if column not in names:
            raise UsageError(f"{file} has no column '{column}' (its columns: {', '.join(names)})")
