"""The results of the benches in one JSON file; a bench that runs again replaces its own."""

import datetime
import json
import os
import pathlib
import platform
import re


def load(path):
    """Reads the file: for each bench, its machine and its comparisons."""
    return json.loads(path.read_text()) if path.exists() else {}


def keep(path, name, comparisons):
    """Puts the figures of one bench into the file."""
    kept = load(path)
    kept[name] = {"machine": machine(), "date": datetime.date.today().isoformat(), "comparisons": comparisons}
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n")
    part.rename(path)


def machine():
    """Describes the machine in one line."""
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text())
    words = [f"{os.cpu_count()} cores of {cpu[1].strip()}" if cpu else f"{os.cpu_count()} cores"]
    words += [f"{int(memory[1]) / (1 << 20):.0f} GB"] if memory else []
    return ", ".join([*words, f"Linux {'.'.join(platform.release().split('.')[:2])}"])


def floors_last(names):
    """The peers first, then what the machine allows."""
    return sorted(names, key=lambda name: "(floor)" in name)
