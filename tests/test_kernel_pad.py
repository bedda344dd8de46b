# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from kernel_cases import CHANNELS, case, check, random_map, tensor
from mcufuse.ir import Pad, Padding


def test_pad_equals_oracle() -> None:
    rng = np.random.default_rng(1)
    cases = []
    for i, c in enumerate(CHANNELS):
        height, width = 1 + i % 3, 1 + i % 4
        p = Padding(*rng.integers(0, 3, 4).tolist())
        before, after = (rng.integers(0, 3, 2) * (i % 2)).tolist()
        op = Pad(
            name="p", inputs=("x",), output="y", padding=p, channels=(before, after), value=int(rng.integers(-128, 128))
        )
        out = (1, height + p.top + p.bottom, width + p.left + p.right, c + before + after)
        shape = (1, height, width, c)
        cases.append(case(op, [tensor("x", shape)], tensor("y", out), [random_map(rng, shape)]))
    check(cases)
