"""Writes a completion script for img2dataset, video2dataset or any2dataset, from the parameters of its Python function.

    python3 scripts/packaging/dropin_completions.py PROGRAM bash|zsh|fish
"""

import importlib
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
from tarpipe.dropin.dataset import OUTPUTS, TABLES
from tarpipe.dropin.flags import defaults_of, help_of
from tarpipe.dropin.running import ENGINES
from tarpipe.img2dataset import FILTERS, HASHES, MODES

# The values of flags; those of all other flags are completed as files.
VALUES = {
    "output_format": tuple(OUTPUTS), "input_format": TABLES, "distributor": ("multiprocessing", *ENGINES),
    "incremental_mode": ("incremental", "overwrite", "extend"), "stage": ("download", "subset"), "resize_mode": MODES,
    "upscale_interpolation": tuple(FILTERS), "downscale_interpolation": tuple(FILTERS), "compute_hash": HASHES,
}  # fmt: skip


def flags_of(program):
    """Returns the name, values and description of each flag."""
    function = getattr(importlib.import_module(f"tarpipe.{program}"), {"img2dataset": "download"}.get(program, program))
    lines = {}
    for entry in help_of(function):
        name, _, text = entry.strip().removeprefix("--").partition("\n")
        text = re.sub(r" \[default: [^]]*\]$", "", " ".join(text.split()))
        lines[name] = re.split(r"(?<=[^.]\w)[.:;] ", text)[0].rstrip(".").replace("'", "’")
    for name, default in defaults_of(function).items():
        known = {**VALUES, "resize_mode": ()} if program == "video2dataset" else VALUES
        yield name, ("True", "False") if isinstance(default, bool) else known.get(name, ()), lines[name]


def bash(program, flags):
    cases = "".join(f"        --{name}) COMPREPLY=($(compgen -W '{' '.join(values)}' -- \"$cur\")); return ;;\n" for name, values, _ in flags if values)
    names = " ".join(f"--{name}" for name, _, _ in flags)
    return f"""_{program}() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}}
    if [[ $cur == = ]]; then
        cur=
    elif [[ $prev == = ]]; then
        prev=${{COMP_WORDS[COMP_CWORD-2]}}
    fi
    case $prev in
{cases}    esac
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W '{names}' -- "$cur"))
    else
        COMPREPLY=($(compgen -f -- "$cur"))
    fi
}}
complete -o filenames -F _{program} {program}
"""


def zsh(program, flags):
    escape = lambda text: re.sub(r"([\[\]:\\])", r"\\\1", text)  # noqa: E731
    value = lambda values: f"({' '.join(values)})" if values else "_files"  # noqa: E731
    lines = (f"  '--{name}=[{escape(about)}]:{name}:{value(values)}' \\\n" for name, values, about in flags)
    return f"#compdef {program}\n\n_arguments \\\n{''.join(lines)}  '*:table:_files'\n"


def fish(program, flags):
    values = lambda values: f" -f -a '{' '.join(values)}'" if values else ""  # noqa: E731
    return "".join(f"complete -c {program} -l {name} -r{values(choices)} -d '{about}'\n" for name, choices, about in flags)


if __name__ == "__main__":
    program, shell = sys.argv[1:]
    sys.stdout.write({"bash": bash, "zsh": zsh, "fish": fish}[shell](program, list(flags_of(program))))
