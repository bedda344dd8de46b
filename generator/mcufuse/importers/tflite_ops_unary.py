# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Functions of one value (tables), SOFTMAX, and the steps between float32 and int8."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from .. import tables
from ..ir import Dequantize, DType, Lut, Quantize, Reshape, Softmax
from ..tables import Affine, Table
from .tflite_ops_base import Converter, Node, Row, Value

__all__ = ["ROWS"]

_CALIBRATE = "calibrate and convert again"
_BYTES = (DType.S8, DType.U8)


def _emit_table(node: Node, x: Value, build: Callable[[Affine, Affine], Table], label: str) -> None:
    """A table over the whole tensor; what TFLite's kernel does not compute is refused."""
    y = node.output(x.shape)
    ratio = x.scale / y.scale
    if not ratio < 1 << 22:  # 255 * ratio must fit into 31 bits
        node.refuse(f"the input's scale is {ratio:g} times the output's", _CALIBRATE)
    try:
        table = build(x.affine, y.affine)
    except ValueError as error:
        node.refuse(str(error), _CALIBRATE)
    node.emit(Lut, (x.name,), y.name, table=table, label=label)


def _unary(function: Callable[..., Table], label: str) -> Converter:
    """The converter of an operator without options."""

    def convert(node: Node) -> None:
        _emit_table(node, node.value(0), lambda x, y: function(x, y, node.rounding), label)

    return convert


def _clip(low: float, high: float | None, label: str) -> Converter:
    """The converter of a RELU."""
    return _unary(partial(tables.clip, low=low, high=high), label)


def leaky_relu(node: Node) -> None:
    """alpha is a float option."""
    alpha = float(node.option(0, "f32", 0.0))
    x = node.value(0)
    if not math.isfinite(alpha) or abs(alpha) > 1 << 16:
        node.refuse(f"alpha {alpha}", _CALIBRATE)
    if x.scale * abs(alpha) / node.output(x.shape).scale >= 1 << 22:
        node.refuse(f"alpha {alpha:g} is too large for the output's scale", _CALIBRATE)
    _emit_table(node, x, lambda a, b: tables.leaky_relu(a, b, node.rounding, alpha), "leaky-relu")


def gelu(node: Node) -> None:
    """Exact or by tanh."""
    approximate = bool(node.option(0, "bool", False))
    _emit_table(node, node.value(0), lambda a, b: tables.gelu(a, b, node.rounding, approximate), "gelu")


def softmax(node: Node) -> None:
    """Over the last axis; the output's scale is 1/256 and its zero point -128, as TFLite's kernel demands."""
    x = node.value(0)
    beta = float(node.option(0, "f32", 0.0))
    y = node.output(x.shape)
    if y.scale != 1 / 256 or y.zero != -128:
        node.refuse(f"output scale {y.scale:g}, zero point {y.zero}; SOFTMAX needs 1/256 and -128", _CALIBRATE)
    if not (math.isfinite(beta) and 0 < beta <= 1 << 16):
        node.refuse(f"beta {beta}", "use a beta above 0 (1 is usual)")
    try:
        exponents = tables.softmax_exponents(x.scale, beta, node.rounding)
    except ValueError as error:
        node.refuse(str(error), _CALIBRATE)
    node.emit(Softmax, (x.name,), y.name, rounding=node.rounding, exponents=exponents, out_zero=y.zero)


def quantize(node: Node) -> None:
    """float32 to int8 or uint8 at the border, or from one 8-bit quantization to another."""
    x = node.value(0, DType.F32, *_BYTES)
    y = node.output(x.shape, *_BYTES)
    if x.dtype is DType.F32:
        node.emit(Quantize, (x.name,), y.name, scale=y.scale, zero=y.zero, rounding=node.rounding)
    elif x.affine == y.affine:
        node.emit(Reshape, (x.name,), y.name)
    elif x.scale / y.scale >= 1 << 22:
        node.refuse(f"the input's scale is {x.scale / y.scale:g} times the output's", _CALIBRATE)
    else:
        label = "requantize" if x.scale != y.scale else "recode"
        node.emit(Lut, (x.name,), y.name, table=tables.requant(x.affine, y.affine, node.rounding), label=label)


def dequantize(node: Node) -> None:
    """int8 or uint8 to float32 at the border."""
    x = node.value(0, *_BYTES)
    y = node.output(x.shape, DType.F32)
    name, zero = x.name, x.zero
    if x.dtype is DType.U8:
        zero = x.zero - 128
        like = Value(x.name, x.shape, DType.S8, x.scale, zero)
        name = node.temporary(node.builder.tensors[x.name].shape, like, "s8")
        node.emit(Lut, (x.name,), name, table=tables.recode(DType.U8, DType.S8), label="recode")
    node.emit(Dequantize, (name,), y.name, scale=x.scale, zero=zero)


_FIXED = "the output's scale and zero point are fixed by TFLite: "

ROWS: tuple[Row, ...] = (
    Row("RELU", _clip(0.0, None, "relu"), "Lut", "any scales"),
    Row("RELU6", _clip(0.0, 6.0, "relu6"), "Lut", "any scales"),
    Row("RELU_N1_TO_1", _clip(-1.0, 1.0, "relu-n1-to-1"), "Lut", "any scales"),
    Row("RELU_0_TO_1", _clip(0.0, 1.0, "relu-0-to-1"), "Lut", "any scales"),
    Row("LEAKY_RELU", leaky_relu, "Lut", "any scales, any alpha"),
    Row("ELU", _unary(tables.elu, "elu"), "Lut", "any scales"),
    Row("GELU", gelu, "Lut", "any scales; exact or approximate"),
    Row("HARD_SWISH", _unary(tables.hard_swish, "hard-swish"), "Lut", "an output at most 128 times finer"),
    Row("LOGISTIC", _unary(tables.sigmoid, "sigmoid"), "Lut", _FIXED + "1/256, -128"),
    Row("TANH", _unary(tables.tanh, "tanh"), "Lut", _FIXED + "1/128, 0"),
    Row("SOFTMAX", softmax, "Softmax", "over the last axis, any beta; " + _FIXED + "1/256, -128"),
    Row("QUANTIZE", quantize, "Quantize, or Lut", "float32 to int8 or uint8; int8 and uint8 to each other, any scales"),
    Row("DEQUANTIZE", dequantize, "Dequantize", "int8 or uint8 to float32"),
)
