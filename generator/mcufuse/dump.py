# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Prints a graph for people: `mcufuse compile --dump-after PASS`."""

from __future__ import annotations

from dataclasses import fields

from .ir import Graph, Op, Requant, Tensor

__all__ = ["dump_graph"]

_OWN = frozenset({"name", "inputs", "output", "origin"})


def dump_graph(graph: Graph) -> str:
    """One operator a line: `output: type shape = Kind(operands, attributes)`."""
    lines = [f"graph {graph.name}"]
    lines += [f"  input  {describe(graph.tensors[name])}" for name in graph.inputs]
    lines += [f"  {describe(graph.tensors[op.output])} = {_op(op, graph)}" for op in graph.ops]
    lines += [f"  output {name}" for name in graph.outputs]
    return "\n".join([*lines, *(f"  note   {note}" for note in graph.notes)]) + "\n"


def describe(tensor: Tensor) -> str:
    """`name: int8 1x25x5x64`."""
    return f"{tensor.name}: {tensor.dtype.value} {'x'.join(map(str, tensor.shape)) or 'scalar'}"


def _op(op: Op, graph: Graph) -> str:
    operands = [f"const {describe(graph.tensors[n])}" if graph.is_const(n) else n for n in op.inputs]
    attributes = [f"{f.name}={_attribute(getattr(op, f.name))}" for f in fields(op) if f.name not in _OWN]
    return f"{op.kind}({', '.join(operands + attributes)})"


def _attribute(value: object) -> str:
    if isinstance(value, Requant):
        same = len(set(zip(value.multiplier, value.shift, strict=True))) == 1
        first = f"{value.multiplier[0]}*2^{value.shift[0] - 31}"
        return f"{value.rounding.value} {first if same else f'{len(value)} channels'}"
    if isinstance(value, tuple) and len(value) > 8:
        return f"({value[0]}, ... {len(value)} values)"
    return str(value)
