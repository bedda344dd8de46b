# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Checks that a graph is what ir.py says: run after the import and after each pass.

A violation is a bug of ours, never of the user's model, and `BrokenGraph` lists all of them. The checks repeat the
contract of each operator in the plainest way; they share no code with importers, passes or kernels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .ir import (
    S8_MAX,
    S8_MIN,
    Add,
    AvgPool2D,
    Bottleneck,
    Clamp,
    Concat,
    Conv2D,
    DepthwiseConv2D,
    Dequantize,
    DType,
    FullyConnected,
    Graph,
    Lut,
    MaxPool2D,
    Mean,
    Mul,
    Op,
    Pad,
    Padding,
    PRelu,
    Quantize,
    Requant,
    Reshape,
    ResizeNearest,
    Rounding,
    Slice,
    Softmax,
    Tensor,
    Transpose,
)

__all__ = ["BrokenGraph", "verify"]

Found = Iterator[str]
_BYTES = (DType.S8, DType.U8)


class BrokenGraph(AssertionError):
    """A graph breaks its contract; `violations` holds one line each."""

    def __init__(self, graph: str, violations: list[str]) -> None:
        self.violations = tuple(violations)
        super().__init__(f"graph {graph} is broken (a bug of mcufuse):\n  " + "\n  ".join(violations))


def verify(graph: Graph) -> None:
    """Raises `BrokenGraph` with everything that is wrong."""
    found = list(_tensors(graph)) + list(_order(graph))
    if not found:  # the operators' checks rely on tensors that exist
        for op in graph.ops:
            found += [f"{op.name} ({op.kind}): {text}" for text in _operator(op, graph)]
    if found:
        raise BrokenGraph(graph.name, found)


def _tensors(graph: Graph) -> Found:
    """Keys, shapes, data, references."""
    used = {*graph.inputs, *graph.outputs, *(n for op in graph.ops for n in (*op.inputs, op.output))}
    for name in sorted(used - set(graph.tensors)):
        yield f"tensor {name} does not exist"
    for name, tensor in graph.tensors.items():
        if name != tensor.name:
            yield f"tensor {tensor.name} is filed as {name}"
        if name not in used:
            yield f"tensor {name} is not used"
        if any(type(d) is not int or d < 1 for d in tensor.shape):
            yield f"tensor {name}: shape {tensor.shape}"
        elif tensor.data is None:
            yield from _activation(tensor)
        elif tensor.data.shape != tensor.shape or tensor.data.dtype != np.dtype(tensor.dtype.value):
            yield f"tensor {name}: data {tensor.data.dtype} {tensor.data.shape}, not {tensor.dtype} {tensor.shape}"


def _activation(tensor: Tensor) -> Found:
    try:
        height, width, channels = tensor.hwc
    except ValueError as error:
        yield str(error)
        return
    if height * width * channels != tensor.elements:
        yield f"tensor {tensor.name}: {tensor.shape} is not its height, width and channels"


def _order(graph: Graph) -> Found:
    """Inputs, outputs, topological order, no dead operators."""
    if not graph.inputs or not graph.outputs or not graph.ops:
        yield "no inputs, no outputs or no operators"
    for what, names in (("inputs", graph.inputs), ("outputs", graph.outputs)):
        if len(set(names)) != len(names):
            yield f"{what} {names} are not distinct"
    repeated = {name for name, count in Counter(op.name for op in graph.ops).items() if count > 1}
    if repeated:
        yield f"operator names are not distinct: {sorted(repeated)}"
    constants = {name for name, tensor in graph.tensors.items() if tensor.data is not None}
    yield from (f"input {name} is constant" for name in graph.inputs if name in constants)
    defined = set(graph.inputs) | constants
    for op in graph.ops:
        yield from (f"{op.name} reads {name} before it is defined" for name in op.inputs if name not in defined)
        if op.output in defined:
            yield f"{op.name} defines {op.output} a second time"
        defined.add(op.output)
    results = {op.output for op in graph.ops}
    yield from (f"output {name} is not computed" for name in graph.outputs if name not in results)
    read = {name for op in graph.ops for name in op.inputs} | set(graph.outputs)
    yield from (f"{op.name} is dead: nothing reads {op.output}" for op in graph.ops if op.output not in read)


