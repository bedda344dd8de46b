# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Tables against independent float formulas; the comparison with TFLite Micro's bits is test_tflm_parity.py."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from mcufuse import fixedpoint, tables
from mcufuse.ir import DType, Rounding
from mcufuse.tables import Affine, Table

SIGMOID_OUT = Affine(1 / 256, -128)
TANH_OUT = Affine(1 / 128, 0)

Function = Callable[[float], float]


def real_table(function: Function, x: Affine, y: Affine) -> np.ndarray:
    """Unrounded, unlimited outputs in units of y."""
    return np.array([function(x.scale * (q - x.zero)) / y.scale + y.zero for q in x.values.tolist()])


def assert_near(table: Table, function: Function, x: Affine, y: Affine, distance: float) -> None:
    low, high = y.bounds
    expected = np.clip(real_table(function, x, y), low, high)
    assert np.abs(np.array(table) - expected).max() <= distance


FUNCTIONS: dict[str, tuple[Callable[[Affine, Affine, Rounding], Table], Function]] = {
    "sigmoid": (tables.sigmoid, lambda v: 1 / (1 + math.exp(-v))),
    "tanh": (tables.tanh, math.tanh),
    "hard_swish": (tables.hard_swish, lambda v: v * min(max(v + 3, 0), 6) / 6),
    "hard_sigmoid": (tables.hard_sigmoid, lambda v: min(max(0.2 * v + 0.5, 0), 1)),
    "elu": (tables.elu, lambda v: v if v >= 0 else math.expm1(v)),
    "silu": (tables.silu, lambda v: v / (1 + math.exp(-v))),
    "gelu": (tables.gelu, lambda v: v * 0.5 * math.erfc(-v / math.sqrt(2))),
    "leaky_relu": (lambda x, y, r: tables.leaky_relu(x, y, r, 0.1), lambda v: v if v >= 0 else 0.1 * v),
    "relu": (lambda x, y, r: tables.clip(x, y, r, 0, None), lambda v: max(v, 0)),
    "relu6": (lambda x, y, r: tables.clip(x, y, r, 0, 6), lambda v: min(max(v, 0), 6)),
    "requant": (tables.requant, lambda v: v),
}


@pytest.mark.parametrize("rounding", list(Rounding))
@pytest.mark.parametrize("name", FUNCTIONS)
def test_table_is_the_function(name: str, rounding: Rounding) -> None:
    build, function = FUNCTIONS[name]
    for scale, zero in ((0.05, 3), (0.002, -128), (0.11, 127), (1 / 16, 0)):
        for dtype in (DType.S8, DType.U8):
            x = Affine(float(np.float32(scale)), zero + (128 if dtype is DType.U8 else 0), dtype)
            y = {"sigmoid": SIGMOID_OUT, "tanh": TANH_OUT}.get(name, Affine(float(np.float32(0.9 * scale)), -20))
            distance = 0.52
            if rounding is not Rounding.ONNX:  # TFLite's int16 hard-swish, and its two roundings at small slopes
                distance = {"hard_swish": 2.0, "leaky_relu": 0.57}.get(name, distance)
            assert_near(build(x, y, rounding), function, x, y, distance)


def test_halves() -> None:
    x, y = Affine(0.5, 0), Affine(1.0, 0)
    even, away = (tables.requant(x, y, r) for r in (Rounding.ONNX, Rounding.TFLITE))
    assert [even[128 + q] for q in (1, 3, 5, -1, -3)] == [0, 2, 2, 0, -2]
    assert [away[128 + q] for q in (1, 3, 5)] == [1, 2, 3]


def test_recode_and_compose() -> None:
    to_signed, to_unsigned = tables.recode(DType.U8, DType.S8), tables.recode(DType.S8, DType.U8)
    assert to_signed == tuple(range(-128, 128))
    assert to_unsigned == tuple(range(256))
    square = tuple((q * q) % 127 for q in range(-128, 128))
    assert tables.compose(to_signed, square) == square
    assert tables.compose(square, square) == tuple(square[128 + q] for q in square)
    assert tables.compose(to_unsigned, square, middle=DType.U8) == square
    x, y = Affine(0.3, 5), Affine(0.3, 133, DType.U8)
    for rounding in Rounding:
        assert tables.requant(x, y, rounding) == to_unsigned


