# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Convolution, depthwise and fully connected kernels: C against the oracle on the host."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_harness import Case, check_cases
from kernel_random import conv_case, depthwise_case, fully_connected_case
from mcufuse.ir import Rounding

MAKERS = {"conv2d": conv_case, "depthwise": depthwise_case, "fully_connected": fully_connected_case}


def cases_of(kind: str, seed: int, count: int) -> list[Case]:
    rng = np.random.default_rng([seed, *kind.encode()])
    return [MAKERS[kind](rng, list(Rounding)[i % 3]) for i in range(count)]


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize(("core", "opt"), [("cortex-m3", "-O0"), ("cortex-m4", "-Os"), ("cortex-m4", "-O2")])
def test_random(kind: str, core: str, opt: str) -> None:
    check_cases(cases_of(kind, 1, 12), core=core, opt=opt)


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("core", ["cortex-m3", "cortex-m4"])
def test_random_sanitized(kind: str, core: str) -> None:
    check_cases(cases_of(kind, 2, 8), core=core, opt="-O1", sanitize=True)
