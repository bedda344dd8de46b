# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""What memory costs in speed: all plans of a network that no other one beats in both.

Four choices make plans differ, and each can be pinned in the YAML:

    input.mode       input 0 stands in the arena, or is fed row by row and never exists as a whole
    plan.scratch     the fastest kernels, or slower ones that need less scratch
    plan.strips      nothing computed twice, or bottlenecks in strips (`passes.strips`)
    plan.allowance   from every step on its own to the least arena (`plan.stages`)

Every combination is really planned: through the same functions as `mcufuse compile`, and checked by replay. The
result are two fronts, one for each input mode, since how the input arrives is the application's choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from .config import Config, InputMode
from .costs import plan_instructions
from .emit.instances import choose_instances
from .emit.names import step_names
from .errors import UserError
from .ir import Graph
from .kernels.base import Lowered
from .lowering import lower_graph
from .objective import objective_of
from .passes.strips import apply_strips
from .pipeline import best_order, import_network, least_planner, simplify
from .plan.check import check_plan
from .plan.order import candidate_orders
from .plan.pareto import least_on_front
from .plan.stages import Stager
from .schedule import Feed, make_steps
from .target import Core

__all__ = ["Front", "Point", "explore", "pinned_allowance"]

_ALIGN = 4
_MOST_LIMITS = 8  # of scratch that are tried
_STRIPS = (2, 4)  # that are tried
_LARGEST = 1_000_000  # allowance that the YAML takes

