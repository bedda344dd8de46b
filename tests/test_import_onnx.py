# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""What the ONNX importer reads, how it resolves the leftovers of exporters, and what it refuses with which words."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mcufuse.errors import UserError
from mcufuse.importers import load_model
from mcufuse.importers.onnx import HANDLERS, import_onnx
from mcufuse.importers.onnx_fold import FOLDABLE
from mcufuse.importers.onnx_resize import nearest_indices
from mcufuse.ir import Clamp, Conv2D, DType, FullyConnected, Graph, Lut, Quantize, Rounding
from mcufuse.oracle import evaluate
from mcufuse.verify import verify
from onnx_builder import Model

FILE = Path("net.onnx")


def load(model: Model | onnx.ModelProto | bytes, rounding: Rounding | None = None) -> Graph:
    data = (
        model if isinstance(model, bytes) else model.bytes() if isinstance(model, Model) else model.SerializeToString()
    )
    graph = import_onnx(FILE, data, rounding)
    verify(graph)
    return graph


def kinds(graph: Graph) -> Counter[str]:
    return Counter(op.kind for op in graph.ops)


def conv_model(dtype: str = "int8", opset: int = 13, **attrs: Any) -> Model:
    m = Model(opset, dtype)
    y = m.node("Conv", [m.input("x", (1, 4, 6, 5)), m.weights((6, 4, 3, 3))], **attrs)
    m.output(m.quantize(y, 0.05, m.default_zero()))
    return m


def refusal(model: Any, *words: str) -> UserError:
    with pytest.raises(UserError) as caught:
        load(model)
    text = str(caught.value)
    for word in words:
        assert word in text, f"{word!r} is not in: {text}"
    assert "net.onnx" in text
    return caught.value


# -- what is read -----------------------------------------------------------------------------------------------------


def test_relu_and_clip_between_convolution_and_quantization_become_a_clamp() -> None:
    m = Model()
    y = m.node("Conv", [m.input("x", (1, 4, 6, 5)), m.weights((6, 4, 3, 3))])
    y = m.node("Clip", [m.node("Relu", [y]), m.const(-3.0, "float32"), m.const(6.0, "float32")])
    m.output(m.quantize(y, 0.05, -100))
    (conv,) = [op for op in load(m).ops if isinstance(op, Conv2D)]
    assert conv.clamp == Clamp(-100, 20)
    assert len(conv.origin) == 4  # Conv, Relu, Clip, QuantizeLinear


def test_bias_is_in_units_of_the_accumulator() -> None:
    m = Model()
    x = m.input("x", (1, 8), 0.5, 0)
    w = m.dequantize(m.const(np.ones((3, 8)), "int8"), 0.25, 0)
    bias = m.dequantize(m.const([10, -7, 2**20 + 1], "int32"), 0.125, 0, "int32")
    m.output(m.quantize(m.node("Gemm", [x, w, bias], transB=1), 1.0, 0))
    graph = load(m)
    (fc,) = [op for op in graph.ops if isinstance(op, FullyConnected)]
    assert graph.const(fc.inputs[2]).tolist() == [10, -7, 2**20 + 1]
    assert (fc.requant.multiplier, fc.requant.shift) == ((1 << 30,), (-2,))


def test_uint8_keeps_its_meaning_at_the_border() -> None:
    graph = load(conv_model("uint8"))
    first, last = graph.tensors[graph.inputs[0]], graph.tensors[graph.outputs[0]]
    assert first.dtype is DType.U8
    assert last.dtype is DType.U8
    assert first.quant is not None
    assert first.quant.zero_point == (133,)
    assert last.quant is not None
    assert last.quant.zero_point == (133,)
    inner = {op.kind for op in graph.ops if graph.tensors[op.output].dtype is DType.U8}
    assert inner <= {"Lut", "Transpose"}  # at the border only
    tables = [op for op in graph.ops if isinstance(op, Lut)]
    assert [op.table for op in tables] == [tuple(range(-128, 128)), tuple(range(256))]


def test_chain_of_float_functions_is_one_table() -> None:
    m = Model()
    x = m.input("x", (1, 7))
    y = m.node("Add", [m.node("Mul", [m.node("Tanh", [x]), m.const(2.0, "float32")]), m.const(0.5, "float32")])
    m.output(m.quantize(m.requantize(m.node("Sigmoid", [y]), 1 / 256, -128), 1 / 128, 0))
    graph = load(m)
    assert kinds(graph) == {"Lut": 1}
    (op,) = graph.ops
    assert isinstance(op, Lut)
    assert op.label.split("+")[:4] == ["tanh", "mul", "add", "sigmoid"]


