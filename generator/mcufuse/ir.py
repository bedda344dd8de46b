# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The intermediate representation: an immutable graph of typed integer operators.

Importers resolve every scale into integers (`Requant`, tables, zero points), so that from here on an
operator says exactly which bits it computes; `Tensor.quant` only remains to describe inputs and outputs to
people and to later importing steps. The meaning of each operator is the `evaluate` of its kernel module,
which the C code equals bit for bit.

Layout: tensors of rank 4 are NHWC with N = 1. Everything that runs sees a tensor as `(height, width,
channels)`, its *rows* being the `height` slices: see `Tensor.hwc`.

    Graph ── tensors: name -> Tensor (shape, dtype, quant, data if constant)
          └─ ops: in an order in which each operand is defined before it is used
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

__all__ = [
    "Add", "AvgPool2D", "Bottleneck", "Clamp", "Concat", "Conv2D", "DType", "Dequantize", "DepthwiseConv2D",
    "FullyConnected", "Graph", "Lut", "MaxPool2D", "Mean", "Mul", "Op", "PRelu", "Pad", "Padding", "Quant",
    "Quantize", "Requant", "Reshape", "ResizeNearest", "Rounding", "S8_MAX", "S8_MIN", "Slice", "Softmax", "Tensor",
    "Transpose",
]  # fmt: skip

S8_MIN, S8_MAX = -128, 127

Array = npt.NDArray[np.generic]


class DType(Enum):
    """Element types; the value is NumPy's name of it."""

    S8 = "int8"
    U8 = "uint8"
    S32 = "int32"
    F32 = "float32"

    @property
    def bytes(self) -> int:
        """Bytes of one element."""
        return np.dtype(self.value).itemsize


class Rounding(Enum):
    """How a scaled accumulator becomes an integer.

    TFLITE: saturating rounding doubling high multiply, then a rounding shift, halves away from zero (TFLM's
        and CMSIS-NN's default: two roundings).
    TFLITE_SINGLE: one rounding, halves up: `(acc * m + 2^(t-1)) >> t` (XNNPACK, TFLITE_SINGLE_ROUNDING).
    ONNX: the exact product with the float32 scale, halves to even (what ONNX defines; ONNX Runtime computes
        the product in float32, which may differ when it falls within 2^-24 of a half).
    """

    TFLITE = "tflite"
    TFLITE_SINGLE = "tflite-single"
    ONNX = "onnx"


@dataclass(frozen=True, slots=True)
class Quant:
    """real = scale * (q - zero_point), per tensor (one entry) or per slice along `axis`."""

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None = None


@dataclass(frozen=True, slots=True)
class Requant:
    """Scales accumulators: `acc * multiplier * 2^(shift - 31)`, rounded by `rounding`.

    One entry, or one for each output channel. Multipliers lie in [2^30, 2^31) or are 0
    (TFLite's MEAN: in [2^29, 2^31)).
    """

    multiplier: tuple[int, ...]
    shift: tuple[int, ...]
    rounding: Rounding

    def __len__(self) -> int:
        return len(self.multiplier)


@dataclass(frozen=True, slots=True)
class Clamp:
    """Inclusive bounds of a quantized output."""

    lo: int = S8_MIN
    hi: int = S8_MAX


