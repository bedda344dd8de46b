# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Add, Sub, Mul, Div, Min, Max, Pow, PRelu with two different operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import tables
from ..ir import Add, Mul, PRelu, Quant, Rounding
from .onnx_build import Builder, map_shape
from .onnx_context import Args, Context, Handler, channel_vector, operand, scalar_of, shape_of
from .onnx_fold import broadcast
from .onnx_linear import Linear, channel_affine
from .onnx_node import Gap, Node
from .onnx_qdq import qlinear
from .onnx_unary import apply
from .onnx_values import F64, Const, Linear8, Pending, QParams, QuantConst, Real, Shape, Value, describe

__all__ = ["HANDLERS", "prelu"]

_FUNCTIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Min": np.minimum,
    "Max": np.maximum,
    "Pow": np.power,
}
_QUANTIZE_BOTH = "quantize both operands: put QuantizeLinear and DequantizeLinear before the operator"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sum(Pending):
    """lhs + rhs, or lhs - rhs, of one shape (a constant second operand broadcasts)."""

    lhs: Linear8
    rhs: Linear8
    negative: tuple[bool, bool] = (False, False)

    def emit(self, b: Builder, name: str, quant: QParams, lo: float, hi: float) -> str:
        """Adds an addition."""
        shape = map_shape(self.base_shape)
        lhs, rhs, out = tables.add_parameters(
            float(self.lhs.scale), float(self.rhs.scale), float(quant.scale), b.rounding
        )
        if self.negative[0]:
            lhs = replace(lhs, multiplier=tuple(-m for m in lhs.multiplier))
        output = b.tensor(name, shape)
        return b.add(
            Add(
                name=output,
                inputs=(b.shaped(self.lhs.tensor, shape), _broadcastable(b, self.rhs.tensor, shape)),
                output=output,
                origin=self.origin,
                lhs_zero=self.lhs.zero,
                rhs_zero=self.rhs.zero,
                out_zero=quant.stored_zero,
                lhs=lhs,
                rhs=rhs,
                out=out,
                subtract=self.negative[1],
                clamp=b.clamp(lo, hi, quant),
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Product(Pending):
    """lhs * rhs, of one shape, or with a constant or a gate as the second operand."""

    lhs: Linear8
    rhs: Linear8
    gate: Shape | None = None  # of rhs, if it is broadcast: [1, C, 1, 1] over [1, C, H, W], or [1, 1, 1, C]

    def emit(self, b: Builder, name: str, quant: QParams, lo: float, hi: float) -> str:
        """Adds a multiplication."""
        fields: dict[str, Any] = {
            "origin": self.origin,
            "lhs_zero": self.lhs.zero,
            "rhs_zero": self.rhs.zero,
            "out_zero": quant.stored_zero,
            "requant": b.requant(float(self.lhs.scale), np.asarray([self.rhs.scale]), float(quant.scale)),
            "clamp": b.clamp(lo, hi, quant),
        }
        if self.gate is None or self.gate == (1, 1, 1, self.base_shape[-1]):
            shape = map_shape(self.base_shape)
            output = b.tensor(name, shape)
            rhs = b.shaped(self.rhs.tensor, self.gate) if self.gate else _broadcastable(b, self.rhs.tensor, shape)
            inputs = (b.shaped(self.lhs.tensor, shape), rhs)
            return b.add(Mul(name=output, inputs=inputs, output=output, **fields))
        lhs = b.channels_last(self.lhs.tensor, self.base_shape)
        rhs = b.channels_last(self.rhs.tensor, self.gate)
        output = b.tensor(f"{name}/nhwc", b.tensors[lhs].shape)
        b.add(Mul(name=output, inputs=(lhs, rhs), output=output, **fields))
        return b.channels_first(output, self.base_shape, name)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Slopes(Pending):
    """PRelu with one slope for each channel or element."""

    x: Linear8
    alpha: Linear8

    def emit(self, b: Builder, name: str, quant: QParams, lo: float, hi: float) -> str:
        """Adds a PRelu."""
        if self.bounded:
            raise Gap("the result of PRelu is limited before it is quantized", "quantize the value between them")
        shape = map_shape(self.base_shape)
        output = b.tensor(name, shape)
        one = np.ones(1)
        op = PRelu(
            name=output,
            inputs=(b.shaped(self.x.tensor, shape), _broadcastable(b, self.alpha.tensor, shape)),
            output=output,
            origin=self.origin,
            in_zero=self.x.zero,
            alpha_zero=self.alpha.zero,
            out_zero=quant.stored_zero,
            positive=b.requant(float(self.x.scale), one, float(quant.scale)),
            negative=b.requant(float(self.x.scale), one * float(self.alpha.scale), float(quant.scale)),
        )
        return b.add(op)


def _broadcastable(b: Builder, tensor: str, shape: Shape) -> str:
    """A constant with as many axes as `shape`; an activation of that shape."""
    known = b.tensors[tensor]
    if known.data is None:
        return b.shaped(tensor, shape)
    if len(known.shape) == len(shape):
        return tensor
    return b.const(tensor, known.data.reshape((1,) * (len(shape) - len(known.shape)) + known.shape))


def _constant(b: Builder, value: QuantConst, shape: Shape, name: str) -> Linear8:
    """A quantized constant that broadcasts to `shape` as an int8 tensor."""
    if value.axis is not None:
        raise Gap("its constant operand is quantized per channel", "quantize it per tensor")
    if value.data.dtype.name not in ("int8", "uint8"):
        raise Gap(f"its constant operand is quantized to {value.data.dtype.name}; only 8-bit ones are supported")
    offset = 128 if value.data.dtype == np.uint8 else 0
    data = value.data.astype(np.int64) - offset
    dims = (1,) * (len(shape) - data.ndim) + data.shape
    if data.ndim > len(shape) or any(d not in (1, n) for d, n in zip(dims, shape, strict=True)):
        raise Gap(f"its constant operand {list(data.shape)} does not broadcast to {list(shape)}")
    data = data.reshape(dims)
    if map_shape(shape) != shape:
        data = np.broadcast_to(data, shape).reshape(map_shape(shape))
    quant = Quant((float(value.scale.flat[0]),), (int(value.zero.flat[0]) - offset,))
    return Linear8(b.const(name, data, quant=quant), np.float32(value.scale.flat[0]), quant.zero_point[0])


def _with_scalar(node: Node, value: Value, scalar: float, reverse: bool) -> Value:
    function = _FUNCTIONS[node.op]
    if isinstance(value, Pending):
        return _pending_with_scalar(node, value, scalar, reverse)
    name = node.op.lower()
    return apply(value, name, (lambda v: function(scalar, v)) if reverse else (lambda v: function(v, scalar)))


def _pending_with_scalar(node: Node, value: Pending, scalar: float, reverse: bool) -> Value:
    if node.op in ("Max", "Min"):
        return value.limited(scalar, np.inf) if node.op == "Max" else value.limited(-np.inf, scalar)
    if node.op == "Mul" or (node.op == "Div" and not reverse and scalar):
        factor = scalar if node.op == "Mul" else 1 / scalar
        if isinstance(value, Linear) and not (value.bounded or value.moves):
            return value.with_gain(np.full(len(value.scale), factor))
        return value.scaled(factor)
    if node.op in ("Add", "Sub") and not reverse and isinstance(value, Linear):
        return value.with_bias(np.full(len(value.scale), scalar if node.op == "Add" else -scalar))
    raise Gap(f"one operand is {describe(value)}", _QUANTIZE_BOTH)


def _per_channel(ctx: Context, node: Node, value: Value, constant: Value, reverse: bool) -> Value | None:
    """x op a vector along the channels: folded into what precedes, or a depthwise convolution; else None."""
    shape = shape_of(value)
    axes = [value.channel_axis] if isinstance(value, Linear) else [1, len(shape) - 1]
    for axis in axes:
        vector = channel_vector(constant, shape, axis) if 0 < axis < len(shape) else None
        if vector is None:
            continue
        ones, zeros = np.ones(len(vector)), np.zeros(len(vector))
        gain, offset = ones, zeros
        if node.op == "Add":
            offset = vector
        elif node.op == "Sub":
            gain, offset = (-ones, vector) if reverse else (ones, -vector)
        elif node.op == "Mul":
            gain = vector
        elif node.op == "Div" and not reverse and vector.all():
            gain = 1 / vector
        else:
            return None
        return _affine(ctx, node, value, gain, offset, axis)
    return None


def _affine(ctx: Context, node: Node, value: Value, gain: F64, offset: F64, axis: int) -> Value:
    if isinstance(value, Linear):
        scaled = value if np.all(gain == 1) else value.with_gain(gain)
        return scaled.with_bias(offset) if offset.any() else scaled
    return channel_affine(ctx, value, gain, offset, axis, node.op)


def _with_constant(ctx: Context, node: Node, value: Value, constant: Const | QuantConst, reverse: bool) -> Value:
    scalar = scalar_of(constant)
    const_shape = constant.shape
    shape = shape_of(value)
    if len(const_shape) > len(shape) and all(d == 1 for d in const_shape[: len(const_shape) - len(shape)]):
        raise Gap(f"its constant operand {list(const_shape)} has more axes than the other {list(shape)}")
    if broadcast(shape, const_shape) != shape:
        raise Gap(f"its operand {list(shape)} is broadcast to the constant's shape {list(const_shape)}")
    if scalar is not None:
        return _with_scalar(node, value, scalar, reverse)
    quantized = isinstance(value, Real) and isinstance(constant, QuantConst) and constant.data.dtype.itemsize == 1
    if not quantized or node.op == "Div":
        folded = _per_channel(ctx, node, value, constant, reverse)
        if folded is not None:
            return folded
    if not isinstance(value, Real) or not isinstance(constant, QuantConst):
        raise Gap(f"its operands are {describe(value)} and {describe(constant)}", _QUANTIZE_BOTH)
    rhs = _constant(ctx.b, constant, shape, f"{node.outputs[0]}/constant")
    return _combined(ctx, node, ctx.b.linear(value), rhs, shape, reverse)


def _combined(ctx: Context, node: Node, lhs: Linear8, rhs: Linear8, shape: Shape, reverse: bool = False) -> Value:
    if node.op == "Mul":
        return Product(shape=shape, base_shape=shape, what="Mul", lhs=lhs, rhs=rhs)
    if node.op not in ("Add", "Sub"):
        raise Gap(f"{node.op} of two different tensors", "only Add, Sub and Mul combine two tensors")
    negative = (False, False) if node.op == "Add" else (reverse, not reverse)
    if negative[0] and ctx.b.rounding is not Rounding.ONNX:
        raise Gap("a constant minus an activation, with TFLite's rounding", "use `rounding: onnx`")
    return Sum(shape=shape, base_shape=shape, what=node.op, lhs=lhs, rhs=rhs, negative=negative)


def _of_two(ctx: Context, node: Node, a: Value, c: Value) -> Value:
    if not isinstance(a, Real) or not isinstance(c, Real):
        odd = a if not isinstance(a, Real) else c
        raise Gap(f"one operand is {describe(odd)}", _QUANTIZE_BOTH)
    if a.codes.root == c.codes.root and a.shape == c.shape:
        return _of_one_root(node, a, c)
    if a.shape == c.shape:
        return _combined(ctx, node, ctx.b.linear(a), ctx.b.linear(c), a.shape)
    if node.op != "Mul":
        raise Gap(f"it broadcasts {list(c.shape)} and {list(a.shape)}; only a constant or Mul's gate may be broadcast")
    if np.prod(a.shape) < np.prod(c.shape):
        a, c = c, a
    shape = a.shape
    lhs, rhs = ctx.b.linear(a), ctx.b.linear(c)
    gate = (1,) * (len(shape) - len(c.shape)) + c.shape
    channels_last = len(shape) == 4 and gate == (1, 1, 1, shape[3])
    if channels_last or (len(shape) in (3, 4) and gate == (1, shape[1], *(1,) * (len(shape) - 2))):
        return Product(shape=shape, base_shape=shape, what="Mul", lhs=lhs, rhs=rhs, gate=gate)
    raise Gap(f"it broadcasts {list(c.shape)} to {list(shape)}; only one value for each channel may be broadcast")


def _of_one_root(node: Node, a: Real, c: Real) -> Value:
    """Both operands are functions of one tensor: so is the result (x * sigmoid(x))."""
    with np.errstate(all="ignore"):
        values = np.asarray(_FUNCTIONS[node.op](a.values, c.values), np.float32)
    if np.isnan(values).any():
        raise Gap(f"{node.op} is not defined for every quantized input")
    base, other = (a, c) if len(a.functions) <= len(c.functions) else (c, a)
    functions = (*other.functions, (node.op.lower(), ()))
    return Real(base.codes, base.quant, values, functions, (*a.origin, *c.origin))


def _binary(ctx: Context, node: Node, args: Args) -> Value:
    if len(args) != 2:
        raise Gap(f"{len(args)} operands; two are supported", "write it as several operators of two operands")
    a, c = operand(args, 0), operand(args, 1)
    if isinstance(c, Const | QuantConst):
        return _with_constant(ctx, node, a, c, False)
    if isinstance(a, Const | QuantConst):
        return _with_constant(ctx, node, c, a, True)
    return _of_two(ctx, node, a, c)


def prelu(ctx: Context, x: Value, slope: Value) -> Value:
    """PRelu with a slope for each channel; float slopes are rounded to int8."""
    shape = shape_of(x)
    if not isinstance(x, Real):
        raise Gap(f"its operand is {describe(x)}", _QUANTIZE_BOTH)
    if isinstance(slope, Const) and slope.data.dtype.kind == "f" and slope.data.size:
        scale = np.float32(np.abs(slope.data).max() / 127)
        if not np.isfinite(scale) or scale <= 0:
            raise Gap("its slopes are not finite numbers")
        slope = QuantConst(np.rint(slope.data / scale).astype(np.int8), np.atleast_1d(scale), np.zeros(1, np.int64))
        ctx.b.notes.append(f"{ctx.b.origin[0]}: float slopes of PRelu rounded to int8 (steps of {float(scale):.2g})")
    if not isinstance(slope, QuantConst):
        raise Gap(f"its slope is {describe(slope)}")
    alpha = _constant(ctx.b, slope, shape, f"{ctx.b.origin[0]}/slope")
    return Slopes(shape=shape, base_shape=shape, what="PRelu", x=ctx.b.linear(x), alpha=alpha)


def _qlinear_binary(op: str) -> Handler:
    def handle(ctx: Context, node: Node, args: Args) -> Value | list[Value]:
        return _binary(ctx, replace(node, op=op), args)

    return qlinear(handle, (0, 3), 6)


HANDLERS: Mapping[str, Handler] = {
    **dict.fromkeys(_FUNCTIONS, _binary),
    "com.microsoft.QLinearAdd": _qlinear_binary("Add"),
    "com.microsoft.QLinearMul": _qlinear_binary("Mul"),
}
