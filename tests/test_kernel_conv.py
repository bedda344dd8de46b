# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Convolution, depthwise and fully connected kernels: C against the oracle on the host."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from kernel_harness import Case, check_cases, lowerings
from kernel_random import conv_case, depthwise_case, fully_connected_case
from mcufuse.ir import Rounding
from mcufuse.kernels import kernel_of
from mcufuse.kernels.base import LowerContext, Lowered
from mcufuse.target import core_by_name


def depthwise_1d_case(rng: np.random.Generator, rounding: Rounding) -> Case:
    """A depthwise convolution with a window one column wide, as networks over time have them."""
    sizes = {"k_h": 17, "h": 24, "w": 3, "in_c": 23}
    picked = {name: int(rng.integers(1, most + 1)) for name, most in sizes.items()}
    return depthwise_case(rng, rounding, k_w=1, multiplier=1, **picked | {"in_c": max(4, picked["in_c"])})


ODD = "mf_conv2d_odd_row_s8_dsp"


def odd_conv_case(rng: np.random.Generator, rounding: Rounding) -> Case:
    """A convolution that `ODD` takes: rows of odd width, whole blocks of channels."""
    while True:
        made = conv_case(rng, rounding, out_c=4 * int(rng.integers(1, 6)), groups=1)
        ways = kernel_of(made.op).lower(made.op, LowerContext(made.graph, core_by_name("cortex-m4")))
        if any(isinstance(way, Lowered) and way.function == ODD for way in ways):
            return made


MAKERS = {
    "conv2d": conv_case, "depthwise": depthwise_case, "depthwise_1d": depthwise_1d_case,
    "fully_connected": fully_connected_case,
}  # fmt: skip


def cases_of(kind: str, seed: int, count: int) -> list[Case]:
    rng = np.random.default_rng([seed, *kind.encode()])
    return [MAKERS[kind](rng, list(Rounding)[i % 3]) for i in range(count)]


def odd_cases(seed: int, count: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    return [odd_conv_case(rng, list(Rounding)[i % 3]) for i in range(count)]


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize(("core", "opt"), [("cortex-m3", "-O0"), ("cortex-m4", "-Os"), ("cortex-m4", "-O2")])
def test_random(kind: str, core: str, opt: str) -> None:
    check_cases(cases_of(kind, 1, 12), core=core, opt=opt)


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("core", ["cortex-m3", "cortex-m4"])
def test_random_sanitized(kind: str, core: str) -> None:
    check_cases(cases_of(kind, 2, 8), core=core, opt="-O1", sanitize=True)


@pytest.mark.parametrize(("opt", "sanitize"), [("-O0", False), ("-O2", False), ("-O1", True)])
def test_rows_of_odd_width(opt: str, sanitize: bool) -> None:
    check_cases(odd_cases(1, 9), core="cortex-m4", opt=opt, sanitize=sanitize, only=ODD)


SIZED_DSP = "depthwise_conv2d_sized_row_s8_dsp"


def depthwise_3x3(seed: int, count: int) -> list[Case]:
    """3x3 windows with strides 1 and 2 that `SIZED_DSP` accepts."""
    rng = np.random.default_rng([seed, 33])
    cases: list[Case] = []
    while len(cases) < count:
        k = len(cases)
        case = depthwise_case(rng, list(Rounding)[k % 3], k_h=3, k_w=3, multiplier=1, dilation=1, stride=1 + k % 2)
        with contextlib.suppress(AssertionError):  # refused: more padding, say
            lowerings(case, "cortex-m4", SIZED_DSP)
            cases.append(case)
    return cases


@pytest.mark.parametrize(("opt", "sanitize"), [("-O1", True), ("-O2", False)])
def test_depthwise_3x3(opt: str, sanitize: bool) -> None:
    check_cases(depthwise_3x3(1, 12), core="cortex-m4", opt=opt, sanitize=sanitize, only=SIZED_DSP)
