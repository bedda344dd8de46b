# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""A report as a page: the arena in time as a drawing, and the tables of the terminal.

bytes |  +--------+              a buffer is a rectangle: from the first to the last entry of the schedule
|  |B  ring |+--------+    in which it lives, and from its first to its last byte
|  +--------+|C       |
|A        |  |        |    rectangles overlap where a result is written over what has been read
+---------------------
entries of the schedule
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from .htmlpage import block_html, html_page, scale_ticks
from .report import Block, Report, lay_out, marked_buffers

__all__ = ["arena_svg", "report_page"]

_LEFT, _RIGHT, _TOP, _PLOT = 74, 24, 34, 440  # margins, and the height of the drawing
_LEAST_WIDTH, _ENTRY = 1040, 34  # of the drawing, and of an entry where that is more
_LABEL = 6.4  # width of a character
_ROLES = {
    "input": "input of the network",
    "output": "output of the network",
    "map": "whole map",
    "ring": "line buffer: the last rows of a map (hatched)",
    "scratch": "scratch of a kernel (dotted)",
    "state": "state of a reduction",
}
_STYLE = """
svg .buffer > rect { stroke: var(--ink); stroke-width: 1; fill-opacity: .82; }
svg .buffer.on > rect:first-of-type { stroke: var(--accent); stroke-width: 3; }
svg .buffer:focus { outline: none; } svg .buffer:focus-visible > rect:first-of-type { stroke: var(--accent);
  stroke-width: 4; }
svg .stage { fill: var(--band); } svg .peak { stroke: var(--warn); stroke-width: 2; }
svg .bound { stroke: var(--text); stroke-width: 2; stroke-dasharray: 7 4; }
svg .note, svg .ink { stroke: var(--halo); stroke-width: 3px; stroke-linejoin: round; paint-order: stroke; }
svg .note { font-weight: 600; stroke: var(--back); }
:root { --halo: rgb(255 255 255 / .55); }
@media (prefers-color-scheme: dark) { :root { --halo: rgb(255 255 255 / .35); } }
.keys { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; padding: 0; list-style: none; }
.keys svg { display: inline-block; vertical-align: -3px; margin-right: .4rem; }
"""


def report_page(report: Report) -> str:
    """The page of a report.json."""
    blocks = {block.title: block for block in lay_out(report)}
    head = next(iter(blocks.values()))
    title = f"{report['name']} on {report.get('core', 'an unknown core')}"
    parts = [f"<header><h1>{escape(title)}</h1>", _paragraphs(head), _figures(report), "</header>\n<main>"]
    if report.get("buffers"):
        parts.append(_picture(report))
    parts += [block_html(blocks[name]) for name in ("memory", "steps") if name in blocks]
    if "arena" in blocks:
        ids = [f'id="buffer{i}"' for i in range(len(marked_buffers(report)))]
        parts.append(block_html(blocks["arena"], ids, caption="buffers of the arena"))
    return html_page(f"{title}: mcufuse report", "\n".join([*parts, "</main>"]), _STYLE)


def _paragraphs(block: Block) -> str:
    return "".join(f'<p class="soft">{escape(line)}</p>' for line in block.lines)


def _figures(report: Report) -> str:
    known = (
        ("arena", "arena_bytes", " B"), ("lower bound", "arena_lower_bound", " B"), ("stack", "stack_bytes", " B"),
        ("weights", "weights_bytes", " B"), ("code", "code_bytes", " B"), ("MACs", "macs", ""),
        ("instructions", "instructions", ""),
    )  # fmt: skip
    items = [(label, report[key], unit) for label, key, unit in known if report.get(key) is not None]
    return '<ul class="figures">' + "".join(f"<li>{a}<b>{b:,}{unit}</b></li>" for a, b, unit in items) + "</ul>"


def _picture(report: Report) -> str:
    roles = [role for role in _ROLES if any(b.get("role") == role for b in report["buffers"])]
    keys = "".join(
        f'<li><svg width="22" height="16" aria-hidden="true">{_box(role, 1, 1, 20, 14)}</svg>{_ROLES[role]}</li>'
        for role in roles
    )
    return (
        "<section>\n<h2>the arena in time</h2>\n"
        '<p id="about" aria-live="polite">Point at a buffer, or reach it with the Tab key, to read what it is. '
        f'{_how(report)}</p>\n<ul class="keys">{keys}</ul>\n'
        f'<div class="scroll" tabindex="0" role="region" aria-label="the arena in time">{arena_svg(report)}</div>\n'
        "</section>"
    )


