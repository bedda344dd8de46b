# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Chooses a C row function for each operator: together the cheapest of those that accept it on the core.

Cheap means few instructions and little flash: `Objective.kib_must_save` says how many instructions a KiB of code or
constants must save. Operators share their code as in `emit.instances`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial

from .costs import corrected
from .errors import Problems
from .ir import Graph, Reshape
from .kernels import KERNELS
from .kernels.base import CStruct, LowerContext, Lowered, Refusal
from .objective import BALANCED, Objective
from .target import Core

__all__ = ["lower_graph"]


def lower_graph(graph: Graph, core: Core, objective: Objective = BALANCED) -> tuple[dict[str, Lowered], dict[str, int]]:
    """(lowered, MACs) by operator name. A row function that takes more than `objective.scratch_limit` bytes of scratch
    is chosen only where each of the others takes even more.

    Raises `UserError` naming every operator that no row function accepts, with the reason of each.
    """
    context = LowerContext(graph, core)
    problems = Problems()
    ways: dict[str, list[Lowered]] = {}
    macs: dict[str, int] = {}
    for op in graph.ops:
        if isinstance(op, Reshape):
            continue
        kernel = KERNELS.get(type(op))
        options = kernel.lower(op, context) if kernel else []
        fits = [o for o in options if isinstance(o, Lowered)]
        if not fits:
            reasons = "; ".join(f"{r.function}: {r.reason}" for r in options if isinstance(r, Refusal))
            problems.add(reasons or "there is no kernel for it", place=f"{op.kind} {', '.join(op.origin) or op.name}")
            continue
        macs[op.name] = kernel.macs(op, graph) if kernel else 0
        fits = [corrected(o, core, macs[op.name], graph.tensors[op.output]) for o in fits]
        ways[op.name] = fits if objective.scratch_limit is None else _lean(fits, objective.scratch_limit)
    problems.raise_if_any()
    return _choose(ways, objective), macs


def _lean(options: list[Lowered], limit: int) -> list[Lowered]:
    """Those with at most `limit` bytes of scratch, or with the least."""
    limit = max(limit, min(o.scratch_bytes for o in options))
    return [o for o in options if o.scratch_bytes <= limit]


class _Code:
    """The flash that a choice takes: the code of its instances, and constants."""

    def __init__(self, least_to_share: int) -> None:
        self._least = least_to_share
        self._users: defaultdict[tuple[object, ...], Counter[CStruct]] = defaultdict(Counter)

    def add(self, lowered: Lowered) -> int:
        """One more user; returns the bytes that it adds."""
        users = self._users[lowered.family]
        before = self._instances(users)
        users[lowered.cfg] += 1
        return (self._instances(users) - before) * lowered.code_bytes + lowered.constant_bytes

    def remove(self, lowered: Lowered) -> None:
        """One user less."""
        users = self._users[lowered.family]
        users[lowered.cfg] -= 1
        if users[lowered.cfg] == 0:
            del users[lowered.cfg]

    def _instances(self, users: Counter[CStruct]) -> int:
        return min(len(users), 1) if len(users) >= self._least else len(users)


def _choose(ways: dict[str, list[Lowered]], objective: Objective) -> dict[str, Lowered]:
    """The best of three local optima: from the fastest choice of each, and from two that share more."""
    fastest = {name: min(options, key=lambda o: o.instructions) for name, options in ways.items()}
    total = sum(o.instructions for o in fastest.values())
    weight = total * objective.kib_must_save / 1024  # instructions that a byte of code must save
    users = Counter(family for options in ways.values() for family in {o.family for o in options})

    def part(times: int, o: Lowered) -> float:
        return o.instructions + weight * (o.constant_bytes + times * o.code_bytes / users[o.family])

    starts = [fastest]
    starts += [{name: min(options, key=partial(part, times)) for name, options in ways.items()} for times in (1, 32)]
    found = [_improve(ways, dict(start), weight, objective.least_to_share) for start in starts]
    return min(found, key=lambda choice: _cost(choice, weight, objective.least_to_share))


def _cost(choice: dict[str, Lowered], weight: float, least_to_share: int) -> float:
    """Instructions, and the code of each instance once."""
    code = _Code(least_to_share)
    return sum(o.instructions + weight * code.add(o) for o in choice.values())


def _improve(
    ways: dict[str, list[Lowered]], choice: dict[str, Lowered], weight: float, least_to_share: int
) -> dict[str, Lowered]:
    """Changes one operator's choice at a time as long as that is cheaper."""
    code = _Code(least_to_share)
    for lowered in choice.values():
        code.add(lowered)
    changed = True
    while changed:
        changed = False
        for name, options in ways.items():
            now = choice[name]
            code.remove(now)
            costs = []
            for option in options:
                costs.append(option.instructions + weight * code.add(option))
                code.remove(option)
            best = options[costs.index(min(costs))]
            if min(costs) < costs[options.index(now)]:
                choice[name] = best
                changed = True
            code.add(choice[name])
    return choice
