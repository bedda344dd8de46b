# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from kernel_cases import CHANNELS, case, check, extreme_map, random_map, requant_of, tensor
from kernel_harness import check_cases
from mcufuse.ir import Clamp, Mul, Rounding
from mcufuse.kernels import kernel_of


def random_op(rng: np.random.Generator, rounding: Rounding, real: float | None = None) -> Mul:
    zeros = rng.integers(-128, 128, 3).tolist()
    real = float(np.exp(rng.uniform(-8, -3))) if real is None else real
    clamp = Clamp(int(rng.choice([-128, -20])), int(rng.choice([127, 60])))
    return Mul(
        name="mul", inputs=("a", "b"), output="y", lhs_zero=zeros[0], rhs_zero=zeros[1], out_zero=zeros[2],
        requant=requant_of(real, rounding), clamp=clamp,
    )  # fmt: skip


def test_two_maps() -> None:
    rng = np.random.default_rng(1)
    cases = []
    for rounding in Rounding:
        for i, channels in enumerate(CHANNELS):
            shape = (1, 1 + i % 3, 1 + i % 4, channels)
            make = extreme_map if i % 4 == 0 else random_map
            real = (2.0**-7, 1.0, 1e-9)[i // 4] if i % 4 == 1 else None
            op = random_op(rng, rounding, real)
            cases.append(case(op, [tensor("a", shape), tensor("b", shape)], tensor("y", shape), [make(rng, shape)] * 2))
    check(cases)


@pytest.mark.parametrize("gate", ["a", "b"])
def test_gates_and_constants(gate: str) -> None:
    rng = np.random.default_rng(2)
    shape = (1, 3, 4, 6)
    cases = []
    for small in ((1, 1, 1, 6), (1, 3, 4, 1), (1, 6)):
        for is_const in (False, True):
            op = random_op(rng, Rounding.TFLITE)
            value = random_map(rng, small)
            operands = [tensor("a", shape), tensor("b", shape)]
            operands["ab".index(gate)] = tensor(gate, small, data=value if is_const else None)
            values = [random_map(rng, shape)]
            if not is_const:
                values.insert("ab".index(gate), value)
            cases.append(case(op, operands, tensor("y", shape), values))
    check(cases)


@pytest.mark.parametrize("rounding", list(Rounding))
def test_every_pair_of_values(rounding: Rounding) -> None:
    rng = np.random.default_rng(3)
    q = np.arange(-128, 128, dtype=np.int8)
    a, b = (m.reshape(1, 256, 4, 64) for m in np.meshgrid(q, q, indexing="ij"))
    cases = []
    for real in (None, 2.0**-6, 2.0**-8, 0.0131):
        op = random_op(rng, rounding, real)
        cases.append(case(op, [tensor("a", a.shape), tensor("b", a.shape)], tensor("y", a.shape), [a, b]))
    check_cases(cases)


def test_oracle_is_near_the_real_product() -> None:
    rng = np.random.default_rng(4)
    a, b = random_map(rng, (1, 9, 9, 9)), random_map(rng, (1, 9, 9, 9))
    for rounding in Rounding:
        op = random_op(rng, rounding, 0.004)
        c = case(op, [tensor("a", a.shape), tensor("b", a.shape)], tensor("y", a.shape), [a, b])
        y = kernel_of(op).evaluate(op, c.graph, [a, b]).astype(float)
        real = (a.astype(float) - op.lhs_zero) * (b.astype(float) - op.rhs_zero) * 0.004 + op.out_zero
        inside = (real > op.clamp.lo + 0.6) & (real < op.clamp.hi - 0.6)
        assert np.abs(y - real)[inside].max() <= 0.5 + 2.0**-6
