# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Stages and the arena: plans pass the replaying checker, and broken ones do not."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from graph_builder import GraphBuilder, mobilenet_v2, random_graph
from mcufuse.ir import Graph, Op
from mcufuse.lowering import lower_graph
from mcufuse.passes import PASSES
from mcufuse.plan.arena import ArenaPlan, Role, plan_arena
from mcufuse.plan.check import BrokenPlan, check_plan
from mcufuse.plan.order import candidate_orders
from mcufuse.plan.stages import Stager
from mcufuse.schedule import Step, make_steps
from mcufuse.target import core_by_name

M3 = core_by_name("cortex-m3")


def planned(graph: Graph, *, fed_rows: bool = False) -> tuple[Graph, tuple[Step, ...], ArenaPlan]:
    """A checked plan for the M3."""
    lowered, macs = lower_graph(graph, M3)
    steps = make_steps(graph, lowered, macs, fed_rows=fed_rows)
    plan = plan_arena(graph, steps)
    check_plan(graph, steps, plan)
    return graph, steps, plan


def simplified(seed: int) -> Graph:
    """A random graph after all passes."""
    graph = random_graph(seed)
    for run in PASSES:
        graph = run(graph)
    return graph


def sweep(seeds: range) -> None:
    """Plans every graph twice, input resident and fed by rows; bounds must hold."""
    for seed in seeds:
        graph = simplified(seed)
        for fed_rows in (False, True):
            if not graph.ops:
                continue
            _, _, plan = planned(graph, fed_rows=fed_rows)
            assert plan.schedule_bound <= plan.arena_bytes, seed
            assert plan.lower_bound <= plan.arena_bytes, seed


def test_random_graphs() -> None:
    sweep(range(80))


@pytest.mark.slow
def test_a_thousand_random_graphs() -> None:
    sweep(range(80, 1000))


def chain() -> Graph:
    """conv, depthwise, 1x1, depthwise stride 2, 1x1: a MobileNet's beginning."""
    g = GraphBuilder(3)
    x = g.conv(g.input(1, 24, 24, 3), 8, (3, 3), 2)
    x = g.conv(g.depthwise(x), 16)
    x = g.conv(g.depthwise(x, stride=2), 16)
    return g.build(x)


def test_streaming_a_chain_needs_less_than_any_pair_of_maps() -> None:
    _, _, plan = planned(chain())
    layer_by_layer = 12 * 12 * 8 + 12 * 12 * 16
    assert plan.arena_bytes < layer_by_layer
    assert any(c.last > c.first for c in plan.stages)


def test_rows_fed_need_less_than_a_resident_input() -> None:
    _, _, resident = planned(chain())
    _, _, fed = planned(chain(), fed_rows=True)
    assert fed.arena_bytes < resident.arena_bytes


def test_element_wise_works_in_place() -> None:
    g = GraphBuilder(1)
    x = g.table(g.conv(g.input(1, 8, 8, 4), 4))
    _, _, plan = planned(g.build(x))
    assert plan.arena_bytes == 8 * 8 * 4 + 8 * 4  # the 1x1 convolution is one row behind its input


def test_a_residual_add_writes_onto_its_operand() -> None:
    g = GraphBuilder(2)
    x = g.conv(g.input(1, 16, 16, 1), 16, (3, 3))
    y = g.conv(x, 16, (3, 3))
    _, steps, plan = planned(g.build(g.add(y, x)))
    scratch = max(step.lowered.scratch_bytes for step in steps)
    assert plan.arena_bytes <= 16 * 16 * 16 + 4 * 16 * 16 + 16 * 16 + scratch + 8  # one map, a lag of rows


@pytest.mark.parametrize(
    ("width", "size", "fed_rows", "limit"),
    [(0.35, 144, False, 70_656), (0.35, 144, True, 31_744), (0.30, 80, False, 23_552), (1.0, 224, False, 215_040)],
)
def test_mobilenet_v2(width: float, size: int, fed_rows: bool, limit: int) -> None:
    graph, _, plan = planned(mobilenet_v2(width, size), fed_rows=fed_rows)
    assert graph.inputs == ("input0",)
    assert plan.arena_bytes <= limit
    assert plan.arena_bytes == plan.lower_bound


def test_stage_choice_equals_brute_force() -> None:
    """The dynamic program finds the least greatest local peak among all ways to cut the sequence."""
    for seed in range(40):
        graph = simplified(seed)
        lowered, macs = lower_graph(graph, M3)
        steps = make_steps(graph, lowered, macs)
        if not 2 <= len(steps) <= 9:
            continue
        stager = Stager(graph, steps, 4)
        best = min(
            max(stager.candidate(a, b - 1).peak for a, b in itertools.pairwise((0, *cuts, len(steps))))
            for n in range(len(steps))
            for cuts in itertools.combinations(range(1, len(steps)), n)
            if all(stager.earliest(b - 1) <= a for a, b in itertools.pairwise((0, *cuts, len(steps))))
        )
        chosen, _ = Stager(graph, steps, 4).choose()
        assert max(c.peak for c in chosen) == best, seed


