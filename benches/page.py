"""All figures on one page: a table a comparison, a curve where its rows are points of one."""

import html
import math

import results

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222; }
table { border-collapse: collapse; width: 100%; margin: .5em 0 1em; } td, th { padding: .15em .6em; text-align: right; } th, td + td { white-space: nowrap; }
th { border-bottom: 1px solid #999; font-weight: 600; } td:first-child, th:first-child { text-align: left; }
tr.ours td { font-weight: 600; } .bar { background: #4a7ebb; height: .7em; display: inline-block; } .floor { background: #aaa; }
.met { color: #27632a; } .missed { color: #a11; font-weight: 600; } svg { width: 49%; } h3 { margin: 1.5em 0 .2em; font-size: 1em; }
"""


def page(kept):
    """The page, whole in itself."""
    parts = ["<!doctype html><meta charset=utf-8><title>tarpipe: bench</title>", f"<style>{STYLE}</style><h1>tarpipe: bench</h1>"]
    for name, bench in kept.items():
        parts.append(f"<h2>{html.escape(name)}</h2><p>{html.escape(bench['machine'])}, {bench['date']}</p>")
        parts += [comparison(one) for one in bench["comparisons"]]
    return "\n".join(parts) + "\n"


def comparison(one):
    """Title, figures and bars of one comparison."""
    parts = [f"<h3>{html.escape(one['title'])}</h3>"]
    if one["curve"]:
        parts += [curves(one), "<details><summary>figures</summary>", table(one), "</details>"]
    else:
        parts.append(table(one))
    parts += [f"<div class={'met' if bar['met'] else 'missed'}>{'met' if bar['met'] else 'missed'}: {html.escape(bar['text'])}</div>" for bar in one["bars"]]
    return "\n".join(parts)


def table(one):
    """The figures of a comparison, a row a contestant."""
    longest = max(row["cpu"] for row in one["rows"].values()) or 1
    parts = ["<table><tr><th>contestant<th>wall<th>±<th>CPU<th>memory<th>per item<th>bytes<th style='width:25%'>"]
    for name in results.floors_last(one["rows"]):
        row = one["rows"][name]
        items = one["items"] or row.get("items")
        each = f"{row['cpu'] / items * 1e6:,.1f} µs" if items else ""
        rate = f"{one['size'] / row['cpu'] / 1e6:,.0f} MB/s" if one.get("size") and row["cpu"] else ""
        bar = f"<span class='bar{' floor' if '(floor)' in name else ''}' style='width:{row['cpu'] / longest:.1%}'></span>"
        mark = " class=ours" if name == one["headline"] else ""
        measured = f"{row['spread']:.0%}<td>{row['cpu']:.3f} s<td>{row['rss'] / 1024:.1f} MB" if row["cpu"] else "<td><td>"
        parts.append(f"<tr{mark}><td>{html.escape(name)}<td>{row['wall']:.3f} s<td>{measured}<td>{each}<td>{rate}<td style='text-align:left'>{bar}")
    return "\n".join([*parts, "</table>"])


def curves(one):
    """Cost of a sample and memory over the size of the input, one line a tool."""
    lines = {}
    for row in one["rows"].values():
        lines.setdefault(row["line"], []).append((row["at"], row["cpu"] / row["items"] * 1e6, row["rss"] / 1024))
    return curve("CPU of a sample, µs", lines, 1, one["curve"]) + curve("peak memory, MB", lines, 2, one["curve"])


def curve(title, lines, field, axis):
    """One picture: both axes are logarithmic, since what counts is whether a line is level."""
    points = [point for line in lines.values() for point in line]
    low, high = (f(math.log10(max(point[field], 1e-3)) for point in points) for f in (min, max))
    first, last = (f(math.log10(point[0]) for point in points) for f in (min, max))
    x = lambda value: 45 + 230 * (math.log10(value) - first) / ((last - first) or 1)
    y = lambda value: 185 - 150 * (math.log10(max(value, 1e-3)) - low) / ((high - low) or 1)
    labels = apart([y(line[-1][field]) + 3 for line in lines.values()])
    parts = [f"<svg viewBox='0 0 400 220' font-size='9'><text x='45' y='14' font-weight='600'>{html.escape(title)}</text>"]
    parts += [f"<text x='{x(at):.0f}' y='205' text-anchor='middle'>{at:,}</text>" for at in sorted({point[0] for point in points})]
    parts.append(f"<text x='45' y='217'>{html.escape(axis)}</text>")
    for number, (name, line) in enumerate(lines.items()):
        color = f"hsl({number * 360 // len(lines)} 60% 42%)"
        path = " ".join(f"{x(point[0]):.1f},{y(point[field]):.1f}" for point in line)
        parts.append(f"<polyline points='{path}' fill='none' stroke='{color}' stroke-width='1.5'/>")
        label = f"{name} {line[-1][field]:,.1f}"
        parts.append(f"<text x='{x(line[-1][0]) + 4:.0f}' y='{labels[number]:.0f}' fill='{color}'>{html.escape(label)}</text>")
    return "".join([*parts, "</svg>"])


def apart(places, step=10):
    """Where labels go that want to be at these heights: as near as they can without covering each other."""
    order = sorted(range(len(places)), key=places.__getitem__)
    found, next_free = {}, 0
    for number in order:
        found[number] = max(places[number], next_free)
        next_free = found[number] + step
    # What was pushed below the picture pushes the others up.
    last_free = 195
    for number in reversed(order):
        found[number] = min(found[number], last_free)
        last_free = found[number] - step
    return found