@dataclass(frozen=True, slots=True)
class Padding:
    """Rows and columns of padding around a map; padded elements hold the input's zero point."""

    top: int = 0
    left: int = 0
    bottom: int = 0
    right: int = 0


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value of the graph; constant if `data` is set."""

    name: str
    shape: tuple[int, ...]
    dtype: DType
    quant: Quant | None = None
    data: Array | None = field(default=None, compare=False, repr=False)

    @property
    def elements(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def bytes(self) -> int:
        """Bytes of the whole tensor."""
        return self.elements * self.dtype.bytes

    @property
    def hwc(self) -> tuple[int, int, int]:
        """(height, width, channels): how kernels see the tensor; raises ValueError for a batch above 1.

        [N, H, W, C] -> (H, W, C); [N, T, C] -> (T, 1, C); [N, C] and [C] -> (1, 1, C); [] -> (1, 1, 1).
        """
        shape = self.shape
        if len(shape) > 4 or (len(shape) >= 2 and shape[0] != 1):
            raise ValueError(f"{self.name}: shape {list(shape)} is not a single map")
        if len(shape) == 4:
            return shape[1], shape[2], shape[3]
        if len(shape) == 3:
            return shape[1], 1, shape[2]
        return 1, 1, shape[-1] if shape else 1

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        _, width, channels = self.hwc
        return width * channels * self.dtype.bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """Base of all operators. `inputs` are tensor names (data operands first), `output` is the only result.

    `origin` names the nodes of the model file that the operator stands for, for messages and the report.
    """

    name: str
    inputs: tuple[str, ...]
    output: str
    origin: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The operator's name in reports."""
        return type(self).__name__


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv2D(Op):
    """inputs: x [1,H,W,IC] s8, weights [OC,KH,KW,IC/groups] s8 const, bias [OC] s32 const. Output [1,OH,OW,OC] s8.

    out = clamp(requant(bias + sum((x - in_zero) * w)) + out_zero); padding contributes nothing.
    """

    stride: tuple[int, int] = (1, 1)  # h, w
    dilation: tuple[int, int] = (1, 1)
    padding: Padding = Padding()
    groups: int = 1
    in_zero: int = 0
    out_zero: int = 0
    requant: Requant
    clamp: Clamp = Clamp()


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthwiseConv2D(Op):
    """inputs: x [1,H,W,C] s8, weights [KH,KW,C*multiplier] s8 const, bias [C*multiplier] s32 const.

    Output channel c*multiplier + m reads input channel c; otherwise as `Conv2D`.
    """

    multiplier: int = 1
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: Padding = Padding()
    in_zero: int = 0
    out_zero: int = 0
    requant: Requant
    clamp: Clamp = Clamp()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bottleneck(Op):
    """inputs: x [1,H,W,IC] s8, then weights and bias of `expand`, of `depthwise`, of `project`. Output: `project`'s.

    The three operators one after the other, computed in `strips` vertical strips without keeping the expanded map.
    `expand` and `project` are 1x1 convolutions; the operators' own names of operands mean nothing here.
    """

    expand: Conv2D
    depthwise: DepthwiseConv2D
    project: Conv2D
    strips: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FullyConnected(Op):
    """inputs: x with K elements s8 (any shape, read in memory order), weights [OC,K] s8 const, bias [OC] s32 const."""

    in_zero: int = 0
    out_zero: int = 0
    requant: Requant
    clamp: Clamp = Clamp()


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxPool2D(Op):
    """inputs: x s8; the maximum over the window, padding ignored, then clamped."""

    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: Padding = Padding()
    clamp: Clamp = Clamp()


@dataclass(frozen=True, slots=True, kw_only=True)
class AvgPool2D(Op):
    """inputs: x s8. With `requant` None (TFLite): sum / count over the valid elements, halves away from zero.

    Otherwise `requant` entry n-1 scales `sum(x - in_zero)` of a window of n counted elements (n = KH*KW for all
    windows if `count_padding`), plus `out_zero`.
    """

    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: Padding = Padding()
    count_padding: bool = False
    in_zero: int = 0
    out_zero: int = 0
    requant: Requant | None = None
    clamp: Clamp = Clamp()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean(Op):
    """Mean over height and width: inputs x [1,H,W,C] s8, output C elements s8.

    out = clamp(requant(sum(x - in_zero)) + out_zero): the division by H*W is part of `requant`. With `requant`
    None (same scales, TFLite's average pool over the whole map): as `AvgPool2D`.
    """

    in_zero: int = 0
    out_zero: int = 0
    requant: Requant | None = None
    clamp: Clamp = Clamp()


@dataclass(frozen=True, slots=True, kw_only=True)
class Add(Op):
    """inputs: two s8 operands of one shape, or the second constant and broadcast to it (NumPy's rules).

    TFLITE roundings: s_i = requant_i((q_i - zero_i) << left_shift); out = clamp(out_requant(s_0 + s_1) + out_zero).
    ONNX: out = clamp(half_even((q_0 - zero_0) * m_0 + (q_1 - zero_1) * m_1, shift) + out_zero) where `lhs` and
    `rhs` hold m_i as `multiplier` (a signed magnitude below 2^22) and the same `shift` = -(bits to drop); `out` is
    None.
    `subtract` turns the sign of the second operand.
    """

    lhs_zero: int = 0
    rhs_zero: int = 0
    out_zero: int = 0
    left_shift: int = 20
    lhs: Requant
    rhs: Requant
    out: Requant | None = None
    subtract: bool = False
    clamp: Clamp = Clamp()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mul(Op):
    """inputs as `Add`. out = clamp(requant((q_0 - zero_0) * (q_1 - zero_1)) + out_zero).

    One operand may also be a [1,1,1,C] activation (a squeeze-and-excite gate) broadcast over the map.
    """

    lhs_zero: int = 0
    rhs_zero: int = 0
    out_zero: int = 0
    requant: Requant
    clamp: Clamp = Clamp()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lut(Op):
    """inputs: x s8 or u8; out = table[x + 128] for s8, table[x] for u8. Output s8 or u8.

    Every unary function of a quantized value is a table: activations, requantization, changes of sign.
    """

    table: tuple[int, ...]  # 256 entries
    label: str = "lut"  # what it computes: "sigmoid", "requantize", "hard-swish+requantize"


