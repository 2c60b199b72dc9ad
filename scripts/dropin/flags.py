"""Flags as Fire reads them."""

import ast

from . import Mistake


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
