# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""ADD, SUB, MUL and PRELU: operators with two quantized operands.

An operand that is one constant value, or the same tensor twice, makes a function of one value: a table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arith import requantize
from ..ir import Add, Clamp, DType, Lut, Mul, PRelu, Quant, Requant
from ..tables import add_parameters
from .limits import MAX_TENSOR_BYTES
from .tflite_ops_base import Node, Refused, Row, Value, ir_shape

__all__ = ["ROWS"]

I64 = npt.NDArray[np.int64]

_LEFT_SHIFT = 20  # of ADD and SUB with 8-bit operands


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two operands, the activation first; `swapped` if it is the second in the file."""

    first: Value
    second: Value
    second_data: npt.NDArray[np.int8] | None  # None: an activation too
    swapped: bool

    @property
    def unary_data(self) -> int | None:
        """The only value of a constant second operand, or None."""
        data = self.second_data
        return int(data.reshape(-1)[0]) if data is not None and data.size == 1 else None


def _operands(node: Node) -> _Pair:
    """Operands 0 and 1 as a pair; refused if both are constant."""
    if node.is_const(0) and node.is_const(1):
        node.refuse("both operands are constant", "fold the constant part of the model before converting")
    swapped = node.is_const(0)
    first, second = (1, 0) if swapped else (0, 1)
    data = np.asarray(node.const(second, "operand", "INT8"), np.int8) if node.is_const(second) else None
    return _Pair(node.value(first), node.described(second), data, swapped)


def _result(node: Node, a: Value, b: Value) -> Value:
    """The output, of the shape that the operands broadcast to."""
    try:
        shape = np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        raise Refused(f"shapes {list(a.shape)} and {list(b.shape)} do not broadcast", "check the model") from None
    return node.output(shape)


def _inputs(node: Node, pair: _Pair, y: Value, gate: bool) -> tuple[str, str, bool]:
    """The operands' names, the constant one in a shape that broadcasts in the graph's shapes.

    `gate`: the smaller of two activations may be [1, 1, 1, C]. The third result: whether `pair.second` comes first.
    """
    first, second = pair.first, pair.second
    if pair.second_data is None:
        if first.shape == second.shape:
            return first.name, second.name, False
        small, big = (first, second) if first.elements < second.elements else (second, first)
        if not gate or big.shape != y.shape or small.elements != small.shape[-1] or len(y.shape) != 4:
            node.refuse(
                f"shapes {list(first.shape)} and {list(second.shape)}: two activations of different shapes",
                "repeat the smaller one in the model" + ("; MUL takes [1, 1, 1, C]" if gate else ""),
            )
        return big.name, node.viewed(small, (1, 1, 1, small.elements)), big is second
    if first.shape != y.shape:
        node.refuse(f"the activation {list(first.shape)} is repeated to {list(y.shape)}", "repeat it in the model")
    return first.name, _constant(node, pair, y), False


def _constant(node: Node, pair: _Pair, y: Value) -> str:
    """The constant operand as a tensor of the graph."""
    data = pair.second_data
    assert data is not None
    shape = ir_shape(y.shape)
    while data.ndim > len(shape) and data.shape[0] == 1:
        data = data[0]
    if data.ndim > len(shape) or shape[-len(y.shape) :] != y.shape[-len(shape) :]:  # the graph flattens the output
        if y.elements > MAX_TENSOR_BYTES:
            node.refuse("the constant operand is too large", "check the model")
        node.builder.spend(y.elements)
        data = np.broadcast_to(data, y.shape).reshape(shape)
    return node.constant(pair.second.name, data, DType.S8, Quant((pair.second.scale,), (pair.second.zero,)))


@dataclass(frozen=True, slots=True)
class _Sum:
    """The numbers of ADD or SUB, operands in the file's order."""

    lhs: Requant
    rhs: Requant
    out: Requant
    subtract: bool

    def evaluate(self, a: I64, b: I64, y: Value, clamp: Clamp) -> tuple[int, ...]:
        """The result for centred operands (q - zero)."""
        left = requantize(a << _LEFT_SHIFT, self.lhs)
        right = requantize(b << _LEFT_SHIFT, self.rhs)
        total = requantize(left - right if self.subtract else left + right, self.out) + y.zero
        return tuple(int(v) for v in np.clip(total, clamp.lo, clamp.hi))


def _sum_numbers(node: Node, a: Value, b: Value, y: Value, subtract: bool) -> _Sum:
    """ADD computes the factors in double precision, SUB in float32 (CalculateOpDataAdd, CalculateOpDataSub)."""
    with np.errstate(all="ignore"):
        twice = np.float32(2) * np.float32(max(a.scale, b.scale))
        ratio = float(twice / (np.float32(1 << _LEFT_SHIFT) * np.float32(y.scale)))
    if not 0 < ratio < 1:
        node.refuse(f"the output's scale {y.scale:g} does not fit the operands'", "calibrate and convert again")
    if not subtract:
        lhs, rhs, out = add_parameters(a.scale, b.scale, y.scale, node.rounding)
        assert out is not None
        return _Sum(lhs, rhs, out, subtract)
    ratios = [float(np.float32(a.scale) / twice), float(np.float32(b.scale) / twice), ratio]
    lhs, rhs, out = (node.scaling(r, 1 << 29) for r in ratios)
    return _Sum(lhs, rhs, out, subtract)


