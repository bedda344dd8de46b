# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Does everything fit below a given peak?  An exact search that answers yes (with offsets), no, or gives up.

What it looks for.  If the buffers fit at all, take among all packings that fit one whose sum of offsets is least.  Call
it x.  No buffer of x can be moved down alone, so

    (*)  for every aligned offset p < x_i some neighbour j of i forbids p:  p - D(j,i) < x_j < p + D(i,j),
         and since i is above p it must be above j:  x_i >= x_j + D(j,i).

A node of the search holds, for the buffers that are not yet placed ("free"), `low[i]`: the least offset that no
placed buffer forbids, hence low[i] <= x_i.  It branches on one free buffer i:

    place   x_i = low[i];
    wait    x_i > low[i].  By (*) a neighbour j that is still free must come to forbid low[i].  Buffer i is not looked
            at again until a placed buffer does so; meanwhile `est[i]`, the least x_j + D(j,i) over the neighbours j
            that still can, is a lower bound on x_i.  When no neighbour can, the branch is dead.

The two branches exclude each other and cover all cases, and every other rule below only uses bounds that x satisfies;
so a search that ends without a packing has proved that none exists, whatever the signs of the distances.  When all
distances are positive and every free buffer waits, the branch is dead: the free buffer with the least x_i cannot have
a free neighbour under it.  With distances that are zero or negative buffers can support each other in a ring, so there
one waiting buffer is freed at est[i] instead (`_release`); low[i] grows each time, so this ends.

Cliques.  The buffers U of a clique that are free and start at or above v need v + need(U) <= peak (see `bounds`).  With
v = est[i] of the lowest one this tells who can be lowest in the clique (`options`); the others start above the
least that an option leaves.  The next buffer to branch on is taken from the clique with the fewest options; by
every second rule these counts are divided by a weight that grows with each branch that ends in the clique, by every
fourth the buffer that can start lowest is taken instead.

Repeated states.  While each free buffer lies above all its placed neighbours, what remains depends only on low, est
and who waits.  Such states are remembered and not searched twice.

