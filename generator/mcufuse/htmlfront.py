# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""A front as a page: arena against instructions, resident input as circles, input by rows as squares."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .config import InputMode
from .explore import Front, Point
from .exploretext import HEADINGS, cells, lay_out_front
from .htmlpage import html_page, scale_ticks, table_html
from .report import Table

__all__ = ["front_page"]

_LEFT, _RIGHT, _TOP, _BOTTOM, _WIDTH, _HEIGHT = 110, 40, 30, 58, 980, 380
_NAMES = {InputMode.RESIDENT: "resident input", InputMode.ROWS: "input by rows"}
_STYLE = """
svg .front { fill: none; stroke: var(--soft); stroke-width: 1.5; } svg .rows.front { stroke-dasharray: 5 4; }
svg .point > * { stroke: var(--ink); stroke-width: 1.5; } svg .resident > .dot { fill: var(--input); }
svg .rows > .dot { fill: var(--map); } svg .now > .halo { fill: none; stroke: var(--accent); stroke-width: 3; }
svg .point:focus { outline: none; } svg .point:focus-visible > .dot, svg .point.on > .dot { stroke: var(--accent);
  stroke-width: 4; }
svg .point text { stroke: none; fill: var(--ink); font-weight: 600; pointer-events: none; }
.keys { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; padding: 0; list-style: none; }
.keys svg { display: inline-block; vertical-align: -5px; margin-right: .4rem; }
"""


def front_page(front: Front) -> str:
    """The page of `mcufuse explore`."""
    table = lay_out_front(front)[0]
    rows = [f'id="point{p.number}"' + (' class="marked" data-kept="yes"' if p.configured else "") for p in front.points]
    figures = Table(HEADINGS, tuple(cells(front, p) for p in front.points))
    frame = '<svg width="24" height="24" aria-hidden="true">'
    keys = "".join(
        f'<li>{frame}<g class="point {mode.value}">{_dot(mode, 12, 12)}</g></svg>{name}</li>'
        for mode, name in _NAMES.items()
    )
    body = (
        f"<header><h1>{escape(table.title)}</h1>\n"
        + "".join(f'<p class="soft">{escape(line)}</p>' for line in table.lines)
        + "</header>\n<main>\n<section><h2>arena against instructions</h2>\n"
        + '<p id="about" aria-live="polite">Point at a plan, or reach it with the Tab key, to read what it is. '
        + f'The ring marks the plan of the configuration as it is.</p>\n<ul class="keys">{keys}</ul>\n'
        + f'<div class="scroll" tabindex="0" role="region" aria-label="plot">{_svg(front)}</div></section>\n'
        + f"<section><h2>plans</h2>\n{table_html(figures, 'plans', rows)}\n"
        + '<p class="soft">mcufuse explore CONFIG --write N pins plan N in the YAML file.</p></section>\n</main>'
    )
    return html_page(f"{table.title}: mcufuse explore", body, _STYLE)


class _Axes:
    """From bytes and instructions to places; both axes with some room around the points."""

    def __init__(self, points: Sequence[Point]) -> None:
        xs, ys = [p.arena_bytes for p in points], [p.instructions for p in points]
        wide, tall = max(max(xs) - min(xs), 1), max(max(ys) - min(ys), 1)
        self.left, self.right = min(xs) - 0.06 * wide, max(xs) + 0.06 * wide
        self.low, self.high = min(ys) - 0.1 * tall, max(ys) + 0.1 * tall

    def x(self, arena: float) -> float:
        return _LEFT + _WIDTH * (arena - self.left) / (self.right - self.left)

    def y(self, instructions: float) -> float:
        return _TOP + _HEIGHT * (1 - (instructions - self.low) / (self.high - self.low))


def _svg(front: Front) -> str:
    axes = _Axes(front.points)
    width, height = _LEFT + _WIDTH + _RIGHT, _TOP + _HEIGHT + _BOTTOM
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    parts = [f'<svg {size} role="group" aria-label="plans by arena bytes and instructions">', _scales(axes)]
    for mode in InputMode:
        line = [p for p in front.points if p.mode is mode and p.on_front]
        path = "L".join(f"{axes.x(p.arena_bytes):.1f} {axes.y(p.instructions):.1f}" for p in line)
        parts.append(f'<path class="front {mode.value}" d="M{path}"/>')
    parts += [_point(axes, front, p) for p in front.points]
    return "\n".join([*parts, "</svg>"])


def _scales(axes: _Axes) -> str:
    parts = []
    for tick in scale_ticks(axes.left, axes.right, 8):
        x = axes.x(tick)
        parts.append(
            f'<path class="grid" d="M{x:.1f} {_TOP}v{_HEIGHT}"/>'
            f'<text class="soft" x="{x:.1f}" y="{_TOP + _HEIGHT + 18}" text-anchor="middle">{tick:,}</text>'
        )
    for tick in scale_ticks(axes.low, axes.high):
        y = axes.y(tick)
        parts.append(
            f'<path class="grid" d="M{_LEFT} {y:.1f}h{_WIDTH}"/>'
            f'<text class="soft" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:,}</text>'
        )
    parts.append(f'<path class="axis" d="M{_LEFT} {_TOP}v{_HEIGHT}h{_WIDTH}" fill="none"/>')
    parts.append(f'<text x="{_LEFT + _WIDTH}" y="{_TOP + _HEIGHT + 42}" text-anchor="end">arena, bytes</text>')
    parts.append(f'<text class="soft" x="{_LEFT - 8}" y="{_TOP - 8}" text-anchor="end">instructions</text>')
    return "".join(parts)


def _dot(mode: InputMode, x: float, y: float) -> str:
    if mode is InputMode.RESIDENT:
        return f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="10"/>'
    return f'<rect class="dot" x="{x - 9:.1f}" y="{y - 9:.1f}" width="18" height="18" rx="2"/>'


def _hides(axes: _Axes, p: Point, other: Point) -> bool:
    """Whether a point of the other input mode, drawn later, would cover this one."""
    near = abs(axes.x(p.arena_bytes) - axes.x(other.arena_bytes)) < 16
    return (
        near
        and other.number > p.number
        and other.mode is not p.mode
        and (abs(axes.y(p.instructions) - axes.y(other.instructions)) < 16)
    )


def _point(axes: _Axes, front: Front, p: Point) -> str:
    x, y = axes.x(p.arena_bytes), axes.y(p.instructions)
    stem = ""
    if any(_hides(axes, p, other) for other in front.points):
        stem = f'<path class="stem" d="M{x:.1f} {y:.1f}v-26"/>'
        y -= 26
    row = dict(zip((h.lstrip(">") for h in HEADINGS), cells(front, p), strict=True))
    now = ", the plan of the configuration as it is" if p.configured else ""
    pinned = f", pinned by {row['pinned by']}" if row["pinned by"] else ""
    about = escape(
        f"Plan {p.number}{now}: {_NAMES[p.mode]}, arena {row['arena']} B, {row['instructions']} instructions "
        f"({row['to fastest']}), {p.stages} entries, {p.streamed_steps} streamed steps, "
        f"scratch {row['scratch']} B{pinned}."
    )
    halo = f'<circle class="halo" cx="{x:.1f}" cy="{y:.1f}" r="15"/>' if p.configured else ""
    return (
        f'<g class="point {p.mode.value}{" now" if p.configured else ""}" tabindex="0" role="img" aria-label="{about}" '
        f'data-about="{about}" data-row="point{p.number}" data-arena="{p.arena_bytes}"><title>{about}</title>'
        f"{stem}{halo}"
        f'{_dot(p.mode, x, y)}<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle">{p.number}</text></g>'
    )
