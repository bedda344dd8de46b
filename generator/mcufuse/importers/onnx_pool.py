# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Pools, means and maxima over axes, Softmax."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import tables
from ..ir import AvgPool2D, MaxPool2D, Mean, Padding, Requant, Rounding, Softmax
from .onnx_build import Builder, map_shape
from .onnx_context import Args, Context, Handler, moved, operand, optional_array, shape_of
from .onnx_fold import axes_of, resolve_axis
from .onnx_node import Gap, Node
from .onnx_qdq import qlinear
from .onnx_values import CodeOf, Codes, Linear8, Pending, QParams, Real, Shape, Value, describe
from .onnx_window import Window, read_window

__all__ = ["HANDLERS"]

_DEQUANTIZE = "put QuantizeLinear and DequantizeLinear before the operator"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Average(Pending):
    """The mean over each window of a map [1, C, H, W], or [1, H, W, C] if `last`."""

    x: Linear8
    x_shape: Shape
    window: Window
    count_padding: bool
    last: bool

    def emit(self, b: Builder, name: str, quant: QParams, lo: float, hi: float) -> str:
        """Adds a pool."""
        kernel = self.window.kernel
        count = kernel[0] * kernel[1]
        padded = self.window.padding != Padding()
        same = b.rounding is not Rounding.ONNX and self.x.scale == quant.scale and self.x.zero == quant.stored_zero
        requant: Requant | None = None
        if not same or (padded and self.count_padding):
            counts = np.asarray([count] if not padded or self.count_padding else range(1, count + 1), np.float64)
            requant = _divided(b, self.x, counts, quant)
            if len(requant) == 1:  # every window counts the same number of elements
                requant = Requant(requant.multiplier * count, requant.shift * count, requant.rounding)
        x = b.shaped(self.x.tensor, self.x_shape) if self.last else b.channels_last(self.x.tensor, self.x_shape)
        spatial = self.base_shape[1:3] if self.last else (*self.base_shape[2:], 1)[:2]
        output = b.tensor(name if self.last else f"{name}/nhwc", (1, *spatial, b.tensors[x].shape[3]))
        op = AvgPool2D(
            name=output,
            inputs=(x,),
            output=output,
            origin=self.origin,
            kernel=kernel,
            stride=self.window.stride,
            padding=self.window.padding,
            count_padding=self.count_padding or not padded,
            in_zero=self.x.zero,
            out_zero=quant.stored_zero,
            requant=requant,
            clamp=b.clamp(lo, hi, quant),
        )
        b.add(op)
        return output if self.last else b.channels_first(output, self.base_shape, name)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeanOver(Pending):
    """The mean over some axes; what is left keeps its order."""

    x: Linear8
    x_shape: Shape
    axes: tuple[int, ...]

    def emit(self, b: Builder, name: str, quant: QParams, lo: float, hi: float) -> str:
        """Adds a mean over height and width of a map that has the kept axes as channels."""
        kept = [a for a in range(len(self.x_shape)) if a not in self.axes]
        count = math.prod(self.x_shape[a] for a in self.axes)
        channels = math.prod(self.x_shape[a] for a in kept)
        x = b.permuted(self.x.tensor, self.x_shape, (*self.axes, *kept))
        reduced = [self.x_shape[a] for a in self.axes]
        rows, columns = (reduced[-2], reduced[-1]) if len(reduced) == 2 else (count, 1)
        x = b.shaped(x, (1, rows, columns, channels))
        same = b.rounding is not Rounding.ONNX and self.x.scale == quant.scale and self.x.zero == quant.stored_zero
        output = b.tensor(name, (1, channels))
        op = Mean(
            name=output,
            inputs=(x,),
            output=output,
            origin=self.origin,
            in_zero=self.x.zero,
            out_zero=quant.stored_zero,
            requant=None if same else self._requant(b, count, quant),
            clamp=b.clamp(lo, hi, quant),
        )
        return b.add(op)

    def _requant(self, b: Builder, count: int, quant: QParams) -> Requant:
        if b.rounding is Rounding.ONNX:
            return _divided(b, self.x, np.asarray([count], np.float64), quant)
        return tables.mean_requant(float(self.x.scale), float(quant.scale), count, b.rounding)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SoftmaxOver(Pending):
    """Softmax over an axis; `view` is the shape that holds it as the last axis."""

    x: Linear8
    x_shape: Shape
    perm: tuple[int, ...] | None
    view: Shape

    def emit(self, b: Builder, name: str, quant: QParams, lo: float, hi: float) -> str:
        """Adds a softmax, between two transpositions if the axis is not the last."""
        if lo > 0 or hi < 1:
            raise Gap("the result of Softmax is limited before it is quantized")
        try:
            exponents = tables.softmax_exponents(float(self.x.scale), 1.0, b.rounding)
            inverse = tables.softmax_inverse(float(quant.scale))
        except ValueError as error:
            raise Gap(str(error)) from None
        x = b.permuted(self.x.tensor, self.x_shape, self.perm) if self.perm else self.x.tensor
        x = b.shaped(x, self.view)
        output = b.tensor(f"{name}/last" if self.perm else name, self.view)
        op = Softmax(
            name=output,
            inputs=(x,),
            output=output,
            origin=self.origin,
            rounding=b.rounding,
            exponents=exponents,
            out_zero=quant.stored_zero,
            out_inverse=inverse,
        )
        b.add(op)
        if self.perm is None:
            return output
        permuted = tuple(self.x_shape[p] for p in self.perm)
        return b.permuted(output, permuted, np.argsort(self.perm).tolist())


