# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Random maps and graphs of one operator for the kernel tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kernel_harness import Case, check_cases, single_op_graph
from mcufuse.arith import quantize_multiplier
from mcufuse.ir import DType, Op, Requant, Rounding, Tensor

__all__ = ["CHANNELS", "OPTS", "case", "check", "extreme_map", "random_map", "requant_of", "tensor"]

Array = npt.NDArray[Any]

CHANNELS = (1, 3, 4, 7, 8, 31, 64, 2, 5)
OPTS = ("-Os", "-O3")


def random_map(rng: np.random.Generator, shape: Sequence[int], dtype: DType = DType.S8) -> Array:
    """Uniform values, with more of both extremes than chance gives."""
    low, high = (0, 256) if dtype is DType.U8 else (-128, 128)
    data = rng.integers(low, high, tuple(shape))
    edge = rng.random(tuple(shape))
    data = np.where(edge < 0.05, low, np.where(edge > 0.95, high - 1, data))
    return data.astype(dtype.value)


def extreme_map(rng: np.random.Generator, shape: Sequence[int]) -> Array:
    """Only the least and the greatest value."""
    return rng.choice(np.array([-128, 127], np.int8), tuple(shape))


def tensor(name: str, shape: Sequence[int], dtype: DType = DType.S8, data: Array | None = None) -> Tensor:
    return Tensor(name, tuple(shape), dtype, data=data)


def case(op: Op, operands: Sequence[Tensor], output: Tensor, values: Sequence[Array]) -> Case:
    """A case; `values` are the activation operands."""
    return Case(single_op_graph(op, operands, output), op, tuple(values))


def requant_of(real: float, rounding: Rounding) -> Requant:
    multiplier, shift = quantize_multiplier(real)
    return Requant((multiplier,), (shift,), rounding)


def check(cases: Sequence[Case], **options: Any) -> None:
    """All cases at several optimisation levels, the first one with sanitizers."""
    check_cases(cases, opt="-O0", sanitize=True, **options)
    for opt in OPTS:
        check_cases(cases, opt=opt, **options)
