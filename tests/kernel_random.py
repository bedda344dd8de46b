# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Random convolutions, depthwise convolutions and fully connected layers, ordinary and extreme."""

from __future__ import annotations

import numpy as np

from kernel_harness import Case, single_op_graph
from mcufuse.arith import quantize_multiplier
from mcufuse.ir import (
    Clamp,
    Conv2D,
    DepthwiseConv2D,
    DType,
    FullyConnected,
    Padding,
    Requant,
    Rounding,
    Tensor,
)

__all__ = ["conv_case", "depthwise_case", "fully_connected_case", "random_clamp", "random_requant", "same_padding"]

Rng = np.random.Generator


def same_padding(size: int, k: int, stride: int, dilation: int) -> tuple[int, int, int]:
    """(output size, before, after) of TFLite's SAME."""
    out = -(-size // stride)
    total = max((out - 1) * stride + (k - 1) * dilation + 1 - size, 0)
    return out, total // 2, total - total // 2


def geometry(rng: Rng, size: int, k: int, stride: int, dilation: int) -> tuple[int, int, int]:
    """SAME, VALID or explicit padding that leaves at least one output."""
    span = (k - 1) * dilation + 1
    kind = rng.integers(3)
    if kind == 0:
        return same_padding(size, k, stride, dilation)
    before, after = (0, 0) if kind == 1 else tuple(int(v) for v in rng.integers(0, span, 2))
    if size + before + after < span:
        after = span - size - before
    return (size + before + after - span) // stride + 1, before, after


def random_requant(rng: Rng, channels: int, rounding: Rounding, taps: int) -> Requant:
    """Scales that use the output range, and the odd ones: 0, powers of two, above 1, tiny; per tensor or channel."""
    n = channels if rng.random() < 0.7 else 1
    typical = 1.0 / (40.0 * np.sqrt(taps))
    kind = rng.random()
    if kind < 0.65:
        scales = typical * np.exp2(rng.uniform(-1.5, 1.5, n))
    elif kind < 0.8:
        scales = np.exp2(rng.integers(-12, 1, n).astype(float))
    elif kind < 0.9:
        scales = np.exp2(rng.uniform(-25, 3, n))
    else:
        scales = typical * rng.integers(0, 2, n) * 3
    if rounding is Rounding.ONNX:
        scales = scales.astype(np.float32).astype(np.float64)
    pairs = [quantize_multiplier(float(s)) for s in scales]
    return Requant(tuple(m for m, _ in pairs), tuple(s for _, s in pairs), rounding)


def random_clamp(rng: Rng, zero: int) -> tuple[int, Clamp]:
    """(out_zero, clamp): none, ReLU, ReLU with zero at the end, ReLU6, or anything."""
    kind = rng.integers(5)
    if kind == 0:
        return zero, Clamp()
    if kind == 1:
        return zero, Clamp(zero, 127)
    if kind == 2:
        return -128, Clamp()
    if kind == 3:
        return -128, Clamp(-128, int(rng.integers(-127, 128)))
    lo, hi = sorted(int(v) for v in rng.integers(-128, 128, 2))
    return zero, Clamp(lo, hi)


def values(rng: Rng, shape: tuple[int, ...]) -> np.ndarray:
    """int8 data: uniform, mild, or extreme."""
    kind = rng.integers(4)
    if kind == 0:
        return rng.choice(np.array([-128, 127, 0, -1], np.int8), shape)
    if kind == 1:
        return np.clip(np.rint(rng.normal(0, 30, shape)), -128, 127).astype(np.int8)
    return rng.integers(-128, 128, shape).astype(np.int8)


def _parts(rng: Rng, taps: int, channels: int, rounding: Rounding) -> dict[str, object]:
    zero, clamp = random_clamp(rng, int(rng.choice([-128, 127, 0, rng.integers(-128, 128)])))
    return {
        "in_zero": int(rng.choice([-128, 127, 0, rng.integers(-128, 128)])),
        "out_zero": zero,
        "clamp": clamp,
        "requant": random_requant(rng, channels, rounding, taps),
    }


def _bias(rng: Rng, channels: int, taps: int) -> np.ndarray:
    spread = 2000 * np.sqrt(taps) if rng.random() < 0.8 else 1 << 24
    return rng.integers(-spread, spread + 1, channels).astype(np.int32)


def conv_case(rng: Rng, rounding: Rounding, **fixed: int) -> Case:
    """A convolution; `fixed` may give h, w, in_c, out_c, k_h, k_w, stride, dilation, groups."""

    def pick(name: str, low: int, high: int) -> int:
        return fixed.get(name, int(rng.integers(low, high + 1)))

    groups = fixed.get("groups", 1 if rng.random() < 0.75 else int(rng.integers(2, 5)))
    in_c, out_c = pick("in_c", 1, 20), pick("out_c", 1, 20)
    in_c, out_c = -(-in_c // groups) * groups, -(-out_c // groups) * groups
    one = rng.random() < 0.25
    k_h, k_w = (fixed.get("k_h", 1), fixed.get("k_w", 1)) if one else (pick("k_h", 1, 5), pick("k_w", 1, 5))
    s_h, s_w = (fixed["stride"],) * 2 if "stride" in fixed else tuple(int(v) for v in rng.integers(1, 4, 2))
    d = fixed.get("dilation", 1 if rng.random() < 0.75 else int(rng.integers(2, 4)))
    h, w = pick("h", 1, 8), pick("w", 1, 9)
    out_h, top, bottom = geometry(rng, h, k_h, s_h, d)
    out_w, left, right = geometry(rng, w, k_w, s_w, d)
    taps = k_h * k_w * in_c // groups
    op = Conv2D(
        name="conv", inputs=("x", "w", "b"), output="y", stride=(s_h, s_w), dilation=(d, d),
        padding=Padding(top, left, bottom, right), groups=groups, **_parts(rng, taps, out_c, rounding),
    )  # fmt: skip
    operands = [
        Tensor("x", (1, h, w, in_c), DType.S8),
        Tensor("w", (out_c, k_h, k_w, in_c // groups), DType.S8, data=values(rng, (out_c, k_h, k_w, in_c // groups))),
        Tensor("b", (out_c,), DType.S32, data=_bias(rng, out_c, taps)),
    ]
    graph = single_op_graph(op, operands, Tensor("y", (1, out_h, out_w, out_c), DType.S8))
    return Case(graph, op, (values(rng, (1, h, w, in_c)),))


def depthwise_case(rng: Rng, rounding: Rounding, **fixed: int) -> Case:
    """A depthwise convolution; `fixed` may give h, w, in_c, k_h, k_w, stride, dilation, multiplier."""

    def pick(name: str, low: int, high: int) -> int:
        return fixed.get(name, int(rng.integers(low, high + 1)))

    in_c = pick("in_c", 1, 20)
    multiplier = fixed.get("multiplier", 1 if rng.random() < 0.7 else int(rng.integers(2, 5)))
    three = rng.random() < 0.5
    k_h, k_w = (fixed.get("k_h", 3), fixed.get("k_w", 3)) if three else (pick("k_h", 1, 6), pick("k_w", 1, 10))
    s_h, s_w = (fixed["stride"],) * 2 if "stride" in fixed else tuple(int(v) for v in rng.integers(1, 4, 2))
    d = fixed.get("dilation", 1 if rng.random() < 0.8 else int(rng.integers(2, 4)))
    h, w = pick("h", 1, 8), pick("w", 1, 17)
    out_h, top, bottom = geometry(rng, h, k_h, s_h, d)
    out_w, left, right = geometry(rng, w, k_w, s_w, d)
    out_c = in_c * multiplier
    op = DepthwiseConv2D(
        name="dw", inputs=("x", "w", "b"), output="y", stride=(s_h, s_w), dilation=(d, d),
        padding=Padding(top, left, bottom, right), multiplier=multiplier, **_parts(rng, k_h * k_w, out_c, rounding),
    )  # fmt: skip
    operands = [
        Tensor("x", (1, h, w, in_c), DType.S8),
        Tensor("w", (k_h, k_w, out_c), DType.S8, data=values(rng, (k_h, k_w, out_c))),
        Tensor("b", (out_c,), DType.S32, data=_bias(rng, out_c, k_h * k_w)),
    ]
    graph = single_op_graph(op, operands, Tensor("y", (1, out_h, out_w, out_c), DType.S8))
    return Case(graph, op, (values(rng, (1, h, w, in_c)),))


def fully_connected_case(rng: Rng, rounding: Rounding, **fixed: int) -> Case:
    """A fully connected layer; `fixed` may give depth and out_c."""
    depth = fixed.get("depth", int(rng.integers(1, 300)))
    out_c = fixed.get("out_c", int(rng.integers(1, 40)))
    op = FullyConnected(name="fc", inputs=("x", "w", "b"), output="y", **_parts(rng, depth, out_c, rounding))
    operands = [
        Tensor("x", (1, depth), DType.S8),
        Tensor("w", (out_c, depth), DType.S8, data=values(rng, (out_c, depth))),
        Tensor("b", (out_c,), DType.S32, data=_bias(rng, out_c, depth)),
    ]
    graph = single_op_graph(op, operands, Tensor("y", (1, out_c), DType.S8))
    return Case(graph, op, (values(rng, (1, depth)),))
