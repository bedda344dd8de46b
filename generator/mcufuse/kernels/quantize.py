# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""From float to 8 bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ir import DType, Graph, Quantize, Rounding
from .base import Array, CStruct, Kernel, LowerContext, Lowered, Refusal, RowPlan, Window

__all__ = ["QuantizeKernel"]


def _bounds(dtype: DType) -> tuple[int, int]:
    return (0, 255) if dtype is DType.U8 else (-128, 127)


class QuantizeKernel(Kernel[Quantize]):
    """One float32 division for each value; NaN gives the least output."""

    op = Quantize

    def evaluate(self, op: Quantize, graph: Graph, args: Sequence[Array]) -> Array:
        """The oracle."""
        out = graph.tensors[op.output]
        with np.errstate(all="ignore"):
            real = (args[0].astype(np.float32) / np.float32(op.scale)).astype(np.float64)
        real = np.clip(np.where(np.isnan(real), -1024, real), -1024, 1024)
        away = np.copysign(np.floor(np.abs(real) + 0.5), real)
        steps = np.rint(real) if op.rounding is Rounding.ONNX else away
        q = np.clip(steps.astype(np.int64) + op.zero, *_bounds(out.dtype))
        return q.astype(out.dtype.value).reshape(out.shape)

    def lower(self, op: Quantize, context: LowerContext) -> list[Lowered | Refusal]:
        """`mf_quantize_row_8`."""
        height, width, channels = context.hwc(op.output)
        low, high = _bounds(context.graph.tensors[op.output].dtype)
        elements = width * channels
        cfg = (
            ("elements", elements),
            ("scale", float(np.float32(op.scale))),
            ("zero", op.zero),
            ("lo", low),
            ("hi", high),
            ("even", op.rounding is Rounding.ONNX),
        )
        return [
            Lowered(
                function="mf_quantize_row_8",
                header="mcufuse/quantize.h",
                cfg=CStruct("mf_quantize_cfg", cfg),
                data=CStruct("mf_quantize_data", ()),
                rows=RowPlan(height, (Window(),), in_place=(True,)),
                instructions=height * (20 + elements * 300),  # floats in software
            )
        ]
