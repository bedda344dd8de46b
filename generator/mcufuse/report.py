# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Shows a report.json: what was removed, memory against its bounds and budgets, steps, and a picture of the arena.

A report is first laid out as blocks (lines and tables); blocks are then printed with rich on a terminal, and as
plain text everywhere else. Figures that are not known yet, such as code size before a link, read "-".
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from .errors import UserError
from .units import format_count

__all__ = [
    "Block", "Report", "Table", "lay_out", "load_report", "marked_buffers", "memory_map", "render_plain", "show_blocks",
    "show_report",
]  # fmt: skip

SCHEMA_VERSION = 1

_MARKS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_MAP_WIDTH = 64
_MAP_ROWS = 40

Report = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings; a heading that begins with ">" has its column aligned to the right."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(slots=True)
class Block:
    """A title with lines and tables; `literal` lines keep their spaces (pictures)."""

    title: str
    lines: list[str] = field(default_factory=list)
    table: Table | None = None
    literal: list[str] = field(default_factory=list)


def load_report(path: Path) -> dict[str, Any]:
    """Reads a report.json; raises `UserError` if it is none, or of another version of the schema."""
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(
            f"cannot be read: {error.strerror or error}",
            place=str(path),
            hint="name a directory that `mcufuse compile -o DIR` wrote, or a configuration",
        ) from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"is not JSON: {error}", place=str(path)) from error
    if not isinstance(report, dict) or "arena_bytes" not in report or "name" not in report:
        raise UserError("is not a report of mcufuse", place=str(path))
    if report.get("schema", SCHEMA_VERSION) != SCHEMA_VERSION:
        raise UserError(
            f"has schema {report['schema']}, this version of mcufuse reads {SCHEMA_VERSION}",
            place=str(path),
            hint="compile the network again",
        )
    return report


def show_report(report: Report, *, stream: TextIO | None = None) -> None:
    """Prints a report on `stream` (standard output)."""
    show_blocks(lay_out(report), stream=stream)


def show_blocks(blocks: Sequence[Block], *, stream: TextIO | None = None) -> None:
    """Prints blocks on `stream` (standard output): with rich on a terminal, as plain text elsewhere."""
    stream = sys.stdout if stream is None else stream
    if stream.isatty():
        _print_rich(blocks, stream)
    else:
        stream.write(render_plain(blocks))


def lay_out(report: Report) -> list[Block]:
    """The blocks of a report, in order; parts that the report does not have are left out."""
    parts = [_memory(report), _steps(report), _buffers(report), _arena_picture(report)]
    return [_head(report), *(block for block in parts if block.table or block.literal)]


def _head(report: Report) -> Block:
    block = Block(f"{report['name']} on {report.get('core', 'an unknown core')}")
    block.lines += [str(note) for note in report.get("notes", ())]
    check = report.get("verified")
    if check:
        block.lines.append(str(check))
    flags = " ".join(report.get("cflags", ()))
    if flags:
        block.lines.append(f"figures hold for {flags}" + (f", {report['toolchain']}" if "toolchain" in report else ""))
    return block


def _memory(report: Report) -> Block:
    rows = [_arena_row(report)]
    rows += [
        ("state", _bytes(report.get("state_bytes")), ""),
        ("stack", _bytes(report.get("stack_bytes")), _stack_remark(report)),
        ("weights", _bytes(report.get("weights_bytes")), ""),
        ("code", _bytes(report.get("code_bytes")), ""),
    ]
    budget = report.get("budget") or {}
    for key, parts in (
        ("ram", ("arena_bytes", "state_bytes", "stack_bytes")),
        ("flash", ("weights_bytes", "code_bytes")),
    ):
        known = [report[part] for part in parts if report.get(part) is not None]
        missing = [part.removesuffix("_bytes") for part in parts if report.get(part) is None]
        rows.append((f"{key} in all", _bytes(sum(known)), _headroom(budget.get(key), sum(known), missing)))
    return Block("memory", table=Table(("what", ">bytes", "remark"), tuple(rows)))


def _arena_row(report: Report) -> tuple[str, str, str]:
    arena, bound = report["arena_bytes"], report.get("arena_lower_bound")
    if bound is None:
        return "arena", _bytes(arena), ""
    gap = arena - bound
    remark = (
        f"lower bound {_bytes(bound)}, met"
        if gap == 0
        else f"lower bound {_bytes(bound)}, gap {gap:,} B ({gap / bound:.1%})"
        if bound
        else f"gap {gap:,} B"
    )
    method = report.get("arena_method")
    return "arena", _bytes(arena), f"{remark} ({method})" if method else remark


def _stack_remark(report: Report) -> str:
    measured = report.get("stack_measured_bytes")
    return f"bound; {measured:,} B seen" if measured is not None and report.get("stack_bytes") is not None else ""


def _headroom(limit: int | None, used: int, missing: Sequence[str]) -> str:
    without = f" (without {', '.join(missing)})" if missing else ""
    if limit is None:
        return f"no budget given{without}"
    left = limit - used
    verdict = f"{left:,} B free" if left >= 0 else f"{-left:,} B TOO MUCH"
    return f"{used / limit:.0%} of the budget of {limit:,} B, {verdict}{without}"