def _operator(op: Op, graph: Graph) -> Found:
    """One operator against its dataclass in ir.py."""
    if type(op) not in _CHECKS:
        yield "unknown operator"
        return
    check, operands, dtypes = _CHECKS[type(op)]
    args, out = [graph.tensors[name] for name in op.inputs], graph.tensors[op.output]
    if not (len(args) == operands if operands else len(args) >= 2):
        yield f"{len(args)} operands"
    elif args[0].data is not None and operands:
        yield f"operand {args[0].name} is constant"
    elif args[0].dtype not in dtypes or out.dtype not in dtypes:
        yield f"{args[0].dtype.value} to {out.dtype.value}"
    else:
        yield from _ranges(op)
        try:
            yield from list(check(op, args, out))
        except (ValueError, TypeError, IndexError) as error:  # a tuple of the wrong length
            yield f"malformed: {error}"


def _ranges(op: Op) -> Found:
    """Clamps and zero points, which many operators have."""
    clamp = getattr(op, "clamp", None)
    if isinstance(clamp, Clamp) and not S8_MIN <= clamp.lo <= clamp.hi <= S8_MAX:
        yield f"clamp {clamp}"
    for field in ("in_zero", "out_zero", "lhs_zero", "rhs_zero", "alpha_zero"):
        if not S8_MIN <= getattr(op, field, 0) <= S8_MAX:
            yield f"{field} {getattr(op, field)}"


def _requant(requant: Requant, lengths: tuple[int, ...], what: str = "requant") -> Found:
    if len(requant.multiplier) != len(requant.shift) or len(requant) not in lengths:
        yield f"{what}: {len(requant.multiplier)} multipliers, {len(requant.shift)} shifts, not {lengths}"
    if not all(0 <= m < 1 << 31 for m in requant.multiplier) or not all(-31 <= s <= 30 for s in requant.shift):
        yield f"{what}: multipliers {requant.multiplier[:4]}, shifts {requant.shift[:4]} out of range"


def _same(actual: Any, expected: Any, what: str) -> Found:
    if actual != expected:
        yield f"{what} is {actual}, not {expected}"


def _constant(tensor: Tensor, dtype: DType, what: str) -> Found:
    if tensor.data is None or tensor.dtype is not dtype:
        yield f"{what} {tensor.name} is not constant {dtype.value}"


def _window(
    size: tuple[int, ...], kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...], p: Padding
) -> tuple[int, int]:
    """(height, width) of the output of a window; (0, 0) for values that are not two, or not positive."""
    if {len(kernel), len(stride), len(dilation)} != {2}:
        return 0, 0
    if min(*kernel, *stride, *dilation) < 1 or min(p.top, p.left, p.bottom, p.right) < 0:
        return 0, 0
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    return (
        (size[0] + p.top + p.bottom - extents[0]) // stride[0] + 1,
        (size[1] + p.left + p.right - extents[1]) // stride[1] + 1,
    )


def _linear(weights: Tensor, bias: Tensor, channels: int) -> Found:
    yield from _constant(weights, DType.S8, "weights")
    yield from _constant(bias, DType.S32, "bias")
    yield from _same(bias.shape, (channels,), "the bias' shape")


def _conv2d(op: Conv2D, args: list[Tensor], out: Tensor) -> Found:
    x, weights, bias = args
    if len(weights.shape) != 4:
        yield f"weights {weights.shape}"
        return
    channels, *kernel, depth = weights.shape
    yield from _linear(weights, bias, channels)
    yield from _requant(op.requant, (1, channels))
    if op.groups < 1 or channels % op.groups:
        yield f"{op.groups} groups of {channels} channels"
    yield from _same(depth * op.groups, x.hwc[2], "the weights' depth")
    size = _window(x.hwc, (kernel[0], kernel[1]), op.stride, op.dilation, op.padding)
    yield from _same(out.hwc, (*size, channels), "the output")


