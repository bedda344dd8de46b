# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""What the importer of one operator is given: the builder, the operands, the operator set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from .onnx_build import Builder
from .onnx_node import Array, Gap, Node
from .onnx_values import CodeOf, Codes, Const, FloatInput, Move, Pending, QuantConst, Real, Unknown, Value, describe

__all__ = [
    "Args",
    "Context",
    "Handler",
    "channel_vector",
    "moved",
    "operand",
    "optional_array",
    "required_array",
    "scalar_of",
    "shape_of",
]

Shape = tuple[int, ...]
Args: TypeAlias = "Sequence[Value | None]"


@dataclass(frozen=True, slots=True)
class Context:
    """Shared by all nodes of a model."""

    b: Builder
    opset: int


Handler: TypeAlias = "Callable[[Context, Node, Args], Value | list[Value]]"


def operand(args: Args, index: int) -> Value:
    """An operand that must be there."""
    value = args[index] if index < len(args) else None
    if value is None:
        raise Gap(f"operand {index} is missing")
    return value


def optional_array(args: Args, index: int) -> Array | None:
    """A constant operand; None if it is left out; raises `Gap` if it is computed."""
    value = args[index] if index < len(args) else None
    if value is None:
        return None
    if isinstance(value, Const):
        return value.data
    if isinstance(value, QuantConst):
        return value.real
    raise Gap(f"operand {index} is computed at run time; only a constant is supported")


def required_array(args: Args, index: int) -> Array:
    """A constant operand that must be there."""
    array = optional_array(args, index)
    if array is None:
        raise Gap(f"operand {index} is missing")
    return array


def scalar_of(value: Value) -> float | None:
    """The value of a constant with one element, or of one whose elements are all equal; else None."""
    if not isinstance(value, Const | QuantConst):
        return None
    data = value.real if isinstance(value, QuantConst) else value.data
    if not data.size or not np.all(data == data.flat[0]):
        return None
    return float(data.flat[0])


def channel_vector(value: Value, shape: Shape, axis: int) -> Array | None:
    """A constant that broadcasts to `shape` and varies along one axis only, as float64 values along it; else None."""
    if not isinstance(value, Const | QuantConst):
        return None
    data = value.real if isinstance(value, QuantConst) else value.data
    if data.ndim > len(shape) or data.dtype.kind not in "fiu":
        return None
    dims = (1,) * (len(shape) - data.ndim) + data.shape
    if any(d not in (1, shape[i] if i == axis else 1) for i, d in enumerate(dims)):
        return None
    return np.broadcast_to(data.astype(np.float64).reshape(-1), (shape[axis],)).copy()


def shape_of(value: Value) -> Shape:
    """ONNX's shape of a value; raises `Gap` where it is not known."""
    if isinstance(value, Unknown):
        if value.shape is None:
            raise Gap("the shape of its operand is not known")
        return value.shape
    return value.shape


def moved(ctx: Context, value: Value, shape: Shape, move: Move) -> Value:
    """A value whose elements are moved (reshaped, transposed, sliced, padded...) without being computed with."""
    if isinstance(value, Pending | FloatInput):
        return value.moved(shape, move)
    if isinstance(value, Real):
        codes = value.codes
        root = move(ctx.b, ctx.b.signed(codes.root), _nearest(value.values))
        return Real(_replace(codes, root, shape), value.quant, value.values, value.functions, value.origin)
    if isinstance(value, Codes):
        codes = ctx.b.known(value)
        root = move(ctx.b, ctx.b.signed(codes.root), _nearest(codes.visible))
        return _replace(codes, root, shape)
    raise Gap(f"its operand is {describe(value)}")


def _replace(codes: Codes, root: str, shape: Shape) -> Codes:
    return Codes(root, codes.stored, shape, codes.unsigned, codes.label, "", codes.origin, codes.quant)


def _nearest(table: Array) -> CodeOf:
    """The code whose value is nearest; raises `Gap` if none is near."""

    def code_of(value: float) -> int:
        if value == -np.inf:
            value = float(table.min())
        distance = np.abs(table.astype(np.float64) - value)
        index = int(np.argmin(distance))
        steps = np.diff(np.unique(table.astype(np.float64)))
        if distance[index] > (float(np.min(steps)) / 2 * (1 + 1e-6) if steps.size else 0):
            raise Gap(f"the value {value:g} that it fills in lies outside the operand's quantized range")
        return index - 128

    return code_of
