# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Convolution, Gemm, MatMul and BatchNormalization: sums of products with constant weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..ir import Conv2D, DepthwiseConv2D, DType, FullyConnected, Padding
from .onnx_build import Builder
from .onnx_context import Args, Context, Handler, channel_vector, operand, optional_array, shape_of
from .onnx_node import Gap, Node
from .onnx_qdq import qlinear
from .onnx_values import F64, Const, Linear8, Pending, QParams, QuantConst, Real, Shape, Value, describe
from .onnx_window import Window, read_window

__all__ = ["HANDLERS", "Linear", "channel_affine"]

Weights = npt.NDArray[np.int16]

_FLOAT_WEIGHTS = "quantize the weights too (see docs/quantizing.md)"
_SYMMETRIC = 'quantize again with symmetric weights: weight_type=QInt8, or extra_options={"WeightSymmetric": True}'
_UNIT = 64  # the weight that stands for 1 where only a scale per channel is applied


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Linear(Pending):
    """gain * (weights * x + bias), channel by channel: `scale[c] * sum(weights[c] * (x - zero)) + bias[c]`.

    `weights` is [OC, KH, KW, IC/groups] with a `window`, [OC, K] without one; `channel_axis` is that of `base_shape`.
    """

    x: Linear8
    x_shape: Shape
    weights: Weights
    scale: F64
    bias: F64
    channel_axis: int
    window: Window | None = None
    groups: int = 1

    def _changeable(self, what: str) -> None:
        if self.bounded or self.moves or self.gain != 1.0:
            raise Gap(f"{what} cannot be folded into {self.what}", "quantize the value between them")

    def with_bias(self, bias: F64) -> Linear:
        """The result plus a constant for each channel."""
        self._changeable("the addition")
        return replace(self, bias=self.bias + bias)

    def with_gain(self, gain: F64) -> Linear:
        """The result times a constant for each channel; a negative one turns the weights' signs."""
        self._changeable("the factor")
        along = gain.reshape([-1] + [1] * (self.weights.ndim - 1))
        weights = np.where(along == 0, 0, np.where(along < 0, -self.weights, self.weights))
        if weights.max(initial=0) > 127:
            raise Gap(
                f"a negative factor turns a weight -128 of {self.what} into 128",
                "fuse BatchNormalization before quantizing: onnxruntime.quantization.preprocess",
            )
        scale = np.where(gain == 0, self.scale, self.scale * np.abs(gain))
        return replace(self, weights=weights, scale=scale, bias=self.bias * gain)

    def emit(self, b: Builder, name: str, quant: QParams, lo: float, hi: float) -> str:
        """Adds a convolution or a fully connected operator."""
        unit = np.float64(self.x.scale) * self.scale
        bias = np.rint(self.bias / unit)
        if not np.all(np.abs(bias) < 2**31):
            raise Gap(
                f"a bias of {self.what} is {float(np.abs(bias).max()):.3g} units of its accumulator: beyond 32 bits",
                "the weights of that channel are next to 0; quantize again per tensor, or remove the channel",
            )
        common: dict[str, Any] = {
            "in_zero": self.x.zero,
            "out_zero": quant.stored_zero,
            "requant": b.requant(float(self.x.scale), self.scale, float(quant.scale)),
            "clamp": b.clamp(lo, hi, quant),
            "origin": self.origin,
        }
        bias_name = b.const(f"{name}/bias", bias, DType.S32)
        if self.window is None:
            weights = b.const(f"{name}/weights", self.weights)
            output = b.tensor(name, (1, self.weights.shape[0]))
            inputs = (self.x.tensor, weights, bias_name)
            return b.add(FullyConnected(name=output, inputs=inputs, output=output, **common))
        return self._emit_window(b, name, self.window, bias_name, common)

    def _emit_window(self, b: Builder, name: str, window: Window, bias: str, common: dict[str, Any]) -> str:
        channels_first = self.channel_axis == 1 and len(self.base_shape) > 2
        if channels_first:
            x = b.channels_last(self.x.tensor, self.x_shape)
            spatial = (*self.base_shape[2:], 1)[:2]
        else:
            x = b.shaped(self.x.tensor, _as_map(self.x_shape))
            spatial = _as_map(self.base_shape)[1:3]
        shape = (1, *spatial, self.weights.shape[0])
        output = b.tensor(f"{name}/nhwc" if channels_first else name, shape)
        geometry: dict[str, Any] = {"stride": window.stride, "dilation": window.dilation, "padding": window.padding}
        input_channels = b.tensors[x].shape[3]
        if self.groups == input_channels and self.groups > 1:
            multiplier = self.weights.shape[0] // self.groups
            weights = b.const(f"{name}/weights", self.weights[..., 0].transpose(1, 2, 0))
            inputs = (x, weights, bias)
            op = DepthwiseConv2D(name=output, inputs=inputs, output=output, multiplier=multiplier, **geometry, **common)
            b.add(op)
        else:
            inputs = (x, b.const(f"{name}/weights", self.weights), bias)
            b.add(Conv2D(name=output, inputs=inputs, output=output, groups=self.groups, **geometry, **common))
        return b.channels_first(output, self.base_shape, name) if channels_first else output


