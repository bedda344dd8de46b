# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The arena: every byte that the network writes, at a fixed offset.

step of the schedule ->   0      1      2
offset 0           [input        ][out      ]     a buffer is a rectangle: bytes by stages
[ring ]                 rings, scratch and state live in one stage only
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from ..errors import UserError
from ..ir import Graph
from ..schedule import Step, storage_of
from .joins import Join, pack_joined
from .packing import Item, pack
from .sliding import Sliding, extended
from .stages import MAX_STAGE_STEPS, StageCandidate, Stager

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
    joined: tuple[int, ...] = ()  # steps that have nothing to do: producers wrote into the result (`joins`)

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


def plan_arena(
    graph: Graph, steps: Sequence[Step], *, align: int = 4, allowance: float = 1.0, sliding: Sliding | None = None
) -> ArenaPlan:
    """Chooses stages and offsets.

    `allowance` >= 1 is the factor by which the arena may exceed the least one where that leaves more steps on
    their own (each streamed stage costs a few instructions a row); `math.inf` streams nothing. With `sliding`, the
    shared steps are the first stage, and what they keep is left alone by all others.
    """
    if sliding is None:
        stager = Stager(graph, steps, align)
        chosen, schedule_bound = stager.choose(allowance)
        plan = _packed(_buffers(graph, steps, stager, chosen), chosen, schedule_bound, align, _joins(stager, chosen))
        return plan if allowance > 1 else _closer_to_bound(graph, steps, stager, plan, align)
    shared = len(sliding.steps)
    first = _shared_stage(graph, steps, sliding, align)
    kept = {sliding.window: sliding.rows * sliding.steps[-1].out_row_bytes}
    root = storage_of(graph)
    standing = {**{n: graph.tensors[root[n]].bytes for n in graph.inputs[1:]}, **kept}
    outputs = [root[name] for name in graph.outputs if name in root]
    stager = Stager(graph, steps[shared:], align, inputs=standing, outputs=[*outputs, sliding.window])
    rest, schedule_bound = stager.choose(allowance)
    moved = [_moved(c, shared) for c in rest]
    chosen = [first, *moved]
    end = len(chosen) - 1
    buffers = [
        replace(b, first=b.first + 1, last=b.last + 1, step=b.step + shared if b.step >= 0 else -1)
        for b in _buffers(graph, steps[shared:], stager, rest)
        if b.name != sliding.window
    ]
    size, row_bytes = kept[sliding.window], sliding.steps[-1].out_row_bytes
    buffers.append(Buffer(sliding.window, Role.RING, 0, size, 0, end, sliding.rows, row_bytes))
    buffers += [replace(b, last=end) if b.role is not Role.SCRATCH else b for b in _stage_buffers(steps, 0, first)]
    schedule_bound += sum(r.rows * r.row_bytes for r in first.rings)
    return _packed(buffers, chosen, schedule_bound, align)


def _closer_to_bound(graph: Graph, steps: Sequence[Step], stager: Stager, plan: ArenaPlan, align: int) -> ArenaPlan:
    """Joins stages where buffers reach the top of the arena, as long as that lowers it.

    The local peaks of all stages may fit while their buffers do not fit together: what one stage leaves high, the
    next may need low. A joined stage has no buffer between its parts.
    """
    while plan.arena_bytes > plan.schedule_bound:
        edges = {
            s for b in plan.buffers if b.offset + b.bytes == plan.arena_bytes for s in (b.first - 1, b.first, b.last)
        }
        trials = []
        for s in sorted(e for e in edges if 0 <= e < len(plan.stages) - 1):
            first, last = plan.stages[s].first, plan.stages[s + 1].last
            if stager.earliest(last) <= first:
                joined = stager.candidate(first, last)
                if joined.peak < plan.arena_bytes:
                    chosen = [*plan.stages[:s], joined, *plan.stages[s + 2 :]]
                    buffers = _buffers(graph, steps, stager, chosen)
                    trials.append(_packed(buffers, chosen, plan.schedule_bound, align, _joins(stager, chosen)))
        better = min(trials, key=lambda p: p.arena_bytes, default=plan)
        if better.arena_bytes >= plan.arena_bytes:
            return plan
        plan = better
    return plan