@dataclass(frozen=True, slots=True, kw_only=True)
class PRelu(Op):
    """inputs: x s8, alpha s8 const broadcast to x. x >= in_zero: `positive`(x - in_zero), else
    `negative`((x - in_zero) * (alpha - alpha_zero)); plus out_zero, clamped to s8."""

    in_zero: int = 0
    alpha_zero: int = 0
    out_zero: int = 0
    positive: Requant
    negative: Requant


@dataclass(frozen=True, slots=True, kw_only=True)
class Softmax(Op):
    """Softmax over the last axis of x s8. `exponents[d]` is exp(-beta * scale * d) for d = max - x, in the fixed point
    of the rounding: Q0.31 with TFLite's bits (0 below its cut-off), or Q.20 for ONNX: `tables.softmax_exponents`.
    TFLite's output scale is 1/256; ONNX's is 2^8 / `out_inverse`: `tables.softmax_inverse`. See kernels/softmax.py."""

    rounding: Rounding
    exponents: tuple[int, ...]  # 256 entries
    out_zero: int = S8_MIN
    out_inverse: int = 1 << 16  # ONNX only: 2^8 / output scale


@dataclass(frozen=True, slots=True, kw_only=True)
class Pad(Op):
    """inputs: x [1,H,W,C] s8; rows, columns and channels of `value` around it."""

    padding: Padding = Padding()
    channels: tuple[int, int] = (0, 0)  # before, after
    value: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Concat(Op):
    """inputs: two or more operands; joined along `axis` of (height, width, channels): 0, 1 or 2."""

    axis: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice(Op):
    """inputs: x; x[begin : begin + size*stride : stride] along each of (height, width, channels)."""

    begin: tuple[int, int, int]
    size: tuple[int, int, int]
    stride: tuple[int, int, int] = (1, 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transpose(Op):
    """inputs: x of rank <= 4; output axis i is input axis perm[i]."""

    perm: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reshape(Op):
    """inputs: x; the same bytes in memory order under another shape (flatten, squeeze, unsqueeze...)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeNearest(Op):
    """inputs: x [1,H,W,C]; output row i is input row rows[i], output column j is input column columns[j]."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantize(Op):
    """inputs: x f32; out = clamp(round(x / scale) + zero) s8 (or u8).

    TFLITE roundings: halves away from zero; ONNX: halves to even. The division is in float32.
    """

    scale: float
    zero: int
    rounding: Rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class Dequantize(Op):
    """inputs: x s8; out = scale * (x - zero) in float32."""

    scale: float
    zero: int


@dataclass(frozen=True, slots=True)
class Graph:
    """A network. `ops` are in topological order; tensors are keyed by name."""

    name: str
    tensors: Mapping[str, Tensor]
    ops: tuple[Op, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    notes: tuple[str, ...] = ()  # what the passes changed, one line each, for the report

    def __post_init__(self) -> None:
        object.__setattr__(self, "tensors", MappingProxyType(dict(self.tensors)))

    def is_const(self, name: str) -> bool:
        """Whether the tensor holds data."""
        return self.tensors[name].data is not None

    def const(self, name: str) -> Array:
        """The data of a constant tensor; raises ValueError for an activation."""
        data = self.tensors[name].data
        if data is None:
            raise ValueError(f"{name} is not constant")
        return data

    def activations(self, op: Op) -> tuple[str, ...]:
        """The operands of `op` that are computed or fed, not constant."""
        return tuple(name for name in op.inputs if not self.is_const(name))

    def producer(self, name: str) -> Op | None:
        """The operator that computes a tensor; None for inputs and constants."""
        return next((op for op in self.ops if op.output == name), None)

    def consumers(self, name: str) -> tuple[Op, ...]:
        """The operators that read a tensor, in order."""
        return tuple(op for op in self.ops if name in op.inputs)

    def with_(
        self,
        *,
        ops: Iterable[Op] | None = None,
        tensors: Iterable[Tensor] = (),
        outputs: tuple[str, ...] | None = None,
        notes: Iterable[str] = (),
    ) -> Graph:
        """A changed copy: `tensors` are added or replaced; tensors that nothing refers to any more are dropped."""
        new_ops = self.ops if ops is None else tuple(ops)
        merged = {**self.tensors, **{t.name: t for t in tensors}}
        new_outputs = self.outputs if outputs is None else outputs
        used = set(self.inputs) | set(new_outputs)
        for op in new_ops:
            used.update(op.inputs)
            used.add(op.output)
        kept = {name: tensor for name, tensor in merged.items() if name in used}
        return replace(self, tensors=kept, ops=new_ops, outputs=new_outputs, notes=self.notes + tuple(notes))