def _as_map(shape: Shape) -> Shape:
    """A shape whose last axis holds channels, as [1, H, W, C]."""
    if len(shape) == 4 and shape[0] == 1:
        return shape
    return (1, math.prod(shape[:-1]), 1, shape[-1])


def _real(b: Builder, value: Value, what: str) -> Linear8:
    if not isinstance(value, Real):
        raise Gap(f"{what} is {describe(value)}", "put QuantizeLinear and DequantizeLinear around the operator")
    return b.linear(value)


def _weights(b: Builder, value: Value, axis: int) -> tuple[Weights, F64]:
    """The integers and the scale of each channel along `axis`; raises `Gap` unless they fit int8 with zero point 0."""
    if isinstance(value, Const) and value.data.dtype.kind == "f":
        raise Gap("its weights are float", _FLOAT_WEIGHTS)
    if not isinstance(value, QuantConst):
        raise Gap(f"its weights are {describe(value)}; only constant weights are supported", _FLOAT_WEIGHTS)
    if value.data.dtype.itemsize > 1:
        raise Gap(f"its weights are {value.data.dtype.name}; only 8-bit weights are supported")
    if value.axis not in (None, axis):
        raise Gap(
            f"its weights have one scale for each slice of axis {value.axis}; only of axis {axis} (output channels)",
            "quantize with per_channel=True along the output channels, or per tensor",
        )
    zero = value.zero
    if value.axis is not None:
        along = [1] * value.data.ndim
        along[axis] = -1
        zero = zero.reshape(along)
    b.account(2 * value.data.nbytes)
    shifted = value.data.astype(np.int16) - np.clip(zero, -1024, 1024).astype(np.int16)
    if np.any((shifted < -128) | (shifted > 127)):
        raise Gap(
            f"its weights have zero point {int(np.ravel(value.zero)[0])} and do not fit int8 without it", _SYMMETRIC
        )
    return shifted, np.broadcast_to(value.scale.astype(np.float64), (value.shape[axis],)).copy()


def _bias(value: Value | None, shape: Shape, axis: int, unit: F64) -> F64:
    """The real bias of each channel. Integers are in units of the accumulator, whose scale is `unit`."""
    channels = shape[axis]
    if value is None:
        return np.zeros(channels)
    vector = channel_vector(value, shape, axis)
    if vector is None:
        raise Gap(
            f"its bias is {describe(value)}, or has not one value for each of {channels} channels", _FLOAT_WEIGHTS
        )
    if isinstance(value, Const):
        return vector * unit if value.data.dtype.kind in "iu" else vector
    assert isinstance(value, QuantConst)
    if value.data.dtype == np.int32 and not value.zero.any() and np.allclose(value.scale, unit, rtol=1e-6, atol=0):
        return np.broadcast_to(value.data.reshape(-1).astype(np.float64), (channels,)) * unit
    return vector


