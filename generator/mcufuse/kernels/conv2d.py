# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Convolution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..arith import requantize
from ..ir import Conv2D, DepthwiseConv2D, FullyConnected, Graph, Padding
from ..target import Isa
from .base import Array, CArray, CStruct, CValue, Kernel, LowerContext, Lowered, Refusal, RowPlan, Window
from .dsp import pack_words, raw_possible, steps_of
from .mve import LANES, block_instructions, pack_runs, vector_plan, vector_table
from .requant import Mode, RequantPlan, plan_requant

__all__ = [
    "Conv2DKernel", "finish", "pack_blocks", "padded_input", "raw_range", "too_large", "window_rows",
]  # fmt: skip

I64 = npt.NDArray[np.int64]

BLOCK = 4
"""Output channels of a block, `cfg.block` of mcufuse/dot.h."""


def padded_input(x: Array, padding: Padding, in_zero: int) -> npt.NDArray[np.float64]:
    """[H, W, C] of x - in_zero with the padding as zeros, in float64: products of int8 sum exactly up to 2^53."""
    centred = x.astype(np.float64) - in_zero
    return np.pad(centred, ((padding.top, padding.bottom), (padding.left, padding.right), (0, 0)))


def finish(acc: Array, op: Conv2D | DepthwiseConv2D | FullyConnected) -> Array:
    """Requantized, offset and clamped accumulators [..., channels], int8."""
    y = requantize(acc, op.requant) + op.out_zero
    return np.clip(y, op.clamp.lo, op.clamp.hi).astype(np.int8)


def raw_range(weights: Array) -> tuple[I64, I64]:
    """Least and greatest sum(x * w) per channel over int8 x; weights [channels, taps]."""
    w = weights.astype(np.int64)
    positive, negative = np.maximum(w, 0).sum(axis=1), np.minimum(w, 0).sum(axis=1)
    return 127 * negative - 128 * positive, 127 * positive - 128 * negative


def pack_blocks(weights: Array, block: int) -> Array:
    """[channels, depth] in the reading order of dot.h: [depth][block] for each block of channels, in order."""
    parts = [weights[c : c + block].T.ravel() for c in range(0, weights.shape[0], block)]
    return np.concatenate(parts).astype(np.int8)


def window_rows(height: int, k_h: int, stride_h: int, dilation_h: int, top: int) -> RowPlan:
    """One output row a tick, from the rows of its window."""
    return RowPlan(ticks=height, reads=(Window(stride_h, -top, k_h, dilation_h),))


def too_large(function: str, **fields: tuple[int, int]) -> Refusal | None:
    """A refusal if a field (value, limit) does not fit its member of the cfg struct."""
    for name, (value, limit) in fields.items():
        if value > limit:
            return Refusal(function, f"{name} is {value}, above {limit}")
    return None


@dataclass(frozen=True, slots=True)
class _Shape:
    """A convolution to lower; `flat` are its weights [output channels, taps]."""

    op: Conv2D
    in_w: int
    in_c: int
    out_h: int
    out_w: int
    flat: Array
    kernel: tuple[int, int]

    @property
    def out_c(self) -> int:
        """Output channels."""
        return int(self.flat.shape[0])

    @property
    def taps(self) -> int:
        """Multiply-accumulates of one output."""
        return int(self.flat.shape[1])

    @property
    def direct(self) -> bool:
        """Whether rows are read where they are."""
        return self.kernel == (1, 1) and self.op.groups == 1 and self.op.padding == Padding()

    @property
    def rows(self) -> RowPlan:
        """One output row a tick, from the rows of its window."""
        return window_rows(self.out_h, self.kernel[0], self.op.stride[0], self.op.dilation[0], self.op.padding.top)

    def per_group(self) -> list[Array]:
        """The weights of each group."""
        return np.split(self.flat, self.op.groups)

    def fields(self, plan: RequantPlan) -> tuple[tuple[str, CValue], ...]:
        """The fields of `struct mf_conv2d_cfg`."""
        op = self.op
        return (
            ("in_w", self.in_w), ("in_c", self.in_c), ("out_w", self.out_w), ("out_c", self.out_c),
            ("groups", op.groups), ("pad_left", op.padding.left), ("k_h", self.kernel[0]), ("k_w", self.kernel[1]),
            ("stride_w", op.stride[1]), ("dilation_w", op.dilation[1]), ("direct", int(self.direct)),
            *plan.cfg_fields(),
        )  # fmt: skip


