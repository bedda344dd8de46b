# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Softmax over the last axis, in integers.

TFLite roundings (the bits of TFLite's reference kernel): with e[d] the exponents in Q0.31,

    sum = sum(e / 2^12, halves away from zero)      in Q12.19
    scale = 1 / (sum / 2^k), k such that the denominator lies in [1, 2), by Newton's division in Q2.29
    out = clamp(out_zero + scale * e / 2^(k + 23))  halves away from zero

ONNX: with e[d] in Q.20 and `out_inverse` = 2^8 / output scale,

    scale = (out_inverse * 2^28 + sum(e) / 2) / sum(e), truncated
    out = clamp(out_zero + scale * e / 2^36)        halves to even

The second is within one unit of float softmax for up to 4,095 channels: e is off by 2^-21, the sum by channels * 2^-21
against at least 1, `scale` by one part in 2^14 or better.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arith import half_even_shift, rounding_shift, saturating_doubling_high
from ..fixedpoint import reciprocal_of_one_plus
from ..ir import Graph, Rounding, Softmax
from .base import Array, CArray, CStruct, Kernel, LowerContext, Lowered, Refusal, RowPlan, Window

__all__ = ["SoftmaxKernel"]

CHANNELS_LIMIT = 4095
"""So that the sum of exponents fits 32 bits."""


class SoftmaxKernel(Kernel[Softmax]):
    """Three passes over each pixel: the maximum, the sum, the outputs."""

    op = Softmax

    def evaluate(self, op: Softmax, graph: Graph, args: Sequence[Array]) -> Array:
        """The oracle."""
        channels = graph.tensors[op.output].hwc[2]
        x = args[0].reshape(-1, channels).astype(np.int64)
        e = np.asarray(op.exponents, np.int64)[x.max(axis=1, keepdims=True) - x]
        if op.rounding is Rounding.ONNX:
            total = e.sum(axis=1, keepdims=True)
            scale = ((op.out_inverse << 28) + total // 2) // total
            y = half_even_shift(scale * e, 36)
        else:
            total = rounding_shift(e, 12).sum(axis=1, keepdims=True)
            bits = np.frexp(total.astype(np.float64))[1].astype(np.int64)  # 2^(bits-1) <= total < 2^bits
            normalized = (total << (32 - bits)) - (1 << 31)
            scale = reciprocal_of_one_plus(normalized)
            y = rounding_shift(saturating_doubling_high(scale, e), bits - 20 + 23)
        return np.clip(y + op.out_zero, -128, 127).astype(np.int8).reshape(graph.tensors[op.output].shape)

    def lower(self, op: Softmax, context: LowerContext) -> list[Lowered | Refusal]:
        """`mf_softmax_row_s8` or `mf_softmax_row_s8_even`, by the rounding."""
        onnx = op.rounding is Rounding.ONNX
        function = "mf_softmax_row_s8_even" if onnx else "mf_softmax_row_s8"
        height, width, channels = context.hwc(op.output)
        if channels > CHANNELS_LIMIT:
            return [Refusal(function, f"{channels} channels; at most {CHANNELS_LIMIT} are supported")]
        exponents = np.asarray(op.exponents, np.int32)
        entries = int(np.flatnonzero(exponents)[-1]) + 1
        data = (
            ("exponents", CArray("int32_t", exponents[:entries], "exponents")),
            ("entries", entries),
            ("out_zero", op.out_zero),
            ("out_inverse", op.out_inverse),
        )
        each = 40 if onnx else 45
        return [
            Lowered(
                function=function,
                header="mcufuse/softmax.h",
                cfg=CStruct("mf_softmax_cfg", (("pixels", width), ("channels", channels))),
                data=CStruct("mf_softmax_data", data),
                rows=RowPlan(height, (Window(),), in_place=(True,)),
                instructions=height * width * (200 + each * channels),
            )
        ]
