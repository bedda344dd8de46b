# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from ..ir import DepthwiseConv2D, Graph
from ..target import Isa
from .base import Array, CArray, CStruct, CValue, Kernel, LowerContext, Lowered, Refusal, RowPlan, Window
from .conv2d import finish, padded_input, raw_range, too_large, window_rows
from .depthwise_columns import lower_columns
from .mve import vector_plan, vector_table
from .requant import Mode, RequantPlan, plan_requant

__all__ = ["DepthwiseConv2DKernel"]


def strip_of(out_w: int, k_w: int) -> int:
    """Outputs of a strip: as many as the registers of Armv7-M hold, in code of bounded size."""
    if k_w > 8:
        return 1
    return out_w if out_w <= 5 else 4


def _data(type_: str, op: DepthwiseConv2D, weights: CArray, plan: RequantPlan) -> CStruct:
    """A layer's constants."""
    fields: tuple[tuple[str, CValue], ...] = (
        ("weights", weights), ("requant", plan.array()), ("in_zero", op.in_zero), ("out_zero", op.out_zero),
    )  # fmt: skip
    return CStruct(type_, fields)


def _lower_base(
    op: DepthwiseConv2D, flat: Array, widths: tuple[int, int, int], rows: RowPlan, plan: RequantPlan
) -> Lowered:
    """`mf_depthwise_conv2d_row_s8`; `flat` is [output channels, taps], `widths` are in_w, in_c, out_w."""
    in_w, in_c, out_w = widths
    window = rows.reads[0]
    assert isinstance(window, Window)
    k_h, k_w = window.count, flat.shape[1] // window.count
    strip = strip_of(out_w, k_w)
    fields = (
        ("in_w", in_w), ("in_c", in_c), ("out_w", out_w), ("multiplier", op.multiplier),
        ("pad_left", op.padding.left), ("k_h", k_h), ("k_w", k_w), ("stride_w", op.stride[1]),
        ("dilation_w", op.dilation[1]), ("strip", strip), *plan.cfg_fields(),
    )  # fmt: skip
    columns = (strip - 1) * op.stride[1] + k_w
    per_strip = (
        k_h * (strip * k_w + columns + k_w + 8) + strip * (plan.instructions + 4) + (30 if out_w > strip else 10)
    )
    return Lowered(
        function="mf_depthwise_conv2d_row_s8",
        header="mcufuse/depthwise_conv2d.h",
        cfg=CStruct("mf_depthwise_conv2d_cfg", fields),
        data=_data("mf_depthwise_conv2d_data", op, CArray("int8_t", np.ascontiguousarray(flat), "weights"), plan),
        rows=rows,
        instructions=int(rows.ticks * flat.shape[0] * out_w / strip * per_strip),
        code_bytes=150 if out_w == 1 else 470 if out_w <= strip else 900,
    )