def _depthwise(op: DepthwiseConv2D, args: list[Tensor], out: Tensor) -> Found:
    x, weights, bias = args
    if len(weights.shape) != 3:
        yield f"weights {weights.shape}"
        return
    *kernel, channels = weights.shape
    yield from _linear(weights, bias, channels)
    yield from _requant(op.requant, (1, channels))
    yield from _same(x.hwc[2] * op.multiplier, channels, "input channels times multiplier")
    size = _window(x.hwc, (kernel[0], kernel[1]), op.stride, op.dilation, op.padding)
    yield from _same(out.hwc, (*size, channels), "the output")


def _bottleneck(op: Bottleneck, args: list[Tensor], out: Tensor) -> Found:
    """Each of the three operators against its part of the operands, with the maps between them made up."""
    x, e_weights, e_bias, d_weights, d_bias, p_weights, p_bias = args
    height, width, _ = x.hwc
    expanded = Tensor("expanded map", (1, height, width, e_bias.elements), DType.S8)
    narrow = Tensor("depthwise map", (1, *out.hwc[:2], d_bias.elements), DType.S8)
    yield from (f"expand: {text}" for text in _conv2d(op.expand, [x, e_weights, e_bias], expanded))
    yield from (f"depthwise: {text}" for text in _depthwise(op.depthwise, [expanded, d_weights, d_bias], narrow))
    yield from (f"project: {text}" for text in _conv2d(op.project, [narrow, p_weights, p_bias], out))
    for name, part in (("expand", op.expand), ("depthwise", op.depthwise), ("project", op.project)):
        yield from (f"{name}: {text}" for text in _ranges(part))
    for name, conv in (("expand", op.expand), ("project", op.project)):
        if conv.stride != (1, 1) or conv.padding != Padding() or conv.groups != 1:
            yield f"{name} is not a plain 1x1 convolution"
    if e_weights.shape[1:3] != (1, 1) or p_weights.shape[1:3] != (1, 1):
        yield "expand or project is not 1x1"
    yield from _same(op.depthwise.multiplier, 1, "the multiplier")
    extents = [(k - 1) * d + 1 for k, d in zip(d_weights.shape[:2], op.depthwise.dilation, strict=True)]
    p = op.depthwise.padding
    if max(p.top, p.bottom) >= extents[0] or max(p.left, p.right) >= extents[1]:
        yield f"padding {p} holds a whole window of {extents}"
    if not 1 <= op.strips <= out.hwc[1]:
        yield f"{op.strips} strips of {out.hwc[1]} columns"


def _fully_connected(op: FullyConnected, args: list[Tensor], out: Tensor) -> Found:
    x, weights, bias = args
    if len(weights.shape) != 2:
        yield f"weights {weights.shape}"
        return
    yield from _linear(weights, bias, weights.shape[0])
    yield from _requant(op.requant, (1, weights.shape[0]))
    yield from _same(x.elements, weights.shape[1], "the input's size")
    yield from _same(out.elements, weights.shape[0], "the output's size")


def _pool(op: MaxPool2D | AvgPool2D, args: list[Tensor], out: Tensor) -> Found:
    (x,) = args
    yield from _same(out.hwc, (*_window(x.hwc, op.kernel, op.stride, (1, 1), op.padding), x.hwc[2]), "the output")
    p = op.padding
    if max(p.top, p.bottom) >= op.kernel[0] or max(p.left, p.right) >= op.kernel[1]:
        yield f"padding {p} holds a whole window of {op.kernel}"
    if isinstance(op, AvgPool2D) and op.requant is not None:
        yield from _requant(op.requant, (op.kernel[0] * op.kernel[1],))


def _mean(op: Mean, args: list[Tensor], out: Tensor) -> Found:
    yield from _same(out.elements, args[0].hwc[2], "the output's size")
    if op.requant is not None:
        yield from _requant(op.requant, (1,))


