# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Operators that move data: padding, joining, cutting, reshaping, transposing, nearest resizing.

Any axis of any shape can be joined or cut: where the axis is not height, width or channels of the graph's tensor, the
data is viewed as [1, before, axis, after].
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..ir import Concat, DType, Pad, Padding, Reshape, ResizeNearest, Slice, Transpose
from .tflite_ops_base import Node, Row, Value, ir_shape

__all__ = ["ROWS"]

_ANY = (DType.S8, DType.U8, DType.F32)
_SCALE_TOLERANCE = 1e-5
_DAMAGED = "the file is damaged; convert the model again"
# Rank of a tensor in the graph -> its axes that are height, width and channels (see ir.Tensor.hwc).
_HWC_AXES: dict[int, dict[int, int]] = {4: {1: 0, 2: 1, 3: 2}, 3: {1: 0, 2: 2}, 2: {1: 2}, 1: {0: 2}, 0: {}}


def _axis(node: Node, axis: int, rank: int) -> int:
    """A normalized axis."""
    if not -rank <= axis < rank:
        node.refuse(f"axis {axis} of {rank} dimensions", _DAMAGED)
    return axis % rank


def _hwc_axis(shape: Sequence[int], axis: int) -> int | None:
    """Which of height (0), width (1), channels (2) an axis of the file's shape is in the graph, or None."""
    ours = ir_shape(shape)
    offset = len(ours) - len(shape)
    if ours[max(offset, 0) :] != tuple(shape)[max(-offset, 0) :]:  # flattened
        return 2 if axis == len(shape) - 1 else None
    return _HWC_AXES[len(ours)].get(axis + offset)


def _around(shape: Sequence[int], axis: int) -> tuple[int, int, int, int]:
    """The shape as [1, before, axis, after]."""
    return 1, math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def _count(node: Node, option: int, actual: int) -> None:
    """Refuses a file whose option and operands disagree about how many there are."""
    if node.option(option, default=actual if node.operator.options is None else 0) != actual:
        node.refuse(f"{actual} tensors, but its options say {node.option(option)}", _DAMAGED)


def _same_scale(node: Node, x: Value, y: Value) -> None:
    """Moving data does not change scales; refuses if they differ by more than an exporter's rounding."""
    if x.zero != y.zero or abs(x.scale - y.scale) > _SCALE_TOLERANCE * y.scale:
        node.refuse(
            f'"{x.name}" has scale {x.scale:g}, zero point {x.zero}, but "{y.name}" has {y.scale:g}, {y.zero}',
            "insert a QUANTIZE or calibrate again",
        )


def pad(node: Node) -> None:
    """PAD fills with the output's zero point, PADV2 with its third operand."""
    x = node.value(0)
    pairs = node.ints(1, "paddings")
    rank = len(x.shape)
    if len(pairs) != 2 * rank or any(p < 0 or p > 1 << 24 for p in pairs):
        node.refuse(f"paddings {list(pairs)} for {rank} dimensions", _DAMAGED)
    both = [(pairs[2 * i], pairs[2 * i + 1]) for i in range(rank)]
    y = node.output([before + d + after for d, (before, after) in zip(x.shape, both, strict=True)])
    value = y.zero
    if node.has(2):
        fill = node.const(2, "padding value", "INT8")
        if fill.size != 1:
            node.refuse(f"{fill.size} padding values", _DAMAGED)
        value = int(fill.reshape(-1)[0])
    hwc = [(0, 0), (0, 0), (0, 0)]
    for axis, sides in enumerate(both):
        place = _hwc_axis(x.shape, axis)
        if place is not None:
            hwc[place] = sides
        elif sides != (0, 0):
            node.refuse(f"padding of axis {axis} of {list(x.shape)}", "pad height, width or channels only")
    padding = Padding(hwc[0][0], hwc[1][0], hwc[0][1], hwc[1][1])
    tensors = node.builder.tensors
    shape, out_shape = ((1, *tensors[v.name].hwc) for v in (x, y))
    name = node.viewed(x, shape)
    node.emit_viewed(Pad, (name,), y, out_shape, padding=padding, channels=hwc[2], value=value)


