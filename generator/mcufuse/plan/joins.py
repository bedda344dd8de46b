# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Joined maps without a copy: the operands of a `Concat` stand where the result wants them.

Where the parts of the result are whole runs of bytes (maps joined along height, or along the first axis that is not 1),
an operand that nobody else reads needs no memory of its own:

    result    [ rows of a          | rows of b     ]
    a         [ offset + 0         ]
    b                               [ offset + shift ]

Its producer then writes into the result, and the step that joins them has nothing to do. Along other axes the parts
alternate pixel by pixel, and the copy stays. For the packer the result and its parts become one item; a distance
between two items holds for every two of their parts that live together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..ir import Concat
from ..schedule import Step
from .packing import Distances, Item, Packing, pack

__all__ = ["Join", "find_join", "pack_joined"]


@dataclass(frozen=True, slots=True)
class Join:
    """A `Concat` that may be left out: `shifts` are the places of its operands in the result, in bytes."""

    step: int
    result: str
    shifts: tuple[tuple[str, int], ...]


def find_join(
    steps: Sequence[Step], k: int, sizes: Mapping[str, int], outputs: Iterable[str], align: int
) -> Join | None:
    """The join of step `k`, or None where a copy is needed.

    It is where the parts are no runs of bytes, where an operand has another reader (or is read twice, or is an
    output of the network), and where a part would begin at an address that is no multiple of `align`.
    """
    step = steps[k]
    if not isinstance(step.op, Concat):
        return None
    pieces = dict(step.lowered.cfg.fields)["pieces"]
    if step.op.axis != 0 and not (step.out_height == 1 and pieces == 1):
        return None
    shifts: list[tuple[str, int]] = []
    at = 0
    for operand in step.operands:
        readers = sum(o.storage == operand.storage for s in steps for o in s.operands)
        size = operand.height * operand.row_bytes
        if readers != 1 or operand.storage in outputs or sizes[operand.storage] != size or at % align:
            return None
        shifts.append((operand.storage, at))
        at += size
    return Join(k, step.storage, tuple(shifts)) if at == step.out_height * step.out_row_bytes else None


def pack_joined(items: Sequence[Item], distances: Distances, joins: Sequence[Join]) -> Packing:
    """A packing in which all `joins` hold; offsets in the order of `items`."""
    index = {item.name: i for i, item in enumerate(items)}
    place = {i: (i, 0) for i in range(len(items))}  # item -> the item that it is a part of, and where in it
    for join in joins:  # in the order of the steps: a result may be a part of a later one
        for name, shift in join.shifts:
            for i, (whole, at) in list(place.items()):
                if whole == index[name]:
                    place[i] = (index[join.result], at + shift)
    wholes = sorted({whole for whole, _ in place.values()})
    members = {whole: [i for i, (w, _) in place.items() if w == whole] for whole in wholes}
    merged = [
        replace(
            items[w],
            first=min(items[i].first for i in members[w]),
            last=max(items[i].last for i in members[w]),
            align=max(items[i].align for i in members[w]),
        )
        for w in wholes
    ]
    between: dict[tuple[int, int], int] = {}
    for a, below in enumerate(wholes):
        for b, above in enumerate(wholes):
            if a != b and (len(members[below]) > 1 or len(members[above]) > 1 or (below, above) in distances):
                needs = [
                    distances.get((i, j), items[i].size) + place[i][1] - place[j][1]
                    for i in members[below]
                    for j in members[above]
                    if items[i].first <= items[j].last and items[j].first <= items[i].last
                ]
                between[a, b] = max(needs, default=0)
    packing = pack(merged, between)
    offset = dict(zip(wholes, packing.offsets, strict=True))
    return replace(packing, offsets=tuple(offset[place[i][0]] + place[i][1] for i in range(len(items))))
