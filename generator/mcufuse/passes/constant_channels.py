# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Removes channels that can never matter.

1. A channel whose bounds meet holds one value for every input; what it adds to the next accumulator is a
   constant and moves into the bias.
2. A channel that the next layer multiplies by zero only adds nothing.
3. Channel-wise operators (depthwise, pooling, tables...) tie the channels of their input and output together:
   such tensors form a *class* and lose the same channels. A channel may go if every layer that leaves the class
   (a convolution or dense layer, which mixes channels) can do without it, even if it is not constant before the
   last depthwise of the class.
4. A convolution that pads reads 0 instead of the constant at the border: there the channel may only go when its
   constant equals the zero point.

Removing channels may leave zero weights behind it, so this repeats until nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ..ir import (
    AvgPool2D,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    Graph,
    Lut,
    MaxPool2D,
    Mean,
    Op,
    Padding,
    Requant,
    Reshape,
    ResizeNearest,
    Tensor,
)  # fmt: skip
from .intervals import Bounds, channel_bounds

__all__ = ["remove_constant_channels"]

Mask = npt.NDArray[np.bool_]
_CHANNELWISE = (Lut, MaxPool2D, AvgPool2D, Mean, ResizeNearest)


def remove_constant_channels(graph: Graph) -> Graph:
    """The pass; its note says how many channels, weights and MACs went."""
    before = graph
    total = sum(graph.tensors[op.output].hwc[2] for op in graph.ops if _makes_channels(op))
    while True:
        smaller = _once(graph)
        if smaller is graph:
            break
        graph = smaller
    if graph is before:
        return graph
    left = sum(graph.tensors[op.output].hwc[2] for op in graph.ops if _makes_channels(op))
    macs = _macs(before) - _macs(graph)
    flash = _const_bytes(before) - _const_bytes(graph)
    note = (
        f"removed {total - left:,} of {total:,} channels that are constant or unused: "
        f"saved {flash:,} B of weights and {macs:,} MACs"
    )
    return graph.with_(notes=(note,))


def _makes_channels(op: Op) -> bool:
    return isinstance(op, (Conv2D, DepthwiseConv2D, FullyConnected))


def _const_bytes(graph: Graph) -> int:
    return sum(t.bytes for t in graph.tensors.values() if t.data is not None)


def _macs(graph: Graph) -> int:
    from ..kernels import KERNELS

    return sum(KERNELS[type(op)].macs(op, graph) for op in graph.ops if type(op) in KERNELS)


def _once(graph: Graph) -> Graph:
    bounds = channel_bounds(graph)
    classes = _classes(graph)
    keep: dict[str, Mask] = {}
    for members in classes:
        removable = _removable(graph, members, bounds)
        if removable is not None and removable.any():
            if removable.all():
                removable[0] = False
            if removable.any():
                keep.update(dict.fromkeys(members, ~removable))
    return _rebuild(graph, keep, bounds) if keep else graph


def _ties_channels(op: Op, graph: Graph) -> bool:
    """Whether output channel c depends on input channel c alone."""
    if isinstance(op, DepthwiseConv2D):
        return op.multiplier == 1
    if isinstance(op, Reshape):
        a, b = graph.tensors[op.inputs[0]], graph.tensors[op.output]
        return a.hwc[2] == b.hwc[2]
    return isinstance(op, _CHANNELWISE)


def _classes(graph: Graph) -> list[list[str]]:
    """Activations tied by channel-wise operators."""
    parent: dict[str, str] = {}

    def find(name: str) -> str:
        parent.setdefault(name, name)
        while parent[name] != name:
            name = parent[name]
        return name

    for op in graph.ops:
        find(op.output)
        if _ties_channels(op, graph):
            parent[find(op.output)] = find(op.inputs[0])
    groups: dict[str, list[str]] = {}
    for name in parent:
        groups.setdefault(find(name), []).append(name)
    return list(groups.values())


