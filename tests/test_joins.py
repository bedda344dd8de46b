# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Maps that are joined where their producers write them: places, refusals, and the bits of the generated C."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from graph_builder import GraphBuilder
from mcufuse.baremetal import build, run
from mcufuse.config import Optimize
from mcufuse.ir import Graph
from mcufuse.objective import OBJECTIVES
from mcufuse.pipeline import Compiled, compile_graph
from mcufuse.plan.check import BrokenPlan, check_plan
from mcufuse.plan.joins import Join, pack_joined
from mcufuse.plan.packing import Item, check_packing
from mcufuse.report import lay_out, render_plain
from mcufuse.target import core_by_name
from test_networks import HostNetwork, write_network

LAYERS = OBJECTIVES[Optimize.LATENCY]  # every step on its own


def rows() -> Graph:
    """Two branches joined along height; the convolution behind reads across the seam."""
    g = GraphBuilder(1)
    x = g.conv(g.input(1, 8, 8, 4), 4, (3, 3))
    return g.build(g.conv(g.concat(g.conv(x, 8), g.conv(x, 8, (3, 3)), axis=0), 4, (3, 3)))


def output() -> Graph:
    """The joined map is the network's output."""
    g = GraphBuilder(2)
    x = g.input(1, 6, 5, 4)
    return g.build(g.concat(g.conv(x, 4), g.conv(x, 4, (3, 3)), g.depthwise(x), axis=0))


def nested() -> Graph:
    """A joined map is a part of another one."""
    g = GraphBuilder(3)
    x = g.conv(g.input(1, 4, 4, 4), 4)
    inner = g.concat(g.conv(x, 4), g.conv(x, 4, (3, 3)), axis=0)
    return g.build(g.conv(g.concat(g.depthwise(x), inner, axis=0), 4, (3, 3)))


def vectors() -> Graph:
    """One row, one column: channels are whole runs of bytes."""
    g = GraphBuilder(4)
    x = g.input(1, 5, 5, 4)
    return g.build(g.dense(g.concat(g.mean(g.conv(x, 8)), g.mean(g.conv(x, 12, (3, 3)))), 5))


def columns() -> Graph:
    """One row of several columns."""
    g = GraphBuilder(5)
    x = g.input(1, 1, 8, 4)
    return g.build(g.conv(g.concat(g.conv(x, 4), g.conv(x, 4), axis=1), 3))


JOINED = {
    "rows": (rows, 1),
    "output": (output, 1),
    "nested": (nested, 2),
    "vectors": (vectors, 1),
    "columns": (columns, 1),
}


def two_readers() -> Graph:
    g = GraphBuilder(6)
    x = g.conv(g.input(1, 6, 6, 4), 4)
    a, b = g.conv(x, 4), g.conv(x, 4)
    return g.build(g.concat(a, b, axis=0), g.table(a))


def read_twice() -> Graph:
    g = GraphBuilder(7)
    a = g.conv(g.input(1, 6, 6, 4), 4)
    return g.build(g.table(g.concat(a, a, axis=0)))


def an_output() -> Graph:
    g = GraphBuilder(8)
    x = g.input(1, 6, 6, 4)
    a = g.conv(x, 4)
    return g.build(g.concat(a, g.conv(x, 4), axis=0), a)


def channels() -> Graph:
    g = GraphBuilder(9)
    x = g.input(1, 6, 6, 4)
    return g.build(g.concat(g.conv(x, 4), g.conv(x, 4)))


def odd() -> Graph:
    """The second part would begin at byte 3 * 3 * 5 = 45."""
    g = GraphBuilder(10)
    x = g.input(1, 3, 3, 4)
    return g.build(g.concat(g.conv(x, 5), g.conv(x, 5), axis=0))


COPIED = {f.__name__: f for f in (two_readers, read_twice, an_output, channels, odd)}


def compiled(graph: Graph, core: str = "cortex-m3") -> Compiled:
    return compile_graph(graph, name="net", core=core_by_name(core), objective=LAYERS)


def some_inputs(network: Compiled, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(-128, 128, t.shape).astype(np.int8) for t in network.inputs]


def poison(host: HostNetwork, value: int) -> None:
    """Fills the arena; its address is the second pointer of struct mcufuse_model."""
    fields = ctypes.cast(host.model, ctypes.POINTER(ctypes.c_void_p))
    ctypes.memset(fields[1], value, host.network.plan.arena_bytes)


@pytest.mark.parametrize("core", ["cortex-m3", "cortex-m4"])
@pytest.mark.parametrize("name", [*JOINED, *COPIED])
def test_same_bits_from_a_poisoned_arena(name: str, core: str, tmp_path: Path) -> None:
    graph = JOINED[name][0]() if name in JOINED else COPIED[name]()
    network = compiled(graph, core)
    host = HostNetwork(network, "net", tmp_path, ("-O2",))
    for seed in range(6):
        inputs = some_inputs(network, seed)
        poison(host, 0xA5 + seed)
        got = host.infer(tuple(inputs))
        for a, b in zip(got, network.evaluate(inputs), strict=True):
            np.testing.assert_array_equal(a, b.reshape(-1))


