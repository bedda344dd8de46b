# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from kernel_cases import CHANNELS, Array, case, check, extreme_map, random_map, tensor
from kernel_harness import Case, check_cases
from mcufuse.ir import Add, Clamp, Graph, Rounding
from mcufuse.kernels import kernel_of
from mcufuse.kernels.base import LowerContext, Lowered
from mcufuse.kernels.linear_sum import SumMode
from mcufuse.tables import add_parameters
from mcufuse.target import core_by_name

FULL = Clamp()


def add_op(
    scales: tuple[float, float, float],
    zeros: tuple[int, int, int],
    rounding: Rounding,
    clamp: Clamp = FULL,
    subtract: bool = False,
) -> Add:
    lhs, rhs, out = add_parameters(*(float(np.float32(s)) for s in scales), rounding)
    return Add(
        name="add", inputs=("a", "b"), output="y", lhs_zero=zeros[0], rhs_zero=zeros[1], out_zero=zeros[2],
        lhs=lhs, rhs=rhs, out=out, clamp=clamp, subtract=subtract,
    )  # fmt: skip


def random_op(rng: np.random.Generator, rounding: Rounding) -> Add:
    scales = np.exp(rng.uniform(-5, -2, 2))
    out = max(scales) * rng.uniform(0.6, 2.0)
    low = int(rng.choice([-128, -100, 3]))
    high = int(rng.choice([127, 90]))
    zeros = rng.integers(-128, 128, 3)
    return add_op((*scales, out), tuple(zeros.tolist()), rounding, Clamp(low, high), bool(rng.random() < 0.3))


def mode_of(case: Case) -> SumMode:
    (way,) = kernel_of(case.op).lower(case.op, LowerContext(case.graph, core_by_name("cortex-m3")))
    assert isinstance(way, Lowered)
    return SumMode(dict(way.cfg.fields)["mode"])


def pair(op: Add, shape: tuple[int, ...], a: Array, b: Array) -> Case:
    return case(op, [tensor("a", shape), tensor("b", shape)], tensor("y", shape), [a, b])


def all_pairs() -> tuple[Array, Array]:
    q = np.arange(-128, 128, dtype=np.int8)
    a, b = np.meshgrid(q, q, indexing="ij")
    return a.reshape(1, 256, 4, 64), b.reshape(1, 256, 4, 64)


def test_two_maps() -> None:
    rng = np.random.default_rng(2)
    cases = []
    for rounding in Rounding:
        for i, channels in enumerate(CHANNELS):
            shape = (1, 1 + i % 3, 1 + i % 5, channels)
            make = extreme_map if i % 4 == 0 else random_map
            cases.append(pair(random_op(rng, rounding), shape, make(rng, shape), make(rng, shape)))
    check(cases)


@pytest.mark.parametrize("rounding", list(Rounding))
def test_every_pair_of_values(rounding: Rounding) -> None:
    """Halves included: equal scales, powers of two, and scales in general position."""
    a, b = all_pairs()
    scales = [(0.5, 0.5, 1.0), (0.25, 0.25, 0.25), (0.5, 0.25, 1.0), (0.0173, 0.0173, 0.0346), (0.021, 0.013, 0.029)]
    cases = [pair(add_op(s, (3, -5, 7), rounding), a.shape, a, b) for s in scales]
    cases.append(pair(add_op(scales[0], (0, 0, 0), rounding, subtract=True), a.shape, a, b))
    cases.append(pair(add_op((0.03, 0.001, 0.02), (-128, 4, -128), rounding, Clamp(-128, 100)), a.shape, a, b))
    check_cases(cases)
    check_cases(cases, opt="-Os", sanitize=True)


