# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Chooses a C row function for each operator: the cheapest of those that accept it on the core."""

from __future__ import annotations

from .errors import Problems
from .ir import Graph, Reshape
from .kernels import KERNELS
from .kernels.base import LowerContext, Lowered, Refusal
from .target import Core

__all__ = ["lower_graph"]


def lower_graph(graph: Graph, core: Core) -> tuple[dict[str, Lowered], dict[str, int]]:
    """(lowered, MACs) by operator name.

    Raises `UserError` naming every operator that no row function accepts, with the reason of each.
    """
    context = LowerContext(graph, core)
    problems = Problems()
    lowered: dict[str, Lowered] = {}
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
        lowered[op.name] = min(fits, key=lambda o: o.instructions)
        macs[op.name] = kernel.macs(op, graph) if kernel else 0
    problems.raise_if_any()
    return lowered, macs