@pytest.mark.parametrize("name", JOINED)
def test_the_copy_and_its_buffers_are_gone(name: str) -> None:
    make, count = JOINED[name]
    network = compiled(make())
    plan = network.plan
    assert len(plan.joined) == count
    for k in plan.joined:
        step, at = network.steps[k], plan.buffer_of(network.steps[k].storage).offset
        for operand in step.operands:
            assert plan.buffer_of(operand.storage).offset == at
            at += operand.height * operand.row_bytes
    assert "mf_concat" not in network.files["net.c"]
    assert plan.arena_bytes == plan.lower_bound
    assert render_plain(lay_out(network.report)).count("written by its producers") == count


@pytest.mark.parametrize("name", COPIED)
def test_where_a_copy_is_needed_it_stays(name: str) -> None:
    network = compiled(COPIED[name]())
    assert network.plan.joined == ()
    assert "mf_concat" in network.files["net.c"]


@pytest.mark.parametrize("name", JOINED)
def test_a_join_never_costs_memory(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    joined = compiled(JOINED[name][0]()).plan.arena_bytes
    monkeypatch.setattr("mcufuse.plan.stages.find_join", lambda *_: None)
    copied = compiled(JOINED[name][0]()).plan
    assert copied.joined == ()
    print(f"{name}: arena {joined} B, {copied.arena_bytes} B with the copy")
    assert joined <= copied.arena_bytes
    assert name not in ("output", "columns") or joined < copied.arena_bytes


@pytest.mark.parametrize("name", JOINED)
def test_the_checker_sees_an_operand_out_of_place(name: str) -> None:
    network = compiled(JOINED[name][0]())
    plan = network.plan
    operands = {o.storage for k in plan.joined for o in network.steps[k].operands}
    caught = 0
    for i, buffer in enumerate(plan.buffers):
        for by in (-4, 4):
            if buffer.name in operands and 0 <= buffer.offset + by <= plan.arena_bytes - buffer.bytes:
                moved = [replace(b, offset=b.offset + by) if i == j else b for j, b in enumerate(plan.buffers)]
                with pytest.raises(BrokenPlan):
                    check_plan(network.graph, network.steps, replace(plan, buffers=tuple(moved)))
                caught += 1
    assert caught


def test_the_checker_sees_a_step_that_is_left_out_wrongly() -> None:
    network = compiled(channels())
    with pytest.raises(BrokenPlan, match="is left out"):
        check_plan(network.graph, network.steps, replace(network.plan, joined=(len(network.steps) - 1,)))


@pytest.mark.qemu
@pytest.mark.parametrize("make", [rows, vectors])
def test_on_the_target(make: Callable[[], Graph], tmp_path: Path) -> None:
    network = compiled(make())
    image = build(write_network(network, tmp_path), core_by_name("cortex-m3"), out_dir=tmp_path / "out")
    inputs = some_inputs(network, 1)
    (got,) = run(image, inputs=[inputs]).outputs
    for a, b in zip(got, network.evaluate(inputs), strict=True):
        np.testing.assert_array_equal(np.asarray(a).reshape(-1), b.reshape(-1))


def test_any_joined_packing_is_valid() -> None:
    """Random problems with random distances between buffers that are no parts of one result."""
    for seed in range(300):
        rng = random.Random(seed)
        items = []
        for k in range(rng.randint(1, 8)):
            first = rng.randint(0, 5)
            items.append(Item(f"b{k}", 4 * rng.randint(1, 9), first, rng.randint(first, 5)))
        count = rng.randint(2, 3)
        parts = [Item(f"p{k}", 4 * rng.randint(1, 9), rng.randint(0, 3), 3) for k in range(count)]
        whole = Item("whole", sum(p.size for p in parts), 3, rng.randint(3, 5))
        every = [*items, *parts, whole]
        rng.shuffle(every)
        at = [sum(p.size for p in parts[:k]) for k in range(count)]
        distances = {
            (i, j): 4 * rng.randint(-a.size // 4, a.size // 4)
            for i, a in enumerate(every)
            for j, b in enumerate(every)
            if i != j and rng.random() < 0.2 and not {a.name[0], b.name[0]} <= {"p", "w"}
        }
        packing = pack_joined(
            every, distances, [Join(0, "whole", tuple((p.name, s) for p, s in zip(parts, at, strict=True)))]
        )
        offsets = dict(zip((item.name for item in every), packing.offsets, strict=True))
        assert [offsets[p.name] - offsets["whole"] for p in parts] == at
        # A part and the whole share memory, which is the point; everything else holds.
        index = {item.name: i for i, item in enumerate(every)}
        shared = {(index["whole"], index[p.name]): s for p, s in zip(parts, at, strict=True)}
        assert check_packing(every, {**distances, **shared}, packing.offsets) == []
