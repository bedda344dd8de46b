# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The frame of mcufuse's HTML pages: one file that holds all it needs and asks nothing of the network."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .report import Block, Table

__all__ = ["block_html", "html_page", "scale_ticks", "table_html"]

_STYLE = """
:root { color-scheme: light dark; --back: #ffffff; --text: #1b1f24; --soft: #57606a; --line: #d0d7de; --band: #f3f5f8;
  --accent: #0b57b5; --warn: #a3231a; --input: #9cc4f2; --output: #9bd8a5; --map: #f5cd8c; --ring: #cdb5ee;
  --scratch: #c9ced6; --state: #8fd3d0; --ink: #14181d; }
@media (prefers-color-scheme: dark) { :root { --back: #14181d; --text: #e8ebef; --soft: #a3adb8; --line: #3a424c;
  --band: #1d232a; --accent: #7db4f8; --warn: #ff9a90; --input: #6fa3dc; --output: #6fb97c; --map: #d6a656;
  --ring: #a98fd6; --scratch: #929ca8; --state: #5fb0ad; --ink: #0c0f12; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 76rem; background: var(--back); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
p, ul { margin: .25rem 0; } .soft { color: var(--soft); }
.figures { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1rem 0; padding: 0; list-style: none; }
.figures li { border: 1px solid var(--line); border-radius: 8px; padding: .5rem .9rem; min-width: 8rem; }
.figures b { display: block; font-size: 1.2rem; font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; margin: .5rem 0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; text-align: left; white-space: nowrap; border-bottom: 1px solid var(--line); }
thead th { background: var(--band); font-weight: 600; } tbody tr:last-child > * { border-bottom: 0; }
tbody tr.marked { background: var(--band); box-shadow: inset 4px 0 var(--accent); font-weight: 600; }
.r { text-align: right; } td.free { white-space: normal; }
svg { display: block; } svg text { fill: var(--text); font: 12px system-ui, sans-serif; }
svg .soft { fill: var(--soft); } svg .grid { stroke: var(--line); } svg .axis { stroke: var(--soft); }
svg .ink { fill: var(--ink); font-weight: 600; pointer-events: none; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 1px; }
#about { min-height: 3.2em; padding: .5rem .9rem; background: var(--band); border-radius: 8px; margin: .5rem 0; }
""".strip()

_SCRIPT = """
const about = document.getElementById("about");
const first = about ? about.textContent : "";
for (const part of document.querySelectorAll("[data-about]")) {
  const row = document.getElementById(part.dataset.row || "");
  const tell = (on) => {
    about.textContent = on ? part.dataset.about : first;
    part.classList.toggle("on", on);
    if (row) row.classList.toggle("marked", on || row.dataset.kept === "yes");
  };
  for (const event of ["mouseenter", "focus"]) part.addEventListener(event, () => tell(true));
  for (const event of ["mouseleave", "blur"]) part.addEventListener(event, () => tell(false));
}
""".strip()


def html_page(title: str, body: str, style: str = "") -> str:
    """The whole page. Its content policy forbids the browser to load anything.

    An element with `data-about` shows that text in the element `about` while the pointer or the focus is on it, and
    marks the table row whose id is its `data-row`.
    """
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{_STYLE}\n{style}</style>\n</head>\n<body>\n"
        f"{body}\n<script>\n{_SCRIPT}\n</script>\n</body>\n</html>\n"
    )


def block_html(block: Block, rows: Sequence[str] = (), *, caption: str = "") -> str:
    """A section with the block's lines and table; `rows` are attributes of the table's rows."""
    parts = [f"<section>\n<h2>{escape(caption or block.title)}</h2>"]
    if block.lines:
        parts.append("<ul>" + "".join(f"<li>{escape(line)}</li>" for line in block.lines) + "</ul>")
    if block.table is not None:
        parts.append(table_html(block.table, caption or block.title, rows))
    return "\n".join([*parts, "</section>"])


def table_html(table: Table, caption: str, rows: Sequence[str] = ()) -> str:
    """A table that scrolls by itself where the window is narrow."""
    right = [heading.startswith(">") for heading in table.headings]
    head = "".join(
        f'<th scope="col"{_side(r)}>{escape(h.lstrip(">")) or "&nbsp;"}</th>'
        for h, r in zip(table.headings, right, strict=True)
    )
    lines = []
    for i, cells in enumerate(table.rows):
        row = "".join(f"<td{_side(r)}>{escape(cell)}</td>" for cell, r in zip(cells, right, strict=True))
        lines.append(f"<tr{' ' + rows[i] if i < len(rows) and rows[i] else ''}>{row}</tr>")
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n" + "\n".join(lines) + "\n</tbody>\n</table></div>"
    )


def _side(right: bool) -> str:
    return ' class="r"' if right else ""


def scale_ticks(low: float, high: float, most: int = 6) -> list[int]:
    """Round numbers for an axis from `low` to `high`: steps of 1, 2 or 5 times a power of ten, at most `most`."""
    unit = 1
    while True:
        for step in (unit, 2 * unit, 5 * unit):
            ticks = list(range(int(-(-low // step)) * step, int(high // step) * step + 1, step))
            if len(ticks) <= most:
                return ticks
        unit *= 10