def _divided(b: Builder, x: Linear8, counts: Any, quant: QParams) -> Requant:
    """in / (count * out)."""
    return b.requant(float(x.scale), 1 / counts, float(quant.scale))


def _linear(ctx: Context, value: Value) -> Linear8:
    if not isinstance(value, Real):
        raise Gap(f"its operand is {describe(value)}", _DEQUANTIZE)
    return ctx.b.linear(value)


def _pool_window(node: Node, shape: Shape, spatial: Shape) -> tuple[Window, tuple[int, ...]]:
    if len(shape) not in (3, 4) or shape[0] != 1:
        raise Gap(f"a pool over the shape {list(shape)}; only [1, C, H, W] and [1, C, L] are supported")
    kernel = node.ints("kernel_shape")
    if kernel is None:
        raise Gap("kernel_shape is missing")
    window, out = read_window(node, spatial, kernel)
    if window.dilation != (1, 1):
        raise Gap("a dilated pool", "only convolutions may be dilated")
    pad = window.padding
    if max(pad.top, pad.bottom) >= window.kernel[0] or max(pad.left, pad.right) >= window.kernel[1]:
        raise Gap("its padding is as large as its window")
    return window, out


def _average_pool(ctx: Context, node: Node, args: Args) -> Value:
    value = operand(args, 0)
    shape = shape_of(value)
    last = bool(node.integer("channels_last", 0)) and len(shape) == 4
    spatial = shape[1:3] if last else shape[2:]
    window, out = _pool_window(node, shape, spatial)
    count_padding = bool(node.integer("count_include_pad", 0))
    if count_padding and window.overhang:
        raise Gap("ceil_mode together with count_include_pad", "pad the map so that windows fit")
    x = _linear(ctx, value)
    result = (1, *out, shape[3]) if last else (1, shape[1], *out)
    if window.kernel == (*spatial, 1)[:2] and window.padding == Padding():
        axes = (1, 2) if last else tuple(range(2, len(shape)))
        return MeanOver(shape=result, base_shape=result, what="AveragePool", x=x, x_shape=shape, axes=axes)
    return Average(
        shape=result,
        base_shape=result,
        what="AveragePool",
        x=x,
        x_shape=shape,
        window=window,
        count_padding=count_padding,
        last=last,
    )


def _max_over(ctx: Context, value: Value, shape: Shape, window: Window, out: tuple[int, ...]) -> Value:
    """The maximum of codes is the code of the maximum, wherever the values rise with the codes."""
    if isinstance(value, Real | Codes):
        table = value.values if isinstance(value, Real) else value.stored
        if np.any(np.diff(table) < 0):
            if not isinstance(value, Codes):
                raise Gap(f"its operand is {describe(value)}, which falls where its input rises", _DEQUANTIZE)
            value = ctx.b.codes(ctx.b.materialize(value), shape, value.unsigned)
    elif not isinstance(value, Pending):
        raise Gap(f"its operand is {describe(value)}", _DEQUANTIZE)
    result = (1, shape[1], *out)

    def move(b: Builder, tensor: str, _: CodeOf) -> str:
        x = b.channels_last(tensor, shape)
        output = b.tensor(f"{tensor}/maximum", (1, *(*out, 1)[:2], shape[1]))
        op = MaxPool2D(
            name=output,
            inputs=(x,),
            output=output,
            kernel=window.kernel,
            stride=window.stride,
            padding=window.padding,
        )
        return b.channels_first(b.add(op), result, f"{output}/first")

    return moved(ctx, value, result, move)


