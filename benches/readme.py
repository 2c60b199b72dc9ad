"""The table of performance in the README, from the figures that are kept."""

import re

import results

START, END = "<!-- from scripts/bench -->", "<!-- end of scripts/bench -->"


# Why a bench is below a bar of its own, for those who wonder. Bars themselves stand in the benches.
REASONS = {
    "engines": "beside the same shell, an item is a result that comes back and a line of the job log",
    "fetch": "fetch hashes every file, which curl does not",
    "stores": "the server runs on the same cores, and writing is its work",
    "compression": "of texts deflate is nearly all, and there is one way to do it: two threads share it",
    "tarproc": "nearly all is the start of the shell; beside it tarproc gives each sample an environment, hears what the command says, lists, reads and packs what it left",
    "tarresize": "half of it is the Huffman decoder of libjpeg-turbo, which the peers run too; two cores share caches and memory",
}


def write(path, kept):
    """Puts the table where the README has its place."""
    text = path.read_text()
    before, rest = text.split(START)
    _, after = rest.split(END)
    path.write_text(before + START + "\n" + table(kept) + END + after)


def table(kept):
    """Machines and headlines, in Markdown."""
    dates = {}
    for bench in kept.values():
        dates.setdefault(bench["machine"], set()).add(bench["date"])
    machines = [f"{machine} ({', '.join(sorted(days))})" for machine, days in sorted(dates.items())]
    lines = ["Measured on " + "; ".join(machines) + ", by medians of interleaved runs.", ""]
    lines += ["| job | ours | against |", "|---|---|---|"]
    for bench in kept.values():
        lines += [row(comparison) for comparison in bench["comparisons"] if comparison["headline"]]
    return "\n".join(lines) + "\n" + below(kept)


def below(kept):
    """Bars that are missed, bench by bench, and why."""
    lines = []
    for name, bench in kept.items():
        missed = [f"  - {one['title']}: {bar['text']}" for one in bench["comparisons"] for bar in one["bars"] if not bar["met"]]
        lines += [f"- {name}{f': {REASONS[name]}' if name in REASONS else ''}", *missed] if missed else []
    return "\n".join(["\nBelow the bar that was set for it:\n", *lines]) + "\n" if lines else ""


def row(comparison):
    ours, rows = comparison["headline"], comparison["rows"]
    figures, items = rows[ours], comparison["items"]
    amount, unit = (items, comparison["unit"]) if items else ((comparison.get("size") or 0) / 1e6, "MB")
    rate = f" {number(amount / figures['cpu'])} {unit} a CPU second," if amount else ""
    program = lambda name: re.split("[ ,]", name)[0]  # other ways of the same are no peers
    others = [name for name in results.floors_last(rows) if program(name) != program(ours) and "(taken off)" not in name]
    peers = [f"{number(rows[peer]['cpu'] / figures['cpu'])} × {peer}" for peer in others]
    cells = [comparison["title"], f"`{ours}`{rate} {figures['rss'] / 1024:.0f} MB of memory", ", ".join(peers)]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def number(value):
    """Two or three digits that count."""
    if value >= 100:
        digits = len(str(int(value))) - 2
        return f"{round(value, -digits + (1 if digits > 1 else 0)):,.0f}" if value >= 1000 else f"{value:.0f}"
    if value < 0.005:
        return "under 0.01"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
