# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""A front as a table and a plot for the terminal."""

from __future__ import annotations

from .config import InputMode
from .explore import Front, Point
from .report import Block, Table

__all__ = ["HEADINGS", "cells", "lay_out_front", "plot"]

_WIDTH, _HEIGHT = 64, 16
_MARKS = {InputMode.RESIDENT: "o", InputMode.ROWS: "+"}

HEADINGS = (
    ">point", "", "input", ">arena", ">bound", ">instructions", ">to fastest", "pinned by", ">entries", ">streamed",
    ">scratch", ">kernels", ">recomputed MACs",
)  # fmt: skip


def cells(front: Front, point: Point) -> tuple[str, ...]:
    """A row of the table; `HEADINGS` names the columns."""
    fastest = min(p.instructions for p in front.points)
    pins = {key: value for key, value in point.pins().items() if value is not None and key != "input.mode"}
    remark = "now" + ("" if point.on_front else ", not on the front") if point.configured else ""
    return (
        str(point.number), remark, point.mode.value, f"{point.arena_bytes:,}", f"{point.lower_bound:,}",
        f"{point.instructions:,}", f"{point.instructions / fastest - 1:+.1%}" if fastest else "",
        ", ".join(f"{key}: {value}" for key, value in pins.items()), f"{point.stages}", f"{point.streamed_steps}",
        f"{point.scratch_bytes:,}", f"{point.instances} for {point.steps}", f"{point.recomputed_macs:,}",
    )  # fmt: skip


def lay_out_front(front: Front) -> list[Block]:
    """Table and plot."""
    table = Block(f"{front.name} on {front.core.name}: memory against speed")
    table.lines = [
        "arena in bytes, each of a checked plan; instructions are modelled; kernels: functions for how many steps",
        f'"now" is what the configuration gives (optimize: {front.optimize})',
    ]
    table.table = Table(HEADINGS, tuple(cells(front, p) for p in front.points))
    picture = Block("arena (to the right) against instructions (up)", literal=plot(front))
    return [table, picture]


def plot(front: Front) -> list[str]:
    """Points as o (resident input) and + (input by rows), # where both are, @ for the configuration's plan."""
    xs = [p.arena_bytes for p in front.points]
    ys = [p.instructions for p in front.points]
    left, right, low, high = min(xs), max(xs), min(ys), max(ys)
    grid = [[" "] * _WIDTH for _ in range(_HEIGHT)]
    for p in front.points:
        column = round((p.arena_bytes - left) / max(right - left, 1) * (_WIDTH - 1))
        row = _HEIGHT - 1 - round((p.instructions - low) / max(high - low, 1) * (_HEIGHT - 1))
        old, mark = grid[row][column], _MARKS[p.mode]
        grid[row][column] = "@" if p.configured or old == "@" else mark if old in (" ", mark) else "#"
    margin = max(len(f"{high:,}"), len(f"{low:,}"))
    labels = {0: f"{high:,}", _HEIGHT - 1: f"{low:,}"}
    lines = [f"{labels.get(i, ''):>{margin}} |{''.join(row).rstrip()}" for i, row in enumerate(grid)]
    lines.append(f"{'':>{margin}} +{'-' * _WIDTH}")
    first, last = f"{left:,} B", f"{right:,} B"
    lines.append(f"{'':>{margin}}  {first}{last:>{_WIDTH - len(first)}}")
    lines.append(f"{'':>{margin}}  o resident input   + input by rows   # both   @ now")
    return lines