def _lower_sized(
    op: DepthwiseConv2D, flat: Array, widths: tuple[int, int, int], rows: RowPlan, plan: RequantPlan
) -> Lowered | Refusal:
    """`mf_depthwise_conv2d_sized_row_s8`, for windows three columns wide."""
    function = "mf_depthwise_conv2d_sized_row_s8"
    in_w, in_c, out_w = widths
    window = rows.reads[0]
    assert isinstance(window, Window)
    stride, left = op.stride[1], op.padding.left
    right = max((out_w - 1) * stride - left + 3 - in_w, 0)
    if (flat.shape[1], op.dilation[1], op.multiplier) != (3 * window.count, 1, 1) or stride > 2:
        return Refusal(
            function, "not a window of three columns with stride 1 or 2 and one output for each input channel"
        )
    if left > 1 or right > 1 or out_w < (4 if left and right else 3):
        return Refusal(function, f"{out_w} outputs in a row with padding of {left} and {right} columns")
    data: tuple[tuple[str, CValue], ...] = (
        ("weights", CArray("int8_t", np.ascontiguousarray(flat), "weights")), ("requant", plan.array()),
        ("in_c", in_c), ("out_w", out_w), ("k_h", window.count), ("pad_left", left), ("pad_right", right),
        ("rq_shift", plan.shift), ("in_zero", op.in_zero), ("out_zero", op.out_zero),
    )  # fmt: skip
    common = tuple(field for field in plan.cfg_fields() if field[0] != "rq_shift")
    per_strip = window.count * (33 + 5 * (stride - 1)) + 3 * (plan.instructions + 4) + 24
    return Lowered(
        function=function,
        header="mcufuse/depthwise_conv2d_sized.h",
        cfg=CStruct("mf_depthwise_conv2d_sized_cfg", (("stride_w", stride), *common)),
        data=CStruct("mf_depthwise_conv2d_sized_data", data),
        rows=rows,
        instructions=int(rows.ticks * flat.shape[0] * (-(-out_w // 3)) * per_strip),
        code_bytes=900,
    )


def _packed_dsp(flat: Array) -> CArray:
    """3x3 weights [channels, 9] in the order of `mcufuse/depthwise_conv2d_dsp.h`."""
    w = flat.astype(np.int8).reshape(-1, 3, 3)
    taps = w[:, [0, 0, 1, 1, 0, 2, 1, 2, 2], [0, 1, 0, 1, 2, 0, 2, 1, 2]]
    sign = (w[:, 2, 2] >> 7)[:, None]
    packed = np.ascontiguousarray(np.concatenate([taps, sign, 0 * sign, 0 * sign], axis=1))
    return CArray("int32_t", packed.view(np.int32), "weights")


def _no_dsp(op: DepthwiseConv2D, flat: Array, window: Window, size: tuple[int, int], out: tuple[int, int]) -> str:
    """Why `mcufuse/depthwise_conv2d_dsp.h` cannot do a layer; "" if it can. Sizes are (height, width)."""
    stride, left = op.stride[1], op.padding.left
    right = max((out[1] - 1) * stride - left + 3 - size[1], 0)
    if (window.count, flat.shape[1], op.dilation[1], op.multiplier) != (3, 9, 1, 1):
        return "not a 3x3 window without dilation, one output for each input channel"
    if stride > 2 or left > 1 or right > 1 or (stride == 1 and left + right > size[1]):
        return f"stride {stride} or padding of {left} and {right} columns"
    if any(not window.rows(tick, size[0]) for tick in range(out[0])):
        return "a window of padding only"
    return ""


def _lower_sized_dsp(
    op: DepthwiseConv2D, flat: Array, widths: tuple[int, int, int, int], rows: RowPlan, plan: RequantPlan
) -> Lowered | Refusal:
    """`mf_depthwise_conv2d_sized_row_s8_dsp`, for 3x3 windows."""
    function = "mf_depthwise_conv2d_sized_row_s8_dsp"
    in_h, in_w, in_c, out_w = widths
    window = rows.reads[0]
    assert isinstance(window, Window)
    if reason := _no_dsp(op, flat, window, (in_h, in_w), (rows.ticks, out_w)):
        return Refusal(function, reason)
    stride, left = op.stride[1], op.padding.left
    right = max((out_w - 1) * stride - left + 3 - in_w, 0)
    data: tuple[tuple[str, CValue], ...] = (
        ("weights", _packed_dsp(flat)), ("requant", plan.array()), ("in_c", in_c), ("out_w", out_w),
        ("pad_left", left), ("pad_right", right), ("rq_shift", plan.shift), ("in_zero", op.in_zero),
        ("out_zero", op.out_zero),
    )  # fmt: skip
    common = tuple(field for field in plan.cfg_fields() if field[0] != "rq_shift")
    pixel = (20 if stride == 1 else 26) + plan.widened().instructions
    return Lowered(
        function=function,
        header="mcufuse/depthwise_conv2d_sized_dsp.h",
        cfg=CStruct("mf_depthwise_conv2d_sized_dsp_cfg", (("stride_w", stride), *common)),
        data=CStruct("mf_depthwise_conv2d_sized_dsp_data", data),
        rows=rows,
        instructions=int(rows.ticks * in_c * (out_w * pixel + 76)),
        code_bytes=450,
    )


def _lower_dsp(
    op: DepthwiseConv2D, flat: Array, widths: tuple[int, int, int, int], rows: RowPlan, plan: RequantPlan
) -> Lowered | Refusal:
    """`mf_depthwise_conv2d_row_s8_dsp`, for 3x3 windows."""
    plan = plan.widened()
    function = "mf_depthwise_conv2d_row_s8_dsp"
    in_h, in_w, in_c, out_w = widths
    window = rows.reads[0]
    assert isinstance(window, Window)
    stride, left = op.stride[1], op.padding.left
    right = max((out_w - 1) * stride - left + 3 - in_w, 0)
    if reason := _no_dsp(op, flat, window, (in_h, in_w), (rows.ticks, out_w)):
        return Refusal(function, reason)
    fields = (
        ("in_c", in_c), ("out_w", out_w), ("stride_w", stride), ("in_zero", op.in_zero),
        ("pad_left", left), ("pad_right", right),
        *plan.cfg_fields(),
    )  # fmt: skip
    pixel = (10 if stride == 1 else 14) + plan.instructions + (1 if out_w <= 12 else 5)
    return Lowered(
        function=function,
        header="mcufuse/depthwise_conv2d_dsp.h",
        cfg=CStruct("mf_depthwise_conv2d_dsp_cfg", fields),
        data=CStruct(
            "mf_depthwise_conv2d_dsp_data",
            (
                ("weights", _packed_dsp(flat)),
                ("requant", plan.array()),
                ("out_zero", op.out_zero),
            ),
        ),
        rows=rows,
        instructions=int(rows.ticks * in_c * (out_w * pixel + 17)),
        code_bytes=600 if out_w <= 6 else 1050,
    )


def _lower_1d_dsp(
    op: DepthwiseConv2D, flat: Array, widths: tuple[int, int, int, int], rows: RowPlan, plan: RequantPlan
) -> Lowered | Refusal:
    """`mf_depthwise_1d_row_s8_dsp`, for windows one column wide."""
    plan = plan.widened()
    function = "mf_depthwise_1d_row_s8_dsp"
    in_h, in_w, in_c, out_w = widths
    window = rows.reads[0]
    assert isinstance(window, Window)
    stride, k_h = op.stride[1], window.count
    if flat.shape[1] != k_h or op.multiplier != 1 or in_c < 4:
        return Refusal(function, "not a window one column wide, one output for each of at least four channels")
    if op.padding.left or (out_w - 1) * stride >= in_w:
        return Refusal(function, "padding beside the map")
    starts = [min(c, in_c - 4) for c in range(0, in_c, 4)]
    filled = np.pad(flat.astype(np.int8), ((0, 0), (0, k_h % 2)))
    blocks = np.stack([filled[c : c + 4] for c in starts]).reshape(len(starts), 2, 2, -1, 2)  # [., half, c, pair, row]
    packed = np.ascontiguousarray(blocks.transpose(0, 3, 1, 4, 2))
    pad = any(len(window.rows(tick, in_h)) < k_h for tick in range(rows.ticks))
    common = tuple(field for field in plan.cfg_fields() if field[0] != "rq_shift")
    data: tuple[tuple[str, CValue], ...] = (
        ("weights", CArray("int32_t", packed.reshape(-1).view(np.int32), "weights")), ("requant", plan.array()),
        ("in_c", in_c), ("out_w", out_w), ("k_h", k_h), ("stride_w", stride), ("rq_shift", plan.shift),
        ("in_zero", op.in_zero), ("out_zero", op.out_zero),
    )  # fmt: skip
    block = -(-k_h // 2) * (26 if pad else 20) + 4 * (plan.instructions + 3) + 14
    return Lowered(
        function=function,
        header="mcufuse/depthwise_1d_dsp.h",
        cfg=CStruct("mf_depthwise_1d_dsp_cfg", (("pad", int(pad)), *common)),
        data=CStruct("mf_depthwise_1d_dsp_data", data),
        rows=rows,
        instructions=int(rows.ticks * (out_w * (len(starts) * block + 10) + 30)),
        code_bytes=420,
    )


def _lower_mve(base: Lowered, op: DepthwiseConv2D, flat: Array, plan: RequantPlan) -> Lowered | Refusal:
    """`mf_depthwise_conv2d_row_s8_mve`, with the shape of the portable lowering."""
    function = "mf_depthwise_conv2d_row_s8_mve"
    plan = vector_plan(plan, op.requant)
    channels, taps = flat.shape
    w = np.abs(flat.astype(np.int64))
    if op.multiplier != 1 or taps > 32:
        return Refusal(function, "more than one output for each input channel, or more than 32 values in a window")
    if plan.mode not in (Mode.HIGH_WIDE, Mode.TFLITE_RIGHT):
        return Refusal(function, "no vector sequence for this requantization")
    pairs = w[:, 0 : taps - taps % 2].reshape(channels, -1, 2).sum(axis=2)
    if int(pairs.max(initial=0)) > 255:
        return Refusal(function, "two products may leave 16 bits")
    fill = -channels % 16
    blocks = np.pad(flat, ((0, fill), (0, 0))).reshape(-1, 16, taps).transpose(0, 2, 1)
    entries = np.concatenate([plan.entries, np.repeat(plan.entries[-1:], fill, axis=0)])
    order = [c for part in (0, 2, 1, 3) for c in range(part, 16, 4)]  # the lanes' order, see the header
    apart = entries.reshape(-1, 16, 3)[:, order].reshape(-1, 3)
    fields = dict(base.cfg.fields) | dict(plan.cfg_fields())
    weights = CArray("int8_t", np.ascontiguousarray(blocks), "weights")
    data = (
        ("weights", weights), ("requant", vector_table(replace(plan, entries=apart))),
        ("in_zero", op.in_zero), ("out_zero", op.out_zero),
    )  # fmt: skip
    outputs = base.rows.ticks * int(cast("int", fields["out_w"]))
    return replace(
        base,
        function=function,
        header="mcufuse/depthwise_conv2d_mve.h",
        cfg=CStruct("mf_depthwise_conv2d_cfg", tuple(fields.items())),
        data=CStruct("mf_depthwise_conv2d_data", data),
        scratch_bytes=channels,
        instructions=outputs * (5 * taps + 20 + (channels + 15) // 16 * (11 * taps + 48)),
        code_bytes=500,
    )


class DepthwiseConv2DKernel(Kernel[DepthwiseConv2D]):
    """Strips of neighbouring outputs of one channel."""

    op = DepthwiseConv2D

    def evaluate(self, op: DepthwiseConv2D, graph: Graph, args: Sequence[Array]) -> Array:
        """The oracle: one multiply-accumulate of whole maps for each tap."""
        x, weights, bias = (np.asarray(a) for a in args)
        k_h, k_w, out_c = weights.shape
        out_h, out_w, _ = graph.tensors[op.output].hwc
        data = padded_input(x.reshape(x.shape[-3:]), op.padding, op.in_zero)
        (s_h, s_w), (d_h, d_w) = op.stride, op.dilation
        acc = np.zeros((out_h, out_w, out_c))
        for i in range(k_h):
            for j in range(k_w):
                rows = slice(i * d_h, i * d_h + s_h * (out_h - 1) + 1, s_h)
                columns = slice(j * d_w, j * d_w + s_w * (out_w - 1) + 1, s_w)
                acc += np.repeat(data[rows, columns], op.multiplier, axis=2) * weights[i, j].astype(np.float64)
        return finish(acc.astype(np.int64) + bias.astype(np.int64), op).reshape(1, out_h, out_w, out_c)

    def lower(self, op: DepthwiseConv2D, context: LowerContext) -> list[Lowered | Refusal]:
        """`mf_depthwise_conv2d_row_s8`, and what the core's instructions allow beyond."""
        function = "mf_depthwise_conv2d_row_s8"
        graph = context.graph
        in_h, in_w, in_c = context.hwc(op.inputs[0])
        out_h, out_w, out_c = context.hwc(op.output)
        weights = np.asarray(graph.const(op.inputs[1]))
        k_h, k_w, _ = weights.shape
        refusal = too_large(
            function,
            kernel_h=(k_h, 255), kernel_w=(k_w, 255), stride_w=(op.stride[1], 255), dilation_w=(op.dilation[1], 255),
            channels=(out_c, 65535), width=(max(in_w, out_w), 32767),
        )  # fmt: skip
        if refusal:
            return [refusal]
        flat = weights.reshape(k_h * k_w, out_c).T
        bias = np.asarray(graph.const(op.inputs[2])).astype(np.int64) - op.in_zero * flat.astype(np.int64).sum(axis=1)
        lo, hi = raw_range(flat)
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
        rows = window_rows(out_h, k_h, op.stride[0], op.dilation[0], op.padding.top)
        widths = (in_w, in_c, out_w)
        base = _lower_base(op, flat, widths, rows, plan)
        ways: list[Lowered | Refusal] = [_lower_base(op, flat, widths, rows, p) for p in plan.variants()]
        ways.append(_lower_sized(op, flat, widths, rows, plan))
        if context.core.isa is not Isa.BASE:
            size = (in_h, in_w, in_c, out_w)
            ways.append(_lower_sized_dsp(op, flat, size, rows, plan))
            ways.append(_lower_dsp(op, flat, (in_h, in_w, in_c, out_w), rows, plan))
            ways.append(_lower_1d_dsp(op, flat, (in_h, in_w, in_c, out_w), rows, plan))
        if context.core.isa is Isa.MVE:
            ways.append(_lower_mve(base, op, flat, plan))
            ways.append(lower_columns(op, weights, in_w, out_w, rows, plan))
        return ways

    def macs(self, op: DepthwiseConv2D, graph: Graph) -> int:
        """Output elements times the taps of a window."""
        k_h, k_w, _ = graph.tensors[op.inputs[1]].shape
        return graph.tensors[op.output].elements * k_h * k_w