def _how(report: Report) -> str:
    streamed = any(len(names) > 1 for names in _entries(report))
    return "Shaded entries are stages whose steps run row by row." if streamed else "Each entry is one step."


def _entries(report: Report) -> list[list[str]]:
    """The names of the steps of each entry of the schedule."""
    count = max((b["last"] for b in report["buffers"]), default=0)
    count = max(count, *(s.get("stage", 0) for s in report.get("steps") or [{}])) + 1
    names: list[list[str]] = [[] for _ in range(count)]
    for step in report.get("steps") or ():
        names[step.get("stage", 0)].append(str(step["name"]))
    return names


def _box(role: str, x: float, y: float, width: float, height: float) -> str:
    """A rectangle in the colour of a role, and its hatching."""
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="2"'
    colour = role if role in _ROLES else "map"
    over = f'<rect {place} fill="url(#{role})" stroke="none"/>' if role in ("ring", "scratch") else ""
    return f'<rect {place} style="fill: var(--{colour})"/>{over}'


_PATTERNS = (
    '<defs><pattern id="ring" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<path d="M0 0V7" stroke="currentColor" stroke-opacity=".35" stroke-width="2"/></pattern>'
    '<pattern id="scratch" width="6" height="6" patternUnits="userSpaceOnUse">'
    '<circle cx="3" cy="3" r="1.1" fill="currentColor" fill-opacity=".5"/></pattern></defs>'
)


class _Axes:
    """From entries and bytes to places in the drawing."""

    def __init__(self, entries: int, size: int) -> None:
        self.width = max(_LEAST_WIDTH, _ENTRY * entries)
        self.entry = self.width / entries
        self.top = size * 1.1

    def x(self, entry: float) -> float:
        return _LEFT + entry * self.entry

    def y(self, at: float) -> float:
        return _TOP + _PLOT * (1 - at / self.top)

    def place(self, b: Mapping[str, Any]) -> tuple[float, float, float, float]:
        """x, y, width and height of a buffer."""
        x, y = self.x(b["first"]) + 1.5, self.y(b["offset"] + b["size"])
        return x, y, self.x(b["last"] + 1) - 1.5 - x, self.y(b["offset"]) - y


def arena_svg(report: Report) -> str:
    """The drawing; every buffer carries its name, size and place as text and as data- attributes."""
    names = _entries(report)
    size = max(report["arena_bytes"], 1)
    axes = _Axes(len(names), size)
    slanted = max((len(_label(n)) for n in names), default=0) * _LABEL > axes.entry
    foot = 96 if slanted else 46
    width, height = _LEFT + axes.width + _RIGHT, _TOP + _PLOT + foot
    frame = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    label = f"{escape(str(report['name']))}: buffers by entry of the schedule and bytes"
    below = "entries of the schedule, in the order in which they run"
    parts = [
        f'<svg {frame} role="group" aria-label="{label}">',
        _PATTERNS,
        _stages(axes, names, slanted),
        _scale(axes, size),
        *_rectangles(axes, report, names),
        f'<g aria-hidden="true">{"".join(_captions(axes, report))}</g>',
        _lines(axes, report),
        f'<text class="soft" x="{_LEFT}" y="{height - 8}">{below}</text>',
        "</svg>",
    ]
    return "\n".join(parts)


def _label(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]}..{names[-1]}" if names else ""


def _stages(axes: _Axes, names: Sequence[Sequence[str]], slanted: bool) -> str:
    parts = []
    for s, steps in enumerate(names):
        left, middle, under = axes.x(s), axes.x(s + 0.5), _TOP + _PLOT + 18
        if len(steps) > 1:
            parts.append(
                f'<rect class="stage" x="{left:.1f}" y="{_TOP}" width="{axes.entry:.1f}" height="{_PLOT}"/>'
                f'<text class="soft" x="{middle:.1f}" y="{_TOP - 8}" text-anchor="middle">{len(steps)} steps</text>'
            )
        parts.append(f'<path class="grid" d="M{left:.1f} {_TOP}V{_TOP + _PLOT + 5}"/>')
        turn = (
            f' transform="rotate(-40 {middle:.1f} {under})" text-anchor="end"' if slanted else ' text-anchor="middle"'
        )
        parts.append(f'<text x="{middle:.1f}" y="{under}"{turn}>{escape(_label(steps))}</text>')
    return "".join(parts)


