# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""What a plan costs: instructions, bytes moved, and an estimate of cycles.

Instructions of a step are what its kernel states (`Lowered.instructions`), corrected by a table that was fitted to the
reference networks (`costs_table.py`), plus what streaming adds: a tick of a step
in a stage of several checks how far the steps before it are and finds its rows in rings.

Cycles are estimated as instructions times a factor for the core and the kind of kernel, from the timings that Arm
publishes (Technical Reference Manuals of the cores). Memory without wait states is assumed: on a part with a slow
flash and no cache, every fetch and each load of a weight costs more. They are good for comparing layers, not for
milliseconds.

    M0+   loads and stores 2 cycles, MUL 1 (or 32, by the part), taken branches 2
    M3    MUL 1, MLA 2, SMULL 3 to 5, loads 2 that pipeline to 1, taken branches 2 to 4
    M4    MUL, MLA, SMLAD, SMULL and SMMULR 1, loads and branches as M3
    M33   as M4, and pairs of 16-bit instructions may issue together
    M7    two instructions a cycle: a load beside a multiply
    M55   a vector instruction of 128 bits takes 2 cycles; a load overlaps with a multiply
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .costs_table import CORRECTIONS
from .ir import Tensor
from .kernels.base import CArray, Lowered
from .plan.arena import ArenaPlan
from .schedule import Feed, Step
from .target import Core, Isa

__all__ = [
    "STREAMED_TICK", "bytes_moved", "corrected", "cycles_per_instruction", "estimated_cycles", "plan_instructions",
    "streamed_ticks", "terms",
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
    factors = CORRECTIONS.get((core.isa.value, lowered.function))
    if factors is None:
        return lowered
    parts = terms(lowered, macs, output)
    return replace(lowered, instructions=round(sum(f * part for f, part in zip(factors, parts, strict=True))))


def plan_instructions(steps: Sequence[Step], plan: ArenaPlan) -> int:
    """Modelled instructions of one inference."""
    return sum(step.lowered.instructions for step in steps) + STREAMED_TICK * streamed_ticks(steps, plan)


def streamed_ticks(steps: Sequence[Step], plan: ArenaPlan) -> int:
    """Calls of row functions in stages of several steps."""
    return sum(
        steps[k].ticks
        for stage in plan.stages
        if stage.last > stage.first
        for k in range(stage.first, stage.last + 1)
        if not isinstance(steps[k].op, Feed)
    )


@dataclass(frozen=True, slots=True)
class _Rate:
    """Cycles for each instruction, by kind of kernel."""

    dot: float  # convolutions and fully connected layers: loads and multiply-accumulates
    light: float  # depthwise, pooling, element-wise: more loads, stores and branches for each multiply
    wide: float  # requantization and softmax dominated by 64-bit multiplications


_DOT = ("mf_conv2d", "mf_fully_connected")
_WIDE = ("mf_softmax",)
_RATES = {
    "cortex-m0plus": _Rate(1.4, 1.5, 1.5),
    "cortex-m3": _Rate(1.45, 1.3, 2.0),
    "cortex-m4": _Rate(1.2, 1.25, 1.3),
    "cortex-m33": _Rate(1.15, 1.2, 1.3),
    "cortex-m7": _Rate(0.7, 0.8, 1.0),
    "cortex-m55": _Rate(1.5, 1.5, 1.2),
}
_SCALAR_M55 = 1.1


def cycles_per_instruction(core: Core, function: str) -> float:
    """The factor for a kernel on a core.

    M3 dot products: an inner step of a multiply-accumulate is a load (1, pipelined) and an MLA (2): 1.5 less the rest.
    M4: SMLAD 1, loads of weights in pairs 1.5 each, 1.2 over the loop. M7: half of the instructions pair up. M55:
    vector instructions take 2 cycles of which one overlaps with the load beside it.
    """
    rate = _RATES[core.name]
    if core.isa is Isa.MVE and not function.endswith("_mve"):
        return _SCALAR_M55
    if function.startswith(_DOT):
        return rate.dot
    return rate.wide if function.startswith(_WIDE) else rate.light


def estimated_cycles(core: Core, function: str, instructions: int) -> int:
    """Cycles of a step, see above."""
    return round(instructions * cycles_per_instruction(core, function))


def bytes_moved(step: Step) -> int:
    """Bytes of operands and result, each tick's rows anew, and of constants, each read once for an inference.

    A row that several ticks read counts for each of them: it is loaded again, unless the kernel keeps it in scratch.
    """
    reads = sum(
        len(operand.access.rows(tick, operand.height)) * operand.row_bytes
        for operand in step.operands
        for tick in range(step.ticks)
    )
    fields = (*step.lowered.cfg.fields, *step.lowered.data.fields)
    constants = sum(value.bytes for _, value in fields if isinstance(value, CArray))
    return reads + constants + step.out_height * step.out_row_bytes
