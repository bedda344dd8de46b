# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Integer arithmetic of the operators, in NumPy: the meaning that `mcufuse/requant.h` equals bit for bit.

All functions take and return int64 arrays that hold int32 values, broadcast like NumPy, and never overflow
for |acc| < 2^31.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from .ir import Requant, Rounding

__all__ = ["half_even_shift", "quantize_multiplier", "requantize", "rounding_shift", "saturating_doubling_high"]

I64 = npt.NDArray[np.int64]


def quantize_multiplier(real: float) -> tuple[int, int]:
    """(multiplier, shift) with real = multiplier * 2^(shift - 31), multiplier in [2^30, 2^31), halves up.

    TFLite's QuantizeMultiplier (double precision, rounds the 31-bit fraction to nearest); values below 2^-32
    become (0, 0). A float32 value is represented exactly.
    """
    if real == 0.0:
        return 0, 0
    fraction, shift = math.frexp(real)
    multiplier = math.floor(fraction * (1 << 31) + 0.5)  # round() of C: halves away from zero; fraction > 0
    if multiplier == 1 << 31:
        multiplier //= 2
        shift += 1
    if shift < -31:
        return 0, 0
    return multiplier, shift


def saturating_doubling_high(a: npt.ArrayLike, b: npt.ArrayLike) -> I64:
    """floor((a * b + 2^30) / 2^31): gemmlowp's SaturatingRoundingDoublingHighMul without its one saturating case."""
    product = np.asarray(a, np.int64) * np.asarray(b, np.int64)
    return (product + (1 << 30)) >> 31


def rounding_shift(x: npt.ArrayLike, bits: npt.ArrayLike) -> I64:
    """x / 2^bits, halves away from zero: gemmlowp's RoundingDivideByPOT."""
    x = np.asarray(x, np.int64)
    bits = np.asarray(bits, np.int64)
    half = np.where(bits > 0, np.int64(1) << np.maximum(bits - 1, 0), 0)
    shifted: I64 = (x + half - ((x < 0) & (bits > 0))) >> bits
    return shifted


def half_even_shift(x: npt.ArrayLike, bits: npt.ArrayLike) -> I64:
    """x / 2^bits, halves to even."""
    x = np.asarray(x, np.int64)
    bits = np.asarray(bits, np.int64)
    half = np.where(bits > 0, np.int64(1) << np.maximum(bits - 1, 0), 0)
    rounded = (x + half) >> bits
    tie = (bits > 0) & (((x + half) & ((np.int64(1) << bits) - 1)) == 0)
    even: I64 = rounded - (tie & ((rounded & 1) == 1))
    return even


def requantize(acc: npt.ArrayLike, requant: Requant) -> I64:
    """acc * multiplier * 2^(shift - 31) by the requantization's rounding; channels along the last axis."""
    acc = np.asarray(acc, np.int64)
    multiplier = np.asarray(requant.multiplier, np.int64)
    shift = np.asarray(requant.shift, np.int64)
    if requant.rounding is Rounding.TFLITE:
        left, right = np.maximum(shift, 0), np.maximum(-shift, 0)
        return rounding_shift(saturating_doubling_high(acc << left, multiplier), right)
    total = 31 - shift  # 0 <= total <= 62; the product stays below 2^62
    if requant.rounding is Rounding.TFLITE_SINGLE:
        half = np.where(total > 0, np.int64(1) << np.maximum(total - 1, 0), 0)
        return (acc * multiplier + half) >> total
    return half_even_shift(acc * multiplier, total)
