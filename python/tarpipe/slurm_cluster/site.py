"""Site files: arguments of a site or a user for Slurm, Spark and Ray. `shardrun --config` reads them too."""

import difflib
import os
import pathlib

from tarpipe.slurm_cluster import simple_yaml

LIST = "a list of arguments"
ROLE = {"srun": LIST, "start": LIST}
ENGINE = {"master": ROLE, "worker": ROLE}
# In a section that allows flags, each other key is a flag: `partition: gpu` is --partition=gpu.
FLAGS = "*"
# A key with None is used by shardrun only.
KEYS = {
    "batch": {"sbatch": LIST, FLAGS: None},
    "interactive": {"salloc": LIST, "srun": LIST, FLAGS: None},
    "spark": ENGINE,
    "ray": ENGINE,
    "worker": None,
    "k8s": None,
}


class SiteError(Exception):
    """An invalid site file, with its name."""


def default_files():
    """Returns the files of the site and of the user, in the order in which they are read."""
    home = os.environ.get("XDG_CONFIG_HOME") or pathlib.Path.home() / ".config"
    site = os.environ.get("TARPIPE_CLUSTER_SITE", "/etc/tarpipe/cluster.yaml")
    return [pathlib.Path(site), pathlib.Path(home) / "tarpipe" / "cluster.yaml"]


class Site:
    """Merges the settings of all files; keys of a later file replace those of an earlier one."""

    def __init__(self, config=None):
        self.values = {}
        for path in default_files():
            if path.exists():
                merge(self.values, read(path))
        if config:
            merge(self.values, read(pathlib.Path(config)))

    def arguments(self, *keys):
        """Returns the arguments at a path such as ("spark", "worker", "start"), as strings."""
        value = self.values
        for key in keys:
            value = (value or {}).get(key)
        return [argument(item) for item in value or []]

    def flags(self, section, program):
        """Returns the flags of a section for sbatch or salloc: its named flags, then its list of arguments."""
        found = []
        for name, value in (self.values.get(section) or {}).items():
            if name not in KEYS[section]:
                found += named_flags(name.replace("_", "-"), value)
        return found + self.arguments(section, program)


def named_flags(name, value):
    flag = f"-{name}" if len(name) == 1 else f"--{name}="
    if isinstance(value, list):
        return [word for item in value for word in named_flags(name, item)]
    if isinstance(value, bool) or value is None:
        return [flag.rstrip("=")] if value else []
    return [flag + argument(value)]


def argument(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def merge(into, values):
    for key, value in values.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = value


def read(path):
    """Reads and checks the settings of a file."""
    try:
        text = path.read_text()
        values = read_toml(text) if path.suffix == ".toml" else simple_yaml.parse(text)
    except OSError as err:
        raise SiteError(f"{path}: {err.strerror}") from None
    except ValueError as err:
        raise SiteError(f"{path}: {err}") from None
    except simple_yaml.YamlError as err:
        raise SiteError(f"{path}: {err}") from None
    problem = check(values if values is not None else {}, KEYS, "")
    if problem:
        raise SiteError(f"{path}: {problem}")
    return values or {}


def read_toml(text):
    try:
        import tomllib
    except ImportError:
        raise ValueError("TOML needs Python 3.11; use YAML") from None
    return tomllib.loads(text)


def check(values, known, path):
    """Describes what is wrong with the values of a section, if anything."""
    if not isinstance(values, dict):
        return f"{path.rstrip('.') or 'the file'}: expected sections, not {values!r}"
    for key, value in values.items():
        name = f"{path}{key}"
        if key not in known:
            problem = check_flag(name, value, known) if FLAGS in known else unknown(name, key, known, path)
        elif known[key] == LIST:
            is_list = isinstance(value, list) and not any(isinstance(item, (list, dict)) for item in value)
            problem = None if is_list or value is None else f"{name}: expected a list of arguments"
        elif known[key] is None or value is None:
            problem = None
        else:
            problem = check(value, known[key], name + ".")
        if problem:
            return problem
    return None


def check_flag(name, value, known):
    """Checks the value of a flag. A list with arguments is not a value, so its key must be misspelt."""
    items = value if isinstance(value, list) else [value]
    if isinstance(value, list) and any(isinstance(item, str) and item.startswith("-") for item in items):
        section, key = name.rsplit(".", 1)
        return unknown(name, key, known, section + ".")
    if any(isinstance(item, (list, dict)) for item in items):
        return f"{name}: the value of a flag must be a string, a number, true, or a list of these"
    return None


def unknown(name, key, known, path):
    names = [word for word in known if word != FLAGS]
    near = difflib.get_close_matches(str(key), names, 1, 0)
    return f"unknown key {name}; did you mean {path}{near[0]}?"