def test_the_exact_arithmetic_behind_the_linear_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no linear function exists the definition runs; here it always does."""
    from mcufuse.kernels import add

    monkeypatch.setattr(add, "find_linear_sum", lambda *_: None)
    rng = np.random.default_rng(3)
    a, b = all_pairs()
    cases = [pair(random_op(rng, rounding), a.shape, a, b) for rounding in Rounding for _ in range(3)]
    cases += [pair(add_op((0.5, 0.5, 1.0), (3, -5, 7), rounding), a.shape, a, b) for rounding in Rounding]
    assert {mode_of(c) for c in cases} == {SumMode.TFLITE, SumMode.TFLITE_SINGLE, SumMode.ONNX}
    check_cases(cases)
    check_cases(cases[::3], opt="-O0", sanitize=True)


def test_linear_modes_are_found() -> None:
    a, b = all_pairs()
    general = pair(add_op((0.021, 0.013, 0.029), (3, -5, 7), Rounding.TFLITE), a.shape, a, b)
    halves = pair(add_op((0.5, 0.5, 1.0), (3, -5, 7), Rounding.TFLITE), a.shape, a, b)
    even = pair(add_op((0.5, 0.5, 1.0), (3, -5, 7), Rounding.ONNX), a.shape, a, b)
    assert mode_of(general) is SumMode.LINEAR
    assert mode_of(halves) is SumMode.LINEAR
    assert mode_of(even) is SumMode.LINEAR_EVEN
    rng = np.random.default_rng(4)
    found = [mode_of(pair(random_op(rng, r), a.shape, a, b)) for r in Rounding for _ in range(10)]
    assert sum(mode <= SumMode.LINEAR_EVEN for mode in found) >= 29


@pytest.mark.parametrize("constant", ["a", "b"])
def test_constant_operand(constant: str) -> None:
    rng = np.random.default_rng(5)
    shape = (1, 3, 4, 6)
    cases = []
    for const_shape in ((6,), (1, 1, 1, 6), (1, 3, 4, 6), (1, 1, 4, 6), (1, 3, 1, 6), (1, 3, 4, 1), (1, 1, 4, 1), ()):
        data = random_map(rng, const_shape)
        operands = [tensor("a", shape), tensor("b", shape)]
        operands["ab".index(constant)] = tensor(constant, const_shape, data=data)
        for rounding in (Rounding.TFLITE, Rounding.ONNX):
            op = random_op(rng, rounding)
            cases.append(case(op, operands, tensor("y", shape), [random_map(rng, shape)]))
    check(cases)


def test_broadcast_activations_and_one_tensor_twice() -> None:
    rng = np.random.default_rng(6)
    shape = (1, 3, 4, 6)
    cases = []
    for other in ((1, 1, 1, 6), (1, 3, 4, 1), (1, 1, 4, 6), (1, 3, 1, 1)):
        op = random_op(rng, Rounding.TFLITE)
        values = [random_map(rng, shape), random_map(rng, other)]
        cases.append(case(op, [tensor("a", shape), tensor("b", other)], tensor("y", shape), values))
    check(cases)
    twice = add_op((0.02, 0.02, 0.03), (1, 1, 2), Rounding.TFLITE)
    twice = Add(**{f: getattr(twice, f) for f in twice.__dataclass_fields__ if f != "inputs"}, inputs=("a", "a"))
    x = random_map(rng, shape)
    graph = Graph("t", {"a": tensor("a", shape), "y": tensor("y", shape)}, (twice,), ("a",), ("y",))
    check_cases([Case(graph, twice, (x, x))])


def test_oracle_is_near_the_real_sum() -> None:
    """An independent float formula: TFLite within its roundings, ONNX exactly but for ratios' 22 bits."""
    rng = np.random.default_rng(7)
    a, b = all_pairs()
    for rounding in Rounding:
        for _ in range(20):
            s = np.exp(rng.uniform(-5, -2, 2))
            out = max(s) * rng.uniform(0.6, 2.0)
            z = rng.integers(-128, 128, 3).tolist()
            c = pair(add_op((s[0], s[1], out), tuple(z), rounding), a.shape, a, b)
            y = kernel_of(c.op).evaluate(c.op, c.graph, [a, b]).astype(float)
            real = ((a.astype(float) - z[0]) * s[0] + (b.astype(float) - z[1]) * s[1]) / out + z[2]
            inside = (real > -127.4) & (real < 126.4)
            assert np.abs(y - real)[inside].max() < 0.5 + 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("rounding", list(Rounding))
def test_many_scales(rounding: Rounding) -> None:
    rng = np.random.default_rng(8)
    a, b = all_pairs()
    check_cases([pair(random_op(rng, rounding), a.shape, a, b) for _ in range(120)])