def _add_or_sub(node: Node, subtract: bool) -> None:
    pair = _operands(node)
    lhs, rhs = (pair.second, pair.first) if pair.swapped else (pair.first, pair.second)
    y = _result(node, lhs, rhs)
    numbers = _sum_numbers(node, lhs, rhs, y, subtract)
    clamp = node.clamp(0, y)
    x = pair.first.affine.values
    if pair.unary_data is not None or lhs.name == rhs.name:
        other = x if pair.unary_data is None else np.full_like(x, pair.unary_data)
        a, b = (other, x) if pair.swapped else (x, other)
        table = numbers.evaluate(a - lhs.zero, b - rhs.zero, y, clamp)
        _emit_table(node, pair.first, y, table, "subtract" if subtract else "add")
        return
    fields: dict[str, Any] = {
        "lhs_zero": lhs.zero, "rhs_zero": rhs.zero, "out_zero": y.zero, "left_shift": _LEFT_SHIFT,
        "lhs": numbers.lhs, "rhs": numbers.rhs, "out": numbers.out, "subtract": subtract, "clamp": clamp,
    }  # fmt: skip
    first, second, _ = _inputs(node, pair, y, gate=False)
    if pair.swapped:
        fields.update(lhs=numbers.rhs, rhs=numbers.lhs, lhs_zero=rhs.zero, rhs_zero=lhs.zero)
        if subtract:
            first, fields["lhs_zero"] = _negated(node, pair.first, numbers.rhs)
            fields["subtract"] = False
    node.emit(Add, (first, second), y.name, **fields)


def _negated(node: Node, x: Value, scale: Requant) -> tuple[str, int]:
    """(name, zero point) of an activation that stands for -x: q becomes -1 - q and so does the zero point.

    Refused where the fixed-point scaling of -x is not exactly the negative of that of x (a tie for some q).
    """
    centred = (x.affine.values - x.zero) << _LEFT_SHIFT
    if (requantize(-centred, scale) != -requantize(centred, scale)).any():
        node.refuse("a constant minus an activation at these scales", "multiply by -1 and add the constant")
    zero = -1 - x.zero
    name = node.temporary(node.builder.tensors[x.name].shape, Value(x.name, x.shape, x.dtype, x.scale, zero), "negated")
    node.emit(Lut, (x.name,), name, table=tuple(range(127, -129, -1)), label="negate")
    return name, zero


def _emit_table(node: Node, x: Value, y: Value, table: tuple[int, ...], label: str) -> None:
    """A table over `x`; refused where the operator would also repeat it."""
    if x.elements != y.elements:
        node.refuse(f"the activation {list(x.shape)} is repeated to {list(y.shape)}", "repeat it in the model")
    node.emit(Lut, (node.viewed(x, ir_shape(y.shape)),), y.name, table=table, label=label)


def add(node: Node) -> None:
    """Two activations of one shape, or an activation and a constant."""
    _add_or_sub(node, subtract=False)


def sub(node: Node) -> None:
    """As ADD; a constant may be the first operand."""
    _add_or_sub(node, subtract=True)


def mul(node: Node) -> None:
    """The factor is lhs_scale * rhs_scale / out_scale in double precision."""
    pair = _operands(node)
    lhs, rhs = (pair.second, pair.first) if pair.swapped else (pair.first, pair.second)
    y = _result(node, lhs, rhs)
    scale = node.scaling(lhs.scale * rhs.scale / y.scale, 255 * 255)
    clamp = node.clamp(0, y)
    if pair.unary_data is not None or lhs.name == rhs.name:
        x = pair.first.affine.values
        other = x if pair.unary_data is None else np.full_like(x, pair.unary_data)
        total = requantize((x - pair.first.zero) * (other - pair.second.zero), scale) + y.zero
        _emit_table(node, pair.first, y, tuple(int(v) for v in np.clip(total, clamp.lo, clamp.hi)), "multiply")
        return
    first, second, turned = _inputs(node, pair, y, gate=True)
    lhs_zero, rhs_zero = (pair.second.zero, pair.first.zero) if turned else (pair.first.zero, pair.second.zero)
    node.emit(
        Mul, (first, second), y.name,
        lhs_zero=lhs_zero, rhs_zero=rhs_zero, out_zero=y.zero, requant=scale, clamp=clamp,
    )  # fmt: skip


def prelu(node: Node) -> None:
    """alpha is a constant int8 tensor that broadcasts to the input."""
    x, alpha = node.value(0), node.described(1)
    data = np.asarray(node.const(1, "alpha", "INT8"), np.int8)
    y = _result(node, x, alpha)
    if x.shape != y.shape:
        node.refuse(f"alpha {list(alpha.shape)} does not fit {list(x.shape)}", "check the model")
    positive = node.scaling(x.scale / y.scale, 255)
    negative = node.scaling(x.scale * alpha.scale / y.scale, 255 * 255)
    name = _constant(node, _Pair(x, alpha, data, swapped=False), y)
    node.emit(
        PRelu, (x.name, name), y.name,
        in_zero=x.zero, alpha_zero=alpha.zero, out_zero=y.zero, positive=positive, negative=negative,
    )  # fmt: skip


ROWS: tuple[Row, ...] = (
    Row("ADD", add, "Add, or Lut", "two activations of one shape, or a constant that broadcasts; fused activation"),
    Row("SUB", sub, "Add, or Lut", "as ADD"),
    Row("MUL", mul, "Mul, or Lut", "as ADD; one activation may be [1, 1, 1, C]"),
    Row("PRELU", prelu, "PRelu", "constant alpha that broadcasts"),
)