def test_requantization_to_the_same_scale_is_nothing() -> None:
    m = Model()
    x = m.requantize(m.node("Identity", [m.input("x", (1, 7))]), 0.05, 7)
    m.output(m.quantize(m.node("Sigmoid", [x]), 1 / 256, -128))
    assert kinds(load(m)) == {"Lut": 1}


def test_float_input_is_quantized_before_it_is_moved() -> None:
    m = Model()
    x = m.raw_input("x", ("N", 4, 5, 3), "float32")
    x = m.requantize(m.node("Transpose", [x], perm=[0, 3, 1, 2]), 0.1, 3)
    m.output(m.quantize(m.node("Conv", [x, m.weights((2, 3, 2, 2))]), 0.05, 0), shape=None)
    graph = load(m)
    assert graph.tensors["x"].shape == (1, 4, 5, 3)
    assert isinstance(graph.ops[0], Quantize)
    assert "Transpose" not in [op.kind for op in graph.ops][:-1]  # the last one: the output is NCHW


def test_shape_chain_before_reshape_is_folded() -> None:
    m = Model(opset=12)
    x = m.raw_input("x", ("N", 6, 2, 2))
    real = m.dequantize(x, 0.1, 0)
    shape = m.node("Shape", [real])
    batch = m.node("Gather", [shape, m.const(0, "int64")], axis=0)
    batch = m.node("Unsqueeze", [batch], axes=[0])
    rest = m.node("Slice", [shape, m.const([1], "int64"), m.const([4], "int64")])
    size = m.node(
        "Unsqueeze", [m.node("ReduceProd", [m.node("Cast", [rest], to=TensorProto.INT64)], keepdims=0)], axes=[0]
    )
    target = m.node("Concat", [batch, m.node("Div", [size, m.const([1], "int64")])], axis=0)
    flat = m.node("Reshape", [real, target])
    m.output(m.quantize(m.node("MatMul", [flat, m.weights((24, 3), 1)]), 0.2, 0))
    graph = load(m)
    assert kinds(graph) == {"FullyConnected": 1}


def test_constants_as_nodes_and_weights_quantized_in_the_graph() -> None:
    m = Model()
    weights = m.rng.normal(0, 0.1, (3, 8)).astype(np.float32)
    node = helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(weights))
    m.nodes.append(node)
    scale, zero = m.const(np.full(3, 0.002), "float32"), m.const(np.zeros(3), "int8")
    q = m.node("QuantizeLinear", ["w", scale, zero], axis=0)
    w = m.node("Transpose", [m.node("DequantizeLinear", [q, scale, zero], axis=0)], perm=[1, 0])
    m.output(m.quantize(m.node("MatMul", [m.input("x", (1, 8)), w]), 0.05, 0))
    graph = load(m)
    (fc,) = graph.ops
    expected = np.clip(np.rint(weights / np.float32(0.002)), -128, 127)
    assert np.array_equal(graph.const(fc.inputs[1]), expected)


def test_every_value_has_an_opset_11_form() -> None:
    m = Model(opset=11)
    x = m.input("x", (1, 3, 8, 8))
    y = m.node("Conv", [x, m.weights((4, 3, 3, 3), None)])
    y = m.requantize(m.node("Clip", [y, m.const(0.0, "float32"), m.const(6.0, "float32")]), 0.04, -128)
    y = m.node("Squeeze", [m.node("GlobalAveragePool", [y])], axes=[2, 3])
    m.output(m.quantize(m.node("Softmax", [m.requantize(y, 0.04, -128)]), 1 / 256, -128))
    assert kinds(load(m)) == {"Transpose": 1, "Conv2D": 1, "Mean": 1, "Softmax": 1}


def test_tflite_rounding_can_be_asked_for() -> None:
    (op,) = [op for op in load(conv_model(), Rounding.TFLITE).ops if isinstance(op, Conv2D)]
    assert op.requant.rounding is Rounding.TFLITE


def test_nodes_in_any_order() -> None:
    proto = conv_model().proto()
    nodes = list(reversed(proto.graph.node))
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    assert kinds(load(proto)) == kinds(load(conv_model()))