def _lower_base(shape: _Shape, plan: RequantPlan) -> Lowered:
    """`mf_conv2d_row_s8`."""
    op, taps = shape.op, shape.taps
    packed = np.concatenate([pack_blocks(part, BLOCK) for part in shape.per_group()])
    data = (
        ("weights", CArray("int8_t", packed, "weights")), ("requant", plan.array()),
        ("in_zero", op.in_zero), ("out_zero", op.out_zero),
    )  # fmt: skip
    pixel = shape.out_c * (1.95 * taps + plan.instructions + 3)
    gather = 0 if shape.direct else op.groups * (0.8 * taps + 12 * shape.kernel[0])
    return Lowered(
        function="mf_conv2d_row_s8",
        header="mcufuse/conv2d.h",
        cfg=CStruct("mf_conv2d_cfg", shape.fields(plan)),
        data=CStruct("mf_conv2d_data", data),
        rows=shape.rows,
        scratch_bytes=0 if shape.direct else 2 * taps,
        instructions=int(shape.out_h * shape.out_w * (pixel + gather)),
        code_bytes=_base_code(shape, plan),
    )


def _filled(shape: _Shape, plan: RequantPlan) -> tuple[Array, RequantPlan]:
    """Weights and table with further channels up to whole blocks of 4, and values up to a multiple of 4."""
    channels, values = -shape.out_c % BLOCK, -shape.taps % 4
    flat = np.pad(shape.flat, ((0, channels), (0, values)))
    entries = np.concatenate([plan.entries, np.repeat(plan.entries[-1:], channels, axis=0)])
    return flat, replace(plan, entries=entries)


def _sized_fields(
    shape: _Shape, plan: RequantPlan, weights: CArray | None, depth: int
) -> tuple[tuple[str, CValue], ...]:
    """The fields of `struct mf_conv2d_sized_data`."""
    op = shape.op
    return (
        ("weights", weights), ("requant", plan.array()), ("in_w", shape.in_w), ("in_c", shape.in_c),
        ("out_w", shape.out_w), ("out_c", shape.out_c), ("depth", depth), ("pad_left", op.padding.left),
        ("k_h", shape.kernel[0]), ("k_w", shape.kernel[1]), ("stride_w", op.stride[1]), ("rq_shift", plan.shift),
        ("in_zero", op.in_zero), ("out_zero", op.out_zero),
    )  # fmt: skip


def _lower_sized_dsp(shape: _Shape, plan: RequantPlan) -> Lowered | Refusal:
    """`mf_conv2d_sized_row_s8_dsp`."""
    function = "mf_conv2d_sized_row_s8_dsp"
    op = shape.op
    if op.groups > 1 or op.dilation[1] > 1 or shape.taps > 65532:
        return Refusal(function, "groups, dilation or more than 65,532 values in a window")
    flat, plan = _filled(shape, plan)
    raw = raw_possible(flat, BLOCK)
    weights = CArray("int32_t", pack_words(flat, BLOCK, raw), "weights")
    fields = _sized_fields(shape, plan, None, int(flat.shape[1]))
    data = (
        *((f"shape.{name}", value) for name, value in fields), ("weights", weights), ("direct", int(shape.direct)),
    )  # fmt: skip
    common = tuple(field for field in plan.cfg_fields() if field[0] != "rq_shift")
    pixel = flat.shape[0] * (
        (0.9 if raw else 1.05) * flat.shape[1] + plan.instructions + (6 if plan.mode is Mode.HIGH else 5)
    )
    aligned = shape.taps // shape.kernel[0] % 4 == 0
    gather = 1.3 * shape.taps + (40 if shape.direct else (1.4 if aligned else 8.0) * shape.taps + 80)
    return Lowered(
        function=function,
        header="mcufuse/conv2d_sized_dsp.h",
        cfg=CStruct("mf_conv2d_sized_dsp_cfg", (("raw", int(raw)), *common)),
        data=CStruct("mf_conv2d_sized_dsp_data", data),
        rows=shape.rows,
        scratch_bytes=4 * int(flat.shape[1]) + (0 if shape.direct else 2 * shape.taps),
        instructions=int(shape.out_h * shape.out_w * (pixel + gather)),
        code_bytes=1500,
    )


