"""What the drop-in command lines (img2dataset, video2dataset, any2dataset) have in common.

Flags as Fire reads them, a plan of shards, resuming, one pipeline of our tools for all shards that are left, what
img2dataset says on the way, and other machines through shardrun. Standard library only.
"""

import ast
import json
import math
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
# Beside the scripts where they are installed, else where cargo puts them.
TOOLS = [HERE, HERE.parent / "target" / "release", HERE.parent / "target" / "debug"]
# How often finished shards are looked for.
LOOK = 2.0


class Mistake(Exception):
    """Something that the user can put right; exit status 2."""


def main(program, run):
    """Runs a command line; the way out of all of them."""
    try:
        return run(sys.argv[1:])
    except Mistake as mistake:
        print(f"{program}: {mistake}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 0


# Flags


def parse_flags(words, defaults, first):
    """Flags with their defaults, as Fire takes them: --name=value, --name value, --name for True. The first word that
    is no flag is the value of `first`."""
    given, i = {}, 0
    while i < len(words):
        word = words[i]
        i += 1
        if not word.startswith("--"):
            if first in given:
                raise Mistake(f"what is '{word}' for? Flags are written --name value")
            given[first] = word
            continue
        name, is_whole, text = word[2:].partition("=")
        name = name.replace("-", "_")
        if name.startswith("no") and name[2:] in defaults and isinstance(defaults[name[2:]], bool) and not is_whole:
            name, is_whole, text = name[2:], "=", "False"
        if name not in defaults:
            raise Mistake(f"no flag --{name} (see --help)")
        is_flag = isinstance(defaults[name], bool)
        if not is_whole:
            has_value = i < len(words) and not words[i].startswith("--") and (not is_flag or words[i] in ("True", "False"))
            if not has_value and not is_flag:
                raise Mistake(f"--{name} needs a value")
            text, i = (words[i], i + 1) if has_value else ("True", i)
        given[name] = text
    return {name: value(name, given[name], default) if name in given else default for name, default in defaults.items()}


def value(name, text, default):
    """A flag's text as its default is: Python's literals for lists and None."""
    if text == "None":
        return None
    try:
        if isinstance(default, bool):
            return {"True": True, "true": True, "False": False, "false": False}[text]
        if isinstance(default, int):
            return int(text)
        if isinstance(default, float):
            return float(text)
    except (KeyError, ValueError):
        raise Mistake(f"--{name}: '{text}' is not {'True or False' if isinstance(default, bool) else 'a number'}") from None
    return text


def words_of(name, text):
    """A list as Fire takes it: '["a","b"]', '[a,b]' or a,b."""
    if text is None or isinstance(text, (list, tuple)):
        return text
    try:
        found = ast.literal_eval(text)
        return [str(item) for item in found] if isinstance(found, (list, tuple)) else [str(found)]
    except (ValueError, SyntaxError):
        inner = text.strip()
        if inner.startswith("[") != inner.endswith("]"):
            raise Mistake(f"--{name}: '{text}' is no list") from None
        return [item.strip().strip("\"'") for item in inner.strip("[]").split(",") if item.strip()]


def one_of(name, text, choices):
    if text not in choices:
        raise Mistake(f"--{name}: '{text}' is none of {', '.join(choices)}")
    return text


# Tables


def tool(name):
    """Where one of our tools is."""
    for folder in TOOLS:
        if os.access(folder / name, os.X_OK):
            return str(folder / name)
    return name


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


# Plan


def plan_shards(files, per_shard, first, table_format):
    """Where each file's shards begin: theirs never span two files."""
    plan = []
    for file in files:
        rows = count_rows(file, table_format)
        plan.append({"file": file, "rows": rows, "first": first})
        first += math.ceil(rows / per_shard)
    return plan


def rows_of(plan, per_shard):
    """Every shard and how many rows it has."""
    shards = {}
    for part in plan:
        for at in range(math.ceil(part["rows"] / per_shard)):
            shards[part["first"] + at] = min(per_shard, part["rows"] - at * per_shard)
    return shards


def ranges(numbers):
    """[0, 1, 2, 5] as 0-2,5."""
    found = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(lo) if lo == hi else f"{lo}-{hi}" for lo, hi in found)


def row_digits(per_shard):
    return math.ceil(math.log10(per_shard))


def rows_command(plan, numbers, per_shard, shard_digits, flags):
    """One urlcat for each file that has shards to do."""
    digits = row_digits(per_shard)
    key = f"{{shard:0{shard_digits}}}" + (f"{{row:0{digits}}}" if digits else "")
    commands = []
    for part in plan:
        last = part["first"] + math.ceil(part["rows"] / per_shard)
        wanted = [number for number in numbers if part["first"] <= number < last]
        if wanted:
            words = ["urlcat", part["file"], *flags, "--key", key, "--rows-per-shard", str(per_shard)]
            commands.append(shlex.join([*words, "--first-shard", str(part["first"]), "--shards", ranges(wanted), "-q"]))
    return commands[0] if len(commands) == 1 else "{ " + " && ".join(commands) + "; }"


