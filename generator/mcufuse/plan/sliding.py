# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Windows that slide over an endless input: what one inference leaves for the next.

A time series is fed row by row, and every `hop` rows the network looks at the last H rows. Steps whose rows do not
depend on where the window begins (no padding above or below) give the same rows in the next window, shifted. They form
the *shared* part, which just goes on: the last tensor of it keeps its last rows in a ring, and the rest of the network
starts anew on that ring for every window.

    input rows     0 1 2 3 4 5 6 7 8 9 ...      endless
    shared steps   rings of a few rows          each row computed once, ever
    window tensor  [row 7][row 3][..][row 6]    its last h rows, row r in slot r % h
    the rest       reads them as rows 0..h-1    once for each window
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..errors import UserError
from ..ir import Add, AvgPool2D, Conv2D, DepthwiseConv2D, Graph, Lut, MaxPool2D, PRelu
from ..kernels.base import Whole, Window
from ..schedule import Feed, Operand, Step

__all__ = ["ENDLESS", "Hop", "Sliding", "extended", "find_sliding"]

ENDLESS = 0x3FFFFFFF  # rows of a tensor that never ends, and the ticks of its step
_SHIFT_INVARIANT = (Feed, Conv2D, DepthwiseConv2D, MaxPool2D, AvgPool2D, Lut, Add, PRelu)


@dataclass(frozen=True, slots=True)
class Sliding:
    """The shared part of a network: `steps` (the feed first), as they run on the endless input."""

    steps: tuple[Step, ...]  # with ENDLESS heights and ticks
    strides: tuple[int, ...]  # input rows for each row of a step's output
    window: str  # the tensor that the rest of the network reads
    rows: int  # of it in one window
    hop: int  # input rows from one window to the next


@dataclass(frozen=True, slots=True)
class Hop:
    """How far windows move, and where the user said so."""

    rows: int
    place: str = "input.hop"


def _problem(step: Step, shared: dict[str, int], hop: int, graph: Graph) -> str:
    """Why a step cannot be shared between windows; "" if it can."""
    strides = {shared.get(o.storage) for o in step.operands}
    if None in strides:
        return "reads what is computed anew for each window"
    if not isinstance(step.op, _SHIFT_INVARIANT) or step.lowered.rows.writes.at_end:
        return f"{step.op.kind} needs the whole window"
    if any(graph.is_const(name) for name in step.op.inputs) and isinstance(step.op, (Add, PRelu)):
        return "a constant operand may differ from row to row"
    if len(strides) > 1:
        return "its operands advance at different rates"
    for operand in step.operands:
        access = operand.access
        if not isinstance(access, Window):
            return "it reads rows in an order of its own"
        end = access.stride * (step.ticks - 1) + access.offset + (access.count - 1) * access.step + 1
        if access.offset < 0 or end > operand.height:
            return "it pads rows, so they depend on where the window begins"
    stride = _stride(step, shared, hop)
    return (
        "" if hop % stride == 0 else f"its rows advance by {stride} input rows, which does not divide the hop of {hop}"
    )


def _stride(step: Step, shared: dict[str, int], hop: int) -> int:
    before = next(shared[o.storage] for o in step.operands)
    if step.out_height == 1 and hop % before == 0:
        return hop  # one row a window: none is computed in between
    access = step.operands[0].access
    assert isinstance(access, Window)
    return before * access.stride


def find_sliding(graph: Graph, steps: Sequence[Step], wanted: Hop) -> Sliding:
    """The longest shared part that begins with the feed and hands over one tensor.

    Raises `UserError` if not even the first operator can be shared.
    """
    hop = wanted.rows
    shared = {steps[0].storage: 1}
    strides, reason = [1], "there is nothing after the input"
    for step in steps[1:]:
        problem = _problem(step, shared, hop, graph)
        if problem:
            reason = f"{step.op.kind} {', '.join(step.op.origin) or step.op.name}: {problem}"
            break
        stride = _stride(step, shared, hop)
        shared[step.storage] = stride
        strides.append(stride)
    for count in range(len(strides), 1, -1):
        handed = _handed_over(graph, steps, count)
        last = steps[count - 1]
        if handed == {last.storage} and _readable(last, steps[count:], last.storage in graph.outputs):
            endless = tuple(
                _stretched(s, stride, shared, ENDLESS) for s, stride in zip(steps[:count], strides, strict=False)
            )
            return Sliding(endless, tuple(strides[:count]), last.storage, last.out_height, hop)
    raise UserError(
        f"windows of this network share no work: {reason}",
        place=wanted.place,
        hint="leave input.hop out: each window is then fed and computed as a whole",
    )


def _handed_over(graph: Graph, steps: Sequence[Step], count: int) -> set[str]:
    made = {s.storage for s in steps[:count]}
    read = {o.storage for s in steps[count:] for o in s.operands} | set(graph.outputs)
    return made & read


def _readable(last: Step, rest: Sequence[Step], is_output: bool) -> bool:
    """Rows that stand rotated in a ring can be read one by one, not as one block."""
    accesses = [o.access for s in rest for o in s.operands if o.storage == last.storage]
    return last.out_height == 1 or not (is_output or any(isinstance(a, Whole) for a in accesses))


def _stretched(step: Step, stride: int, shared: dict[str, int], rows: int) -> Step:
    """The step with `rows` output rows; a window of one row is taken every `stride` input rows."""
    operands = []
    for operand in step.operands:
        access = operand.access
        assert isinstance(access, Window)
        advance = stride // shared[operand.storage]
        operands.append(Operand(operand.storage, ENDLESS, operand.row_bytes, replace(access, stride=advance)))
    low = step.lowered
    plan = replace(low.rows, ticks=rows, reads=tuple(o.access for o in operands))
    return replace(step, lowered=replace(low, rows=plan), operands=tuple(operands), out_height=rows)


def extended(sliding: Sliding, height: int, hops: int) -> tuple[Step, ...]:
    """The shared steps on an input of the window's `height` plus some hops: endless enough to see rings and order."""
    total = height + hops * sliding.hop
    result: list[Step] = []
    heights: dict[str, int] = {}
    for step in sliding.steps:
        if not step.operands:
            rows = total
        else:
            rows = min(
                (heights[o.storage] - o.access.offset - (o.access.count - 1) * o.access.step - 1) // o.access.stride + 1
                for o in step.operands
                if isinstance(o.access, Window)
            )
        heights[step.storage] = rows
        operands = tuple(replace(o, height=heights[o.storage]) for o in step.operands)
        plan = replace(step.lowered.rows, ticks=rows)
        result.append(replace(step, lowered=replace(step.lowered, rows=plan), operands=operands, out_height=rows))
    return tuple(result)
