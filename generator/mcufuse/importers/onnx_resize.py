# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Resize by nearest neighbours: every coordinate mode becomes a table of source rows and columns.

Formulas: ONNX's operator description of Resize (github.com/onnx/onnx, docs/Operators.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ..ir import ResizeNearest
from .limits import shape_fault
from .onnx_build import Builder
from .onnx_context import Args, Context, Handler, moved, operand, optional_array, shape_of
from .onnx_fold import axes_of
from .onnx_node import Array, Gap, Node
from .onnx_values import CodeOf, Shape, Value

__all__ = ["HANDLERS", "nearest_indices"]

_AVERAGING = "use nearest neighbours (mode=nearest), or resize outside the network"


def nearest_indices(size: int, out: int, scale: float, coordinates: str, rounding: str) -> tuple[int, ...]:
    """The source index of each of `out` positions; `scale` is out / size as the file states it."""
    i = np.arange(out, dtype=np.float64)
    if coordinates == "half_pixel":
        x = (i + 0.5) / scale - 0.5
    elif coordinates == "half_pixel_symmetric":
        adjusted = out / (scale * size)
        x = size / 2 * (1 - adjusted) + (i + 0.5) / scale - 0.5
    elif coordinates == "pytorch_half_pixel":
        x = (i + 0.5) / scale - 0.5 if out > 1 else i * 0
    elif coordinates == "align_corners":
        x = i * (size - 1) / (out - 1) if out > 1 else i * 0
    elif coordinates == "asymmetric":
        x = i / scale
    else:
        raise Gap(f"coordinate_transformation_mode {coordinates} is not supported")
    x = x.astype(np.float32).astype(np.float64)
    if rounding == "round_prefer_floor":
        index = np.ceil(x - 0.5)
    elif rounding == "round_prefer_ceil":
        index = np.floor(x + 0.5)
    elif rounding in ("floor", "ceil"):
        index = np.floor(x) if rounding == "floor" else np.ceil(x)
    else:
        raise Gap(f"nearest_mode {rounding} is unknown")
    return tuple(int(v) for v in np.clip(index, 0, size - 1))


def _targets(node: Node, args: Args, shape: Shape) -> tuple[list[int], list[float]]:
    """The size of the result and the scale of each axis."""
    scales, sizes = optional_array(args, 2), optional_array(args, 3)
    axes = axes_of(node, None, len(shape)) or tuple(range(len(shape)))
    given: Array | None = scales if scales is not None and scales.size else sizes
    if given is None or given.size != len(axes):
        raise Gap("it has neither one scale nor one size for each axis")
    out, factors = list(shape), [1.0] * len(shape)
    for axis, value in zip(axes, given.ravel().tolist(), strict=True):
        if not math.isfinite(value) or not 0 < value <= 1 << 15:
            raise Gap(f"a scale or size of {value:g}")
        if given is scales:
            factors[axis] = float(value)
            out[axis] = math.floor(shape[axis] * value)
        else:
            out[axis] = int(value)
            factors[axis] = out[axis] / shape[axis]
    fault = shape_fault(out, 1)
    if fault:
        raise Gap(f"its result has {fault}")
    return out, factors


def _resize(ctx: Context, node: Node, args: Args) -> Value:
    value = operand(args, 0)
    shape = shape_of(value)
    if node.text("mode", "nearest") != "nearest":
        raise Gap(f"mode {node.text('mode', 'nearest')}", _AVERAGING)
    if node.integer("antialias", 0) or node.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Gap("antialias and keep_aspect_ratio_policy are not supported", _AVERAGING)
    if len(shape) not in (3, 4) or shape[0] != 1:
        raise Gap(f"the shape {list(shape)}; only [1, C, H, W] and [1, C, L] are supported")
    out, factors = _targets(node, args, shape)
    changed = [i for i in range(len(shape)) if out[i] != shape[i]]
    if not changed:
        return value
    last = len(shape) == 4 and out[3] == shape[3] and out[1] != shape[1]  # [1, H, W, C]
    spatial = (1, 2) if last else tuple(range(2, len(shape)))
    if any(i not in spatial for i in changed):
        raise Gap(f"it resizes {list(shape)} to {out}: not only height and width")
    coordinates = node.text("coordinate_transformation_mode", "half_pixel")
    rounding = node.text("nearest_mode", "round_prefer_floor")
    tables = [nearest_indices(shape[a], out[a], factors[a], coordinates, rounding) for a in spatial]
    rows, columns = [*tables, (0,)][:2]
    result = tuple(out)

    def move(b: Builder, tensor: str, _: CodeOf) -> str:
        x = b.shaped(tensor, shape) if last else b.channels_last(tensor, shape)
        output = b.tensor(f"{tensor}/resized", (1, len(rows), len(columns), b.tensors[x].shape[3]))
        b.add(ResizeNearest(name=output, inputs=(x,), output=output, rows=rows, columns=columns))
        return output if last else b.channels_first(output, result, f"{output}/first")

    return moved(ctx, value, result, move)


HANDLERS: Mapping[str, Handler] = {"Resize": _resize}