def _lower_sized(shape: _Shape, plan: RequantPlan) -> Lowered | Refusal:
    """`mf_conv2d_sized_row_s8`."""
    function = "mf_conv2d_sized_row_s8"
    op = shape.op
    if op.groups > 1 or op.dilation[1] > 1 or shape.taps > 65532:
        return Refusal(function, "groups, dilation or more than 65,532 values in a window")
    flat, plan = _filled(shape, plan)
    weights = CArray("int8_t", pack_blocks(flat, BLOCK), "weights")
    data = _sized_fields(shape, plan, weights, int(flat.shape[1]))
    common = tuple(field for field in plan.cfg_fields() if field[0] != "rq_shift")
    pixel = flat.shape[0] * (1.92 * flat.shape[1] + plan.instructions + 5)
    aligned = shape.taps // shape.kernel[0] % 4 == 0
    gather = (1.4 if aligned else 8.0) * shape.taps + 25 * shape.kernel[0] + 40
    return Lowered(
        function=function,
        header="mcufuse/conv2d_sized.h",
        cfg=CStruct("mf_conv2d_sized_cfg", common),
        data=CStruct("mf_conv2d_sized_data", data),
        rows=shape.rows,
        scratch_bytes=2 * int(flat.shape[1]),
        instructions=int(shape.out_h * shape.out_w * (pixel + gather)),
        code_bytes=1500 if plan.mode is Mode.SPLIT else 1350,
    )


def _lower_dsp(shape: _Shape, plan: RequantPlan) -> Lowered:
    """`mf_conv2d_row_s8_dsp`."""
    plan = plan.widened()
    op, taps = shape.op, shape.taps
    raw = all(raw_possible(part, BLOCK) for part in shape.per_group())
    packed = np.concatenate([pack_words(part, BLOCK, raw) for part in shape.per_group()])
    data = (
        ("weights", CArray("int32_t", packed, "weights")), ("requant", plan.array()),
        ("in_zero", op.in_zero), ("out_zero", op.out_zero),
    )  # fmt: skip
    cfg = (*((f"conv.{name}", value) for name, value in shape.fields(plan)), ("raw", int(raw)))
    run = taps // shape.kernel[0]
    by_rows = op.groups == 1 and op.dilation[1] == 1 and run % 4 == 0
    gathered = 0 if shape.direct else 2 * (run if by_rows else taps)
    steps = steps_of(taps)
    pixel = shape.out_c * ((0.81 if raw else 0.95) * 2 * steps + plan.instructions + 3)
    widen = op.groups * (1.2 * taps + (0 if by_rows else 0.8 * taps) + 12 * shape.kernel[0])
    return Lowered(
        function="mf_conv2d_row_s8_dsp",
        header="mcufuse/conv2d_dsp.h",
        cfg=CStruct("mf_conv2d_dsp_cfg", cfg),
        data=CStruct("mf_conv2d_dsp_data", data),
        rows=shape.rows,
        scratch_bytes=8 * steps + gathered,
        instructions=int(shape.out_h * shape.out_w * (pixel + widen)),
        code_bytes=500 if shape.out_w == 1 else 1100 if shape.out_w % 2 else 800,
    )


