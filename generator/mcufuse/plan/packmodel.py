# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""A packing problem in the form that the search works on: indices, neighbours and cliques.

For two buffers i and j that live together the difference d = offset_j - offset_i may not lie strictly between
-D(j, i) and D(i, j).  So each neighbour that has its place forbids one open interval of offsets:

    offset_j          x - D(j,i)          x = offset_i          x + D(i,j)
    ------ allowed --------|(((((((((((( forbidden )))))))))))))|------ allowed ------>

Everything in this module and in the search follows from these intervals; whether a distance is the size of the
lower buffer, smaller, zero or negative makes no difference to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from math import gcd

__all__ = ["Model", "align_up", "lowest_offset"]


def align_up(value: int, align: int) -> int:
    """The least multiple of `align` that is not below `value`."""
    return -(-value // align) * align


class Model:
    """One packing problem, all in bytes; buffers are known by index.

    `near[i]` holds a row (j, above, below) for each neighbour j: above = D(i, j) is the least offset_j - offset_i with
    j above i, below = D(j, i) the least offset_i - offset_j with j below i.  Differences of two offsets are multiples
    of the common divisor of the two alignments, hence distances are rounded up to it.  A pair whose forbidden interval
    holds no such multiple is no neighbour.

    `cliques` are the maximal sets of buffers that live at one step.  `relaxed[i]` maps j to the least offset_j -
    offset_i in a stacking where i starts at or below j, for those pairs that may share memory.
    """

    __slots__ = ("align", "cliques", "first", "grain", "last", "near", "padded", "positive", "relaxed", "size")

    def __init__(
        self,
        size: Sequence[int],
        align: Sequence[int],
        first: Sequence[int],
        last: Sequence[int],
        distances: Mapping[tuple[int, int], int],
    ) -> None:
        count = len(size)
        self.size, self.align, self.first, self.last = list(size), list(align), list(first), list(last)
        self.grain: int = reduce(gcd, align, 0) or 1
        self.padded = [align_up(s, self.grain) for s in size]
        self.near: list[list[tuple[int, int, int]]] = [[] for _ in range(count)]
        self.relaxed: list[dict[int, int]] = [{} for _ in range(count)]
        self.positive = True  # all distances between neighbours are positive: offsets order the stack
        for i in range(count):
            for j in range(i + 1, count):
                if first[i] <= last[j] and first[j] <= last[i]:
                    self._join(i, j, distances.get((i, j), size[i]), distances.get((j, i), size[j]))
        self.cliques = self._cliques()

    def _join(self, i: int, j: int, above: int, below: int) -> None:
        step = gcd(self.align[i], self.align[j])
        above, below = align_up(above, step), align_up(below, step)
        apart = above + below > step  # else every difference is allowed
        if apart:
            self.near[i].append((j, above, below))
            self.near[j].append((i, below, above))
            self.positive = self.positive and above > 0 and below > 0
        if not apart or above < self.padded[i] or below < self.padded[j]:
            ordered = apart and above > 0 and below > 0
            self.relaxed[i][j] = min(above, self.padded[i]) if ordered else 0
            self.relaxed[j][i] = min(below, self.padded[j]) if ordered else 0

    def _cliques(self) -> list[list[int]]:
        found: list[list[int]] = []
        newest = None
        for step in sorted(set(self.last)):
            live = [i for i in range(len(self.size)) if self.first[i] <= step <= self.last[i]]
            start = max(self.first[i] for i in live)
            if newest is None or start > newest:
                found.append(live)
                newest = start
        return found

    def peak(self, offsets: Sequence[int]) -> int:
        """Bytes of the arena that these offsets need."""
        return max((o + s for o, s in zip(offsets, self.size, strict=True)), default=0)

    def next_peak(self, value: int) -> int:
        """The least peak not below `value` that some buffer could have as its end."""
        return min((value + (s - value) % a for s, a in zip(self.size, self.align, strict=True)), default=value)

    def subset(self, keep: Sequence[int]) -> Model:
        """The problem of the buffers `keep` alone, renumbered in that order."""
        index = {old: new for new, old in enumerate(keep)}
        part = Model([], [], [], [], {})
        part.size = [self.size[i] for i in keep]
        part.align = [self.align[i] for i in keep]
        part.first = [self.first[i] for i in keep]
        part.last = [self.last[i] for i in keep]
        part.grain = self.grain
        part.padded = [self.padded[i] for i in keep]
        part.near = [[(index[j], up, down) for j, up, down in self.near[i] if j in index] for i in keep]
        part.relaxed = [{index[j]: d for j, d in self.relaxed[i].items() if j in index} for i in keep]
        part.positive = all(up > 0 and down > 0 for row in part.near for _, up, down in row)
        part.cliques = part._cliques()
        return part


def lowest_offset(model: Model, i: int, offsets: Sequence[int | None], start: int = 0) -> int:
    """The least aligned offset >= `start` of buffer i that none of its placed neighbours forbids."""
    forbidden = []
    for j, above, below in model.near[i]:
        placed = offsets[j]
        if placed is not None:
            forbidden.append((placed - above, placed + below))
    forbidden.sort()
    align = model.align[i]
    at = align_up(start, align)
    for low, high in forbidden:
        if at <= low:
            break
        if at < high:
            at = align_up(high, align)
    return at
