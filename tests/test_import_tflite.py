# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The TFLite importer: what it builds, and what it refuses with which words."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcufuse import importers
from mcufuse.errors import UserError
from mcufuse.importers import load_model
from mcufuse.importers.limits import MAX_FILE_BYTES
from mcufuse.importers.tflite import import_tflite
from mcufuse.importers.tflite_ops import OPERATORS, markdown
from mcufuse.importers.tflite_ops_base import ir_shape, same_padding
from mcufuse.ir import (
    Add,
    AvgPool2D,
    Conv2D,
    DepthwiseConv2D,
    Dequantize,
    DType,
    FullyConnected,
    Graph,
    Lut,
    Mean,
    Padding,
    Quantize,
    Reshape,
    Rounding,
    Slice,
    Softmax,
    Transpose,
)
from mcufuse.oracle import evaluate
from tflite_builder import TfliteBuilder
from tflite_cases import CASES

PATH = Path("model.tflite")


def load(data: bytes, rounding: Rounding | None = None) -> Graph:
    return import_tflite(PATH, data, rounding)


def refusal(data: bytes) -> str:
    with pytest.raises(UserError) as caught:
        load(data)
    return str(caught.value)


def conv(m: TfliteBuilder, x: int, y: int, **changes: Any) -> None:
    """A 1x1 convolution from 2 to 2 channels whose parts can be changed."""
    weights = {"scale": 0.01, "data": [[[[1, 2]]], [[[3, 4]]]], **changes.pop("weights", {})}
    k = m.tensor((2, 1, 1, 2), changes.pop("weights_type", "INT8"), **weights)
    m.op("CONV_2D", [x, k], [y], "Conv2DOptions", **{"StrideH": 1, "StrideW": 1, **changes})


def conv_model(x_quant: dict[str, Any] | None = None, y_quant: dict[str, Any] | None = None, **changes: Any) -> bytes:
    m = TfliteBuilder()
    x = m.tensor((1, 3, 3, 2), **(x_quant if x_quant is not None else {"scale": 0.1, "zero": 1}))
    y = m.tensor((1, 3, 3, 2), **(y_quant if y_quant is not None else {"scale": 0.1, "zero": 2}))
    conv(m, x, y, **changes)
    return m.build([x], [y])


def unary_model(kind: str, shape: tuple[int, ...] = (1, 4), out: tuple[int, ...] | None = None, **fields: Any) -> bytes:
    m = TfliteBuilder()
    x = m.tensor(shape, scale=0.1, zero=0, name="in")
    y = m.tensor(shape if out is None else out, scale=0.1, zero=0, name="out")
    m.op(kind, [x], [y], **fields)
    return m.build([x], [y])


# What it builds


def test_kws_as_a_graph(models: Path) -> None:
    graph = load_model(models / "kws_int8.tflite", None)
    kinds = [type(op) for op in graph.ops]
    assert kinds == [Conv2D, *[DepthwiseConv2D, Conv2D] * 4, AvgPool2D, Reshape, FullyConnected, Softmax]
    first, last = graph.ops[0], graph.ops[-1]
    assert isinstance(first, Conv2D)
    assert (first.stride, first.padding, first.in_zero, first.out_zero) == ((2, 2), Padding(4, 1, 5, 1), 83, -128)
    assert len(first.requant) == 64
    assert first.requant.rounding is Rounding.TFLITE
    assert first.origin == ("0 CONV_2D",)
    assert isinstance(last, Softmax)
    assert graph.name == "kws_int8"
    assert graph.tensors[graph.inputs[0]].shape == (1, 49, 10, 1)
    assert graph.tensors[graph.outputs[0]].quant is not None


@pytest.mark.parametrize("name", ["kws", "ic", "vww", "ad", "sww"])
def test_networks_import_with_single_rounding(name: str, models: Path) -> None:
    graph = load_model(models / f"{name}_int8.tflite", Rounding.TFLITE_SINGLE)
    x = np.zeros(graph.tensors[graph.inputs[0]].shape, np.int8)
    (single,) = evaluate(graph, [x])
    (double,) = evaluate(load_model(models / f"{name}_int8.tflite", None), [x])
    assert np.abs(single.astype(int) - double).max() < 40  # single rounding differs by 1 LSB here and there
    assert {op.requant.rounding for op in graph.ops if isinstance(op, (Conv2D, FullyConnected))} == {
        Rounding.TFLITE_SINGLE
    }


