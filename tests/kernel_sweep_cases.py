# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The operators of the sweep: one maker for each kernel, from a generator of random numbers and a number.

Sizes are bounded by the work of a case, not one by one: channels go from 1 to 300, maps shrink accordingly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kernel_cases import case, extreme_map, random_map, requant_of, tensor
from kernel_harness import Case
from kernel_random import conv_case, depthwise_case, fully_connected_case, random_clamp
from mcufuse.ir import (
    Add,
    AvgPool2D,
    Bottleneck,
    Concat,
    Conv2D,
    DepthwiseConv2D,
    Dequantize,
    DType,
    FullyConnected,
    Lut,
    MaxPool2D,
    Mean,
    Mul,
    Op,
    Pad,
    Padding,
    PRelu,
    Quantize,
    Requant,
    ResizeNearest,
    Rounding,
    Slice,
    Softmax,
    Transpose,
)
from mcufuse.tables import add_parameters, mean_requant, softmax_exponents, softmax_inverse
from test_kernel_bottleneck import bottleneck_case
from test_kernel_pool import geometry, output_shape

__all__ = ["MAKERS", "input_sets"]

Array = npt.NDArray[Any]
Rng = np.random.Generator
Maker = Callable[[Rng, Rounding, int], Case]

# around whole vectors and blocks
_EDGES = (1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 28, 31, 32, 33, 36, 48, 63, 64, 65, 96, 128, 129, 256, 299, 300)


def channels(rng: Rng) -> int:
    """1 to 300: small ones, all of them, and those around blocks."""
    kind = rng.random()
    if kind < 0.4:
        return int(rng.integers(1, 41))
    return int(rng.integers(1, 301)) if kind < 0.75 else int(rng.choice(_EDGES))


def few(rng: Rng) -> int:
    return int(rng.integers(1, 13))


def zero_point(rng: Rng) -> int:
    return int(rng.choice([-128, 127, 0, rng.integers(-128, 128)]))


def size_within(rng: Rng, height: int, width: int, most: int) -> tuple[int, int]:
    """(height, width) from 1 to those given, with at most `most` pixels (at least one)."""
    h, w = int(rng.integers(1, height + 1)), int(rng.integers(1, width + 1))
    while h * w > max(most, 1):
        h, w = (h - 1, w) if h > w else (h, w - 1)
    return h, w


