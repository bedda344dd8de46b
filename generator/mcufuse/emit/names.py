# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Short C names for steps and tensors, the same in the generated code, the report and the dumps."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import Conv2D, Graph, Op
from ..schedule import Step

__all__ = ["input_names", "step_names", "tensor_names"]

_STEMS = {
    "DepthwiseConv2D": "dw", "FullyConnected": "fc", "MaxPool2D": "maxpool", "AvgPool2D": "avgpool",
    "ResizeNearest": "resize",
}  # fmt: skip


def _stem(op: Op, graph: Graph) -> str:
    if isinstance(op, Conv2D):
        return "pw" if graph.tensors[op.inputs[1]].shape[1:3] == (1, 1) else "conv"
    return _STEMS.get(op.kind, op.kind.lower())


def step_names(graph: Graph, steps: Sequence[Step]) -> tuple[str, ...]:
    """conv0, dw1, pw2, ...: what a step does, and its place in the schedule."""
    return tuple(f"{_stem(step.op, graph)}{k}" for k, step in enumerate(steps))


def input_names(graph: Graph) -> tuple[str, ...]:
    """input, or input0, input1, ... if there are several."""
    return ("input",) if len(graph.inputs) == 1 else tuple(f"input{i}" for i in range(len(graph.inputs)))


def tensor_names(graph: Graph, steps: Sequence[Step], names: Sequence[str]) -> dict[str, str]:
    """Storage -> C name of its map: the producing step's name with _out, or the input's name."""
    result = dict(zip(graph.inputs, input_names(graph), strict=True))
    made = {step.storage: f"{name}_out" for step, name in zip(steps, names, strict=True)}
    result.update({storage: name for storage, name in made.items() if storage not in result})
    return result
