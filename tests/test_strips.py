# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Strips: less memory for repeated MACs, chosen where they pay, the bits unchanged."""

from __future__ import annotations

import ctypes
import json
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from graph_builder import GraphBuilder, mobilenet_v2
from mcufuse.baremetal import build, run
from mcufuse.config import Optimize
from mcufuse.ir import Bottleneck, Graph
from mcufuse.lowering import lower_graph
from mcufuse.objective import OBJECTIVES
from mcufuse.oracle import evaluate
from mcufuse.passes.strips import Planner, apply_strips, find_blocks, fuse
from mcufuse.paths import firmware_dir
from mcufuse.pipeline import Compiled, compile_graph
from mcufuse.plan.arena import plan_arena
from mcufuse.plan.check import check_plan
from mcufuse.schedule import make_steps
from mcufuse.target import core_by_name
from mcufuse.verify import verify

Array = np.ndarray
ARENA, MACS = 21_389, 1.3  # of MobileNetV2 0.35 at 144x144, fed by rows: bytes, and MACs as a factor
STRIPS = 6


def planner(*, fed_rows: bool = False) -> Planner:
    """Plans for the M3, each plan checked."""

    def plan(graph: Graph):  # type: ignore[no-untyped-def]
        lowered, macs = lower_graph(graph, core_by_name("cortex-m3"))
        steps = make_steps(graph, lowered, macs, fed_rows=fed_rows)
        found = plan_arena(graph, steps)
        check_plan(graph, steps, found)
        return steps, found

    return plan


def block(g: GraphBuilder, x: str, channels: int, *, expansion: int = 6, stride: int = 1, kernel: int = 3) -> str:
    """An inverted bottleneck without its addition."""
    middle = g.conv(x, g.shape(x)[3] * expansion)
    return g.conv(g.depthwise(middle, (kernel, kernel), stride), channels, relu=False)


def small(kernel: int = 3, expansion: int = 6) -> Graph:
    """Two bottlenecks, one of them with an addition, behind a small beginning."""
    g = GraphBuilder(5)
    x = g.conv(g.input(1, 20, 22, 3), 4, (3, 3), 2)
    x = g.add(block(g, x, 4, expansion=expansion, kernel=kernel), x)
    x = block(g, x, 8, expansion=expansion, stride=2, kernel=kernel)
    return g.build(g.dense(g.mean(x), 5))


def some_input(graph: Graph, seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.integers(-128, 128, graph.tensors[name].shape).astype(np.int8) for name in graph.inputs]


def test_blocks_of_mobilenet_v2() -> None:
    graph = mobilenet_v2(0.35, 144)
    blocks = find_blocks(graph)
    assert len(blocks) == 16  # 17 bottlenecks, the first one does not expand
    fused = fuse(graph, blocks, 4)
    verify(fused)
    assert len(fused.ops) == len(graph.ops) - 2 * len(blocks)


def test_what_is_no_block() -> None:
    g = GraphBuilder(1)
    x = g.input(1, 8, 8, 4)
    wide = g.conv(x, 8, (3, 3))  # not 1x1
    y = g.conv(g.depthwise(wide), 4)
    shared = g.conv(y, 8)  # read twice
    z = g.concat(g.conv(g.depthwise(shared), 4), shared)
    strided = g.conv(z, 8, stride=2)  # skips pixels
    out = g.conv(g.depthwise(strided), 4)
    kept = g.conv(out, 8)  # an output of the network
    last = g.conv(g.depthwise(kept), 4)
    assert find_blocks(g.build(last, kept)) == ()


def test_a_projection_that_expands_again() -> None:
    """conv, depthwise, conv, depthwise, conv: the one in the middle belongs to one block only."""
    g = GraphBuilder(2)
    x = g.conv(g.input(1, 8, 8, 4), 8)
    x = g.conv(g.depthwise(g.conv(g.depthwise(x), 8)), 8)
    graph = g.build(x)
    (only,) = find_blocks(graph)
    fused = fuse(graph, (only,), 2)
    verify(fused)
    assert np.array_equal(evaluate(graph, some_input(graph, 1))[0], evaluate(fused, some_input(graph, 1))[0])


@pytest.mark.parametrize("strips", [1, 2, 3, 5, 100])
def test_same_bits_and_no_more_memory(strips: int) -> None:
    graph = small()
    before = planner()(graph)[1].arena_bytes
    cut = apply_strips(graph, strips, planner(), mac_limit=3.0)
    verify(cut)
    assert planner()(cut)[1].arena_bytes <= before
    for seed in range(3):
        inputs = some_input(graph, seed)
        assert np.array_equal(evaluate(graph, inputs)[0], evaluate(cut, inputs)[0])


def macs_of(graph: Graph) -> int:
    return sum(step.macs for step in planner()(graph)[0])


def test_the_limit_of_macs_is_kept() -> None:
    graph = small(expansion=12)
    generous = apply_strips(graph, 4, planner(), mac_limit=10.0)
    assert any(isinstance(op, Bottleneck) for op in generous.ops)
    factor = macs_of(generous) / macs_of(graph)
    assert factor > 1.0
    below = apply_strips(graph, 4, planner(), mac_limit=factor - 0.001)
    assert macs_of(below) / macs_of(graph) <= factor - 0.001
    none = apply_strips(graph, 4, planner(), mac_limit=1.0)
    assert none.ops == graph.ops
    assert none.notes == ("4 strips: they would not shrink the arena within the limit of MACs, nothing changed",)


