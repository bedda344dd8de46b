# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Replays a plan byte by byte: stupid, separate from the planner, and always on.

Every byte of the arena carries a tag: which row of which tensor was last written there. Each tick of each step
is replayed in the order of the emitted code; before it runs, every byte of every row that it reads must carry
the right tag. Then its output row, scratch and state are tagged. The planner reasons with intervals and
distances; nothing of that is used here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ..ir import Concat, Graph
from ..schedule import Operand, Step, storage_of
from .arena import ArenaPlan, Buffer, Role
from .sliding import Sliding, extended

__all__ = ["BrokenPlan", "check_plan", "check_sliding"]

_POISON = 0


class BrokenPlan(Exception):
    """The planner is wrong: a bug of ours, never the user's."""


class _Replay:
    def __init__(self, graph: Graph, steps: Sequence[Step], plan: ArenaPlan):
        self.graph, self.steps, self.plan = graph, steps, plan
        self.tags: npt.NDArray[np.int64] = np.zeros(plan.arena_bytes, np.int64)
        self.ids: dict[str, int] = {}
        self.ticks = [0] * len(steps)
        self.shift: dict[str, int] = {}  # rows by which a sliding window has moved on
        self.complaints: list[str] = []

    def _tag(self, storage: str) -> int:
        return self.ids.setdefault(storage, (len(self.ids) + 1) << 32)

    def _row_range(self, buffer: Buffer, row: int, row_bytes: int, whole: bool) -> tuple[int, int]:
        rows = buffer.bytes // row_bytes
        at = buffer.offset + (row if whole else row % rows) * row_bytes
        return at, at + row_bytes

    def write(self, storage: str, row: int, row_bytes: int) -> None:
        """Tags the bytes of one row; each byte's tag says where in the tensor it belongs."""
        start, end = self._row_range(self.plan.buffer_of(storage), row, row_bytes, whole=False)
        if start < 0 or end > len(self.tags):
            self.complaints.append(f"{storage} row {row}: bytes {start}..{end} lie outside the arena")
            return
        self.tags[start:end] = self._tag(storage) + row * row_bytes + np.arange(row_bytes)

    def expect(self, storage: str, row: int, row_bytes: int, reader: str) -> None:
        """The row must stand where the reader looks for it."""
        start, end = self._row_range(self.plan.buffer_of(storage), row, row_bytes, whole=False)
        wanted = self._tag(storage) + row * row_bytes + np.arange(row_bytes)
        found = self.tags[max(start, 0) : end]
        if len(found) != row_bytes or not np.array_equal(found, wanted):
            self.complaints.append(f"{reader} reads {storage} row {row} at {start}..{end}, which holds something else")

    def scribble(self, buffer: Buffer | None) -> None:
        """Scratch and state overwrite what stood there."""
        if buffer is not None:
            if buffer.offset < 0 or buffer.offset + buffer.bytes > len(self.tags):
                self.complaints.append(f"{buffer.name} lies outside the arena")
            self.tags[buffer.offset : buffer.offset + buffer.bytes] = _POISON

    def tick(self, stage: int, k: int) -> None:
        """One call of a row function: reads, scribbles, writes."""
        step = self.steps[k]
        t = self.ticks[k]
        rows = step.lowered.rows
        if k in self.plan.joined:
            if t == 0:
                self._check_join(step)
            self.ticks[k] += 1
            return
        in_place: list[tuple[str, int, int]] = []
        for i, operand in enumerate(step.operands):
            for row in self._rows(operand, t):
                self.expect(operand.storage, row, operand.row_bytes, step.op.name)
                if i < len(rows.in_place) and rows.in_place[i]:
                    in_place.append((operand.storage, row, operand.row_bytes))
        if step.lowered.scratch_bytes:
            self._own(step, self.plan.scratch_of(stage), step.lowered.scratch_bytes)
        if step.lowered.state_bytes:
            self._keep_state(step, k, t)
        done = step.rows_after(t), step.rows_after(t + 1)
        for row in range(*done):
            self._check_tick_overlap(step, t, row, in_place)
            self._check_own_memory(stage, k, row)
            self.write(step.storage, row, step.out_row_bytes)
        self.ticks[k] += 1

    def _check_join(self, step: Step) -> None:
        """A step that is left out: the bytes of its result stand there already, each where the operator puts it."""
        maps = []
        for operand, name in zip(step.operands, self.graph.activations(step.op), strict=True):
            height, width, _ = self.graph.tensors[name].hwc
            tags = self._tag(operand.storage) + np.arange(operand.height * operand.row_bytes)
            maps.append(tags.reshape(height, width, -1))
        assert isinstance(step.op, Concat)
        wanted = np.concatenate(maps, axis=step.op.axis).reshape(-1)
        start = self.plan.buffer_of(step.storage).offset
        if not np.array_equal(self.tags[start : start + len(wanted)], wanted):
            self.complaints.append(f"{step.op.name} is left out, but its operands do not make up its result")
        for row in range(step.out_height):
            self.write(step.storage, row, step.out_row_bytes)

    def _rows(self, operand: Operand, t: int) -> list[int]:
        moved = self.shift.get(operand.storage, 0)
        return [row + moved for row in operand.access.rows(t, operand.height)]

    def _keep_state(self, step: Step, k: int, t: int) -> None:
        """State is written by the first tick and must still be there at every later one."""
        buffer = self.plan.state_of(k)
        if t == 0:
            self._own(step, buffer, step.lowered.state_bytes)
        if buffer is not None:
            span = slice(buffer.offset, buffer.offset + buffer.bytes)
            if t > 0 and not np.all(self.tags[span] == self._tag(buffer.name)):
                self.complaints.append(f"{step.op.name}: its state was overwritten before tick {t}")
            self.tags[span] = self._tag(buffer.name)

    def _own(self, step: Step, buffer: Buffer | None, needed: int) -> None:
        if buffer is None or buffer.bytes < needed:
            self.complaints.append(f"{step.op.name} has no {needed} bytes of scratch or state")
            return
        before = self._inputs_intact(step)
        self.scribble(buffer)
        if before and not self._inputs_intact(step):
            self.complaints.append(f"{step.op.name}: {buffer.name} stands on a row that the tick reads")

    def _inputs_intact(self, step: Step) -> bool:
        t = self.ticks[self.steps.index(step)]
        for operand in step.operands:
            for row in self._rows(operand, t):
                start, end = self._row_range(self.plan.buffer_of(operand.storage), row, operand.row_bytes, False)
                wanted = self._tag(operand.storage) + row * operand.row_bytes + np.arange(operand.row_bytes)
                if not np.array_equal(self.tags[start:end], wanted):
                    return False
        return True

    def _check_tick_overlap(self, step: Step, t: int, row: int, in_place: list[tuple[str, int, int]]) -> None:
        """The output row may touch a row that the same tick reads only in place, and never from above."""
        start, end = self._row_range(self.plan.buffer_of(step.storage), row, step.out_row_bytes, False)
        for operand in step.operands:
            for read in self._rows(operand, t):
                a, b = self._row_range(self.plan.buffer_of(operand.storage), read, operand.row_bytes, False)
                if (
                    start < b
                    and a < end
                    and not ((operand.storage, read, operand.row_bytes) in in_place and start <= a)
                ):
                    self.complaints.append(f"{step.op.name} writes row {row} onto {operand.storage} row {read}")

    def _check_own_memory(self, stage: int, k: int, row: int) -> None:
        """A row function writes its output while it still uses its scratch and state."""
        step = self.steps[k]
        start, end = self._row_range(self.plan.buffer_of(step.storage), row, step.out_row_bytes, False)
        scratch = self.plan.scratch_of(stage) if step.lowered.scratch_bytes else None
        state = self.plan.state_of(k) if step.lowered.state_bytes else None
        for own in (scratch, state):
            if own is not None and start < own.offset + own.bytes and own.offset < end:
                self.complaints.append(f"{step.op.name} writes row {row} onto its own {own.name}")

    def pull(self, stage: int, first: int, k: int, rows: int) -> None:
        """The produce-on-demand loop of the emitted code."""
        step = self.steps[k]
        while step.rows_after(self.ticks[k]) < rows:
            for operand in step.operands:
                source = next((j for j in range(first, k) if self.steps[j].storage == operand.storage), None)
                if source is not None:
                    self.pull(stage, first, source, operand.access.upto(self.ticks[k], operand.height))
            self.tick(stage, k)


