# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Quick packings: buffers placed one after the other, each as low as its placed neighbours allow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .packmodel import Model, lowest_offset

__all__ = ["greedy", "place"]


def place(model: Model, order: Sequence[int]) -> list[int]:
    """Offsets when buffers are placed in this order."""
    offsets: list[int | None] = [None] * len(order)
    for i in order:
        offsets[i] = lowest_offset(model, i, offsets)
    return [o if o is not None else 0 for o in offsets]


def _orders(model: Model) -> Iterator[list[int]]:
    """Orders that are often good, most promising first."""
    size, every = model.size, range(len(model.size))
    span = [last - first + 1 for first, last in zip(model.first, model.last, strict=True)]
    crowd = [sum(size[j] for j, _, _ in model.near[i]) + size[i] for i in every]
    yield sorted(every, key=lambda i: (-size[i], -span[i], i))
    yield sorted(every, key=lambda i: (-size[i] * span[i], -size[i], i))
    yield sorted(every, key=lambda i: (-span[i], -size[i], i))
    yield sorted(every, key=lambda i: (-crowd[i], -size[i], i))
    yield sorted(every, key=lambda i: (model.first[i], -size[i], i))
    yield sorted(every, key=lambda i: (-model.last[i], -size[i], i))


def greedy(model: Model, goal: int, rounds: int) -> list[int]:
    """The best of the fixed orders and of `rounds` repairs; stops at once at a peak of `goal` or less.

    A repair takes the latest order that was not worse and moves one buffer that ends at the peak towards the front, by
    a distance that a fixed sequence of numbers picks.
    """
    best: list[int] = []
    best_order: list[int] = []
    best_peak = -1
    for order in _orders(model):
        offsets = place(model, order)
        peak = model.peak(offsets)
        if best_peak < 0 or peak < best_peak:
            best, best_order, best_peak = offsets, order, peak
        if best_peak <= goal:
            return best
    order, offsets, peak = best_order, best, best_peak
    seed = 1
    for _ in range(rounds):
        seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
        top = [i for i in order if offsets[i] + model.size[i] == peak]
        moved = top[(seed >> 8) % len(top)]
        at = order.index(moved)
        trial = order[:at] + order[at + 1 :]
        trial.insert((seed >> 12) % max(at, 1), moved)
        changed = place(model, trial)
        changed_peak = model.peak(changed)
        if changed_peak <= peak:
            order, offsets, peak = trial, changed, changed_peak
            if peak < best_peak:
                best, best_peak = offsets, peak
                if best_peak <= goal:
                    break
    return best
