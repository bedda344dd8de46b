# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The kernels with vector instructions: their C on the host, and the instructions on the emulated Cortex-M55.

MCUFUSE_FUZZ_ROUNDS=n tries n times as many random cases.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kernel_harness import Case, check_cases
from kernel_random import conv_case, depthwise_case, fully_connected_case
from kernel_target import check_on_target
from mcufuse.ir import Rounding
from mcufuse.kernels import kernel_of
from mcufuse.kernels.base import LowerContext, Lowered
from mcufuse.target import core_by_name

CORE = "cortex-m55"
ROUNDS = int(os.environ.get("MCUFUSE_FUZZ_ROUNDS", "1"))
Rng = np.random.Generator

# channel counts around the vectors' lanes, and large ones
CHANNELS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 64, 100, 129, 300)


def conv(rng: Rng, rounding: Rounding, i: int) -> Case:
    """Every third case has many channels, alternately in and out."""
    fixed: dict[str, int] = {}
    if i % 3 == 1:
        fixed = {"in_c": int(rng.choice(CHANNELS)), "out_c": int(rng.integers(1, 9)), "groups": 1, "w": 3, "h": 3}
    elif i % 3 == 2:
        fixed = {"out_c": int(rng.choice(CHANNELS)), "in_c": int(rng.integers(1, 9)), "groups": 1, "w": 3, "h": 3}
    return conv_case(rng, rounding, **fixed)


def depthwise(rng: Rng, rounding: Rounding, i: int) -> Case:
    """One output for each input channel, mostly windows of three columns."""
    fixed = {"in_c": int(rng.choice(CHANNELS)), "multiplier": 1}
    if i % 2:
        fixed |= {"k_h": 3, "k_w": 3, "stride": 1 + i // 2 % 2, "dilation": 1}
    return depthwise_case(rng, rounding, **fixed)


def fully_connected(rng: Rng, rounding: Rounding, i: int) -> Case:
    """Depths and channels of all remainders."""
    return fully_connected_case(rng, rounding, depth=1 + i * 7 % 300, out_c=int(rng.choice(CHANNELS[:15])))


MAKERS: dict[str, Callable[[Rng, Rounding, int], Case]] = {
    "conv2d": conv,
    "depthwise": depthwise,
    "fully_connected": fully_connected,
}


def has_vectors(case: Case) -> bool:
    """Whether there is a lowering to vectors."""
    ways = kernel_of(case.op).lower(case.op, LowerContext(case.graph, core_by_name(CORE)))
    return any(isinstance(way, Lowered) and way.function.endswith("_mve") for way in ways)


def cases_of(kind: str, seed: int, count: int) -> list[Case]:
    """`count` random cases that vectors can do."""
    rng = np.random.default_rng([seed, *kind.encode()])
    cases: list[Case] = []
    i = 0
    while len(cases) < count:
        case = MAKERS[kind](rng, list(Rounding)[i % 3], i)
        cases += [case] if has_vectors(case) else []
        i += 1
        assert i < 50 * count, f"vectors refuse nearly every {kind}"
    return cases


@pytest.mark.parametrize("kind", MAKERS)
def test_layouts_on_the_host(kind: str) -> None:
    check_cases(cases_of(kind, 3, 10), core=CORE, opt="-O1", sanitize=True, only="_mve")


@pytest.mark.qemu
@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("opt", ["-O2", "-O0"])
def test_instructions_on_the_target(kind: str, opt: str, tmp_path: Path) -> None:
    for seed in range(ROUNDS):
        check_on_target(cases_of(kind, 10 + seed, 24 if opt == "-O2" else 8), CORE, tmp_path, opt, only="_mve")