def _broadcasts(a: Tensor, b: Tensor, out: Tensor) -> Found:
    """Two activations of the output's shape, or a constant that broadcasts to it."""
    yield from _same(a.hwc, out.hwc, "the first operand")
    if b.data is None:
        yield from _same(b.hwc, out.hwc, "the second operand")
        return
    try:
        fits = np.broadcast_shapes(b.shape, out.shape) == out.shape
    except ValueError:
        fits = False
    if not fits:
        yield f"the constant {b.shape} does not broadcast to {out.shape}"


def _add(op: Add, args: list[Tensor], out: Tensor) -> Found:
    a, b = args
    yield from _same(b.dtype, DType.S8, "the second operand's type")
    yield from _broadcasts(a, b, out)
    if op.lhs.rounding is not Rounding.ONNX:
        yield from _requant(op.lhs, (1,), "lhs")
        yield from _requant(op.rhs, (1,), "rhs")
        yield from ["no out requantization"] if op.out is None else _requant(op.out, (1,), "out")
        return
    for side in (op.lhs, op.rhs):
        if len(side) != 1 or abs(side.multiplier[0]) >= 1 << 22 or not -62 <= side.shift[0] <= 31:
            yield f"multiplier {side.multiplier}, shift {side.shift}"
    yield from _same(op.lhs.shift, op.rhs.shift, "the left shift")
    yield from _same(op.out, None, "out")


def _mul(op: Mul, args: list[Tensor], out: Tensor) -> Found:
    a, b = args
    yield from _same(b.dtype, DType.S8, "the second operand's type")
    yield from _requant(op.requant, (1,))
    if b.data is None and b.hwc == (1, 1, out.hwc[2]):
        yield from _same(a.hwc, out.hwc, "the first operand")
    else:
        yield from _broadcasts(a, b, out)


def _lut(op: Lut, args: list[Tensor], out: Tensor) -> Found:
    low, high = (0, 255) if out.dtype is DType.U8 else (S8_MIN, S8_MAX)
    if len(op.table) != 256 or not all(low <= v <= high for v in op.table):
        yield f"a table of {len(op.table)} entries in [{min(op.table, default=0)}, {max(op.table, default=0)}]"
    yield from _same(out.hwc, args[0].hwc, "the output")


def _prelu(op: PRelu, args: list[Tensor], out: Tensor) -> Found:
    x, alpha = args
    yield from _constant(alpha, DType.S8, "alpha")
    yield from _broadcasts(x, alpha, out)
    yield from _requant(op.positive, (1,), "positive")
    yield from _requant(op.negative, (1,), "negative")


def _softmax(op: Softmax, args: list[Tensor], out: Tensor) -> Found:
    yield from _same(out.shape, args[0].shape, "the output's shape")
    if not 1 << 8 <= op.out_inverse <= 1 << 24:
        yield f"out_inverse {op.out_inverse}"
    if len(op.exponents) != 256 or not all(0 <= e < 1 << 31 for e in op.exponents):
        yield f"{len(op.exponents)} exponents in [{min(op.exponents, default=0)}, {max(op.exponents, default=0)}]"


def _pad(op: Pad, args: list[Tensor], out: Tensor) -> Found:
    (height, width, channels), p = args[0].hwc, op.padding
    if min(p.top, p.left, p.bottom, p.right, *op.channels) < 0 or not S8_MIN <= op.value <= S8_MAX:
        yield f"padding {p}, channels {op.channels}, value {op.value}"
    size = (height + p.top + p.bottom, width + p.left + p.right, channels + sum(op.channels))
    yield from _same(out.hwc, size, "the output")


def _concat(op: Concat, args: list[Tensor], out: Tensor) -> Found:
    if op.axis not in (0, 1, 2):
        yield f"axis {op.axis}"
        return
    total = 0
    for x in args:
        total += x.hwc[op.axis]
        yield from _same(x.dtype, out.dtype, f"the type of {x.name}")
        rest = [(a, b) for i, (a, b) in enumerate(zip(x.hwc, out.hwc, strict=True)) if i != op.axis]
        if any(a != b for a, b in rest):
            yield f"{x.name} of {x.hwc} does not fit into {out.hwc} along axis {op.axis}"
    yield from _same(total, out.hwc[op.axis], "the joined size")


