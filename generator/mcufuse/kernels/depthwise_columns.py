# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolution with vectors for windows of at most 4x4 values: `mcufuse/depthwise_columns_mve.h`."""

from __future__ import annotations

import numpy as np

from ..ir import DepthwiseConv2D
from .base import Array, CArray, CStruct, Lowered, Refusal, RowPlan
from .mve import LANES, vector_plan, vector_table
from .requant import Mode, RequantPlan

__all__ = ["lower_columns"]

GROUP = 32
"""Channels that are interleaved at a time where there are more."""


def _packed(weights: Array) -> Array:
    """[k_h, k_w, channels] as [channel][column][row 0..3], filled up to whole blocks of channels."""
    k_h, _, channels = weights.shape
    filled = np.pad(weights, ((0, 4 - k_h), (0, 0), (0, -channels % LANES)))
    return np.ascontiguousarray(filled.transpose(2, 1, 0)).astype(np.int8)


def lower_columns(
    op: DepthwiseConv2D, weights: Array, in_w: int, out_w: int, rows: RowPlan, plan: RequantPlan
) -> Lowered | Refusal:
    """`mf_depthwise_columns_row_s8_mve`; `weights` are [k_h, k_w, channels]."""
    function = "mf_depthwise_columns_row_s8_mve"
    plan = vector_plan(plan, op.requant)
    k_h, k_w, channels = weights.shape
    stride, dilation = op.stride[1], op.dilation[1]
    if op.multiplier != 1 or k_h > 4 or k_w > 4:
        return Refusal(function, "more than one output for each input channel, or a window above 4x4")
    if plan.mode not in (Mode.HIGH_WIDE, Mode.TFLITE_RIGHT):
        return Refusal(function, "no vector sequence for this requantization")
    left = op.padding.left
    right = max((out_w - 1) * stride + (k_w - 1) * dilation + 1 - left - in_w, 0)
    if max(left, right) > 255:
        return Refusal(function, "more than 255 columns of padding")
    group = min(channels, GROUP)
    columns = left + in_w + right
    cfg = (
        ("in_w", in_w), ("in_c", channels), ("out_w", out_w), ("group", group), ("pad_left", left),
        ("pad_right", right), ("stride_w", stride), ("dilation_w", dilation), ("k_h", k_h), ("k_w", k_w),
        ("rest", int(channels % LANES > 0)), *plan.cfg_fields(),
    )  # fmt: skip
    data = (
        ("weights", CArray("int8_t", _packed(weights), "weights")), ("requant", vector_table(plan)),
        ("in_zero", op.in_zero), ("out_zero", op.out_zero),
    )  # fmt: skip
    per_block = out_w * (20.5 if plan.mode is Mode.HIGH_WIDE else 24) + 20
    interleave = (1.1 * in_w + 0.4 * (left + right)) * channels + 60 * -(-channels // group)
    left_over = 200 * -(-channels // group) if channels % LANES else 0
    return Lowered(
        function=function,
        header="mcufuse/depthwise_columns_mve.h",
        cfg=CStruct("mf_depthwise_columns_cfg", cfg),
        data=CStruct("mf_depthwise_columns_data", data),
        rows=rows,
        scratch_bytes=16 + 4 * columns * group + 64,
        instructions=int(rows.ticks * (1.08 * (-(-channels // LANES) * per_block + interleave + 40) + left_over)),
        code_bytes=450 + (150 if channels % LANES else 0),
        variable=("in_w", "in_c", "out_w", "group", "pad_left", "pad_right", "stride_w", "dilation_w"),
    )
