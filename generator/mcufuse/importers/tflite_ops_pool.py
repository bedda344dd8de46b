# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""MAX_POOL_2D, AVERAGE_POOL_2D and MEAN."""

from __future__ import annotations

import math

from ..ir import AvgPool2D, Lut, MaxPool2D, Mean, Requant
from ..tables import mean_requant, requant
from .tflite_ops_base import Node, Row, Value, window

__all__ = ["ROWS"]

_MAX_AVERAGED = 4096  # elements in a window that has a multiplier for each count
_SCALE_TOLERANCE = 1.0e-6  # TFLite Micro's


def _pool(node: Node, kind: type[MaxPool2D] | type[AvgPool2D]) -> None:
    x = node.value(0)
    height, width, channels = node.map_shape(x)
    kernel, stride = (node.option(4), node.option(3)), (node.option(2), node.option(1))
    same = node.option(0, "i8") == 0
    (out_h, out_w), padding = window((height, width), kernel, stride, (1, 1), same)
    y = node.output((1, out_h, out_w, channels))
    if abs(x.scale - y.scale) > _SCALE_TOLERANCE or x.zero != y.zero:
        node.refuse("input and output have different scales", "insert a QUANTIZE or calibrate again")
    node.emit(kind, (x.name,), y.name, kernel=kernel, stride=stride, padding=padding, clamp=node.clamp(5, y))


def max_pool_2d(node: Node) -> None:
    """The output has the input's scale."""
    _pool(node, MaxPool2D)


def average_pool_2d(node: Node) -> None:
    """The output has the input's scale; padding is not counted."""
    _pool(node, AvgPool2D)


def _reduced(node: Node, x: Value) -> tuple[int, int, int, tuple[int, ...]]:
    """(before, reduced, after, output shape): the element counts around one contiguous run of averaged axes."""
    rank = len(x.shape)
    axes = set()
    for axis in node.ints(1, "axes"):
        if not -rank <= axis < rank:
            node.refuse(f"axis {axis} of {rank}", "the file is damaged; convert the model again")
        axes.add(axis % rank)
    keep = bool(node.option(0, "bool", False))
    shape = tuple(1 if i in axes else d for i, d in enumerate(x.shape) if keep or i not in axes)
    real = [i for i in sorted(axes) if x.shape[i] > 1]
    if not real:
        return x.elements, 1, 1, shape
    first, last = real[0], real[-1]
    if any(x.shape[i] > 1 and i not in axes for i in range(first, last)):
        node.refuse(f"the mean over axes {sorted(axes)} of {list(x.shape)}", "average neighbouring axes only")
    run = math.prod(x.shape[first : last + 1])
    return math.prod(x.shape[:first]), run, math.prod(x.shape[last + 1 :]), shape


def mean(node: Node) -> None:
    """Over any neighbouring axes; over H and W it is a global pool, over others a pool along a row."""
    x = node.value(0)
    before, run, after, shape = _reduced(node, x)
    y = node.output(shape)
    factor = mean_requant(x.scale, y.scale, run, node.rounding)
    node.requant(x.scale / y.scale / run, 256 * run)
    if run == 1:
        table = requant(x.affine, y.affine, node.rounding)
        name = node.viewed(x, node.builder.tensors[y.name].shape)
        node.emit(Lut, (name,), y.name, table=table, label="requantize")
        return
    zeros = {"in_zero": x.zero, "out_zero": y.zero}
    if before == 1:
        own = node.builder.tensors[x.name].shape
        whole = len(own) == 4 and own[3] == after
        name = x.name if whole else node.viewed(x, (1, run, 1, after))
        node.emit(Mean, (name,), y.name, requant=factor, **zeros)
        return
    if run > _MAX_AVERAGED:
        node.refuse(f"the mean of {run:,} elements along a row; at most {_MAX_AVERAGED:,}", "average H and W")
    node.builder.spend(256 * run)
    factors = [mean_requant(x.scale, y.scale, n, node.rounding) for n in range(1, run + 1)]
    multiplier = tuple(f.multiplier[0] for f in factors)
    each = Requant(multiplier, tuple(f.shift[0] for f in factors), node.rounding)
    name = node.viewed(x, (1, before, run, after))
    node.emit_viewed(AvgPool2D, (name,), y, (1, before, 1, after), kernel=(1, run), requant=each, **zeros)


ROWS: tuple[Row, ...] = (
    Row("MAX_POOL_2D", max_pool_2d, "MaxPool2D", "SAME or VALID; fused activation"),
    Row("AVERAGE_POOL_2D", average_pool_2d, "AvgPool2D", "SAME or VALID; padding is not counted; fused activation"),
    Row("MEAN", mean, "Mean, or AvgPool2D along a row", "neighbouring axes; any scales; keep_dims or not"),
)