def _join(node: Node, parts: Sequence[Value], axis: int, y: Value) -> None:
    """Joins values of equal shapes but for `axis` into `y`."""
    place = _hwc_axis(y.shape, axis)
    if place is not None and all(len(ir_shape(p.shape)) == len(ir_shape(y.shape)) for p in parts):
        node.emit(Concat, tuple(p.name for p in parts), y.name, axis=place)
        return
    names = tuple(node.viewed(p, _around(p.shape, axis)) for p in parts)
    node.emit_viewed(Concat, names, y, _around(y.shape, axis), axis=1)


def concatenation(node: Node) -> None:
    """All operands have the output's scale, as TFLite Micro demands."""
    parts = [node.value(i) for i in range(len(node.operator.inputs))]
    if not parts:
        node.refuse("no operands", _DAMAGED)
    if node.option(1, "i8"):
        node.refuse("a fused activation", "use a separate activation layer")
    shape = list(parts[0].shape)
    axis = _axis(node, node.option(0), len(shape))
    for part in parts[1:]:
        rest = [d for i, d in enumerate(part.shape) if i != axis]
        if len(part.shape) != len(shape) or rest != [d for i, d in enumerate(shape) if i != axis]:
            node.refuse(f"shapes {shape} and {list(part.shape)} do not join along axis {axis}", _DAMAGED)
    shape[axis] = sum(p.shape[axis] for p in parts)
    y = node.output(shape)
    for part in parts:
        _same_scale(node, part, y)
    if len(parts) == 1:
        node.emit(Reshape, (parts[0].name,), y.name)
        return
    _join(node, parts, axis, y)


def pack(node: Node) -> None:
    """Joins along a new axis."""
    parts = [node.value(i) for i in range(len(node.operator.inputs))]
    if not parts or any(p.shape != parts[0].shape for p in parts):
        node.refuse("operands of different shapes", _DAMAGED)
    _count(node, 0, len(parts))
    axis = _axis(node, node.option(1), len(parts[0].shape) + 1)
    unit = (*parts[0].shape[:axis], 1, *parts[0].shape[axis:])
    y = node.output((*unit[:axis], len(parts), *unit[axis + 1 :]))
    for part in parts:
        _same_scale(node, part, y)
    names = tuple(node.viewed(p, _around(unit, axis)) for p in parts)
    if len(names) == 1:
        node.emit(Reshape, (parts[0].name,), y.name)
        return
    node.emit_viewed(Concat, names, y, _around(y.shape, axis), axis=1)


def _cut(node: Node, x: Value, y: Value, cuts: Sequence[tuple[int, int, int]]) -> None:
    """y = x[begin : begin + size * stride : stride] for (begin, size, stride) along each axis of x."""
    wanted = [(axis, cut) for axis, cut in enumerate(cuts) if cut != (0, x.shape[axis], 1)]
    if not wanted:
        node.emit(Reshape, (x.name,), y.name)
        return
    places = [_hwc_axis(x.shape, axis) for axis, _ in wanted]
    if None not in places:
        triples = [(0, size, 1) for size in node.builder.tensors[x.name].hwc]
        for place, (_, cut) in zip(places, wanted, strict=True):
            triples[place if place is not None else 0] = cut
        begin, size, stride = zip(*triples, strict=True)
        shape = ir_shape([cut[1] for cut in cuts])
        if len(shape) == len(ir_shape(x.shape)):
            node.emit_viewed(Slice, (x.name,), y, shape, begin=begin, size=size, stride=stride)
            return
    _cut_by_axis(node, x, y, wanted)


