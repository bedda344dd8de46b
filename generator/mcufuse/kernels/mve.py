# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Weights and tables in the order that `mcufuse/dot_mve.h` and `mcufuse/vector.h` read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..ir import Requant
from .base import Array, CArray
from .requant import Mode, RequantPlan

__all__ = ["LANES", "block_instructions", "pack_runs", "vector_plan", "vector_table"]

LANES = 4
"""Channels of a block: MF_VECTOR_LANES."""

RUN = 16


def pack_runs(groups: Sequence[Array]) -> Array:
    """Weights [channels, depth] of each group as [run of 16 values][channel][value] for each block of channels.

    The first run of a window takes what is left over by the others. Blocks are filled up with channels of zeros, and
    behind all stand the zeros that the last load of 16 may reach.
    """
    parts: list[Array] = []
    spare = 0
    for weights in groups:
        channels, depth = weights.shape
        first = (depth - 1) % RUN + 1
        filled = np.pad(weights, ((0, -channels % LANES), (0, 0)))
        for block in np.split(filled, filled.shape[0] // LANES):
            parts += [run.ravel() for run in np.split(block, range(first, depth, RUN), axis=1)]
        spare = RUN - first
    return np.concatenate([*parts, np.zeros(spare)]).astype(np.int8)


def block_instructions(depth: int, channels: int, pixels: int, plan: RequantPlan) -> float:
    """Instructions of a block of `dot_mve.h`: `pixels` (1 or 2) times four channels of windows of `depth` values.

    Counted in QEMU (GCC 12): a run of 16 values takes 16 for two pixels and 10 for one.
    """
    first = 3 if depth % RUN else 0
    dropped = 4 if channels % LANES else 0
    requant = (4.6 if plan.mode is Mode.TFLITE_RIGHT else 0) + (2.6 if plan.shift else 0)
    runs = (depth - 1) // RUN
    return (45 + 16 * runs if pixels == 2 else 26 + 10 * runs) + first + dropped + pixels * requant


def vector_plan(plan: RequantPlan, requant: Requant) -> RequantPlan:
    """The plan in a form that vectors can do, where there is one: HIGH_WIDE, or TFLITE without left shifts."""
    plan = plan.expanded().widened()
    if plan.mode not in (Mode.SPLIT, Mode.TFLITE) or max(requant.shift) > 0:
        return plan
    channels = plan.entries.shape[0]
    columns = (
        plan.entries[:, 0],
        np.broadcast_to(np.asarray(requant.multiplier, np.int64), channels),
        np.broadcast_to(np.asarray(requant.shift, np.int64), channels),
    )
    return replace(plan, mode=Mode.TFLITE_RIGHT, shift=0, entries=np.stack(columns, axis=1).astype(np.int32))


def vector_table(plan: RequantPlan, groups: int = 1) -> CArray:
    """The table in blocks of four channels, word by word; each group fills whole blocks."""
    parts = []
    for entries in np.split(plan.entries, groups):
        filled = np.concatenate([entries, np.repeat(entries[-1:], -entries.shape[0] % LANES, axis=0)])
        parts.append(filled.reshape(-1, LANES, 3).transpose(0, 2, 1).ravel())
    return CArray("int32_t", np.concatenate(parts).astype(np.int32), "requant")
