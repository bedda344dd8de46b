# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from itertools import permutations

import numpy as np

from kernel_cases import case, check, random_map, tensor
from mcufuse.ir import DType, Transpose
from mcufuse.kernels import kernel_of
from mcufuse.kernels.base import LowerContext, Lowered, Whole, Window
from mcufuse.target import core_by_name


def test_transpose_equals_oracle() -> None:
    rng = np.random.default_rng(1)
    cases = []
    for perm in permutations((1, 2, 3)):
        for shape in ((1, 3, 4, 5), (1, 1, 6, 2), (1, 7, 1, 3), (1, 2, 3, 1)):
            op = Transpose(name="t", inputs=("x",), output="y", perm=(0, *perm))
            out = tuple(shape[i] for i in op.perm)
            cases.append(case(op, [tensor("x", shape)], tensor("y", out), [random_map(rng, shape)]))
    for shape, perm in (((1, 5, 7), (0, 2, 1)), ((1, 5, 7), (0, 1, 2)), ((1, 9), (0, 1))):
        op = Transpose(name="t", inputs=("x",), output="y", perm=perm)
        out = tuple(shape[i] for i in perm)
        cases.append(case(op, [tensor("x", shape)], tensor("y", out), [random_map(rng, shape)]))
    op = Transpose(name="t", inputs=("x",), output="y", perm=(0, 3, 1, 2))
    x = rng.normal(size=(1, 3, 4, 5)).astype(np.float32)
    cases.append(case(op, [tensor("x", x.shape, DType.F32)], tensor("y", (1, 5, 3, 4), DType.F32), [x]))
    check(cases)


def test_only_mixed_rows_need_the_whole_map() -> None:
    for perm, access in (((0, 1, 3, 2), Window()), ((0, 3, 1, 2), Whole())):
        op = Transpose(name="t", inputs=("x",), output="y", perm=perm)
        shape = (1, 3, 4, 5)
        c = case(op, [tensor("x", shape)], tensor("y", tuple(shape[i] for i in perm)), [])
        (way,) = kernel_of(op).lower(op, LowerContext(c.graph, core_by_name("m3")))
        assert isinstance(way, Lowered)
        assert way.rows.reads == (access,)