def _shared_stage(graph: Graph, steps: Sequence[Step], sliding: Sliding, align: int) -> StageCandidate:
    """The stage of the shared steps, its rings sized on an input that goes on for some windows."""
    ext = extended(sliding, steps[0].out_height, hops=4)
    stager = Stager(graph, ext, align, inputs={}, outputs=[sliding.window])
    if stager.earliest(len(ext) - 1) > 0:
        raise UserError(
            f"{len(ext)} steps are shared between windows; a stage holds at most {MAX_STAGE_STEPS}",
            place="input.hop",
            hint="leave input.hop out",
        )
    candidate = stager.candidate(0, len(ext) - 1)
    return replace(candidate, resident=tuple(n for n in candidate.resident if n != sliding.window))


def _moved(candidate: StageCandidate, by: int) -> StageCandidate:
    """The same stage with its steps counted from another one."""
    states = tuple((k + by, size) for k, size in candidate.state_bytes)
    return replace(candidate, first=candidate.first + by, last=candidate.last + by, state_bytes=states)


def _buffers(graph: Graph, steps: Sequence[Step], stager: Stager, chosen: Sequence[StageCandidate]) -> list[Buffer]:
    """All buffers of a choice of stages, not yet placed."""
    stage_of = {k: s for s, c in enumerate(chosen) for k in range(c.first, c.last + 1)}
    end = max(0, len(chosen) - 1)  # 0 also when no step is left
    buffers: list[Buffer] = []
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
        buffers.append(Buffer(name, role, 0, stager.bytes[name], first, last, rows, row_bytes))
    for s, candidate in enumerate(chosen):
        buffers += _stage_buffers(steps, s, candidate)
    return buffers


def _stage_buffers(steps: Sequence[Step], s: int, candidate: StageCandidate) -> list[Buffer]:
    """Rings, states and scratch of one stage."""
    buffers = [
        Buffer(r.storage, Role.RING, 0, r.rows * r.row_bytes, s, s, r.rows, r.row_bytes, aliases=r.aliases)
        for r in candidate.rings
    ]
    buffers += [
        Buffer(f"{steps[k].op.name}.state", Role.STATE, 0, size, s, s, step=k) for k, size in candidate.state_bytes
    ]
    if candidate.scratch_bytes:
        buffers.append(Buffer(f"stage {s} scratch", Role.SCRATCH, 0, candidate.scratch_bytes, s, s))
    return buffers


def _joins(stager: Stager, chosen: Sequence[StageCandidate]) -> list[Join]:
    """The steps that may be left out: those that join maps and are a stage of their own."""
    return [join for c in chosen if c.first == c.last and (join := stager.join(c.first)) is not None]


def _packed(
    buffers: Sequence[Buffer],
    chosen: Sequence[StageCandidate],
    schedule_bound: int,
    align: int,
    joins: Sequence[Join] = (),
) -> ArenaPlan:
    """Places the buffers; of `joins` those are made that cost no memory."""
    index = {b.name: i for i, b in enumerate(buffers) if b.role not in (Role.SCRATCH, Role.STATE)}
    items = [
        Item(b.name, b.bytes, b.first, b.last, max(8, align) if b.role in (Role.SCRATCH, Role.STATE) else align)
        for b in buffers
    ]
    distances = {(index[out], index[name]): d for c in chosen for out, name, d in c.slack}
    packing = pack(items, distances)
    made: list[Join] = []
    for join in joins:
        with_it = pack_joined(items, distances, [*made, join])
        if with_it.peak <= packing.peak:
            packing = with_it
            made.append(join)
    placed = tuple(replace(b, offset=offset) for b, offset in zip(buffers, packing.offsets, strict=True))
    bound = min(schedule_bound, packing.peak)
    joined = tuple(join.step for join in made)
    return ArenaPlan(tuple(chosen), placed, packing.peak, packing.lower_bound, bound, packing.method, joined)
