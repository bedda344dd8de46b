# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from kernel_cases import case, check, tensor
from mcufuse.ir import Dequantize, DType


def test_dequantize_equals_oracle() -> None:
    cases = []
    for scale, zero, dtype in (
        (1.0, 0, DType.S8),
        (0.0172, -128, DType.S8),
        (1e-5, 127, DType.S8),
        (0.3, 128, DType.U8),
    ):
        low = 0 if dtype is DType.U8 else -128
        x = np.arange(low, low + 256).astype(dtype.value).reshape(1, 8, 4, 8)
        op = Dequantize(name="d", inputs=("x",), output="y", scale=scale, zero=zero)
        cases.append(case(op, [tensor("x", x.shape, dtype)], tensor("y", x.shape, DType.F32), [x]))
    check(cases)