def _removable(graph: Graph, members: Iterable[str], bounds: Mapping[str, Bounds]) -> Mask | None:
    """The channels that a class can lose; None if something in it needs all of them."""
    allowed: Mask | None = None
    for name in members:
        if name in graph.outputs or name in graph.inputs:
            return None
        producer = graph.producer(name)
        if producer is None:
            return None
        dense = isinstance(producer, FullyConnected) or (isinstance(producer, Conv2D) and producer.groups == 1)
        if not dense and not _ties_channels(producer, graph):
            return None
        for op in graph.consumers(name):
            if _ties_channels(op, graph):
                continue
            able = _dispensable(op, graph, bounds[name])
            if able is None:
                return None
            allowed = able if allowed is None else allowed & able
    return allowed


def _dispensable(op: Op, graph: Graph, x: Bounds) -> Mask | None:
    """The input channels that a channel-mixing layer can do without."""
    if isinstance(op, Conv2D) and op.groups == 1:
        unused: Mask = ~graph.const(op.inputs[1]).any(axis=(0, 1, 2))
        foldable = x.constant if op.padding == Padding() else x.constant & (x.lo == op.in_zero)
        return foldable | unused
    if isinstance(op, FullyConnected):
        weights = graph.const(op.inputs[1])
        return x.constant | ~weights.reshape(len(weights), -1, len(x.lo)).any(axis=(0, 1))
    return None


def _rebuild(graph: Graph, keep: Mapping[str, Mask], bounds: Mapping[str, Bounds]) -> Graph:
    tensors: dict[str, Tensor] = {}
    ops: list[Op] = []

    def shrunk(name: str, data: npt.NDArray[np.generic], suffix: str = "kept") -> str:
        old = graph.tensors[name]
        new = f"{name}/{suffix}"
        while new in graph.tensors or new in tensors:
            new += "'"
        tensors[new] = replace(old, name=new, shape=data.shape, data=data)
        return new

    for op in graph.ops:
        x, out = keep.get(op.inputs[0]), keep.get(op.output)
        changed: Op = op
        if isinstance(op, (Conv2D, DepthwiseConv2D, FullyConnected)) and (x is not None or out is not None):
            weights, bias = graph.const(op.inputs[1]), graph.const(op.inputs[2])
            if isinstance(op, DepthwiseConv2D):
                weights = weights[..., out] if out is not None else weights
            else:
                if x is not None:
                    weights, bias = _without_inputs(op, weights, bias, x, bounds[op.inputs[0]])
                if out is not None:
                    weights = weights[out]
            if out is not None:
                bias = bias[out]
            inputs = (op.inputs[0], shrunk(op.inputs[1], weights), shrunk(op.inputs[2], bias))
            requant = _picked(op.requant, out) if out is not None else op.requant
            changed = replace(op, inputs=inputs, requant=requant)
        ops.append(changed)
        if out is not None:
            old = graph.tensors[op.output]
            tensors[op.output] = replace(old, shape=(*old.shape[:-1], int(out.sum())))
    return graph.with_(ops=ops, tensors=tensors.values())


def _without_inputs(
    op: Op, weights: npt.NDArray[np.generic], bias: npt.NDArray[np.generic], keep: Mask, x: Bounds
) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.generic]]:
    """Weights without the dropped input channels; what those add goes into the bias (rule 1)."""
    assert isinstance(op, (Conv2D, FullyConnected))
    wide = weights.astype(np.int64)
    value = np.where(x.constant, x.lo - op.in_zero, 0)  # a channel of zero weights adds nothing whatever it holds
    if isinstance(op, Conv2D):
        added = (wide[..., ~keep] * value[~keep]).sum((1, 2, 3))
        left = weights[..., keep]
    else:
        by_channel = wide.reshape(len(wide), -1, len(keep))
        added = (by_channel[..., ~keep] * value[~keep]).sum((1, 2))
        left = weights.reshape(len(weights), -1, len(keep))[..., keep].reshape(len(weights), -1)
    total = bias.astype(np.int64) + added
    assert np.abs(total).max(initial=0) < 1 << 31, f"{op.name}: bias leaves int32"
    return left, total.astype(np.int32)


def _picked(requant: Requant, keep: Mask) -> Requant:
    if len(requant) == 1:
        return requant
    return Requant(
        tuple(int(m) for m in np.asarray(requant.multiplier)[keep]),
        tuple(int(s) for s in np.asarray(requant.shift)[keep]),
        requant.rounding,
    )
