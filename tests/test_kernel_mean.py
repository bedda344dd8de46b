# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from kernel_cases import CHANNELS, case, check, extreme_map, random_map, requant_of, tensor
from mcufuse.ir import Clamp, Mean, Rounding
from mcufuse.kernels import kernel_of
from mcufuse.tables import mean_requant

SIZES = ((1, 1), (3, 3), (8, 8), (25, 5), (16, 16), (17, 16), (1, 300), (300, 1), (2, 7))


def test_division() -> None:
    rng = np.random.default_rng(1)
    cases = []
    for i, (height, width) in enumerate(SIZES):
        channels = CHANNELS[i]
        shape = (1, height, width, channels)
        op = Mean(name="m", inputs=("x",), output="y", clamp=Clamp(-128 + 100 * (i % 2), 127))
        make = (random_map, extreme_map, lambda _, s: np.full(s, -128, np.int8))[i % 3]
        cases.append(case(op, [tensor("x", shape)], tensor("y", (1, 1, 1, channels)), [make(rng, shape)]))
    check(cases)


def test_scales() -> None:
    rng = np.random.default_rng(2)
    cases = []
    for rounding in Rounding:
        for i, (height, width) in enumerate(SIZES):
            channels = (64, 1, 6, 300)[i % 4]
            shape = (1, height, width, channels) if i % 2 else (1, height * width, channels)
            zeros = rng.integers(-128, 128, 2).tolist()
            requant = mean_requant(0.02, 0.02 * float(rng.uniform(0.3, 1.5)), height * width, rounding)
            op = Mean(name="m", inputs=("x",), output="y", in_zero=zeros[0], out_zero=zeros[1], requant=requant)
            cases.append(case(op, [tensor("x", shape)], tensor("y", (1, channels)), [random_map(rng, shape)]))
    check(cases)


def test_halves() -> None:
    """Sums 6 and -6 times 1/4. TFLite's own roundings differ from each other and from a division."""
    x = np.array([[2, -2], [4, -4]], np.int8).reshape(1, 2, 1, 2)
    cases = []
    expected = {Rounding.TFLITE: [2, -2], Rounding.TFLITE_SINGLE: [2, -1], Rounding.ONNX: [2, -2], None: [2, -2]}
    for rounding, result in expected.items():
        op = Mean(name="m", inputs=("x",), output="y", requant=requant_of(0.25, rounding) if rounding else None)
        data = x if rounding else x // 2  # 3 / 2 and -3 / 2
        cases.append(case(op, [tensor("x", x.shape)], tensor("y", (1, 1, 1, 2)), [data]))
        assert kernel_of(op).evaluate(op, cases[-1].graph, [data]).ravel().tolist() == result
    check(cases)
