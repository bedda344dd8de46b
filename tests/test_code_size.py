# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""How layers share code: what the chooser counts, what `optimize:` changes, and the bytes that the linker finds."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from conftest import MODELS
from graph_builder import GraphBuilder
from mcufuse.config import Optimize, load_config
from mcufuse.emit.instances import choose_instances
from mcufuse.emit.names import step_names
from mcufuse.ir import Graph
from mcufuse.kernels.base import Lowered
from mcufuse.lowering import lower_graph
from mcufuse.measure import measure
from mcufuse.objective import OBJECTIVES
from mcufuse.pipeline import compile_graph
from mcufuse.schedule import make_steps
from mcufuse.target import core_by_name

BALANCED_BYTES = 14_000  # of code, weights and tables apart
FLASH_BYTES = 6_000
FLASH_SLOWDOWN = 1.6  # instructions of `flash` to those of `balanced`

M4, M55 = core_by_name("cortex-m4"), core_by_name("cortex-m55")


def layers(count: int) -> Graph:
    """A chain of pairs of a depthwise and a 1x1 convolution, all of different widths."""
    g = GraphBuilder(3)
    x = g.input(1, 12, 12, 8)
    for k in range(count):
        x = g.conv(g.depthwise(x), 12 + 4 * k)
    return g.build(x)


def instances_of(graph: Graph, lowered: dict[str, Lowered], macs: dict[str, int], least_to_share: int) -> int:
    """Instances that the emitter makes."""
    steps = make_steps(graph, lowered, macs)
    return len(choose_instances("n", step_names(graph, steps), steps, least_to_share)[0])


def test_the_objective_decides_what_is_shared() -> None:
    graph = layers(6)
    made, instructions = {}, {}
    for optimize in (Optimize.LATENCY, Optimize.BALANCED, Optimize.FLASH):
        objective = OBJECTIVES[optimize]
        lowered, macs = lower_graph(graph, M4, objective=objective)
        made[optimize] = instances_of(graph, lowered, macs, objective.least_to_share)
        instructions[optimize] = sum(low.instructions for low in lowered.values())
    assert made[Optimize.LATENCY] >= made[Optimize.BALANCED] >= made[Optimize.FLASH] <= 4
    assert made[Optimize.LATENCY] > made[Optimize.FLASH]
    assert instructions[Optimize.LATENCY] <= instructions[Optimize.BALANCED] <= instructions[Optimize.FLASH]


def test_variable_fields_count_as_one_instance() -> None:
    """A kernel that takes its sizes at run time is chosen for the code that its layers share, not for that of each."""
    graph = layers(6)
    objective = replace(OBJECTIVES[Optimize.FLASH], kib_must_save=0.5)
    shared, macs = lower_graph(graph, M55, objective=objective)
    families = {low.family for low in shared.values() if low.variable}
    assert families
    assert instances_of(graph, shared, macs, 2) == len({low.family for low in shared.values()})


@pytest.mark.parametrize("optimize", list(Optimize))
def test_flags_of_the_objective(optimize: Optimize) -> None:
    compiled = compile_graph(layers(1), name="net", core=M4, objective=OBJECTIVES[optimize])
    assert compiled.report["cflags"][0] == ("-Os" if optimize is Optimize.FLASH else "-O2")


def test_steps_that_share_an_instance_share_its_loop() -> None:
    shared = compile_graph(layers(6), name="net", core=M4, objective=OBJECTIVES[Optimize.FLASH]).files["net.c"]
    alone = compile_graph(layers(6), name="net", core=M4, objective=OBJECTIVES[Optimize.LATENCY]).files["net.c"]
    assert "const struct mf_rows" in shared
    assert "const struct mf_rows" not in alone


@cache
def measured(network: str, core: str, optimize: Optimize) -> dict[str, Any]:
    """The completed report of a reference network; every output equals the oracle's."""
    config = replace(load_config(MODELS / f"{network}_int8.tflite"), optimize=optimize)
    found = measure(config, core_by_name(core), count=1)
    assert found.exact
    return found.report


@pytest.mark.qemu
@pytest.mark.parametrize(
    "network", ["kws", "vww", *(pytest.param(n, marks=pytest.mark.slow) for n in ("ic", "ad", "sww"))]
)
def test_code_of_the_reference_networks(network: str) -> None:
    balanced, flash = (measured(network, "cortex-m4", o) for o in (Optimize.BALANCED, Optimize.FLASH))
    assert balanced["code_bytes"] <= BALANCED_BYTES
    assert flash["code_bytes"] <= FLASH_BYTES
    assert flash["instructions"] <= FLASH_SLOWDOWN * balanced["instructions"]
    assert flash["code_bytes"] + flash["weights_bytes"] <= balanced["code_bytes"] + balanced["weights_bytes"]


@pytest.mark.qemu
@pytest.mark.parametrize(
    ("network", "core"),
    [
        ("kws", "cortex-m4"),
        ("vww", "cortex-m4"),
        *(
            pytest.param(n, core, marks=pytest.mark.slow)
            for core in ("cortex-m3", "cortex-m4", "cortex-m55")
            for n in ("kws", "vww", "ic")  # the others have hardly two layers that could share code
            if (n, core) not in {("kws", "cortex-m4"), ("vww", "cortex-m4")}
        ),
    ],
)
def test_latency_is_the_fastest_and_flash_the_slowest(network: str, core: str) -> None:
    order = (Optimize.LATENCY, Optimize.BALANCED, Optimize.FLASH)
    counts = [measured(network, core, optimize)["instructions"] for optimize in order]
    assert counts == sorted(counts)