def check_plan(graph: Graph, steps: Sequence[Step], plan: ArenaPlan) -> None:
    """Raises `BrokenPlan` with everything that a run of the plan would get wrong."""
    replay = _Replay(graph, steps, plan)
    root = storage_of(graph)
    made = {step.storage for step in steps}
    for name in dict.fromkeys(root[i] for i in graph.inputs if root[i] not in made):
        _write_input(replay, graph, name)
    for s in range(len(plan.stages)):
        _run_stage(replay, s)
    _expect_outputs(replay, graph, root)
    _finish(replay)


def check_sliding(graph: Graph, steps: Sequence[Step], plan: ArenaPlan, sliding: Sliding, hops: int = 4) -> None:
    """The same for some windows that slide: what one leaves must still be there for the next."""
    shared = len(sliding.steps)
    replay = _Replay(graph, (*extended(sliding, steps[0].out_height, hops + 1), *steps[shared:]), plan)
    root = storage_of(graph)
    advance = sliding.hop // sliding.strides[-1]
    for hop in range(hops):
        replay.pull(0, 0, shared - 1, sliding.rows + hop * advance)
        replay.pull(0, 0, 0, steps[0].out_height + hop * sliding.hop)
        replay.shift = {sliding.window: hop * advance}
        for name in graph.inputs[1:]:
            _write_input(replay, graph, root[name])
        replay.ticks[shared:] = [0] * (len(steps) - shared)
        for s in range(1, len(plan.stages)):
            _run_stage(replay, s)
        _expect_outputs(replay, graph, root)
        replay.shift = {}
    _finish(replay)


