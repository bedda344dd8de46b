# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""A regular part of a map."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ir import Graph, Slice
from .base import Array, CStruct, Indexed, Kernel, LowerContext, Lowered, Refusal, RowPlan

__all__ = ["SliceKernel"]


class SliceKernel(Kernel[Slice]):
    """Copies of parts of rows. Strides may be negative."""

    op = Slice

    def evaluate(self, op: Slice, graph: Graph, args: Sequence[Array]) -> Array:
        """The oracle."""
        x = args[0].reshape(graph.tensors[op.inputs[0]].hwc)
        index = [b + s * np.arange(n) for b, n, s in zip(op.begin, op.size, op.stride, strict=True)]
        return x[np.ix_(*index)].reshape(graph.tensors[op.output].shape)

    def lower(self, op: Slice, context: LowerContext) -> list[Lowered | Refusal]:
        """`mf_slice_row_8`."""
        tensor = context.graph.tensors[op.inputs[0]]
        _, _, channels = tensor.hwc
        height, width, out_c = op.size
        index = tuple(op.begin[0] + op.stride[0] * t for t in range(height))
        each = tensor.dtype.bytes
        cfg = (
            ("offset", (op.begin[1] * channels + op.begin[2]) * each),
            ("pixels", width),
            ("pixel_step", op.stride[1] * channels * each),
            ("elements", out_c),
            ("element_step", op.stride[2] * each),
            ("element_bytes", each),
        )
        forward = op.stride[1] > 0 and op.stride[2] > 0
        return [
            Lowered(
                function="mf_slice_row_8",
                header="mcufuse/slice.h",
                cfg=CStruct("mf_slice_cfg", cfg),
                data=CStruct("mf_slice_data", ()),
                rows=RowPlan(height, (Indexed(index),), in_place=(forward,)),
                instructions=height * (20 + width * (20 if out_c < channels else 0) + width * out_c * each),
            )
        ]
