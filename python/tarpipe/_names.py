"""Names of shards: which of them are plain files that can be read without a process."""

from __future__ import annotations

import glob
import os
import re

from ._error import Error

# More are left to tarcat, which reports that they are too many.
MAX_NAMES = 1_000_000
# {000..147} or {a,b}; braces within braces are left to tarcat.
_braces = re.compile(r"(?<!\$)\{(?:(\d{1,18})\.\.(\d{1,18})|([^{},]*,[^{}]*))\}")


def expand_globs(names: list[str]) -> list[str]:
    """Expands local names with *, ? or [ to the files they match, in order, as a shell does. Names in object stores
    are expanded by the tools."""
    found: list[str] = []
    for name in names:
        if not glob.has_magic(name) or "://" in name or name.startswith("pipe:") or os.path.exists(name):
            found.append(name)
            continue
        files = sorted(file for each in expand_braces(name) or [name] for file in glob.glob(each))
        if not files:
            raise Error(f"{name}: no such files")
        found += files
    return found


def local_files(names: list[str]) -> list[str] | None:
    """Returns the files that these names refer to if all of them are regular files on this machine, else None."""
    files: list[str] = []
    for name in names:
        expanded = [name] if os.path.exists(name) else expand_braces(name)
        if expanded is None or not all(map(os.path.isfile, expanded)):
            return None
        files += expanded
    return files


def expand_braces(name: str) -> list[str] | None:
    """Expands the ranges and lists of a name, as tarcat does; None if that is left to tarcat."""
    found = _braces.search(name)
    if found is None:
        return None if "{" in name and "," in name or "::" in name else [name]
    tails = expand_braces(name[found.end() :])
    if found[3] is not None:
        choices = found[3].split(",")
    else:
        choices = numbers(found[1], found[2])
    if tails is None or len(choices) * len(tails) > MAX_NAMES:
        return None
    return [name[: found.start()] + choice + tail for choice in choices for tail in tails]


def numbers(first: str, last: str) -> list[str]:
    """Returns the numbers of a range, padded with zeros if one of its ends is."""
    is_padded = any(len(end) > 1 and end[0] == "0" for end in (first, last))
    width = max(len(first), len(last)) if is_padded else 0
    low, high = sorted((int(first), int(last)))
    if high - low >= MAX_NAMES:
        return [""] * (MAX_NAMES + 1)
    found = [f"{number:0{width}}" for number in range(low, high + 1)]
    return found if int(first) <= int(last) else found[::-1]