def _cut_by_axis(node: Node, x: Value, y: Value, wanted: Sequence[tuple[int, tuple[int, int, int]]]) -> None:
    """One slice for each axis that is cut, on [1, before, axis, after] views."""
    shape, current = list(x.shape), x
    for step, (axis, (begin, size, stride)) in enumerate(wanted):
        view = _around(shape, axis)
        name = node.viewed(current, view)
        shape[axis] = size
        cut = {"begin": (0, begin, 0), "size": (view[1], size, view[3]), "stride": (1, stride, 1)}
        target = (1, view[1], size, view[3])
        if step == len(wanted) - 1:
            node.emit_viewed(Slice, (name,), y, target, **cut)
            return
        name_out = node.temporary(target, x, "cut")
        node.emit(Slice, (name,), name_out, **cut)
        current = Value(name_out, tuple(shape), x.dtype, x.scale, x.zero)


def _whole(shape: Sequence[int]) -> list[tuple[int, int, int]]:
    return [(0, d, 1) for d in shape]


def _pieces(node: Node, x: Value, axis: int, sizes: Sequence[int]) -> None:
    """Each output takes its piece of `axis`; outputs that nothing reads are dropped later."""
    if len(node.operator.outputs) != len(sizes) or sum(sizes) != x.shape[axis] or min(sizes, default=0) < 1:
        node.refuse(f"pieces {list(sizes)} of axis {axis} of {list(x.shape)}", _DAMAGED)
    begin = 0
    for position, size in enumerate(sizes):
        cuts = _whole(x.shape)
        cuts[axis] = (begin, size, 1)
        y = node.output([cut[1] for cut in cuts], position=position)
        _same_scale(node, x, y)
        _cut(node, x, y, cuts)
        begin += size


