# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""From 8 bits to float."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ir import Dequantize, DType, Graph
from .base import Array, CStruct, Kernel, LowerContext, Lowered, Refusal, RowPlan, Window

__all__ = ["DequantizeKernel"]


class DequantizeKernel(Kernel[Dequantize]):
    """One float32 product for each value."""

    op = Dequantize

    def evaluate(self, op: Dequantize, graph: Graph, args: Sequence[Array]) -> Array:
        """The oracle."""
        steps = (args[0].astype(np.int64) - op.zero).astype(np.float32)
        return (np.float32(op.scale) * steps).astype(np.float32).reshape(graph.tensors[op.output].shape)

    def lower(self, op: Dequantize, context: LowerContext) -> list[Lowered | Refusal]:
        """`mf_dequantize_row_8`."""
        height, width, channels = context.hwc(op.output)
        elements = width * channels
        cfg = (
            ("elements", elements),
            ("scale", float(np.float32(op.scale))),
            ("zero", op.zero),
            ("is_unsigned", context.graph.tensors[op.inputs[0]].dtype is DType.U8),
        )
        return [
            Lowered(
                function="mf_dequantize_row_8",
                header="mcufuse/dequantize.h",
                cfg=CStruct("mf_dequantize_cfg", cfg),
                data=CStruct("mf_dequantize_data", ()),
                rows=RowPlan(height, (Window(),)),
                instructions=height * (10 + elements * 90),  # floats in software
            )
        ]
