# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""What an ONNX value is known to be while a model is imported.

ONNX writes a quantized network as float operators between DequantizeLinear and QuantizeLinear. The importer walks
the nodes in order and keeps for each value one of these:

    Const      a constant array
    QuantConst a constant array of integers with its quantization: dequantized weights
    Codes      8-bit integers: a tensor of the graph under construction, seen through a table of 256 entries
    Real       float values that are a function of a tensor's 8-bit value: a table of 256 float32 numbers
    Pending    the float result of an operator (convolution, addition...) that waits for its QuantizeLinear
    FloatInput a float32 input of the network that waits for its QuantizeLinear
    Unknown    the result of a node that was refused; only its shape may be known

So every function of one quantized value, however many nodes it is spread over, ends as one table; and an operator
is emitted when the quantization of its result is known.

`shape` is always ONNX's (NCHW...). The tensor behind a value holds the same elements in the same memory order, but
its own shape may differ: reshaping costs nothing here.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..ir import S8_MAX, S8_MIN
from .onnx_node import Array, Gap

if TYPE_CHECKING:
    from .onnx_build import Builder

__all__ = [
    "CodeOf", "Codes", "Const", "FloatInput", "Linear8", "Move", "Pending", "QParams", "QuantConst", "Real", "Unknown",
    "Value", "describe",
]  # fmt: skip

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class QParams:
    """The quantization of 8-bit activations as the file states it; `unsigned` for uint8."""

    scale: np.float32
    zero: int
    unsigned: bool

    @property
    def stored_zero(self) -> int:
        """The zero point of the int8 values that stand for them: uint8 values are moved down by 128."""
        return self.zero - (128 if self.unsigned else 0)

    def code(self, value: float) -> int:
        """The int8 value that a real value is stored as."""
        return int(np.clip(np.rint(np.float32(value) / self.scale) + np.float32(self.stored_zero), S8_MIN, S8_MAX))

    def table(self, values: F32) -> I64:
        """`code` for an array."""
        with np.errstate(all="ignore"):
            steps = np.clip(np.rint(values / self.scale), -1024, 1024).astype(np.int64)
        return np.clip(steps + self.stored_zero, S8_MIN, S8_MAX)


@dataclass(frozen=True, slots=True)
class Const:
    """A constant array."""

    data: Array

    @property
    def shape(self) -> Shape:
        """Its shape."""
        return self.data.shape


