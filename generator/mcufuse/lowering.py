# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Chooses a C row function for each operator: together the cheapest of those that accept it on the core.

Cheap means few instructions and little code: a KiB of code must save one percent of the network's instructions.
Operators whose row function and cfg are equal share their code.
"""

from __future__ import annotations

from collections import Counter

from .costs import corrected
from .errors import Problems
from .ir import Graph, Reshape
from .kernels import KERNELS
from .kernels.base import LowerContext, Lowered, Refusal
from .target import Core

__all__ = ["lower_graph"]


def lower_graph(
    graph: Graph, core: Core, *, scratch_limit: int | None = None
) -> tuple[dict[str, Lowered], dict[str, int]]:
    """(lowered, MACs) by operator name. With `scratch_limit` (bytes) a row function that takes more scratch is chosen
    only where each of the others takes even more.

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
        ways[op.name] = fits if scratch_limit is None else _lean(fits, scratch_limit)
    problems.raise_if_any()
    return _choose(ways), macs


def _lean(options: list[Lowered], limit: int) -> list[Lowered]:
    """Those with at most `limit` bytes of scratch, or with the least."""
    limit = max(limit, min(o.scratch_bytes for o in options))
    return [o for o in options if o.scratch_bytes <= limit]


def _choose(ways: dict[str, list[Lowered]]) -> dict[str, Lowered]:
    """The better of two local optima: from the fastest choice of each, and from the most shared one."""
    fastest = {name: min(options, key=lambda o: o.instructions) for name, options in ways.items()}
    weight = sum(o.instructions for o in fastest.values()) / 100 / 1024  # instructions that a byte of code must save
    users = Counter((o.function, o.cfg) for options in ways.values() for o in options)
    shared = {
        name: min(options, key=lambda o: o.instructions + weight * o.code_bytes / users[o.function, o.cfg])
        for name, options in ways.items()
    }
    found = [_improve(ways, dict(start), weight) for start in (fastest, shared)]
    return min(found, key=lambda choice: _cost(choice, weight))


def _cost(choice: dict[str, Lowered], weight: float) -> float:
    """Instructions, and the code of each instance once."""
    instances = {(o.function, o.cfg): o.code_bytes for o in choice.values()}
    return sum(o.instructions for o in choice.values()) + weight * sum(instances.values())


def _improve(ways: dict[str, list[Lowered]], choice: dict[str, Lowered], weight: float) -> dict[str, Lowered]:
    """Changes one operator's choice at a time as long as that is cheaper."""
    users = Counter((o.function, o.cfg) for o in choice.values())
    changed = True
    while changed:
        changed = False
        for name, options in ways.items():
            now = choice[name]
            users[now.function, now.cfg] -= 1
            costs = [o.instructions + (0 if users[o.function, o.cfg] else weight * o.code_bytes) for o in options]
            best = options[costs.index(min(costs))]
            if min(costs) < costs[options.index(now)]:
                choice[name] = best
                changed = True
            users[choice[name].function, choice[name].cfg] += 1
    return choice
