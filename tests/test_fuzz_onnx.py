# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Damaged ONNX files end in a `UserError` or in a sound graph: no traceback, no hang, no unbounded memory.

Two kinds of damage, both from fixed seeds: of the file's bytes, and of the model's structure (attributes, shapes,
edges, constants), which gets past the parser far more often. MCUFUSE_FUZZ_ROUNDS multiplies the number of rounds.
"""

from __future__ import annotations

import os
import random
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, helper, numpy_helper

from mcufuse.errors import UserError
from mcufuse.importers.onnx import import_onnx
from mcufuse.verify import verify
from onnx_builder import Model
from test_ort_parity import CASES, QLINEAR

FILE = Path("fuzzed.onnx")
ROUNDS = int(os.environ.get("MCUFUSE_FUZZ_ROUNDS", "1"))
SECONDS = 5.0  # for one import; a sound one takes milliseconds
MEMORY = 256 << 20
NUMBERS = (0, 1, -1, 2, 3, 7, -5, 255, 1 << 15, 1 << 31, -(1 << 31), (1 << 63) - 1, -(1 << 63))


def survives(data: bytes) -> bool:
    """Imports; returns whether a graph came out. Anything but a UserError or a sound graph fails the test."""
    start = time.process_time()
    try:
        graph = import_onnx(FILE, data, None)
    except UserError as error:
        assert str(error)
        return False
    finally:
        assert time.process_time() - start < SECONDS
    verify(graph)
    return True


def _models() -> dict[str, bytes]:
    chosen = [
        "conv-same-upper", "conv-1d-depthwise", "gemm-trans-b", "matmul-map", "conv-batch-norm", "add-channel", "gate",
        "average-pool-pads", "max-pool-ceil", "reduce-mean", "softmax-channels", "pad", "split", "slice", "gather",
        "concat-rescaled", "channel-shuffle", "flatten-gemm", "resize-half_pixel-floor", "prelu-channel",
        "gelu-composed",
    ]  # fmt: skip
    result = {}
    for name, case in [
        *((n, CASES[n]) for n in chosen),
        *((f"qlinear-{n}", QLINEAR[n]) for n in ("conv", "gemm", "concat")),
    ]:
        m = Model()
        y = case(m)
        m.output(y if name.startswith("qlinear") else m.quantize(y, 0.05, 3))
        result[name] = m.bytes()
    return result


MODELS = _models()


# -- bytes ------------------------------------------------------------------------------------------------------------


def _damage_bytes(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        at = rng.randrange(len(changed))
        kind = rng.randrange(5)
        if kind == 0:
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            changed[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif kind == 2:
            del changed[at : at + rng.randrange(1, 9)]
        elif kind == 3:
            changed[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 9)))
        else:
            changed = changed[: max(at, 1)]
        if not changed:
            return b"\x08"
    return bytes(changed)


@pytest.mark.parametrize("name", MODELS)
def test_damaged_bytes(name: str) -> None:
    rng = random.Random(name)
    for _ in range(60 * ROUNDS):
        survives(_damage_bytes(MODELS[name], rng))


# -- structure --------------------------------------------------------------------------------------------------------


def _attribute(model: onnx.ModelProto, rng: random.Random) -> None:
    node = rng.choice(model.graph.node)
    if node.attribute and rng.random() < 0.8:
        attribute = rng.choice(node.attribute)
        if attribute.type == AttributeProto.INT:
            attribute.i = rng.choice(NUMBERS)
        elif attribute.type == AttributeProto.INTS and attribute.ints:
            attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice(NUMBERS)
            if rng.random() < 0.2:
                attribute.ints.append(1)
        elif attribute.type == AttributeProto.FLOAT:
            attribute.f = rng.choice((0.0, -1.0, 1e30, float("nan"), float("inf")))
        else:
            attribute.s = rng.choice((b"", b"nearest", b"SAME_LOWER", b"\xff\xfe"))
    else:
        name = rng.choice(("axis", "group", "keepdims", "ceil_mode", "transA", "pads", "strides", "auto_pad", "alpha"))
        del node.attribute[:]
        node.attribute.append(helper.make_attribute(name, rng.choice((0, -1, 1 << 40, [1, 1], 0.5, "VALID"))))


def _edge(model: onnx.ModelProto, rng: random.Random) -> None:
    node = rng.choice(model.graph.node)
    names = [o for n in model.graph.node for o in n.output] + [t.name for t in model.graph.initializer] + [""]
    kind = rng.randrange(4)
    if kind == 0 and node.input:
        node.input[rng.randrange(len(node.input))] = rng.choice(names)
    elif kind == 1 and node.input:
        del node.input[rng.randrange(len(node.input)) :]
    elif kind == 2:
        node.input.append(rng.choice(names))
    else:
        node.output.append(rng.choice((*names, "fresh")))


def _operator(model: onnx.ModelProto, rng: random.Random) -> None:
    node = rng.choice(model.graph.node)
    others = [n.op_type for n in model.graph.node]
    more = [
        "Transpose",
        "Reshape",
        "Softmax",
        "MaxPool",
        "Identity",
        "Shape",
        "Gather",
        "Relu",
        "ReduceMean",
        "Slice",
        "Cast",
    ]
    node.op_type = rng.choice(others + more)


def _constant(model: onnx.ModelProto, rng: random.Random) -> None:
    tensor = rng.choice(model.graph.initializer)
    kind = rng.randrange(4)
    if kind == 0 and tensor.dims:
        tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(NUMBERS)
    elif kind == 1:
        tensor.data_type = rng.randrange(24)
    else:
        try:
            array = np.array(numpy_helper.to_array(tensor))
        except (ValueError, TypeError, RuntimeError):
            return  # damaged already
        if not array.size or array.dtype.kind not in "fiu":
            return
        if array.dtype.kind == "f":
            array.flat[rng.randrange(array.size)] = rng.choice((0.0, -1.0, 1e-38, 1e38, float("nan"), float("inf")))
        else:
            limits = np.iinfo(array.dtype)
            array.flat[rng.randrange(array.size)] = max(limits.min, min(limits.max, rng.choice(NUMBERS)))
        if kind == 3:
            array = array.reshape(-1)[: rng.randrange(array.size + 1)]
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _shape(model: onnx.ModelProto, rng: random.Random) -> None:
    value = rng.choice([*model.graph.input, *model.graph.output])
    tensor = value.type.tensor_type
    if tensor.shape.dim and rng.random() < 0.8:
        rng.choice(tensor.shape.dim).dim_value = rng.choice((0, 1, 2, 5, -1, 1 << 20, 1 << 40))
    elif rng.random() < 0.5:
        tensor.elem_type = rng.randrange(24)
    else:
        tensor.ClearField("shape")


def _remove(model: onnx.ModelProto, rng: random.Random) -> None:
    del model.graph.node[rng.randrange(len(model.graph.node))]


DAMAGES: tuple[Callable[[onnx.ModelProto, random.Random], None], ...] = (
    _attribute, _attribute, _edge, _edge, _operator, _constant, _constant, _shape, _remove,
)  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_damaged_structure(name: str) -> None:
    rng = random.Random(name + "structure")
    for _ in range(80 * ROUNDS):
        model = onnx.ModelProto.FromString(MODELS[name])
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            if model.graph.node and model.graph.initializer:
                rng.choice(DAMAGES)(model, rng)
        survives(model.SerializeToString())


def test_undamaged_models_are_read() -> None:
    assert all(survives(data) for data in MODELS.values())


def test_memory_stays_bounded() -> None:
    rng = random.Random("memory")
    tracemalloc.start()
    try:
        for _ in range(60 * ROUNDS):
            model = onnx.ModelProto.FromString(MODELS[rng.choice(list(MODELS))])
            rng.choice((_shape, _constant, _attribute))(model, rng)
            survives(model.SerializeToString())
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()
