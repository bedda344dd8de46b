# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Sum and difference of two maps, or of a map and a constant."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..arith import half_even_shift, requantize
from ..ir import Add, Graph, Requant, Rounding
from ..target import Isa
from .base import Array, CStruct, CValue, Kernel, LowerContext, Lowered, Refusal, RowPlan
from .linear_sum import LinearSum, SumMode, find_linear_sum
from .operands import Layout, Operand, lay_out

__all__ = ["AddKernel"]

I64 = npt.NDArray[np.int64]

_EXACT = {
    Rounding.TFLITE: SumMode.TFLITE,
    Rounding.TFLITE_SINGLE: SumMode.TFLITE_SINGLE,
    Rounding.ONNX: SumMode.ONNX,
}
_INSTRUCTIONS = {SumMode.LINEAR: 7, SumMode.LINEAR_EVEN: 10}


def _sums(op: Add, lhs: I64, rhs: I64) -> I64:
    """The clamped outputs for operands of one shape."""
    a, b = lhs - op.lhs_zero, rhs - op.rhs_zero
    sign = -1 if op.subtract else 1
    if op.out is None:
        total = a * op.lhs.multiplier[0] + sign * b * op.rhs.multiplier[0]
        scaled = half_even_shift(total, -op.lhs.shift[0])
    else:
        scaled_a = requantize(a << op.left_shift, op.lhs)
        scaled_b = requantize(b << op.left_shift, op.rhs)
        scaled = requantize(scaled_a + sign * scaled_b, op.out)
    return np.asarray(np.clip(scaled + op.out_zero, op.clamp.lo, op.clamp.hi), np.int64)


def _real(requant: Requant) -> float:
    return math.ldexp(requant.multiplier[0], requant.shift[0] - 31)


def _ratios(op: Add) -> tuple[float, float]:
    """Real factors of the two operands, in units of the output."""
    sign = -1 if op.subtract else 1
    if op.out is None:
        unit = math.ldexp(1.0, op.lhs.shift[0])
        return op.lhs.multiplier[0] * unit, sign * op.rhs.multiplier[0] * unit
    scale = math.ldexp(_real(op.out), op.left_shift)
    return _real(op.lhs) * scale, sign * _real(op.rhs) * scale


def _possible(operand: Operand) -> I64:
    """The values that an operand can take."""
    if operand.constant is None:
        return np.arange(-128, 128, dtype=np.int64)
    return np.unique(operand.constant).astype(np.int64)


class AddKernel(Kernel[Add]):
    """Two multiplications in 32 bits wherever they can be proven exact, else the definition."""

    op = Add

    def evaluate(self, op: Add, graph: Graph, args: Sequence[Array]) -> Array:
        """The oracle; NumPy's broadcasting."""
        lhs, rhs = (np.asarray(a).astype(np.int64) for a in args)
        return np.broadcast_to(_sums(op, lhs, rhs), graph.tensors[op.output].shape).astype(np.int8)

    def lower(self, op: Add, context: LowerContext) -> list[Lowered | Refusal]:
        """`mf_add_row_s8`."""
        function = "mf_add_row_s8"
        try:
            layout = lay_out(context.graph, op.inputs, op.output)
        except ValueError as error:
            return [Refusal(function, str(error))]
        lhs, rhs = (_possible(operand) for operand in layout.operands)
        y = _sums(op, lhs[:, None], rhs[None, :])
        linear = find_linear_sum(y, (lhs, rhs), (op.lhs_zero, op.rhs_zero), _ratios(op), op.clamp)
        return [_lowered(op, context, layout, linear)]


def _lowered(op: Add, context: LowerContext, layout: Layout, linear: LinearSum | None) -> Lowered:
    mode = linear.mode if linear else _EXACT[op.lhs.rounding]
    shift = linear.shift if linear else (-op.lhs.shift[0] if op.out is None else 0)
    height, width, channels = context.hwc(op.output)
    cfg = CStruct(
        "mf_add_cfg",
        (
            *layout.cfg_fields(),
            *layout.operands[0].cfg_fields("lhs"),
            *layout.operands[1].cfg_fields("rhs"),
            ("mode", int(mode)),
            ("shift", shift),
            ("lo", op.clamp.lo),
            ("hi", op.clamp.hi),
        ),
    )
    constants = _linear_fields(linear) if linear else _exact_fields(op)
    pointers = (layout.operands[0].data_field("lhs"), layout.operands[1].data_field("rhs"))
    vector = context.core.isa is Isa.MVE and mode is SumMode.LINEAR
    each = 2.75 if vector else _INSTRUCTIONS.get(mode, 40) + 1
    return Lowered(
        function="mf_add_row_s8",
        header="mcufuse/add.h",
        cfg=cfg,
        data=CStruct("mf_add_data", (*pointers, *constants)),
        rows=RowPlan(height, layout.reads, in_place=layout.in_place),
        instructions=height * (20 + int(width * channels * each)),
    )


def _linear_fields(linear: LinearSum) -> tuple[tuple[str, CValue], ...]:
    return (
        ("lhs_factor", linear.lhs_factor),
        ("rhs_factor", linear.rhs_factor),
        ("base", linear.base),
        ("offset", linear.offset),
    )


def _exact_fields(op: Add) -> tuple[tuple[str, CValue], ...]:
    fields: tuple[tuple[str, CValue], ...] = (
        ("lhs_factor", op.lhs.multiplier[0]),
        ("rhs_factor", op.rhs.multiplier[0]),
        ("lhs_zero", op.lhs_zero),
        ("rhs_zero", op.rhs_zero),
        ("out_zero", op.out_zero),
        ("sign", -1 if op.subtract else 1),
    )
    if op.out is None:
        return fields
    return (
        *fields,
        ("left_shift", op.left_shift),
        ("lhs_shift", op.lhs.shift[0]),
        ("rhs_shift", op.rhs.shift[0]),
        ("out_factor", op.out.multiplier[0]),
        ("out_shift", op.out.shift[0]),
    )
