# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The element-wise, pooling and softmax kernels on every core's instruction set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kernel_cases import case, random_map, tensor
from kernel_harness import Case
from kernel_target import check_on_target
from mcufuse.ir import Clamp, Lut, Mean, Rounding
from mcufuse.tables import mean_requant
from mcufuse.target import CORES
from test_kernel_add import pair
from test_kernel_add import random_op as random_add
from test_kernel_mul import random_op as random_mul
from test_kernel_pool import avg_case, max_case
from test_kernel_softmax import softmax_case

pytestmark = pytest.mark.qemu


def mean_case(rng: np.random.Generator, height: int, width: int, channels: int, rounding: Rounding | None) -> Case:
    shape = (1, height, width, channels)
    requant = mean_requant(0.02, 0.017, height * width, rounding) if rounding else None
    op = Mean(name="m", inputs=("x",), output="y", in_zero=-7, out_zero=3, requant=requant)
    return case(op, [tensor("x", shape)], tensor("y", (1, channels)), [random_map(rng, shape)])


def all_cases() -> list[Case]:
    rng = np.random.default_rng(1)
    cases = []
    for i, rounding in enumerate(Rounding):
        for channels in (3, 16, 37):
            shape = (1, 2, 3, channels)
            a, b = random_map(rng, shape), random_map(rng, shape)
            cases.append(pair(random_add(rng, rounding), shape, a, b))
            mul = random_mul(rng, rounding)
            cases.append(case(mul, [tensor("a", shape), tensor("b", shape)], tensor("y", shape), [a, b]))
        cases += [avg_case(rng, 4 + 15 * i, rounding), mean_case(rng, 5, 4, 6 + 17 * i, rounding)]
        cases += [softmax_case(rng, (1, 2, 5), 0.1, rounding), softmax_case(rng, (1, 64), 0.05, rounding)]
    clamps = (Clamp(), Clamp(-20, 127), Clamp(-128, 33), Clamp(-3, 40))
    cases += [max_case(rng, channels, clamp) for channels in (2, 16, 39) for clamp in clamps]
    cases += [avg_case(rng, channels, None) for channels in (3, 16, 39)]
    cases += [mean_case(rng, *size, None) for size in ((3, 3, 32), (17, 16, 9), (16, 16, 20), (25, 5, 64))]
    for elements in (5, 33, 300):
        op = Lut(name="f", inputs=("x",), output="y", table=tuple(rng.integers(-128, 128, 256).tolist()))
        x = random_map(rng, (1, 2, elements))
        cases.append(case(op, [tensor("x", x.shape)], tensor("y", x.shape), [x]))
    return cases


@pytest.mark.parametrize("core", [core.name for core in CORES])
def test_kernels_on_target(core: str, tmp_path: Path) -> None:
    check_on_target(all_cases(), core, tmp_path)
