# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The verifier finds each kind of damage done to a good graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcufuse.importers import load_model
from mcufuse.importers.tflite import import_tflite
from mcufuse.ir import Bottleneck, Clamp, Conv2D, DepthwiseConv2D, DType, Graph, Op, Padding, Requant, Rounding, Tensor
from mcufuse.verify import BrokenGraph, verify
from tflite_cases import CASES


@pytest.fixture
def kws(models: Path) -> Graph:
    return load_model(models / "kws_int8.tflite", None)


def broken(graph: Graph) -> str:
    with pytest.raises(BrokenGraph) as caught:
        verify(graph)
    assert caught.value.violations
    return str(caught.value)


def with_op(graph: Graph, index: int, **changes: Any) -> Graph:
    """The graph with one operator changed and its tensors kept."""
    ops = list(graph.ops)
    ops[index] = replace(ops[index], **changes)
    return replace(graph, ops=tuple(ops))


def test_good_graphs_pass(kws: Graph) -> None:
    verify(kws)


CONV_DAMAGE: list[tuple[dict[str, Any], str]] = [
    ({"stride": (1, 1)}, "the output is (25, 5, 64), not"),
    ({"stride": (0, 1)}, "the output is"),
    ({"padding": Padding()}, "the output is"),
    ({"padding": Padding(-1, 0, 0, 0)}, "the output is"),
    ({"groups": 2}, "the weights' depth"),
    ({"groups": 0}, "0 groups"),
    ({"in_zero": 200}, "in_zero 200"),
    ({"out_zero": -129}, "out_zero -129"),
    ({"clamp": Clamp(5, 4)}, "clamp"),
    ({"clamp": Clamp(-129, 4)}, "clamp"),
    ({"requant": Requant((1 << 30,) * 3, (0,) * 3, Rounding.TFLITE)}, "3 multipliers"),
    ({"requant": Requant((1 << 30,), (0, 0), Rounding.TFLITE)}, "2 shifts"),
    ({"requant": Requant((1 << 31,), (0,), Rounding.TFLITE)}, "out of range"),
    ({"requant": Requant((-1,), (0,), Rounding.TFLITE)}, "out of range"),
    ({"requant": Requant((1 << 30,), (31,), Rounding.TFLITE)}, "out of range"),
    ({"requant": Requant((1 << 30,), (-32,), Rounding.TFLITE)}, "out of range"),
]


@pytest.mark.parametrize(("changes", "says"), CONV_DAMAGE)
def test_damaged_convolutions(kws: Graph, changes: dict[str, Any], says: str) -> None:
    assert says in broken(with_op(kws, 0, **changes))


def _rename_key(g: Graph) -> Graph:
    tensors = dict(g.tensors)
    tensors["other"] = tensors.pop(g.ops[0].output)
    return replace(g, tensors=tensors)


def _unused(g: Graph) -> Graph:
    return replace(g, tensors={**g.tensors, "spare": Tensor("spare", (1, 2), DType.S8)})


def _no_data(g: Graph) -> Graph:
    name = g.ops[0].inputs[1]
    return replace(g, tensors={**g.tensors, name: replace(g.tensors[name], data=None)})


def _wrong_data(g: Graph) -> Graph:
    name = g.ops[0].inputs[2]
    return replace(g, tensors={**g.tensors, name: replace(g.tensors[name], data=np.zeros(3, np.int32))})


def _batch(g: Graph) -> Graph:
    name = g.ops[0].output
    return replace(g, tensors={**g.tensors, name: replace(g.tensors[name], shape=(2, 25, 5, 64))})


def _float_map(g: Graph) -> Graph:
    name = g.ops[0].output
    return replace(g, tensors={**g.tensors, name: replace(g.tensors[name], dtype=DType.F32)})


GRAPH_DAMAGE: list[tuple[Callable[[Graph], Graph], str]] = [
    (lambda g: replace(g, ops=(g.ops[1], g.ops[0], *g.ops[2:])), "before it is defined"),
    (lambda g: replace(g, ops=(*g.ops, g.ops[0])), "a second time"),
    (lambda g: replace(g, ops=g.ops[:-1]), "is not computed"),
    (lambda g: replace(g, outputs=(g.ops[-2].output,)), "is dead"),
    (lambda g: replace(g, outputs=g.outputs * 2), "not distinct"),
    (lambda g: replace(g, inputs=()), "no inputs"),
    (lambda g: replace(g, inputs=(*g.inputs, g.ops[0].inputs[1])), "is constant"),
    (lambda g: replace(g, inputs=("absent",)), "tensor absent does not exist"),
    (lambda g: with_op(g, 1, name=g.ops[0].name), "names are not distinct"),
    (lambda g: with_op(g, 0, inputs=g.ops[0].inputs[:2]).with_(), "2 operands"),
    (_rename_key, "is filed as other"),
    (_unused, "tensor spare is not used"),
    (_no_data, "before it is defined"),
    (_wrong_data, "data int32 (3,), not"),
    (_batch, "is not a single map"),
    (_float_map, "int8 to float32"),
]


