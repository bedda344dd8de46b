# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Computes constants from constants: the chains of SHAPE, GATHER, PACK... that exporters leave behind.

Results are int32 and int64 vectors (shapes, axes, sizes), or rearranged constants of any type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .limits import shape_fault
from .tflite_ops_base import Node, Refused

__all__ = ["FOLDED", "fold"]

Array = npt.NDArray[Any]

_MAX_ELEMENTS = 1 << 16  # of a computed shape vector
_REARRANGING = {"RESHAPE", "SQUEEZE", "EXPAND_DIMS", "TRANSPOSE"}
_INTEGERS = ("INT32", "INT64", "BOOL")


def _axes(axes: Array) -> tuple[int, ...]:
    return tuple(int(v) for v in axes.reshape(-1))


def _strided(node: Node, data: Array, begin: Array, end: Array, step: Array) -> Array:
    """STRIDED_SLICE of a vector; the masks' bit 0 speaks of its only axis."""
    if data.ndim != 1 or node.option(2) or node.option(3):
        raise Refused("a strided slice of a computed constant of more than one dimension")
    first = None if node.option(0) & 1 else int(begin.reshape(-1)[0])
    if node.option(4) & 1:
        return np.asarray(data[int(begin.reshape(-1)[0])])
    last = None if node.option(1) & 1 else int(end.reshape(-1)[0])
    return data[first : last : int(step.reshape(-1)[0])]


def _gather(node: Node, data: Array, indices: Array) -> Array:
    if node.option(1):
        raise Refused("GATHER with batch dimensions of a computed constant")
    return np.asarray(np.take(data, indices.astype(np.int64), axis=node.option(0)))


def _slice(_: Node, data: Array, begin: Array, size: Array) -> Array:
    pairs = zip(begin.reshape(-1).tolist(), size.reshape(-1).tolist(), strict=True)
    return data[tuple(slice(b, None if s < 0 else b + s) for b, s in pairs)]


def _product(_: Node, data: Array, axes: Array) -> Array:
    return np.asarray(np.prod(data, axis=_axes(axes)))  # the result's shape is the file's


def _same(_: Node, data: Array, *rest: Array) -> Array:
    """The result's shape is the file's."""
    del rest
    return data


def _plain(function: Callable[..., Any]) -> Callable[..., Array]:
    """An operator without options."""
    return lambda _, *args: np.asarray(function(*args))


_FOLD: dict[str, Callable[..., Array]] = {
    "ADD": _plain(np.add),
    "SUB": _plain(np.subtract),
    "MUL": _plain(np.multiply),
    "FLOOR_DIV": _plain(np.floor_divide),
    "MAXIMUM": _plain(np.maximum),
    "MINIMUM": _plain(np.minimum),
    "CAST": _same,
    "CONCATENATION": lambda node, *args: np.concatenate(args, axis=node.option(0)),
    "PACK": lambda node, *args: np.stack(args, axis=node.option(1)),
    "GATHER": _gather,
    "SLICE": _slice,
    "STRIDED_SLICE": _strided,
    "REDUCE_PROD": _product,
    "RESHAPE": _same,
    "SQUEEZE": _same,
    "EXPAND_DIMS": _same,
    "TRANSPOSE": lambda _, data, axes: np.transpose(data, _axes(axes)),
}
FOLDED: tuple[str, ...] = ("SHAPE", "RANK", *_FOLD)


def _foldable(node: Node) -> bool:
    """Whether all operands are constant and the result is of a kind that is folded."""
    kind, count = node.operator.kind, len(node.operator.inputs)
    if len(node.operator.outputs) != 1 or not count or not all(node.has(i) for i in range(count)):
        return False
    if kind in ("SHAPE", "RANK"):
        return True
    if kind not in _FOLD or not all(node.is_const(i) for i in range(count)):
        return False
    return kind in _REARRANGING or all(node.info(i).type in _INTEGERS for i in range(count))


def fold(node: Node) -> bool:
    """Computes a node whose operands are constant; False if the node is not of that kind. Raises `Refused`."""
    if not _foldable(node):
        return False
    target = node.info_out()
    if node.operator.kind in ("SHAPE", "RANK"):
        shape = node.info(0).shape
        fault = shape_fault(shape, 1)
        if fault:
            raise Refused(f"the shape of {fault}", "fix the input's shape and convert again")
        result = np.asarray(shape if node.operator.kind == "SHAPE" else len(shape), np.int64)
    else:
        args = [node.const(i, "operand") for i in range(len(node.operator.inputs))]
        rearranging = node.operator.kind in _REARRANGING
        if not rearranging and sum(a.size for a in args) > _MAX_ELEMENTS:
            raise Refused("a computed constant of absurd size", "check the model")
        result = _computed(node, args)
        node.builder.spend(result.nbytes)
    if target.fault or result.size != int(np.prod(target.shape, dtype=np.int64)):
        raise Refused(f"the constant result does not fit shape {list(target.shape)}", "convert the model again")
    wide = result.astype(np.int64) if target.type in _INTEGERS else result
    node.builder.folded[target.index] = wide.reshape(target.shape)
    return True


def _computed(node: Node, args: list[Array]) -> Array:
    """The result, with NumPy's complaints as refusals."""
    try:
        with np.errstate(all="ignore"):
            return np.asarray(_FOLD[node.operator.kind](node, *args))
    except (ValueError, IndexError, ZeroDivisionError, OverflowError, TypeError) as error:
        raise Refused(f"cannot be computed at compile time: {error}", "check the model") from error
