# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from kernel_cases import case, check, random_map, tensor
from mcufuse.ir import DType, Slice


def test_slice_equals_oracle() -> None:
    rng = np.random.default_rng(1)
    cases = []
    for i in range(24):
        shape = rng.integers(1, 9, 3).tolist()
        stride = rng.choice([1, 1, 2, 3, -1, -2] if i % 3 == 0 else [1, 1, 2], 3).tolist()
        begin, size = [], []
        for n, s in zip(shape, stride, strict=True):
            b = int(rng.integers(0, n))
            most = (n - 1 - b) // s + 1 if s > 0 else b // -s + 1
            begin.append(b)
            size.append(int(rng.integers(1, most + 1)))
        if i % 4 == 1:  # whole channels
            begin[2], size[2], stride[2] = 0, shape[2], 1
        op = Slice(name="s", inputs=("x",), output="y", begin=tuple(begin), size=tuple(size), stride=tuple(stride))
        dtype = DType.F32 if i % 8 == 7 else DType.S8
        x = random_map(rng, (1, *shape)).astype(dtype.value)
        cases.append(case(op, [tensor("x", x.shape, dtype)], tensor("y", (1, *size), dtype), [x]))
    check(cases)