def split(node: Node) -> None:
    """Equal pieces; operand 0 is the axis."""
    x = node.value(1)
    axis = _axis(node, _one(node, 0, "axis"), len(x.shape))
    count = len(node.operator.outputs)
    _count(node, 0, count)
    if not count or x.shape[axis] % count:
        node.refuse(f"{count} equal pieces of axis {axis} of {list(x.shape)}", _DAMAGED)
    _pieces(node, x, axis, [x.shape[axis] // count] * count)


def split_v(node: Node) -> None:
    """Pieces of given sizes, one of which may be -1."""
    x = node.value(0)
    axis = _axis(node, _one(node, 2, "axis"), len(x.shape))
    sizes = list(node.ints(1, "sizes"))
    _count(node, 0, len(sizes))
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = x.shape[axis] - sum(sizes) - 1
    _pieces(node, x, axis, sizes)


def _one(node: Node, position: int, what: str) -> int:
    """A constant scalar."""
    values = node.ints(position, what)
    if len(values) != 1:
        node.refuse(f"{len(values)} values for {what}", _DAMAGED)
    return values[0]


def unpack(node: Node) -> None:
    """One output for each index of an axis."""
    x = node.value(0)
    _count(node, 0, len(node.operator.outputs))
    axis = _axis(node, node.option(1), len(x.shape))
    if len(node.operator.outputs) != x.shape[axis]:
        node.refuse(f"{len(node.operator.outputs)} outputs for axis {axis} of {list(x.shape)}", _DAMAGED)
    for position in range(x.shape[axis]):
        cuts = _whole(x.shape)
        cuts[axis] = (position, 1, 1)
        y = node.output([d for i, d in enumerate(x.shape) if i != axis], position=position)
        _same_scale(node, x, y)
        _cut(node, x, y, cuts)


def slice_(node: Node) -> None:
    """begin and size are constant; size -1 reaches to the end."""
    x = node.value(0)
    begin, size = node.ints(1, "begin"), node.ints(2, "size")
    if len(begin) != len(x.shape) or len(size) != len(x.shape):
        node.refuse(f"begin {list(begin)}, size {list(size)} for {list(x.shape)}", _DAMAGED)
    cuts = [(b, d - b if s == -1 else s, 1) for b, s, d in zip(begin, size, x.shape, strict=True)]
    _emit_cut(node, x, cuts, [cut[1] for cut in cuts])


def _emit_cut(node: Node, x: Value, cuts: Sequence[tuple[int, int, int]], shape: Sequence[int]) -> None:
    """Checks the cuts against x and emits them; `shape` is the output's."""
    for (begin, size, stride), extent in zip(cuts, x.shape, strict=True):
        if begin < 0 or size < 1 or begin + (size - 1) * stride >= extent:
            node.refuse(f"elements {begin} to {begin + (size - 1) * stride} of {extent}", "check the slice")
    y = node.output(shape)
    _same_scale(node, x, y)
    _cut(node, x, y, cuts)


def strided_slice(node: Node) -> None:
    """Constant begin, end and strides above 0; all masks."""
    x = node.value(0)
    begin, end, strides = (node.ints(i, what) for i, what in ((1, "begin"), (2, "end"), (3, "strides")))
    if not len(begin) == len(end) == len(strides):
        node.refuse("begin, end and strides of different lengths", _DAMAGED)
    if node.option(5, "bool", False):
        node.refuse("ends relative to begins", "export the model with absolute slices")
    masks = [node.option(i) for i in range(5)]  # begin, end, ellipsis, new axis, shrink axis
    at = [[bool(mask >> i & 1) for mask in masks] for i in range(len(begin))]
    given = sum(not (bits[2] or bits[3]) for bits in at)
    cuts: list[tuple[int, int, int]] = []
    shape: list[int] = []
    for i, (no_begin, no_end, ellipsis, new, shrink) in enumerate(at):
        if ellipsis:
            rest = _whole(x.shape[len(cuts) : len(cuts) + max(len(x.shape) - given, 0)])
            cuts.extend(rest)
            shape.extend(cut[1] for cut in rest)
        elif new:
            shape.append(1)
        else:
            if len(cuts) >= len(x.shape):
                node.refuse(f"{given} ranges for {list(x.shape)}", _DAMAGED)
            extent = x.shape[len(cuts)]
            first = None if no_begin else begin[i]
            cuts.append(_range(node, extent, first, None if no_end else end[i], strides[i], shrink))
            if not shrink:
                shape.append(cuts[-1][1])
    rest = _whole(x.shape[len(cuts) :])
    _emit_cut(node, x, [*cuts, *rest], [*shape, *(cut[1] for cut in rest)])


def _range(
    node: Node, extent: int, begin: int | None, end: int | None, stride: int, shrink: bool
) -> tuple[int, int, int]:
    """(begin, size, stride) of one axis; begin and end count from the end if negative and are clamped."""
    if stride < 1:
        node.refuse(f"stride {stride}", "reverse the data before it enters the network")
    first, last = slice(begin, end, stride).indices(extent)[:2]
    if shrink:
        return first, 1, 1
    size = -(-(last - first) // stride)
    return first, max(size, 0), stride if size > 1 else 1


def reshape(node: Node) -> None:
    """RESHAPE, SQUEEZE and EXPAND_DIMS: the same elements under the file's shape."""
    x = node.value(0, *_ANY)
    claimed = node.info_out().shape
    if math.prod(claimed) != x.elements:
        node.refuse(f"{x.elements:,} elements do not become the shape {list(claimed)}", "fix the input's shape")
    y = node.output(claimed, x.dtype)
    _same_scale(node, x, y)
    node.emit(Reshape, (x.name,), y.name)


def transpose(node: Node) -> None:
    """Any permutation of up to 4 axes, and of more where neighbours stay together."""
    x = node.value(0)
    perm = node.ints(1, "permutation")
    if sorted(perm) != list(range(len(x.shape))):
        node.refuse(f"permutation {list(perm)} of {len(x.shape)} dimensions", _DAMAGED)
    y = node.output([x.shape[i] for i in perm])
    _same_scale(node, x, y)
    shape, order = _merged(x.shape, perm)
    if order == sorted(order):
        node.emit(Reshape, (x.name,), y.name)
    elif len(perm) <= 4 and x.shape[0] == 1 and perm[0] == 0:
        node.emit(Transpose, (x.name,), y.name, perm=perm)
    elif len(shape) <= 3:
        out = (1, *(shape[i] for i in order))
        name = node.viewed(x, (1, *shape))
        node.emit_viewed(Transpose, (name,), y, out, perm=(0, *(i + 1 for i in order)))
    else:
        node.refuse(f"permutation {list(perm)} of {list(x.shape)}", "at most 3 groups of axes may change places")


def _merged(shape: Sequence[int], perm: Sequence[int]) -> tuple[list[int], list[int]]:
    """(shape, permutation) without axes of 1 and with neighbours that stay together merged."""
    runs: list[list[int]] = []
    for axis in (i for i in perm if shape[i] > 1):
        previous = runs[-1][-1] if runs else None
        if previous is not None and all(shape[i] == 1 for i in range(previous + 1, axis)) and axis > previous:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    ordered = sorted(runs)
    return [math.prod(shape[i] for i in run) for run in ordered], [ordered.index(run) for run in runs]


def _nearest(node: Node, extent: int, size: int) -> tuple[int, ...]:
    """The source index of each target index, in float32 (TFLite: GetNearestNeighbor)."""
    corners, centers = bool(node.option(0, "bool", False)), bool(node.option(1, "bool", False))
    one = np.float32(1)
    between = corners and size > 1
    scale = np.float32(extent - 1) / np.float32(size - 1) if between else np.float32(extent) / np.float32(size)
    place = (np.arange(size, dtype=np.float32) + np.float32(0.5 if centers else 0.0)) * scale * one
    index = np.floor(place + np.float32(0.5)) if corners else np.floor(place)
    return tuple(int(i) for i in np.clip(index, 0, extent - 1))


def resize_nearest(node: Node) -> None:
    """align_corners and half_pixel_centers as TFLite computes them."""
    x = node.value(0)
    size = node.ints(1, "size")
    height, width, channels = node.map_shape(x)
    if len(size) != 2 or not all(0 < s < 1 << 16 for s in size):
        node.refuse(f"size {list(size)}", _DAMAGED)
    y = node.output((1, *size, channels))
    _same_scale(node, x, y)
    rows, columns = _nearest(node, height, size[0]), _nearest(node, width, size[1])
    node.emit(ResizeNearest, (x.name,), y.name, rows=rows, columns=columns)


ROWS: tuple[Row, ...] = (
    Row("PAD", pad, "Pad", "height, width, channels; filled with the zero point"),
    Row("PADV2", pad, "Pad", "as PAD, with a constant value"),
    Row("CONCATENATION", concatenation, "Concat", "any axis; all operands with the output's scale"),
    Row("PACK", pack, "Concat", "any axis; all operands with the output's scale"),
    Row("SPLIT", split, "one Slice for each output", "any axis"),
    Row("SPLIT_V", split_v, "one Slice for each output", "any axis; constant sizes"),
    Row("UNPACK", unpack, "one Slice for each output", "any axis"),
    Row("SLICE", slice_, "Slice", "constant begin and size"),
    Row("STRIDED_SLICE", strided_slice, "Slice", "constant ranges with strides above 0; all masks"),
    Row("RESHAPE", reshape, "Reshape", "static shapes"),
    Row("SQUEEZE", reshape, "Reshape", "static shapes"),
    Row("EXPAND_DIMS", reshape, "Reshape", "static shapes"),
    Row("TRANSPOSE", transpose, "Transpose, or Reshape", "constant permutation"),
    Row("RESIZE_NEAREST_NEIGHBOR", resize_nearest, "ResizeNearest", "align_corners, half_pixel_centers"),
)
