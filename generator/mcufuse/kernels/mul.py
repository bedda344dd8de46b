# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Product of two maps, of a map and a gate, or of a map and a constant."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arith import requantize
from ..ir import Graph, Mul
from .base import Array, CStruct, Kernel, LowerContext, Lowered, Refusal, RowPlan
from .operands import Operand, lay_out
from .requant import plan_requant

__all__ = ["MulKernel"]


def _factors(operand: Operand, zero: int) -> tuple[int, int]:
    """Least and greatest value of an operand without its zero point."""
    if operand.constant is None:
        return -128 - zero, 127 - zero
    return int(operand.constant.min()) - zero, int(operand.constant.max()) - zero


class MulKernel(Kernel[Mul]):
    """One multiplication for the product, one for the scale."""

    op = Mul

    def evaluate(self, op: Mul, graph: Graph, args: Sequence[Array]) -> Array:
        """The oracle; NumPy's broadcasting."""
        lhs, rhs = (np.asarray(a).astype(np.int64) for a in args)
        scaled = requantize((lhs - op.lhs_zero) * (rhs - op.rhs_zero), op.requant) + op.out_zero
        out = np.clip(scaled, op.clamp.lo, op.clamp.hi).astype(np.int8)
        return np.broadcast_to(out, graph.tensors[op.output].shape)

    def lower(self, op: Mul, context: LowerContext) -> list[Lowered | Refusal]:
        """`mf_mul_row_s8`."""
        function = "mf_mul_row_s8"
        try:
            layout = lay_out(context.graph, op.inputs, op.output)
        except ValueError as error:
            return [Refusal(function, str(error))]
        lhs, rhs = layout.operands
        corners = [a * b for a in _factors(lhs, op.lhs_zero) for b in _factors(rhs, op.rhs_zero)]
        plan = plan_requant(
            op.requant,
            bias=np.zeros(1, np.int64),
            raw_lo=np.array([min(corners)], np.int64),
            raw_hi=np.array([max(corners)], np.int64),
            out_zero=op.out_zero,
            clamp=op.clamp,
        )
        if isinstance(plan, Refusal):
            return [Refusal(function, plan.reason)]
        height, width, channels = context.hwc(op.output)
        operands = (*lhs.cfg_fields("lhs"), *rhs.cfg_fields("rhs"))
        data = (
            ("requant", plan.array()),
            lhs.data_field("lhs"),
            rhs.data_field("rhs"),
            ("lhs_zero", op.lhs_zero),
            ("rhs_zero", op.rhs_zero),
            ("out_zero", op.out_zero),
        )
        return [
            Lowered(
                function=function,
                header="mcufuse/mul.h",
                cfg=CStruct("mf_mul_cfg", (*layout.cfg_fields(), *operands, *plan.cfg_fields())),
                data=CStruct("mf_mul_data", data),
                rows=RowPlan(height, layout.reads, in_place=layout.in_place),
                instructions=height * (20 + width * channels * (plan.instructions + 6)),
            )
        ]
