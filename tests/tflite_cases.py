# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Random small models, one for each TFLite operator that the importer reads: `CASES[name](rng)` builds one.

Shapes, options and scales are drawn so that outputs use their range: a scale that saturates or flattens everything
would test little.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tflite_builder import TfliteBuilder

__all__ = ["CASES", "Case", "sample_inputs"]

Rng = np.random.Generator
Array = npt.NDArray[Any]

SAME, VALID = 0, 1
ACTIVATIONS = (0, 1, 2, 3)  # NONE, RELU, RELU_N1_TO_1, RELU6


@dataclass(frozen=True)
class Case:
    """A model and what feeds it: (shape, dtype) of each input, in the file's shapes."""

    data: bytes
    inputs: tuple[tuple[tuple[int, ...], str], ...]
    outputs: int = 1
    in_tflm: bool = True  # whether TFLite Micro runs it


def sample_inputs(case: Case, rng: Rng, count: int) -> list[list[Array]]:
    """Random, extreme and smooth inputs in turn."""
    return [[_sample(shape, dtype, rng, i) for shape, dtype in case.inputs] for i in range(count)]


def _sample(shape: tuple[int, ...], dtype: str, rng: Rng, kind: int) -> Array:
    size = math.prod(shape)
    if kind % 4 == 0:
        unit = rng.uniform(-1, 1, size)
    elif kind % 4 == 1:
        unit = rng.choice([-1.0, 1.0], size)
    elif kind % 4 == 2:
        unit = np.full(size, rng.choice([-1.0, 1.0, 0.0]))
    else:
        unit = np.sin(np.linspace(0, rng.uniform(1, 20), size) + rng.uniform(0, 6))
    if dtype == "FLOAT32":
        return (unit * rng.choice([0.5, 4.0, 1000.0])).astype(np.float32).reshape(shape)
    low, high = (0, 255) if dtype == "UINT8" else (-128, 127)
    values = np.clip(np.rint((unit + 1) / 2 * (high - low) + low), low, high)
    return values.astype(np.uint8 if dtype == "UINT8" else np.int8).reshape(shape)


def _scale(rng: Rng, low: float = 1e-3, high: float = 0.3) -> float:
    return float(np.float32(math.exp(rng.uniform(math.log(low), math.log(high)))))


def _zero(rng: Rng) -> int:
    return int(rng.choice([-128, 0, 127, rng.integers(-128, 128)]))


def _dim(rng: Rng, low: int = 1, high: int = 9) -> int:
    return int(rng.integers(low, high + 1))


def _shape(rng: Rng, rank: int | None = None) -> tuple[int, ...]:
    rank = _dim(rng, 1, 4) if rank is None else rank
    return tuple([1] * (rank >= 2) + [_dim(rng) for _ in range(rank - (rank >= 2))])


