"""Our tools, and the tables that they read."""

import json
import os
import pathlib
import shutil
import subprocess

from . import Mistake

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent


def search_path():
    """Where tools are looked for: beside the scripts where they are installed, on the PATH, where a release build puts them.
    Those of another build are ten times slower."""
    installed = [str(SCRIPTS)] if os.access(SCRIPTS / "urlcat", os.X_OK) else []
    return os.pathsep.join([*installed, os.environ.get("PATH", ""), str(SCRIPTS.parent / "target" / "release")])


def tool(name):
    """Where one of our tools is."""
    found = shutil.which(name, path=search_path())
    if found is None:
        raise Mistake(f"{name} is not to be found: install the tools (scripts/install), build them (cargo build --release), or put them on the PATH")
    return found


def ask(words):
    """The output of a tool, which has said itself what is wrong when it fails."""
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(1)
    return done.stdout


def input_files(url_list, input_format):
    """The tables behind --url_list: itself, or those of the format in a folder."""
    path = pathlib.Path(url_list)
    if not path.is_dir():
        if "://" not in url_list and not path.exists():
            raise Mistake(f"--url_list: {url_list}: no such file")
        return [str(path.absolute()) if "://" not in url_list else url_list]
    files = sorted(str(file.absolute()) for file in path.glob(f"*.{input_format}"))
    if not files:
        raise Mistake(f"No file found at path {url_list} with extension {input_format}")
    return files


def count_rows(file, table_format):
    return int(ask([tool("urlcat"), file, "--format", table_format, "--count-shards", "--rows-per-shard", "1"]))


def first_url(file, words, wanted):
    """The first URL of a table that `wanted` holds for."""
    with subprocess.Popen([tool("urlcat"), file, *words, "-q"], stdout=subprocess.PIPE, text=True) as rows:
        urls = (json.loads(line)["url"] for line in rows.stdout)
        found = next((url for url in urls if url and wanted(url)), None)
        rows.stdout.close()
    return found


def column_types(file, table_format, columns):
    """Types of columns as tardataset takes them: a table's own, else what the first rows look like."""
    if table_format == "parquet":
        return {column: f"={column}" for column in columns}
    lines = ask([tool("urlcat"), file, "--format", table_format, "--head", "2000"]).splitlines()
    rows = [json.loads(line) for line in lines if line]
    return {column: guess([row.get(column) for row in rows]) for column in columns}


def guess(cells):
    """The type that all cells have; text cells are looked into."""
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
