# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Fully connected layer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ir import FullyConnected, Graph
from .base import Array, CArray, CStruct, Kernel, LowerContext, Lowered, Refusal, RowPlan, Whole
from .conv2d import finish, pack_blocks, raw_range, too_large
from .requant import plan_requant

__all__ = ["FullyConnectedKernel"]

BLOCK = 8
"""Output channels of a block, `cfg.block` of mcufuse/dot.h."""


class FullyConnectedKernel(Kernel[FullyConnected]):
    """Eight output channels at a time."""

    op = FullyConnected

    def evaluate(self, op: FullyConnected, graph: Graph, args: Sequence[Array]) -> Array:
        """The oracle: an exact float64 matrix product."""
        x, weights, bias = (np.asarray(a) for a in args)
        acc = (x.reshape(-1).astype(np.float64) - op.in_zero) @ weights.T.astype(np.float64)
        out = finish(acc.astype(np.int64) + bias.astype(np.int64), op)
        return out.reshape(graph.tensors[op.output].shape)

    def lower(self, op: FullyConnected, context: LowerContext) -> list[Lowered | Refusal]:
        """`mf_fully_connected_row_s8`."""
        function = "mf_fully_connected_row_s8"
        weights = np.asarray(context.graph.const(op.inputs[1]))
        out_c, depth = weights.shape
        refusal = too_large(function, inputs=(depth, 131071), outputs=(out_c, 65535))
        if refusal:
            return [refusal]
        bias = np.asarray(context.graph.const(op.inputs[2])).astype(np.int64)
        bias -= op.in_zero * weights.astype(np.int64).sum(axis=1)
        lo, hi = raw_range(weights)
        plan = plan_requant(op.requant, bias=bias, raw_lo=lo, raw_hi=hi, out_zero=op.out_zero, clamp=op.clamp)
        if isinstance(plan, Refusal):
            return [Refusal(function, plan.reason)]
        cfg = CStruct("mf_fully_connected_cfg", (("depth", depth), ("out_c", out_c), *plan.cfg_fields()))
        data = CStruct(
            "mf_fully_connected_data",
            (
                ("weights", CArray("int8_t", pack_blocks(weights, BLOCK), "weights")),
                ("requant", plan.array()),
                ("out_zero", op.out_zero),
            ),
        )
        return [
            Lowered(
                function=function,
                header="mcufuse/fully_connected.h",
                cfg=cfg,
                data=data,
                rows=RowPlan(ticks=1, reads=(Whole(),)),
                instructions=int(out_c * (2.25 * depth + plan.instructions + 4)),
            )
        ]

    def macs(self, op: FullyConnected, graph: Graph) -> int:
        """Weights: each is used once."""
        return graph.tensors[op.inputs[1]].elements