@pytest.mark.parametrize("name", CASES)
def test_each_operator_evaluates(name: str) -> None:
    """Also those that TFLite Micro does not know."""
    rng = np.random.default_rng(3)
    case = CASES[name](rng)
    graph = load(case.data)
    inputs = [np.zeros(shape, np.dtype(dtype.lower())) for shape, dtype in case.inputs]
    outputs = evaluate(graph, inputs)
    assert [o.dtype.name for o in outputs] == [graph.tensors[n].dtype.value for n in graph.outputs]


def test_gelu_is_near_the_real_function() -> None:
    m = TfliteBuilder()
    x = m.tensor((1, 256), scale=0.03, zero=0)
    y = m.tensor((1, 256), scale=0.02, zero=-60)
    m.op("GELU", [x], [y], "GeluOptions")
    values = np.arange(-128, 128)
    (got,) = evaluate(load(m.build([x], [y])), [values.astype(np.int8)[None]])
    real = values * 0.03
    exact = np.array([v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in real])
    assert np.abs((got.ravel().astype(int) + 60) * 0.02 - np.clip(exact, -68 * 0.02, 187 * 0.02)).max() < 0.0101


@pytest.mark.parametrize(("kind", "low", "high"), [("RELU_N1_TO_1", -1, 1), ("RELU_0_TO_1", 0, 1)])
def test_relu_variants_limit_the_real_value(kind: str, low: float, high: float) -> None:
    m = TfliteBuilder()
    x = m.tensor((1, 256), scale=1 / 32, zero=5)
    y = m.tensor((1, 256), scale=1 / 64, zero=-3)
    m.op(kind, [x], [y])
    values = np.arange(-128, 128)
    (got,) = evaluate(load(m.build([x], [y])), [values.astype(np.int8)[None]])
    np.testing.assert_array_equal((got.ravel().astype(int) + 3) / 64, np.clip((values - 5) / 32, low, high))


def test_scalar_operands_become_tables() -> None:
    m = TfliteBuilder()
    x = m.tensor((1, 2, 2, 3), scale=0.1, zero=0)
    c = m.tensor((), scale=0.05, zero=0, data=20)
    y = m.tensor((1, 2, 2, 3), scale=0.1, zero=0)
    m.op("SUB", [c, x], [y], "SubOptions")
    graph = load(m.build([x], [y]))
    (op,) = graph.ops
    assert isinstance(op, Lut)
    assert op.table[128 + 4] == 10 - 4


def test_constant_minus_activation_negates_exactly() -> None:
    m = TfliteBuilder()
    x = m.tensor((1, 2, 2, 3), scale=0.25, zero=-7)
    c = m.tensor((3,), scale=0.125, zero=4, data=[1, 50, -128])
    y = m.tensor((1, 2, 2, 3), scale=0.5, zero=3)
    m.op("SUB", [c, x], [y], "SubOptions")
    graph = load(m.build([x], [y]))
    assert [type(op) for op in graph.ops] == [Lut, Add]
    values = np.random.default_rng(1).integers(-128, 128, (1, 2, 2, 3)).astype(np.int8)
    (got,) = evaluate(graph, [values])
    exact = (np.array([1, 50, -128]) - 4) * 0.125 - (values.astype(float) + 7) * 0.25
    assert np.abs(got - np.clip(exact / 0.5 + 3, -128, 127)).max() <= 0.5


def test_rows_of_a_dense_layer_become_a_convolution() -> None:
    rng = np.random.default_rng(2)
    graph = load(CASES["fully-connected-rows"](rng).data)
    assert Conv2D in [type(op) for op in graph.ops]
    assert FullyConnected not in [type(op) for op in graph.ops]


def test_mean_over_height_and_width_is_a_global_pool() -> None:
    m = TfliteBuilder()
    x = m.tensor((1, 4, 5, 3), scale=0.1, zero=2)
    y = m.tensor((1, 3), scale=0.07, zero=-1)
    m.op("MEAN", [x, m.ints([1, 2])], [y], "ReducerOptions", KeepDims=False)
    (op,) = load(m.build([x], [y])).ops
    assert isinstance(op, Mean)
    assert (op.in_zero, op.out_zero) == (2, -1)


def test_float_borders_stay_quantize_and_dequantize() -> None:
    graph = load(CASES["float-borders"](np.random.default_rng(0)).data)
    assert [type(op) for op in graph.ops] == [Quantize, Conv2D, Dequantize]
    assert graph.tensors[graph.inputs[0]].dtype is DType.F32


