# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The cost model: corrections, streaming, bytes moved, and how near it comes to exact counts."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from conftest import MODELS
from graph_builder import GraphBuilder
from mcufuse import costs
from mcufuse.bylayer import lay_out_layers, measure_layers
from mcufuse.cli import main
from mcufuse.config import load_config
from mcufuse.costs import (
    STREAMED_TICK,
    bytes_moved,
    corrected,
    plan_instructions,
    streamed_ticks,
    terms,
)  # fmt: skip
from mcufuse.costs_table import CORRECTIONS
from mcufuse.cycles import cycles_per_instruction, estimated_cycles, flash_stalls
from mcufuse.ir import Graph
from mcufuse.lowering import lower_graph
from mcufuse.objective import BALANCED
from mcufuse.plan.arena import plan_arena
from mcufuse.report import render_plain
from mcufuse.schedule import make_steps
from mcufuse.target import CORES, Flash, core_by_name

M3, M4 = core_by_name("cortex-m3"), core_by_name("cortex-m4")


def graph() -> Graph:
    g = GraphBuilder(5)
    x = g.conv(g.input(1, 16, 15, 8), 48)
    return g.build(g.conv(g.depthwise(x), 8))


def test_corrections_are_factors_of_the_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    network = graph()
    monkeypatch.setattr(costs, "CORRECTIONS", {})
    lowered, macs = lower_graph(network, M3)
    op = network.ops[0]
    low, output = lowered[op.name], network.tensors[op.output]
    assert corrected(low, M3, macs[op.name], output) is low
    parts = terms(low, macs[op.name], output)
    assert parts == (low.instructions, macs[op.name], macs[op.name] / 15, 16 * 15 * 48, 16)
    monkeypatch.setattr(costs, "CORRECTIONS", {("base", low.function): (0.5, 2.0, 3.0, 1.0, 10.0)})
    expected = round(0.5 * parts[0] + 2 * parts[1] + 3 * parts[2] + parts[3] + 160)
    assert corrected(low, M3, macs[op.name], output).instructions == expected


def test_the_table_is_sane() -> None:
    for (isa, function), factors in CORRECTIONS.items():
        assert isa in {"armv6", "base", "dsp", "mve"}
        assert function.startswith("mf_")
        assert len(factors) == 5
        assert all(0 <= factor < 200 for factor in factors)
        assert factors[0] + factors[1] > 0


def test_streaming_costs_a_little_for_each_row() -> None:
    network = graph()
    lowered, macs = lower_graph(network, M3)
    steps = make_steps(network, lowered, macs)
    alone, least = (plan_arena(network, steps, allowance=a) for a in (math.inf, 1.0))
    assert streamed_ticks(steps, alone) == 0
    assert streamed_ticks(steps, least) > 0
    extra = plan_instructions(steps, least) - plan_instructions(steps, alone)
    assert extra == STREAMED_TICK * streamed_ticks(steps, least)


def test_bytes_moved() -> None:
    g = GraphBuilder(1)
    x = g.input(1, 4, 6, 8)
    network = g.build(g.conv(x, 8, (1, 1)))
    lowered, macs = lower_graph(network, M3)
    (step,) = make_steps(network, lowered, macs)
    maps = 2 * 4 * 6 * 8  # each row read once and written once
    assert maps + 64 < bytes_moved(step) < maps + 64 + 8 * 16  # weights, and a table of a few words a channel


def test_a_limit_of_scratch_prefers_lean_kernels() -> None:
    network = graph()
    most = [
        max(low.scratch_bytes for low in lower_graph(network, M4, replace(BALANCED, scratch_limit=limit))[0].values())
        for limit in (None, 100, 0)
    ]
    assert most == sorted(most, reverse=True)
    assert most[0] > most[-1]


@pytest.mark.parametrize("core", CORES, ids=lambda core: core.name)
def test_cycles(core: object) -> None:
    chosen = next(c for c in CORES if c is core)
    for function in ("mf_conv2d_row_s8", "mf_conv2d_row_s8_mve", "mf_softmax_row_s8", "mf_add_row_s8"):
        assert 0.5 < cycles_per_instruction(chosen, function) <= 2.0


def test_cycles_of_a_flash_that_waits() -> None:
    g = GraphBuilder(1)
    network = g.build(g.conv(g.input(1, 4, 6, 8), 8, (1, 1)))
    lowered, macs = lower_graph(network, M4)
    (step,) = make_steps(network, lowered, macs)
    output = network.tensors[step.op.output]
    code, constants = step.lowered.code_bytes, step.lowered.constant_bytes
    lines = -(-code // 16) + -(-constants // 16)  # each line once: both caches hold everything
    cached = Flash(5, 16, icache_bytes=code, dcache_bytes=constants)
    assert flash_stalls(Flash(), step, output, 16_000) == 0
    assert flash_stalls(cached, step, output, 16_000) == 5 * lines
    no_dcache = flash_stalls(replace(cached, dcache_bytes=constants - 1), step, output, 16_000)
    assert no_dcache - 5 * lines == 5 * (
        -(-constants * 4 * 3 // 16) - -(-constants // 16)
    )  # 4 rows of 3 pairs of pixels
    no_icache = flash_stalls(replace(cached, icache_bytes=code - 1), step, output, 16_000)
    assert no_icache - 5 * lines == 5 * (16_000 * 3 // 16 - -(-code // 16))  # 3 bytes an instruction
    assert estimated_cycles(M4, cached, step, output, 1000) == 1200 + 5 * lines


@pytest.mark.qemu
@pytest.mark.parametrize("core", [M3, M4], ids=lambda core: core.name)
@pytest.mark.parametrize("network", ["kws", "ad"])
def test_the_model_is_near_the_counts(network: str, core: object) -> None:
    chosen = M3 if core is M3 else M4
    found = measure_layers(load_config(MODELS / f"{network}_int8.tflite"), chosen)
    assert sum(layer.instructions for layer in found.layers) == pytest.approx(found.total, rel=0.01)
    for layer in found.layers:
        if layer.instructions > 0.02 * found.total:
            assert abs(layer.error) < 0.15, layer
    modelled = sum(layer.modelled for layer in found.layers)
    assert modelled == pytest.approx(found.total, rel=0.08)


@pytest.mark.qemu
def test_by_layer_table_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    config = replace(load_config(MODELS / "sww_int8.tflite"), name="sww")
    found = measure_layers(config, M4)
    text = render_plain([lay_out_layers(found)])
    assert text.startswith("sww on cortex-m4, every step on its own\n")
    assert all(f"\n  {layer.name} " in text for layer in found.layers)
    assert "total" in text
    assert "100.0%" in text
    assert main(["bench", str(MODELS / "sww_int8.tflite"), "--core", "m4", "--by-layer", "--json", "-q"]) == 0
    (read,) = json.loads(capsys.readouterr().out)
    assert [layer["instructions"] for layer in read["layers"]] == [layer.instructions for layer in found.layers]
    assert {"macs", "modelled", "error", "cycles", "bytes_moved"} <= set(read["layers"][0])