def _lower_odd_dsp(shape: _Shape, plan: RequantPlan) -> Lowered | Refusal:
    """`mf_conv2d_odd_row_s8_dsp`."""
    function = "mf_conv2d_odd_row_s8_dsp"
    plan = plan.widened()
    op, taps = shape.op, shape.taps
    if shape.out_w % 2 == 0 or shape.out_w < 3:
        return Refusal(function, "not an odd number of pixels in a row, at least three")
    if op.groups > 1 or shape.out_c % BLOCK or not raw_possible(shape.flat, BLOCK):
        return Refusal(function, "groups, channels that are not a multiple of four, or weights of too wide a range")
    steps = steps_of(taps)
    if steps % 4:
        return Refusal(function, f"{taps} values in a window, not up to a multiple of eight")
    data = (
        ("weights", CArray("int32_t", pack_words(shape.flat, BLOCK, raw=True), "weights")),
        ("requant", plan.array()), ("in_zero", op.in_zero), ("out_zero", op.out_zero),
    )  # fmt: skip
    run = taps // shape.kernel[0]
    by_rows = op.dilation[1] == 1 and run % 4 == 0
    gathered = 0 if shape.direct else run if by_rows else taps
    two = (12 * steps + 3 * steps / 6 + 57) / 8
    three = (9 * steps + 2 * steps / (4 if steps % 8 else 8) + 60) / 6
    row = shape.out_c * ((shape.out_w - 3) * two + 3 * three + shape.out_w * (plan.instructions - 4))
    widen = 1.5 * taps + (0 if by_rows else 0.8 * taps) + (0 if shape.direct else 60 * shape.kernel[0])
    return Lowered(
        function=function,
        header="mcufuse/conv2d_odd_dsp.h",
        cfg=CStruct("mf_conv2d_cfg", shape.fields(plan)),
        data=CStruct("mf_conv2d_dsp_data", data),
        rows=shape.rows,
        scratch_bytes=max(8 * steps + 2 * gathered, 12 * steps + gathered),
        instructions=int(shape.out_h * (row + shape.out_w * widen)),
        code_bytes=1300 if shape.out_w > 3 else 800,
    )


