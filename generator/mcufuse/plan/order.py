# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""In which order the operators of a branching network run.

A chain has one order. Where branches leave a choice, the order decides what must be kept meanwhile. Candidates are

    the model's own order
    the order of least peak, operator by operator: a shortest path over the sets of operators that may have run
        (each set is known to be reachable by its members alone), exact while there are at most MAX_SETS sets;
        beyond that, always the operator that leaves least in memory

and the planner, which knows streaming and overlap, decides between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..ir import Graph, Op

__all__ = ["MAX_SETS", "candidate_orders"]

MAX_SETS = 4_000


class _Network:
    """Operators as bits of an integer, tensors with their sizes."""

    def __init__(self, graph: Graph):
        self.ops = graph.ops
        index = {op.output: i for i, op in enumerate(graph.ops)}
        self.needs = [sum({1 << index[n] for n in graph.activations(op) if n in index}) for op in graph.ops]
        self.size = {name: graph.tensors[name].bytes for name in (*graph.inputs, *index)}
        self.readers: Mapping[str, int] = {
            name: sum(1 << i for i, op in enumerate(graph.ops) if name in op.inputs) for name in self.size
        }
        self.made = {name: 1 << index[name] if name in index else 0 for name in self.size}
        self.kept = frozenset(graph.outputs)

    def ready(self, done: int) -> list[int]:
        """Operators that may run next."""
        return [i for i, needs in enumerate(self.needs) if not done >> i & 1 and needs & done == needs]

    def live(self, done: int) -> int:
        """Bytes that must be kept once the operators in `done` have run."""
        return sum(
            size
            for name, size in self.size.items()
            if self.made[name] & done == self.made[name] and (self.readers[name] & ~done or name in self.kept)
        )

    def during(self, done: int, i: int) -> int:
        """Bytes while operator i runs after `done`."""
        return self.live(done) + self.size[self.ops[i].output]


def _least_peak(network: _Network) -> list[int] | None:
    """The order of least peak; None if there are too many sets."""
    full = (1 << len(network.ops)) - 1
    level: dict[int, tuple[int, list[int]]] = {0: (0, [])}
    visited = 0
    while full not in level:
        following: dict[int, tuple[int, list[int]]] = {}
        for done, (peak, order) in level.items():
            for i in network.ready(done):
                reached = max(peak, network.during(done, i))
                old = following.get(done | 1 << i)
                if old is None or reached < old[0]:
                    following[done | 1 << i] = (reached, [*order, i])
        visited += len(following)
        if visited > MAX_SETS:
            return None
        level = following
    return level[full][1]


def _greedy(network: _Network) -> list[int]:
    done, order = 0, list[int]()
    while len(order) < len(network.ops):
        i = min(network.ready(done), key=lambda i: (network.live(done | 1 << i), network.during(done, i), i))
        done |= 1 << i
        order.append(i)
    return order


def candidate_orders(graph: Graph) -> list[tuple[Op, ...]]:
    """Orders worth planning, the model's own first."""
    network = _Network(graph)
    done, choice = 0, False
    for i in range(len(network.ops)):
        choice = choice or len(network.ready(done)) > 1
        done |= 1 << i
    if not choice:
        return [graph.ops]
    other = _least_peak(network) or _greedy(network)
    return list(dict.fromkeys((graph.ops, _ops(network.ops, other))))


def _ops(ops: Sequence[Op], order: Sequence[int]) -> tuple[Op, ...]:
    return tuple(ops[i] for i in order)
