# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements without computing with them: Reshape, Transpose, Slice, Pad, Concat, Resize..."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from ..ir import Concat, Pad, Padding, Slice
from .limits import shape_fault
from .onnx_build import Builder, map_axis
from .onnx_context import Args, Context, Handler, moved, operand, optional_array, required_array, scalar_of, shape_of
from .onnx_fold import axes_of, broadcast, integers, reshaped, resolve_axis, slice_spec
from .onnx_node import Gap, Node
from .onnx_qdq import dequantize, quantize, read_qparams
from .onnx_values import CodeOf, Codes, Const, Pending, QParams, QuantConst, Real, Shape, Value, describe

__all__ = ["HANDLERS", "same_elements"]

_MAX_PAD = 1 << 15


def same_elements(ctx: Context, value: Value, shape: Shape) -> Value:
    """The value under another shape."""
    if isinstance(value, Const):
        return Const(value.data.reshape(shape))
    if isinstance(value, QuantConst):
        return _reshaped_constant(value, shape)
    return moved(ctx, value, shape, lambda _, tensor, __: tensor)


def _reshaped_constant(value: QuantConst, shape: Shape) -> QuantConst:
    if value.axis is None:
        return replace(value, data=value.data.reshape(shape))
    channels = value.shape[value.axis]
    before = math.prod(value.shape[: value.axis])
    for axis, d in enumerate(shape):  # the axis of the scales must survive as one axis
        if d == channels and math.prod(shape[:axis]) == before:
            return replace(value, data=value.data.reshape(shape), axis=axis)
    raise Gap(f"weights with one scale for each channel are reshaped from {list(value.shape)} to {list(shape)}")


def _reshape(ctx: Context, node: Node, args: Args) -> Value:
    value = operand(args, 0)
    target = integers(required_array(args, 1))
    return same_elements(ctx, value, reshaped(shape_of(value), target, bool(node.integer("allowzero", 0))))


def _flatten(ctx: Context, node: Node, args: Args) -> Value:
    value = operand(args, 0)
    shape = shape_of(value)
    axis = node.integer("axis", 1)
    axis = len(shape) if axis == len(shape) else resolve_axis(axis, len(shape))
    return same_elements(ctx, value, (math.prod(shape[:axis]), math.prod(shape[axis:])))


def _squeeze(ctx: Context, node: Node, args: Args) -> Value:
    value = operand(args, 0)
    shape = shape_of(value)
    axes = axes_of(node, optional_array(args, 1), len(shape))
    axes = tuple(i for i, d in enumerate(shape) if d == 1) if axes is None else axes
    if any(shape[a] != 1 for a in axes):
        raise Gap(f"axes {list(axes)} of {list(shape)} are not all 1")
    return same_elements(ctx, value, tuple(d for i, d in enumerate(shape) if i not in axes))


def _unsqueeze(ctx: Context, node: Node, args: Args) -> Value:
    value = operand(args, 0)
    shape = shape_of(value)
    array = optional_array(args, 1)
    count = int(array.size) if array is not None else len(node.ints("axes") or ())
    axes = axes_of(node, array, len(shape) + count) or ()
    dims = iter(shape)
    rank = len(shape) + len(axes)
    return same_elements(ctx, value, tuple(1 if i in axes else next(dims) for i in range(rank)))


def _transpose(ctx: Context, node: Node, args: Args) -> Value:
    value = operand(args, 0)
    shape = shape_of(value)
    perm = node.ints("perm") or tuple(reversed(range(len(shape))))
    if sorted(perm) != list(range(len(shape))):
        raise Gap(f"perm {list(perm)} does not permute rank {len(shape)}")
    if isinstance(value, QuantConst):
        axis = None if value.axis is None else perm.index(value.axis)
        return replace(value, data=np.ascontiguousarray(value.data.transpose(perm)), axis=axis)
    result = tuple(shape[p] for p in perm)
    return moved(ctx, value, result, lambda b, tensor, _: b.permuted(tensor, shape, perm))


