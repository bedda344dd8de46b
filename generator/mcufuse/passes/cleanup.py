# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Removes what does nothing, and computes at compile time what depends on constants only."""

from __future__ import annotations

from dataclasses import replace

from ..ir import S8_MIN, Concat, Graph, Lut, Op, Pad, Padding, Reshape, ResizeNearest, Slice, Transpose
from ..oracle import evaluate_op

__all__ = ["fold_constants", "redirect", "remove_dead", "remove_identities"]


def redirect(graph: Graph, moves: dict[str, str], drop: set[str]) -> Graph:
    """Makes readers of tensor `a` read `moves[a]` instead, and drops the operators named in `drop`."""

    def final(name: str) -> str:
        while name in moves:
            name = moves[name]
        return name

    ops = [replace(op, inputs=tuple(final(n) for n in op.inputs)) for op in graph.ops if op.name not in drop]
    return graph.with_(ops=ops, outputs=tuple(final(n) for n in graph.outputs))


def fold_constants(graph: Graph) -> Graph:
    """Evaluates operators whose operands are all constant."""
    tensors = dict(graph.tensors)
    ops: list[Op] = []
    for op in graph.ops:
        here = replace(graph, tensors=tensors, ops=())
        if op.inputs and all(tensors[n].data is not None for n in op.inputs) and op.output not in graph.outputs:
            tensors[op.output] = replace(tensors[op.output], data=evaluate_op(op, here, {}))
        else:
            ops.append(op)
    return graph if len(ops) == len(graph.ops) else replace(graph, tensors=tensors).with_(ops=ops)


def remove_dead(graph: Graph) -> Graph:
    """Drops operators whose results nobody reads."""
    needed = set(graph.outputs)
    kept: list[Op] = []
    for op in reversed(graph.ops):
        if op.output in needed:
            needed.update(op.inputs)
            kept.append(op)
    return graph if len(kept) == len(graph.ops) else graph.with_(ops=kept[::-1])


def remove_identities(graph: Graph) -> Graph:
    """Drops operators that give back their operand; the result of one that is a network output stays."""
    moves: dict[str, str] = {}
    for op in graph.ops:
        if _is_identity(op, graph) and not (op.output in graph.outputs and op.inputs[0] in graph.inputs):
            moves[op.output] = op.inputs[0]
    if not moves:
        return graph
    return redirect(graph, moves, {op.name for op in graph.ops if op.output in moves})


def _is_identity(op: Op, graph: Graph) -> bool:
    a, b = graph.tensors[op.inputs[0]], graph.tensors[op.output]
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if op.output in graph.outputs and a.quant != b.quant:
        return False
    if isinstance(op, Lut):
        return op.table == tuple(range(S8_MIN, S8_MIN + 256)) if a.dtype.value == "int8" else False
    if isinstance(op, Pad):
        return op.padding == Padding() and op.channels == (0, 0)
    if isinstance(op, ResizeNearest):
        height, width, _ = a.hwc
        return op.rows == tuple(range(height)) and op.columns == tuple(range(width))
    if isinstance(op, Concat):
        return len(op.inputs) == 1
    if isinstance(op, Transpose):
        return op.perm == tuple(range(len(a.shape)))
    return isinstance(op, (Reshape, Slice))
