# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Where stages begin and end, and which buffers that takes.

A stage is a run of consecutive steps. For every candidate the buffers that live during it are known exactly:
operands and results that stand in memory, rings between its steps, scratch and state, and whatever is kept for
later. Its local peak is the exact packing of those; the network's peak is at least the greatest local peak of
its stages. The choice of boundaries that minimises this greatest peak is a shortest path with the maximum as
length, found exactly by dynamic programming over the sequence of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..ir import Graph
from ..schedule import Step, pull_order, storage_of
from .joins import Join, find_join
from .liveness import StageTrace
from .packing import Item, pack

__all__ = ["MAX_STAGE_STEPS", "Ring", "StageCandidate", "Stager"]

MAX_STAGE_STEPS = 24
_SEARCH_NODES = 300  # of the packing of one candidate


@dataclass(frozen=True, slots=True)
class Ring:
    """A circular line buffer: `rows` rows of a tensor that never stands in memory as a whole."""

    storage: str
    rows: int
    row_bytes: int
    aliases: tuple[str, ...] = ()  # tensors that are written into the same rows, in place


@dataclass(frozen=True, slots=True)
class StageCandidate:
    """Steps first..last as one stage, and what must be in memory while it runs."""

    first: int
    last: int
    rings: tuple[Ring, ...]
    scratch_bytes: int
    state_bytes: tuple[tuple[int, int], ...]  # (step, bytes)
    resident: tuple[str, ...]  # tensors that stand in memory as a whole during the stage
    slack: tuple[tuple[str, str, int], ...]  # (output, input, least offset(input) - offset(output))
    peak: int  # local, exact or an upper bound
    bound: int  # local, proven


