# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Convolution, depthwise and fully connected kernels on every core's instruction set, in QEMU."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernel_target import check_on_target
from mcufuse.target import CORES
from test_kernel_conv import MAKERS, SIZED_DSP, cases_of, depthwise_3x3, odd_cases

pytestmark = pytest.mark.qemu


@pytest.mark.parametrize("core", [core.name for core in CORES if core.name not in ("cortex-m7", "cortex-m33")])
def test_cores(core: str, tmp_path: Path) -> None:
    check_on_target([case for kind in MAKERS for case in cases_of(kind, 3, 5)] + odd_cases(3, 3), core, tmp_path)


@pytest.mark.parametrize(("core", "opt"), [("cortex-m4", "-O2"), ("cortex-m4", "-Os"), ("cortex-m55", "-Os")])
def test_depthwise_3x3(core: str, opt: str, tmp_path: Path) -> None:
    check_on_target(depthwise_3x3(2, 12), core, tmp_path, opt, only=SIZED_DSP)


def test_assembly_finds_its_registers(tmp_path: Path) -> None:
    """A layer whose run-time sizes leave the compiler few registers."""
    check_on_target(cases_of("conv2d", 4, 6)[3:4], "cortex-m55", tmp_path, "-Os", only="sized_row_s8_dsp")


@pytest.mark.slow
@pytest.mark.parametrize("opt", ["-O0", "-Os", "-O3"])
@pytest.mark.parametrize("core", [core.name for core in CORES])
@pytest.mark.parametrize("kind", MAKERS)
def test_more(kind: str, core: str, opt: str, tmp_path: Path) -> None:
    check_on_target(cases_of(kind, 4, 6), core, tmp_path, opt)
