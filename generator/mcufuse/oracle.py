# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a graph in NumPy: the reference that generated C equals bit for bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .ir import Graph, Op, Reshape
from .kernels import kernel_of

__all__ = ["evaluate", "evaluate_all", "evaluate_op"]

Array = npt.NDArray[Any]


def evaluate_op(op: Op, graph: Graph, values: Mapping[str, Array]) -> Array:
    """The output of one operator; `values` holds its activation operands."""
    args = [graph.const(name) if graph.is_const(name) else values[name] for name in op.inputs]
    out = graph.tensors[op.output]
    if isinstance(op, Reshape):
        return np.asarray(args[0]).reshape(out.shape)
    result = np.asarray(kernel_of(op).evaluate(op, graph, args))
    assert result.dtype == np.dtype(out.dtype.value), f"{op.name}: {result.dtype} is not {out.dtype}"
    return result.reshape(out.shape)


def evaluate_all(graph: Graph, inputs: Sequence[Array]) -> dict[str, Array]:
    """Every activation of the graph, by tensor name, for one set of inputs (in the order of `graph.inputs`)."""
    values = {
        name: np.asarray(array, np.dtype(graph.tensors[name].dtype.value)).reshape(graph.tensors[name].shape)
        for name, array in zip(graph.inputs, inputs, strict=True)
    }
    for op in graph.ops:
        values[op.output] = evaluate_op(op, graph, values)
    return values


def evaluate(graph: Graph, inputs: Sequence[Array]) -> list[Array]:
    """The network's outputs for one set of inputs."""
    values = evaluate_all(graph, inputs)
    return [values[name] if name in values else graph.const(name) for name in graph.outputs]