def test_shape_chain_is_folded() -> None:
    """RESHAPE to [SHAPE(x)[0], H * W, C] by SHAPE, STRIDED_SLICE, MUL and PACK."""
    m = TfliteBuilder()
    x = m.tensor((1, 4, 5, 3), scale=0.1, zero=0, signature=(-1, 4, 5, 3))
    shape, batch, h, w, area, target = (m.tensor(s, "INT32") for s in [(4,), (), (), (), (), (3,)])
    y = m.tensor((1, 20, 3), scale=0.1, zero=0)
    m.op("SHAPE", [x], [shape], "ShapeOptions")
    for i, out in enumerate((batch, h, w)):
        ends = [m.ints([i]), m.ints([i + 1]), m.ints([1])]
        m.op("STRIDED_SLICE", [shape, *ends], [out], "StridedSliceOptions", ShrinkAxisMask=1)
    m.op("MUL", [h, w], [area], "MulOptions")
    m.op("PACK", [batch, area, m.ints([3], ())], [target], "PackOptions", ValuesCount=3)
    m.op("RESHAPE", [x, target], [y])
    graph = load(m.build([x], [y]))
    assert [type(op) for op in graph.ops] == [Reshape]
    assert graph.tensors[graph.outputs[0]].shape == (1, 20, 3)


def test_gathered_permutation_is_folded() -> None:
    m = TfliteBuilder()
    x = m.tensor((1, 4, 5, 3), scale=0.1, zero=0)
    perm = m.tensor((4,), "INT32")
    y = m.tensor((1, 3, 4, 5), scale=0.1, zero=0)
    m.op("GATHER", [m.ints([3, 0, 2, 1]), m.ints([1, 0, 3, 2])], [perm], "GatherOptions")
    m.op("TRANSPOSE", [x, perm], [y])
    (op,) = load(m.build([x], [y])).ops
    assert isinstance(op, Transpose)
    assert op.perm == (0, 3, 1, 2)


def test_constant_int8_operand_is_reshaped_at_compile_time() -> None:
    m = TfliteBuilder()
    x = m.tensor((1, 2, 2, 3), scale=0.1, zero=0)
    c = m.tensor((3, 1), scale=0.1, zero=0, data=[[1], [2], [3]])
    flat = m.tensor((3,), scale=0.1, zero=0)
    y = m.tensor((1, 2, 2, 3), scale=0.1, zero=0)
    m.op("RESHAPE", [c, m.ints([3])], [flat])
    m.op("ADD", [x, flat], [y], "AddOptions")
    graph = load(m.build([x], [y]))
    (op,) = graph.ops
    assert isinstance(op, Add)
    assert graph.const(op.inputs[1]).tolist() == [1, 2, 3]


def test_unread_results_are_left_out() -> None:
    m = TfliteBuilder()
    x = m.tensor((1, 6), scale=0.1, zero=0)
    a, b = (m.tensor((1, 3), scale=0.1, zero=0) for _ in range(2))
    dead = m.tensor((1, 3), scale=0.1, zero=0)
    m.op("SPLIT", [m.ints([1], ()), x], [a, b], "SplitOptions", NumSplits=2)
    m.op("LOG", [a], [dead])  # not supported, but nothing reads it
    graph = load(m.build([x], [b]))
    (op,) = graph.ops
    assert isinstance(op, Slice)
    assert op.begin == (0, 0, 3)
    assert graph.notes == ("left out 1 nodes whose results nothing reads",)


def test_ellipsis_and_new_axis_of_a_strided_slice() -> None:
    m = TfliteBuilder()
    x = m.tensor((1, 4, 5, 3), scale=0.1, zero=0)
    y = m.tensor((1, 4, 5, 1, 2), scale=0.1, zero=0)
    begin, end, step = m.ints([0, 0, 1]), m.ints([0, 0, 3]), m.ints([1, 1, 1])
    m.op("STRIDED_SLICE", [x, begin, end, step], [y], "StridedSliceOptions", EllipsisMask=1, NewAxisMask=2)
    data = np.arange(60, dtype=np.int8).reshape(1, 4, 5, 3)
    (got,) = evaluate(load(m.build([x], [y])), [data])
    np.testing.assert_array_equal(got.ravel(), data[..., None, 1:3].ravel())