def _slice(op: Slice, args: list[Tensor], out: Tensor) -> Found:
    yield from _same(args[0].dtype, out.dtype, "the type")
    for begin, size, stride, extent in zip(op.begin, op.size, op.stride, args[0].hwc, strict=True):
        if begin < 0 or size < 1 or stride < 1 or begin + (size - 1) * stride >= extent:
            yield f"begin {op.begin}, size {op.size}, stride {op.stride} of {args[0].hwc}"
            break
    yield from _same(out.hwc, tuple(op.size), "the output")


def _transpose(op: Transpose, args: list[Tensor], out: Tensor) -> Found:
    (x,) = args
    yield from _same(x.dtype, out.dtype, "the type")
    if sorted(op.perm) != list(range(len(x.shape))):
        yield f"permutation {op.perm} of {x.shape}"
    else:
        yield from _same(out.shape, tuple(x.shape[i] for i in op.perm), "the output's shape")


def _reshape(op: Reshape, args: list[Tensor], out: Tensor) -> Found:
    del op
    yield from _same(args[0].dtype, out.dtype, "the type")
    yield from _same(out.elements, args[0].elements, "the output's size")


def _resize(op: ResizeNearest, args: list[Tensor], out: Tensor) -> Found:
    height, width, channels = args[0].hwc
    yield from _same(args[0].dtype, out.dtype, "the type")
    yield from _same(out.hwc, (len(op.rows), len(op.columns), channels), "the output")
    if not all(0 <= r < height for r in op.rows) or not all(0 <= c < width for c in op.columns):
        yield f"rows {op.rows[:8]} or columns {op.columns[:8]} of {height} x {width}"


def _scaled(op: Quantize | Dequantize, args: list[Tensor], out: Tensor) -> Found:
    source, target = (out, args[0]) if isinstance(op, Dequantize) else (args[0], out)
    if source.dtype is not DType.F32 or target.dtype not in _BYTES:
        yield f"{args[0].dtype.value} to {out.dtype.value}"
    low, high = (0, 255) if target.dtype is DType.U8 else (S8_MIN, S8_MAX)
    if not 0 < op.scale < float("inf") or not low <= op.zero <= high:
        yield f"scale {op.scale}, zero {op.zero}"
    yield from _same(out.hwc, args[0].hwc, "the output")


_S8 = (DType.S8,)
_MOVED = tuple(DType)

# Operator -> (check, number of operands with 0 for two or more, allowed types of data and output).
_CHECKS: dict[type[Op], tuple[Callable[..., Found], int, tuple[DType, ...]]] = {
    Conv2D: (_conv2d, 3, _S8),
    DepthwiseConv2D: (_depthwise, 3, _S8),
    Bottleneck: (_bottleneck, 7, _S8),
    FullyConnected: (_fully_connected, 3, _S8),
    MaxPool2D: (_pool, 1, _S8),
    AvgPool2D: (_pool, 1, _S8),
    Mean: (_mean, 1, _S8),
    Add: (_add, 2, _S8),
    Mul: (_mul, 2, _S8),
    Lut: (_lut, 1, _BYTES),
    PRelu: (_prelu, 2, _S8),
    Softmax: (_softmax, 1, _S8),
    Pad: (_pad, 1, _MOVED),
    Concat: (_concat, 0, _MOVED),
    Slice: (_slice, 1, _MOVED),
    Transpose: (_transpose, 1, _MOVED),
    Reshape: (_reshape, 1, _MOVED),
    ResizeNearest: (_resize, 1, _MOVED),
    Quantize: (_scaled, 1, (DType.F32, *_BYTES)),
    Dequantize: (_scaled, 1, (DType.F32, *_BYTES)),
}
