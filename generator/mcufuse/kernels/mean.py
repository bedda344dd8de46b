# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Mean over height and width."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arith import requantize
from ..ir import Graph, Mean
from ..target import Core, Isa
from .base import Array, CStruct, CValue, Kernel, LowerContext, Lowered, Refusal, RowPlan, Window, Writes
from .requant import RequantPlan, plan_requant

__all__ = ["LANES_LIMIT", "MeanKernel", "divide_away"]

LANES_LIMIT = 256
"""MF_LANES_LIMIT of mcufuse/lanes.h."""


def divide_away(total: Array, count: Array | int) -> Array:
    """total / count, halves away from zero."""
    magnitude = (np.abs(total) + np.asarray(count) // 2) // count
    return np.asarray(np.sign(total) * magnitude)


def _instructions(height: int, width: int, channels: int, core: Core, *, narrow: bool) -> int:
    """Counted in QEMU: four channels at a time with `narrow` sums (lanes.h), each on its own otherwise."""
    if not narrow:
        return height * channels * int(3 + 2.5 * width) + 12 * channels
    if core.isa is Isa.MVE:
        return height * -(-channels // 8) * (8 + 3 * width) + 22 * channels
    base = core.isa is Isa.BASE
    row, pixel = (7.0, 8.2) if base else (1.3, 5.0)
    if width <= 4:  # written out
        row, pixel = (1.3, 6.5) if base else (1.3, 4.0)
    words = channels // 4 + 0.2 * (channels % 4)
    return int((height * (row + pixel * width) + 107) * words)


class MeanKernel(Kernel[Mean]):
    """Sums of one row after the other, scaled with the last one."""

    op = Mean

    def evaluate(self, op: Mean, graph: Graph, args: Sequence[Array]) -> Array:
        """The oracle."""
        height, width, channels = graph.tensors[op.inputs[0]].hwc
        total = args[0].reshape(height * width, channels).astype(np.int64).sum(axis=0)
        if op.requant is None:
            out = divide_away(total, height * width)
        else:
            out = requantize(total - op.in_zero * height * width, op.requant) + op.out_zero
        shape = graph.tensors[op.output].shape
        return np.clip(out, op.clamp.lo, op.clamp.hi).astype(np.int8).reshape(shape)

    def lower(self, op: Mean, context: LowerContext) -> list[Lowered | Refusal]:
        """`mf_mean_row_s8`: ticks are input rows, the last one writes."""
        function = "mf_mean_row_s8"
        height, width, channels = context.hwc(op.inputs[0])
        count = height * width
        plan: RequantPlan | None = None
        if op.requant is not None:
            full = np.ones(len(op.requant), np.int64)
            found = plan_requant(
                op.requant,
                bias=-op.in_zero * count * full,
                raw_lo=-128 * count * full,
                raw_hi=127 * count * full,
                out_zero=op.out_zero,
                clamp=op.clamp,
            )
            if isinstance(found, Refusal):
                return [Refusal(function, found.reason)]
            plan = found
            if len(op.requant) > 1:
                return [Refusal(function, "one scale for all channels is supported")]
        elif 127 * count >= 1 << 31:
            return [Refusal(function, "the sum may leave 32 bits")]
        narrow = count <= LANES_LIMIT and not context.core.armv6
        scale: tuple[tuple[str, CValue], ...] = (("rq_lo", op.clamp.lo), ("rq_hi", op.clamp.hi))
        cfg = (
            ("height", height),
            ("width", width),
            ("channels", channels),
            ("narrow", narrow),
            ("divide", plan is None),
            *(plan.cfg_fields() if plan else scale),
        )
        data = (("requant", plan.array() if plan else None), ("out_zero", op.out_zero))
        return [
            Lowered(
                function=function,
                header="mcufuse/mean.h",
                cfg=CStruct("mf_mean_cfg", cfg),
                data=CStruct("mf_mean_data", data),
                rows=RowPlan(height, (Window(),), Writes(at_end=True)),
                state_bytes=(channels + 3) // 4 * 8 if narrow else channels * 4,
                instructions=_instructions(height, width, channels, context.core, narrow=narrow),
            )
        ]
