# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The compiler, from a model file to C. Read this first.

    import    importers/    .tflite or .onnx -> Graph of integer operators (ir.py)
    simplify  passes/       exact rewrites, one after the other, the verifier after each
    lower     lowering.py   each operator -> a C row function of the core (kernels/)
    plan      plan/         stages, line buffers, one arena; then the independent checker
    emit      emit/         readable C
    report    summary.py    what was decided, as report.json

Every part is a pure function of its arguments: the same input gives the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from . import __version__
from .config import Config, InputMode, RoundingMode
from .dump import dump_graph
from .emit.network import EmitOptions, emit_network
from .errors import UserError
from .importers import load_model
from .ir import Graph, Rounding, Tensor
from .kernels.base import Lowered
from .lowering import lower_graph
from .objective import BALANCED, Objective, objective_of
from .oracle import evaluate
from .passes import PASSES
from .passes.cleanup import fold_constants
from .passes.strips import Planner, apply_strips
from .plan.arena import ArenaPlan, plan_arena
from .plan.check import check_plan, check_sliding
from .plan.order import candidate_orders
from .plan.sliding import Hop, find_sliding
from .schedule import Step, make_steps
from .summary import summarize
from .target import Core
from .verify import verify

__all__ = [
    "Compiled", "best_order", "compile_graph", "compile_network", "import_network", "least_planner", "simplify",
]  # fmt: skip

Array = npt.NDArray[Any]
Progress = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a network comes from: the model file's hash and name."""

    sha256: str
    source: str


@dataclass(frozen=True)
class Compiled:
    """A compiled network: its files, the report and the oracle."""

    graph: Graph  # simplified
    steps: tuple[Step, ...]
    plan: ArenaPlan
    files: dict[str, str]  # file name -> text
    report: dict[str, Any]  # report.json
    sources_read: list[Path] = field(default_factory=list)
    dumps: str = ""

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Descriptions of the network's inputs."""
        return tuple(self.graph.tensors[name] for name in self.graph.inputs)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """Descriptions of the network's outputs."""
        return tuple(self.graph.tensors[name] for name in self.graph.outputs)

    def evaluate(self, inputs: list[Array]) -> list[Array]:
        """The oracle's outputs for one set of inputs."""
        return evaluate(self.graph, inputs)


def import_network(config: Config) -> Graph:
    """The model file as a graph; raises `UserError` with all its problems."""
    rounding = None if config.rounding is RoundingMode.AUTO else Rounding(config.rounding.value)
    graph = fold_constants(load_model(config.model, rounding))  # exporters leave operators on constants
    verify(graph)
    return graph


def simplify(graph: Graph, dump_after: str | None = None) -> tuple[Graph, str]:
    """Runs all passes; returns the graph and, if a pass of that name was asked for, its dump."""
    dumps = dump_graph(graph) if dump_after == "import" else ""
    for run in PASSES:
        graph = run(graph)
        verify(graph)
        if dump_after == run.__name__:
            dumps += dump_graph(graph)
    return graph, dumps


def compile_graph(
    graph: Graph,
    *,
    name: str,
    core: Core,
    provenance: Provenance = Provenance("0" * 64, ""),
    fed_rows: bool = False,
    hop: Hop | None = None,
    arena_group: str | None = None,
    objective: Objective = BALANCED,
    strips: int | None = None,
) -> Compiled:
    """Lowers, plans, checks and emits a simplified graph; `hop` rows from one window of a fed input to the next.

    With `strips`, bottlenecks whose line buffers decide the arena are cut into that many vertical strips.
    """
    if strips is not None:
        graph = apply_strips(graph, strips, least_planner(core, fed_rows, objective))
        verify(graph)
    lowered, macs = lower_graph(graph, core, objective)
    sliding = None
    if hop is not None:
        steps = make_steps(graph, lowered, macs, fed_rows=True)
        sliding = find_sliding(graph, steps, hop)
        plan = plan_arena(graph, steps, allowance=objective.ram_allowance, sliding=sliding)
        check_sliding(graph, steps, plan, sliding)
        steps = (*sliding.steps, *steps[len(sliding.steps) :])
    else:
        graph, steps, plan = best_order(graph, lowered, macs, fed_rows, objective.ram_allowance)
        check_plan(graph, steps, plan)
    options = EmitOptions(provenance.sha256, provenance.source, __version__, arena_group, objective.least_to_share)
    text = emit_network(name, graph, steps, plan, options, sliding)
    report = summarize(name, core, graph, steps, plan, provenance.sha256, objective.level)
    return Compiled(graph, steps, plan, {f"{name}.c": text.c, f"{name}.h": text.h}, report)


def _hop(config: Config) -> Hop | None:
    """The hop of a sliding window; raises `UserError` for an input that is not fed by rows."""
    if config.input.hop is None:
        return None
    if config.input.mode is not InputMode.ROWS:
        raise UserError(
            "only an input that is fed by rows has windows that slide",
            place=config.place("input.hop"),
            hint="write input: {mode: rows, hop: ...}, or leave hop out",
        )
    return Hop(config.input.hop, config.place("input.hop"))


def least_planner(core: Core, fed_rows: bool, objective: Objective) -> Planner:
    """Plans for the least memory."""

    def plan(graph: Graph) -> tuple[Sequence[Step], ArenaPlan]:
        lowered, macs = lower_graph(graph, core, objective)
        return best_order(graph, lowered, macs, fed_rows, 1.0)[1:]

    return plan


def best_order(
    graph: Graph, lowered: Mapping[str, Lowered], macs: Mapping[str, int], fed_rows: bool, allowance: float
) -> tuple[Graph, tuple[Step, ...], ArenaPlan]:
    """Plans every order worth it; the least arena wins, the model's own order among equals."""
    planned = []
    for ops in candidate_orders(graph):
        ordered = graph.with_(ops=ops)
        steps = make_steps(ordered, lowered, macs, fed_rows=fed_rows)
        planned.append((ordered, steps, plan_arena(ordered, steps, allowance=allowance)))
    return min(planned, key=lambda p: p[2].arena_bytes)


def compile_network(
    config: Config, *, core: Core, dump_after: str | None = None, progress: Progress | None = None
) -> Compiled:
    """The whole way for a configuration; raises `UserError`."""
    say = progress or (lambda _: None)
    say(f"importing {config.model.name}")
    original = import_network(config)
    say("simplifying")
    graph, dumps = simplify(original, dump_after)
    say("planning")
    sha256 = hashlib.sha256(config.model.read_bytes()).hexdigest()
    compiled = compile_graph(
        graph,
        name=config.name,
        core=core,
        provenance=Provenance(sha256, config.model.name),
        fed_rows=config.input.mode is InputMode.ROWS,
        hop=_hop(config),
        arena_group=config.arena_group,
        objective=objective_of(config),
        strips=config.plan.strips,
    )
    sources = [config.model] + ([config.path] if config.path != config.model else [])
    return Compiled(compiled.graph, compiled.steps, compiled.plan, compiled.files, compiled.report, sources, dumps)


def check_same_outputs(before: Graph, after: Graph, inputs: list[Array]) -> bool:
    """Whether two graphs give the same bits for one set of inputs."""
    pairs = zip(evaluate(before, inputs), evaluate(after, inputs), strict=True)
    return all(np.array_equal(a.reshape(-1), b.reshape(-1)) for a, b in pairs)