Twins.  Buffers with equal size, life and distances may be exchanged, so they are placed in the order of their indices.
"""

from __future__ import annotations

from .bounds import CliqueBound
from .packmodel import Model, align_up, lowest_offset

__all__ = ["WORK_PER_UNIT", "Search"]

_CLOSED = 1 << 30  # "options" of a clique that has no free buffer
_WAIT_ROUNDS = 4  # how often bounds of waiting buffers are passed on within a node
_REMEMBERED = 50_000  # states
_GROWTH = 1.002  # per node; a clique's latest failures count most
_LARGE = 1e30
WORK_PER_UNIT = 160  # neighbours and clique members looked at that count as one unit of the budget


class _Node:
    __slots__ = ("dirty", "est", "free", "low", "mixed", "options", "waiting")

    def __init__(
        self, low: list[int], est: list[int], options: list[int], free: int, waiting: int, dirty: int, mixed: bool
    ) -> None:
        self.low, self.est, self.options = low, est, options
        self.free, self.waiting = free, waiting  # a bit per buffer
        self.dirty = dirty  # a bit per clique whose bound must be looked at again
        self.mixed = mixed  # some free buffer may still go below a placed neighbour

    def copy(self) -> _Node:
        return _Node(self.low[:], self.est[:], self.options[:], self.free, self.waiting, self.dirty, self.mixed)


class Search:
    """The search over one model: `nodes` counts over all runs, `complete` tells whether the last run was exhaustive."""

    def __init__(self, model: Model, cliques: list[CliqueBound]) -> None:
        self.model = model
        self.cliques = cliques
        self.nodes = 0
        self.complete = True
        self._work = 0
        self._spans_work = cliques[0].spans.work if cliques else 0
        self._peak = 0
        self._highest: list[int] = []
        self._rank: list[int] = []
        count = len(model.size)
        self._in: list[list[int]] = [[] for _ in range(count)]  # the cliques of each buffer
        for t, clique in enumerate(cliques):
            for i in clique.items:
                self._in[i].append(t)
        self._in_bits = [sum(1 << t for t in row) for row in self._in]
        self._twin = _twins(model)
        self._weighted = self._lowest_first = False
        self._weight = [1.0] * len(cliques)  # how often, and how lately, each clique ended a branch
        self._step = 1.0

    def run(self, peak: int, budget: int, rule: int) -> tuple[list[int] | None, int]:
        """Offsets of a packing with this peak or less, and the units of budget used.

        None is a proof that there is none if `complete` is set, else the budget ran out.  A unit is a node or, in
        nodes with much to look at, a fixed amount of work.  `rule` picks one of many orders in which buffers that look
        alike to the search are tried.
        """
        model, every = self.model, range(len(self.model.size))
        self.complete = True
        self._peak = peak
        self._highest = [(peak - s) // a * a for s, a in zip(model.size, model.align, strict=True)]
        if min(self._highest, default=0) < 0:
            return None, 0
        self._rank = _ranking(model, rule)
        self._weighted = rule % 2 == 1
        self._lowest_first = rule % 4 == 3
        cliques = len(self.cliques)
        zero = [0] * len(every)
        stack = [_Node(zero, zero[:], [0] * cliques, (1 << len(every)) - 1, 0, (1 << cliques) - 1, False)]
        seen: set[object] = set()
        used = 0
        while stack:
            node = stack.pop()
            while self._settle(node) and not self._seen_before(node, seen):
                if not node.free:
                    return node.low, used
                self.nodes += 1
                used += self._units()
                if used > budget:
                    self.complete = False
                    return None, used
                i = self._choose(node)
                if i < 0:
                    break
                wait = node.copy()
                wait.waiting |= 1 << i
                stack.append(wait)
                if not self._place(node, i):
                    break
        return None, used

    def _units(self) -> int:
        """The budget that the latest node took."""
        spans = 0
        if self.cliques:
            spans, self._spans_work = self.cliques[0].spans.work - self._spans_work, self.cliques[0].spans.work
        work, self._work = self._work, 0
        return 1 + (work + spans) // WORK_PER_UNIT

    def _seen_before(self, node: _Node, seen: set[object]) -> bool:
        if node.mixed or not node.free:
            return False
        free = node.free
        low = tuple([v for i, v in enumerate(node.low) if free >> i & 1])
        # With positive distances est follows from the rest: bounds found on the way never exceed those of the state.
        est = () if self.model.positive else tuple([v for i, v in enumerate(node.est) if free >> i & 1])
        key = (free, node.waiting, low, est)
        if key in seen:
            return True
        if len(seen) < _REMEMBERED:
            seen.add(key)
        return False

    def _place(self, node: _Node, i: int) -> bool:
        """Places buffer i at its lowest offset and moves free neighbours out of its way."""
        low, est, align = node.low, node.est, self.model.align
        at = low[i]
        free = node.free = node.free & ~(1 << i)
        node.dirty |= self._in_bits[i]
        self._work += len(self.model.near[i])
        for k, above, below in self.model.near[i]:
            if not free >> k & 1:
                continue
            least = est[k]
            if least <= at - below:
                node.mixed = True
            elif least < at + above or at - below < low[k] < at + above:
                least = align_up(max(at + above, least), align[k])
                if node.mixed:
                    self._work += len(low) + len(self.model.near[k])
                    placed = [None if free >> j & 1 else v for j, v in enumerate(low)]
                    least = lowest_offset(self.model, k, placed, least)
                if least > self._highest[k]:
                    return False
                low[k] = est[k] = least
                node.waiting &= ~(1 << k)
                node.dirty |= self._in_bits[k]
        return True

    def _settle(self, node: _Node) -> bool:
        """Brings all bounds of the node up to date; False when it holds no packing."""
        for _ in range(_WAIT_ROUNDS):
            changed = self._raise_waiting(node)
            if changed < 0:
                return False
            if not changed:
                break
        while node.dirty:
            bit = node.dirty & -node.dirty
            node.dirty ^= bit
            t = bit.bit_length() - 1
            if not self._check_clique(node, t):
                self._weight[t] += self._step
                return False
        return True

    def _raise_waiting(self, node: _Node) -> int:
        """Raises est of waiting buffers once: 1 if any rose, 0 if none, -1 if one has no place left."""
        low, est, free = node.low, node.est, node.free
        near, highest = self.model.near, self._highest
        changed = 0
        left = node.waiting
        while left:
            bit = left & -left
            left ^= bit
            i = bit.bit_length() - 1
            at, row = low[i], near[i]
            self._work += len(row)
            least = highest[i] + 1
            for j, above, below in row:
                if free >> j & 1:
                    blocker = est[j]
                    if blocker < at + above:
                        if blocker <= at - below:
                            blocker = at - below + 1
                        if blocker + below < least:  # noqa: PLR1730 (the innermost loop; min() is slower)
                            least = blocker + below
            if least > highest[i]:
                return -1
            if least > est[i]:
                est[i] = align_up(least, self.model.align[i])
                node.dirty |= self._in_bits[i]
                changed = 1
        return changed

    def _check_clique(self, node: _Node, t: int) -> bool:
        """The clique's bound, its options, and what follows for the others."""
        est, free = node.est, node.free
        clique = self.cliques[t]
        live = [i for i in clique.items if free >> i & 1]
        if not live:
            node.options[t] = _CLOSED
            return True
        self._work += len(live)
        live.sort(key=est.__getitem__, reverse=True)
        room = clique.room([est[i] for i in live], live, self._peak)
        if est[live[-1]] > room:
            return False
        rest = len(live) - 1
        while rest and est[live[rest - 1]] <= room:
            rest -= 1
        node.options[t] = len(live) - rest
        return not rest or self._raise_others(node, clique, live[:rest], live[rest:])

    def _raise_others(self, node: _Node, clique: CliqueBound, others: list[int], options: list[int]) -> bool:
        """Each of `others` lies above one of `options`, which are all that can be lowest in the clique."""
        est, model = node.est, self.model
        padded = model.padded
        least = min([est[i] + padded[i] for i in options])
        for k in others:
            if not clique.plain:
                self._work += len(options)
                least = min([est[i] + model.relaxed[i].get(k, padded[i]) for i in options])
            if est[k] < least:
                est[k] = align_up(least, model.align[k])
                if est[k] > self._highest[k]:
                    return False
                node.waiting |= 1 << k
                node.dirty |= self._in_bits[k]
        return True

    def _choose(self, node: _Node) -> int:
        """The buffer to branch on, or -1 if the branch is dead."""
        low, est, free = node.low, node.est, node.free
        ready = free & ~node.waiting
        scores: list[float] = [*node.options]
        if self._weighted:
            scores = [count / weight for count, weight in zip(scores, self._weight, strict=True)]
            self._step *= _GROWTH
            if self._step > _LARGE:
                self._weight = [1 + w / self._step for w in self._weight]
                self._step = 1.0
        found: list[tuple[float, float, int, int]] = []
        rank, twin = self._rank, self._twin
        for i, cliques in enumerate(self._in):
            if ready >> i & 1 and (twin[i] < 0 or not free >> twin[i] & 1):
                self._work += len(cliques)
                fewest = min([scores[t] for t in cliques])
                key = (low[i], fewest) if self._lowest_first else (fewest, low[i])
                found.append((*key, rank[i], i))
        if not found:
            return -1 if self.model.positive else self._release(node)
        found.sort()
        for _, _, _, i in found:  # prefer one that no free neighbour can still get under
            at = low[i]
            self._work += len(self.model.near[i])
            for k, _, below in self.model.near[i]:
                if free >> k & 1 and est[k] + below <= at:
                    break
            else:
                return i
        return min(found, key=lambda row: (low[row[3]], row))[3]

    def _release(self, node: _Node) -> int:
        """Every free buffer waits: lets the one that can start lowest start there; -1 if it cannot."""
        free, twin = node.free, self._twin
        heads = [i for i in range(len(twin)) if free >> i & 1 and (twin[i] < 0 or not free >> twin[i] & 1)]
        i = min(heads, key=lambda k: (node.est[k], k))
        placed = [None if free >> j & 1 else v for j, v in enumerate(node.low)]
        at = lowest_offset(self.model, i, placed, node.est[i])
        if at > self._highest[i]:
            return -1
        node.low[i] = node.est[i] = at
        node.waiting &= ~(1 << i)
        node.dirty |= self._in_bits[i]
        return i