def _max_pool(ctx: Context, node: Node, args: Args) -> Value:
    if len(node.outputs) > 1 and node.outputs[1]:
        raise Gap("its second result, the indices, is used")
    value = operand(args, 0)
    shape = shape_of(value)
    window, out = _pool_window(node, shape, shape[2:])
    return _max_over(ctx, value, shape, window, out)


def _whole(ctx: Context, node: Node, args: Args) -> Value:
    value = operand(args, 0)
    shape = shape_of(value)
    if len(shape) not in (3, 4) or shape[0] != 1:
        raise Gap(f"a global pool over the shape {list(shape)}")
    if node.op == "GlobalMaxPool":
        kernel = (*shape[2:], 1)[:2]
        window = Window(kernel=(kernel[0], kernel[1]), stride=(1, 1), dilation=(1, 1), padding=Padding())
        return _max_over(ctx, value, shape, window, (1,) * (len(shape) - 2))
    last = bool(node.integer("channels_last", 0)) and len(shape) == 4
    axes = (1, 2) if last else tuple(range(2, len(shape)))
    result = tuple(1 if i in axes else d for i, d in enumerate(shape))
    x = _linear(ctx, value)
    return MeanOver(shape=result, base_shape=result, what="GlobalAveragePool", x=x, x_shape=shape, axes=axes)


def _reduce(ctx: Context, node: Node, args: Args) -> Value:
    value = operand(args, 0)
    shape = shape_of(value)
    axes = axes_of(node, optional_array(args, 1), len(shape))
    if axes is None:
        if node.integer("noop_with_empty_axes", 0):
            return value
        axes = tuple(range(len(shape)))
    axes = tuple(sorted(axes))
    keep = bool(node.integer("keepdims", 1))
    result = tuple(1 if i in axes else d for i, d in enumerate(shape) if keep or i not in axes)
    if node.op == "ReduceMax":
        if axes != tuple(range(2, len(shape))) or len(shape) not in (3, 4) or shape[0] != 1:
            raise Gap(f"the maximum over axes {list(axes)} of {list(shape)}; only over height and width")
        kept = _whole(ctx, replace(node, op="GlobalMaxPool"), args)
        return moved(ctx, kept, result, lambda _, tensor, __: tensor)
    active = tuple(a for a in axes if shape[a] != 1)
    if not active:
        return moved(ctx, value, result, lambda _, tensor, __: tensor)
    x = _linear(ctx, value)
    count = math.prod(shape[a] for a in active)
    gain = float(count) if node.op == "ReduceSum" else 1.0
    return MeanOver(shape=result, base_shape=result, what=node.op, x=x, x_shape=shape, axes=active, gain=gain)


def _softmax(ctx: Context, node: Node, args: Args) -> Value:
    value = operand(args, 0)
    shape = shape_of(value)
    opset = node.integer("opset", ctx.opset)  # com.microsoft's operator says whose meaning it has
    if not shape:
        raise Gap("a softmax over a single value")
    axis = resolve_axis(node.integer("axis", -1 if opset >= 13 else 1), len(shape))
    x = _linear(ctx, value)
    perm: tuple[int, ...] | None = None
    if opset < 13:  # over all axes from this one on
        view: Shape = (1, math.prod(shape[:axis]), 1, math.prod(shape[axis:]))
    else:
        rest = [a for a in range(len(shape)) if a != axis]
        if any(shape[a] != 1 for a in range(axis + 1, len(shape))):
            perm = (*rest, axis)
        view = (1, math.prod(shape[a] for a in rest), 1, shape[axis])
    if view[1] == 1:
        view = (1, view[3])
    elif perm is None and map_shape(shape) == shape and shape[-1] == view[3]:
        view = shape
    return SoftmaxOver(shape=shape, base_shape=shape, what="Softmax", x=x, x_shape=shape, perm=perm, view=view)


def _reduce_mean_q(ctx: Context, node: Node, args: Args) -> Value | list[Value]:
    return _reduce(ctx, replace(node, op="ReduceMean"), args)


HANDLERS: Mapping[str, Handler] = {
    "AveragePool": _average_pool,
    "GlobalAveragePool": _whole,
    "GlobalMaxPool": _whole,
    "MaxPool": _max_pool,
    "ReduceMax": _reduce,
    "ReduceMean": _reduce,
    "ReduceSum": _reduce,
    "Softmax": _softmax,
    "com.microsoft.QLinearAveragePool": qlinear(_average_pool, (0,), 3),
    "com.microsoft.QLinearGlobalAveragePool": qlinear(_whole, (0,), 3),
    "com.microsoft.QLinearReduceMean": qlinear(_reduce_mean_q, (0,), 3),
    "com.microsoft.QLinearSoftmax": qlinear(_softmax, (0,), 3),
}
