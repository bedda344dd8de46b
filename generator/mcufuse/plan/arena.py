# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The arena: every byte that the network writes, at a fixed offset.

step of the schedule ->   0      1      2
offset 0           [input        ][out      ]     a buffer is a rectangle: bytes by stages
[ring ]                 rings, scratch and state live in one stage only
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from ..ir import Graph
from ..schedule import Step
from .packing import Item, pack
from .stages import StageCandidate, Stager

__all__ = ["ArenaPlan", "Buffer", "Role", "plan_arena"]


class Role(Enum):
    """What a buffer holds."""

    INPUT = "input"
    OUTPUT = "output"
    MAP = "map"
    RING = "ring"
    SCRATCH = "scratch"
    STATE = "state"


@dataclass(frozen=True, slots=True)
class Buffer:
    """A place in the arena, live from stage `first` to stage `last` (inclusive)."""

    name: str
    role: Role
    offset: int
    bytes: int
    first: int
    last: int
    rows: int = 1  # rows that it holds; a ring holds fewer than the tensor has
    row_bytes: int = 0
    step: int = -1  # of a state buffer: the step that owns it
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ArenaPlan:
    """Stages, and where their buffers stand."""

    stages: tuple[StageCandidate, ...]
    buffers: tuple[Buffer, ...]
    arena_bytes: int
    lower_bound: int  # for these stages
    schedule_bound: int  # for any choice of stages in this order of steps
    method: str

    def buffer_of(self, storage: str) -> Buffer:
        """The buffer that holds a tensor (or the rows of it)."""
        return next(
            b
            for b in self.buffers
            if b.role not in (Role.SCRATCH, Role.STATE) and (b.name == storage or storage in b.aliases)
        )

    def scratch_of(self, stage: int) -> Buffer | None:
        """The scratch buffer of a stage."""
        return next((b for b in self.buffers if b.role is Role.SCRATCH and b.first == stage), None)

    def state_of(self, step: int) -> Buffer | None:
        """The state buffer of a step."""
        return next((b for b in self.buffers if b.role is Role.STATE and b.step == step), None)


def plan_arena(graph: Graph, steps: Sequence[Step], *, align: int = 4, allowance: float = 1.0) -> ArenaPlan:
    """Chooses stages and offsets.

    `allowance` >= 1 is the factor by which the arena may exceed the least one where that leaves more steps on
    their own (each streamed stage costs a few instructions a row); `math.inf` streams nothing.
    """
    stager = Stager(graph, steps, align)
    chosen, schedule_bound = stager.choose(allowance)
    stage_of = {k: s for s, c in enumerate(chosen) for k in range(c.first, c.last + 1)}
    end = len(chosen) - 1
    buffers: list[Buffer] = []
    index: dict[str, int] = {}
    heights = {step.storage: (step.out_height, step.out_row_bytes) for step in steps}
    in_rings = {name for c in chosen for r in c.rings for name in (r.storage, *r.aliases)}
    for name, born in stager.born.items():
        if name in in_rings:
            continue
        dies = stager.dies[name]
        role = Role.INPUT if name in stager.inputs else Role.OUTPUT if name in stager.outputs else Role.MAP
        rows, row_bytes = heights.get(name, (graph.tensors[name].hwc[0], graph.tensors[name].row_bytes))
        first = 0 if born < 0 else stage_of[born]
        last = end if dies >= len(steps) else first if dies < 0 else stage_of[dies]
        index[name] = len(buffers)
        buffers.append(Buffer(name, role, 0, stager.bytes[name], first, last, rows, row_bytes))
    for s, c in enumerate(chosen):
        for r in c.rings:
            size = r.rows * r.row_bytes
            buffers.append(Buffer(r.storage, Role.RING, 0, size, s, s, r.rows, r.row_bytes, aliases=r.aliases))
        for k, size in c.state_bytes:
            buffers.append(Buffer(f"{steps[k].op.name}.state", Role.STATE, 0, size, s, s, step=k))
        if c.scratch_bytes:
            buffers.append(Buffer(f"stage {s} scratch", Role.SCRATCH, 0, c.scratch_bytes, s, s))
    items = [
        Item(b.name, b.bytes, b.first, b.last, max(8, align) if b.role in (Role.SCRATCH, Role.STATE) else align)
        for b in buffers
    ]
    distances = {(index[out], index[name]): d for c in chosen for out, name, d in c.slack}
    packing = pack(items, distances)
    placed = tuple(
        Buffer(b.name, b.role, offset, b.bytes, b.first, b.last, b.rows, b.row_bytes, b.step, b.aliases)
        for b, offset in zip(buffers, packing.offsets, strict=True)
    )
    return ArenaPlan(
        tuple(chosen), placed, packing.peak, packing.lower_bound, min(schedule_bound, packing.peak), packing.method
    )