class Stager:
    """Knows all candidates of a sequence of steps."""

    def __init__(
        self, graph: Graph, steps: Sequence[Step], align: int, *, inputs: Mapping[str, int] | None = None,
        outputs: Sequence[str] | None = None,
    ):  # fmt: skip
        """`inputs` (name -> bytes) stand in memory before the first step, `outputs` after the last; by default those
        of the graph."""
        self.steps, self.align = steps, align
        root = storage_of(graph)
        made = {step.storage for step in steps}
        if inputs is None:
            inputs = {root[n]: graph.tensors[root[n]].bytes for n in graph.inputs if root[n] not in made}
        if outputs is None:
            outputs = [root[name] for name in graph.outputs if name in root]
        self.inputs = tuple(inputs)
        self.outputs = tuple(dict.fromkeys(outputs))
        self.bytes = dict(inputs)
        self.born = dict.fromkeys(self.inputs, -1)
        self.dies = dict.fromkeys(self.inputs, -1)
        for k, step in enumerate(steps):
            self.bytes[step.storage] = step.out_height * step.out_row_bytes
            self.born[step.storage] = k
            self.dies[step.storage] = k
            for operand in step.operands:
                self.dies[operand.storage] = k
        for name in self.outputs:
            self.dies[name] = len(steps)
        self._traces: dict[int, StageTrace] = {}
        self._joins: dict[int, Join | None] = {}
        self._candidates: dict[tuple[int, int], StageCandidate] = {}

    @cached_property
    def _reach(self) -> tuple[int, ...]:
        """For each last step, the earliest first step: row structures must agree within a stage."""
        reach = []
        producer = {step.storage: k for k, step in enumerate(self.steps)}
        limit = 0
        for k, step in enumerate(self.steps):
            for operand in step.operands:
                source = producer.get(operand.storage)
                if source is not None and (self.steps[source].out_height, self.steps[source].out_row_bytes) != (
                    operand.height,
                    operand.row_bytes,
                ):
                    limit = max(limit, source + 1)
            reach.append(max(limit, k - MAX_STAGE_STEPS + 1))
        return tuple(reach)

    def earliest(self, last: int) -> int:
        """The earliest step that may begin a stage which ends with `last`."""
        return self._reach[last]

    def join(self, k: int) -> Join | None:
        """The join that step `k` is, if it may be left out where it is a stage of its own."""
        if k not in self._joins:
            self._joins[k] = find_join(self.steps, k, self.bytes, self.outputs, self.align)
        return self._joins[k]

    def trace(self, last: int) -> StageTrace:
        """The events of the longest stage that ends with `last`; serves every shorter one."""
        if last not in self._traces:
            first = self.earliest(last)
            kept = frozenset(s.storage for s in self.steps[first : last + 1] if self.dies[s.storage] > last)
            events = pull_order(self.steps, first, last, kept)
            self._traces[last] = StageTrace.of(self.steps, first, last, events)
        return self._traces[last]

    def candidate(self, first: int, last: int) -> StageCandidate:
        """The stage first..last with its exact buffers and local peak."""
        trace = self.trace(last)
        inside = {self.steps[k].storage: k for k in range(first, last + 1)}
        kept = [name for name, k in inside.items() if self.dies[name] > last]
        rings = self._rings(trace, first, last, inside)
        before = [name for name, born in self.born.items() if born < first and self.dies[name] >= first]
        touched = {o.storage for k in range(first, last + 1) for o in self.steps[k].operands}
        dying = [name for name in before if self.dies[name] <= last and name in touched]
        slack = tuple(
            (out, name, d)
            for name in dying
            for out in kept
            if (d := trace.slack(first, name, inside[out])) < self.bytes[out]
        )
        members = range(first, last + 1)
        scratch = max(self.steps[k].lowered.scratch_bytes for k in members)
        state = tuple((k, b) for k in members if (b := self.steps[k].lowered.state_bytes))
        resident = tuple(before + kept)
        join = self.join(first) if first == last else None
        parts = {name for name, _ in join.shifts} if join else set()
        standing = [name for name in resident if name not in parts]  # parts of a result stand in it
        apart = [row for row in slack if row[1] not in parts]
        peak, bound = self._local_peak(standing, rings, scratch, state, apart)
        return StageCandidate(first, last, rings, scratch, state, resident, slack, peak, bound)

    def _rings(self, trace: StageTrace, first: int, last: int, inside: Mapping[str, int]) -> tuple[Ring, ...]:
        rings: dict[str, Ring] = {}
        place: dict[str, str] = {}  # tensor -> the ring that it lives in
        for name, k in inside.items():
            if self.dies[name] > last:
                continue
            step = self.steps[k]
            host = self._alias_host(trace, k, place)
            last_read = trace.last_read(name, step.out_height, first)
            if host is None:
                place[name] = name
                rings[name] = Ring(name, trace.ring(k, last_read), step.out_row_bytes)
            else:
                place[name] = host
                rows = max(rings[host].rows, trace.ring(inside[host], last_read))
                rings[host] = Ring(host, rows, step.out_row_bytes, (*rings[host].aliases, name))
        return tuple(rings.values())

    def _alias_host(self, trace: StageTrace, k: int, place: Mapping[str, str]) -> str | None:
        for i, operand in enumerate(self.steps[k].operands):
            if operand.storage in place and trace.aliases(k, i) and self.dies[operand.storage] == k:
                only = sum(o.storage == operand.storage for s in self.steps for o in s.operands) == 1
                if only:
                    return place[operand.storage]
        return None

    def _local_peak(
        self,
        resident: Sequence[str],
        rings: Sequence[Ring],
        scratch: int,
        state: Sequence[tuple[int, int]],
        slack: Sequence[tuple[str, str, int]],
    ) -> tuple[int, int]:
        names = list(resident)
        items = [Item(name, self.bytes[name], 0, 0, self.align) for name in resident]
        items += [Item(r.storage, r.rows * r.row_bytes, 0, 0, self.align) for r in rings]
        items += [Item(f"state {k}", b, 0, 0, max(8, self.align)) for k, b in state]
        if scratch:
            items.append(Item("scratch", scratch, 0, 0, max(8, self.align)))
        distances = {(names.index(out), names.index(name)): d for out, name, d in slack}
        packing = pack(items, distances, node_limit=_SEARCH_NODES)
        return packing.peak, packing.lower_bound

    def floor(self, first: int, last: int) -> int:
        """A cheap lower bound of the local peak: what lives through the stage, and its operands or its results."""
        through = before = after = 0
        for name, born in self.born.items():
            dies = self.dies[name]
            if born < first and dies > last:
                through += self.bytes[name]
            elif born < first <= dies:
                before += self.bytes[name]
            elif first <= born <= last < dies:
                after += self.bytes[name]
        return through + max(before, after)

    def _cached(self, first: int, last: int) -> StageCandidate:
        if (first, last) not in self._candidates:
            self._candidates[first, last] = self.candidate(first, last)
        return self._candidates[first, last]

    def choose(self, allowance: float = 1.0) -> tuple[list[StageCandidate], int]:
        """Stages for the least greatest local peak, and that peak's proven lower bound for this order of steps.

        Among the choices that stay within `allowance` times the least peak, the one with the most stages: the
        simplest program.
        """
        least = self._least_bottleneck(lambda c: c.peak)
        bound = self._least_bottleneck(lambda c: c.bound)
        return self._most_stages(least * allowance), bound

    def _least_bottleneck(self, size: Callable[[StageCandidate], int]) -> int:
        """Shortest path with the maximum as length; candidates that cannot improve it are not looked at."""
        n = len(self.steps)
        best = [0] * (n + 1)
        for last in range(n):
            found = max(best[last], size(self._cached(last, last)))
            for first in range(last - 1, self.earliest(last) - 1, -1):
                if max(best[first], self.floor(first, last)) < found:
                    found = min(found, max(best[first], size(self._cached(first, last))))
            best[last + 1] = found
        return best[n]

    def _most_stages(self, allowed: float) -> list[StageCandidate]:
        n = len(self.steps)
        best: list[tuple[int, StageCandidate | None]] = [(0, None), *((-1, None) for _ in range(n))]
        for last in range(n):
            for first in range(last, self.earliest(last) - 1, -1):
                stages = best[first][0] + 1
                if best[first][0] < 0 or stages <= best[last + 1][0] or self.floor(first, last) > allowed:
                    continue
                candidate = self._cached(first, last)
                if candidate.peak <= allowed:
                    best[last + 1] = (stages, candidate)
        chosen: list[StageCandidate] = []
        end = n
        while end > 0:
            candidate_or_none = best[end][1]
            assert candidate_or_none is not None
            chosen.append(candidate_or_none)
            end = candidate_or_none.first
        return chosen[::-1]