Progress = Callable[[str], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One checked plan. `allowance`, `scratch` and `strips` are what pins it; None: nothing to pin."""

    number: int
    mode: InputMode
    allowance: float | None
    scratch: int | None
    strips: int | None
    arena_bytes: int
    lower_bound: int  # of the arena, for these stages
    schedule_bound: int  # for any stages in this order of operators
    instructions: int  # modelled
    recomputed_macs: int
    stages: int  # entries of the schedule
    streamed_steps: int  # of these, steps that share a stage
    scratch_bytes: int
    instances: int  # functions that hold kernels
    steps: int  # that share them
    configured: bool = False  # what the configuration gives as it is
    on_front: bool = True

    def pins(self) -> dict[str, str | None]:
        """Keys of the YAML that choose this plan; None: the key is not needed."""
        return {
            "input.mode": self.mode.value,
            "plan.allowance": None if self.allowance is None else f"{self.allowance:.12g}",
            "plan.scratch": None if self.scratch is None else str(self.scratch),
            "plan.strips": None if self.strips is None else str(self.strips),
        }


@dataclass(frozen=True, slots=True)
class Front:
    """The points of a network on a core, by input mode and rising arena."""

    name: str
    core: Core
    optimize: str
    points: tuple[Point, ...]

    @property
    def configured(self) -> Point:
        """The plan of the configuration as it is."""
        return next(point for point in self.points if point.configured)

    def point(self, number: int) -> Point:
        """The point of that number; raises `UserError`."""
        for point in self.points:
            if point.number == number:
                return point
        raise UserError(f"there is no point {number}", place="--write", hint=f"points are 1 to {len(self.points)}")

    def as_json(self) -> dict[str, Any]:
        """For tools."""
        points = [asdict(p) | {"mode": p.mode.value, "pins": p.pins()} for p in self.points]
        return {"name": self.name, "core": self.core.name, "optimize": self.optimize, "points": points}


def pinned_allowance(peak: int, least: int, next_peak: float) -> float:
    """A short decimal a with peak <= a * least < next_peak."""
    for digits in range(1, 13):
        unit = 10.0**digits
        allowance = math.ceil(peak / least * unit) / unit
        if peak <= least * allowance < next_peak:
            return allowance
    return peak / least


def _allowances(stager: Stager) -> list[float]:
    """One value for each choice of stages that more allowance can buy, falling; the last is 1."""
    stages, _ = stager.choose(1.0)
    least = max(c.peak for c in stages)
    found: list[float] = []
    above, allowance = math.inf, math.inf
    while True:
        stages, _ = stager.choose(allowance)
        peak = max(c.peak for c in stages)
        if peak <= least:
            return [*found, 1.0]
        pinned = pinned_allowance(peak, least, above)
        found.append(min(pinned, _LARGEST))
        above, allowance = peak, (peak - 0.5) / least


@dataclass(frozen=True, slots=True)
class _Explorer:
    """Plans a simplified network in every way."""

    config: Config
    graph: Graph
    core: Core

    def lower(self, graph: Graph, scratch: int | None) -> tuple[dict[str, Lowered], dict[str, int]]:
        """As the configuration's objective says, with at most `scratch` bytes of scratch."""
        return lower_graph(graph, self.core, replace(objective_of(self.config), scratch_limit=scratch))

    def limits(self) -> list[int | None]:
        """Limits of scratch that change the choice of kernels, none first."""
        found: list[int | None] = [None]
        largest = math.inf
        while len(found) < _MOST_LIMITS:
            lowered, _ = self.lower(self.graph, found[-1])
            most = max((low.scratch_bytes for low in lowered.values()), default=0)
            if most == 0 or most >= largest:
                break
            largest = most
            found.append(most - 1)
        return found

    def cut(self, mode: InputMode, strips: int | None, scratch: int | None) -> Graph:
        """The network with its bottlenecks in strips where that pays."""
        if strips is None:
            return self.graph
        objective = replace(objective_of(self.config), scratch_limit=scratch)
        return apply_strips(self.graph, strips, least_planner(self.core, mode is InputMode.ROWS, objective))

    def allowances(self, mode: InputMode, scratch: int | None, graph: Graph) -> list[float]:
        """All that make a difference, over the orders worth planning."""
        lowered, macs = self.lower(graph, scratch)
        values: set[float] = set()
        for ops in candidate_orders(graph):
            ordered = graph.with_(ops=ops)
            steps = make_steps(ordered, lowered, macs, fed_rows=mode is InputMode.ROWS)
            values.update(_allowances(Stager(ordered, steps, _ALIGN)))
        return sorted(values)

    def ways(self, mode: InputMode, say: Progress) -> list[Point]:
        """All plans of an input mode."""
        points: list[Point] = []
        for scratch in self.limits():
            say(f"planning: input {mode.value}, " + ("any scratch" if scratch is None else f"scratch up to {scratch}"))
            allowances = self.allowances(mode, scratch, self.graph)
            points += [self.point(mode, a, scratch, None, self.graph) for a in allowances]
        for strips in _STRIPS:
            say(f"planning: input {mode.value}, {strips} strips")
            graph = self.cut(mode, strips, None)
            if graph.ops != self.graph.ops:
                allowances = self.allowances(mode, None, graph)
                points += [self.point(mode, a, None, strips, graph) for a in allowances]
        return points

    def point(
        self, mode: InputMode, allowance: float | None, scratch: int | None, strips: int | None, cut: Graph
    ) -> Point:
        """Plans, checks and counts the network, which `cut` is after cutting it into strips."""
        objective = objective_of(self.config)
        allowed = objective.ram_allowance if allowance is None else allowance
        lowered, macs = self.lower(cut, scratch)
        graph, steps, plan = best_order(cut, lowered, macs, mode is InputMode.ROWS, allowed)
        check_plan(graph, steps, plan)
        names = step_names(graph, steps)
        running = [k for k in range(len(steps)) if k not in plan.joined]
        instances, _ = choose_instances(
            "n", [names[k] for k in running], [steps[k] for k in running], objective.least_to_share
        )
        once = sum(self.lower(self.graph, None)[1].values())
        return Point(
            number=0,
            mode=mode,
            allowance=allowance,
            scratch=scratch,
            strips=strips,
            arena_bytes=plan.arena_bytes,
            lower_bound=plan.lower_bound,
            schedule_bound=plan.schedule_bound,
            instructions=plan_instructions(steps, plan),
            recomputed_macs=sum(step.macs for step in steps) - once,
            stages=len(plan.stages),
            streamed_steps=sum(c.last - c.first + 1 for c in plan.stages if c.last > c.first),
            scratch_bytes=max((c.scratch_bytes for c in plan.stages), default=0),
            instances=len(instances),
            steps=sum(not isinstance(step.op, Feed) for step in steps),
        )


def explore(config: Config, core: Core, *, progress: Progress | None = None) -> Front:
    """All plans worth having; raises `UserError` for a configuration that has none or slides its window."""
    if config.input.hop is not None:
        raise UserError(
            "windows that slide have one plan",
            place=config.place("input.hop"),
            hint="leave input.hop out to see what the network needs without it",
        )
    say = progress or (lambda _: None)
    say(f"importing {config.model.name}")
    graph, _ = simplify(import_network(config))
    explorer = _Explorer(config, graph, core)
    mode, pinned = config.input.mode, config.plan
    cut = explorer.cut(mode, pinned.strips, pinned.scratch)
    own = explorer.point(mode, pinned.allowance, pinned.scratch, pinned.strips, cut)
    points = [p for each in InputMode for p in _front(explorer.ways(each, say), own if own.mode is each else None)]
    numbered = tuple(replace(point, number=i + 1) for i, point in enumerate(points))
    return Front(config.name, core, config.optimize.value, numbered)


def _front(candidates: Iterable[Point], own: Point | None) -> list[Point]:
    """The best of one input mode by rising arena, with the configuration's own plan marked or added."""
    best = least_on_front(candidates, lambda p: (p.arena_bytes, p.instructions))
    if own is None:
        return best
    same = [p for p in best if (p.arena_bytes, p.instructions) == (own.arena_bytes, own.instructions)]
    if same:
        return [replace(p, configured=p is same[0]) for p in best]
    return sorted([*best, replace(own, configured=True, on_front=False)], key=lambda p: p.arena_bytes)