def test_two_outputs_of_one_value_and_an_output_that_only_moves() -> None:
    m = Model()
    x = m.raw_input("x", (1, 2, 3, 4))
    y = m.quantize(m.node("Sigmoid", [m.dequantize(x, 0.1, 0)]), 1 / 256, -128)
    for out in (y, m.node("Identity", [y]), m.node("Reshape", [y, m.const([1, -1], "int64")]), m.node("Identity", [x])):
        m.output(out)
    graph = load(m)
    values = np.arange(24, dtype=np.int8).reshape(1, 2, 3, 4)
    outs = evaluate(graph, [values])
    assert np.array_equal(outs[0], outs[1])
    assert outs[2].shape == (1, 24)
    assert np.array_equal(outs[3], values)


def test_external_data_beside_the_model(tmp_path: Path) -> None:
    proto = conv_model().proto()
    path = tmp_path / "net.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="weights.bin", size_threshold=16)
    assert (tmp_path / "weights.bin").exists()
    assert kinds(load_model(path, None)) == kinds(load(conv_model()))
    (tmp_path / "weights.bin").write_bytes(b"short")
    with pytest.raises(UserError, match="does not hold"):
        load_model(path, None)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(UserError, match="missing beside the model"):
        load_model(path, None)


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/passwd", "a/../../secret.bin", ""])
def test_external_data_outside_is_refused(location: str, tmp_path: Path) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(1000))
    inner = tmp_path / "model"
    inner.mkdir()
    proto = conv_model().proto()
    tensor = next(t for t in proto.graph.initializer if len(t.dims) == 4)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    path = inner / "net.onnx"
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(UserError, match=r"outside the model's directory|names no file"):
        load_model(path, None)


def test_resize_tables_follow_the_formulas() -> None:
    assert nearest_indices(2, 4, 2.0, "asymmetric", "floor") == (0, 0, 1, 1)
    assert nearest_indices(4, 2, 0.5, "half_pixel", "round_prefer_floor") == (0, 2)
    assert nearest_indices(4, 2, 0.5, "half_pixel", "round_prefer_ceil") == (1, 3)
    assert nearest_indices(4, 8, 2.0, "align_corners", "round_prefer_floor") == (0, 0, 1, 1, 2, 2, 3, 3)
    assert nearest_indices(5, 1, 0.2, "pytorch_half_pixel", "ceil") == (0,)


def test_import_is_fast(models: Path) -> None:
    data = (models / "vww_qdq.onnx").read_bytes()
    import_onnx(FILE, data, None)  # `import onnx` and the like do not count
    start = time.process_time()
    import_onnx(FILE, data, None)
    assert time.process_time() - start < 0.6


# -- what is refused --------------------------------------------------------------------------------------------------


def test_float_network() -> None:
    m = Model()
    x = m.raw_input("x", (1, 3), "float32")
    m.output(m.node("Relu", [x]), "float32")
    refusal(m, "float network", "quantize_static", "docs/quantizing.md")


def test_all_gaps_in_one_go() -> None:
    m = Model()
    x = m.input("x", (1, 4, 6, 5))
    a = m.node("Conv", [x, m.const(np.ones((4, 4, 1, 1)), "float32")])
    b = m.requantize(m.node("LSTM", [m.requantize(a, 0.1, 0), x, x]), 0.1, 0)
    c = m.requantize(m.node("Resize", [x, "", m.const([1, 1, 2, 2], "float32")], mode="linear"), 0.1, 0)
    d = m.requantize(m.node("ConvTranspose", [c, x]), 0.1, 0)
    m.output(m.quantize(m.node("Add", [b, d]), 0.1, 0))
    problems = refusal(
        m, "weights are float", "LSTM", "recurrent", "mode linear", "ConvTranspose", "Resize (mode=nearest)"
    ).problems
    assert len(problems) == 4
    assert all("node " in p.place and p.hint for p in problems)


def _per_channel_activation(m: Model) -> str:
    x = m.raw_input("x", (1, 3, 4, 4))
    scales = m.const([0.1, 0.2, 0.3], "float32")
    return str(m.node("DequantizeLinear", [x, scales, m.const([0, 0, 0], "int8")], axis=1))


def _scaled(scale: float) -> Callable[[Model], str]:
    return lambda m: m.dequantize(m.raw_input("x", (1, 3)), scale, 0)