def _extent(size: int, kernel: int, stride: int, dilation: int, padding: int) -> int:
    if padding == SAME:
        return -(-size // stride)
    return (size - (kernel - 1) * dilation - 1) // stride + 1


@dataclass(frozen=True)
class _Window:
    """A 2-D window over a map that fits."""

    hw: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: int

    @property
    def out(self) -> tuple[int, int]:
        h, w = (
            _extent(s, k, t, d, self.padding)
            for s, k, t, d in zip(self.hw, self.kernel, self.stride, self.dilation, strict=True)
        )
        return h, w


def _window(rng: Rng, dilate: bool = True) -> _Window:
    while True:
        kernel = (_dim(rng, 1, 5), _dim(rng, 1, 5))
        dilation = (_dim(rng, 1, 3), _dim(rng, 1, 3)) if dilate and rng.random() < 0.3 else (1, 1)
        stride = (_dim(rng, 1, 3), _dim(rng, 1, 3))
        window = _Window((_dim(rng, 1, 11), _dim(rng, 1, 11)), kernel, stride, dilation, int(rng.choice([SAME, VALID])))
        if min(window.out) >= 1:
            return window


def _linear_scales(
    rng: Rng, x_scale: float, weights: Array, axis: int, per_channel: bool
) -> tuple[list[float], float, Array]:
    """(weight scales, output scale, bias) under which the outputs use about the whole range."""
    channels = weights.shape[axis]
    scales = [_scale(rng, 1e-3, 1e-2) for _ in range(channels if per_channel else 1)]
    depth = weights.size // channels
    spread = 74 * 74 * math.sqrt(depth)  # of the accumulators, for uniform operands
    out_scale = float(np.float32(x_scale * max(scales) * spread / 60 * math.exp(rng.uniform(-1, 1))))
    bias = rng.integers(-int(spread), int(spread) + 1, channels)
    return scales, out_scale, bias


def _conv2d(rng: Rng, groups: int = 1) -> Case:
    w = _window(rng)
    channels, out_channels = groups * _dim(rng, 1, 6), groups * _dim(rng, 1, 9)
    m, x_scale = TfliteBuilder(), _scale(rng)
    weights = rng.integers(-127, 128, (out_channels, *w.kernel, channels // groups))
    scales, y_scale, bias = _linear_scales(rng, x_scale, weights, 0, bool(rng.random() < 0.8))
    x = m.tensor((1, *w.hw, channels), scale=x_scale, zero=_zero(rng))
    k = m.tensor(weights.shape, scale=scales, data=weights, axis=0)
    operands = [x, k]
    if rng.random() < 0.8:
        operands.append(m.tensor((out_channels,), "INT32", scale=[x_scale * s for s in scales], data=bias))
    y = m.tensor((1, *w.out, out_channels), scale=y_scale, zero=_zero(rng))
    m.op(
        "CONV_2D", operands, [y], "Conv2DOptions", Padding=w.padding, StrideH=w.stride[0], StrideW=w.stride[1],
        DilationHFactor=w.dilation[0], DilationWFactor=w.dilation[1],
        FusedActivationFunction=int(rng.choice(ACTIVATIONS)),
    )  # fmt: skip
    return Case(m.build([x], [y]), (((1, *w.hw, channels), "INT8"),))


def _int4(values: Array) -> bytes:
    """Two values a byte, the first in the low half."""
    flat = np.append(values.reshape(-1), [0] * (values.size % 2)).astype(np.int64) & 15
    return bytes((flat[::2] | flat[1::2] << 4).astype(np.uint8))


def _conv2d_int4(rng: Rng) -> Case:
    channels, out_channels = _dim(rng, 1, 5), _dim(rng, 1, 5)
    m, x_scale = TfliteBuilder(), _scale(rng)
    weights = rng.integers(-7, 8, (out_channels, 3, 3, channels))
    scales = [_scale(rng, 0.01, 0.1) for _ in range(out_channels)]
    x = m.tensor((1, 6, 7, channels), scale=x_scale, zero=_zero(rng))
    k = m.tensor(weights.shape, "INT4", scale=scales, data=_int4(weights))
    b = m.tensor(
        (out_channels,), "INT32", scale=[x_scale * s for s in scales], data=rng.integers(-900, 900, out_channels)
    )
    y = m.tensor((1, 6, 7, out_channels), scale=x_scale * max(scales) * 30 * math.sqrt(channels), zero=_zero(rng))
    m.op("CONV_2D", [x, k, b], [y], "Conv2DOptions", Padding=SAME, StrideH=1, StrideW=1)
    return Case(m.build([x], [y]), (((1, 6, 7, channels), "INT8"),))


def _grouped_conv2d(rng: Rng) -> Case:
    return _conv2d(rng, groups=_dim(rng, 2, 3))


def _depthwise(rng: Rng) -> Case:
    w = _window(rng)
    channels, multiplier = _dim(rng, 1, 8), int(rng.choice([1, 1, 2, 3]))
    m, x_scale = TfliteBuilder(), _scale(rng)
    weights = rng.integers(-127, 128, (1, *w.kernel, channels * multiplier))
    scales, y_scale, bias = _linear_scales(rng, x_scale, weights, 3, bool(rng.random() < 0.8))
    x = m.tensor((1, *w.hw, channels), scale=x_scale, zero=_zero(rng))
    k = m.tensor(weights.shape, scale=scales, data=weights, axis=3)
    b = m.tensor((channels * multiplier,), "INT32", scale=[x_scale * s for s in scales], data=bias)
    y = m.tensor((1, *w.out, channels * multiplier), scale=y_scale, zero=_zero(rng))
    m.op(
        "DEPTHWISE_CONV_2D", [x, k, b], [y], "DepthwiseConv2DOptions", Padding=w.padding,
        StrideH=w.stride[0], StrideW=w.stride[1], DilationHFactor=w.dilation[0], DilationWFactor=w.dilation[1],
        DepthMultiplier=multiplier, FusedActivationFunction=int(rng.choice(ACTIVATIONS)),
    )  # fmt: skip
    return Case(m.build([x], [y]), (((1, *w.hw, channels), "INT8"),))


def _fully_connected(rng: Rng, rows: int = 1) -> Case:
    depth, out_channels = _dim(rng, 1, 40), _dim(rng, 1, 17)
    m, x_scale = TfliteBuilder(), _scale(rng)
    weights = rng.integers(-127, 128, (out_channels, depth))
    scales, y_scale, bias = _linear_scales(rng, x_scale, weights, 0, bool(rng.random() < 0.5))
    keep = bool(rng.random() < 0.5)
    shape = (1, rows, depth) if rows > 1 or keep else (1, depth)
    x = m.tensor(shape, scale=x_scale, zero=_zero(rng))
    k = m.tensor(weights.shape, scale=scales, data=weights, axis=0)
    b = m.tensor((out_channels,), "INT32", scale=[np.float32(x_scale) * np.float32(s) for s in scales], data=bias)
    out_shape = (*shape[:-1], out_channels) if keep else (rows, out_channels)
    y = m.tensor(out_shape, scale=y_scale, zero=_zero(rng))
    operands = [x, k, b] if rng.random() < 0.7 else [x, k, -1]
    m.op(
        "FULLY_CONNECTED", operands, [y], "FullyConnectedOptions", KeepNumDims=keep,
        FusedActivationFunction=int(rng.choice(ACTIVATIONS)),
    )  # fmt: skip
    return Case(m.build([x], [y]), ((shape, "INT8"),))


def _fully_connected_rows(rng: Rng) -> Case:
    return _fully_connected(rng, rows=_dim(rng, 2, 6))


def _pool(rng: Rng, kind: str) -> Case:
    w = _window(rng, dilate=False)
    channels, scale, zero = _dim(rng), _scale(rng), _zero(rng)
    m = TfliteBuilder()
    x = m.tensor((1, *w.hw, channels), scale=scale, zero=zero)
    y = m.tensor((1, *w.out, channels), scale=scale, zero=zero)
    m.op(
        kind, [x], [y], "Pool2DOptions", Padding=w.padding, StrideH=w.stride[0], StrideW=w.stride[1],
        FilterHeight=w.kernel[0], FilterWidth=w.kernel[1], FusedActivationFunction=int(rng.choice(ACTIVATIONS)),
    )  # fmt: skip
    return Case(m.build([x], [y]), (((1, *w.hw, channels), "INT8"),))


def _mean(rng: Rng) -> Case:
    shape = _shape(rng, _dim(rng, 2, 4))
    rank = len(shape)
    first = _dim(rng, 0, rank - 1)
    axes = list(range(first, _dim(rng, first, rank - 1) + 1))
    keep = bool(rng.random() < 0.5)
    out = tuple(1 if i in axes else d for i, d in enumerate(shape) if keep or i not in axes)
    m, x_scale = TfliteBuilder(), _scale(rng)
    x = m.tensor(shape, scale=x_scale, zero=_zero(rng))
    y = m.tensor(out, scale=x_scale * rng.uniform(0.3, 1.5), zero=_zero(rng))
    m.op(
        "MEAN", [x, m.ints([a - rank if rng.random() < 0.3 else a for a in axes])], [y], "ReducerOptions", KeepDims=keep
    )
    return Case(m.build([x], [y]), ((shape, "INT8"),))


def _binary(rng: Rng, kind: str) -> Case:
    """Two activations, or an activation and a constant that broadcasts, in either order."""
    shape = _shape(rng)
    m, scales, zeros = TfliteBuilder(), [_scale(rng), 0.0], [_zero(rng), _zero(rng)]
    scales[1] = scales[0] * math.exp(rng.uniform(-2, 2))
    if kind == "MUL":
        scales[1] = _scale(rng)
        y_scale = scales[0] * scales[1] * 60 * math.exp(rng.uniform(-1, 1))
    else:
        y_scale = max(scales) * math.exp(rng.uniform(-0.7, 1))
    style = rng.choice(["two", "same", "scalar", "channel", "full", "inner"])
    x = m.tensor(shape, scale=scales[0], zero=zeros[0])
    y = m.tensor(shape, scale=y_scale, zero=_zero(rng))
    inputs: list[tuple[tuple[int, ...], str]] = [(shape, "INT8")]
    feeds = [x]
    if style == "two":
        other = m.tensor(shape, scale=scales[1], zero=zeros[1])
        inputs.append((shape, "INT8"))
        feeds.append(other)
    elif style == "same":
        other = x
    else:
        shapes = {"scalar": [(), (1,)], "channel": [shape[-1:]], "full": [shape], "inner": [(1, *shape[1:])]}[
            str(style)
        ]
        of = shapes[int(rng.integers(len(shapes)))]
        other = m.tensor(of, scale=scales[1], zero=zeros[1], data=rng.integers(-128, 128, of))
    pair = [x, other]
    if rng.random() < 0.4 and (kind != "SUB" or style in ("two", "same", "scalar")):
        pair.reverse()
    options = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions"}[kind]
    m.op(kind, pair, [y], options, FusedActivationFunction=int(rng.choice(ACTIVATIONS)))
    return Case(m.build(feeds, [y]), tuple(inputs))


def _sub_from_constant(rng: Rng) -> Case:
    """A constant for each channel minus an activation of the coarser scale, which is always exact."""
    shape = _shape(rng)
    m, scale = TfliteBuilder(), _scale(rng)
    x = m.tensor(shape, scale=scale, zero=_zero(rng))
    c = m.tensor(
        shape[-1:], scale=scale * rng.uniform(0.1, 1), zero=_zero(rng), data=rng.integers(-128, 128, shape[-1])
    )
    y = m.tensor(shape, scale=scale * rng.uniform(0.6, 2), zero=_zero(rng))
    m.op("SUB", [c, x], [y], "SubOptions", FusedActivationFunction=int(rng.choice(ACTIVATIONS)))
    return Case(m.build([x], [y]), ((shape, "INT8"),))


def _gate(rng: Rng) -> Case:
    """MUL of a map and one value for each channel, in either order."""
    shape = _shape(rng, 4)
    m, scales = TfliteBuilder(), (_scale(rng), 1 / 256)
    x = m.tensor(shape, scale=scales[0], zero=_zero(rng))
    g = m.tensor((1, 1, 1, shape[3]), scale=scales[1], zero=-128)
    y = m.tensor(shape, scale=scales[0] * rng.uniform(0.4, 1.0), zero=_zero(rng))
    m.op("MUL", [x, g] if rng.random() < 0.5 else [g, x], [y], "MulOptions")
    return Case(m.build([x, g], [y]), ((shape, "INT8"), ((1, 1, 1, shape[3]), "INT8")))


def _prelu(rng: Rng) -> Case:
    shape = _shape(rng, 4)
    m, x_scale = TfliteBuilder(), _scale(rng)
    alpha_shape = [(1, 1, shape[3]), (shape[3],), shape[1:]][int(rng.integers(3))]
    x = m.tensor(shape, scale=x_scale, zero=_zero(rng))
    a = m.tensor(alpha_shape, scale=_scale(rng), zero=_zero(rng), data=rng.integers(-128, 128, alpha_shape))
    y = m.tensor(shape, scale=x_scale * rng.uniform(0.5, 1.5), zero=_zero(rng))
    m.op("PRELU", [x, a], [y])
    return Case(m.build([x], [y]), ((shape, "INT8"),))


def _unary(rng: Rng, kind: str, options: str = "", y_quant: tuple[float, int] | None = None, **fields: Any) -> Case:
    """A function of one value over all 256 of them."""
    shape = (1, 16, 16, 1)
    m, x_scale = TfliteBuilder(), _scale(rng, 1e-3, 0.5)
    scale, zero = y_quant or (x_scale * rng.uniform(0.3, 1.5), _zero(rng))
    x = m.tensor(shape, scale=x_scale, zero=_zero(rng))
    y = m.tensor(shape, scale=scale, zero=zero)
    m.op(kind, [x], [y], options, **fields)
    return Case(m.build([x], [y]), ((shape, "INT8"),))


def _relu6(rng: Rng) -> Case:
    """TFLite Micro's RELU6 keeps the input's quantization, and demands that 6 is representable."""
    m, zero = TfliteBuilder(), _dim(rng, -128, 0)
    x_scale = rng.uniform(6 / 126, 0.4)
    x = m.tensor((1, 16, 16, 1), scale=x_scale, zero=zero)
    y = m.tensor((1, 16, 16, 1), scale=x_scale, zero=zero)
    m.op("RELU6", [x], [y])
    return Case(m.build([x], [y]), (((1, 16, 16, 1), "INT8"),))


def _leaky_relu(rng: Rng) -> Case:
    return _unary(
        rng, "LEAKY_RELU", "LeakyReluOptions", Alpha=float(rng.choice([0.01, 0.1, 0.3, 1.5, rng.uniform(0, 1)]))
    )


def _softmax(rng: Rng) -> Case:
    shape = (1, _dim(rng, 1, 4), _dim(rng, 2, 40)) if rng.random() < 0.5 else (1, _dim(rng, 2, 40))
    m = TfliteBuilder()
    x = m.tensor(shape, scale=_scale(rng, 0.005, 0.5), zero=_zero(rng))
    y = m.tensor(shape, scale=1 / 256, zero=-128)
    m.op("SOFTMAX", [x], [y], "SoftmaxOptions", Beta=float(rng.choice([1.0, 1.0, 0.5, 2.0])))
    return Case(m.build([x], [y]), ((shape, "INT8"),))


def _quantize(rng: Rng, source: str, target: str) -> Case:
    shape = _shape(rng)
    m, x_scale = TfliteBuilder(), _scale(rng)
    quants = {"INT8": _zero(rng), "UINT8": _zero(rng) + 128}
    other = {"INT8": _zero(rng), "UINT8": _zero(rng) + 128}
    x_quant = {} if source == "FLOAT32" else {"scale": x_scale, "zero": quants[source]}
    x = m.tensor(shape, source, **x_quant)
    y = m.tensor(shape, target, scale=x_scale * float(rng.choice([1.0, rng.uniform(0.3, 2)])), zero=other[target])
    m.op("QUANTIZE", [x], [y])
    return Case(m.build([x], [y]), ((shape, source),))


def _dequantize(rng: Rng, source: str) -> Case:
    shape, zero = _shape(rng), _zero(rng)
    m = TfliteBuilder()
    x = m.tensor(shape, source, scale=_scale(rng), zero=zero + (128 if source == "UINT8" else 0))
    y = m.tensor(shape, "FLOAT32")
    m.op("DEQUANTIZE", [x], [y])
    return Case(m.build([x], [y]), ((shape, source),))


def _float_borders(rng: Rng) -> Case:
    """float32 in and out of an int8 convolution."""
    m, x_scale = TfliteBuilder(), _scale(rng, 0.01, 0.1)
    weights = rng.integers(-127, 128, (3, 1, 1, 2))
    f = m.tensor((1, 4, 5, 2), "FLOAT32")
    x = m.tensor((1, 4, 5, 2), scale=x_scale, zero=_zero(rng))
    k = m.tensor(weights.shape, scale=0.01, data=weights)
    y = m.tensor((1, 4, 5, 3), scale=x_scale * 0.7, zero=_zero(rng))
    out = m.tensor((1, 4, 5, 3), "FLOAT32")
    m.op("QUANTIZE", [f], [x])
    m.op("CONV_2D", [x, k], [y], "Conv2DOptions", StrideH=1, StrideW=1)
    m.op("DEQUANTIZE", [y], [out])
    return Case(m.build([f], [out]), (((1, 4, 5, 2), "FLOAT32"),))


def _moved(
    rng: Rng,
    kind: str,
    shape: Sequence[int],
    out: Sequence[int],
    options: str = "",
    extra: Sequence[Array] = (),
    **fields: Any,
) -> Case:
    """An operator that moves data, with constant int32 operands behind the data."""
    m, scale, zero = TfliteBuilder(), _scale(rng), _zero(rng)
    x = m.tensor(shape, scale=scale, zero=zero)
    y = m.tensor(out, scale=scale, zero=zero)
    operands = [m.tensor(np.shape(e), "INT32", data=e) for e in extra]
    m.op(kind, [x, *operands], [y], options, **fields)
    return Case(m.build([x], [y]), ((tuple(shape), "INT8"),))


def _pad(rng: Rng, value: bool = False) -> Case:
    shape = _shape(rng)
    pairs = np.array([(0, 0) if i == 0 and len(shape) > 1 else rng.integers(0, 4, 2) for i in range(len(shape))])
    out = tuple(int(d + p.sum()) for d, p in zip(shape, pairs, strict=True))
    m, scale, zero = TfliteBuilder(), _scale(rng), _zero(rng)
    x = m.tensor(shape, scale=scale, zero=zero)
    p = m.tensor(pairs.shape, "INT32", data=pairs)
    y = m.tensor(out, scale=scale, zero=zero)
    extra = [m.tensor((1,), scale=scale, zero=zero, data=[rng.integers(-128, 128)])] if value else []
    m.op("PADV2" if value else "PAD", [x, p, *extra], [y], "PadV2Options" if value else "PadOptions")
    return Case(m.build([x], [y]), ((shape, "INT8"),))


def _concat(rng: Rng) -> Case:
    shape = list(_shape(rng))
    axis = _dim(rng, 1 if len(shape) > 1 else 0, len(shape) - 1)
    m, scale, zero = TfliteBuilder(), _scale(rng), _zero(rng)
    parts = []
    for _ in range(_dim(rng, 1, 4)):
        shape[axis] = _dim(rng, 1, 4)
        parts.append(tuple(shape))
    numbers = [m.tensor(p, scale=scale, zero=zero) for p in parts]
    shape[axis] = sum(p[axis] for p in parts)
    y = m.tensor(shape, scale=scale, zero=zero)
    chosen = axis if rng.random() < 0.5 else axis - len(shape)
    m.op("CONCATENATION", numbers, [y], "ConcatenationOptions", Axis=chosen)
    return Case(m.build(numbers, [y]), tuple((p, "INT8") for p in parts))


def _pack(rng: Rng) -> Case:
    shape = _shape(rng, _dim(rng, 2, 3))
    axis, count = _dim(rng, 1, len(shape)), _dim(rng, 1, 3)
    m, scale, zero = TfliteBuilder(), _scale(rng), _zero(rng)
    numbers = [m.tensor(shape, scale=scale, zero=zero) for _ in range(count)]
    y = m.tensor((*shape[:axis], count, *shape[axis:]), scale=scale, zero=zero)
    m.op("PACK", numbers, [y], "PackOptions", ValuesCount=count, Axis=axis)
    return Case(m.build(numbers, [y]), tuple((shape, "INT8") for _ in range(count)))


def _split(rng: Rng, kind: str) -> Case:
    shape = list(_shape(rng))
    axis, count = _dim(rng, 1 if len(shape) > 1 else 0, len(shape) - 1), _dim(rng, 1, 4)
    sizes = [_dim(rng, 1, 4)] * count if kind == "SPLIT" else [_dim(rng, 1, 4) for _ in range(count)]
    sizes = [1] * count if kind == "UNPACK" else sizes
    shape[axis] = sum(sizes)
    m, scale, zero = TfliteBuilder(), _scale(rng), _zero(rng)
    x = m.tensor(shape, scale=scale, zero=zero)
    shapes = [[n if i == axis else d for i, d in enumerate(shape)] for n in sizes]
    if kind == "UNPACK":
        shapes = [[d for i, d in enumerate(shape) if i != axis]] * count
    outs = [m.tensor(of, scale=scale, zero=zero) for of in shapes]
    if kind == "SPLIT":
        m.op("SPLIT", [m.ints([axis], ()), x], outs, "SplitOptions", NumSplits=count)
    elif kind == "SPLIT_V":
        m.op("SPLIT_V", [x, m.ints(sizes), m.ints([axis], ())], outs, "SplitVOptions", NumSplits=count)
    else:
        m.op("UNPACK", [x], outs, "UnpackOptions", Num=count, Axis=axis)
    return Case(m.build([x], outs), ((tuple(shape), "INT8"),), outputs=count)


def _slice(rng: Rng) -> Case:
    shape = _shape(rng)
    begin = [int(rng.integers(0, d)) for d in shape]
    size = [int(rng.integers(1, d - b + 1)) for b, d in zip(begin, shape, strict=True)]
    given = [-1 if b + s == d and rng.random() < 0.5 else s for b, s, d in zip(begin, size, shape, strict=True)]
    return _moved(rng, "SLICE", shape, size, "SliceOptions", [np.array(begin), np.array(given)])


def _strided_slice(rng: Rng) -> Case:
    shape = _shape(rng)
    rank = len(shape)
    masks = [int(rng.integers(0, 1 << rank)) if rng.random() < 0.5 else 0 for _ in range(3)]  # begin, end, shrink
    begin, end, stride, out = [], [], [], []
    for i, d in enumerate(shape):
        b = int(rng.integers(0, d))
        e, s = int(rng.integers(b + 1, d + 1)), int(rng.choice([1, 1, 2, 3]))
        shrink = bool(masks[2] >> i & 1)
        first, last = (0 if masks[0] >> i & 1 else b), (d if masks[1] >> i & 1 else e)
        if not shrink:
            out.append(-(-(last - first) // s))
        begin.append(b - d if rng.random() < 0.3 else b)
        end.append(e)
        stride.append(1 if shrink else s)
    return _moved(
        rng, "STRIDED_SLICE", shape, out, "StridedSliceOptions", [np.array(v) for v in (begin, end, stride)],
        BeginMask=masks[0], EndMask=masks[1], ShrinkAxisMask=masks[2],
    )  # fmt: skip


def _reshape(rng: Rng) -> Case:
    shape = _shape(rng, 4)
    out = (1, shape[1] * shape[2], shape[3]) if rng.random() < 0.5 else (1, math.prod(shape))
    return _moved(rng, "RESHAPE", shape, out, "ReshapeOptions", [np.array(out)])


def _squeeze(rng: Rng) -> Case:
    shape = (1, _dim(rng), 1, _dim(rng))
    return _moved(rng, "SQUEEZE", shape, (1, shape[1], shape[3]), "SqueezeOptions", SqueezeDims=[2])


def _expand_dims(rng: Rng) -> Case:
    shape = (1, _dim(rng), _dim(rng))
    return _moved(rng, "EXPAND_DIMS", shape, (1, shape[1], 1, shape[2]), "ExpandDimsOptions", [np.array(2)])


def _transpose(rng: Rng) -> Case:
    shape = _shape(rng)
    perm = rng.permutation(len(shape))
    if len(shape) == 4 and shape[0] == 1 and rng.random() < 0.8:
        perm = np.concatenate([[0], 1 + rng.permutation(3)])
    out = [shape[i] for i in perm]
    return _moved(rng, "TRANSPOSE", shape, out, "TransposeOptions", [perm])


def _shuffle(rng: Rng) -> Case:
    """Rank 5: the channel shuffle of ShuffleNet."""
    h, w, groups, depth = _dim(rng, 1, 4), _dim(rng, 1, 4), _dim(rng, 2, 3), _dim(rng, 1, 4)
    m, scale, zero = TfliteBuilder(), _scale(rng), _zero(rng)
    x = m.tensor((1, h, w, groups * depth), scale=scale, zero=zero)
    a = m.tensor((1, h, w, groups, depth), scale=scale, zero=zero)
    b = m.tensor((1, h, w, depth, groups), scale=scale, zero=zero)
    y = m.tensor((1, h, w, groups * depth), scale=scale, zero=zero)
    m.op("RESHAPE", [x, m.ints([1, h, w, groups, depth])], [a])
    m.op("TRANSPOSE", [a, m.ints([0, 1, 2, 4, 3])], [b])
    m.op("RESHAPE", [b, m.ints([1, h, w, groups * depth])], [y])
    return Case(m.build([x], [y]), (((1, h, w, groups * depth), "INT8"),))


def _resize(rng: Rng) -> Case:
    shape = _shape(rng, 4)
    size = [_dim(rng, 1, 14), _dim(rng, 1, 14)]
    corners, centers = [(False, False), (True, False), (False, True)][int(rng.integers(3))]
    return _moved(
        rng, "RESIZE_NEAREST_NEIGHBOR", shape, (1, *size, shape[3]), "ResizeNearestNeighborOptions", [np.array(size)],
        AlignCorners=corners, HalfPixelCenters=centers,
    )  # fmt: skip


def _fixed(kind: str, quant: tuple[float, int]) -> Callable[[Rng], Case]:
    return lambda rng: _unary(rng, kind, y_quant=quant)


def _outside_tflm(build: Callable[[Rng], Case]) -> Callable[[Rng], Case]:
    return lambda rng: replace(build(rng), in_tflm=False)


CASES: dict[str, Callable[[Rng], Case]] = {
    "conv2d": _conv2d,
    "conv2d-int4": _conv2d_int4,
    "conv2d-groups": _grouped_conv2d,
    "depthwise": _depthwise,
    "fully-connected": _fully_connected,
    "fully-connected-rows": _fully_connected_rows,
    "max-pool": lambda rng: _pool(rng, "MAX_POOL_2D"),
    "average-pool": lambda rng: _pool(rng, "AVERAGE_POOL_2D"),
    "mean": _mean,
    "add": lambda rng: _binary(rng, "ADD"),
    "sub": lambda rng: _binary(rng, "SUB"),
    "sub-from-constant": _sub_from_constant,
    "mul": lambda rng: _binary(rng, "MUL"),
    "gate": _gate,
    "prelu": _prelu,
    "relu": lambda rng: _unary(rng, "RELU"),
    "relu6": _relu6,
    "relu-n1-to-1": _outside_tflm(lambda rng: _unary(rng, "RELU_N1_TO_1")),
    "relu-0-to-1": _outside_tflm(lambda rng: _unary(rng, "RELU_0_TO_1")),
    "leaky-relu": _leaky_relu,
    "elu": lambda rng: _unary(rng, "ELU"),
    "gelu": _outside_tflm(lambda rng: _unary(rng, "GELU", "GeluOptions", Approximate=bool(rng.random() < 0.5))),
    "hard-swish": lambda rng: _unary(rng, "HARD_SWISH"),
    "logistic": _fixed("LOGISTIC", (1 / 256, -128)),
    "tanh": _fixed("TANH", (1 / 128, 0)),
    "softmax": _softmax,
    "quantize-f32": lambda rng: _quantize(rng, "FLOAT32", "INT8"),
    "quantize-s8": lambda rng: _quantize(rng, "INT8", "INT8"),
    "quantize-s8-u8": lambda rng: _quantize(rng, "INT8", "UINT8"),
    "quantize-u8-s8": lambda rng: _quantize(rng, "UINT8", "INT8"),
    "dequantize": lambda rng: _dequantize(rng, "INT8"),
    "dequantize-u8": lambda rng: _dequantize(rng, "UINT8"),
    "float-borders": _float_borders,
    "pad": _pad,
    "padv2": lambda rng: _pad(rng, value=True),
    "concatenation": _concat,
    "pack": _pack,
    "split": lambda rng: _split(rng, "SPLIT"),
    "split-v": lambda rng: _split(rng, "SPLIT_V"),
    "unpack": lambda rng: _split(rng, "UNPACK"),
    "slice": _slice,
    "strided-slice": _strided_slice,
    "reshape": _reshape,
    "squeeze": _squeeze,
    "expand-dims": _expand_dims,
    "transpose": _transpose,
    "shuffle": _shuffle,
    "resize-nearest": _resize,
}
