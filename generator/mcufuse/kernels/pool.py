# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Maximum and average pooling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..arith import requantize
from ..ir import AvgPool2D, Graph, MaxPool2D, Requant
from ..target import Core, Isa
from .base import Array, CStruct, CValue, Kernel, LowerContext, Lowered, Refusal, RowPlan, Window
from .mean import LANES_LIMIT, divide_away
from .requant import plan_requant

__all__ = ["AvgPool2DKernel", "MaxPool2DKernel"]

Pool = MaxPool2D | AvgPool2D


def _span(position: int, stride: int, before: int, kernel: int, size: int) -> slice:
    start = position * stride - before
    return slice(max(start, 0), max(min(start + kernel, size), 0))


def _windows(op: Pool, graph: Graph, x: Array) -> Iterator[tuple[int, int, Array]]:
    """(row, column, elements [n, C] that lie inside the map) for each output pixel."""
    height, width, channels = graph.tensors[op.inputs[0]].hwc
    out_h, out_w, _ = graph.tensors[op.output].hwc
    data = x.reshape(height, width, channels)
    for i in range(out_h):
        rows = data[_span(i, op.stride[0], op.padding.top, op.kernel[0], height)]
        for j in range(out_w):
            window = rows[:, _span(j, op.stride[1], op.padding.left, op.kernel[1], width)]
            yield i, j, window.reshape(-1, channels).astype(np.int64)


def _counts(op: Pool, graph: Graph) -> set[int]:
    """The numbers of elements inside the map that windows have."""
    height, width, _ = graph.tensors[op.inputs[0]].hwc
    out_h, out_w, _ = graph.tensors[op.output].hwc

    def sizes(n: int, stride: int, before: int, kernel: int, size: int) -> set[int]:
        spans = (_span(i, stride, before, kernel, size) for i in range(n))
        return {max(span.stop - span.start, 0) for span in spans}

    tall = sizes(out_h, op.stride[0], op.padding.top, op.kernel[0], height)
    wide = sizes(out_w, op.stride[1], op.padding.left, op.kernel[1], width)
    return {a * b for a in tall for b in wide}


def _shape_fields(op: Pool, context: LowerContext) -> tuple[tuple[str, CValue], ...]:
    _, in_w, channels = context.hwc(op.inputs[0])
    _, out_w, _ = context.hwc(op.output)
    return (
        ("in_w", in_w),
        ("out_w", out_w),
        ("channels", channels),
        ("kernel_h", op.kernel[0]),
        ("kernel_w", op.kernel[1]),
        ("stride_w", op.stride[1]),
        ("left", op.padding.left),
        ("lo", op.clamp.lo),
        ("hi", op.clamp.hi),
    )


def _rows(op: Pool, context: LowerContext) -> RowPlan:
    out_h, _, _ = context.hwc(op.output)
    return RowPlan(out_h, (Window(op.stride[0], -op.padding.top, op.kernel[0]),))


def _elements(op: Pool, context: LowerContext) -> int:
    return context.graph.tensors[op.output].elements


class MaxPool2DKernel(Kernel[MaxPool2D]):
    """Greatest value of each window."""

    op = MaxPool2D

    def evaluate(self, op: MaxPool2D, graph: Graph, args: Sequence[Array]) -> Array:
        """The oracle."""
        out = np.full(graph.tensors[op.output].hwc, -128, np.int64)
        for i, j, window in _windows(op, graph, args[0]):
            out[i, j] = window.max(axis=0, initial=-128)
        out = np.clip(out, op.clamp.lo, op.clamp.hi)
        return out.astype(np.int8).reshape(graph.tensors[op.output].shape)

    def lower(self, op: MaxPool2D, context: LowerContext) -> list[Lowered | Refusal]:
        """`mf_max_pool2d_row_s8`."""
        taps = op.kernel[0] * op.kernel[1]
        return [
            Lowered(
                function="mf_max_pool2d_row_s8",
                header="mcufuse/pool.h",
                cfg=CStruct("mf_pool_cfg", _shape_fields(op, context)),
                data=CStruct("mf_pool_data", ()),
                rows=_rows(op, context),
                instructions=int(_elements(op, context) * (_max_cost(context.core) * taps + 3)),
            )
        ]


def _max_cost(core: Core) -> float:
    """Instructions for one element of a window."""
    return {Isa.MVE: 0.25, Isa.DSP: 1.0}.get(core.isa, 4.5)


class AvgPool2DKernel(Kernel[AvgPool2D]):
    """Mean of each window."""

    op = AvgPool2D

    def evaluate(self, op: AvgPool2D, graph: Graph, args: Sequence[Array]) -> Array:
        """The oracle; raises ValueError if a window lies in the padding altogether."""
        out = np.zeros(graph.tensors[op.output].hwc, np.int64)
        for i, j, window in _windows(op, graph, args[0]):
            count = len(window)
            if count == 0:
                raise ValueError(f"{op.name}: the window of output ({i}, {j}) is empty")
            if op.requant is None:
                out[i, j] = divide_away(window.sum(axis=0), count)
                continue
            counted = op.kernel[0] * op.kernel[1] if op.count_padding else count
            total = (window - op.in_zero).sum(axis=0)
            out[i, j] = requantize(total, _entry(op.requant, counted)) + op.out_zero
        out = np.clip(out, op.clamp.lo, op.clamp.hi)
        return out.astype(np.int8).reshape(graph.tensors[op.output].shape)

    def lower(self, op: AvgPool2D, context: LowerContext) -> list[Lowered | Refusal]:
        """`mf_avg_pool2d_row_s8`."""
        function = "mf_avg_pool2d_row_s8"
        counts = _counts(op, context.graph)
        if 0 in counts:
            return [Refusal(function, "a window lies in the padding altogether")]
        taps = op.kernel[0] * op.kernel[1]
        least, most = (taps, taps) if op.count_padding else (min(counts), max(counts))
        fields: tuple[tuple[str, CValue], ...] = (("divide", True),)
        data: tuple[tuple[str, CValue], ...] = ()
        cost = 12
        if op.requant is not None:
            entries = Requant(
                op.requant.multiplier[least - 1 : most], op.requant.shift[least - 1 : most], op.requant.rounding
            )
            reach = np.full(most - least + 1, 255 * taps, np.int64)
            zero = np.zeros_like(reach)
            plan = plan_requant(entries, bias=zero, raw_lo=-reach, raw_hi=reach, out_zero=op.out_zero, clamp=op.clamp)
            if isinstance(plan, Refusal):
                return [Refusal(function, plan.reason)]
            cost = plan.instructions
            fields = (
                ("entries", most - least + 1),
                ("least_count", least),
                ("rq_mode", int(plan.mode)),
                ("rq_shift", plan.shift),
            )
            data = (("requant", plan.array()), ("in_zero", op.in_zero), ("out_zero", op.out_zero))
        each = 1.75 if taps <= LANES_LIMIT else 2.5
        return [
            Lowered(
                function=function,
                header="mcufuse/pool.h",
                cfg=CStruct("mf_pool_cfg", (*_shape_fields(op, context), *fields)),
                data=CStruct("mf_pool_data", data),
                rows=_rows(op, context),
                instructions=int(_elements(op, context) * (each * taps + cost + 2)),
            )
        ]


def _entry(requant: Requant, count: int) -> Requant:
    return Requant((requant.multiplier[count - 1],), (requant.shift[count - 1],), requant.rounding)