def brute_force_peak(graph: Graph) -> int:
    """Least peak over all orders, operator by operator, without overlap."""
    best = 1 << 40
    for ops in itertools.permutations(graph.ops):
        made = set(graph.inputs)
        peak = 0
        for i, op in enumerate(ops):
            if not set(graph.activations(op)) <= made:
                break
            made.add(op.output)
            later = {n for o in ops[i + 1 :] for n in o.inputs} | set(graph.outputs) | set(graph.activations(op))
            peak = max(peak, sum(graph.tensors[n].bytes for n in made if n in later or n == op.output))
        else:
            best = min(best, peak)
    return best


def peak_of(graph: Graph, ops: tuple[Op, ...]) -> int:
    """Peak of one order, operator by operator."""
    made, peak = set(graph.inputs), 0
    for i, op in enumerate(ops):
        assert set(graph.activations(op)) <= made
        made.add(op.output)
        later = {n for o in ops[i + 1 :] for n in o.inputs} | set(graph.outputs) | set(graph.activations(op))
        peak = max(peak, sum(graph.tensors[n].bytes for n in made if n in later or n == op.output))
    return peak


def branches() -> Graph:
    """A wide branch and two narrow ones that meet again: the order matters."""
    g = GraphBuilder(4)
    x = g.conv(g.input(1, 6, 6, 2), 4)
    a, b = g.conv(x, 20), g.conv(x, 12)  # the model's order keeps both; another one keeps one at a time
    return g.build(g.concat(g.conv(a, 2), g.table(x), g.conv(b, 3)))


def test_order_of_least_peak_equals_brute_force() -> None:
    graphs = [branches(), *(graph for seed in range(60) if 2 <= len((graph := simplified(seed)).ops) <= 7)]
    choices = []
    for graph in graphs:
        orders = candidate_orders(graph)
        choices.append(len(orders))
        assert min(peak_of(graph, ops) for ops in orders) == brute_force_peak(graph)
    assert choices[0] == 2


def mutations(plan: ArenaPlan, steps: tuple[Step, ...]) -> list[ArenaPlan]:
    """Plans that are wrong by the smallest amount: a ring one row short, an arena one byte short, a
    buffer one byte into another that is live with it at its tightest distance. A last row that nobody reads
    (a stride that does not reach it) may be overwritten, so its tensor is left in place."""
    read_to_end = {
        o.storage
        for step in steps
        for o in step.operands
        if any(o.height - 1 in o.access.rows(t, o.height) for t in range(step.ticks))
    } | {b.name for b in plan.buffers if b.role in (Role.OUTPUT, Role.SCRATCH, Role.STATE, Role.RING)}
    broken = [replace(plan, arena_bytes=plan.arena_bytes - 1)]
    for i, b in enumerate(plan.buffers):

        def changed(i: int = i, **fields: int) -> ArenaPlan:
            buffers = list(plan.buffers)
            buffers[i] = replace(buffers[i], **fields)
            return replace(plan, buffers=tuple(buffers))

        if b.role is Role.RING and b.rows > 1:
            broken.append(changed(rows=b.rows - 1, bytes=b.bytes - b.row_bytes))
        if b.offset == 0:
            broken.append(changed(offset=-1))
        slack = {(out, name): d for c in plan.stages for out, name, d in c.slack}
        for j, other in enumerate(plan.buffers):
            if i == j or b.first > other.last or other.first > b.last:
                continue
            tight = other.offset - b.offset == slack.get((b.name, other.name), b.bytes)
            safe_above = b.offset + 1 - other.offset >= slack.get((other.name, b.name), other.bytes)
            if tight and not safe_above and b.name in read_to_end:
                broken.append(changed(offset=b.offset + 1))
    return broken


def test_every_small_mutation_is_caught() -> None:
    tried = 0
    for seed in range(16):
        graph = simplified(seed)
        for fed_rows in (False, True):
            _, steps, plan = planned(graph, fed_rows=fed_rows)
            for mutant in mutations(plan, steps):
                tried += 1
                with pytest.raises(BrokenPlan):
                    check_plan(graph, steps, mutant)
    assert tried >= 200


def test_plans_are_deterministic() -> None:
    plans = [planned(simplified(7))[2] for _ in range(2)]
    assert plans[0] == plans[1]
    assert np.all(np.asarray([b.offset for b in plans[0].buffers]) >= 0)