def _sliced(ctx: Context, value: Value, spec: Mapping[int, tuple[int, int, int]]) -> Value:
    """value[begin : begin + size * step : step] along the axes of `spec`."""
    shape = shape_of(value)
    for axis, (_, size, step) in spec.items():
        if size < 1:
            raise Gap(f"it leaves nothing of axis {axis} of {list(shape)}")
        if step < 0 and size > 1:
            raise Gap("a negative step", "reversing an axis is not supported")
    spec = {a: s for a, s in spec.items() if s[:2] != (0, shape[a])}
    result = tuple(spec[i][1] if i in spec else d for i, d in enumerate(shape))
    if not spec:
        return value
    places = {map_axis(shape, axis): spec[axis] for axis in spec}

    def move(b: Builder, tensor: str, _: CodeOf) -> str:
        source = b.shaped(tensor, shape)
        sizes = b.tensors[source].hwc
        full = [places.get(i, (0, sizes[i], 1)) for i in range(3)]
        output = b.tensor(f"{tensor}/slice", result)
        op = Slice(
            name=output,
            inputs=(source,),
            output=output,
            begin=(full[0][0], full[1][0], full[2][0]),
            size=(full[0][1], full[1][1], full[2][1]),
            stride=(max(full[0][2], 1), max(full[1][2], 1), max(full[2][2], 1)),
        )
        return b.add(op)

    return moved(ctx, value, result, move)


def _slice(ctx: Context, node: Node, args: Args) -> Value:
    value = operand(args, 0)
    bounds = [optional_array(args, i) for i in range(1, 5)]
    return _sliced(ctx, value, slice_spec(node, bounds, shape_of(value)))


def _split(ctx: Context, node: Node, args: Args) -> list[Value]:
    value = operand(args, 0)
    shape = shape_of(value)
    axis = resolve_axis(node.integer("axis", 0), len(shape))
    array = optional_array(args, 1)
    sizes = tuple(integers(array)) if array is not None else node.ints("split")
    count = len(node.outputs)
    if sizes is None:
        each = math.ceil(shape[axis] / count)
        sizes = tuple(min(each, shape[axis] - i * each) for i in range(count))
    if len(sizes) != count or sum(sizes) != shape[axis] or min(sizes) < 1:
        raise Gap(f"pieces of {list(sizes)} do not make up axis {axis} of {list(shape)}")
    begins = [sum(sizes[:i]) for i in range(count)]
    return [_sliced(ctx, value, {axis: (begin, size, 1)}) for begin, size in zip(begins, sizes, strict=True)]


def _gather(ctx: Context, node: Node, args: Args) -> Value:
    """Evenly spaced constant indices are a slice."""
    value = operand(args, 0)
    shape = shape_of(value)
    indices = required_array(args, 1)
    axis = resolve_axis(node.integer("axis", 0), len(shape))
    flat = [int(i) + (shape[axis] if i < 0 else 0) for i in integers(indices)]
    if not flat or not all(0 <= i < shape[axis] for i in flat):
        raise Gap(f"its indices are empty or leave axis {axis} of {list(shape)}")
    step = flat[1] - flat[0] if len(flat) > 1 else 1
    if step < 1 or indices.ndim > 1 or any(b - a != step for a, b in pairwise(flat)):
        raise Gap("its indices are not evenly spaced, ascending constants")
    piece = _sliced(ctx, value, {axis: (flat[0], len(flat), step)})
    if indices.ndim == 1:
        return piece
    return same_elements(ctx, piece, tuple(d for i, d in enumerate(shape) if i != axis))


