# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""What the converters of TFLite operators share: the graph under construction and checked access to operands.

Shapes: a converter reasons in the file's shapes (`Value.shape`); the tensors of the graph have shapes that
`ir.Tensor.hwc` accepts (`ir_shape`): the same bytes in memory order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from ..arith import quantize_multiplier
from ..ir import S8_MAX, S8_MIN, Clamp, DType, Op, Padding, Quant, Requant, Reshape, Rounding, Tensor
from ..tables import Affine
from .limits import MAX_OPERATORS, Budget
from .tflite_schema import ACTIVATIONS, Model, Operator, TensorInfo

__all__ = ["Builder", "Converter", "Node", "Refused", "Row", "Value", "ir_shape", "same_padding", "window"]

Array = npt.NDArray[Any]

QUANTIZE_HINT = "convert with post-training full integer quantization (int8 activations and weights)"
_DTYPES = {"INT8": DType.S8, "UINT8": DType.U8, "FLOAT32": DType.F32}
_ZEROS = {"INT8": (-128, 127), "UINT8": (0, 255)}
_MAX_CONSTANT_BYTES = 256 << 20  # over all operators, the same bytes counted again for each use
_REQUANT_BYTES = 256  # what the multiplier of one channel takes on the host


class Refused(Exception):
    """Why a node cannot be converted, and the way out."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.reason, self.hint = reason, hint


@dataclass(frozen=True, slots=True)
class Value:
    """An activation: its tensor in the graph, the file's shape, and its quantization (scale 0.0: none)."""

    name: str
    shape: tuple[int, ...]
    dtype: DType
    scale: float
    zero: int

    @property
    def affine(self) -> Affine:
        """The quantization as tables take it."""
        return Affine(self.scale, self.zero, self.dtype)

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


Converter = Callable[["Node"], None]


@dataclass(frozen=True, slots=True)
class Row:
    """One supported operator: its converter, what it becomes and what is accepted (for docs/operators.md)."""

    kind: str
    convert: Converter
    becomes: str
    accepts: str


def ir_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """A shape of the same bytes that `Tensor.hwc` accepts: rank at most 4, and 1 in front from rank 2 on."""
    shape = tuple(shape)
    while len(shape) > 4 and shape[0] == 1:
        shape = shape[1:]
    if len(shape) <= 1 or (len(shape) <= 4 and shape[0] == 1):
        return shape
    if len(shape) <= 3:
        return (1, *shape)
    return (1, math.prod(shape[:-1]), shape[-1])


def same_padding(size: int, kernel: int, stride: int, dilation: int, same: bool) -> tuple[int, int, int]:
    """(outputs, padding before, padding after) of one axis by TensorFlow's SAME and VALID.

    Source: tensorflow/lite/kernels/padding.h. Padding after may exceed what the last window reads by nothing.
    """
    extent = (kernel - 1) * dilation + 1
    outputs = -(-size // stride) if same else (size - extent) // stride + 1
    if outputs < 1:
        raise Refused(f"the window of {extent} does not fit into {size} elements", "check the kernel and the shapes")
    total = max((outputs - 1) * stride + extent - size, 0)
    return outputs, total // 2, total - total // 2


def window(
    hw: tuple[int, int], kernel: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int], same: bool
) -> tuple[tuple[int, int], Padding]:
    """The output's (height, width) and the padding of a 2-D window."""
    for what, pair in (("stride", stride), ("dilation", dilation), ("kernel", kernel)):
        if min(pair) < 1 or max(pair) > 1 << 16:
            raise Refused(f"{what} {pair[0]} x {pair[1]}", "the file is damaged; convert the model again")
    out_h, top, bottom = same_padding(hw[0], kernel[0], stride[0], dilation[0], same)
    out_w, left, right = same_padding(hw[1], kernel[1], stride[1], dilation[1], same)
    return (out_h, out_w), Padding(top, left, bottom, right)


