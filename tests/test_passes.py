# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Every rewrite leaves the output bits as they were, and does what it is there for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from graph_builder import GraphBuilder, random_graph
from mcufuse.ir import (
    AvgPool2D,
    Clamp,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    Graph,
    MaxPool2D,
    Mean,
    Op,
    Pad,
    Padding,
    Requant,
    Reshape,
    Rounding,
)
from mcufuse.oracle import evaluate
from mcufuse.passes import PASSES
from mcufuse.passes.canonical import canonicalize
from mcufuse.passes.cleanup import fold_constants, remove_identities
from mcufuse.passes.constant_channels import remove_constant_channels
from mcufuse.passes.intervals import channel_bounds
from mcufuse.passes.pads import fold_padding
from mcufuse.passes.tables import compose_tables, tables_to_clamps
from mcufuse.verify import verify


def samples(graph: Graph, count: int = 6, seed: int = 0) -> list[list[np.ndarray]]:
    """Random, extreme and constant inputs."""
    rng = np.random.default_rng(seed)
    shapes = [graph.tensors[name].shape for name in graph.inputs]
    draws: list[Callable[[tuple[int, ...]], np.ndarray]] = [
        lambda s: rng.integers(-128, 128, s),
        lambda s: rng.choice([-128, 127], s),
        lambda s: np.full(s, rng.integers(-128, 128)),
    ]
    return [[draws[i % 3](s).astype(np.int8) for s in shapes] for i in range(count)]


def assert_same(before: Graph, after: Graph) -> None:
    """Both graphs verify and give the same bits."""
    verify(after)
    for inputs in samples(before):
        for a, b in zip(evaluate(before, inputs), evaluate(after, inputs), strict=True):
            np.testing.assert_array_equal(a.reshape(-1), b.reshape(-1))


def kinds(graph: Graph) -> list[str]:
    """Operator names in order."""
    return [op.kind for op in graph.ops]


def of_type(graph: Graph, kind: type[Op]) -> list[Op]:
    """Operators of a type, in order."""
    return [op for op in graph.ops if isinstance(op, kind)]


@pytest.mark.parametrize("seed", range(40))
def test_all_passes_on_random_graphs(seed: int) -> None:
    graph = random_graph(seed)
    after = graph
    for run in PASSES:
        after = run(after)
        verify(after)
    assert_same(graph, after)


@pytest.mark.parametrize("rounding", list(Rounding))
def test_constant_channels_of_a_mobilenet(rounding: Rounding) -> None:
    """Channels that always clamp go from a depthwise chain and the layers around it."""
    g = GraphBuilder(5, rounding)
    x = g.conv(g.input(1, 12, 12, 3), 16, (3, 3), 2, dead=0.4)
    x = g.conv(g.depthwise(x, dead=0.3), 24, dead=0.3)
    x = g.conv(g.depthwise(x, stride=2, dead=0.3), 16)
    graph = g.build(g.dense(g.mean(x), 4))
    after = remove_constant_channels(graph)
    assert_same(graph, after)
    removed = sum(graph.tensors[o.output].hwc[2] - after.tensors[o.output].hwc[2] for o in graph.ops)
    assert removed > 20
    assert "removed" in after.notes[-1]


def test_a_constant_channel_stays_where_padding_would_show_it() -> None:
    """Its constant is the clamp's low edge, -3 = the next zero point: foldable; any other value is not."""
    for edge, may_go in ((-3, True), (5, False)):
        g = GraphBuilder(6)
        x = g.conv(g.input(1, 8, 8, 2), 8, dead=0.5)
        y = g.conv(x, 4, (3, 3))  # SAME: pads
        graph = g.build(y)
        first = replace(graph.ops[0], clamp=Clamp(edge, 127))  # type: ignore[call-arg]
        graph = graph.with_(ops=(first, *graph.ops[1:]))
        after = remove_constant_channels(graph)
        assert_same(graph, after)
        assert (after.tensors[x].hwc[2] < 8) is may_go


def test_input_channels_with_zero_weights_go() -> None:
    g = GraphBuilder(7)
    x = g.conv(g.input(1, 6, 6, 2), 8)
    graph = g.build(g.conv(x, 4, (3, 3)))
    weights = graph.const(graph.ops[1].inputs[1]).copy()
    weights[..., [1, 6]] = 0
    tensor = replace(graph.tensors[graph.ops[1].inputs[1]], data=weights)
    graph = graph.with_(tensors=(tensor,))
    after = remove_constant_channels(graph)
    assert_same(graph, after)
    assert after.tensors[x].hwc[2] == 6


def test_channels_before_a_flattened_dense_layer() -> None:
    g = GraphBuilder(8)
    x = g.conv(g.input(1, 4, 3, 2), 10, dead=0.5)
    graph = canonicalize(g.build(g.dense(g.reshape(x, 1, 120), 5)))
    after = remove_constant_channels(graph)
    assert_same(graph, after)
    assert after.tensors[x].hwc[2] < 10


def test_bounds_hold_for_everything_that_was_seen() -> None:
    for seed in range(20):
        graph = random_graph(seed)
        bounds = channel_bounds(graph)
        from mcufuse.oracle import evaluate_all

        for inputs in samples(graph, seed=seed):
            for name, values in evaluate_all(graph, inputs).items():
                flat = values.reshape(-1, graph.tensors[name].hwc[2])
                assert np.all(flat >= bounds[name].lo), (seed, name)
                assert np.all(flat <= bounds[name].hi), (seed, name)


