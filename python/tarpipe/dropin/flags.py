"""Parses flags as Fire does, and checks the arguments of Python calls."""

import ast
import inspect
import operator
import os
import textwrap

from .._error import UsageError


class Guessed(str):
    """A default that may be replaced by a better guess; it equals the text that it is."""


def defaults_of(function):
    """Returns the parameters of a function with their defaults: the flags of its command line."""
    parameters = inspect.signature(function).parameters.values()
    return {each.name: "" if each.default is each.empty else each.default for each in parameters}


def help_of(function):
    """A line per flag with its default, from the section Args of the function's description."""
    lines, about = inspect.getdoc(function).split("Args:\n")[1].split("\n\n")[0].splitlines(), {}
    for line in lines:
        if line.startswith("     "):
            about[names[0]] += " " + line.strip()
            continue
        names, _, text = line.strip().partition(": ")
        names = names.split(", ")
        about |= {name: text if name == names[0] or text.startswith("See ") else f"See --{names[0]}." for name in names}
    for name, default in defaults_of(function).items():
        shown = f" [default: {default}]" if default not in ("", None, False) else ""
        yield f"  --{name}\n      " + "\n      ".join(textwrap.wrap(about[name].replace("`", "") + shown, 100))


def check_arguments(given, defaults):
    """Checks that each argument of a call has the type of its default."""
    return {name: check_argument(name, value, defaults[name]) for name, value in given.items()}


def check_argument(name, value, default):
    if default is None or isinstance(value, dict) or (value is None and name == "compute_hash"):
        return value
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise UsageError(f"--{name}: {value!r} is not True or False")
        return value
    if isinstance(default, str):
        if not isinstance(value, (str, os.PathLike)):
            raise UsageError(f"--{name}: {value!r} is not a string")
        return os.fspath(value)
    try:
        return operator.index(value) if isinstance(default, int) else float(value)
    except (TypeError, ValueError):
        raise UsageError(f"--{name}: {value!r} is not a number") from None


def parse_flags(words, defaults, first):
    """Parses flags as Fire does: --name=value, --name value, --name for True; fills in defaults. The first word
    that is not a flag is the value of `first`."""
    given, i = {}, 0
    while i < len(words):
        word = words[i]
        i += 1
        if not word.startswith("--"):
            if first in given:
                raise UsageError(f"unexpected argument '{word}'; write flags as --name value")
            given[first] = word
            continue
        name, is_whole, text = word[2:].partition("=")
        name = name.replace("-", "_")
        if name.startswith("no") and name[2:] in defaults and isinstance(defaults[name[2:]], bool) and not is_whole:
            name, is_whole, text = name[2:], "=", "False"
        if name not in defaults:
            raise UsageError(f"no flag --{name} (see --help)")
        is_flag = isinstance(defaults[name], bool)
        if not is_whole:
            has_value = i < len(words) and not words[i].startswith("--") and (not is_flag or words[i] in ("True", "False"))
            if not has_value and not is_flag:
                raise UsageError(f"--{name} needs a value")
            text, i = (words[i], i + 1) if has_value else ("True", i)
        given[name] = text
    return {name: value(name, given[name], default) if name in given else default for name, default in defaults.items()}


def value(name, text, default):
    """Converts the text of a flag to the type of its default; lists and None are Python literals."""
    if text == "None" and (default is None or name == "compute_hash"):
        return None
    try:
        if isinstance(default, bool):
            return {"True": True, "true": True, "False": False, "false": False}[text]
        if isinstance(default, int):
            return int(text)
        if isinstance(default, float):
            return float(text)
    except (KeyError, ValueError):
        raise UsageError(f"--{name}: '{text}' is not {'True or False' if isinstance(default, bool) else 'a number'}") from None
    return text


def words_of(name, text):
    """Parses a list as Fire does: '["a","b"]', '[a,b]' or a,b."""
    if text is None or isinstance(text, (list, tuple)):
        return text and list(text)
    try:
        found = ast.literal_eval(text)
        return [str(item) for item in found] if isinstance(found, (list, tuple)) else [str(found)]
    except (ValueError, SyntaxError):
        inner = text.strip()
        if inner.startswith("[") != inner.endswith("]"):
            raise UsageError(f"--{name}: '{text}' is not a list") from None
        return [item.strip().strip("\"'") for item in inner.strip("[]").split(",") if item.strip()]


def one_of(name, text, choices):
    if text not in choices:
        raise UsageError(f"--{name}: '{text}' is not one of {', '.join(choices)}")
    return text