@pytest.mark.parametrize(("damage", "says"), GRAPH_DAMAGE)
def test_damaged_graphs(kws: Graph, damage: Callable[[Graph], Graph], says: str) -> None:
    assert says in broken(damage(kws))


BOTTLENECK_DAMAGE: list[tuple[dict[str, Any], str]] = [
    ({}, ""),
    ({"strips": 0}, "0 strips"),
    ({"strips": 6}, "6 strips of 5 columns"),
    ({"inputs": 5}, "6 operands"),
    ({"expand": {"in_zero": 300}}, "expand: in_zero 300"),
    ({"expand": {"stride": (2, 2)}}, "expand: the output is"),
    ({"depthwise": {"padding": Padding()}}, "depthwise: the output is"),
    ({"project": {"clamp": Clamp(4, 3)}}, "project: clamp"),
]


@pytest.mark.parametrize(("changes", "says"), BOTTLENECK_DAMAGE)
def test_bottlenecks(kws: Graph, changes: dict[str, Any], says: str) -> None:
    """Made of three neighbours of kws: 1x1, depthwise, 1x1."""
    expand, depthwise, project = kws.ops[2:5]
    assert isinstance(expand, Conv2D)
    assert isinstance(depthwise, DepthwiseConv2D)
    assert isinstance(project, Conv2D)
    parts: dict[str, Any] = {"expand": expand, "depthwise": depthwise, "project": project}
    inputs = (*expand.inputs, *depthwise.inputs[1:], *project.inputs[1:])
    for name, change in changes.items():
        if name in parts:
            parts[name] = replace(parts[name], **change)
    op = Bottleneck(
        name="bottleneck", inputs=inputs[: len(inputs) - changes.get("inputs", 0) // 5], output=project.output,
        strips=changes.get("strips", 1), **parts,
    )  # fmt: skip
    graph = kws.with_(ops=(*kws.ops[:2], op, *kws.ops[5:]))
    if says:
        assert says in broken(graph)
    else:
        verify(graph)


def test_all_violations_are_listed(kws: Graph) -> None:
    twice = with_op(with_op(kws, 0, in_zero=200), 1, clamp=Clamp(3, 2))
    with pytest.raises(BrokenGraph) as caught:
        verify(twice)
    assert len(caught.value.violations) == 2


def test_an_unknown_operator_is_broken(kws: Graph) -> None:
    first = kws.ops[0]
    assert "unknown operator" in broken(with_op_replaced(kws, Op(name="x", inputs=first.inputs, output=first.output)))


def with_op_replaced(graph: Graph, op: Op) -> Graph:
    return replace(graph, ops=(op, *graph.ops[1:]))


def _worse(value: Any) -> list[Any]:
    """Wrong values for a field of an operator."""
    if isinstance(value, bool) or value is None or isinstance(value, (str, Rounding)):
        return []
    if isinstance(value, Clamp):
        return [Clamp(-200, 127)]
    if isinstance(value, Padding):
        return [replace(value, top=value.top + 50), replace(value, left=-1)]
    if isinstance(value, Requant):
        return [Requant((), (), value.rounding), Requant((1 << 31,), (0,), value.rounding)]
    if isinstance(value, tuple):
        return [value[:-1], (*value, value[-1] if value else 0), tuple(-(1 << 20) for _ in value)]
    return [1 << 20]


# What the name, the number format or the meaning of a scale may be is not for the verifier to say.
SETTLED = {"name", "inputs", "output", "origin", "left_shift", "scale", "out_inverse"}


@pytest.mark.parametrize("name", CASES)
def test_each_field_of_each_operator_is_checked(name: str) -> None:
    graph = import_tflite(Path("case.tflite"), CASES[name](np.random.default_rng(11)).data, None)
    verify(graph)
    tried = 0
    for index, op in enumerate(graph.ops):
        for field in fields(op):
            if field.name in SETTLED:
                continue
            for value in _worse(getattr(op, field.name)):
                tried += 1
                with pytest.raises(BrokenGraph):
                    verify(with_op(graph, index, **{field.name: value}))
        if isinstance(op, Conv2D):
            assert tried >= 10