def _lower_mve(shape: _Shape, plan: RequantPlan) -> Lowered:
    """`mf_conv2d_row_s8_mve`."""
    op, taps = shape.op, shape.taps
    plan = vector_plan(plan, op.requant)
    fill = 0 if shape.direct else -taps % 16
    packed = pack_runs([np.pad(part, ((0, 0), (0, fill))) for part in shape.per_group()])
    data = (
        ("weights", CArray("int8_t", packed, "weights")), ("requant", vector_table(plan, op.groups)),
        ("in_zero", op.in_zero), ("out_zero", op.out_zero),
    )  # fmt: skip
    per_group = shape.out_c // op.groups
    pair, single = (block_instructions(taps + fill, per_group, pixels, plan) for pixels in (2, 1))
    pairs, odd = divmod(shape.out_w, 2)
    row = -(-per_group // LANES) * (pairs * pair + odd * single) + 10 * (pairs + odd)
    gather = 0 if shape.direct else shape.kernel[0] * (23 + taps // shape.kernel[0] // 4)
    return Lowered(
        function="mf_conv2d_row_s8_mve",
        header="mcufuse/conv2d_mve.h",
        cfg=CStruct("mf_conv2d_cfg", shape.fields(plan)),
        data=CStruct("mf_conv2d_data", data),
        rows=shape.rows,
        scratch_bytes=0 if shape.direct else 2 * (taps + fill),
        instructions=int(shape.out_h * (70 + op.groups * (row + shape.out_w * gather))),
        code_bytes=600 if shape.out_w % 2 else 400,
    )


def _base_code(shape: _Shape, plan: RequantPlan) -> int:
    """Bytes of an instance of `mf_conv2d_row_s8`."""
    block = 56 * min(shape.taps, 8) + 220 + (150 if plan.mode is Mode.SPLIT else 0)
    blocks = (1.0 if shape.out_c // BLOCK else 0.0) + (0.7 if shape.out_c % BLOCK else 0.0)
    pixels = 0.55 if shape.out_w == 1 else 1.7 if shape.out_w % 2 else 1.0
    return int(block * blocks * pixels) + (100 if shape.direct else 380)


class Conv2DKernel(Kernel[Conv2D]):
    """Windows of two pixels times four channels at a time."""

    op = Conv2D

    def evaluate(self, op: Conv2D, graph: Graph, args: Sequence[Array]) -> Array:
        """The oracle: im2col and an exact float64 matrix product for each group."""
        x, weights, bias = (np.asarray(a) for a in args)
        out_c, k_h, k_w, depth = weights.shape
        out_h, out_w, _ = graph.tensors[op.output].hwc
        data = padded_input(x.reshape(x.shape[-3:]), op.padding, op.in_zero)
        (s_h, s_w), (d_h, d_w) = op.stride, op.dilation
        taps = [
            data[i * d_h : i * d_h + s_h * (out_h - 1) + 1 : s_h, j * d_w : j * d_w + s_w * (out_w - 1) + 1 : s_w]
            for i in range(k_h)
            for j in range(k_w)
        ]
        windows = np.stack(taps, axis=2)  # [out_h, out_w, taps, in_c]
        per_group = out_c // op.groups
        parts = []
        for g in range(op.groups):
            flat = windows[..., g * depth : (g + 1) * depth].reshape(out_h * out_w, -1)
            matrix = weights[g * per_group : (g + 1) * per_group].reshape(per_group, -1).astype(np.float64)
            parts.append(flat @ matrix.T)
        acc = np.concatenate(parts, axis=1).astype(np.int64) + bias.astype(np.int64)
        return finish(acc, op).reshape(1, out_h, out_w, out_c)

    def lower(self, op: Conv2D, context: LowerContext) -> list[Lowered | Refusal]:
        """`mf_conv2d_row_s8`, and what the core's instructions allow beyond."""
        function = "mf_conv2d_row_s8"
        graph = context.graph
        _, in_w, in_c = context.hwc(op.inputs[0])
        out_h, out_w, out_c = context.hwc(op.output)
        weights = np.asarray(graph.const(op.inputs[1]))
        _, k_h, k_w, depth = weights.shape
        refusal = too_large(
            function,
            kernel_h=(k_h, 255), kernel_w=(k_w, 255), stride_w=(op.stride[1], 255), dilation_w=(op.dilation[1], 255),
            channels=(max(in_c, out_c), 65535), width=(max(in_w, out_w), 32767), taps=(k_h * k_w * depth, 131071),
        )  # fmt: skip
        if refusal:
            return [refusal]
        flat = weights.reshape(out_c, -1)
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
        shape = _Shape(op, in_w, in_c, out_h, out_w, flat, (k_h, k_w))
        ways: list[Lowered | Refusal] = [_lower_base(shape, p) for p in plan.variants()]
        ways.append(_lower_sized(shape, plan))
        if context.core.isa is not Isa.BASE:
            ways += [_lower_dsp(shape, plan), _lower_odd_dsp(shape, plan)]
            ways += [_lower_sized_dsp(shape, p) for p in plan.variants()]
        if context.core.isa is Isa.MVE:
            ways.append(_lower_mve(shape, plan))
        return ways

    def macs(self, op: Conv2D, graph: Graph) -> int:
        """Output elements times the taps of a window."""
        weights = graph.tensors[op.inputs[1]]
        return graph.tensors[op.output].elements * (weights.elements // weights.shape[0])
