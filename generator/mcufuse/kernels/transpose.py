# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Axes in another order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ir import Graph, Transpose
from .base import Array, CStruct, Kernel, LowerContext, Lowered, Refusal, RowPlan, Whole, Window

__all__ = ["TransposeKernel"]


def _steps(op: Transpose, shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Input distances, in elements, from an output (row, column, channel) to the next; 0 along an axis of size 1."""
    strides = [int(np.prod(shape[i + 1 :], dtype=np.int64)) for i in range(len(shape))]
    own = [strides[axis] if shape[axis] > 1 else 0 for axis in op.perm]
    if len(shape) == 4:
        return own[1], own[2], own[3]
    if len(shape) == 3:
        return own[1], 0, own[2]
    return 0, 0, own[-1] if own else 0


class TransposeKernel(Kernel[Transpose]):
    """Gathers each output row; from one input row if height stays where it is, else from the whole map."""

    op = Transpose

    def evaluate(self, op: Transpose, graph: Graph, args: Sequence[Array]) -> Array:
        """The oracle."""
        return np.ascontiguousarray(args[0].reshape(graph.tensors[op.inputs[0]].shape).transpose(op.perm))

    def lower(self, op: Transpose, context: LowerContext) -> list[Lowered | Refusal]:
        """`mf_transpose_row_8`."""
        tensor = context.graph.tensors[op.inputs[0]]
        in_h, in_w, in_c = tensor.hwc
        out_h, out_w, out_c = context.hwc(op.output)
        step_h, step_w, step_c = _steps(op, tensor.shape)
        by_row = out_h == in_h and (out_h == 1 or step_h == in_w * in_c)
        each = tensor.dtype.bytes
        cfg = (
            ("out_w", out_w),
            ("out_c", out_c),
            ("step_h", 0 if by_row else step_h * each),
            ("step_w", step_w * each),
            ("step_c", step_c * each if out_c > 1 else each),
            ("element_bytes", each),
        )
        return [
            Lowered(
                function="mf_transpose_row_8",
                header="mcufuse/transpose.h",
                cfg=CStruct("mf_transpose_cfg", cfg),
                data=CStruct("mf_transpose_data", ()),
                rows=RowPlan(out_h, (Window() if by_row else Whole(),)),
                instructions=out_h * (10 + out_w * (8 + out_c * 4)),
            )
        ]
