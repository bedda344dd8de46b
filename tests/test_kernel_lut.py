# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from kernel_cases import case, check, random_map, tensor
from mcufuse.ir import DType, Lut


def test_lut_equals_oracle() -> None:
    rng = np.random.default_rng(1)
    cases = []
    for shape in ((1, 3, 5, 7), (1, 1, 1, 1), (1, 4, 3, 8), (1, 300), (1, 2, 9)):
        for source in (DType.S8, DType.U8):
            for target in (DType.S8, DType.U8):
                low = -128 if target is DType.S8 else 0
                op = Lut(name="f", inputs=("x",), output="y", table=tuple(rng.integers(low, low + 256, 256).tolist()))
                x = random_map(rng, shape, source)
                cases.append(case(op, [tensor("x", shape, source)], tensor("y", shape, target), [x]))
    check(cases)


def test_lut_is_indexed_by_value() -> None:
    op = Lut(name="f", inputs=("x",), output="y", table=tuple(range(-128, 128)))
    x = np.arange(-128, 128, dtype=np.int8).reshape(1, 16, 16)
    check([case(op, [tensor("x", x.shape)], tensor("y", x.shape), [x])])
    doubled = Lut(name="f", inputs=("x",), output="y", table=tuple(min(2 * i, 127) for i in range(-64, 192)))
    c = case(doubled, [tensor("x", x.shape)], tensor("y", x.shape), [x])
    from kernel_harness import run_op

    assert run_op(c.graph, c.op, c.inputs).ravel()[128] == 127  # entry of value 0: 2 * 64, limited