def _weight_zero(m: Model) -> str:
    w = m.dequantize(m.const(m.rng.integers(-128, 128, (2, 3, 8, 8)), "int8"), 0.1, 5)
    return str(m.node("Conv", [m.input("x", (1, 3, 8, 8)), w]))


def _weight_axis(m: Model) -> str:
    return str(m.node("Conv", [m.input("x", (1, 3, 8, 8)), m.weights((2, 3, 2, 2), 1)]))


def _missing_between(m: Model) -> str:
    return str(m.node("Sigmoid", [m.node("Conv", [m.input("x", (1, 3, 8, 8)), m.weights((2, 3, 2, 2))])]))


def _two_activations(m: Model) -> str:
    return str(m.node("MatMul", [m.input("x", (1, 4, 4)), m.input("x2", (1, 4, 4))]))


def _group(m: Model) -> str:
    return str(m.node("Conv", [m.input("x", (1, 3, 8, 8)), m.weights((2, 3, 2, 2))], group=2))


def _huge_pads(m: Model) -> str:
    return str(m.node("Conv", [m.input("x", (1, 3, 8, 8)), m.weights((2, 3, 2, 2))], pads=[1 << 40] * 4))


def _huge_map(m: Model) -> str:
    return str(m.node("Sigmoid", [m.input("x", (1, 1 << 16, 1 << 15, 1))]))


def _huge_constant(m: Model) -> str:
    shape = m.const([1 << 20, 1 << 12], "int64")
    return str(m.node("MatMul", [m.input("x", (1, 4)), m.node("ConstantOfShape", [shape])]))


def _bad_axis(m: Model) -> str:
    return str(m.node("Concat", [m.input("x", (1, 4)), m.input("x2", (1, 4))], axis=7))


def _batch(m: Model) -> str:
    return str(m.node("Conv", [m.input("x", (2, 3, 8, 8)), m.weights((2, 3, 2, 2))]))


def _int16(m: Model) -> str:
    x = m.raw_input("x", (1, 3))
    y = m.node("Sigmoid", [m.dequantize(x, 0.1, 0)])
    q = m.node("QuantizeLinear", [y, *m.qparams(0.1, 0, "int16")])
    return str(m.node("DequantizeLinear", [q, *m.qparams(0.1, 0, "int16")]))


def _dynamic(m: Model) -> str:
    return str(m.node("Relu", [m.dequantize(m.raw_input("x", ("N", 3, "H", "W")), 0.1, 0)]))


def _indices(m: Model) -> str:
    return str(m.node("MaxPool", [m.input("x", (1, 3, 8, 8))], outputs=2, kernel_shape=[2, 2])[1])