def _scale(axes: _Axes, size: int) -> str:
    parts = [f'<text class="soft" x="{_LEFT - 8}" y="{_TOP - 8}" text-anchor="end">bytes</text>']
    for tick in scale_ticks(0, size):
        y = axes.y(tick)
        parts.append(
            f'<path class="grid" d="M{_LEFT} {y:.1f}h{axes.width}"/>'
            f'<text class="soft" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:,}</text>'
        )
    parts.append(f'<path class="axis" d="M{_LEFT} {_TOP}V{_TOP + _PLOT}h{axes.width}" fill="none"/>')
    return "".join(parts)


def _rectangles(axes: _Axes, report: Report, names: Sequence[Sequence[str]]) -> list[str]:
    """The largest first, so that no small one is hidden."""
    marked = list(enumerate(marked_buffers(report)))
    marked.sort(key=lambda item: -item[1][1]["size"] * (item[1][1]["last"] - item[1][1]["first"] + 1))
    return [_rectangle(axes, i, mark, buffer, names) for i, (mark, buffer) in marked]


def _rectangle(axes: _Axes, i: int, mark: str, b: Mapping[str, Any], names: Sequence[Sequence[str]]) -> str:
    x, y, width, height = axes.place(b)
    role, name = str(b.get("role", "map")), str(b["name"])
    when = f"entry {b['first']}" if b["first"] == b["last"] else f"entries {b['first']} to {b['last']}"
    begins, ends = _label(names[b["first"]]), _label(names[b["last"]])
    during = begins if b["first"] == b["last"] else f"{begins} to {ends}"
    rows = f", {b['rows']} rows" if role == "ring" and b.get("rows") else ""
    text = (
        f"{mark}: {name}, {_ROLES.get(role, role).partition(' (')[0]}{rows}. {b['size']:,} bytes at "
        f"{b['offset']:,} to {b['offset'] + b['size']:,}, {when} ({during})."
    )
    about = escape(text)
    return (
        f'<g class="buffer" tabindex="0" role="img" aria-label="{about}" data-about="{about}" data-row="buffer{i}" '
        f'data-name="{escape(name)}" data-size="{b["size"]}" data-offset="{b["offset"]}"><title>{about}</title>'
        f"{_box(role, x, y, width, max(height, 1.5))}</g>"
    )


def _captions(axes: _Axes, report: Report) -> list[str]:
    """As much of letter, name and size as fits into each rectangle's first entry, over all of them."""
    parts = []
    for mark, b in marked_buffers(report):
        x, y, width, height = axes.place(b)
        choices = (f"{mark} {b['name']} {b['size']:,} B", f"{mark} {b['name']}", mark)
        text = next((c for c in choices if len(c) * _LABEL + 8 <= min(width, axes.entry)), "")
        if text and height >= 12:
            down = min(height / 2 + 4, 14)
            parts.append(f'<text class="ink" x="{x + 4:.1f}" y="{y + down:.1f}">{escape(text)}</text>')
    return parts


def _lines(axes: _Axes, report: Report) -> str:
    """The arena's size and its proven lower bound."""
    arena, bound = report["arena_bytes"], report.get("arena_lower_bound")
    y = axes.y(arena)
    text = f"arena {arena:,} B"
    parts = [f'<path class="peak" d="M{_LEFT} {y:.1f}h{axes.width}"/>']
    if bound is not None:
        text += ", which is the lower bound (dashed)" if bound == arena else f"; lower bound {bound:,} B (dashed)"
        low = y + 3 if bound == arena else axes.y(bound)
        parts.append(f'<path class="bound" d="M{_LEFT} {low:.1f}h{axes.width}"/>')
    parts.append(f'<text class="note" x="{_LEFT + 6}" y="{y - 7:.1f}">{text}</text>')
    return "".join(parts)
