# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""On request, bottlenecks whose line buffers decide the arena are computed in vertical strips: memory against MACs.

    1x1 expand -> depthwise -> 1x1 project      becomes one `Bottleneck`

The line buffer of the expanded map goes away, its rows are computed again for every output row that reads them
(kernels/bottleneck.py). That costs multiply-accumulates, so it is done only where it pays: for blocks inside a
stage that decides the arena, as long as the arena shrinks and all MACs stay within a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ..ir import Bottleneck, Conv2D, DepthwiseConv2D, Graph, Op, Padding
from ..plan.arena import ArenaPlan
from ..schedule import Step

__all__ = ["MAC_LIMIT", "Block", "Planner", "apply_strips", "find_blocks", "fuse"]

MAC_LIMIT = 1.3
"""Most MACs with strips, as a factor of those without."""

Planner = Callable[[Graph], tuple[Sequence[Step], ArenaPlan]]


@dataclass(frozen=True, slots=True)
class Block:
    """The three operators of a bottleneck that may be fused."""

    expand: Conv2D
    depthwise: DepthwiseConv2D
    project: Conv2D

    @property
    def ops(self) -> tuple[Op, ...]:
        """In order."""
        return (self.expand, self.depthwise, self.project)


@dataclass(frozen=True, slots=True)
class _Trial:
    """A planned choice of blocks."""

    blocks: tuple[Block, ...]
    graph: Graph
    arena_bytes: int
    macs: int
    deciding: frozenset[str]  # names of the operators in stages that decide the arena


def _is_plain(op: Conv2D, graph: Graph) -> bool:
    """1x1, one group, every pixel."""
    kernel = graph.tensors[op.inputs[1]].shape[1:3]
    return kernel == (1, 1) and (op.stride, op.groups, op.padding) == ((1, 1), 1, Padding())


def find_blocks(graph: Graph) -> tuple[Block, ...]:
    """All bottlenecks whose inner maps nobody else reads; no operator is part of two."""
    producer = {op.output: op for op in graph.ops}
    blocks: list[Block] = []
    taken: set[str] = set()
    for project in graph.ops:
        depthwise = producer.get(project.inputs[0])
        expand = producer.get(depthwise.inputs[0]) if depthwise else None
        if not (isinstance(project, Conv2D) and isinstance(depthwise, DepthwiseConv2D) and isinstance(expand, Conv2D)):
            continue
        inner = (expand.output, depthwise.output)
        alone = all(len(graph.consumers(name)) == 1 and name not in graph.outputs for name in inner)
        plain = _is_plain(expand, graph) and _is_plain(project, graph) and depthwise.multiplier == 1
        if alone and plain and _windows_touch_map(depthwise, graph) and expand.name not in taken:
            blocks.append(Block(expand, depthwise, project))
            taken.update((depthwise.name, project.name))
    return tuple(blocks)


def _windows_touch_map(op: DepthwiseConv2D, graph: Graph) -> bool:
    kernel = graph.tensors[op.inputs[1]].shape[:2]
    height, width = ((k - 1) * d + 1 for k, d in zip(kernel, op.dilation, strict=True))
    return max(op.padding.top, op.padding.bottom) < height and max(op.padding.left, op.padding.right) < width


def fuse(graph: Graph, blocks: Iterable[Block], strips: int) -> Graph:
    """The graph with each block as one operator in `strips` strips (or one for each column, if there are fewer)."""
    fused = {block.project.name: block for block in blocks}
    gone = {op.name for block in fused.values() for op in block.ops[:2]}
    ops: list[Op] = []
    for op in graph.ops:
        if op.name in fused:
            ops.append(_operator(fused[op.name], graph, strips))
        elif op.name not in gone:
            ops.append(op)
    return graph.with_(ops=ops)


def _operator(block: Block, graph: Graph, strips: int) -> Bottleneck:
    constants = tuple(name for op in block.ops for name in op.inputs[1:])
    return Bottleneck(
        name=block.project.name,
        inputs=(block.expand.inputs[0], *constants),
        output=block.project.output,
        origin=tuple(dict.fromkeys(name for op in block.ops for name in op.origin)),
        expand=block.expand,
        depthwise=block.depthwise,
        project=block.project,
        strips=min(strips, graph.tensors[block.project.output].hwc[1]),
    )


def _try(graph: Graph, blocks: tuple[Block, ...], strips: int, planner: Planner) -> _Trial:
    fused = fuse(graph, blocks, strips)
    steps, plan = planner(fused)
    highest = max((stage.peak for stage in plan.stages), default=0)
    deciding = frozenset(
        steps[k].op.name for stage in plan.stages if stage.peak == highest for k in range(stage.first, stage.last + 1)
    )
    return _Trial(blocks, fused, plan.arena_bytes, sum(step.macs for step in steps), deciding)


def apply_strips(graph: Graph, strips: int, planner: Planner, *, mac_limit: float = MAC_LIMIT) -> Graph:
    """The graph with the blocks fused for which that pays; `planner` gives the plan of least memory of a graph.

    Greedy: among the blocks that decide the arena, the one whose fusion leaves the least (all of them, where one
    alone does not help); as long as the arena shrinks. At the end every block without which the arena is as small
    is taken out again.
    """
    blocks = find_blocks(graph)
    start = best = _try(graph, (), strips, planner)
    while True:
        open_ = [b for b in blocks if b not in best.blocks and any(op.name in best.deciding for op in b.ops)]
        choices = [(block,) for block in open_]
        better = _least(graph, best, choices, strips, planner, mac_limit * start.macs)
        if better is None and len(open_) > 1:
            better = _least(graph, best, [tuple(open_)], strips, planner, mac_limit * start.macs)
        if better is None:
            break
        best = better
    best = _without_needless(graph, best, strips, planner)
    return best.graph.with_(notes=(_note(start, best, strips),))


def _least(
    graph: Graph, now: _Trial, choices: Iterable[tuple[Block, ...]], strips: int, planner: Planner, most_macs: float
) -> _Trial | None:
    """The best of the choices that shrinks the arena and stays within the MACs."""
    found: _Trial | None = None
    for more in choices:
        trial = _try(graph, (*now.blocks, *more), strips, planner)
        key = (trial.arena_bytes, trial.macs)
        if trial.macs <= most_macs and trial.arena_bytes < now.arena_bytes:
            found = trial if found is None or key < (found.arena_bytes, found.macs) else found
    return found


def _without_needless(graph: Graph, best: _Trial, strips: int, planner: Planner) -> _Trial:
    for block in best.blocks[:-1]:  # the last one is why the search went on
        fewer = _try(graph, tuple(b for b in best.blocks if b is not block), strips, planner)
        if fewer.arena_bytes <= best.arena_bytes:
            best = fewer
    return best


def _note(start: _Trial, best: _Trial, strips: int) -> str:
    """One line for the report: both sides of the bargain."""
    if not best.blocks:
        return f"{strips} strips: they would not shrink the arena within the limit of MACs, nothing changed"
    more = best.macs - start.macs
    names = ", ".join((block.project.origin or (block.project.name,))[0] for block in best.blocks)
    return (
        f"{strips} strips: least arena {start.arena_bytes:,} -> {best.arena_bytes:,} B, recomputed {more:,} MACs "
        f"({best.macs / start.macs:.3f}x) in {names}"
    )
