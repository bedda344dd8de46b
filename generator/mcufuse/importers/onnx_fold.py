# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Evaluates nodes whose operands are all constant: the shape arithmetic that exporters leave behind."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from .limits import shape_fault
from .onnx_node import Array, Gap, Node

__all__ = [
    "FOLDABLE",
    "axes_of",
    "broadcast",
    "fold",
    "integers",
    "reshaped",
    "resolve_axis",
    "shape_result",
    "slice_spec",
]

_CAST = {1: "float32", 2: "uint8", 3: "int8", 6: "int32", 7: "int64", 9: "bool", 10: "float16", 11: "float64"}
_MAX_INTEGERS = 4096
Fold = Callable[[Node, Sequence[Array], int], Array]


def fold(node: Node, operands: Sequence[Array], opset: int) -> Array:
    """The constant result of a node in `FOLDABLE`; raises `Gap` where the operands do not suit."""
    try:
        with np.errstate(all="ignore"):
            return np.asarray(FOLDABLE[node.op](node, operands, opset))
    except (ValueError, IndexError, TypeError, OverflowError, MemoryError) as error:
        raise Gap(f"its constant operands do not suit it ({error})") from None


def integers(array: Array) -> list[int]:
    """A constant list of shape, axes, indices...; raises `Gap` if its elements are no integers or too many."""
    if array.dtype.kind not in "iub" or array.size > _MAX_INTEGERS:
        raise Gap(f"{array.size} elements of type {array.dtype.name} are not a list of integers")
    return [int(v) for v in array.ravel()]


def broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape of two operands; raises `Gap` if there is none."""
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        raise Gap(f"shapes {list(a)} and {list(b)} do not fit each other") from None


def resolve_axis(axis: int, rank: int) -> int:
    """An axis counted from the front; raises `Gap` if there is no such axis."""
    if not -rank <= axis < rank:
        raise Gap(f"axis {axis} does not exist in rank {rank}")
    return axis % rank


def axes_of(node: Node, operand: Array | None, rank: int) -> tuple[int, ...] | None:
    """The axes of Squeeze, ReduceMean..., in the file's order: an operand in newer operator sets, else an attribute."""
    if operand is not None and operand.size:
        axes: tuple[int, ...] | None = tuple(integers(operand))
    else:
        axes = node.ints("axes")
    if axes is None:
        return None
    result = tuple(resolve_axis(a, rank) for a in axes)
    if len(set(result)) != len(result):
        raise Gap(f"axes {list(axes)} name one axis twice")
    return result


def reshaped(shape: tuple[int, ...], target: Sequence[int], allow_zero: bool) -> tuple[int, ...]:
    """The shape that Reshape gives; 0 copies a dimension, one -1 takes what is left."""
    result = []
    for i, d in enumerate(target):
        copies = d == 0 and not allow_zero
        if copies and i >= len(shape):
            raise Gap(f"shape {list(target)} copies a dimension that {list(shape)} does not have")
        result.append(shape[i] if copies else int(d))
    known = math.prod(d for d in result if d != -1)
    total = math.prod(shape)
    if result.count(-1) == 1 and known > 0 and total % known == 0:
        result[result.index(-1)] = total // known
    if any(d < 0 for d in result) or math.prod(result) != total:
        raise Gap(f"{list(shape)} cannot be reshaped to {list(target)}")
    return tuple(result)


def slice_spec(node: Node, operands: Sequence[Array | None], shape: tuple[int, ...]) -> dict[int, tuple[int, int, int]]:
    """{axis: (begin, size, step)} of a Slice whose bounds are constant."""
    bounds = [None if o is None else integers(o) for o in operands]
    starts, ends, axes, steps = (bounds + [None] * 4)[:4]
    if starts is None or ends is None or len(starts) != len(ends):
        raise Gap("its bounds do not match each other")
    axes = axes if axes is not None else list(range(len(starts)))
    steps = steps if steps is not None else [1] * len(starts)
    if len(axes) != len(starts) or len(steps) != len(starts):
        raise Gap("its bounds do not match each other")
    result = {}
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step == 0:
            raise Gap("its step is zero")
        place = resolve_axis(axis, len(shape))
        begin, stop, step = slice(start, end, step).indices(shape[place])  # noqa: PLW2901 - normalised
        result[place] = (begin, len(range(begin, stop, step)), step)
    return result


def _checked(shape: Sequence[int], item_bytes: int) -> tuple[int, ...]:
    fault = shape_fault([d or 1 for d in shape], item_bytes)
    if fault:
        raise Gap(f"its constant result has {fault}")
    return tuple(shape)


def _cast(node: Node, args: Sequence[Array], _: int) -> Array:
    target = node.integer("to", 1)
    if target not in _CAST:
        raise Gap(f"cast to element type {target} is not supported")
    return args[0].astype(_CAST[target])


def _gather(node: Node, args: Sequence[Array], _: int) -> Array:
    axis = resolve_axis(node.integer("axis", 0), args[0].ndim)
    rest = args[0].shape[:axis] + args[1].shape + args[0].shape[axis + 1 :]
    _checked(rest, args[0].itemsize)
    return np.take(args[0], args[1], axis=axis)