def test_names_are_unique_and_readable() -> None:
    m = TfliteBuilder()
    x = m.tensor((1, 4), scale=0.1, zero=0, name="same;other")
    y = m.tensor((1, 4), scale=0.1, zero=0, name="same")
    z = m.tensor((1, 4), scale=0.2, zero=0, name="")
    m.op("RELU", [x], [y])
    m.op("RELU", [y], [z])
    graph = load(m.build([x], [z]))
    assert graph.inputs == ("same",)
    assert [op.output for op in graph.ops] == ["same:1", "tensor_2"]
    assert [op.name for op in graph.ops] == ["relu_0", "relu_1"]


@pytest.mark.parametrize(
    ("shape", "ours"),
    [
        ((), ()),
        ((7,), (7,)),
        ((1, 7), (1, 7)),
        ((3, 7), (1, 3, 7)),
        ((2, 3, 7), (1, 2, 3, 7)),
        ((2, 3, 4, 7), (1, 24, 7)),
        ((1, 2, 3, 4, 7), (1, 24, 7)),
        ((1, 1, 2, 3, 7), (1, 2, 3, 7)),
    ],
)
def test_ir_shape(shape: tuple[int, ...], ours: tuple[int, ...]) -> None:
    assert ir_shape(shape) == ours


@pytest.mark.parametrize(
    ("args", "result"),
    [
        ((49, 10, 2, 1, True), (25, 4, 5)),
        ((10, 4, 2, 1, True), (5, 1, 1)),
        ((10, 1, 3, 1, True), (4, 0, 0)),
        ((10, 3, 1, 2, False), (6, 0, 0)),
    ],
)
def test_same_padding(args: tuple[int, int, int, int, bool], result: tuple[int, int, int]) -> None:
    assert same_padding(*args) == result


# What it refuses


def test_a_float_network_names_the_converter(models: Path) -> None:
    m = TfliteBuilder()
    x, y = m.tensor((1, 4), "FLOAT32"), m.tensor((1, 4), "FLOAT32")
    m.op("RELU", [x], [y])
    text = refusal(m.build([x], [y]))
    assert "a float network" in text
    assert "representative_dataset" in text
    assert text.count("model.tflite:") == 1


def test_dynamic_range_quantization_is_named() -> None:
    m = TfliteBuilder()
    x, y = m.tensor((1, 3, 3, 2), "FLOAT32"), m.tensor((1, 3, 3, 2), "FLOAT32")
    conv(m, x, y)
    assert "dynamic range quantization" in refusal(m.build([x], [y]))


def test_16_bit_activations_are_named() -> None:
    m = TfliteBuilder()
    x = m.tensor((1, 3, 3, 2), "INT16", scale=0.1, zero=0)
    y = m.tensor((1, 3, 3, 2), "INT16", scale=0.1, zero=0)
    conv(m, x, y)
    assert "16-bit activations" in refusal(m.build([x], [y]))


def test_a_float_step_inside_is_named() -> None:
    m = TfliteBuilder()
    x = m.tensor((1, 4), scale=0.1, zero=0)
    f, g = m.tensor((1, 4), "FLOAT32", name="logits"), m.tensor((1, 4), "FLOAT32")
    m.op("DEQUANTIZE", [x], [f])
    m.op("SOFTMAX", [f], [g], "SoftmaxOptions", Beta=1.0)
    text = refusal(m.build([x], [g]))
    assert "node 1" in text
    assert "(SOFTMAX): computes in float32" in text


def test_all_gaps_are_listed_together() -> None:
    m = TfliteBuilder()
    tensors = [m.tensor((1, 4), scale=0.1, zero=0, name=f"layer{i}") for i in range(5)]
    for i, kind in enumerate(["LOG", "RELU", "CUSTOM", "SVDF"]):
        m.op(kind, [tensors[i]], [tensors[i + 1]], custom="Mel" if kind == "CUSTOM" else "")
    with pytest.raises(UserError) as caught:
        load(m.build([tensors[0]], [tensors[4]]))
    problems = caught.value.problems
    assert [p.place for p in problems] == [
        'model.tflite: node 0 "layer1" (LOG)',
        'model.tflite: node 2 "layer3" (CUSTOM "Mel")',
        'model.tflite: node 3 "layer4" (SVDF)',
    ]
    assert all(p.message and p.hint for p in problems)