def _conv(ctx: Context, node: Node, args: Args) -> Value:
    x_value = operand(args, 0)
    x_shape = shape_of(x_value)
    weights, scale = _weights(ctx.b, operand(args, 1), 0)
    rank = len(x_shape)
    if rank not in (3, 4) or weights.ndim != rank:
        raise Gap(f"{rank - 2}-dimensional convolution; only one and two dimensions are supported")
    groups = node.integer("group", 1)
    out_channels, group_channels = weights.shape[:2]
    if groups < 1 or group_channels * groups != x_shape[1] or out_channels % groups:
        raise Gap(f"weights {list(weights.shape)} in {groups} groups do not fit {x_shape[1]} input channels")
    if x_shape[0] != 1:
        raise Gap(f"batch size {x_shape[0]}; only 1 is supported")
    kernel = node.ints("kernel_shape", weights.shape[2:])
    if kernel != weights.shape[2:]:
        raise Gap(f"kernel_shape {kernel} is not that of the weights {list(weights.shape)}")
    window, out = read_window(node, x_shape[2:], weights.shape[2:])
    x = _real(ctx.b, x_value, "its input")
    bias = _bias(args[2] if len(args) > 2 else None, (out_channels,), 0, np.float64(x.scale) * scale)
    if weights.ndim == 3:
        weights = weights[..., None]
    shape = (1, out_channels, *out)
    return Linear(
        shape=shape,
        base_shape=shape,
        what="Conv",
        x=x,
        x_shape=x_shape,
        weights=weights.transpose(0, 2, 3, 1),
        scale=scale,
        bias=bias,
        channel_axis=1,
        window=window,
        groups=groups,
    )


def _matmul_of(x: Linear8, x_shape: Shape, weights: Weights, scale: F64, bias: F64, shape: Shape, what: str) -> Linear:
    """x [..., K] times weights [OC, K]: fully connected for one row, else a 1x1 convolution over the rows."""
    window: Window | None = None
    if math.prod(x_shape[:-1]) != 1:
        window = Window(kernel=(1, 1), stride=(1, 1), dilation=(1, 1), padding=Padding())
        weights = weights[:, None, None, :]
    return Linear(
        shape=shape,
        base_shape=shape,
        what=what,
        x=x,
        x_shape=x_shape,
        weights=weights,
        scale=scale,
        bias=bias,
        channel_axis=len(shape) - 1,
        window=window,
    )


def _matmul(ctx: Context, node: Node, args: Args) -> Value:
    a, w = operand(args, 0), operand(args, 1)
    if isinstance(a, Real) and isinstance(w, Real):
        raise Gap("it multiplies two activations; only constant weights are supported")
    if isinstance(a, QuantConst):
        return _matmul_left(ctx, a, w)
    x_shape, w_shape = shape_of(a), shape_of(w)
    if len(w_shape) < 2 or math.prod(w_shape[:-2]) != 1 or not x_shape or x_shape[-1] != w_shape[-2]:
        raise Gap(f"shapes {list(x_shape)} and {list(w_shape)}; the second must be one matrix that fits the first")
    weights, scale = _weights(ctx.b, w, len(w_shape) - 1)
    weights = weights.reshape(w_shape[-2:]).T
    x = _real(ctx.b, a, "its first operand")
    shape = (*x_shape[:-1], w_shape[-1])
    return _matmul_of(x, x_shape, weights, scale, np.zeros(len(scale)), shape, "MatMul")


def _matmul_left(ctx: Context, w: QuantConst, x_value: Value) -> Value:
    """Constant [M, K] times activation [..., K, 1]."""
    x_shape = shape_of(x_value)
    if len(w.shape) != 2 or len(x_shape) < 2 or x_shape[-2] != w.shape[1] or math.prod(x_shape) != w.shape[1]:
        raise Gap(f"a constant {list(w.shape)} times an activation {list(x_shape)}; only a single column is supported")
    weights, scale = _weights(ctx.b, w, 0)
    x = _real(ctx.b, x_value, "its second operand")
    flat = (1, w.shape[1])
    shape = (*x_shape[:-2], w.shape[0], 1)
    return replace(
        _matmul_of(x, flat, weights, scale, np.zeros(len(scale)), (1, w.shape[0]), "MatMul"),
        shape=shape,
        base_shape=shape,
        channel_axis=len(shape) - 2,
    )


