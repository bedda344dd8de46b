# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The chosen requantization sequences against the oracle, on every accumulator of a layer or all that matter."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_random import random_clamp, random_requant
from mcufuse.arith import requantize
from mcufuse.ir import Clamp, Requant, Rounding
from mcufuse.kernels.base import Refusal
from mcufuse.kernels.requant import R_BITS, Mode, RequantPlan, plan_requant, thresholds


def run_plan(plan: RequantPlan, raw: np.ndarray, channel: int) -> np.ndarray:
    """The sequence of `mcufuse/requant.h` on sums without bias."""
    plan = plan.expanded()
    entry = [int(word) for word in plan.entries[channel]]
    if plan.mode is Mode.HIGH:
        start, r = entry[0] >> R_BITS, (entry[0] + (1 << (R_BITS - 1))) % (1 << R_BITS) - (1 << (R_BITS - 1))
        y = (((raw + start) * entry[1] >> 32) + r) >> plan.shift
    elif plan.mode is Mode.HIGH_WIDE:
        y = (((raw + entry[0]) * entry[1] >> 32) + entry[2]) >> plan.shift
    elif plan.mode is Mode.AFFINE:
        y = (raw * entry[0] + (entry[2] << 32) + (entry[1] & 0xFFFFFFFF)) >> (32 + plan.shift)
    elif plan.mode is Mode.SPLIT:
        acc = raw + entry[0]
        offset = np.where(acc < 0, -entry[2] - 1, entry[2]) + ((2 * plan.out_zero + 1) << (31 + plan.shift))
        y = (acc * entry[1] + offset) >> (32 + plan.shift)
    else:
        rounding = {Mode.TFLITE: Rounding.TFLITE, Mode.TFLITE_SINGLE: Rounding.TFLITE_SINGLE}
        requant = Requant((entry[1],), (entry[2],), rounding.get(plan.mode, Rounding.ONNX))
        y = requantize(raw + entry[0], requant) + plan.out_zero
    return np.clip(y, plan.clamp.lo, plan.clamp.hi)


@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize("uniform", [False, True])
def test_plans_equal_the_oracle(rounding: Rounding, uniform: bool) -> None:
    rng = np.random.default_rng(5)
    modes = set()
    for _ in range(60):
        channels, taps = int(rng.integers(1, 9)), int(rng.integers(1, 600))
        requant = random_requant(rng, channels, rounding, taps)
        zero, clamp = random_clamp(rng, int(rng.integers(-128, 128)))
        bias = rng.integers(-(1 << 16), 1 << 16, channels)
        reach = taps * rng.integers(100, 8000, channels)
        plan = plan_requant(
            requant, bias=bias, raw_lo=-reach, raw_hi=reach, out_zero=zero, clamp=clamp, uniform=uniform
        )
        assert isinstance(plan, RequantPlan)
        modes.add(plan.mode)
        for c in range(channels):
            one = Requant((requant.multiplier[c % len(requant)],), (requant.shift[c % len(requant)],), requant.rounding)
            raw = np.unique(
                np.concatenate([np.linspace(-reach[c], reach[c], 4000).astype(np.int64), edges(one, zero) - bias[c]])
            )
            raw = raw[np.abs(raw) <= reach[c]]
            expected = np.clip(requantize(raw + bias[c], one) + zero, clamp.lo, clamp.hi)
            for form in (plan, plan.expanded().widened()):
                np.testing.assert_array_equal(run_plan(form, raw, c), expected, err_msg=f"{form.mode} {one} {clamp}")
    assert modes >= {Mode.HIGH} | ({Mode.SPLIT} if rounding is Rounding.TFLITE else set())


def edges(requant: Requant, zero: int) -> np.ndarray:
    """Accumulators around each change of the output, and around 0."""
    lo, hi = np.array([-(1 << 24)]), np.array([1 << 24])
    t = thresholds(requant, zero, Clamp(), lo, hi).ravel()
    return np.concatenate([t - 1, t, np.arange(-3, 4)])


def test_thresholds_of_a_constant_output() -> None:
    t = thresholds(Requant((0,), (0,), Rounding.TFLITE), 5, Clamp(0, 10), np.array([-100]), np.array([100]))
    np.testing.assert_array_equal(t[:, 0], [-100] * 5 + [101] * 5)


def test_relu_needs_one_multiplication() -> None:
    requant = Requant((1518500250, 1718500251), (-7, -8), Rounding.TFLITE)
    bias, reach = np.array([100, -4000]), np.array([200_000, 300_000])
    plan = plan_requant(requant, bias=bias, raw_lo=-reach, raw_hi=reach, out_zero=-128, clamp=Clamp())
    assert isinstance(plan, RequantPlan)
    assert plan.mode is Mode.HIGH


def test_accumulators_beyond_32_bits_are_refused() -> None:
    requant = Requant((1 << 30,), (-7,), Rounding.TFLITE)
    reach = np.array([1 << 31])
    plan = plan_requant(requant, bias=np.array([0]), raw_lo=-reach, raw_hi=reach, out_zero=0, clamp=Clamp())
    assert isinstance(plan, Refusal)
    assert "32 bits" in plan.reason
