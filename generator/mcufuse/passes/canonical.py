# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""One form for what can be said in several, so that kernels and later passes meet fewer cases."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..ir import AvgPool2D, Conv2D, DepthwiseConv2D, FullyConnected, Graph, Mean, Op, Padding, Reshape, Tensor
from .cleanup import remove_dead

__all__ = ["canonicalize"]


def canonicalize(graph: Graph) -> Graph:
    """1. An average pool over the whole map is a mean.
    2. A depthwise convolution of one channel is a convolution.
    3. A convolution that covers the whole map is a dense layer.
    4. A dense layer reads memory order, so it needs no reshape before it.
    """
    tensors: list[Tensor] = []
    ops: list[Op] = []
    for op in graph.ops:
        changed = _mean(op, graph) or _conv_of_one_channel(op, graph, tensors) or _dense(op, graph, tensors)
        ops.append(_without_reshape(changed or op, graph))
    return graph if list(graph.ops) == ops else remove_dead(graph.with_(ops=ops, tensors=tensors))


def _mean(op: Op, graph: Graph) -> Op | None:  # rule 1
    if not isinstance(op, AvgPool2D) or op.padding != Padding():
        return None
    height, width, _ = graph.tensors[op.inputs[0]].hwc
    if op.kernel != (height, width):
        return None
    requant = op.requant
    if requant is not None:
        count = height * width - 1
        requant = replace(requant, multiplier=(requant.multiplier[count],), shift=(requant.shift[count],))
    return Mean(
        name=op.name,
        inputs=op.inputs,
        output=op.output,
        origin=op.origin,
        in_zero=op.in_zero,
        out_zero=op.out_zero,
        requant=requant,
        clamp=op.clamp,
    )


def _conv_of_one_channel(op: Op, graph: Graph, tensors: list[Tensor]) -> Op | None:  # rule 2
    if not isinstance(op, DepthwiseConv2D) or graph.tensors[op.inputs[0]].hwc[2] != 1:
        return None
    old = graph.tensors[op.inputs[1]]
    data = np.ascontiguousarray(np.transpose(graph.const(op.inputs[1]), (2, 0, 1))[..., None])
    weights = replace(old, name=f"{old.name}/conv", shape=data.shape, data=data)
    tensors.append(weights)
    return Conv2D(
        name=op.name,
        inputs=(op.inputs[0], weights.name, op.inputs[2]),
        output=op.output,
        origin=op.origin,
        stride=op.stride,
        dilation=op.dilation,
        padding=op.padding,
        in_zero=op.in_zero,
        out_zero=op.out_zero,
        requant=op.requant,
        clamp=op.clamp,
    )


def _dense(op: Op, graph: Graph, tensors: list[Tensor]) -> Op | None:  # rule 3
    if not isinstance(op, Conv2D) or op.groups != 1 or op.padding != Padding():
        return None
    out, kernel_h, kernel_w, _ = graph.const(op.inputs[1]).shape
    if graph.tensors[op.inputs[0]].hwc[:2] != (kernel_h, kernel_w):
        return None
    old = graph.tensors[op.inputs[1]]
    data = graph.const(op.inputs[1]).reshape(out, -1)
    weights = replace(old, name=f"{old.name}/dense", shape=data.shape, data=data)
    tensors.append(weights)
    return FullyConnected(
        name=op.name,
        inputs=(op.inputs[0], weights.name, op.inputs[2]),
        output=op.output,
        origin=op.origin,
        in_zero=op.in_zero,
        out_zero=op.out_zero,
        requant=op.requant,
        clamp=op.clamp,
    )


def _without_reshape(op: Op, graph: Graph) -> Op:  # rule 4
    if not isinstance(op, FullyConnected):
        return op
    before = graph.producer(op.inputs[0])
    if not isinstance(before, Reshape) or len(graph.tensors[before.inputs[0]].shape) > 4:
        return op
    return replace(op, inputs=(before.inputs[0], *op.inputs[1:]))
