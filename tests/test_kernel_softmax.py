# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from kernel_cases import case, check, extreme_map, random_map, tensor
from kernel_harness import Case
from mcufuse.ir import Rounding, Softmax
from mcufuse.kernels import kernel_of
from mcufuse.tables import softmax_exponents, softmax_inverse


def softmax_case(
    rng: np.random.Generator, shape: tuple[int, ...], scale: float, rounding: Rounding, out_scale: float = 1 / 256
) -> Case:
    op = Softmax(
        name="s", inputs=("x",), output="y", rounding=rounding, exponents=softmax_exponents(scale, 1.0, rounding),
        out_zero=-128, out_inverse=softmax_inverse(out_scale),
    )  # fmt: skip
    make = extreme_map if rng.random() < 0.3 else random_map
    return case(op, [tensor("x", shape)], tensor("y", shape), [make(rng, shape)])


def test_softmax_equals_oracle() -> None:
    rng = np.random.default_rng(1)
    shapes = ((1, 10), (1, 2), (1, 1), (1, 12), (1, 3, 4, 5), (1, 300), (1, 7, 3))
    scales = (0.003, 0.17, 1.5)
    cases = []
    for rounding in Rounding:
        cases += [softmax_case(rng, shape, scales[i % 3], rounding) for i, shape in enumerate(shapes)]
        x = np.zeros((1, 64), np.int8)
        cases.append(case(cases[-1].op, [tensor("x", x.shape)], tensor("y", x.shape), [x]))
    check(cases)


@pytest.mark.parametrize("rounding", list(Rounding))
def test_oracle_is_within_one_of_float_softmax(rounding: Rounding) -> None:
    rng = np.random.default_rng(2)
    for channels in (1, 2, 3, 10, 100, 300):
        for scale in (0.002, 0.02, 0.1, 0.7, 3.0):
            for out_scale in (1 / 256,) if rounding is not Rounding.ONNX else (1 / 256, 1 / 255, 0.0021, 1 / 127):
                c = softmax_case(rng, (1, channels), scale, rounding, out_scale)
                x = random_map(rng, (50, channels))
                y = np.stack([kernel_of(c.op).evaluate(c.op, c.graph, [row[None]])[0] for row in x])
                e = np.exp(scale * (x.astype(float) - x.max(axis=1, keepdims=True)))
                real = np.clip(np.rint(e / e.sum(axis=1, keepdims=True) / out_scale) - 128, -128, 127)
                assert np.abs(y - real).max() <= 1, (channels, scale, out_scale)
                if rounding is Rounding.ONNX:  # only halves, where float64 itself is not exact
                    share = e / e.sum(axis=1, keepdims=True) / out_scale
                    halves = np.abs(share - np.floor(share) - 0.5) < 1e-3
                    assert (y == real)[~halves].all()
