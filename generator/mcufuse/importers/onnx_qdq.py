# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""QuantizeLinear, DequantizeLinear, and the operators that contain them (QLinearConv...).

A QLinear operator is read as what it stands for: its operands dequantized, the float operator, the result quantized.
So both dialects of quantized ONNX meet the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from .. import tables
from ..ir import Quantize, Rounding
from .onnx_build import Builder
from .onnx_context import Args, Context, Handler, operand, required_array
from .onnx_node import Array, Gap, Node
from .onnx_values import I64, Codes, Const, FloatInput, Pending, QParams, QuantConst, Real, Value, describe

__all__ = ["HANDLERS", "dequantize", "qlinear", "quantize", "read_qparams"]

_SCALES = (2.0**-100, 2.0**100)
_DTYPES = {2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32"}


def _scales(array: Array) -> Array:
    if array.dtype.kind != "f" or not array.size:
        raise Gap("its scale is not a float constant")
    scale = np.atleast_1d(array).astype(np.float32)
    bad = ~((scale > _SCALES[0]) & (scale < _SCALES[1]))  # true for NaN
    if bad.any():
        raise Gap(
            f"its scale is {float(scale[bad].flat[0]):g}; a scale is a positive number of a sensible size",
            "the calibration data may have been constant or empty; calibrate again",
        )
    return scale


def read_qparams(args: Args, scale: int, zero: int, default: str = "uint8") -> QParams:
    """The quantization of an activation, from the operands with these indices; raises `Gap` unless it is 8-bit."""
    scales = _scales(required_array(args, scale))
    point = args[zero] if zero < len(args) else None
    points = np.zeros(1, default) if point is None else np.atleast_1d(required_array(args, zero))
    if np.unique(scales).size != 1 or np.unique(points).size != 1:
        raise Gap(
            f"an activation is quantized per channel ({scales.size} scales)",
            "quantize activations per tensor; only weights may have one scale for each channel",
        )
    if points.dtype.name not in ("int8", "uint8"):
        raise Gap(
            f"an activation is quantized to {points.dtype.name}; only int8 and uint8 are supported",
            "quantize again with activation_type=QuantType.QInt8",
        )
    return QParams(np.float32(scales.flat[0]), int(points.flat[0]), points.dtype.name == "uint8")


def dequantize(ctx: Context, value: Value, args: Args, scale: int, zero: int, axis: int | None = None) -> Value:
    """What DequantizeLinear gives; scale and zero point are the operands with these indices."""
    if isinstance(value, Const):
        return _dequantized_constant(value.data, args, scale, zero, axis)
    if not isinstance(value, Codes):
        raise Gap(f"it dequantizes {describe(value)}")
    quant = read_qparams(args, scale, zero, "uint8" if value.unsigned else "int8")
    if quant.unsigned != value.unsigned:
        raise Gap("the type of its zero point is not that of its operand")
    codes = ctx.b.known(value)
    ctx.b.describe(codes.root, quant if np.array_equal(codes.stored, np.arange(-128, 128)) else None)
    return Real(codes, quant, (codes.visible - quant.zero).astype(np.float32) * quant.scale)


def _dequantized_constant(data: Array, args: Args, scale: int, zero: int, axis: int | None) -> QuantConst:
    scales = _scales(required_array(args, scale))
    if data.dtype.kind not in "iu":
        raise Gap(f"it dequantizes a constant of type {data.dtype.name}")
    given = args[zero] if zero < len(args) else None
    points = np.zeros(1, np.int64) if given is None else np.atleast_1d(required_array(args, zero)).astype(np.int64)
    if scales.ndim > 1:
        raise Gap("it is quantized in blocks; only per tensor and per channel are supported")
    if scales.size == 1 and points.size == 1:
        return QuantConst(data, scales, points)
    place = 1 if axis is None else axis
    if not -data.ndim <= place < data.ndim:
        raise Gap(f"axis {place} does not exist in rank {data.ndim}")
    channels = data.shape[place]
    if scales.size not in (1, channels) or points.size not in (1, channels):
        raise Gap(f"it has {scales.size} scales and {points.size} zero points for {channels} channels")
    full = np.broadcast_to(scales, channels).copy(), np.broadcast_to(points, channels).copy()
    return QuantConst(data, *full, place % data.ndim)


def quantize(b: Builder, value: Value, quant: QParams, name: str) -> Codes:
    """What QuantizeLinear gives for an activation; emits what waited for it."""
    if isinstance(value, Real):
        codes = value.codes
        stored = quant.table(value.values) if b.rounding is Rounding.ONNX else _tflite_table(b, value, quant)
        unchanged = np.array_equal(stored, codes.stored)
        label = codes.label if unchanged else "+".join(x for x in (codes.label, value.label or "requantize") if x)
        origin = (*codes.origin, *value.origin, *b.origin)
        return Codes(codes.root, stored, codes.shape, quant.unsigned, label, name, origin, quant)
    if isinstance(value, Pending):
        codes = replace(value, origin=(*value.origin, *b.origin)).quantize(b, name, quant)
        b.describe(codes.root, quant)
        return codes
    if isinstance(value, FloatInput):
        return _quantized_input(b, value, quant, name)
    raise Gap(f"it quantizes {describe(value)}")


def _quantized_input(b: Builder, value: FloatInput, quant: QParams, name: str) -> Codes:
    output = b.tensor(name, b.tensors[value.tensor].shape)
    op = Quantize(
        name=output,
        inputs=(value.tensor,),
        output=output,
        scale=float(quant.scale),
        zero=quant.stored_zero,
        rounding=b.rounding,
    )
    tensor = b.add(op)
    b.describe(tensor, quant)
    for move in value.moves:
        tensor = move(b, tensor, quant.code)
    return b.codes(tensor, value.shape, quant.unsigned)


_TFLITE: Mapping[str, Callable[..., tables.Table]] = {
    "sigmoid": tables.sigmoid,
    "tanh": tables.tanh,
    "hard-swish": tables.hard_swish,
    "leaky-relu": tables.leaky_relu,
    "elu": tables.elu,
    "clip": tables.clip,
}


def _tflite_table(b: Builder, real: Real, quant: QParams) -> I64:
    """The table by TFLite's arithmetic where TFLite has the function as one operator, else from float32 values."""
    x = tables.Affine(float(real.quant.scale), real.quant.stored_zero)
    y = tables.Affine(float(quant.scale), quant.stored_zero)
    table: tables.Table | None = None
    if not real.functions:
        table = tables.requant(x, y, b.rounding)
    elif len(real.functions) == 1 and real.functions[0][0] in _TFLITE:
        name, parameters = real.functions[0]
        try:
            table = _TFLITE[name](x, y, b.rounding, *parameters)
        except ValueError:
            table = None  # TFLite has no kernel for these scales
    if table is not None:
        return np.asarray(table, np.int64)[real.codes.stored + 128]
    steps = real.values * (np.float32(1) / quant.scale)
    away = np.copysign(np.floor(np.abs(steps) + np.float32(0.5)), steps)
    codes = np.clip(away, -1024, 1024).astype(np.int64) + quant.stored_zero
    return np.asarray(np.clip(codes, -128, 127))


def _quantized_constant(data: Array, args: Args, node: Node) -> Const:
    scales = _scales(required_array(args, 1))
    given = args[2] if len(args) > 2 else None
    dtype = _DTYPES.get(node.integer("output_dtype", 0), "uint8")
    points = np.zeros(1, dtype) if given is None else np.atleast_1d(required_array(args, 2))
    if points.dtype.kind not in "iu" or data.dtype.kind != "f":
        raise Gap(f"it quantizes a constant of type {data.dtype.name} to {points.dtype.name}")
    along = [1] * data.ndim
    if scales.size > 1 or points.size > 1:
        axis = node.integer("axis", 1)
        if not -data.ndim <= axis < data.ndim or {scales.size, points.size} - {1, data.shape[axis]}:
            raise Gap(f"its scales do not fit axis {axis} of the shape {list(data.shape)}")
        along[axis] = -1
    limits = np.iinfo(points.dtype)
    with np.errstate(all="ignore"):
        steps = np.rint(data.astype(np.float32) / scales.reshape(along if data.ndim else -1))
    codes = np.nan_to_num(steps) + points.reshape(along if data.ndim else -1)
    return Const(np.clip(codes, limits.min, limits.max).astype(points.dtype).reshape(data.shape))


def _quantize_linear(ctx: Context, node: Node, args: Args) -> Value:
    _no_blocks(node)
    value = operand(args, 0)
    if isinstance(value, Const | QuantConst):
        return _quantized_constant(value.real if isinstance(value, QuantConst) else value.data, args, node)
    default = _DTYPES.get(node.integer("output_dtype", 0), "uint8")
    return quantize(ctx.b, value, read_qparams(args, 1, 2, default), node.outputs[0])


def _dequantize_linear(ctx: Context, node: Node, args: Args) -> Value:
    _no_blocks(node)
    return dequantize(ctx, operand(args, 0), args, 1, 2, node.integer("axis", 1))


def _no_blocks(node: Node) -> None:
    if node.integer("block_size", 0):
        raise Gap("it quantizes in blocks; only per tensor and per channel are supported")


def qlinear(
    float_handler: Handler,
    triples: Sequence[int],
    out: int,
    extra: Sequence[int] = (),
    axis: Callable[[Node], int] = lambda _: 0,
) -> Handler:
    """A QLinear operator: operands start at `triples` (value, scale, zero point), the result's quantization at `out`;
    operands `extra` are handed on as they are; `axis` is that of weights with one scale for each channel."""

    def handle(ctx: Context, node: Node, args: Args) -> Value:
        floats: list[Value | None] = [
            dequantize(ctx, operand(args, first), args, first + 1, first + 2, axis(node)) for first in triples
        ]
        floats += [args[i] if i < len(args) else None for i in extra]
        result = float_handler(ctx, node, floats)
        default = next((c.unsigned for first in triples if isinstance(c := operand(args, first), Codes)), True)
        quant = read_qparams(args, out, out + 1, "uint8" if default else "int8")
        if isinstance(result, list):
            raise Gap("it has several results")
        return quantize(ctx.b, result, quant, node.outputs[0])

    return handle


HANDLERS: Mapping[str, Handler] = {
    "QuantizeLinear": _quantize_linear,
    "DequantizeLinear": _dequantize_linear,
    "com.microsoft.QuantizeLinear": _quantize_linear,
    "com.microsoft.DequantizeLinear": _dequantize_linear,
}