def test_what_follows_a_refused_node_is_still_checked() -> None:
    m = TfliteBuilder()
    x, a = (m.tensor((1, 4, 6), scale=0.1, zero=0) for _ in range(2))
    b = m.tensor((6, 4), scale=0.1, zero=0)
    y = m.tensor((6, 4), scale=0.1, zero=0)
    m.op("LOG", [x], [a])
    m.op("TRANSPOSE", [a, m.ints([2, 0, 1])], [b])
    m.op("EXP", [b], [y])
    text = refusal(m.build([x], [y]))
    assert "(LOG)" in text
    assert "(TRANSPOSE): output" in text
    assert "(EXP)" in text


def test_state_is_refused_with_a_way_out() -> None:
    m = TfliteBuilder(subgraphs=2)
    x = m.tensor((1, 4), scale=0.1, zero=0)
    handle = m.tensor((), "INT32")
    y = m.tensor((1, 4), scale=0.1, zero=0)
    z = m.tensor((1, 4), scale=0.1, zero=0)
    m.op("VAR_HANDLE", [], [handle], "VarHandleOptions")
    m.op("READ_VARIABLE", [handle], [y], "ReadVariableOptions")
    m.op("ADD", [x, y], [z], "AddOptions")
    text = refusal(m.build([x], [z]))
    assert "keeps state between runs" in text
    assert "window of past frames" in text
    assert "2 subgraphs" in text


@pytest.mark.parametrize(
    ("quant", "says"),
    [
        ({}, "has no quantization"),
        ({"scale": []}, "has no quantization"),
        ({"scale": [0.1], "zero": []}, "has no quantization"),
        ({"scale": 0.0, "zero": 0}, "scale 0.0"),
        ({"scale": -0.5, "zero": 0}, "scale -0.5"),
        ({"scale": float("nan"), "zero": 0}, "scale nan"),
        ({"scale": float("inf"), "zero": 0}, "scale inf"),
        ({"scale": [0.1, 0.2], "zero": [0, 0]}, "2 scales; activations are quantized per tensor"),
        ({"scale": 0.1, "zero": 128}, "zero point 128 is outside [-128, 127]"),
        ({"scale": 0.1, "zero": -(1 << 40)}, "is outside [-128, 127]"),
    ],
)
@pytest.mark.parametrize("side", ["x_quant", "y_quant"])
def test_bad_activation_quantization(side: str, quant: dict[str, Any], says: str) -> None:
    text = refusal(conv_model(**{side: quant}))
    assert says in text
    assert "hint:" in text


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        ({"scale": None}, "have no quantization"),
        ({"scale": 0.1, "zero": 3}, "zero points that are not 0"),
        ({"scale": [0.1, 0.2], "zero": [0, 5]}, "zero points that are not 0"),
        ({"scale": [0.1, 0.2, 0.3]}, "3 weight scales for 2 channels"),
        ({"scale": [0.1, 0.2], "axis": 3}, "quantized along axis 3, not 0"),
        ({"scale": [0.1, float("nan")]}, "not finite and above zero"),
        ({"scale": [0.1, 0.0]}, "not finite and above zero"),
        ({"data": b"123"}, "3 bytes of data, but shape [2, 1, 1, 2] needs 4"),
        ({"sparse": True}, "sparse weights"),
    ],
)
def test_bad_weights(weights: dict[str, Any], says: str) -> None:
    assert says in refusal(conv_model(weights=weights))


def test_computed_weights_are_refused() -> None:
    m = TfliteBuilder()
    x = m.tensor((1, 4), scale=0.1, zero=0)
    w = m.tensor((3, 4), scale=0.1, zero=0, name="w")
    y = m.tensor((1, 3), scale=0.1, zero=0)
    m.op("FULLY_CONNECTED", [x, w, -1], [y], "FullyConnectedOptions")
    assert 'weights "w" is computed; it must be constant' in refusal(m.build([x, w], [y]))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"StrideH": 0}, "stride 0 x 1"),
        ({"StrideH": -1}, "stride -1 x 1"),
        ({"StrideW": 2}, "has shape [1, 3, 3, 2], but the operator yields [1, 3, 2, 2]"),
        ({"FusedActivationFunction": 4}, "fused activation TANH"),
        ({"FusedActivationFunction": 77}, "fused activation activation 77"),
        ({"DilationHFactor": 1 << 20}, "dilation"),
        ({"y_quant": {"scale": 1e-12, "zero": 0}}, "overflow 32 bits"),
    ],
)
def test_bad_convolution(changes: dict[str, Any], says: str) -> None:
    assert says in refusal(conv_model(**changes))


