# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Estimates cycles from counts of instructions, and what a flash that waits adds.

Instructions times a factor for the core and the kind of kernel, from the timings that Arm publishes (Technical
Reference Manuals of the cores):

    M0+   loads and stores 2 cycles, MUL 1 (or 32, by the part), taken branches 2
    M3    MUL 1, MLA 2, SMULL 3 to 5, loads 2 that pipeline to 1, taken branches 2 to 4
    M4    MUL, MLA, SMLAD, SMULL and SMMULR 1, loads and branches as M3
    M33   as M4, and pairs of 16-bit instructions may issue together
    M7    two instructions a cycle: a load beside a multiply
    M55   a vector instruction of 128 bits takes 2 cycles; a load overlaps with a multiply

and for each line of the flash that is read, its wait states (`Flash`): code that fits into the instruction cache and
constants that fit into the data cache are read once, others each time. Prefetching is not modelled: where a part
prefetches, straight code waits less. The estimate is good for comparing layers and parts, not for milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from .ir import Tensor
from .schedule import Step
from .target import Core, Flash, Isa

__all__ = ["cycles_per_instruction", "estimated_cycles", "flash_stalls"]


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
_INSTRUCTION_BYTES = 3  # Thumb-2 mixes 2 and 4 bytes about evenly
_PIXELS = 2  # kernels read a weight once for two pixels side by side


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


def estimated_cycles(core: Core, flash: Flash, step: Step, output: Tensor, instructions: int) -> int:
    """Cycles of a step that executes `instructions` and writes `output`."""
    return round(instructions * cycles_per_instruction(core, step.lowered.function)) + flash_stalls(
        flash, step, output, instructions
    )


def flash_stalls(flash: Flash, step: Step, output: Tensor, instructions: int) -> int:
    """Cycles that the core waits for code and constants of a step."""
    code, constants = step.lowered.code_bytes, step.lowered.constant_bytes
    if code > flash.icache_bytes:
        code = instructions * _INSTRUCTION_BYTES
    if constants > flash.dcache_bytes:
        constants *= step.ticks * -(-output.hwc[1] // _PIXELS)
    return flash.wait_states * (-(-code // flash.line_bytes) - (-constants // flash.line_bytes))
