# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Transpositions are pushed out of the graph, and not one output byte changes."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mcufuse.ir import (
    Add,
    Concat,
    Conv2D,
    DType,
    FullyConnected,
    Graph,
    Lut,
    MaxPool2D,
    Mul,
    Op,
    Pad,
    Padding,
    PRelu,
    Requant,
    Reshape,
    Rounding,
    Slice,
    Softmax,
    Tensor,
    Transpose,
)  # fmt: skip
from mcufuse.oracle import evaluate
from mcufuse.passes.arrangement import Arrangement
from mcufuse.passes.layout import push_layout, renamed
from mcufuse.tables import softmax_exponents
from mcufuse.verify import verify

HALF = Requant((1 << 30,), (0,), Rounding.ONNX)
SUM = Requant((1 << 20,), (-21,), Rounding.ONNX)
TO_NHWC, TO_NCHW = (0, 2, 3, 1), (0, 3, 1, 2)


class Net:
    """A graph under construction; every method returns a tensor name."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.tensors: dict[str, Tensor] = {}
        self.ops: list[Op] = []
        self.inputs: list[str] = []

    def shape(self, name: str) -> tuple[int, ...]:
        return self.tensors[name].shape

    def input(self, *shape: int) -> str:
        name = f"in{len(self.inputs)}"
        self.tensors[name] = Tensor(name, shape, DType.S8)
        self.inputs.append(name)
        return name

    def const(self, data: Any, dtype: DType = DType.S8) -> str:
        name = f"c{len(self.tensors)}"
        array = np.ascontiguousarray(data, np.dtype(dtype.value))
        self.tensors[name] = Tensor(name, array.shape, dtype, None, array)
        return name

    def op(self, kind: type[Op], inputs: list[str], shape: tuple[int, ...], **fields: Any) -> str:
        name = f"{kind.__name__.lower()}{len(self.ops)}"
        self.tensors[name] = Tensor(name, shape, DType.S8)
        self.ops.append(kind(name=name, inputs=tuple(inputs), output=name, **fields))
        return name

    def transpose(self, x: str, perm: tuple[int, ...]) -> str:
        return self.op(Transpose, [x], tuple(self.shape(x)[p] for p in perm), perm=perm)

    def reshape(self, x: str, *shape: int) -> str:
        return self.op(Reshape, [x], shape)

    def lut(self, x: str) -> str:
        table = tuple(int(v) for v in self.rng.permutation(256) - 128)
        return self.op(Lut, [x], self.shape(x), table=table)

    def add(self, a: str, b: str) -> str:
        return self.op(Add, [a, b], self.shape(a), lhs=SUM, rhs=SUM, lhs_zero=3, rhs_zero=-2)

    def conv(self, x: str, out: int) -> str:
        """1x1 over NHWC."""
        channels = self.shape(x)[3]
        weights = self.const(self.rng.integers(-127, 128, (out, 1, 1, channels)))
        bias = self.const(self.rng.integers(-99, 99, out), DType.S32)
        requant = Requant((1 << 30,), (-7,), Rounding.ONNX)
        return self.op(Conv2D, [x, weights, bias], (*self.shape(x)[:3], out), requant=requant)

    def dense(self, x: str, out: int) -> str:
        weights = self.const(self.rng.integers(-127, 128, (out, math.prod(self.shape(x)))))
        bias = self.const(self.rng.integers(-99, 99, out), DType.S32)
        requant = Requant((1 << 30,), (-9,), Rounding.ONNX)
        return self.op(FullyConnected, [x, weights, bias], (1, out), requant=requant)

    def graph(self, *outputs: str) -> Graph:
        graph = Graph("net", self.tensors, tuple(self.ops), tuple(self.inputs), outputs)
        verify(graph)
        return graph


def pushed(graph: Graph) -> Graph:
    """The rewritten graph, once it is proven to compute the same."""
    result = push_layout(graph)
    verify(result)
    assert result.outputs == graph.outputs
    rng = np.random.default_rng(5)
    for _ in range(3):
        inputs = [rng.integers(-128, 128, graph.tensors[n].shape).astype(np.int8) for n in graph.inputs]
        for a, b in zip(evaluate(graph, inputs), evaluate(result, inputs), strict=True):
            assert a.shape == b.shape
            assert np.array_equal(a, b)
    assert kinds(result)["Transpose"] <= kinds(graph)["Transpose"]
    return result


def kinds(graph: Graph) -> Counter[str]:
    return Counter(op.kind for op in graph.ops)


# -- arrangements -----------------------------------------------------------------------------------------------------


def test_arrangements_compose_like_numpy_does() -> None:
    rng = random.Random(1)
    composed = 0
    for _ in range(300):
        dims = [rng.choice((1, 2, 3, 4, 6)) for _ in range(rng.randrange(1, 5))]
        order = rng.sample(range(len(dims)), len(dims))
        first = Arrangement.of(dims, order)
        middle = [dims[i] for i in order]
        split = [f for d in middle for f in ((2, d // 2) if d % 2 == 0 and rng.random() < 0.5 else (d,))]
        if rng.random() < 0.3:
            split = [math.prod(split[:2]), *split[2:]]
        order2 = rng.sample(range(len(split)), len(split))
        second = Arrangement.of(split, order2)
        both = first.then(second)
        data = np.arange(math.prod(dims))
        expected = data.reshape(dims).transpose(order).reshape(split).transpose(order2).reshape(-1)
        assert np.array_equal(first.apply(data), data.reshape(dims).transpose(order).reshape(-1))
        assert np.array_equal(first.inverse().apply(first.apply(data)), data)
        if both is not None:
            composed += 1
            assert np.array_equal(both.apply(data), expected)
            assert both.identity == np.array_equal(expected, data)
    assert composed > 200


def test_factors_that_do_not_nest() -> None:
    assert Arrangement.of((4, 6), (1, 0)).then(Arrangement.of((8, 3), (1, 0))) is None


# -- rewrites ---------------------------------------------------------------------------------------------------------


def test_nchw_network_becomes_nhwc() -> None:
    net = Net()
    x = net.input(1, 6, 5, 4)
    a = net.transpose(net.conv(x, 3), TO_NCHW)
    a = net.lut(a)
    b = net.transpose(net.conv(net.transpose(a, TO_NHWC), 3), TO_NCHW)
    y = net.add(b, a)
    y = net.op(Concat, [y, a], (1, 6, 6, 5), axis=0)
    y = net.op(Slice, [y], (1, 4, 6, 2), begin=(1, 0, 1), size=(4, 6, 2), stride=(1, 1, 2))
    y = net.op(Pad, [y], (1, 5, 9, 2), padding=Padding(0, 1, 1, 2), value=3)
    y = net.conv(net.transpose(y, TO_NHWC), 2)
    graph = pushed(net.graph(y))
    assert kinds(graph) == {"Conv2D": 3, "Lut": 1, "Add": 1, "Concat": 1, "Slice": 1, "Pad": 1}
    (concat,) = [op for op in graph.ops if isinstance(op, Concat)]
    assert concat.axis == 2
    (pad,) = [op for op in graph.ops if isinstance(op, Pad)]
    assert (pad.channels, pad.padding) == ((0, 1), Padding(1, 0, 2, 0))
    assert not graph.notes


def test_constants_are_rearranged() -> None:
    net = Net()
    x = net.transpose(net.conv(net.input(1, 6, 5, 4), 3), TO_NCHW)
    per_channel = net.const(net.rng.integers(-128, 128, (1, 3, 1, 1)))
    per_element = net.const(net.rng.integers(-128, 128, (1, 3, 6, 5)))
    y = net.add(x, per_channel)
    y = net.op(Mul, [y, per_element], net.shape(y), requant=HALF)
    slopes = net.const(net.rng.integers(-128, 128, (3, 1, 1)))
    y = net.op(PRelu, [y, slopes], net.shape(y), positive=HALF, negative=Requant((1 << 30,), (-6,), Rounding.ONNX))
    y = net.conv(net.transpose(y, TO_NHWC), 2)
    graph = pushed(net.graph(y))
    assert kinds(graph)["Transpose"] == 0
    (add,) = [op for op in graph.ops if isinstance(op, Add)]
    assert graph.tensors[add.inputs[1]].shape == (1, 1, 1, 3)


def test_flatten_into_dense_permutes_weights() -> None:
    net = Net()
    x = net.transpose(net.conv(net.input(1, 6, 5, 4), 3), TO_NCHW)
    y = net.dense(net.lut(net.reshape(x, 1, 90)), 7)
    graph = pushed(net.graph(y))
    assert kinds(graph) == {"Conv2D": 1, "Lut": 1, "FullyConnected": 1}


def test_input_and_output_keep_their_layout() -> None:
    net = Net()
    x = net.lut(net.input(1, 3, 6, 5))
    y = net.transpose(net.lut(net.conv(net.transpose(x, TO_NHWC), 4)), TO_NCHW)
    graph = pushed(net.graph(y))
    assert kinds(graph) == {"Lut": 2, "Transpose": 2, "Conv2D": 1}
    assert graph.tensors[graph.inputs[0]].shape == (1, 3, 6, 5)
    assert graph.tensors[graph.outputs[0]].shape == (1, 4, 6, 5)
    assert len(graph.notes) == 2
    assert "fed channels last" in graph.notes[0]


def test_one_channel_or_one_pixel_is_only_a_reshape() -> None:
    for shape in ((1, 1, 6, 5), (1, 7, 1, 1)):
        net = Net()
        y = net.conv(net.transpose(net.input(*shape), TO_NHWC), 4)
        assert kinds(pushed(net.graph(y))) == {"Reshape": 1, "Conv2D": 1}


def test_mixed_layouts_move_the_cheaper_operand() -> None:
    net = Net()
    a = net.transpose(net.conv(net.input(1, 6, 5, 4), 3), TO_NCHW)
    y = net.conv(net.transpose(net.add(net.input(1, 3, 6, 5), a), TO_NHWC), 2)
    assert kinds(pushed(net.graph(y)))["Transpose"] == 1


def test_channel_shuffle_is_one_transposition() -> None:
    net = Net()
    x = net.transpose(net.conv(net.input(1, 6, 5, 4), 6), TO_NCHW)
    y = net.transpose(net.reshape(x, 1, 2, 3, 30), (0, 2, 1, 3))
    y = net.conv(net.transpose(net.reshape(y, 1, 6, 6, 5), TO_NHWC), 2)
    graph = pushed(net.graph(y))
    assert kinds(graph)["Transpose"] == 1
    assert kinds(graph)["Conv2D"] == 2


def test_softmax_over_channels() -> None:
    net = Net()
    x = net.transpose(net.transpose(net.conv(net.input(1, 6, 5, 4), 3), TO_NCHW), TO_NHWC)
    exponents = softmax_exponents(0.1, 1.0, Rounding.ONNX)
    y = net.op(Softmax, [x], net.shape(x), rounding=Rounding.ONNX, exponents=exponents)
    swapped = net.transpose(net.conv(net.input(1, 6, 5, 4), 3), (0, 2, 1, 3))
    z = net.op(Softmax, [swapped], net.shape(swapped), rounding=Rounding.ONNX, exponents=exponents)
    z = net.transpose(z, (0, 2, 1, 3))
    assert kinds(pushed(net.graph(y, z))) == {"Conv2D": 2, "Softmax": 2}


def test_outputs_that_are_one_tensor() -> None:
    net = Net()
    x = net.input(1, 4, 3, 2)
    y = net.lut(x)
    there = net.transpose(y, TO_NHWC)
    back = net.transpose(there, TO_NCHW)
    same = net.transpose(net.transpose(x, TO_NHWC), TO_NCHW)
    graph = pushed(net.graph(y, back, same))
    assert kinds(graph) == {"Lut": 1, "Reshape": 2}


def test_graph_without_transpositions_is_left_alone() -> None:
    net = Net()
    graph = net.graph(net.lut(net.reshape(net.input(1, 4, 3, 2), 1, 24)))
    assert push_layout(graph) is graph


def test_renaming_avoids_clashes() -> None:
    net = Net()
    y = net.lut(net.lut(net.input(1, 4)))
    first = net.ops[0].output
    graph = renamed(net.graph(y), {y: first})
    verify(graph)
    assert graph.outputs == (first,)
    assert {op.name for op in graph.ops} == {first, f"{first}.1"}


@pytest.mark.parametrize("seed", range(120))
def test_random_graphs(seed: int) -> None:
    rng = random.Random(seed)
    net = Net(seed)
    maps = [net.input(1, *(rng.choice((1, 2, 3, 4)) for _ in range(3)))]
    for _ in range(rng.randrange(4, 16)):
        x = rng.choice(maps[-3:])
        maps.append(_random_step(net, rng, x, maps))
    used = {name for op in net.ops for name in op.inputs}
    outputs = [op.output for op in net.ops if op.output not in used]
    pushed(net.graph(*outputs))


def _random_step(net: Net, rng: random.Random, x: str, maps: list[str]) -> str:
    shape = net.shape(x)
    kind = rng.randrange(11)
    if kind <= 2 or len(shape) != 4:
        perm = (0, *rng.sample((1, 2, 3), 3))
        return net.transpose(x if len(shape) == 4 else net.reshape(x, 1, 1, *shape), perm)
    if kind == 3:
        dims = rng.sample(shape[1:], 3)
        return net.reshape(x, 1, *dims)
    if kind == 4:
        return net.lut(x)
    if kind == 5:
        other = next((m for m in maps if net.shape(m) == shape and m != x), x)
        return net.add(x, other)
    if kind == 6:
        dims = [rng.choice((1, d)) for d in shape]
        return net.add(x, net.const(net.rng.integers(-128, 128, dims)))
    if kind == 7:
        axis = rng.randrange(3)
        joined = [d * (2 if i == axis + 1 else 1) for i, d in enumerate(shape)]
        if math.prod(joined) > 400:
            return net.lut(x)
        other = next((m for m in reversed(maps) if net.shape(m) == shape), x)
        return net.op(Concat, [x, other], tuple(joined), axis=axis)
    if kind == 8:
        size = [rng.randrange(1, d + 1) for d in shape[1:]]
        begin = [rng.randrange(0, d - s + 1) for d, s in zip(shape[1:], size, strict=True)]
        return net.op(Slice, [x], (1, *size), begin=tuple(begin), size=tuple(size))
    if kind == 9:
        return net.conv(x, rng.randrange(1, 5))
    return net.op(MaxPool2D, [x], shape, kernel=(2, 2), padding=Padding(0, 0, 1, 1))


def test_origin_names_stay() -> None:
    net = Net()
    x = net.transpose(net.transpose(net.conv(net.input(1, 6, 5, 4), 3), TO_NCHW), (0, 1, 3, 2))
    net.ops[0] = replace(net.ops[0], origin=("node a",))
    graph = pushed(net.graph(x))
    assert len(graph.ops) == 2
    assert all(op.origin == ("node a",) for op in graph.ops)
