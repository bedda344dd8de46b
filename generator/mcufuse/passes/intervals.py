# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Proven bounds of every channel of every activation, and of the accumulators behind them.

Bounds hold for all inputs, not for seen ones: they follow from the weights, the requantization (monotone in
the accumulator) and the bounds of the operands. A padded tap contributes 0, so 0 joins the range of each
operand that a padded window may read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..arith import requantize
from ..ir import (
    S8_MAX,
    S8_MIN,
    AvgPool2D,
    Clamp,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    Graph,
    Lut,
    MaxPool2D,
    Mean,
    Op,
    Padding,
    Requant,
    Reshape,
    ResizeNearest,
)  # fmt: skip

__all__ = ["Bounds", "accumulator_bounds", "channel_bounds"]

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Inclusive bounds of each channel, shape (channels,)."""

    lo: I64
    hi: I64

    @property
    def constant(self) -> npt.NDArray[np.bool_]:
        """The channels that always hold one value."""
        return np.equal(self.lo, self.hi)


def _full(channels: int) -> Bounds:
    return Bounds(np.full(channels, S8_MIN, np.int64), np.full(channels, S8_MAX, np.int64))


def _padded(padding: Padding) -> bool:
    return padding != Padding()


def _signed_sums(weights: I64, axes: tuple[int, int]) -> tuple[I64, I64]:
    """The sums of the positive and of the negative weights over two axes."""
    return np.asarray(np.maximum(weights, 0).sum(axes), np.int64), np.asarray(
        np.minimum(weights, 0).sum(axes), np.int64
    )


def accumulator_bounds(op: Op, graph: Graph, x: Bounds) -> Bounds:
    """Bounds of `bias + sum((x - in_zero) * w)` for each output channel of a convolution or dense layer."""
    weights: I64 = graph.const(op.inputs[1]).astype(np.int64)
    bias: I64 = graph.const(op.inputs[2]).astype(np.int64)
    if isinstance(op, Conv2D):
        lo, hi = x.lo - op.in_zero, x.hi - op.in_zero
        if _padded(op.padding):
            lo, hi = np.minimum(lo, 0), np.maximum(hi, 0)
        out, per_group = weights.shape[0], weights.shape[3]
        group = np.arange(out) // (out // op.groups)
        index = group[:, None] * per_group + np.arange(per_group)[None, :]
        up, down = _signed_sums(weights, (1, 2))
        least = np.asarray((up * lo[index] + down * hi[index]).sum(1), np.int64)
        most = np.asarray((up * hi[index] + down * lo[index]).sum(1), np.int64)
        return Bounds(bias + least, bias + most)
    if isinstance(op, DepthwiseConv2D):
        lo, hi = x.lo - op.in_zero, x.hi - op.in_zero
        if _padded(op.padding):
            lo, hi = np.minimum(lo, 0), np.maximum(hi, 0)
        lo, hi = np.repeat(lo, op.multiplier), np.repeat(hi, op.multiplier)
        up, down = _signed_sums(weights, (0, 1))
        return Bounds(bias + up * lo + down * hi, bias + up * hi + down * lo)
    assert isinstance(op, FullyConnected)
    repeat = weights.shape[1] // len(x.lo)
    lo, hi = np.tile(x.lo - op.in_zero, repeat), np.tile(x.hi - op.in_zero, repeat)
    up, down = np.maximum(weights, 0), np.minimum(weights, 0)
    return Bounds(bias + up @ lo + down @ hi, bias + up @ hi + down @ lo)


def _requantized(acc: Bounds, requant: Requant, zero: int, clamp: Clamp) -> Bounds:
    lo, hi = (np.clip(requantize(edge, requant) + zero, clamp.lo, clamp.hi) for edge in (acc.lo, acc.hi))
    return Bounds(lo, hi)


def _looked_up(op: Lut, x: Bounds) -> Bounds:
    table = np.asarray(op.table, np.int64)
    ranges = [table[int(lo) + 128 : int(hi) + 129] for lo, hi in zip(x.lo, x.hi, strict=True)]
    return Bounds(np.asarray([np.min(r) for r in ranges], np.int64), np.asarray([np.max(r) for r in ranges], np.int64))


def channel_bounds(graph: Graph) -> Mapping[str, Bounds]:
    """Bounds of every s8 activation by channel; those of operators without a rule are the whole range."""
    known: dict[str, Bounds] = {name: _full(graph.tensors[name].hwc[2]) for name in graph.inputs}
    for op in graph.ops:
        channels = graph.tensors[op.output].hwc[2]
        x = known.get(op.inputs[0])
        result = _full(channels)
        if x is not None:
            if isinstance(op, (Conv2D, DepthwiseConv2D, FullyConnected)):
                result = _requantized(accumulator_bounds(op, graph, x), op.requant, op.out_zero, op.clamp)
            elif isinstance(op, Lut) and graph.tensors[op.inputs[0]].dtype.value == "int8":
                result = _looked_up(op, x)
            elif isinstance(op, MaxPool2D) or (isinstance(op, AvgPool2D) and op.requant is None):
                result = Bounds(np.clip(x.lo, op.clamp.lo, op.clamp.hi), np.clip(x.hi, op.clamp.lo, op.clamp.hi))
            elif isinstance(op, Mean) and op.requant is not None:
                height, width, _ = graph.tensors[op.inputs[0]].hwc
                total = Bounds((x.lo - op.in_zero) * height * width, (x.hi - op.in_zero) * height * width)
                result = _requantized(total, op.requant, op.out_zero, op.clamp)
            elif isinstance(op, Mean):
                result = Bounds(np.clip(x.lo, op.clamp.lo, op.clamp.hi), np.clip(x.hi, op.clamp.lo, op.clamp.hi))
            elif isinstance(op, ResizeNearest) or (isinstance(op, Reshape) and len(x.lo) == channels):
                result = x
        known[op.output] = result
    return known