def _concat(node: Node, args: Sequence[Array], _: int) -> Array:
    _checked([sum(a.size for a in args)], args[0].itemsize)
    return np.concatenate(args, axis=resolve_axis(node.integer("axis", 0), args[0].ndim))


def _unsqueeze(node: Node, args: Sequence[Array], _: int) -> Array:
    operand = args[1] if len(args) > 1 else None
    count = operand.size if operand is not None else len(node.ints("axes") or ())
    return np.expand_dims(args[0], axes_of(node, operand, args[0].ndim + count) or ())


def _squeeze(node: Node, args: Sequence[Array], _: int) -> Array:
    return np.squeeze(args[0], axes_of(node, args[1] if len(args) > 1 else None, args[0].ndim))


def _reshape(node: Node, args: Sequence[Array], _: int) -> Array:
    return args[0].reshape(reshaped(args[0].shape, integers(args[1]), bool(node.integer("allowzero", 0))))


def _transpose(node: Node, args: Sequence[Array], _: int) -> Array:
    return np.ascontiguousarray(np.transpose(args[0], node.ints("perm")))


def _slice(node: Node, args: Sequence[Array], _: int) -> Array:
    array = args[0]
    for axis, (begin, size, step) in slice_spec(node, args[1:], array.shape).items():
        array = np.take(array, np.arange(size) * step + begin, axis)
    return array


def shape_result(node: Node, shape: tuple[int, ...]) -> Array:
    """What Shape gives for an operand of a known shape."""
    end = node.attributes.get("end")
    return np.asarray(shape[node.integer("start", 0) : end if isinstance(end, int) else None], np.int64)


def _constant_of_shape(node: Node, args: Sequence[Array], _: int) -> Array:
    value = node.attributes.get("value")
    fill = value if isinstance(value, np.ndarray) else np.zeros(1, np.float32)
    return np.full(_checked(integers(args[0]), fill.itemsize), fill.ravel()[0], fill.dtype)


def _range(_: Node, args: Sequence[Array], __: int) -> Array:
    start, stop, step = (a.ravel()[0].item() for a in args)
    _checked([max(0, math.ceil((float(stop) - float(start)) / float(step)))], 8)
    return np.asarray(np.arange(start, stop, step)).astype(args[0].dtype)


def _expand(_: Node, args: Sequence[Array], __: int) -> Array:
    shape = broadcast(args[0].shape, tuple(integers(args[1])))
    return np.array(np.broadcast_to(args[0], _checked(shape, args[0].itemsize)))


def _divide(_: Node, args: Sequence[Array], __: int) -> Array:
    if args[0].dtype.kind in "iu":
        if not args[1].all():
            raise Gap("it divides by zero")
        quotient = np.abs(args[0]) // np.abs(args[1])  # ONNX rounds towards zero
        return np.asarray(np.sign(args[0]) * np.sign(args[1]) * quotient).astype(args[0].dtype)
    return np.asarray(args[0] / args[1], args[0].dtype)


def _flatten(node: Node, args: Sequence[Array], _: int) -> Array:
    axis = node.integer("axis", 1)
    axis += args[0].ndim if axis < 0 else 0
    return args[0].reshape(math.prod(args[0].shape[:axis]), -1)


def _reduce_prod(node: Node, args: Sequence[Array], _: int) -> Array:
    axes = axes_of(node, args[1] if len(args) > 1 else None, args[0].ndim)
    product = np.asarray(np.prod(args[0].astype(np.int64), axis=axes)).astype(args[0].dtype)
    if not node.integer("keepdims", 1):
        return product
    return product.reshape([1 if axes is None or i in axes else d for i, d in enumerate(args[0].shape)])


def _binary(function: Callable[[Array, Array], Array]) -> Fold:
    def evaluate(_: Node, args: Sequence[Array], __: int) -> Array:
        _checked(broadcast(args[0].shape, args[1].shape), 8)
        return function(args[0], args[1])

    return evaluate


def _unary(function: Callable[[Array], Array]) -> Fold:
    return lambda _, args, __: function(args[0])


FOLDABLE: Mapping[str, Fold] = {
    "Abs": _unary(np.abs),
    "Add": _binary(np.add),
    "Cast": _cast,
    "Ceil": _unary(np.ceil),
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "Div": _divide,
    "Equal": _binary(np.equal),
    "Expand": _expand,
    "Flatten": _flatten,
    "Floor": _unary(np.floor),
    "Gather": _gather,
    "Identity": _unary(np.asarray),
    "Max": _binary(np.maximum),
    "Min": _binary(np.minimum),
    "Mul": _binary(np.multiply),
    "Neg": _unary(np.negative),
    "Pow": _binary(lambda a, b: np.power(a, b).astype(a.dtype)),
    "Range": _range,
    "ReduceProd": _reduce_prod,
    "Reshape": _reshape,
    "Shape": lambda node, args, _: shape_result(node, args[0].shape),
    "Slice": _slice,
    "Sqrt": _unary(np.sqrt),
    "Squeeze": _squeeze,
    "Sub": _binary(np.subtract),
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Where": lambda _, args, __: np.where(args[0], args[1], args[2]),
}