def _write_input(replay: _Replay, graph: Graph, name: str) -> None:
    tensor = graph.tensors[name]
    for row in range(tensor.hwc[0]):
        replay.write(name, row, tensor.row_bytes)


def _run_stage(replay: _Replay, s: int) -> None:
    stage, steps = replay.plan.stages[s], replay.steps
    replay.pull(s, stage.first, stage.last, steps[stage.last].out_height)
    for k in range(stage.first, stage.last + 1):
        if any(r.storage == steps[k].storage or steps[k].storage in r.aliases for r in stage.rings):
            continue
        replay.pull(s, stage.first, k, steps[k].out_height)


def _expect_outputs(replay: _Replay, graph: Graph, root: Mapping[str, str]) -> None:
    for name in dict.fromkeys(root[o] for o in graph.outputs if o in root):
        if name in replay.shift:  # the window tensor itself is the output
            continue
        height, row_bytes = next(
            ((st.out_height, st.out_row_bytes) for st in replay.steps if st.storage == name),
            (graph.tensors[name].hwc[0], graph.tensors[name].row_bytes),
        )
        for row in range(height):
            replay.expect(name, row, row_bytes, "the application")


def _finish(replay: _Replay) -> None:
    plan = replay.plan
    top = max((b.offset + b.bytes for b in plan.buffers), default=0)
    if top != plan.arena_bytes:
        replay.complaints.append(f"the arena has {plan.arena_bytes} bytes but its buffers end at {top}")
    misplaced = [b for b in plan.buffers if b.role in (Role.SCRATCH, Role.STATE) and b.offset % 8]
    replay.complaints += [f"{b.name} at offset {b.offset} is not aligned to 8 bytes" for b in misplaced]
    if replay.complaints:
        raise BrokenPlan("\n".join(replay.complaints[:20]))