def test_every_fused_block_is_needed() -> None:
    graph = small(expansion=12)
    cut = apply_strips(graph, 4, planner(), mac_limit=10.0)
    least = planner()(cut)[1].arena_bytes
    names = {op.name for op in cut.ops if isinstance(op, Bottleneck)}
    chosen = [b for b in find_blocks(graph) if b.project.name in names]
    assert chosen
    for left_out in chosen:
        fewer = fuse(graph, [b for b in chosen if b is not left_out], 4)
        assert planner()(fewer)[1].arena_bytes > least


class Host:
    """A network as a shared library of the host."""

    def __init__(self, compiled: Compiled, directory: Path, *flags: str):
        self.compiled = compiled
        write(compiled, directory)
        sources = [str(directory / "net.c"), str(firmware_dir() / "src" / "mcufuse.c")]
        command = ["gcc", "-shared", "-fPIC", "-std=c11", "-Wall", "-Wextra", "-Werror", *flags]
        command += [f"-I{firmware_dir() / 'include'}", *sources, "-o", str(directory / "net.so")]
        subprocess.run(command, check=True)
        self.lib = ctypes.CDLL(str(directory / "net.so"))
        self.model = ctypes.byref(ctypes.c_char.in_dll(self.lib, "net_model"))
        self.lib.mcufuse_output.restype = ctypes.c_void_p
        assert self.lib.mcufuse_init(self.model) == 0

    def infer(self, data: Array) -> Array:
        """One inference, input fed row by row."""
        tensor = self.compiled.inputs[0]
        for row in data.reshape(tensor.hwc[0], -1):
            held = np.ascontiguousarray(row)
            assert self.lib.mcufuse_feed_rows(self.model, held.ctypes.data_as(ctypes.c_void_p), 1) == 0
        assert self.lib.mcufuse_run(self.model) == 0
        out = self.compiled.outputs[0]
        buffer = (ctypes.c_char * out.bytes).from_address(self.lib.mcufuse_output(self.model, 0))
        return np.frombuffer(bytes(buffer), np.int8)


def write(compiled: Compiled, directory: Path) -> Path:
    """The generated directory."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in compiled.files.items():
        (directory / name).write_text(text)
    (directory / "report.json").write_text(json.dumps(compiled.report))
    return directory


def compiled_small(core: str, strips: int, kernel: int) -> Compiled:
    """All bottlenecks of the small network fused."""
    graph = small(kernel)
    cut = fuse(graph, find_blocks(graph), strips)
    return compile_graph(cut, name="net", core=core_by_name(core), fed_rows=True, objective=OBJECTIVES[Optimize.RAM])


@pytest.mark.parametrize("core", ["cortex-m3", "cortex-m4"])
@pytest.mark.parametrize(("strips", "kernel", "level"), [(1, 3, "-O1"), (3, 3, "-O2"), (4, 5, "-Os")])
def test_small_network_on_the_host(core: str, strips: int, kernel: int, level: str, tmp_path: Path) -> None:
    host = Host(compiled_small(core, strips, kernel), tmp_path, level)
    for seed in range(3):
        (data,) = some_input(host.compiled.graph, seed)
        assert np.array_equal(host.infer(data), evaluate(small(kernel), [data])[0].reshape(-1))


@pytest.mark.qemu
@pytest.mark.parametrize(("core", "kernel"), [("cortex-m0plus", 3), ("cortex-m4", 5), ("cortex-m55", 3)])
def test_small_network_on_the_target(core: str, kernel: int, tmp_path: Path) -> None:
    on_target(compiled_small(core, 4, kernel), core, small(kernel), tmp_path, 2)


def on_target(compiled: Compiled, core: str, whole: Graph, directory: Path, count: int) -> None:
    """Runs inputs in QEMU; `whole` is the graph without strips."""
    image = build(write(compiled, directory / "generated"), core_by_name(core), out_dir=directory / "build")
    inputs = [tuple(some_input(whole, seed)) for seed in range(count)]
    result = run(image, inputs=inputs, icount=False, timeout_s=600)
    for got, case in zip(result.outputs, inputs, strict=True):
        assert np.array_equal(np.asarray(got[0]).reshape(-1), evaluate(whole, list(case))[0].reshape(-1))


@cache
def acceptance(core: str) -> Compiled:
    """MobileNetV2 0.35 at 144x144 in strips, fed by rows."""
    return compile_graph(
        mobilenet_v2(0.35, 144), name="net", core=core_by_name(core), fed_rows=True,
        objective=OBJECTIVES[Optimize.RAM], strips=STRIPS,
    )  # fmt: skip


@pytest.mark.parametrize("core", ["cortex-m3", "cortex-m4"])
def test_mobilenet_v2(core: str, tmp_path: Path) -> None:
    compiled = acceptance(core)
    whole = mobilenet_v2(0.35, 144)
    steps, plan = planner(fed_rows=True)(whole)
    unstripped = sum(step.macs for step in steps)
    report = compiled.report
    assert report["arena_bytes"] <= ARENA < plan.arena_bytes
    assert unstripped < report["macs"] <= MACS * unstripped
    assert report["recomputed_macs"] == report["macs"] - unstripped
    (note,) = report["notes"]
    assert note.startswith(f"{STRIPS} strips: least arena ")
    assert f"recomputed {report['recomputed_macs']:,} MACs" in note
    host = Host(compiled, tmp_path, "-O2")
    for seed in range(2):
        (data,) = some_input(whole, seed)
        assert np.array_equal(host.infer(data), evaluate(whole, [data])[0].reshape(-1))


@pytest.mark.qemu
@pytest.mark.parametrize("core", ["cortex-m3", "cortex-m4"])
def test_mobilenet_v2_on_the_target(core: str, tmp_path: Path) -> None:
    on_target(acceptance(core), core, mobilenet_v2(0.35, 144), tmp_path, 1)
