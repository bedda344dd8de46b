# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Fully connected layer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ir import FullyConnected, Graph
from ..target import Isa
from .base import Array, CArray, CStruct, Kernel, LowerContext, Lowered, Refusal, RowPlan, Whole
from .conv2d import finish, pack_blocks, raw_range, too_large
from .dsp import pack_words, raw_possible, steps_of
from .mve import LANES, block_instructions, pack_runs, vector_plan, vector_table
from .requant import RequantPlan, plan_requant

__all__ = ["FullyConnectedKernel"]

BLOCK = 8
"""Output channels of a block, `cfg.block` of mcufuse/dot.h."""


def _lower_base(op: FullyConnected, weights: Array, plan: RequantPlan) -> Lowered:
    """`mf_fully_connected_row_s8`."""
    out_c, depth = weights.shape
    packed = CArray("int8_t", pack_blocks(weights, BLOCK), "weights")
    return Lowered(
        function="mf_fully_connected_row_s8",
        header="mcufuse/fully_connected.h",
        cfg=CStruct("mf_fully_connected_cfg", (("depth", depth), ("out_c", out_c), *plan.cfg_fields())),
        data=CStruct(
            "mf_fully_connected_data",
            (("weights", packed), ("requant", plan.array()), ("out_zero", op.out_zero)),
        ),
        rows=RowPlan(ticks=1, reads=(Whole(),)),
        instructions=int(out_c * (2.25 * depth + plan.instructions + 4)),
        code_bytes=850,
    )


def _lower_dsp(op: FullyConnected, weights: Array, plan: RequantPlan) -> Lowered:
    """`mf_fully_connected_row_s8_dsp`."""
    out_c, depth = weights.shape
    raw = raw_possible(weights, BLOCK)
    packed = CArray("int32_t", pack_words(weights, BLOCK, raw), "weights")
    cfg = (("depth", depth), ("out_c", out_c), ("raw", int(raw)), *plan.cfg_fields())
    channel = (1.0 if raw else 1.13) * 2 * steps_of(depth) + plan.instructions + 4  # in a whole block
    return Lowered(
        function="mf_fully_connected_row_s8_dsp",
        header="mcufuse/fully_connected_dsp.h",
        cfg=CStruct("mf_fully_connected_dsp_cfg", cfg),
        data=CStruct(
            "mf_fully_connected_dsp_data",
            (("weights", packed), ("requant", plan.array()), ("out_zero", op.out_zero)),
        ),
        rows=RowPlan(ticks=1, reads=(Whole(),)),
        instructions=int(30 + (out_c + 0.35 * (out_c % BLOCK)) * channel),
        code_bytes=700,
    )


def _lower_mve(op: FullyConnected, weights: Array, plan: RequantPlan) -> Lowered:
    """`mf_fully_connected_row_s8_mve`."""
    out_c, depth = weights.shape
    plan = vector_plan(plan, op.requant)
    packed = CArray("int8_t", pack_runs([weights]), "weights")
    return Lowered(
        function="mf_fully_connected_row_s8_mve",
        header="mcufuse/conv2d_mve.h",
        cfg=CStruct("mf_fully_connected_cfg", (("depth", depth), ("out_c", out_c), *plan.cfg_fields())),
        data=CStruct(
            "mf_fully_connected_data",
            (("weights", packed), ("requant", vector_table(plan)), ("out_zero", op.out_zero)),
        ),
        rows=RowPlan(ticks=1, reads=(Whole(),)),
        instructions=int(15 + -(-out_c // LANES) * block_instructions(depth, out_c, 1, plan)),
        code_bytes=250,
    )


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
        """`mf_fully_connected_row_s8`, and what the core's instructions allow beyond."""
        function = "mf_fully_connected_row_s8"
        weights = np.asarray(context.graph.const(op.inputs[1]))
        out_c, depth = weights.shape
        refusal = too_large(function, inputs=(depth, 131071), outputs=(out_c, 65535))
        if refusal:
            return [refusal]
        bias = np.asarray(context.graph.const(op.inputs[2])).astype(np.int64)
        bias -= op.in_zero * weights.astype(np.int64).sum(axis=1)
        lo, hi = raw_range(weights)
        plan = plan_requant(
            op.requant,
            bias=bias,
            raw_lo=lo,
            raw_hi=hi,
            out_zero=op.out_zero,
            clamp=op.clamp,
            uniform=True,
        )
        if isinstance(plan, Refusal):
            return [Refusal(function, plan.reason)]
        ways: list[Lowered | Refusal] = [_lower_base(op, weights, plan)]
        if context.core.isa is not Isa.BASE:
            ways.append(_lower_dsp(op, weights, plan))
        if context.core.isa is Isa.MVE:
            ways.append(_lower_mve(op, weights, plan))
        return ways

    def macs(self, op: FullyConnected, graph: Graph) -> int:
        """Weights: each is used once."""
        return graph.tensors[op.inputs[1]].elements
