# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Finds a 32-bit linear function that equals a quantized sum for every pair of operands.

The sum y(a, b) of two 8-bit values is known for all 65,536 pairs. With v = A * a + B * b + base,

    floor((v + offset) / 2^S) = y   for all pairs
    <=>  y * 2^S - v <= offset < (y + 1) * 2^S - v   for all pairs that the clamp does not cut

so that for given A, B the admissible offsets are an interval, found by one maximum and one minimum. A and B are
tried around the real ratios. What is found is a proof by exhaustion, whatever the roundings inside y were. Halves away
from zero need nothing special: factors slightly too great push them outwards. Halves to even do (LINEAR_EVEN).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ..ir import Clamp

__all__ = ["LinearSum", "SumMode", "find_linear_sum"]

I64 = npt.NDArray[np.int64]
_LIMIT = 1 << 31
_STEPS = (0, 1, -1, 2, -2, 3, -3, 4, -4)


class SumMode(IntEnum):
    """The values are those of `enum mf_add_mode`."""

    LINEAR = 0
    LINEAR_EVEN = 1
    TFLITE = 2
    TFLITE_SINGLE = 3
    ONNX = 4


@dataclass(frozen=True, slots=True)
class LinearSum:
    """Constants of a LINEAR mode, see mcufuse/add.h."""

    mode: SumMode
    shift: int
    lhs_factor: int
    rhs_factor: int
    base: int
    offset: int


def find_linear_sum(
    y: I64, values: tuple[I64, I64], zeros: tuple[int, int], ratios: tuple[float, float], clamp: Clamp
) -> LinearSum | None:
    """Constants with which the C code gives y[i, j] for lhs values[0][i] and rhs values[1][j], or None.

    `y` is clamped; `ratios` are the real factors of the operands (the second negative for a difference).
    """
    # |v| is at most 255 units of each ratio; 160 more leave room for the output's zero point and half a unit
    room = 256 * (abs(ratios[0]) + abs(ratios[1])) + 160
    shift = min(math.floor(31 - math.log2(room)), 23)
    for s in (shift, shift - 1):
        if s < 1:
            return None
        factors = [round(math.ldexp(ratio, s)) for ratio in ratios]
        for mode in (SumMode.LINEAR, SumMode.LINEAR_EVEN):
            steps = _STEPS if mode is SumMode.LINEAR else _STEPS[:3]
            for a in (factors[0] + step for step in steps):
                for b in (factors[1] + step for step in steps):
                    found = _try(y, values, zeros, (a, b), (mode, s, clamp))
                    if found is not None:
                        return found
    return None


def _try(
    y: I64,
    values: tuple[I64, I64],
    zeros: tuple[int, int],
    factors: tuple[int, int],
    how: tuple[SumMode, int, Clamp],
) -> LinearSum | None:
    mode, s, clamp = how
    a, b = factors
    base = -(a * zeros[0] + b * zeros[1])
    v = (a * values[0])[:, None] + (b * values[1])[None, :] + base
    greatest = int(np.abs(v).max())
    if mode is SumMode.LINEAR_EVEN:
        v = v - 1 + ((v >> s) & 1)
    far = 1 << 40
    least = int(np.where(y > clamp.lo, (y << s) - v, -far).max())
    most = int(np.where(y < clamp.hi, ((y + 1) << s) - v, far).min()) - 1
    if least > most:
        return None
    if least == -far or most == far - 1:  # all outputs are one bound
        offset = most if least == -far and most != far - 1 else (least if least != -far else 0)
    else:
        offset = least + (most - least) // 2
    parts = [abs(a) * 128 + abs(base) + abs(offset), greatest + abs(offset) + 1, abs(a) * 128 + abs(base + offset)]
    if max(parts) >= _LIMIT:
        return None
    if mode is SumMode.LINEAR:
        base, offset = base + offset, 0
    return LinearSum(mode, s, a, b, base, offset)