def dataset_command(shards, numbers, per_shard, shard_digits, flags):
    """tardataset, told how many rows each shard has."""
    short = ",".join(f"{number}={shards[number]}" for number in numbers if shards[number] != per_shard)
    words = ["tardataset", "-n", str(per_shard), "--expect", str(sum(shards[number] for number in numbers))]
    words += ["--row-digits", str(row_digits(per_shard)), "--shard-digits", str(shard_digits)]
    return shlex.join(words + (["--short", short] if short else []) + flags + ["-q"])


# Resuming


def done_shards(folder):
    return {int(file.name.split("_")[0]) for file in folder.glob("*_stats.json") if file.name.split("_")[0].isdigit()}


def check_record(program, folder, parameters, inputs, mode):
    """Refuses to go on with other parameters or inputs than those the folder was begun with, and names them."""
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
        raise Mistake(
            f"{folder} was begun with others: {'; '.join(differences)}. Take those again, another --output_folder, "
            "or --incremental_mode overwrite (extend, for new inputs)"
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
    """What a resumed run compares: names, rows and sizes."""
    size = lambda file: os.path.getsize(file) if os.path.exists(file) else None  # noqa: E731
    return [{"file": part["file"], "rows": part["rows"], "size": size(part["file"])} for part in plan]


# Running


def run_pipeline(script, on_look):
    """Runs a pipeline to its end, looking around now and then; its exit status."""
    path = os.pathsep.join([*(str(folder) for folder in TOOLS if folder.is_dir()), os.environ.get("PATH", "")])
    process = subprocess.Popen(["bash", "-o", "pipefail", "-c", script], env={**os.environ, "PATH": path}, start_new_session=True)
    ended = []

    def end(number, _):
        ended.append(number)
        os.killpg(process.pid, number)

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    while True:
        try:
            status = process.wait(timeout=LOOK)
            break
        except subprocess.TimeoutExpired:
            on_look()
    for number, handler in before.items():
        signal.signal(number, handler)
    if ended:
        raise SystemExit(128 + ended[0])
    on_look()
    return status


class Metrics:
    """Says what img2dataset says of each finished shard and of all, and writes it down for wandb."""

    def __init__(self, program, folder, done, project=None, config=None, processed="resize", noun="img"):
        self.folder, self.seen, self.processed, self.noun = folder, set(done), processed, noun
        self.total, self.statuses, self.file, self.wandb = None, {}, None, None
        if project is not None:
            (folder / f".{program}").mkdir(exist_ok=True)
            self.file = open(folder / f".{program}" / "metrics.jsonl", "a", buffering=1)
            try:
                import wandb

                wandb.init(project=project, config=config, anonymous="allow")
                self.wandb = wandb
            except ImportError:
                pass

    def look(self):
        for number in sorted(done_shards(self.folder) - self.seen):
            self.seen.add(number)
            file = next(self.folder.glob(f"{number:05}_stats.json"), None) or next(self.folder.glob(f"*{number}_stats.json"))
            stats = json.loads(file.read_text())
            self.log("worker", stats)
            self.add(stats)
            self.log("total", self.total)
            self.log_statuses()

    def add(self, stats):
        counts = ["count", "successes", "failed_to_download", f"failed_to_{self.processed}"]
        if self.total is None:
            self.total = {**{name: 0 for name in counts}, "start_time": math.inf, "end_time": -math.inf}
        for name in counts:
            self.total[name] += stats[name]
        self.total["start_time"] = min(self.total["start_time"], stats["start_time"])
        self.total["end_time"] = max(self.total["end_time"], stats["end_time"])
        for status, count in stats["status_dict"].items():
            self.statuses[status] = self.statuses.get(status, 0) + count

    def log(self, prefix, stats):
        count = max(stats["count"], 1)
        rate = stats["count"] / max(stats["end_time"] - stats["start_time"], 0.001)
        failed = [stats["failed_to_download"] / count, stats[f"failed_to_{self.processed}"] / count]
        print(
            f"{prefix:<7} - success: {stats['successes'] / count:.3f} - failed to download: {failed[0]:.3f} - failed to "
            f"{self.processed}: {failed[1]:.3f} - {'images' if self.noun == 'img' else 'samples'} per sec: {rate:.0f} - "
            f"count: {stats['count']}",
            flush=True,
        )
        self.send(
            {
                f"{prefix}/{self.noun}_per_sec": rate,
                f"{prefix}/success": stats["successes"] / count,
                f"{prefix}/failed_to_download": failed[0],
                f"{prefix}/failed_to_{self.processed}": failed[1],
                f"{prefix}/count": stats["count"],
            }
        )

    def log_statuses(self):
        common = sorted(self.statuses.items(), key=lambda item: -item[1])[:100]
        rows = [[status, count / max(self.total["count"], 1), count] for status, count in common]
        if self.file:
            self.file.write(json.dumps({"status": rows}) + "\n")
        if self.wandb:
            self.wandb.log({"status": self.wandb.Table(columns=["status", "frequency", "count"], data=rows)})

    def send(self, values):
        if self.file:
            self.file.write(json.dumps({"time": time.time(), **values}) + "\n")
        if self.wandb:
            self.wandb.log(values)

    def finish(self):
        self.look()
        if self.file:
            self.file.close()
        if self.wandb:
            self.wandb.finish()