def test_options_that_contradict_the_operands() -> None:
    m = TfliteBuilder()
    x = m.tensor((1, 2, 3), scale=0.1, zero=0)
    outs = [m.tensor((1, 3), scale=0.1, zero=0) for _ in range(2)]
    m.op("UNPACK", [x], outs, "UnpackOptions", Num=1, Axis=1)
    assert "2 tensors, but its options say 1" in refusal(m.build([x], outs))
    m = TfliteBuilder()
    x, y = (m.tensor((1, 3, 3, 2), scale=0.1, zero=0) for _ in range(2))
    w = m.tensor((1, 1, 1, 2), scale=0.1, data=[[[[1, 2]]]])
    m.op("DEPTHWISE_CONV_2D", [x, w], [y], "DepthwiseConv2DOptions", StrideH=1, StrideW=1, DepthMultiplier=2)
    assert "multiplier 2, but 2 of 2 channels" in refusal(m.build([x], [y]))


def test_a_4_gb_claim_is_refused_before_allocation() -> None:
    text = refusal(unary_model("RELU", (1, 65536, 65536, 1)))
    assert "4,294,967,296 bytes; at most 67,108,864 are accepted" in text


@pytest.mark.parametrize(
    ("shape", "says"),
    [
        ((1, 0, 4), "the empty shape [1, 0, 4]"),
        ((1, -1, 4), "the dynamic shape [1, -1, 4]"),
        ((4, 3, 3, 2), "batch 4; only batch 1 runs"),
        ((1,) * 9, "9 dimensions"),
        ((2147483647,) * 4, "bytes; at most"),
    ],
)
def test_bad_shapes(shape: tuple[int, ...], says: str) -> None:
    assert says in refusal(unary_model("RELU", shape))


def test_dynamic_input_dimensions_are_refused_but_a_dynamic_batch_is_one() -> None:
    for signature, says in [((-1, 3, 3, 2), ""), ((-1, -1, 3, 2), "dynamic shape [-1, -1, 3, 2]")]:
        m = TfliteBuilder()
        x = m.tensor((1, 3, 3, 2), scale=0.1, zero=0, signature=signature)
        y = m.tensor((1, 3, 3, 2), scale=0.1, zero=0)
        conv(m, x, y)
        data = m.build([x], [y])
        if says:
            assert says in refusal(data)
        else:
            assert load(data).tensors[load(data).inputs[0]].shape == (1, 3, 3, 2)


def test_cycles_and_wrong_order_are_refused() -> None:
    m = TfliteBuilder()
    x, a, b = (m.tensor((1, 4), scale=0.1, zero=0, name=n) for n in "xab")
    m.op("ADD", [x, b], [a], "AddOptions")
    m.op("RELU", [a], [b])
    text = refusal(m.build([x], [b]))
    assert 'reads "b" before it is computed (a cycle, or nodes out of order)' in text


def test_a_tensor_computed_twice_is_refused() -> None:
    m = TfliteBuilder()
    x, a = (m.tensor((1, 4), scale=0.1, zero=0) for _ in range(2))
    m.op("RELU", [x], [a])
    m.op("RELU6", [x], [a])
    assert "a second time" in refusal(m.build([x], [a]))


def test_constant_outputs_and_inputs_are_refused() -> None:
    m = TfliteBuilder()
    x = m.tensor((1, 4), scale=0.1, zero=0)
    c = m.tensor((1, 4), scale=0.1, zero=0, data=[[1, 2, 3, 4]])
    y = m.tensor((1, 4), scale=0.1, zero=0)
    m.op("RELU", [x], [y])
    assert "constant or an input" in refusal(m.build([x], [y, c]))
    assert "constant or an input" in refusal(m.build([x], [y, x]))
    assert "an input that is constant" in refusal(m.build([x, c], [y]))
    assert "listed twice" in refusal(m.build([x, x], [y]))
    assert "computes nothing" in refusal(m.build([x], [x]))
    assert "no inputs" in refusal(m.build([], [y]))


def test_variable_tensors_are_refused() -> None:
    m = TfliteBuilder()
    x = m.tensor((1, 4), scale=0.1, zero=0)
    s = m.tensor((1, 4), scale=0.1, zero=0, variable=True)
    y = m.tensor((1, 4), scale=0.1, zero=0)
    m.op("ADD", [x, s], [y], "AddOptions")
    assert "kept between runs" in refusal(m.build([x, s], [y]))


