# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Nearest-neighbour resizing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ir import Graph, ResizeNearest
from .base import Array, CArray, CStruct, CValue, Indexed, Kernel, LowerContext, Lowered, Refusal, RowPlan

__all__ = ["ResizeNearestKernel"]

REPEATS_LIMIT = 16
"""The unrolling of the C loop."""


def _repeats(columns: tuple[int, ...]) -> int:
    """n if the columns are 0 (n times), 1 (n times), ...; else 0."""
    count = columns.count(0)
    if not 0 < count <= REPEATS_LIMIT or len(columns) % count != 0:
        return 0
    return count if columns == tuple(i // count for i in range(len(columns))) else 0


class ResizeNearestKernel(Kernel[ResizeNearest]):
    """Copies of pixels."""

    op = ResizeNearest

    def evaluate(self, op: ResizeNearest, graph: Graph, args: Sequence[Array]) -> Array:
        """The oracle."""
        x = args[0].reshape(graph.tensors[op.inputs[0]].hwc)
        return x[np.ix_(op.rows, op.columns)].reshape(graph.tensors[op.output].shape)

    def lower(self, op: ResizeNearest, context: LowerContext) -> list[Lowered | Refusal]:
        """`mf_resize_nearest_row_8`."""
        tensor = context.graph.tensors[op.inputs[0]]
        out_h, out_w, channels = context.hwc(op.output)
        repeats = _repeats(op.columns)
        cfg = (("out_w", out_w), ("bytes", channels * tensor.dtype.bytes), ("repeats", repeats))
        columns: CValue = None if repeats else CArray("int16_t", np.asarray(op.columns, np.int16), "columns")
        return [
            Lowered(
                function="mf_resize_nearest_row_8",
                header="mcufuse/resize_nearest.h",
                cfg=CStruct("mf_resize_nearest_cfg", cfg),
                data=CStruct("mf_resize_nearest_data", (("columns", columns),)),
                rows=RowPlan(out_h, (Indexed(op.rows),)),
                instructions=out_h * (10 + out_w * (18 + channels)),
            )
        ]
