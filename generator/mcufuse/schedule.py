# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Steps and their interleaving: which tick runs when, and what it reads and writes.

A *step* is an operator lowered to a C row function. A *stage* is a run of consecutive steps that execute row by
row: its last step pulls the rows that it needs from the steps before it, and so on up to operands that stand in
memory. Nothing is computed twice and nothing earlier than it is needed:

    pull(step, n):  while the step has written fewer than n rows:
                        pull every row that its next tick reads
                        run the tick

The emitted C is the same loop, so the order of events computed here is the order on the target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .ir import Graph, Op, Reshape
from .kernels.base import Access, CStruct, Lowered, RowPlan

__all__ = ["Event", "Feed", "Operand", "Step", "make_steps", "pull_order", "storage_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed(Op):
    """Stands for the caller who delivers the rows of input 0: tick t writes row t."""


@dataclass(frozen=True, slots=True)
class Operand:
    """An activation operand: where it is stored and how a tick reads its rows."""

    storage: str
    height: int  # rows, as the reading operator sees the tensor
    row_bytes: int
    access: Access


@dataclass(frozen=True, slots=True)
class Step:
    """An operator with its chosen C row function."""

    op: Op
    lowered: Lowered
    operands: tuple[Operand, ...]
    storage: str  # of the output
    out_height: int
    out_row_bytes: int
    macs: int

    @property
    def ticks(self) -> int:
        """Calls of the row function."""
        return self.lowered.rows.ticks

    def rows_after(self, ticks: int) -> int:
        """Output rows that are complete after this many ticks."""
        if self.lowered.rows.writes.at_end:
            return self.out_height if ticks >= self.ticks else 0
        return min(ticks, self.out_height)


@dataclass(frozen=True, slots=True)
class Event:
    """One tick of one step (index into the sequence of steps)."""

    step: int
    tick: int


def storage_of(graph: Graph) -> dict[str, str]:
    """Maps each activation to the tensor whose bytes it shares: a `Reshape` moves nothing."""
    root = {name: name for name in graph.inputs}
    for op in graph.ops:
        root[op.output] = root[op.inputs[0]] if isinstance(op, Reshape) and op.inputs[0] in root else op.output
    return root


def make_steps(
    graph: Graph, lowered: Mapping[str, Lowered], macs: Mapping[str, int], *, fed_rows: bool = False
) -> tuple[Step, ...]:
    """The steps of a graph in its order; `lowered` and `macs` are keyed by operator name.

    With `fed_rows` the first step is a `Feed`, so that input 0 is planned like any other tensor.
    """
    root = storage_of(graph)
    steps = [_feed_step(graph)] if fed_rows else []
    for op in graph.ops:
        if isinstance(op, Reshape):
            continue
        choice = lowered[op.name]
        names = graph.activations(op)
        operands = tuple(
            Operand(root[name], graph.tensors[name].hwc[0], graph.tensors[name].row_bytes, access)
            for name, access in zip(names, choice.rows.reads, strict=True)
        )
        out = graph.tensors[op.output]
        steps.append(Step(op, choice, operands, op.output, out.hwc[0], out.row_bytes, macs[op.name]))
    return tuple(steps)


def _feed_step(graph: Graph) -> Step:
    tensor = graph.tensors[graph.inputs[0]]
    height = tensor.hwc[0]
    nothing = Lowered("", "", CStruct("", ()), CStruct("", ()), RowPlan(height, ()))
    return Step(Feed(name="feed", inputs=(), output=tensor.name), nothing, (), tensor.name, height, tensor.row_bytes, 0)


def pull_order(steps: Sequence[Step], first: int, last: int, kept: frozenset[str]) -> list[Event]:
    """The events of a stage that holds steps first..last (inclusive): the last one pulls, then every step whose
    output is in `kept` (needed after the stage) completes.

    For any later start i > first, the events of steps >= i are exactly those of the stage i..last: what stands
    before a stage does not change the order inside it.
    """
    producer = {steps[k].storage: k for k in range(first, last + 1)}
    ticks = [0] * len(steps)
    events: list[Event] = []

    def pull(k: int, rows: int) -> None:
        step = steps[k]
        while step.rows_after(ticks[k]) < rows:
            tick = ticks[k]
            for operand in step.operands:
                source = producer.get(operand.storage)
                if source is not None and source < k:
                    pull(source, operand.access.upto(tick, operand.height))
            events.append(Event(k, tick))
            ticks[k] += 1

    pull(last, steps[last].out_height)
    for k in range(first, last + 1):
        if steps[k].storage in kept:
            pull(k, steps[k].out_height)
    return events
