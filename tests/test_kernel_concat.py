# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from kernel_cases import case, check, random_map, tensor
from mcufuse.ir import Concat
from mcufuse.kernels import kernel_of
from mcufuse.kernels.base import LowerContext, Refusal
from mcufuse.target import core_by_name


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_concat_equals_oracle(axis: int) -> None:
    rng = np.random.default_rng(1)
    cases = []
    for count in (2, 3, 5):
        for base in ((3, 4, 5), (1, 1, 7), (2, 3, 1)):
            names = [f"x{i}" for i in range(count)]
            shapes = []
            for _ in names:
                shape = list(base)
                shape[axis] = int(rng.integers(1, 9))
                shapes.append((1, *shape))
            out = list(base)
            out[axis] = sum(s[1 + axis] for s in shapes)
            op = Concat(name="c", inputs=tuple(names), output="y", axis=axis)
            operands = [tensor(n, s) for n, s in zip(names, shapes, strict=True)]
            cases.append(case(op, operands, tensor("y", (1, *out)), [random_map(rng, s) for s in shapes]))
    check(cases)


def test_too_many_operands_are_refused() -> None:
    names = [f"x{i}" for i in range(17)]
    op = Concat(name="c", inputs=tuple(names), output="y")
    c = case(op, [tensor(n, (1, 1)) for n in names], tensor("y", (1, 17)), [np.zeros((1, 1), np.int8)] * 17)
    (way,) = kernel_of(op).lower(op, LowerContext(c.graph, core_by_name("m3")))
    assert isinstance(way, Refusal)
    assert "17 operands" in way.reason
