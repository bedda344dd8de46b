# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""report.json: what was decided about a network, for people and tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .emit.names import step_names, tensor_names
from .ir import Graph, Tensor
from .kernels import KERNELS
from .kernels.base import CArray
from .plan.arena import ArenaPlan
from .schedule import Step
from .target import Core

__all__ = ["CFLAGS", "SCHEMA_VERSION", "summarize"]

SCHEMA_VERSION = 1
WRITTEN_BY_PRODUCERS = "written by its producers"
"""In place of a kernel: a step that is left out."""
CFLAGS = ("-std=c11", "-ffunction-sections", "-fdata-sections")
"""Besides the level of optimisation, which is the objective's."""


def summarize(
    name: str,
    core: Core,
    graph: Graph,
    steps: Sequence[Step],
    plan: ArenaPlan,
    sha256: str,
    level: str,
) -> dict[str, Any]:
    """The report of a planned network; bytes throughout. `level` is the compiler's optimisation flag."""
    names = step_names(graph, steps)
    return {
        "schema": SCHEMA_VERSION,
        "name": name,
        "core": core.name,
        "arena_bytes": plan.arena_bytes,
        "arena_lower_bound": plan.lower_bound,
        "arena_schedule_bound": plan.schedule_bound,
        "arena_method": plan.method,
        "state_bytes": _state_bytes(plan),
        "scratch_bytes": max((c.scratch_bytes for c in plan.stages), default=0),
        "stack_bytes": None,  # after compiling: from the compiler's stack usage
        "code_bytes": None,  # after a link
        "weights_bytes": _weights_bytes([step for k, step in enumerate(steps) if k not in plan.joined]),
        "macs": sum(step.macs for step in steps),
        "recomputed_macs": sum(_recomputed(step, graph) for step in steps),
        "steps": _steps(names, steps, plan),
        "buffers": _buffers(graph, names, steps, plan),
        "inputs": [_tensor(graph.tensors[t]) for t in graph.inputs],
        "outputs": [_tensor(graph.tensors[t]) for t in graph.outputs],
        "notes": list(graph.notes),
        "sources": [f"{name}.c"],
        "include_dirs": ["include"],
        "cflags": [level, *CFLAGS],
        "model_sha256": sha256,
    }


def _state_bytes(plan: ArenaPlan) -> int:
    """The tick counters of the largest streamed stage (2 bytes a step); buffers of state lie in the arena."""
    return max((2 * (c.last - c.first + 1) for c in plan.stages if c.last > c.first), default=0)


def _recomputed(step: Step, graph: Graph) -> int:
    kernel = KERNELS.get(type(step.op))
    return kernel.recomputed_macs(step.op, graph) if kernel else 0


def _weights_bytes(steps: Sequence[Step]) -> int:
    arrays: dict[tuple[str, bytes], int] = {}
    for step in steps:
        for _, value in (*step.lowered.cfg.fields, *step.lowered.data.fields):
            if isinstance(value, CArray):
                arrays[value.ctype, value.values.tobytes()] = value.bytes
    return sum(arrays.values())


def _steps(names: Sequence[str], steps: Sequence[Step], plan: ArenaPlan) -> list[dict[str, Any]]:
    stage_of = {k: s for s, c in enumerate(plan.stages) for k in range(c.first, c.last + 1)}
    rows = []
    for k, (name, step) in enumerate(zip(names, steps, strict=True)):
        scratch = plan.state_of(k) if step.lowered.state_bytes else plan.scratch_of(stage_of[k])
        uses = bool(step.lowered.scratch_bytes or step.lowered.state_bytes)
        rows.append(
            {
                "name": name,
                "operators": [step.op.kind],
                "nodes": list(step.op.origin),
                "kernel": WRITTEN_BY_PRODUCERS if k in plan.joined else step.lowered.function,
                "stage": stage_of[k],
                "macs": step.macs,
                "modelled_instructions": 0 if k in plan.joined else step.lowered.instructions,
                "in_offsets": [plan.buffer_of(o.storage).offset for o in step.operands],
                "out_offset": plan.buffer_of(step.storage).offset,
                "scratch_offset": scratch.offset if scratch and uses else None,
                "scratch_bytes": step.lowered.scratch_bytes + step.lowered.state_bytes,
            }
        )
    return rows


def _buffers(graph: Graph, names: Sequence[str], steps: Sequence[Step], plan: ArenaPlan) -> list[dict[str, Any]]:
    labels = tensor_names(graph, steps, names)
    ids = {f"{step.op.name}.state": f"{name} state" for step, name in zip(steps, names, strict=True)}
    return [
        {
            "name": labels.get(b.name) or ids.get(b.name) or b.name,
            "role": b.role.value,
            "offset": b.offset,
            "size": b.bytes,
            "first": b.first,
            "last": b.last,
            "rows": b.rows,
        }
        for b in plan.buffers
    ]


def _tensor(tensor: Tensor) -> dict[str, Any]:
    quant = tensor.quant
    return {
        "name": tensor.name,
        "dtype": tensor.dtype.value,
        "shape": list(tensor.shape),
        "scale": quant.scale[0] if quant else 1.0,
        "zero_point": quant.zero_point[0] if quant else 0,
    }
