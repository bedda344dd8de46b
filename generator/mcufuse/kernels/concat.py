# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Maps joined along an axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ir import Concat, Graph
from .base import Access, Array, CArray, CStruct, Indexed, Kernel, LowerContext, Lowered, Refusal, RowPlan, Window

__all__ = ["ConcatKernel"]

LIMIT = 16
"""Operands, the unrolling of the C loops."""


class ConcatKernel(Kernel[Concat]):
    """Copies of pieces of rows."""

    op = Concat

    def evaluate(self, op: Concat, graph: Graph, args: Sequence[Array]) -> Array:
        """The oracle."""
        maps = [a.reshape(graph.tensors[name].hwc) for a, name in zip(args, op.inputs, strict=True)]
        return np.concatenate(maps, axis=op.axis).reshape(graph.tensors[op.output].shape)

    def lower(self, op: Concat, context: LowerContext) -> list[Lowered | Refusal]:
        """`mf_concat_row_8`, or `mf_concat_height_row_8` where each row comes from one operand."""
        along_height = op.axis == 0
        function = "mf_concat_height_row_8" if along_height else "mf_concat_row_8"
        if len(context.graph.activations(op)) != len(op.inputs):
            return [Refusal(function, "a constant operand is not supported")]
        if len(op.inputs) > LIMIT:
            return [Refusal(function, f"{len(op.inputs)} operands; at most {LIMIT} are supported")]
        tensors = [context.graph.tensors[name] for name in op.inputs]
        out = context.graph.tensors[op.output]
        height, width, channels = out.hwc
        pieces = width if op.axis == 2 else 1
        in_bytes = [t.row_bytes // pieces for t in tensors]
        cfg = (("operands", len(tensors)), ("pieces", pieces), ("out_bytes", out.row_bytes // pieces))
        reads: list[Access] = []
        first = 0
        for tensor in tensors:
            own = tensor.hwc[0]
            if along_height:
                index = tuple(t - first if 0 <= t - first < own else -1 for t in range(height))
                reads.append(Indexed(index))
                first += own
            else:
                reads.append(Window())
        sizes = CArray("int32_t", np.asarray(in_bytes, np.int32), "sizes")
        return [
            Lowered(
                function=function,
                header="mcufuse/concat.h",
                cfg=CStruct("mf_concat_cfg", cfg),
                data=CStruct("mf_concat_data", () if along_height else (("bytes", sizes),)),
                rows=RowPlan(height, tuple(reads), in_place=(along_height,) * len(tensors)),
                instructions=height * (15 + 20 * pieces * len(tensors) + width * channels),
            )
        ]
