# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from kernel_cases import CHANNELS, case, check, random_map, tensor
from mcufuse.ir import ResizeNearest


def test_resize_equals_oracle() -> None:
    rng = np.random.default_rng(1)
    cases = []
    for i, channels in enumerate(CHANNELS):
        height, width = int(rng.integers(1, 5)), int(rng.integers(1, 6))
        if i % 2:
            rows = tuple(np.repeat(np.arange(height), 2).tolist())
            columns = tuple(np.repeat(np.arange(width), 1 + i % 3).tolist())
        else:
            rows = tuple(np.sort(rng.integers(0, height, 7)).tolist())
            columns = tuple(np.sort(rng.integers(0, width, 5)).tolist())
        op = ResizeNearest(name="r", inputs=("x",), output="y", rows=rows, columns=columns)
        shape = (1, height, width, channels)
        out = (1, len(rows), len(columns), channels)
        cases.append(case(op, [tensor("x", shape)], tensor("y", out), [random_map(rng, shape)]))
    check(cases)