def map_shape(rng: Rng, most: int = 3000) -> tuple[int, int, int, int]:
    """A map of up to about `most` values."""
    c = channels(rng)
    return (1, *size_within(rng, 6, 9, most // c), c)


def window(rng: Rng) -> tuple[int, int]:
    """1x1, 3x3, a row, a column, or anything up to 5x5."""
    kind = rng.integers(6)
    some = int(rng.integers(1, 8))
    fixed = ((1, 1), (3, 3), (some, 1), (1, some))
    return fixed[kind] if kind < 4 else (int(rng.integers(1, 6)), int(rng.integers(1, 6)))


def conv(rng: Rng, rounding: Rounding, i: int) -> Case:
    """Many input channels, many output channels, both medium, both any; at times what suits pairs of values."""
    if i % 8 == 2:
        return paired_conv(rng, rounding)
    pairs = ((channels(rng), few(rng)), (few(rng), channels(rng)), (few(rng) * 3, few(rng) * 3))
    in_c, out_c = pairs[i % 4] if i % 4 < 3 else (channels(rng), channels(rng))
    k_h, k_w = window(rng)
    if in_c * out_c * k_h * k_w > 12000:
        k_h = 1
    if in_c * out_c * k_h * k_w > 12000:
        k_w = 1
    h, w = size_within(rng, 7, 9, 150_000 // (in_c * out_c * k_h * k_w))
    fixed = {"in_c": in_c, "out_c": out_c, "k_h": k_h, "k_w": k_w, "h": h, "w": w}
    if rng.random() < 0.6:
        fixed["groups"] = 1
    elif rng.random() < 0.2:
        fixed["groups"] = in_c  # a depthwise convolution, written as a convolution
        fixed["out_c"] = in_c
    if rng.random() < 0.5:
        fixed["stride"] = int(rng.integers(1, 4))
    return conv_case(rng, rounding, **fixed)


def paired_conv(rng: Rng, rounding: Rounding) -> Case:
    """Whole blocks of channels, windows of up to a multiple of eight values, no weight of -128."""
    k_h, k_w = window(rng) if rng.random() < 0.5 else (1, 1)
    in_c = 8 * int(rng.integers(1, 6)) - (int(rng.integers(4)) if k_h * k_w == 1 else 0)
    out_c = -(-channels(rng) // 4) * 4
    if in_c * out_c * k_h * k_w > 20000:
        out_c = 4 * int(rng.integers(1, 9))
    fixed = {"in_c": in_c, "out_c": out_c, "k_h": k_h, "k_w": k_w, "groups": 1, "h": int(rng.integers(1, 4))}
    case_ = conv_case(rng, rounding, stride=int(rng.integers(1, 3)), w=int(rng.integers(3, 12)), **fixed)
    weights = case_.graph.tensors["w"]
    assert weights.data is not None
    tame = replace(weights, data=np.maximum(weights.data, -127))
    return replace(case_, graph=case_.graph.with_(tensors=[tame]))


def depthwise(rng: Rng, rounding: Rounding, i: int) -> Case:
    """Any window, alternately the windows that have functions of their own."""
    c = channels(rng)
    multiplier = 1 if i % 2 or rng.random() < 0.5 else int(rng.integers(2, 5))
    c = max(c // multiplier, 1)
    k_h, k_w = window(rng) if i % 2 == 0 else (3, 3)
    fixed = {"in_c": c, "multiplier": multiplier, "k_h": k_h, "k_w": k_w}
    if i % 2:
        fixed |= {"stride": 1 + i // 2 % 2, "dilation": 1}
    elif i % 4 == 2:
        fixed |= {"k_h": int(rng.integers(1, 12)), "k_w": 3, "stride": 1 + i // 4 % 2, "dilation": 1}
    fixed["h"], fixed["w"] = size_within(rng, 7, 17, 60_000 // (c * multiplier * k_h * k_w))
    return depthwise_case(rng, rounding, **fixed)


def fully_connected(rng: Rng, rounding: Rounding, i: int) -> Case:
    depth = int(rng.integers(301, 1500)) if i % 8 == 0 else channels(rng)
    return fully_connected_case(rng, rounding, depth=depth, out_c=min(channels(rng), max(40_000 // depth, 1)))


def bottleneck(rng: Rng, rounding: Rounding, i: int) -> Case:
    """Many channels in one place at most; every other one 3x3."""
    in_c, middle, out_c = few(rng), int(rng.integers(1, 25)), few(rng)
    if i % 4 == 1:
        in_c = channels(rng)
    elif i % 4 == 2:
        middle = channels(rng)
    elif i % 4 == 3:
        out_c = channels(rng)
    fixed: dict[str, int] = {"in_c": in_c, "middle": middle, "out_c": out_c}
    if rng.random() < 0.6:
        fixed |= {"k_h": 3, "k_w": 3, "stride": 1 + i // 2 % 2, "dilation": 1}
    else:
        fixed |= {"k_h": int(rng.integers(1, 5)), "k_w": int(rng.integers(1, 6))}
    fixed["h"], fixed["w"] = size_within(rng, 7, 17, 60_000 // (middle * (in_c + 9 + out_c)))
    return bottleneck_case(rng, rounding, **fixed)


def broadcast_to(rng: Rng, shape: Sequence[int]) -> tuple[int, ...]:
    """A shape that NumPy broadcasts to `shape`, mostly itself."""
    kind = rng.random()
    if kind < 0.6:
        return tuple(shape)
    if kind < 0.8:
        return (1, 1, 1, shape[3])
    return tuple(n if rng.random() < 0.5 else 1 for n in shape)


def two_operands(rng: Rng, op: Op) -> Case:
    """Two maps, or a map and a broadcast map or constant, on either side."""
    shape = map_shape(rng)
    other = broadcast_to(rng, shape)
    values = [random_map(rng, shape), random_map(rng, other)]
    shapes = [shape, other]
    constant = rng.random() < 0.3
    swap = rng.random() < 0.3
    operands = [tensor("a", shapes[swap]), tensor("b", shapes[1 - swap])]
    values = values[::-1] if swap else values
    if constant:
        at = 0 if swap else 1
        operands[at] = replace(operands[at], data=values.pop(at))
    return case(op, operands, tensor("y", shape), values)


def add(rng: Rng, rounding: Rounding, i: int) -> Case:
    scales = np.exp(rng.uniform(-9, -1, 2) if i % 4 == 0 else rng.uniform(-5, -2, 2))
    if i % 8 == 1:
        scales = np.exp2(rng.integers(-6, -2, 2).astype(float))  # halves occur
    out = max(scales) * (rng.uniform(0.3, 4.0) if i % 8 != 1 else 2.0 ** rng.integers(-1, 3))
    lhs, rhs, result = add_parameters(*(float(np.float32(s)) for s in (*scales, out)), rounding)
    zeros = [zero_point(rng) for _ in range(3)]
    out_zero, clamp = random_clamp(rng, zeros[2])
    op = Add(
        name="add", inputs=("a", "b"), output="y", lhs_zero=zeros[0], rhs_zero=zeros[1], out_zero=out_zero, lhs=lhs,
        rhs=rhs, out=result, clamp=clamp, subtract=bool(rng.random() < 0.3),
    )  # fmt: skip
    return two_operands(rng, op)


def any_scale(rng: Rng, low: float, high: float) -> float:
    """2^low to 2^high, at times a power of two."""
    exponent = rng.uniform(low, high)
    return float(np.exp2(np.rint(exponent) if rng.random() < 0.25 else exponent))


def mul(rng: Rng, rounding: Rounding, i: int) -> Case:
    del i
    out_zero, clamp = random_clamp(rng, zero_point(rng))
    real = any_scale(rng, -30, 2) if rng.random() < 0.2 else any_scale(rng, -11, -4)
    op = Mul(
        name="mul", inputs=("a", "b"), output="y", lhs_zero=zero_point(rng), rhs_zero=zero_point(rng),
        out_zero=out_zero, requant=requant_of(real, rounding), clamp=clamp,
    )  # fmt: skip
    return two_operands(rng, op)


def prelu(rng: Rng, rounding: Rounding, i: int) -> Case:
    del i
    shape = map_shape(rng)
    alpha = broadcast_to(rng, shape)
    op = PRelu(
        name="p", inputs=("x", "alpha"), output="y", in_zero=zero_point(rng), alpha_zero=zero_point(rng),
        out_zero=zero_point(rng), positive=requant_of(any_scale(rng, -6, 3), rounding),
        negative=requant_of(any_scale(rng, -16, -3), rounding),
    )  # fmt: skip
    operands = [tensor("x", shape), tensor("alpha", alpha, data=random_map(rng, alpha))]
    return case(op, operands, tensor("y", shape), [random_map(rng, shape)])


def lut(rng: Rng, rounding: Rounding, i: int) -> Case:
    del rounding
    source, target = (DType.S8, DType.U8)[i % 2], (DType.S8, DType.U8)[i // 2 % 2]
    low = -128 if target is DType.S8 else 0
    shape = map_shape(rng)
    op = Lut(name="f", inputs=("x",), output="y", table=tuple(rng.integers(low, low + 256, 256).tolist()))
    x = random_map(rng, shape, source)
    return case(op, [tensor("x", shape, source)], tensor("y", shape, target), [x])


def concat(rng: Rng, rounding: Rounding, i: int) -> Case:
    del rounding
    axis = (0, 1, 2, 0)[i % 4]
    names = [f"x{n}" for n in range(int(rng.integers(2, 17 if i % 8 == 0 else 6)))]
    base = list(map_shape(rng, 3000 // len(names))[1:])
    shapes = []
    for _ in names:
        own = list(base)
        own[axis] = channels(rng) if axis == 2 else int(rng.integers(1, 5))
        shapes.append((1, *own))
    out = list(base)
    out[axis] = sum(s[1 + axis] for s in shapes)
    op = Concat(name="c", inputs=tuple(names), output="y", axis=axis)
    operands = [tensor(n, s) for n, s in zip(names, shapes, strict=True)]
    return case(op, operands, tensor("y", (1, *out)), [random_map(rng, s) for s in shapes])


def quantize(rng: Rng, rounding: Rounding, i: int) -> Case:
    shape = map_shape(rng, 600)
    unsigned = i % 4 == 0
    scale = float(np.float32(any_scale(rng, -16, 8)))
    zero = int(rng.integers(0, 256)) if unsigned else zero_point(rng)
    op = Quantize(name="q", inputs=("x",), output="y", scale=scale, zero=zero, rounding=rounding)
    x = (rng.normal(size=shape) * 100 * scale).astype(np.float32)
    output = tensor("y", shape, DType.U8 if unsigned else DType.S8)
    return case(op, [tensor("x", shape, DType.F32)], output, [x])


def dequantize(rng: Rng, rounding: Rounding, i: int) -> Case:
    del rounding
    shape = map_shape(rng, 600)
    dtype = DType.U8 if i % 4 == 0 else DType.S8
    zero = int(rng.integers(0, 256)) if dtype is DType.U8 else zero_point(rng)
    op = Dequantize(name="d", inputs=("x",), output="y", scale=any_scale(rng, -30, 20), zero=zero)
    return case(op, [tensor("x", shape, dtype)], tensor("y", shape, DType.F32), [random_map(rng, shape, dtype)])


def mean(rng: Rng, rounding: Rounding, i: int) -> Case:
    c = channels(rng)
    h, w = size_within(rng, 20, 20, 6000 // c)
    if i % 8 == 1:  # around the limit of the 16-bit lanes
        h, w, c = 16, int(rng.integers(15, 18)), int(rng.integers(1, 30))
    shape = (1, h, w, c)
    requant = None
    if i % 4:
        requant = mean_requant(0.02, 0.02 * any_scale(rng, -5, 3), h * w, rounding)
    out_zero, clamp = random_clamp(rng, zero_point(rng))
    op = Mean(
        name="m", inputs=("x",), output="y", in_zero=zero_point(rng), out_zero=out_zero, requant=requant, clamp=clamp
    )
    return case(op, [tensor("x", shape)], tensor("y", (1, c)), [random_map(rng, shape)])


def pad(rng: Rng, rounding: Rounding, i: int) -> Case:
    del rounding
    shape = map_shape(rng, 1500)
    p = Padding(*rng.integers(0, 4, 4).tolist())
    before, after = rng.integers(0, 20, 2).tolist() if i % 2 else (0, 0)
    value = zero_point(rng)
    op = Pad(name="p", inputs=("x",), output="y", padding=p, channels=(before, after), value=value)
    out = (1, shape[1] + p.top + p.bottom, shape[2] + p.left + p.right, shape[3] + before + after)
    return case(op, [tensor("x", shape)], tensor("y", out), [random_map(rng, shape)])


def max_pool(rng: Rng, rounding: Rounding, i: int) -> Case:
    del rounding, i
    c = channels(rng)
    size, kernel, stride, padding = geometry(rng)
    _, clamp = random_clamp(rng, zero_point(rng))
    op = MaxPool2D(name="p", inputs=("x",), output="y", kernel=kernel, stride=stride, padding=padding, clamp=clamp)
    out = tensor("y", output_shape(size, kernel, stride, padding, c))
    return case(op, [tensor("x", (1, *size, c))], out, [random_map(rng, (1, *size, c))])


def avg_pool(rng: Rng, rounding: Rounding, i: int) -> Case:
    c = channels(rng)
    size, kernel, stride, padding = geometry(rng)
    if i % 16 == 1:  # windows around the limit of the 16-bit lanes
        kernel, c = (16, int(rng.integers(15, 18))), int(rng.integers(1, 30))
        size = (kernel[0] + int(rng.integers(0, 3)), kernel[1] + int(rng.integers(0, 3)))
        padding = Padding(*rng.integers(0, 4, 4).tolist())
    out_zero, clamp = random_clamp(rng, zero_point(rng))
    requant = None
    if i % 3 != 2:
        ratio = any_scale(rng, -4, 3)
        entries = [requant_of(ratio / n, rounding) for n in range(1, kernel[0] * kernel[1] + 1)]
        requant = Requant(tuple(e.multiplier[0] for e in entries), tuple(e.shift[0] for e in entries), rounding)
    op = AvgPool2D(
        name="p", inputs=("x",), output="y", kernel=kernel, stride=stride, padding=padding,
        count_padding=bool(rng.random() < 0.3), in_zero=zero_point(rng) if requant else 0,
        out_zero=out_zero if requant else 0, requant=requant, clamp=clamp,
    )  # fmt: skip
    out = tensor("y", output_shape(size, kernel, stride, padding, c))
    return case(op, [tensor("x", (1, *size, c))], out, [random_map(rng, (1, *size, c))])


def resize(rng: Rng, rounding: Rounding, i: int) -> Case:
    del rounding
    shape = map_shape(rng, 800)
    _, height, width, c = shape
    if i % 2:
        rows = np.repeat(np.arange(height), int(rng.integers(1, 4)))
        columns = np.repeat(np.arange(width), int(rng.choice([1, 2, 2, 3, 4, 16, 17])))
    else:
        rows = np.sort(rng.integers(0, height, int(rng.integers(1, 9))))
        columns = np.sort(rng.integers(0, width, int(rng.integers(1, 12))))
    op = ResizeNearest(name="r", inputs=("x",), output="y", rows=tuple(rows.tolist()), columns=tuple(columns.tolist()))
    out = tensor("y", (1, rows.size, columns.size, c))
    return case(op, [tensor("x", shape)], out, [random_map(rng, shape)])


def slices(rng: Rng, rounding: Rounding, i: int) -> Case:
    del rounding
    shape = map_shape(rng)[1:]
    stride = rng.choice([1, 1, 2, 3, -1, -2] if i % 3 == 0 else [1, 1, 2], 3).tolist()
    begin, size = [], []
    for n, s in zip(shape, stride, strict=True):
        b = int(rng.integers(0, n))
        begin.append(b)
        size.append(int(rng.integers(1, ((n - 1 - b) // s + 1 if s > 0 else b // -s + 1) + 1)))
    if i % 2:  # whole channels
        begin[2], size[2], stride[2] = 0, shape[2], 1
    op = Slice(name="s", inputs=("x",), output="y", begin=tuple(begin), size=tuple(size), stride=tuple(stride))
    dtype = DType.F32 if i % 8 == 7 else DType.S8
    x = random_map(rng, (1, *shape)).astype(dtype.value)
    return case(op, [tensor("x", x.shape, dtype)], tensor("y", (1, *size), dtype), [x])


def softmax(rng: Rng, rounding: Rounding, i: int) -> Case:
    if i % 2:  # so that each of the two functions gets its share
        rounding = Rounding.ONNX
    shape = map_shape(rng, 500)
    scale, out_scale = any_scale(rng, -12, 2), any_scale(rng, -16, 0)
    op = Softmax(
        name="s", inputs=("x",), output="y", rounding=rounding, exponents=softmax_exponents(scale, 1.0, rounding),
        out_zero=-128 if rounding is not Rounding.ONNX else zero_point(rng), out_inverse=softmax_inverse(out_scale),
    )  # fmt: skip
    return case(op, [tensor("x", shape)], tensor("y", shape), [random_map(rng, shape)])


def transpose(rng: Rng, rounding: Rounding, i: int) -> Case:
    del rounding
    shape: tuple[int, ...] = map_shape(rng, 1500)
    if i % 4 == 0:
        shape = (1, shape[1] * shape[2], shape[3])
    perm = (0, *(1 + rng.permutation(len(shape) - 1)).tolist())
    op = Transpose(name="t", inputs=("x",), output="y", perm=perm)
    dtype = DType.F32 if i % 8 == 7 else DType.S8
    x = random_map(rng, shape).astype(dtype.value)
    return case(op, [tensor("x", shape, dtype)], tensor("y", tuple(shape[a] for a in perm), dtype), [x])


MAKERS: dict[type[Op], Maker] = {
    Conv2D: conv, DepthwiseConv2D: depthwise, Bottleneck: bottleneck, FullyConnected: fully_connected, Add: add,
    Concat: concat, Dequantize: dequantize, Lut: lut, Mean: mean, Mul: mul, Pad: pad, AvgPool2D: avg_pool,
    MaxPool2D: max_pool, PRelu: prelu, Quantize: quantize, ResizeNearest: resize, Slice: slices, Softmax: softmax,
    Transpose: transpose,
}  # fmt: skip


def _floats(rng: Rng, own: Array, scale: float) -> list[Array]:
    """Float inputs: what a conversion finds difficult, halves, and large values."""
    special = np.array(
        [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, 1e-40, 3.4e38, 1023.9, 1024.0, -1024.0], np.float32
    )
    halves = (rng.integers(-520, 520, own.shape) / 2 * scale).astype(np.float32)
    large = (rng.normal(size=own.shape) * 10.0 ** rng.integers(-3, 9)).astype(np.float32)
    return [own, rng.choice(special, own.shape), halves, large]


def input_sets(rng: Rng, case_: Case, i: int) -> list[tuple[Array, ...]]:
    """Four inputs of a case: the maker's own, all one extreme, alternating extremes, random with both extremes."""
    sets: list[list[Array]] = [[], [], [], []]
    for number, own in enumerate(case_.inputs):
        if own.dtype == np.float32:
            scale = case_.op.scale if isinstance(case_.op, Quantize) else 1.0
            made = _floats(rng, own, scale)
        else:
            low, high = (0, 255) if own.dtype == np.uint8 else (-128, 127)
            one = high if (i >> number) % 2 else low
            alternating = np.where((np.arange(own.size) + rng.integers(2)) % 2, low, high).reshape(own.shape)
            mixed = extreme_map(rng, own.shape) if low else random_map(rng, own.shape, DType.U8)
            last = rng.integers(low, high + 1, own.shape) if i % 3 else mixed
            made = [own, np.full(own.shape, one), alternating, last]
        for group, array in zip(sets, made, strict=True):
            group.append(np.ascontiguousarray(array, own.dtype))
    return [tuple(group) for group in sets]
