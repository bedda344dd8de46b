# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""What a plan costs: instructions and bytes moved. For cycles see `cycles.py`.

Instructions of a step are what its kernel states (`Lowered.instructions`), corrected by a table that was fitted to the
reference networks (`costs_table.py`), plus what streaming adds: a tick of a step
in a stage of several checks how far the steps before it are and finds its rows in rings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .costs_table import CORRECTIONS
from .ir import Tensor
from .kernels.base import Lowered
from .plan.arena import ArenaPlan
from .schedule import Feed, Step
from .target import Core

__all__ = [
    "STREAMED_TICK", "bytes_moved", "corrected", "plan_instructions", "streamed_ticks", "terms",
]  # fmt: skip

STREAMED_TICK = 24
"""Instructions that a tick costs more inside a stage of several steps (measured: 21 to 27 on M3 and M4)."""


def terms(lowered: Lowered, macs: int, output: Tensor) -> tuple[float, ...]:
    """What the instructions of a step are composed of.

    The kernel's own estimate; MACs; MACs of the last pixel of rows of odd width, which kernels that take two pixels at
    a time do alone; bytes of output; ticks.
    """
    width = output.hwc[1]
    single = macs / width if width % 2 else 0.0
    return (lowered.instructions, macs, single, output.bytes, lowered.rows.ticks)


def corrected(lowered: Lowered, core: Core, macs: int, output: Tensor) -> Lowered:
    """The same with `instructions` as the fitted table says; unchanged where it says nothing."""
    factors = CORRECTIONS.get((core.counts_as, lowered.function))
    if factors is None:
        return lowered
    parts = terms(lowered, macs, output)
    return replace(lowered, instructions=round(sum(f * part for f, part in zip(factors, parts, strict=True))))


def plan_instructions(steps: Sequence[Step], plan: ArenaPlan) -> int:
    """Modelled instructions of one inference; a joined step has none."""
    running = [step for k, step in enumerate(steps) if k not in plan.joined]
    return sum(step.lowered.instructions for step in running) + STREAMED_TICK * streamed_ticks(steps, plan)


def streamed_ticks(steps: Sequence[Step], plan: ArenaPlan) -> int:
    """Calls of row functions in stages of several steps."""
    return sum(
        steps[k].ticks
        for stage in plan.stages
        if stage.last > stage.first
        for k in range(stage.first, stage.last + 1)
        if not isinstance(steps[k].op, Feed)
    )


def bytes_moved(step: Step) -> int:
    """Bytes of operands and result, each tick's rows anew, and of constants, each read once for an inference.

    A row that several ticks read counts for each of them: it is loaded again, unless the kernel keeps it in scratch.
    """
    reads = sum(
        len(operand.access.rows(tick, operand.height)) * operand.row_bytes
        for operand in step.operands
        for tick in range(step.ticks)
    )
    return reads + step.lowered.constant_bytes + step.out_height * step.out_row_bytes
