# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from kernel_cases import CHANNELS, case, check, random_map, requant_of, tensor
from mcufuse.ir import PRelu, Rounding


def test_prelu_equals_oracle() -> None:
    rng = np.random.default_rng(1)
    cases = []
    for rounding in Rounding:
        for i, channels in enumerate(CHANNELS):
            shape = (1, 1 + i % 3, 1 + i % 4, channels)
            alpha_shape = ((channels,), (1, 1, channels), shape[1:], (1,))[i % 4]
            zeros = (int(rng.choice([-128, 127, 5])), *rng.integers(-128, 128, 2).tolist())
            op = PRelu(
                name="p", inputs=("x", "alpha"), output="y", in_zero=zeros[0], alpha_zero=zeros[1], out_zero=zeros[2],
                positive=requant_of(float(rng.uniform(0.3, 3)), rounding),
                negative=requant_of(float(rng.uniform(0.001, 0.01)), rounding),
            )  # fmt: skip
            alpha = tensor("alpha", alpha_shape, data=random_map(rng, alpha_shape))
            cases.append(case(op, [tensor("x", shape), alpha], tensor("y", shape), [random_map(rng, shape)]))
    check(cases)
