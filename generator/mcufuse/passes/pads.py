# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Explicit padding becomes the padding of the operator that reads it, where both mean the same bits."""

from __future__ import annotations

from dataclasses import replace

from ..ir import S8_MIN, AvgPool2D, Conv2D, DepthwiseConv2D, Graph, MaxPool2D, Op, Pad, Padding
from .cleanup import remove_dead

__all__ = ["fold_padding"]


def fold_padding(graph: Graph) -> Graph:
    """1. A convolution pads with its zero point: a `Pad` with that value joins its padding.
    2. A maximum ignores padding: so does one over added -128.
    3. An average that counts padding as zero points: likewise, if it has no padding of its own yet.
    """
    pads = {op.output: op for op in graph.ops if isinstance(op, Pad) and op.channels == (0, 0)}
    ops: list[Op] = []
    for op in graph.ops:
        pad = pads.get(op.inputs[0]) if op.inputs else None
        ops.append((_absorb(op, pad) if pad is not None else None) or op)
    return graph if list(graph.ops) == ops else remove_dead(graph.with_(ops=ops))


def _absorb(op: Op, pad: Pad) -> Op | None:
    inputs = (pad.inputs[0], *op.inputs[1:])
    origin = pad.origin + op.origin
    if isinstance(op, (Conv2D, DepthwiseConv2D)) and pad.value == op.in_zero:  # rule 1
        return replace(op, inputs=inputs, origin=origin, padding=_sum(op.padding, pad.padding))
    if isinstance(op, MaxPool2D) and pad.value == S8_MIN and _within(op.kernel, pad.padding):  # rule 2
        return replace(op, inputs=inputs, origin=origin, padding=_sum(op.padding, pad.padding))
    if (
        isinstance(op, AvgPool2D)  # rule 3
        and op.requant is not None
        and pad.value == op.in_zero
        and (op.padding == Padding() or op.count_padding)
        and len(op.requant) == op.kernel[0] * op.kernel[1]
    ):
        return replace(op, inputs=inputs, origin=origin, padding=_sum(op.padding, pad.padding), count_padding=True)
    return None


def _within(kernel: tuple[int, int], p: Padding) -> bool:
    """No window may lie in padding alone."""
    return max(p.top, p.bottom) < kernel[0] and max(p.left, p.right) < kernel[1]


def _sum(a: Padding, b: Padding) -> Padding:
    return Padding(a.top + b.top, a.left + b.left, a.bottom + b.bottom, a.right + b.right)