def _gemm(ctx: Context, node: Node, args: Args) -> Value:
    a, w = operand(args, 0), operand(args, 1)
    x_shape, w_shape = shape_of(a), shape_of(w)
    transposed = bool(node.integer("transB", 0))
    if len(x_shape) != 2 or len(w_shape) != 2:
        raise Gap(f"shapes {list(x_shape)} and {list(w_shape)} are not two matrices")
    if node.integer("transA", 0):
        if 1 not in x_shape:
            raise Gap("transA of a matrix", "transpose the value before it is quantized")
        x_shape = x_shape[::-1]
    weights, scale = _weights(ctx.b, w, 0 if transposed else 1)
    weights = weights if transposed else weights.T
    if weights.shape[1] != x_shape[1]:
        raise Gap(f"shapes {list(x_shape)} and {list(w_shape)} do not fit each other")
    alpha, beta = node.number("alpha", 1.0), node.number("beta", 1.0)
    x = _real(ctx.b, a, "its first operand")
    shape = (x_shape[0], weights.shape[0])
    result = _matmul_of(x, x_shape, weights, scale, np.zeros(len(scale)), shape, "Gemm").with_gain(
        np.full(len(scale), alpha)
    )
    bias = _bias(args[2] if len(args) > 2 else None, shape, 1, np.float64(x.scale) * scale * abs(alpha))
    return result.with_bias(bias * beta)


def _batch_norm(ctx: Context, node: Node, args: Args) -> Value:
    if node.integer("training_mode", 0):
        raise Gap("it is in training mode", "export the model in evaluation mode: model.eval()")
    vectors = [optional_array(args, i) for i in range(1, 5)]
    x = operand(args, 0)
    shape = shape_of(x)
    if len(shape) < 2 or any(v is None or v.shape != (shape[1],) for v in vectors):
        raise Gap("its four parameters must have one value for each channel")
    gamma, beta, mean, variance = (np.asarray(v, np.float64) for v in vectors)
    with np.errstate(all="ignore"):
        gain = gamma / np.sqrt(variance + node.number("epsilon", 1e-5))
    if not np.all(np.isfinite(gain)):
        raise Gap("a variance is negative or not a number")
    return channel_affine(ctx, x, gain, beta - mean * gain, 1, "BatchNormalization")


def channel_affine(ctx: Context, x: Value, gain: F64, offset: F64, axis: int, what: str) -> Value:
    """gain[c] * x + offset[c] along an axis: folded into a convolution before it, else a 1x1 depthwise convolution."""
    if isinstance(x, Linear) and x.channel_axis == axis:
        return x.with_gain(gain).with_bias(offset)
    shape = shape_of(x)
    linear = _real(ctx.b, x, "its operand")
    last = axis == len(shape) - 1
    if not last and (axis != 1 or len(shape) not in (3, 4) or shape[0] != 1):
        raise Gap(f"it works along axis {axis} of {list(shape)}; only along the channels")
    used = np.abs(gain[gain != 0])
    filler = float(np.median(used)) if used.size else 1.0
    scale = np.where(gain == 0, filler, np.abs(gain)) / _UNIT
    return Linear(
        shape=shape,
        base_shape=shape,
        what=what,
        x=linear,
        x_shape=shape,
        weights=(np.sign(gain).astype(np.int16) * _UNIT).reshape(-1, 1, 1, 1),
        scale=scale,
        bias=offset,
        channel_axis=axis,
        window=Window(kernel=(1, 1), stride=(1, 1), dilation=(1, 1), padding=Padding()),
        groups=shape[axis],
    )


HANDLERS: Mapping[str, Handler] = {
    "BatchNormalization": _batch_norm,
    "Conv": _conv,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "QLinearConv": qlinear(_conv, (0, 3), 6, (8,)),
    "QLinearMatMul": qlinear(_matmul, (0, 3), 6, axis=lambda _: -1),
    "com.microsoft.QGemm": qlinear(_gemm, (0, 3), 7, (6,), axis=lambda node: 0 if node.integer("transB", 0) else 1),
}