def test_unsupported_operators_all_have_words() -> None:
    for kind in ("LSTM", "WHILE", "RESIZE_BILINEAR", "TRANSPOSE_CONV", "SUM", "ARG_MAX", "EMBEDDING_LOOKUP"):
        text = refusal(unary_model(kind))
        assert f'model.tflite: node 0 "out" ({kind}): ' in text
        assert "hint: " in text


def test_activation_broadcast_is_refused() -> None:
    m = TfliteBuilder()
    x = m.tensor((1, 2, 2, 3), scale=0.1, zero=0)
    b = m.tensor((1, 1, 1, 3), scale=0.1, zero=0)
    y = m.tensor((1, 2, 2, 3), scale=0.1, zero=0)
    m.op("ADD", [x, b], [y], "AddOptions")
    assert "two activations of different shapes" in refusal(m.build([x, b], [y]))


def test_rescaling_concatenation_is_refused() -> None:
    m = TfliteBuilder()
    a, b = m.tensor((1, 4), scale=0.1, zero=0, name="a"), m.tensor((1, 4), scale=0.2, zero=0, name="b")
    y = m.tensor((1, 8), scale=0.1, zero=0, name="y")
    m.op("CONCATENATION", [a, b], [y], "ConcatenationOptions", Axis=1)
    assert '"b" has scale 0.2, zero point 0, but "y" has 0.1, 0' in refusal(m.build([a, b], [y]))


def test_onnx_rounding_is_refused() -> None:
    with pytest.raises(UserError, match="rounding onnx is defined for ONNX models"):
        load(conv_model(), Rounding.ONNX)


# load_model


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("a.tflite", b"", "the model file is empty"),
        ("a.tflite", b"hello, I am text", "not a TFLite model, or truncated"),
        ("a.tflite", b"\x08\x08\x12\x04abcd" + b"\0" * 50, "named .tflite, but it holds an ONNX model"),
        ("a.onnx", b"\x1c\0\0\0TFL3" + b"\0" * 50, "named .onnx, but it holds a TFLite model"),
        ("a.tflite", b"\x89HDF\r\n\x1a\n" + b"\0" * 50, "a Keras HDF5 file"),
        ("a.tflite", b"PK\x03\x04" + b"\0" * 50, "a zip archive"),
        ("a.tflite", b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
        ("a.bin", b"\xff" * 50, "neither a TFLite nor an ONNX model"),
    ],
)
def test_content_decides(tmp_path: Path, name: str, data: bytes, says: str) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(UserError) as caught:
        load_model(path, None)
    assert says in str(caught.value)
    assert str(path) in str(caught.value)
    assert "hint:" in str(caught.value)


def test_a_tflite_file_of_any_name_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(conv_model())
    assert len(load_model(path, None).ops) == 1


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        load_model(tmp_path / "absent.tflite", None)
    with pytest.raises(UserError, match="a directory"):
        load_model(tmp_path, None)
    huge = tmp_path / "huge.tflite"
    with huge.open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(UserError, match="model files up to"):
        load_model(huge, None)


def test_importing_vww_is_cheap(models: Path) -> None:
    """Python's start included, and without onnx."""
    code = (
        "import sys; from pathlib import Path; from mcufuse.importers import load_model\n"
        "load_model(Path(sys.argv[1]), None)\n"
        "assert 'onnx' not in sys.modules\n"
        "import time; print(time.process_time())"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(importers.__file__).parents[2])}
    command = [sys.executable, "-c", code, str(models / "vww_int8.tflite")]
    seconds = [float(subprocess.check_output(command, env=environment)) for _ in range(3)]
    assert min(seconds) < 0.5


# docs/operators.md


def test_documented_operators_are_the_importers(repo: Path) -> None:
    """MCUFUSE_UPDATE_DOCS=1 writes the table anew."""
    page = repo / "docs" / "operators.md"
    begin, end = "<!-- tflite: generated from the importer's table -->\n", "<!-- tflite: end -->\n"
    before, rest = page.read_text().split(begin)
    table, after = rest.split(end)
    if os.environ.get("MCUFUSE_UPDATE_DOCS"):
        page.write_text(before + begin + markdown() + end + after)
        table = markdown()
    assert table == markdown()
    assert all(f"| {kind} |" in table for kind in OPERATORS)
