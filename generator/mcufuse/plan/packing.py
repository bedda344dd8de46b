# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Places buffers in one arena: exact for usual sizes, with a proven lower bound always.

A buffer occupies [offset, offset + size) during the steps first..last.  Two that live together are disjoint, unless a
smaller distance was given for the pair, from how the reading and writing of a step advance through memory:

    memory ^    +-----------+                      D(i, j): least offset_j - offset_i with i below j
           |    |     j     |                      default size_i: j starts where i ends
           |    |     +-----+-----+                relaxed: j may start inside i (or, negative, before it)
           |    +-----|- - -      |
           |          |     i     |   offset_j - offset_i >= D(i,j)  or  offset_i - offset_j >= D(j,i)
           |          +-----------+
           +---------------------------> step

The problem is a set of such disjunctions.  For a fixed choice of one side of each, all constraints read "offset_j is at
least some rising function of another offset", so there is a least solution, found by raising offsets from 0, and trying
all choices is exact for any distances.  The search (`packsearch`) covers the same space by offsets instead of
choices and carries the proof of its exactness.  Around it:

1. buffers without a common neighbour chain are packed apart (this includes sections apart in time);
2. a lower bound from each step's load (`bounds`), and quick packings (`packgreedy`); done if they meet;
3. "does it fit below p?" for p = lower bound first, then by bisection between the bound and the best packing, each time
   by runs with growing budgets and different tie breaks.  A "no" is a proof and raises the bound.  Before each run,
   buffers are set aside for which, whatever the others do, some offset must remain free.

Budgets count nodes and work, never time: results are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from .bounds import CliqueBound, Spans, load_bound
from .packgreedy import greedy
from .packmodel import Model, lowest_offset
from .packsearch import WORK_PER_UNIT, Search

__all__ = ["NODE_LIMIT", "Distances", "Item", "Packing", "check_packing", "pack"]

Distances = Mapping[tuple[int, int], int]
"""(i, j) -> least safe offset_j - offset_i when item i lies below item j, by index; default: the size of item i."""

_NO_DISTANCES: Distances = MappingProxyType({})
NODE_LIMIT = 150_000
"""Units of budget of one packing: about 3 s of CPU for 20 to 100 buffers, whatever their distances."""
_FIRST_RUN = 500  # units of budget
_SECOND_RUN = 4_000
_RUNS_PER_LENGTH = 8
_RUNS_BEFORE_WINDOWS = 6
_WINDOWS = (2, 3, 5)  # cliques
_REPAIRS = 60


@dataclass(frozen=True, slots=True)
class Item:
    """A buffer: `size` bytes > 0, live in the steps first..last (inclusive), its offset a multiple of `align`."""

    name: str
    size: int
    first: int
    last: int
    align: int = 4


@dataclass(frozen=True, slots=True)
class Packing:
    """Offsets in the order of the items, and what is known about them."""

    offsets: tuple[int, ...]
    peak: int  # max(offset + size)
    lower_bound: int  # proven: no packing has a smaller peak
    optimal: bool  # peak == lower_bound
    method: str  # one line for the report


def pack(
    items: Sequence[Item],
    distances: Distances = _NO_DISTANCES,
    *,
    node_limit: int = NODE_LIMIT,
    upper: int | None = None,
) -> Packing:
    """Offsets with the smallest peak that can be found within the budget.

    `node_limit` bounds the search: a unit is one node, or a fixed amount of work in nodes of large problems, so the
    time is bounded, too, and the result does not depend on the machine.
    `upper`: peaks above it are of no use to the caller.  When it is proven that none <= `upper` exists, the search
    stops with lower_bound >= upper + 1 and whatever valid packing it has.

    Raises ValueError for an item with a size or an alignment below 1, or that ends before it begins.
    """
    for item in items:
        if item.size < 1 or item.align < 1 or item.first > item.last:
            raise ValueError(f"cannot pack {item}")
    model = Model(
        [i.size for i in items],
        [i.align for i in items],
        [i.first for i in items],
        [i.last for i in items],
        distances,
    )
    parts = sorted((_Part(model, keep) for keep in _components(model)), key=lambda p: (-p.bound, p.keep))
    floor = max((p.bound for p in parts), default=0)
    offsets = [0] * len(items)
    nodes = 0
    for part in parts:
        nodes += part.solve(floor, node_limit, upper)
        node_limit = max(0, node_limit - part.used)
        floor = max(floor, part.bound)
        for i, offset in zip(part.keep, part.offsets, strict=True):
            offsets[i] = offset
    peak = model.peak(offsets)
    return Packing(tuple(offsets), peak, floor, peak == floor, _method(peak, floor, nodes))