def _steps(report: Report) -> Block:
    steps = report.get("steps") or ()
    if not steps:
        return Block("steps")
    stages = report.get("stages")
    headings = ["step", "operators", "kernel", ">stage", ">MACs"]
    headings += [">instructions", ">per MAC"] if stages else []
    rows = []
    shown: set[int] = set()
    for step in steps:
        operators = "+".join(str(kind) for kind in step.get("operators", ()))
        row = [str(step["name"]), operators, str(step.get("kernel", "")), str(step.get("stage", ""))]
        row.append(format_count(step["macs"]) if step.get("macs") else "")
        if stages:  # counted by stage: on the line of its first step
            stage = step.get("stage", -1)
            known = stage not in shown and 0 <= stage < len(stages)
            row += _measured(stages[stage]) if known else ["", ""]
            shown.add(stage)
        rows.append(tuple(row))
    total = ["total", "", "", "", format_count(report.get("macs") or 0)]
    total += _measured(report) if stages else []
    rows.append(tuple(total))
    return Block("steps", table=Table(tuple(headings), tuple(rows)))


def _measured(part: Report) -> list[str]:
    """Instructions, and instructions for each multiply-accumulate."""
    count, macs = part.get("instructions"), part.get("macs")
    if count is None:
        return ["-", ""]
    return [format_count(count), f"{count / macs:.2f}" if macs else ""]


def _buffers(report: Report) -> Block:
    buffers = _ordered(report)
    rows = tuple(
        (
            _mark(i),
            str(b["name"]),
            str(b.get("role", "")),
            format_count(b["offset"]),
            format_count(b["size"]),
            f"{b['first']}..{b['last']}",
        )
        for i, b in enumerate(buffers)
    )
    table = Table(("", "buffer", "role", ">offset", ">bytes", ">stages"), rows) if rows else None
    return Block("arena", table=table)


def _arena_picture(report: Report) -> Block:
    return Block("arena in time", literal=memory_map(report))


def _ordered(report: Report) -> list[Mapping[str, Any]]:
    return sorted(report.get("buffers") or (), key=lambda b: (b["first"], b["offset"], -b["size"]))


def marked_buffers(report: Report) -> list[tuple[str, Mapping[str, Any]]]:
    """The buffers in the order of the table, each with its letter."""
    return [(_mark(i), buffer) for i, buffer in enumerate(_ordered(report))]


def _mark(index: int) -> str:
    return _MARKS[index % len(_MARKS)]


def memory_map(report: Report, width: int = _MAP_WIDTH) -> list[str]:
    """A picture of the arena: a line for each stage, addresses from left to right, a letter for each buffer.

    "#" is where live buffers share bytes, which the planner does where it has proven that reads come first.
    """
    buffers = _ordered(report)
    size = report["arena_bytes"]
    if not buffers or size <= 0:
        return []
    last = max(b["last"] for b in buffers)
    step = -(-(last + 1) // _MAP_ROWS)
    label = len(f"{last}")
    end = f"{size:,} B"
    lines = [f"{'':{label}} 0{end:>{width - 1}}"]
    for time in range(0, last + 1, step):
        live = [(_mark(i), b["offset"], b["offset"] + b["size"]) for i, b in enumerate(buffers) if _is_live(b, time)]
        cells = (_cell(live, size * at / width, size * (at + 1) / width) for at in range(width))
        lines.append(f"{time:>{label}} " + "".join(cells))
    return lines


def _is_live(buffer: Mapping[str, Any], time: int) -> bool:
    return bool(buffer["first"] <= time <= buffer["last"] and buffer["size"] > 0)


def _cell(live: Sequence[tuple[str, int, int]], start: float, stop: float) -> str:
    """The mark of the buffer that has most of the bytes start..stop, "#" if two share some, "." if none has any."""
    parts = [(min(end, stop) - max(begin, start), begin, end, mark) for mark, begin, end in live]
    parts = [part for part in parts if part[0] > 0]
    if not parts:
        return "."
    for i, (_, begin, end, _) in enumerate(parts):
        for _, other_begin, other_end, _ in parts[i + 1 :]:
            if min(end, other_end, stop) > max(begin, other_begin, start):
                return "#"
    return max(parts)[3]


def _bytes(value: int | None) -> str:
    return "-" if value is None else f"{value:,} B"


def render_plain(blocks: Sequence[Block]) -> str:
    """The blocks as text with aligned columns."""
    parts = []
    for block in blocks:
        lines = [block.title, *(f"  {line}" for line in block.lines)]
        if block.table is not None:
            lines += [f"  {line}" for line in _plain_table(block.table)]
        lines += [f"  {line}" for line in block.literal]
        parts.append("\n".join(line.rstrip() for line in lines) + "\n")
    return "\n".join(parts)


def _plain_table(table: Table) -> list[str]:
    rows = [tuple(h.lstrip(">") for h in table.headings), *table.rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(table.headings))]
    right = [h.startswith(">") for h in table.headings]
    return [
        "  ".join(f"{cell:>{w}}" if r else f"{cell:<{w}}" for cell, w, r in zip(row, widths, right, strict=True))
        for row in rows
    ]


def _print_rich(blocks: Sequence[Block], stream: TextIO) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console(file=stream, highlight=False)
    for block in blocks:
        console.print(Text(block.title, style="bold"))
        for line in block.lines:
            console.print(Text(f"  {line}"))
        if block.table is not None:
            table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
            for heading in block.table.headings:
                table.add_column(heading.lstrip(">"), justify="right" if heading.startswith(">") else "left")
            for row in block.table.rows:
                table.add_row(*(Text(cell) for cell in row))
            console.print(table)
        for line in block.literal:
            console.print(Text(f"  {line}"), soft_wrap=True)
        console.print()