class Builder:
    """The graph under construction. `values` maps the file's tensor numbers to what has been defined so far."""

    def __init__(self, model: Model, rounding: Rounding) -> None:
        self.model, self.rounding = model, rounding
        self.tensors: dict[str, Tensor] = {}
        self.ops: list[Op] = []
        self.values: dict[int, Value] = {}
        self.folded: dict[int, Array] = {}  # constants computed from constants
        self._constants: dict[int, Value] = {}  # those placed into the graph as they are
        self._names = {tensor.name for tensor in model.tensors if tensor.raw is None}
        self._op_names: set[str] = set()
        self.budget = Budget(_MAX_CONSTANT_BYTES)

    def spend(self, amount: int) -> None:
        """Counts bytes of constants; raises `Refused` when a model cites absurdly many."""
        if not self.budget.spend(amount):
            raise Refused("the constants of the model add up to too much", "is the file damaged?")

    def unique(self, name: str, taken: set[str] | None = None) -> str:
        """`name`, numbered if it is taken."""
        names = self._names if taken is None else taken
        candidate, number = name, 1
        while candidate in names:
            number += 1
            candidate = f"{name}.{number}"
        names.add(candidate)
        return candidate

    def op_name(self, base: str) -> str:
        """A name that no other operator has."""
        return self.unique(base, self._op_names)

    def define(self, info: TensorInfo) -> Value:
        """Adds an activation of the file to the graph; raises `Refused` if it cannot be used."""
        value = activation(info)
        quant = Quant((value.scale,), (value.zero,)) if value.scale else None
        self.tensors[info.name] = Tensor(info.name, ir_shape(info.shape), value.dtype, quant)
        self.values[info.index] = value
        return value

    def place(self, info: TensorInfo) -> Value:
        """A constant of the file as an operand, added to the graph once; raises `Refused`."""
        if info.index in self._constants:
            return self._constants[info.index]
        value = activation(info)
        data = self.folded.get(info.index)
        if data is None and info.raw is not None:
            data = info.array()
        if data is None:  # the result of a node that was refused, listed already
            return self.define(info)
        self.spend(data.nbytes)
        value = replace(value, name=self.unique(value.name))
        quant = Quant((value.scale,), (value.zero,)) if value.scale else None
        self.tensors[value.name] = Tensor(value.name, data.shape, value.dtype, quant, data)
        self._constants[info.index] = value
        return value


def activation(info: TensorInfo) -> Value:
    """An activation's description after checking it; raises `Refused`."""
    name = f'tensor "{info.name}"'
    if info.fault:
        raise Refused(f"{name}: {info.fault}", "the file is damaged, or the model needs another export")
    if info.type not in _DTYPES:
        hint = "16-bit activations are not supported; " + QUANTIZE_HINT if info.type == "INT16" else QUANTIZE_HINT
        raise Refused(f"{name} is {info.type}; activations are INT8 (UINT8 and FLOAT32 at the borders)", hint)
    scale, zero = (0.0, 0) if info.type == "FLOAT32" else _per_tensor(info, name)
    return Value(info.name, info.shape, _DTYPES[info.type], scale, zero)


def _per_tensor(info: TensorInfo, name: str) -> tuple[float, int]:
    """(scale, zero point) of a quantized activation."""
    quant = info.quant
    if quant is None or not len(quant.zeros):
        raise Refused(f"{name} has no quantization", QUANTIZE_HINT)
    if len(quant.scales) != 1 or len(quant.zeros) != 1:
        raise Refused(f"{name}: {len(quant.scales)} scales; activations are quantized per tensor", QUANTIZE_HINT)
    scale, zero = float(quant.scales[0]), int(quant.zeros[0])
    if not (math.isfinite(scale) and scale > 0):
        raise Refused(f"{name}: scale {scale}; scales are finite and above zero", "calibrate and convert again")
    low, high = _ZEROS[info.type]
    if not low <= zero <= high:
        raise Refused(f"{name}: zero point {zero} is outside [{low}, {high}]", "calibrate and convert again")
    return scale, zero


