# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Rows, columns and channels of a constant around a map."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ir import Graph, Pad
from .base import Array, CStruct, Indexed, Kernel, LowerContext, Lowered, Refusal, RowPlan

__all__ = ["PadKernel"]


class PadKernel(Kernel[Pad]):
    """Copies of rows between fills."""

    op = Pad

    def evaluate(self, op: Pad, graph: Graph, args: Sequence[Array]) -> Array:
        """The oracle."""
        x = args[0].reshape(graph.tensors[op.inputs[0]].hwc)
        p = op.padding
        widths = ((p.top, p.bottom), (p.left, p.right), op.channels)
        return np.pad(x, widths, constant_values=op.value).reshape(graph.tensors[op.output].shape)

    def lower(self, op: Pad, context: LowerContext) -> list[Lowered | Refusal]:
        """`mf_pad_row_8`."""
        function = "mf_pad_row_8"
        if context.graph.tensors[op.inputs[0]].dtype.bytes != 1:
            return [Refusal(function, "only 8-bit maps are supported")]
        height, width, channels = context.hwc(op.inputs[0])
        out_h, out_w, out_c = context.hwc(op.output)
        index = tuple(t - op.padding.top if 0 <= t - op.padding.top < height else -1 for t in range(out_h))
        cfg = (
            ("pixels", width),
            ("bytes", channels),
            ("before", op.channels[0]),
            ("after", op.channels[1]),
            ("left", op.padding.left * out_c),
            ("right", op.padding.right * out_c),
            ("value", op.value),
        )
        pieces = width if op.channels != (0, 0) else 1
        return [
            Lowered(
                function=function,
                header="mcufuse/pad.h",
                cfg=CStruct("mf_pad_cfg", cfg),
                data=CStruct("mf_pad_data", ()),
                rows=RowPlan(out_h, (Indexed(index),)),
                instructions=out_h * (40 + 20 * pieces + out_w * out_c),
            )
        ]