def test_what_tflite_has_no_kernel_for_is_refused() -> None:
    x = Affine(0.1, 0)
    with pytest.raises(ValueError, match=r"LOGISTIC: output scale 0\.1"):
        tables.sigmoid(x, x, Rounding.TFLITE)
    with pytest.raises(ValueError, match="TANH"):
        tables.tanh(x, SIGMOID_OUT, Rounding.TFLITE)
    with pytest.raises(ValueError, match="HARD_SWISH"):
        tables.hard_swish(x, Affine(1e-5, 0), Rounding.TFLITE)
    with pytest.raises(ValueError, match="SOFTMAX"):
        tables.softmax_exponents(1e-9, 1.0, Rounding.TFLITE)
    with pytest.raises(ValueError, match="output scale"):
        tables.softmax_inverse(2.0)


def test_fixed_point_functions_are_near_the_real_ones() -> None:
    rng = np.random.default_rng(1)
    for bits in range(6):
        a = -rng.integers(0, 1 << 31, 2000)
        error = fixedpoint.exp_on_negative(a, bits) / 2.0**31 - np.exp(a / 2.0 ** (31 - bits))
        assert np.abs(error).max() < 5e-7
    a = rng.integers(-(1 << 31) + 1, 1 << 31, 2000)
    real = a / 2.0**27
    assert np.abs(fixedpoint.logistic(a, 4) / 2.0**31 - 1 / (1 + np.exp(-real))).max() < 2e-7
    assert np.abs(fixedpoint.tanh(a, 4) / 2.0**31 - np.tanh(real)).max() < 5e-7
    b = rng.integers(0, 1 << 31, 2000)
    assert np.abs(fixedpoint.reciprocal_of_one_plus(b) / 2.0**31 - 1 / (1 + b / 2.0**31)).max() < 1e-8


def test_mean_requant_is_the_ratio() -> None:
    for rounding in Rounding:
        for count in (1, 3, 49, 125, 1000):
            r = tables.mean_requant(0.02, 0.013, count, rounding)
            real = r.multiplier[0] * 2.0 ** (r.shift[0] - 31)
            assert abs(real / (0.02 / 0.013 / count) - 1) < 1e-8


def test_add_parameters_stay_in_their_bounds() -> None:
    rng = np.random.default_rng(2)
    for _ in range(300):
        scales = np.exp(rng.uniform(-12, 3, 3)).tolist()
        lhs, rhs, out = tables.add_parameters(*scales, Rounding.ONNX)
        assert out is None
        assert lhs.shift == rhs.shift
        assert max(lhs.multiplier[0], rhs.multiplier[0]) < 1 << 22
        if -31 < lhs.shift[0] <= 0:
            greater = max(scales[:2]) / scales[2]
            assert abs(max(lhs.multiplier[0], rhs.multiplier[0]) * 2.0 ** lhs.shift[0] / greater - 1) < 2**-20


@pytest.mark.ort
def test_onnx_tables_against_onnx_runtime_functions() -> None:
    """ONNX Runtime's own float kernels, quantized by its QuantizeLinear: at most one unit, at most 1% of values."""
    import onnx.helper as h
    import onnxruntime as ort
    from onnx import TensorProto

    ops = {"Sigmoid": tables.sigmoid, "Tanh": tables.tanh, "HardSwish": tables.hard_swish, "Elu": tables.elu}
    for kind, build in ops.items():
        x, y = Affine(float(np.float32(0.043)), 11), Affine(float(np.float32(0.031)), -9)
        nodes = [
            h.make_node("DequantizeLinear", ["x", "xs", "xz"], ["xf"]),
            h.make_node(kind, ["xf"], ["yf"]),
            h.make_node("QuantizeLinear", ["yf", "ys", "yz"], ["y"]),
        ]
        constants = [
            h.make_tensor("xs", TensorProto.FLOAT, [], [x.scale]), h.make_tensor("xz", TensorProto.INT8, [], [x.zero]),
            h.make_tensor("ys", TensorProto.FLOAT, [], [y.scale]), h.make_tensor("yz", TensorProto.INT8, [], [y.zero]),
        ]  # fmt: skip
        value = [h.make_tensor_value_info(name, TensorProto.INT8, [256]) for name in "xy"]
        graph = h.make_graph(nodes, kind, value[:1], value[1:], constants)
        model = h.make_model(graph, opset_imports=[h.make_opsetid("", 14)], ir_version=8)
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = ort.InferenceSession(model.SerializeToString(), options)
        (got,) = session.run(None, {"x": x.values.astype(np.int8)})
        difference = np.abs(got.astype(int) - np.array(build(x, y, Rounding.ONNX)))
        assert difference.max() <= 1
        assert (difference != 0).mean() <= 0.01