class Node:
    """One operator of the file during its conversion."""

    def __init__(self, builder: Builder, operator: Operator) -> None:
        self.builder, self.operator = builder, operator
        self.origin = f"{operator.index} {operator.kind}"

    @property
    def rounding(self) -> Rounding:
        """The rounding that the graph is built for."""
        return self.builder.rounding

    def refuse(self, reason: str, hint: str = "") -> NoReturn:
        """Gives the node up."""
        raise Refused(reason, hint)

    # Options

    def option(self, number: int, kind: str = "i32", default: Any = 0) -> Any:
        """A field of the operator's options, or the schema's default."""
        options = self.operator.options
        return default if options is None else options.scalar(number, kind, default)

    # Operands

    def has(self, position: int) -> bool:
        """Whether an optional operand is given."""
        inputs = self.operator.inputs
        return position < len(inputs) and inputs[position] >= 0

    def info(self, position: int, what: str = "operand") -> TensorInfo:
        """An operand's tensor as the file states it."""
        if not self.has(position):
            self.refuse(f"{what} {position} is missing", "the file is damaged; convert the model again")
        return self.builder.model.tensors[self.operator.inputs[position]]

    def info_out(self, position: int = 0) -> TensorInfo:
        """An output's tensor as the file states it."""
        if position >= len(self.operator.outputs):
            self.refuse("an output is missing", "the file is damaged; convert the model again")
        return self.builder.model.tensors[self.operator.outputs[position]]

    def is_const(self, position: int) -> bool:
        """Whether an operand is known at compile time."""
        info = self.info(position)
        return info.index in self.builder.folded or info.raw is not None

    def const(self, position: int, what: str, *types: str) -> Array:
        """A constant operand's values, in the file's shape; refused if computed or of a type not in `types`."""
        info = self.info(position, what)
        folded = self.builder.folded.get(info.index)
        if folded is not None:
            return folded
        if info.fault:
            self.refuse(f'{what} "{info.name}": {info.fault}', "the file is damaged, or the model needs another export")
        if info.raw is None:
            self.refuse(f'{what} "{info.name}" is computed; it must be constant', "make it constant in the model")
        if types and info.type not in types:
            self.refuse(f'{what} "{info.name}" is {info.type}, not {" or ".join(types)}', QUANTIZE_HINT)
        self.builder.spend(len(info.raw))
        return info.array()

    def ints(self, position: int, what: str) -> tuple[int, ...]:
        """A constant vector of whole numbers (axes, paddings, sizes)."""
        values = self.const(position, what, "INT32", "INT64")
        if values.size > 256:
            self.refuse(f"{what}: {values.size} values", "the file is damaged; convert the model again")
        return tuple(int(v) for v in values.reshape(-1))

    def value(self, position: int, *dtypes: DType) -> Value:
        """An activation operand (constants are placed into the graph); refused if not of `dtypes` (s8 if none)."""
        info = self.info(position)
        value = self.builder.values.get(info.index)
        if value is None:
            value = self.builder.place(info)
        return self._of_type(value, dtypes)

    def described(self, position: int) -> Value:
        """An int8 operand's description; a constant is not placed into the graph."""
        info = self.info(position)
        return self._of_type(self.builder.values.get(info.index) or activation(info), ())

    def _of_type(self, value: Value, dtypes: tuple[DType, ...]) -> Value:
        allowed = dtypes or (DType.S8,)
        if value.dtype not in allowed:
            if value.dtype is DType.F32:
                self.refuse(f'computes in float32 (operand "{value.name}")', QUANTIZE_HINT)
            self.refuse(f'operand "{value.name}" is {value.dtype.value}, not int8', QUANTIZE_HINT)
        return value

    def output(self, shape: Sequence[int], *dtypes: DType, position: int = 0) -> Value:
        """Defines an output after checking that the file claims the `shape` that the operator yields."""
        value = self.builder.define(self.info_out(position))
        allowed = dtypes or (DType.S8,)
        if value.dtype not in allowed:
            self.refuse(f'output "{value.name}" is {value.dtype.value}, not {allowed[0].value}', QUANTIZE_HINT)
        if value.shape != tuple(shape):
            self.refuse(
                f'output "{value.name}" has shape {list(value.shape)}, but the operator yields {list(shape)}',
                "fix the input's shape and convert the model again",
            )
        return value

    # The graph

    def emit(self, kind: type[Op], inputs: Sequence[str], output: str, **fields: Any) -> None:
        """Appends an operator to the graph."""
        if len(self.builder.ops) >= 2 * MAX_OPERATORS:
            self.refuse(f"the model becomes more than {2 * MAX_OPERATORS:,} operators", "is the file damaged?")
        base = self.operator.kind.split('"')[0].strip().lower().replace(" ", "_")
        name = self.builder.op_name(f"{base}_{self.operator.index}")
        origin = (self.origin,)
        self.builder.ops.append(kind(name=name, inputs=tuple(inputs), output=output, origin=origin, **fields))

    def map_shape(self, x: Value) -> tuple[int, int, int]:
        """(height, width, channels) of an operand [1, H, W, C]."""
        if len(x.shape) != 4 or x.shape[0] != 1:
            self.refuse(f"an input of shape {list(x.shape)}, not [1, H, W, C]", "reshape it, or use batch size 1")
        return x.shape[1], x.shape[2], x.shape[3]

    def temporary(self, shape: Sequence[int], like: Value, suffix: str) -> str:
        """A new activation with the type and quantization of `like`."""
        name = self.builder.unique(f"{like.name}.{suffix}")
        quant = Quant((like.scale,), (like.zero,)) if like.scale else None
        self.builder.tensors[name] = Tensor(name, tuple(shape), like.dtype, quant)
        return name

    def constant(self, base: str, values: Array, dtype: DType, quant: Quant | None = None) -> str:
        """A new constant of the graph."""
        name = self.builder.unique(base)
        data = np.ascontiguousarray(values, np.dtype(dtype.value))
        self.builder.tensors[name] = Tensor(name, data.shape, dtype, quant, data)
        return name

    def viewed(self, value: Value, shape: Sequence[int]) -> str:
        """The name of `value` under another shape; a `Reshape` is added if the shape differs."""
        shape = tuple(shape)
        if self.builder.tensors[value.name].shape == shape:
            return value.name
        name = self.temporary(shape, value, "view")
        self.emit(Reshape, (value.name,), name)
        return name

    def emit_viewed(self, kind: type[Op], inputs: Sequence[str], output: Value, shape: Sequence[int], **f: Any) -> None:
        """Appends an operator whose result has `shape`, and the `Reshape` to the output's shape if it differs."""
        shape = tuple(shape)
        if self.builder.tensors[output.name].shape == shape:
            self.emit(kind, inputs, output.name, **f)
            return
        name = self.temporary(shape, output, "flat")
        self.emit(kind, inputs, name, **f)
        self.emit(Reshape, (name,), output.name)

    # Numbers

    def requant(self, real: float, bound: int, what: str = "the scales") -> tuple[int, int]:
        """(multiplier, shift) of `real` for accumulators of magnitude up to `bound`; refused if 32 bits overflow."""
        self.builder.spend(_REQUANT_BYTES)
        if not (math.isfinite(real) and real >= 0):
            self.refuse(f"{what} give the factor {real}", "calibrate and convert again")
        multiplier, shift = quantize_multiplier(real)
        if bound << max(shift, 0) >= 1 << 31:
            self.refuse(
                f"accumulators up to {bound:,} times {real:g} overflow 32 bits",
                "the output's scale is far too small for the operands; calibrate again",
            )
        return multiplier, shift

    def scaling(self, real: float, bound: int) -> Requant:
        """`requant` as a per-tensor `Requant`."""
        multiplier, shift = self.requant(real, bound)
        return Requant((multiplier,), (shift,), self.rounding)

    def clamp(self, option: int, output: Value) -> Clamp:
        """The fused activation's bounds in the output's quantization.

        TFLite: CalculateActivationRangeQuantized: zero + round(bound / scale), the quotient in float32.
        """
        number = self.option(option, "i8")
        kind = ACTIVATIONS[number] if 0 <= number < len(ACTIVATIONS) else f"activation {number}"
        bounds = {"NONE": (None, None), "RELU": (0.0, None), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0)}
        if kind not in bounds:
            self.refuse(f"fused activation {kind}", "use a separate activation layer")
        low, high = (None if b is None else output.zero + self._steps(b, output.scale) for b in bounds[kind])
        return Clamp(
            S8_MIN if low is None else max(S8_MIN, low),
            S8_MAX if high is None else min(S8_MAX, high),
        )

    def _steps(self, bound: float, scale: float) -> int:
        """round(bound / scale), halves away from zero, in float32."""
        with np.errstate(all="ignore"):
            quotient = float(np.float32(bound) / np.float32(scale))
        if not abs(quotient) < 1 << 31:
            self.refuse(f"the activation bound {bound:g} at scale {scale:g} overflows", "calibrate and convert again")
        return int(math.copysign(math.floor(abs(quotient) + 0.5), quotient))
