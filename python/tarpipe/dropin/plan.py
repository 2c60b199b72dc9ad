"""The shards of a run, and the first and last commands of the pipeline that makes them."""

import math
import shlex

from .tables import count_rows


def plan_shards(files, per_shard, first, table_format):
    """Returns the first shard of each file; no shard spans two files."""
    plan = []
    for file in files:
        rows = count_rows(file, table_format)
        plan.append({"file": file, "rows": rows, "first": first})
        first += math.ceil(rows / per_shard)
    return plan


def rows_of(plan, per_shard):
    """Returns every shard with its number of rows."""
    shards = {}
    for part in plan:
        for at in range(math.ceil(part["rows"] / per_shard)):
            shards[part["first"] + at] = min(per_shard, part["rows"] - at * per_shard)
    return shards


def ranges(numbers):
    """Formats [0, 1, 2, 5] as 0-2,5."""
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
    """Returns one urlcat command per file that has shards to make."""
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
    """Returns the tardataset command, with the number of rows of each shard."""
    short = ",".join(f"{number}={shards[number]}" for number in numbers if shards[number] != per_shard)
    words = ["tardataset", "-n", str(per_shard), "--expect", str(sum(shards[number] for number in numbers))]
    words += ["--row-digits", str(row_digits(per_shard)), "--shard-digits", str(shard_digits)]
    return shlex.join(words + (["--short", short] if short else []) + flags + ["-q"])