def _method(peak: int, bound: int, nodes: int) -> str:
    if peak == bound:
        return f"exact, {nodes:,} nodes"
    return f"heuristic, gap {peak - bound:,} B ({(peak - bound) / bound:.1%}) after {nodes:,} nodes"


def _components(model: Model) -> list[list[int]]:
    """The buffers grouped by chains of neighbours."""
    found = []
    todo = set(range(len(model.size)))
    while todo:
        group, stack = [], [todo.pop()]
        while stack:
            i = stack.pop()
            group.append(i)
            for j, _, _ in model.near[i]:
                if j in todo:
                    todo.remove(j)
                    stack.append(j)
        found.append(sorted(group))
    return found


class _Part:
    """One independent part of the problem with what is known about it: `bound` <= least peak <= `peak`."""

    def __init__(self, model: Model, keep: list[int]) -> None:
        self.keep = keep
        self.model = model if len(keep) == len(model.size) else model.subset(keep)
        self.cliques, self.bound = _bounded(self.model)
        self.offsets: list[int] = []
        self.peak = 0
        self.nodes = 0
        self.used = 0

    def solve(self, floor: int, budget: int, upper: int | None) -> int:
        """Finds offsets with a peak of max(floor, least peak), as far as the budget goes; returns the nodes used."""
        goal = max(self.bound, floor)
        self._improve(greedy(self.model, goal, 0))
        if self._done(goal, upper):
            return 0
        self._attempt(goal, budget // 2)
        if not self._done(goal, upper):
            self._improve(greedy(self.model, goal, _REPAIRS))
            self._bisect(goal, budget, upper)
        return self.nodes

    def _improve(self, offsets: list[int]) -> None:
        peak = self.model.peak(offsets)
        if not self.offsets or peak < self.peak:
            self.offsets, self.peak = offsets, peak

    def _done(self, goal: int, upper: int | None) -> bool:
        return self.peak <= max(goal, self.bound) or (upper is not None and self.bound > upper)

    def _bisect(self, goal: int, budget: int, upper: int | None) -> None:
        tried = goal  # the largest peak that a search proved impossible or gave up on
        if self.bound > goal:  # a small problem: the quick packing is often the best there is
            self._attempt(self.peak - 1 if upper is None else min(self.peak - 1, upper), _SECOND_RUN)
        while not self._done(goal, upper) and self.used < budget:
            above = max(tried + 1, self.bound)
            ceiling = self.peak if upper is None else min(self.peak, upper + 1)
            peak = self.model.next_peak((above + ceiling) // 2)
            if peak >= ceiling:
                peak = self.model.next_peak(above)
            if peak >= ceiling:
                break
            self._attempt(peak, max((budget - self.used) // 4, _FIRST_RUN))
            if self.peak > peak:
                tried = peak

    def _attempt(self, peak: int, budget: int) -> None:
        """Searches for a packing with this peak or less."""
        core, aside = _set_aside(self.model, peak)
        model = self.model.subset(core) if aside else self.model
        cliques, set_up = _set_up(model) if aside else (self.cliques, 0)
        searches = Search(model, cliques), Search(model, cliques)
        length, runs, left = _FIRST_RUN, 0, budget - set_up
        while left > 0:
            # Two searches take turns, each with its own weights: by all rules, and lowest buffer first.
            search, turn = searches[runs % 2], runs // 2
            found, used = search.run(peak, min(length, left), turn if search is searches[0] else 4 * turn + 3)
            left -= used
            runs += 1
            if found is not None:
                self._improve(_put_back(self.model, core, found, aside))
                break
            impossible = search.complete
            if not impossible and runs == _RUNS_BEFORE_WINDOWS:
                impossible, used, nodes = _impossible_window(model, peak, left // 4)
                left -= used
                self.nodes += nodes
            if impossible:
                self.bound = max(self.bound, self.model.next_peak(peak + 1))
                break
            if runs % _RUNS_PER_LENGTH == 0:
                length += length // 2
        self.nodes += sum(search.nodes for search in searches)
        self.used += budget - left


def _bounded(model: Model) -> tuple[list[CliqueBound], int]:
    spans = Spans(model)
    cliques = [CliqueBound(model, items, spans) for items in model.cliques]
    return cliques, load_bound(model, cliques)


def _set_up(model: Model) -> tuple[list[CliqueBound], int]:
    """The cliques of a part of the problem, and the units of budget that it took to find them."""
    cliques, _ = _bounded(model)
    looked_at = sum(len(row) for row in model.near) + (cliques[0].spans.work if cliques else 0)
    return cliques, 1 + looked_at // WORK_PER_UNIT


def _impossible_window(model: Model, peak: int, budget: int) -> tuple[bool, int, int]:
    """Whether the buffers of a few consecutive cliques alone are proven not to fit; budget and nodes used."""
    used = nodes = 0
    for width in _WINDOWS:
        for start in range(len(model.cliques) - width):
            keep = sorted({i for items in model.cliques[start : start + width] for i in items})
            part = model.subset(keep)
            cliques, set_up = _set_up(part)
            search = Search(part, cliques)
            found, spent = search.run(peak, min(_FIRST_RUN, budget - used), 1)
            used += spent + set_up
            nodes += search.nodes
            if search.complete and found is None:
                return True, used, nodes
            if used >= budget:
                return False, used, nodes
    return False, used, nodes


def _set_aside(model: Model, peak: int) -> tuple[list[int], list[int]]:
    """Splits the buffers into those that matter and those that will find a place at or below `peak` in any case.

    A neighbour j forbids an open interval of D(i,j) + D(j,i) bytes of offsets for i, so it takes a bounded number of
    the offsets that i could have.  If all neighbours together leave one, i can be placed after them.  The buffers set
    aside are returned in the order to place them in.
    """
    core = set(range(len(model.size)))
    taken = [
        sum(-(-(above + below - 1) // model.align[i]) for _, above, below in model.near[i])
        for i in range(len(model.size))
    ]
    aside: list[int] = []
    todo = sorted(core)
    while todo:
        i = todo.pop()
        if i in core and taken[i] < (peak - model.size[i]) // model.align[i] + 1:
            core.remove(i)
            aside.append(i)
            for j, above, below in model.near[i]:
                if j in core:
                    taken[j] -= -(-(above + below - 1) // model.align[j])
                    todo.append(j)
    return sorted(core), aside[::-1]


def _put_back(model: Model, core: list[int], found: list[int], aside: list[int]) -> list[int]:
    offsets: list[int | None] = [None] * len(model.size)
    for i, offset in zip(core, found, strict=True):
        offsets[i] = offset
    for i in aside:
        offsets[i] = lowest_offset(model, i, offsets)
    return [o if o is not None else 0 for o in offsets]


def check_packing(items: Sequence[Item], distances: Distances, offsets: Sequence[int]) -> list[str]:
    """All violations in words; an empty list for a valid packing.  Shares no code with the packer."""
    found = []
    if len(offsets) != len(items):
        return [f"{len(items)} items but {len(offsets)} offsets"]
    for item, offset in zip(items, offsets, strict=True):
        if offset < 0:
            found.append(f"{item.name}: offset {offset} is negative")
        if offset % item.align != 0:
            found.append(f"{item.name}: offset {offset} is no multiple of {item.align}")
    for i, a in enumerate(items):
        for j, b in enumerate(items):
            if i < j and a.first <= b.last and b.first <= a.last:
                b_above_a = offsets[j] - offsets[i] >= distances.get((i, j), a.size)
                a_above_b = offsets[i] - offsets[j] >= distances.get((j, i), b.size)
                if not b_above_a and not a_above_b:
                    found.append(
                        f"{a.name} [{offsets[i]}, {offsets[i] + a.size}) and {b.name} [{offsets[j]}, "
                        f"{offsets[j] + b.size}) share memory in steps {max(a.first, b.first)}..{min(a.last, b.last)}"
                    )
    return found
