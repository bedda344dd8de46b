# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""In which order the elements of a tensor lie in memory, compared with another tensor.

An `Arrangement` splits the source's memory order into factors (outermost first) and says in which order the
destination has them: NHWC [1, 4, 5, 3] read as NCHW is `Arrangement((20, 3), (1, 0))`, since height and width stay
together. Reshaping never changes it; chains of transpositions and reshapes compose to one arrangement.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Arrangement"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Arrangement:
    """`sizes` are the factors in the source's order; factor `order[i]` is the destination's i-th. Canonical: no factor
    is 1, and no two factors that stay together are apart."""

    sizes: tuple[int, ...] = ()
    order: tuple[int, ...] = ()

    @property
    def identity(self) -> bool:
        """Whether both orders are the same."""
        return len(self.sizes) <= 1

    @property
    def elements(self) -> int:
        """How many elements it arranges; 1 for the identity of anything."""
        return math.prod(self.sizes)

    @staticmethod
    def of(sizes: Sequence[int], order: Sequence[int]) -> Arrangement:
        """The canonical form."""
        kept = [i for i in order if sizes[i] != 1]
        groups: list[list[int]] = []
        for i in kept:
            last = groups[-1][-1] if groups else None
            if last is not None and i > last and all(sizes[j] == 1 for j in range(last + 1, i)):
                groups[-1].append(i)
            else:
                groups.append([i])
        if len(groups) <= 1:
            return Arrangement()
        by_source = sorted(groups)
        merged = tuple(math.prod(sizes[i] for i in group) for group in by_source)
        return Arrangement(merged, tuple(by_source.index(group) for group in groups))

    def inverse(self) -> Arrangement:
        """From the destination back to the source."""
        return Arrangement.of([self.sizes[i] for i in self.order], np.argsort(self.order).tolist())

    def then(self, other: Arrangement) -> Arrangement | None:
        """First this, then `other`; None if their factors do not nest."""
        if self.identity:
            return other
        if other.identity:
            return self
        middle = [self.sizes[i] for i in self.order]
        split = _refine(middle, other.sizes)
        if split is None:
            return None
        mine, theirs = split  # for each factor of `middle`, and of other.sizes: the indices of the common factors
        sizes = [0] * sum(len(part) for part in mine)
        source: list[int] = []  # common factors in the source's order
        for i in range(len(self.sizes)):
            source += mine[self.order.index(i)]
        common = _sizes(middle, mine, other.sizes, theirs)
        for position, factor in enumerate(source):
            sizes[position] = common[factor]
        place = {factor: position for position, factor in enumerate(source)}
        destination = [place[factor] for i in other.order for factor in theirs[i]]
        return Arrangement.of(sizes, destination)

    def apply(self, source: Array) -> Array:
        """The elements of `source`, flat, in the destination's order."""
        if self.identity:
            return source.reshape(-1)
        return np.ascontiguousarray(source.reshape(self.sizes).transpose(self.order)).reshape(-1)


def _refine(a: Sequence[int], b: Sequence[int]) -> tuple[list[list[int]], list[list[int]]] | None:
    """Splits two factorizations of one number into common factors, outermost first."""
    parts_a: list[list[int]] = [[] for _ in a]
    parts_b: list[list[int]] = [[] for _ in b]
    i = j = count = 0
    left_a, left_b = a[0], b[0]
    while i < len(a) and j < len(b):
        parts_a[i].append(count)
        parts_b[j].append(count)
        count += 1
        if left_a % left_b and left_b % left_a:
            return None
        step = min(left_a, left_b)
        left_a, left_b = left_a // step, left_b // step
        if left_a == 1:
            i += 1
            left_a = a[i] if i < len(a) else 1
        if left_b == 1:
            j += 1
            left_b = b[j] if j < len(b) else 1
    return parts_a, parts_b


def _sizes(a: Sequence[int], parts_a: list[list[int]], b: Sequence[int], parts_b: list[list[int]]) -> dict[int, int]:
    """The size of each common factor of `_refine`."""
    sizes: dict[int, int] = {}
    left_a, left_b = list(a), list(b)
    owner_a = {f: i for i, part in enumerate(parts_a) for f in part}
    owner_b = {f: i for i, part in enumerate(parts_b) for f in part}
    for factor in sorted(owner_a):
        i, j = owner_a[factor], owner_b[factor]
        sizes[factor] = min(left_a[i], left_b[j])
        left_a[i] //= sizes[factor]
        left_b[j] //= sizes[factor]
    return sizes