@dataclass(frozen=True, slots=True)
class QuantConst:
    """A dequantized constant: scale * (data - zero); scale and zero have one entry, or one along `axis`."""

    data: Array
    scale: F32
    zero: I64
    axis: int | None = None

    @property
    def shape(self) -> Shape:
        """Its shape."""
        return self.data.shape

    @property
    def real(self) -> F32:
        """The float32 values."""
        scale, zero = self.scale, self.zero
        if self.axis is not None:
            along = [1] * self.data.ndim
            along[self.axis] = -1
            scale, zero = scale.reshape(along), zero.reshape(along)
        return np.asarray((self.data.astype(np.int64) - zero).astype(np.float32) * scale, np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """8-bit integers. `stored[i]` is the int8 value (uint8 values moved down by 128) for the i-th value of the
    tensor `root` in ascending order; `unsigned` says how the file sees them."""

    root: str
    stored: I64
    shape: Shape
    unsigned: bool
    label: str = ""  # what the table computes
    name: str = ""  # the value's name in the file
    origin: tuple[str, ...] = ()
    quant: QParams | None = None  # for people

    @property
    def visible(self) -> I64:
        """The integers as the file sees them."""
        return self.stored + (128 if self.unsigned else 0)


@dataclass(frozen=True, slots=True)
class Linear8:
    """An int8 tensor with real = scale * (q - zero)."""

    tensor: str
    scale: np.float32
    zero: int


@dataclass(frozen=True, slots=True, eq=False)
class Real:
    """Float values that are functions of 8-bit ones: `values[i]` belongs to the i-th value of `codes.root`.

    `quant` is the quantization that `codes` was dequantized with; `functions` names what was applied since.
    """

    codes: Codes
    quant: QParams
    values: F32
    functions: tuple[tuple[str, tuple[float, ...]], ...] = ()
    origin: tuple[str, ...] = ()

    @property
    def shape(self) -> Shape:
        """ONNX's shape."""
        return self.codes.shape

    @property
    def label(self) -> str:
        """The functions, for reports."""
        return "+".join(name for name, _ in self.functions)

    def apply(self, name: str, function: Callable[[F64], Any], parameters: tuple[float, ...] = ()) -> Real:
        """The function of the values, rounded to float32."""
        with np.errstate(all="ignore"):
            values = np.asarray(function(self.values.astype(np.float64))).astype(np.float32)
        if np.isnan(values).any():
            raise Gap(f"{name} is not defined for every quantized input")
        return replace(self, values=values, functions=(*self.functions, (name, parameters)))


# Moves the elements of an int8 tensor without looking at them; `code_of` gives the int8 code of a value to fill in.
CodeOf: TypeAlias = Callable[[float], int]
Move: TypeAlias = "Callable[[Builder, str, CodeOf], str]"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pending(ABC):
    """A float result that waits for its quantization: `gain` * result, limited to [lo, hi], then moved."""

    shape: Shape
    base_shape: Shape  # ONNX's shape before the moves
    lo: float = -math.inf
    hi: float = math.inf
    gain: float = 1.0
    moves: tuple[Move, ...] = ()
    origin: tuple[str, ...] = ()
    what: str = "the result"

    @property
    def bounded(self) -> bool:
        """Whether a limit was already applied, so that nothing may be added any more."""
        return self.lo != -math.inf or self.hi != math.inf

    def limited(self, lo: float, hi: float) -> Pending:
        """The value limited to [lo, hi]."""
        return replace(self, lo=min(max(self.lo, lo), hi), hi=max(min(self.hi, hi), lo))

    def moved(self, shape: Shape, move: Move) -> Pending:
        """The value reshaped, transposed, sliced...: applied after quantization, with which it commutes."""
        return replace(self, shape=shape, moves=(*self.moves, move))

    def scaled(self, factor: float) -> Pending:
        """The value times a positive factor."""
        if not 0 < factor < math.inf:
            raise Gap(f"{self.what} is multiplied by {factor:g} before it is quantized", "quantize it first")
        return replace(self, gain=self.gain * factor, lo=self.lo * factor, hi=self.hi * factor)

    def quantize(self, b: Builder, name: str, quant: QParams) -> Codes:
        """Emits the operator and what moves its result."""
        exact = QParams(np.float32(quant.scale / np.float32(self.gain)), quant.zero, quant.unsigned)
        lo, hi = self.lo / self.gain, self.hi / self.gain
        tensor = self.emit(b, b.name(f"{name}/unmoved") if self.moves else name, exact, lo, hi)
        for move in self.moves:
            tensor = move(b, tensor, quant.code)
        return replace(b.codes(tensor, self.shape, quant.unsigned), name=name, origin=self.origin, quant=quant)

    @abstractmethod
    def emit(self, b: Builder, name: str, quant: QParams, lo: float, hi: float) -> str:
        """Adds the operator; returns the int8 tensor that holds the result in ONNX's memory order."""


@dataclass(frozen=True, slots=True, eq=False)
class FloatInput:
    """A float32 input; `moves` wait until it is quantized."""

    tensor: str
    shape: Shape
    moves: tuple[Move, ...] = ()

    def moved(self, shape: Shape, move: Move) -> FloatInput:
        """As `Pending.moved`."""
        return replace(self, shape=shape, moves=(*self.moves, move))


@dataclass(frozen=True, slots=True, eq=False)
class Unknown:
    """The result of a node that was refused."""

    shape: Shape | None = None
    dtype: str = field(default="float32")


Value = Const | QuantConst | Codes | Real | Pending | FloatInput | Unknown


def describe(value: Value) -> str:
    """What a value is, for messages."""
    if isinstance(value, Const):
        return "a float constant" if value.data.dtype.kind == "f" else "an integer constant"
    if isinstance(value, QuantConst):
        return "a quantized constant"
    if isinstance(value, Codes):
        return "a quantized value that was not dequantized"
    if isinstance(value, Real):
        return f"the unquantized result of {value.functions[-1][0]}" if value.functions else "a quantized activation"
    if isinstance(value, Pending):
        return f"the unquantized result of {value.what}"
    return "an unquantized input" if isinstance(value, FloatInput) else "an unknown value"