def _pad(ctx: Context, node: Node, args: Args) -> Value:
    value = operand(args, 0)
    shape = shape_of(value)
    rank = len(shape)
    mode = node.text("mode", "constant")
    if mode != "constant":
        raise Gap(f"padding mode {mode}; only constant padding is supported")
    pads = integers(required_array(args, 1))
    axes = axes_of(node, optional_array(args, 3), rank) or tuple(range(rank))
    if len(pads) != 2 * len(axes) or not all(0 <= p <= _MAX_PAD for p in pads):
        raise Gap(f"pads {pads} do not fit {len(axes)} axes, or are negative")
    fill = scalar_of(operand(args, 2)) if len(args) > 2 and args[2] is not None else 0.0
    if fill is None or math.isnan(fill):
        raise Gap("its fill value is not one constant number")
    around = {a: (pads[i], pads[i + len(axes)]) for i, a in enumerate(axes) if pads[i] or pads[i + len(axes)]}
    if not around:
        return value
    places = {map_axis(shape, a): p for a, p in around.items()}
    result = tuple(d + sum(around.get(i, (0, 0))) for i, d in enumerate(shape))
    number = fill

    def move(b: Builder, tensor: str, code_of: CodeOf) -> str:
        rows, columns, channels = (places.get(i, (0, 0)) for i in range(3))
        output = b.tensor(f"{tensor}/padded", result)
        op = Pad(
            name=output,
            inputs=(b.shaped(tensor, shape),),
            output=output,
            padding=Padding(rows[0], columns[0], rows[1], columns[1]),
            channels=channels,
            value=code_of(number),
        )
        return b.add(op)

    return moved(ctx, value, result, move)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Joined(Pending):
    """Values side by side, each of which is quantized as the whole is."""

    parts: tuple[Value, ...]
    axis: int

    def emit(self, b: Builder, name: str, quant: QParams, lo: float, hi: float) -> str:
        """Adds a concatenation, with a table before it for each part whose quantization differs."""
        codes = []
        for i, part in enumerate(self.parts):
            limited = part
            if self.bounded:
                if isinstance(part, Pending):
                    limited = part.limited(lo, hi)
                elif isinstance(part, Real):
                    limited = part.apply("clip", lambda v: np.minimum(np.maximum(v, lo), hi), (lo, hi))
            codes.append(quantize(b, limited, quant, f"{name}/part{i}"))
        return _join(b, name, codes, self.axis, self.base_shape)


def _join(b: Builder, name: str, parts: Sequence[Codes], axis: int, shape: Shape) -> str:
    operands = tuple(b.shaped(b.materialize(part), part.shape) for part in parts)
    output = b.tensor(name, shape)
    return b.add(Concat(name=output, inputs=operands, output=output, axis=map_axis(shape, axis)))


def _concat(ctx: Context, node: Node, args: Args) -> Value:
    values = [operand(args, i) for i in range(len(args))]
    if not values:
        raise Gap("it has no operands")
    if len(values) == 1:
        return values[0]
    shapes = [shape_of(v) for v in values]
    rank = len(shapes[0])
    axis = resolve_axis(node.integer("axis", 0), rank)
    rests = {(*s[:axis], *s[axis + 1 :]) for s in shapes}
    if len(rests) != 1 or any(len(s) != rank for s in shapes):
        raise Gap(f"shapes {[list(s) for s in shapes]} cannot be joined along axis {axis}")
    shape = (*shapes[0][:axis], sum(s[axis] for s in shapes), *shapes[0][axis + 1 :])
    map_axis(shape, axis)
    if all(isinstance(v, Codes) for v in values):
        codes = [v for v in values if isinstance(v, Codes)]
        if len({c.unsigned for c in codes}) > 1:
            raise Gap("it joins int8 and uint8")
        return ctx.b.codes(_join(ctx.b, node.outputs[0], codes, axis, shape), shape, codes[0].unsigned)
    for value in values:
        if not isinstance(value, Real | Pending):
            raise Gap(f"one operand is {describe(value)}", "quantize every operand of Concat")
    return Joined(shape=shape, base_shape=shape, what="Concat", parts=tuple(values), axis=axis)


def _qlinear_concat(ctx: Context, node: Node, args: Args) -> Value:
    parts: list[Value] = [dequantize(ctx, operand(args, i), args, i + 1, i + 2) for i in range(2, len(args), 3)]
    quant = read_qparams(args, 0, 1)
    joined = _concat(ctx, node, parts)
    return quantize(ctx.b, joined, quant, node.outputs[0])


def _expand(ctx: Context, node: Node, args: Args) -> Value:
    value = operand(args, 0)
    shape = shape_of(value)
    target = tuple(integers(required_array(args, 1)))
    result = broadcast(shape, target)
    fault = shape_fault(result, 1)
    if fault or math.prod(result) != math.prod(shape):
        raise Gap(f"it repeats the elements of {list(shape)} to {list(result)}")
    return same_elements(ctx, value, result)


HANDLERS: Mapping[str, Handler] = {
    "Concat": _concat,
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "Pad": _pad,
    "Reshape": _reshape,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "com.microsoft.QLinearConcat": _qlinear_concat,
}