def _ranking(model: Model, rule: int) -> list[int]:
    """Which of equally placed buffers goes first: the longest-lived; rules above 0 shorten lives at random."""
    every = range(len(model.size))
    span = [last - first + 1 for first, last in zip(model.first, model.last, strict=True)]
    if rule:
        span = [s * (_mixed(i, rule) % 1024 + 640) for i, s in enumerate(span)]
    rank = [0] * len(every)
    for position, i in enumerate(sorted(every, key=lambda i: (-span[i], -model.size[i], i))):
        rank[i] = position
    return rank


def _mixed(i: int, rule: int) -> int:
    """A number that looks random but depends on its arguments only (multiply and shift, twice)."""
    value = (i + 1) * 0x9E3779B1 + rule * 0x85EBCA77 & 0xFFFFFFFF
    value = (value ^ value >> 15) * 0x2C1B3C6D & 0xFFFFFFFF
    value = (value ^ value >> 12) * 0x297A2D39 & 0xFFFFFFFF
    return value ^ value >> 15


def _twins(model: Model) -> list[int]:
    """For each buffer the nearest earlier one that it may be exchanged with, or -1."""
    twin = [-1] * len(model.size)
    latest: dict[tuple[int, ...], int] = {}
    for i, row in enumerate(model.near):
        key = (model.size[i], model.align[i], model.first[i], model.last[i], len(row))
        j = latest.get(key, -1)
        if j >= 0:
            mine = {k: (above, below) for k, above, below in row if k != j}
            other = {k: (above, below) for k, above, below in model.near[j] if k != i}
            even = all(above == below for k, above, below in row if k == j)
            if even and mine == other:
                twin[i] = j
        latest[key] = i
    return twin