def test_tables_compose() -> None:
    g = GraphBuilder(9)
    graph = g.build(g.table(g.table(g.table(g.conv(g.input(1, 4, 4, 2), 3)))))
    after = compose_tables(graph)
    assert_same(graph, after)
    assert kinds(after) == ["Conv2D", "Lut"]


def test_a_limiting_table_becomes_a_clamp() -> None:
    g = GraphBuilder(10)
    x = g.conv(g.input(1, 4, 4, 2), 3, relu=False)
    graph = g.build(g.table(x))
    limit = replace(graph.ops[1], table=tuple(min(max(q, -20), 50) for q in range(-128, 128)))  # type: ignore[call-arg]
    graph = graph.with_(ops=(graph.ops[0], limit))
    after = tables_to_clamps(graph)
    assert_same(graph, after)
    assert kinds(after) == ["Conv2D"]
    assert after.ops[0].clamp == Clamp(-20, 50)  # type: ignore[attr-defined]


def test_a_table_that_is_no_limit_stays() -> None:
    g = GraphBuilder(11)
    graph = g.build(g.table(g.conv(g.input(1, 4, 4, 2), 3)))
    assert tables_to_clamps(graph) is graph


def test_padding_with_the_zero_point_folds_and_other_padding_does_not() -> None:
    for value, left in ((-3, 0), (9, 1)):
        g = GraphBuilder(12)
        x = g.pad(g.input(1, 5, 5, 2), 1, value)
        graph = g.build(g.conv(x, 3, (3, 3), same=False))
        after = fold_padding(graph)
        assert_same(graph, after)
        assert len(of_type(after, Pad)) == left


def test_padding_with_the_minimum_folds_into_a_maximum() -> None:
    g = GraphBuilder(13)
    graph = g.build(g.maxpool(g.pad(g.input(1, 5, 5, 2), 1, -128), 3, 2))
    after = fold_padding(graph)
    assert_same(graph, after)
    assert kinds(after) == ["MaxPool2D"]
    assert after.ops[0].padding == Padding(1, 1, 1, 1)  # type: ignore[attr-defined]
    assert isinstance(after.ops[0], MaxPool2D)


def test_pooling_over_the_whole_map_is_a_mean() -> None:
    g = GraphBuilder(14)
    graph = g.build(g.avgpool(g.input(1, 4, 4, 3), 4, 4))
    after = canonicalize(graph)
    assert_same(graph, after)
    assert isinstance(graph.ops[0], AvgPool2D)
    assert isinstance(after.ops[0], Mean)


def test_a_convolution_over_the_whole_map_is_a_dense_layer() -> None:
    g = GraphBuilder(15)
    graph = g.build(g.conv(g.input(1, 4, 3, 3), 5, (4, 3), same=False))
    after = canonicalize(graph)
    assert_same(graph, after)
    assert isinstance(after.ops[0], FullyConnected)


def test_a_dense_layer_needs_no_reshape() -> None:
    g = GraphBuilder(16)
    graph = g.build(g.dense(g.reshape(g.conv(g.input(1, 4, 3, 3), 2), 1, 24), 5))
    after = canonicalize(graph)
    assert_same(graph, after)
    assert not of_type(after, Reshape)


def test_depthwise_over_one_channel_is_a_convolution() -> None:
    g = GraphBuilder(17)
    x = g.input(1, 6, 6, 1)
    weights = g.rng.integers(-127, 128, (3, 3, 4))
    names = (g._const(weights, g.tensors[x].dtype), g._bias(4, 9, 0.0))
    y = g._emit(
        DepthwiseConv2D, (x, *names), (1, 6, 6, 4), multiplier=4, padding=Padding(1, 1, 1, 1), in_zero=-3,
        requant=g.requant(4, 0.01),
    )  # fmt: skip
    graph = g.build(y)
    after = canonicalize(graph)
    assert_same(graph, after)
    assert isinstance(after.ops[0], Conv2D)


def test_identities_go_and_constants_fold() -> None:
    g = GraphBuilder(18)
    x = g.conv(g.input(1, 4, 4, 2), 3)
    y = g.reshape(x, 1, 4, 4, 3)
    graph = g.build(g.table(y))
    after = remove_identities(graph)
    assert_same(graph, after)
    assert kinds(after) == ["Conv2D", "Lut"]


def test_operators_of_constants_fold() -> None:
    g = GraphBuilder(18)
    x = g.conv(g.input(1, 4, 4, 2), 3)
    const = g._const(np.arange(-24, 24).reshape(1, 4, 4, 3), g.tensors[x].dtype)
    graph = g.build(g.add(x, g.table(const)))
    after = fold_constants(graph)
    assert_same(graph, after)
    assert kinds(after) == ["Conv2D", "Add"]


def test_requant_slices_by_channel() -> None:
    """Channels keep their own multipliers when others go."""
    g = GraphBuilder(19)
    x = g.conv(g.input(1, 4, 4, 2), 12, dead=0.5)
    graph = g.build(g.conv(x, 4))
    after = remove_constant_channels(graph)
    conv = after.ops[0]
    assert isinstance(conv, Conv2D)
    assert len(conv.requant) == after.tensors[x].hwc[2]
    assert isinstance(conv.requant, Requant)
