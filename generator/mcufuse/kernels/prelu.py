# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""PReLU with constant slopes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arith import requantize
from ..ir import Clamp, Graph, PRelu, Requant
from .base import Array, CStruct, Kernel, LowerContext, Lowered, Refusal, RowPlan
from .operands import lay_out
from .requant import RequantPlan, plan_requant

__all__ = ["PReluKernel"]


def _plan(requant: Requant, low: int, high: int, out_zero: int) -> RequantPlan | Refusal:
    return plan_requant(
        requant,
        bias=np.zeros(1, np.int64),
        raw_lo=np.array([low], np.int64),
        raw_hi=np.array([high], np.int64),
        out_zero=out_zero,
        clamp=Clamp(),
    )


class PReluKernel(Kernel[PRelu]):
    """Two scales, chosen by the sign of the input."""

    op = PRelu

    def evaluate(self, op: PRelu, graph: Graph, args: Sequence[Array]) -> Array:
        """The oracle; alpha is broadcast by NumPy's rules."""
        x, alpha = (np.asarray(a).astype(np.int64) for a in args)
        v = x - op.in_zero
        negative = requantize(v * (alpha - op.alpha_zero), op.negative)
        out = np.where(v >= 0, requantize(v, op.positive), negative) + op.out_zero
        return np.asarray(np.clip(out, -128, 127), np.int8)

    def lower(self, op: PRelu, context: LowerContext) -> list[Lowered | Refusal]:
        """`mf_prelu_row_s8`."""
        function = "mf_prelu_row_s8"
        try:
            layout = lay_out(context.graph, op.inputs, op.output)
        except ValueError as error:
            return [Refusal(function, str(error))]
        x, alpha = layout.operands
        if alpha.constant is None or x.constant is not None:
            return [Refusal(function, "the slopes must be constant, and only they")]
        slopes = (int(alpha.constant.min()) - op.alpha_zero, int(alpha.constant.max()) - op.alpha_zero)
        products = [v * slope for v in (-1, min(-1, -128 - op.in_zero)) for slope in slopes]
        positive = _plan(op.positive, 0, max(0, 127 - op.in_zero), op.out_zero)
        negative = _plan(op.negative, min(products), max(products), op.out_zero)
        for plan in (positive, negative):
            if isinstance(plan, Refusal):
                return [Refusal(function, plan.reason)]
        assert isinstance(positive, RequantPlan)
        assert isinstance(negative, RequantPlan)
        height, width, channels = context.hwc(op.output)
        cfg = (
            *layout.cfg_fields(),
            *alpha.cfg_fields("alpha"),
            ("positive_mode", int(positive.mode)),
            ("positive_shift", positive.shift),
            ("negative_mode", int(negative.mode)),
            ("negative_shift", negative.shift),
        )
        data = (
            ("positive", positive.array()),
            ("negative", negative.array()),
            alpha.data_field("alpha"),
            ("in_zero", op.in_zero),
            ("alpha_zero", op.alpha_zero),
            ("out_zero", op.out_zero),
        )
        return [
            Lowered(
                function=function,
                header="mcufuse/prelu.h",
                cfg=CStruct("mf_prelu_cfg", cfg),
                data=CStruct("mf_prelu_data", data),
                rows=RowPlan(height, layout.reads, in_place=layout.in_place),
                instructions=height * (30 + width * channels * (negative.instructions + 7)),
            )
        ]