REFUSED: dict[str, tuple[Callable[[Model], str], tuple[str, ...]]] = {
    "per-channel activation": (_per_channel_activation, ("per channel", "per tensor")),
    "zero scale": (_scaled(0.0), ("scale is 0", "calibrate")),
    "nan scale": (_scaled(float("nan")), ("scale is nan",)),
    "infinite scale": (_scaled(float("inf")), ("scale is inf",)),
    "negative scale": (_scaled(-1.0), ("scale is -1",)),
    "weight zero point": (_weight_zero, ("zero point 5", "WeightSymmetric")),
    "weight axis": (_weight_axis, ("axis 1", "output channels")),
    "missing quantization": (_missing_between, ("unquantized result of Conv", "QuantizeLinear")),
    "two activations": (_two_activations, ("two activations",)),
    "groups": (_group, ("2 groups",)),
    "huge pads": (_huge_pads, ("pads",)),
    "huge map": (_huge_map, ("bytes",)),
    "huge constant": (_huge_constant, ("bytes",)),
    "bad axis": (_bad_axis, ("axis 7",)),
    "batch": (_batch, ("batch size 2",)),
    "int16": (_int16, ("int16", "QInt8")),
    "dynamic shape": (_dynamic, ("[?, 3, ?, ?]", "make_dynamic_shape_fixed")),
    "pool indices": (_indices, ("indices",)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusal(name: str) -> None:
    build, words = REFUSED[name]
    m = Model()
    y = build(m)
    m.output(m.quantize(y, 0.1, 0))
    refusal(m, *words)


def test_claim_of_four_gigabytes_is_refused_before_it_is_allocated() -> None:
    proto = conv_model().proto()
    tensor = next(t for t in proto.graph.initializer if len(t.dims) == 4)
    del tensor.dims[:]
    tensor.dims.extend([1 << 16, 1 << 16])
    refusal(proto, "4,294,967,296 bytes")
    del tensor.dims[:]
    tensor.dims.extend([1000, 1000])
    refusal(proto, "claims 1,000,000 elements", "holds 216 bytes")
    del tensor.dims[:]
    tensor.dims.extend([-1, 5])
    refusal(proto, "dynamic shape")


def test_cycle() -> None:
    m = conv_model()
    m.nodes.append(helper.make_node("Relu", ["loop2"], ["loop1"], name="r1"))
    m.nodes.append(helper.make_node("Relu", ["loop1"], ["loop2"], name="r2"))
    refusal(m, "cycle", "r1")


def test_loose_ends() -> None:
    m = conv_model()
    m.nodes.append(helper.make_node("Relu", ["nowhere"], ["somewhere"], name="r1"))
    refusal(m, "defined nowhere", "nowhere")
    m = conv_model()
    m.nodes.append(helper.make_node("Relu", ["x"], [m.outputs[0][0]], name="r1"))
    refusal(m, "computed twice")
    m = conv_model()
    m.output("missing")
    refusal(m, "computed by no node", "missing")


def test_float_output_that_is_not_quantized() -> None:
    m = Model()
    m.output(m.node("Softmax", [m.input("x", (1, 5))]), "float32")
    refusal(m, "unquantized result of Softmax", "caller")


@pytest.mark.parametrize("data", [b"\x08", b"\x08\x07garbage", b"\x08\x07", bytes(range(256))])
def test_not_a_model(data: bytes) -> None:
    refusal(data)


def test_truncated_files(models: Path) -> None:
    data = (models / "ad_qdq.onnx").read_bytes()
    for size in (1, 10, 1000, len(data) // 2, len(data) - 1):
        refusal(data[:size])


def test_old_and_unknown_operator_sets() -> None:
    refusal(conv_model(opset=10), "operator set 10", "convert_version")
    proto = conv_model().proto()
    del proto.opset_import[:]
    refusal(proto, "operator set")


def test_functions_and_near_misses() -> None:
    proto = conv_model().proto()
    proto.functions.add(name="f", domain="mine")
    refusal(proto, "inline_local_functions")
    m = conv_model()
    m.nodes.append(helper.make_node("Sigmiod", [m.outputs[0][0]], ["y"], name="typo"))
    m.output("y")
    refusal(m, "did you mean Sigmoid")


# -- documentation ----------------------------------------------------------------------------------------------------


def test_every_operator_is_documented(repo: Path) -> None:
    text = repo / "docs" / "operators-onnx.md"
    if not text.exists():  # joined into one page
        text = repo / "docs" / "operators.md"
    table = text.read_text().split("<!-- onnx:")[1].split("\n\n")[0]
    named = {name.strip() for row in table.splitlines()[3:] for name in row.split("|")[1].split(",")}
    assert named == set(HANDLERS)
    folded = text.read_text().split("Computed at compile time when their operands are constant: Abs,")[1].split(";")[0]
    assert {"Abs", *(name.strip() for name in folded.split(","))} == set(FOLDABLE)


@pytest.mark.ort
@pytest.mark.filterwarnings("ignore")
def test_the_guide_to_quantizing_works(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the script of docs/quantizing.md on a small network, and imports what it writes."""
    guide = (repo / "docs" / "quantizing.md").read_text()
    script = next(block.split("```")[0] for block in guide.split("```python\n") if "quantize_static(" in block)
    m = Model(opset=17)
    x = m.raw_input("x", (1, 3, 8, 8), "float32")
    w = m.const(m.rng.normal(0, 0.2, (4, 3, 3, 3)), "float32")
    y = m.node("Relu", [m.node("Conv", [x, w])])
    m.output(m.node("GlobalAveragePool", [y]), "float32")
    (tmp_path / "float.onnx").write_bytes(m.bytes())
    np.save(tmp_path / "calibration.npy", m.rng.normal(0, 1, (16, 3, 8, 8)).astype(np.float32))
    monkeypatch.chdir(tmp_path)
    exec(compile(script, "quantizing.md", "exec"), {})
    graph = load_model(tmp_path / "int8.onnx", None)
    verify(graph)
    assert {"Quantize", "Conv2D", "Mean", "Dequantize"} <= set(kinds(graph))
