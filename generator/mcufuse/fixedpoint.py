# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Fixed-point functions with the bits of gemmlowp's `fixedpoint.h`, which TFLite's int8 kernels are built on.

A raw value in Qi.f is value * 2^f with f = 31 - i. All arrays are int64 that hold int32 values.
Source of the algorithms: github.com/google/gemmlowp, fixedpoint/fixedpoint.h.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .arith import rounding_shift, saturating_doubling_high

__all__ = ["ONE", "exp_on_negative", "logistic", "reciprocal_of_one_plus", "tanh"]

I64 = npt.NDArray[np.int64]

ONE = (1 << 31) - 1  # the greatest Q0.31 number stands for 1
_EXP_MINUS_EIGHTH = 1895147668  # exp(-1/8) in Q0.31
_THIRD = 715827883
# exp(-2^e) in Q0.31 for e = -2 .. 4
_EXP_MINUS_POWERS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
_48_OVER_17 = 1515870810  # in Q2.29
_32_OVER_17 = 1010580540


def _saturate(x: I64) -> I64:
    return np.clip(x, -(1 << 31), (1 << 31) - 1)


def _exp_near_minus_eighth(a: I64) -> I64:
    """exp(a) for a in [-1/4, 0), both Q0.31: four terms of the Taylor series around -1/8."""
    x = a + np.int64(1 << 28)
    x2 = saturating_doubling_high(x, x)
    x3 = saturating_doubling_high(x2, x)
    x4 = saturating_doubling_high(x2, x2)
    tail = rounding_shift(saturating_doubling_high(rounding_shift(x4, 2) + x3, _THIRD) + x2, 1)
    return np.asarray(_EXP_MINUS_EIGHTH + saturating_doubling_high(_EXP_MINUS_EIGHTH, x + tail), np.int64)


def exp_on_negative(a: npt.ArrayLike, integer_bits: int) -> I64:
    """exp(a) in Q0.31 for a <= 0 given with `integer_bits` (at most 5) integer bits."""
    a = np.asarray(a, np.int64)
    fraction_bits = 31 - integer_bits
    quarter = 1 << (fraction_bits - 2)
    a_mod = (a & (quarter - 1)) - quarter
    result = _exp_near_minus_eighth(a_mod << integer_bits)
    remainder = a_mod - a
    for exponent, factor in zip(range(-2, 5), _EXP_MINUS_POWERS, strict=True):
        if integer_bits > exponent:
            bit = 1 << (fraction_bits + exponent)
            result = np.where(remainder & bit, saturating_doubling_high(result, factor), result)
    return np.where(a == 0, np.int64(ONE), result)


def _newton(a: I64) -> I64:
    """2 / (1 + a) in Q2.29 for a in [0, 1) in Q0.31: three steps of Newton and Raphson's division."""
    half_denominator = np.asarray(a + ONE + 1, np.int64) >> 1
    x = _48_OVER_17 + saturating_doubling_high(half_denominator, -_32_OVER_17)
    for _ in range(3):
        error = (1 << 29) - saturating_doubling_high(half_denominator, x)
        x = x + _saturate(saturating_doubling_high(x, error) << 2)
    return np.asarray(x, np.int64)


def reciprocal_of_one_plus(a: npt.ArrayLike) -> I64:
    """1 / (1 + a) in Q0.31 for a in [0, 1) in Q0.31."""
    return _saturate(_newton(np.asarray(a, np.int64)) << 1)


def logistic(a: npt.ArrayLike, integer_bits: int) -> I64:
    """1 / (1 + exp(-a)) in Q0.31."""
    a = np.asarray(a, np.int64)
    positive = reciprocal_of_one_plus(exp_on_negative(-np.abs(a), integer_bits))
    return np.where(a == 0, np.int64(1 << 30), np.where(a > 0, positive, ONE - positive))


def tanh(a: npt.ArrayLike, integer_bits: int) -> I64:
    """The hyperbolic tangent of `a` in Q0.31; `integer_bits` at most 4."""
    a = np.asarray(a, np.int64)
    exp_of_minus_2a = exp_on_negative(-np.abs(a), integer_bits + 1)  # one more integer bit doubles the value
    magnitude = _saturate((_newton(exp_of_minus_2a) - (1 << 29)) << 2)
    return np.where(a == 0, np.int64(0), np.where(a > 0, magnitude, -magnitude))
