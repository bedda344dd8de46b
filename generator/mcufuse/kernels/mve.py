# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Weights and tables in the order that `mcufuse/dot_mve.h` and `mcufuse/vector.h` read them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..ir import Requant
from .base import Array, CArray
from .requant import Mode, RequantPlan

__all__ = ["LANES", "pack_runs", "vector_plan", "vector_table"]

LANES = 4
"""Channels of a block: MF_VECTOR_LANES."""

RUN = 16


def pack_runs(weights: Array, block: int = LANES) -> Array:
    """[channels, depth] as [run of 16 values][channel][value] for each block of channels, in order."""
    parts = [
        weights[c : c + block, k : k + RUN].ravel()
        for c in range(0, weights.shape[0], block)
        for k in range(0, weights.shape[1], RUN)
    ]
    return np.concatenate(parts).astype(np.int8)


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
