# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Lower bounds on the memory that buffers living at one step need.

Buffers that must be disjoint add up.  Buffers that may share memory are grouped: within one step, let two buffers be
joined when their pair is relaxed.  The memory of two groups is disjoint, and a hole inside a group's memory can be
closed by moving what lies above it down (buffers on both sides of a hole are disjoint, and D(i, j) <= size_i), so the
step needs at least the sum over groups of the least span of each group.  The least span of a group is found by trying
its orders from low to high offset: with i at or below j, offset_j - offset_i is at least D(i, j), or at least 0
where one of the two distances is not positive.
"""

from __future__ import annotations

from .packmodel import Model

__all__ = ["CliqueBound", "Spans", "load_bound"]

_WORK_PER_GROUP = 40  # of one set, besides what its stackings take
_EXACT_GROUP = 5  # groups up to this many buffers are solved exactly, larger ones bounded by subsets


class Spans:
    """Least spans of groups of relaxed buffers, remembered by the set (a bit per buffer); `work` counts the effort."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._known: dict[int, int] = {0: 0}
        self.work = 0

    def __call__(self, group: int) -> int:
        """A lower bound on max(offset + size) - min(offset) over the buffers whose bits are set in `group`."""
        self.work += 2
        known = self._known.get(group)
        if known is None:
            self.work += _WORK_PER_GROUP
            known = self._known[group] = self._compute(group)
        return known

    def _compute(self, group: int) -> int:
        padded = self._model.padded
        items = [i for i in range(group.bit_length()) if group >> i & 1]
        if len(items) == 1:
            return padded[items[0]]
        if len(items) > _EXACT_GROUP:
            by_size = sorted(items, key=lambda i: padded[i])
            return max(self(group & ~(1 << by_size[0])), self(group & ~(1 << by_size[1])) if len(items) < 10 else 0)
        largest = max(padded[i] for i in items)
        best = sum(padded[i] for i in items)
        best = self._shortest(items, [0] * len(items), 0, largest, best)
        return max(best, largest)

    def _shortest(self, rest: list[int], starts: list[int], end: int, least: int, best: int) -> int:
        """The least end of any stacking of `rest` above what is placed, given each one's least start."""
        self.work += 4 + 8 * len(rest)
        if not rest:
            return end
        padded, relaxed = self._model.padded, self._model.relaxed
        if max(s + padded[i] for i, s in zip(rest, starts, strict=True)) >= best:
            return best
        for k, i in enumerate(rest):
            at = starts[k]
            above = relaxed[i]
            left = rest[:k] + rest[k + 1 :]
            moved = [
                max(s, at + above.get(j, padded[i])) for j, s in zip(left, starts[:k] + starts[k + 1 :], strict=True)
            ]
            best = min(best, self._shortest(left, moved, max(end, at + padded[i]), least, best))
            if best <= least:
                break
        return best


class CliqueBound:
    """How much the buffers of one clique, or some of them, need at least.

    `items` and their relaxed groups are fixed; `groups[i]` is the set of i's group, or 0 if i shares with nobody.
    `spare` is what the rounding of sizes to the grain may overstate: only the topmost buffer's padding is not needed.
    """

    __slots__ = ("_padded", "groups", "items", "plain", "spans", "spare")

    def __init__(self, model: Model, items: list[int], spans: Spans) -> None:
        self.items = items
        self.spans = spans
        self._padded = model.padded
        self.spare = max(model.padded[i] - model.size[i] for i in items)
        self.groups = dict.fromkeys(items, 0)
        members = set(items)
        for i in items:
            if not self.groups[i]:
                group, todo = 1 << i, [i]
                while todo:
                    for j in model.relaxed[todo.pop()]:
                        if j in members and not group >> j & 1:
                            group |= 1 << j
                            todo.append(j)
                if group != 1 << i:
                    for j in items:
                        if group >> j & 1:
                            self.groups[j] = group
        self.plain = not any(self.groups.values())

    def need(self) -> int:
        """Bytes that the whole clique needs at least."""
        alone = sum(self._padded[i] for i in self.items if not self.groups[i])
        shared = sum(self.spans(g) for g in set(self.groups.values()) if g)
        return alone + shared - self.spare

    def room(self, starts: list[int], live: list[int], peak: int) -> int:
        """The highest offset at which the lowest of `live` can start, or -1 if they do not fit below `peak`.

        `live` are members in the order of falling least offsets `starts`.
        """
        limit = peak + self.spare
        total = 0
        padded = self._padded
        if self.plain:
            for start, i in zip(starts, live, strict=True):
                total += padded[i]
                if start + total > limit:
                    return -1
            return limit - total
        so_far = 0
        for start, i in zip(starts, live, strict=True):
            group = self.groups[i]
            if group:
                before = group & so_far
                total += self.spans(before | 1 << i) - self.spans(before)
            else:
                total += padded[i]
            so_far |= 1 << i
            if start + total > limit:
                return -1
        return limit - total


def load_bound(model: Model, cliques: list[CliqueBound]) -> int:
    """The largest need of any step, rounded up to a peak that is possible at all."""
    largest = max(model.size, default=0)
    return model.next_peak(max([largest, *(c.need() for c in cliques)]))
