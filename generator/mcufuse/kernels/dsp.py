# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Weights in the order that `mcufuse/dot_dsp.h` reads them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .base import Array

__all__ = ["pack_words", "raw_possible", "steps_of"]

GROUP_ORDER = (0, 2, 1, 3)
"""The order of the values of a group of four, two for each step."""


def steps_of(depth: int) -> int:
    """Steps of two values, whole groups of four."""
    return (depth + 3) // 4 * 2


def raw_possible(weights: Array, block: int) -> bool:
    """Whether odd channels may be read as 256 A + B: A - (B < 0) must be an int8, |sum(x * A)| < 2^23."""
    w = weights.astype(np.int64)
    if int(np.abs(w).sum(axis=1).max(initial=0)) * 128 >= 1 << 23:
        return False
    for start in range(0, w.shape[0], block):
        part = w[start : start + block]
        odd = part[1::2]
        if int((odd - (part[0::2][: odd.shape[0]] < 0)).min(initial=0)) < -128:
            return False
    return True


def pack_words(weights: Array, block: int, raw: bool) -> npt.NDArray[np.int32]:
    """[channels, depth] as words [step][channel pair] for each block of channels, in order."""
    channels, depth = weights.shape
    padded = np.zeros((channels, steps_of(depth) * 2), np.int64)
    padded[:, :depth] = weights
    ordered = padded.reshape(channels, -1, 4)[:, :, list(GROUP_ORDER)].reshape(channels, -1, 2)  # [channel, step, 2]
    parts = []
    for start in range(0, channels, block):
        part = ordered[start : start + block]
        if part.shape[0] % 2:
            part = np.concatenate([part, np.zeros((1, *part.shape[1:]), np.int64)])
        even, odd = part[0::2], part[1::2]
        if raw:
            odd = odd - (even < 0)
        halves = ((odd & 0xFF) << 8) | (even & 0xFF)  # [pair, step, 2]
        words = halves[:, :, 0] | (halves[:, :, 1] << 16)
        parts.append(words.T.ravel())
    return np.concatenate(parts).astype(np.uint32).view(np.int32)
