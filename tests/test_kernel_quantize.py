# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from kernel_cases import case, check, tensor
from mcufuse.ir import DType, Quantize, Rounding
from mcufuse.kernels import kernel_of


def test_quantize_equals_oracle() -> None:
    rng = np.random.default_rng(1)
    cases = []
    for rounding in Rounding:
        special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, 1e-40, 3.4e38, 1023.9, 1024.0, -1024.0]
        halves = np.arange(-260, 260, dtype=np.float32) / 2
        for scale, zero, dtype in (
            (1.0, 0, DType.S8),
            (0.5, -128, DType.S8),
            (0.0172, 5, DType.S8),
            (0.25, 128, DType.U8),
        ):
            noise = rng.normal(size=996) * 100 * scale
            x = np.concatenate([np.float32(special), halves * np.float32(scale), noise.astype(np.float32)])
            x = x.astype(np.float32).reshape(1, 8, -1, 1)
            op = Quantize(name="q", inputs=("x",), output="y", scale=scale, zero=zero, rounding=rounding)
            cases.append(case(op, [tensor("x", x.shape, DType.F32)], tensor("y", x.shape, dtype), [x]))
    check(cases)


def test_halves() -> None:
    x = np.array([[0.5, 1.5, 2.5, -0.5, -1.5, -2.5]], np.float32)
    for rounding, expected in ((Rounding.ONNX, [0, 2, 2, 0, -2, -2]), (Rounding.TFLITE, [1, 2, 3, -1, -2, -3])):
        op = Quantize(name="q", inputs=("x",), output="y", scale=1.0, zero=0, rounding=rounding)
        c = case(op, [tensor("x", x.shape, DType.F32)], tensor("y", x.shape), [x])
        assert kernel_of(op).evaluate(op, c.graph, [x]).ravel().tolist() == expected
