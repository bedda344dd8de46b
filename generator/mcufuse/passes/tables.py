# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Unary functions: chains become one table, and a table that only limits becomes its producer's clamp."""

from __future__ import annotations

from dataclasses import fields, replace

from ..ir import S8_MAX, S8_MIN, Clamp, DType, Graph, Lut, Op

__all__ = ["compose_tables", "tables_to_clamps"]


def _only_reader(graph: Graph, name: str) -> bool:
    return name not in graph.outputs and sum(op.inputs.count(name) for op in graph.ops) == 1


def compose_tables(graph: Graph) -> Graph:
    """table_b[table_a[x]] is one table."""
    while True:
        pair = _table_pair(graph)
        if pair is None:
            return graph
        first, second = pair
        start = S8_MIN if graph.tensors[second.inputs[0]].dtype is DType.S8 else 0
        table = tuple(second.table[value - start] for value in first.table)
        merged = replace(
            second,
            inputs=first.inputs,
            table=table,
            label=f"{first.label}+{second.label}",
            origin=first.origin + second.origin,
        )
        graph = graph.with_(ops=[merged if op is second else op for op in graph.ops if op is not first])


def _table_pair(graph: Graph) -> tuple[Lut, Lut] | None:
    for op in graph.ops:
        if isinstance(op, Lut):
            before = graph.producer(op.inputs[0])
            if isinstance(before, Lut) and _only_reader(graph, before.output):
                return before, op
    return None


def _as_clamp(table: tuple[int, ...]) -> Clamp | None:
    lo, hi = table[0], table[-1]
    limits = all(value == min(max(q, lo), hi) for q, value in enumerate(table, S8_MIN))
    return Clamp(lo, hi) if limits and lo <= hi else None


def tables_to_clamps(graph: Graph) -> Graph:
    """clamp(clamp(x, a), b) is one clamp: ReLU and its kind vanish into the operator before them."""
    for op in graph.ops:
        if not isinstance(op, Lut) or graph.tensors[op.output].dtype is not DType.S8:
            continue
        source = graph.tensors[op.inputs[0]]
        before = graph.producer(op.inputs[0])
        limits = _as_clamp(op.table) if source.dtype is DType.S8 else None
        if limits is None or before is None or not _only_reader(graph, before.output):
            continue
        old = getattr(before, "clamp", None)
        if not isinstance(old, Clamp):
            continue
        both = Clamp(*(min(max(edge, limits.lo), limits.hi) for edge in (old.lo, old.hi)))
        merged = _with_clamp(before, both, op)
        return tables_to_clamps(graph.with_(ops=[merged if o is before else o for o in graph.ops if o is not op]))
    return graph


def _with_clamp(op: Op, clamp: Clamp, table: Lut) -> Op:
    assert any(f.name == "clamp" for f in fields(op))
    assert S8_MIN <= clamp.lo <= clamp.hi <= S8_MAX
    return replace(op, clamp=clamp, output=table.output, origin=op.origin + table.origin)  # type: ignore[call-arg]
