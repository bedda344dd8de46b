# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Inverted bottleneck in vertical strips: memory bought with repeated multiply-accumulates.

For each output row the columns are cut into strips of equal width; the last one begins early enough to have it too,
and so repeats a few columns:

    outputs      [strip 0    ][strip 1    ][strip 2    ]        out_w = 11, 3 strips of 4:
    expanded    [k rows       ]                                 outputs 0..3, 4..7, 7..10
                         [k rows       ]        halo columns are computed twice

The expanded map is computed where a strip needs it: k rows of strip and halo, in scratch memory. So a row of it is
computed k / stride times, and its halo columns once more. See mcufuse/bottleneck.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..ir import Bottleneck, Conv2D, DepthwiseConv2D, DType, Graph, Op, Padding, Tensor
from .base import Array, CArray, CStruct, CValue, Kernel, LowerContext, Lowered, Refusal, RowPlan, Window
from .conv2d import Conv2DKernel, too_large
from .depthwise_conv2d import DepthwiseConv2DKernel

__all__ = ["BottleneckKernel", "StripPlan", "strip_plan", "unfold"]

MAX_ROWS = 11
"""Rows of a window, `MF_BOTTLENECK_ROWS` of mcufuse/bottleneck.h."""

_ROW_COST = 45  # instructions to prepare one row of a strip, beside the row functions


@dataclass(frozen=True, slots=True)
class StripPlan:
    """How a map is cut into strips."""

    width: int  # outputs of a strip
    columns: int  # expanded columns of a strip, halo and padding included
    firsts: tuple[int, ...]  # first output column of each strip
    spans: tuple[tuple[int, int], ...]  # columns of the map [begin, end) that each strip expands
    rows: tuple[int, ...]  # rows of the map that each tick expands

    @property
    def expanded(self) -> int:
        """Expanded pixels in all."""
        return sum(self.rows) * sum(end - begin for begin, end in self.spans)

    @property
    def outputs(self) -> int:
        """Output pixels in all, repeated ones included."""
        return len(self.rows) * len(self.firsts) * self.width


def strip_plan(op: Bottleneck, graph: Graph) -> StripPlan:
    """The strips of an operator: of equal width, so that one compiled copy serves all."""
    _, in_w, _ = graph.tensors[op.inputs[0]].hwc
    _, out_w, _ = graph.tensors[op.output].hwc
    k_w = graph.tensors[op.inputs[3]].shape[1]
    stride, dilation, left = op.depthwise.stride[1], op.depthwise.dilation[1], op.depthwise.padding.left
    width = -(-out_w // op.strips)
    columns = (width - 1) * stride + (k_w - 1) * dilation + 1
    firsts = tuple(min(i * width, out_w - width) for i in range(-(-out_w // width)))
    starts = [first * stride - left for first in firsts]
    spans = tuple((max(start, 0), min(start + columns, in_w)) for start in starts)
    height = graph.tensors[op.inputs[0]].hwc[0]
    window = _window(op, graph)
    ticks = range(graph.tensors[op.output].hwc[0])
    return StripPlan(width, columns, firsts, spans, tuple(len(window.rows(tick, height)) for tick in ticks))


def _window(op: Bottleneck, graph: Graph) -> Window:
    depthwise = op.depthwise
    k_h = graph.tensors[op.inputs[3]].shape[0]
    return Window(depthwise.stride[0], -depthwise.padding.top, k_h, depthwise.dilation[0])


def unfold(op: Bottleneck, graph: Graph) -> Graph:
    """The three operators on whole maps, as a graph of their own."""
    height, width, _ = graph.tensors[op.inputs[0]].hwc
    out_h, out_w, _ = graph.tensors[op.output].hwc
    middle = graph.tensors[op.inputs[3]].shape[2]
    ops = _parts(op)
    made = (
        Tensor(ops[0].output, (1, height, width, middle), DType.S8),
        Tensor(ops[1].output, (1, out_h, out_w, middle), DType.S8),
    )
    tensors = {name: graph.tensors[name] for name in (*op.inputs, op.output)} | {t.name: t for t in made}
    return Graph(op.name, tensors, ops, (op.inputs[0],), (op.output,))


def _parts(op: Bottleneck) -> tuple[Conv2D, DepthwiseConv2D, Conv2D]:
    x, *constants = op.inputs
    expanded, filtered = f"{op.name} expanded", f"{op.name} filtered"
    return (
        replace(op.expand, name=f"{op.name} expand", inputs=(x, *constants[:2]), output=expanded),
        replace(op.depthwise, name=f"{op.name} depthwise", inputs=(expanded, *constants[2:4]), output=filtered),
        replace(op.project, name=f"{op.name} project", inputs=(filtered, *constants[4:]), output=op.output),
    )


@dataclass(frozen=True, slots=True)
class _Variant:
    """A C row function and those that it is made of."""

    function: str
    header: str
    struct: str
    conv: str
    depthwise: str


_VARIANTS = (
    _Variant(
        "mf_bottleneck_row_s8", "mcufuse/bottleneck.h", "mf_bottleneck", "mf_conv2d_row_s8",
        "mf_depthwise_conv2d_row_s8",
    ),
    _Variant(
        "mf_bottleneck_row_s8_dsp", "mcufuse/bottleneck_dsp.h", "mf_bottleneck_dsp", "mf_conv2d_row_s8_dsp",
        "mf_depthwise_conv2d_row_s8_dsp",
    ),
    _Variant(
        "mf_bottleneck_any_row_s8_dsp", "mcufuse/bottleneck_dsp.h", "mf_bottleneck_any_dsp", "mf_conv2d_row_s8_dsp",
        "mf_depthwise_conv2d_row_s8",
    ),
)  # fmt: skip


def _ways(op: Bottleneck, context: LowerContext, strips: StripPlan) -> tuple[list[Lowered | Refusal], ...]:
    """All ways to run each part on one strip: one row of it for the convolutions, all rows for the depthwise."""
    whole = unfold(op, context.graph)
    expand, depthwise, project = _parts(op)
    in_h, _, in_c = context.hwc(op.inputs[0])
    out_h, _, out_c = context.hwc(op.output)
    middle = whole.tensors[expand.output].hwc[2]
    pad = depthwise.padding
    depthwise = replace(depthwise, padding=Padding(pad.top, 0, pad.bottom, 0))

    def part(operator: Op, from_: tuple[int, int, int], to: tuple[int, int, int]) -> LowerContext:
        changed = [
            replace(whole.tensors[name], shape=(1, *shape))
            for name, shape in ((operator.inputs[0], from_), (operator.output, to))
        ]
        return LowerContext(whole.with_(ops=(operator,), tensors=changed), context.core)

    columns, width = strips.columns, strips.width
    return (
        Conv2DKernel().lower(expand, part(expand, (1, columns, in_c), (1, columns, middle))),
        DepthwiseConv2DKernel().lower(
            depthwise, part(depthwise, (in_h, columns, middle), (out_h, width, middle))
        ),
        Conv2DKernel().lower(project, part(project, (1, width, middle), (1, width, out_c))),
    )  # fmt: skip


def _chosen(ways: Sequence[Lowered | Refusal], function: str) -> Lowered | Refusal:
    """The way of that name, or why there is none."""
    found = next((way for way in ways if way.function == function), None)
    return found or Refusal(function, "; ".join(way.reason for way in ways if isinstance(way, Refusal)) or "not here")


def _prefixed(prefix: str, struct: CStruct) -> tuple[tuple[str, CValue], ...]:
    """The fields as those of a member; constant arrays are named after it."""
    return tuple(
        (f"{prefix}.{name}", replace(value, label=f"{prefix}_{value.label}") if isinstance(value, CArray) else value)
        for name, value in struct.fields
    )


def _combine(
    op: Bottleneck, context: LowerContext, variant: _Variant, strips: StripPlan, parts: tuple[Lowered, ...]
) -> Lowered:
    """One row function of three."""
    expand, depthwise, project = parts
    _, in_w, in_c = context.hwc(op.inputs[0])
    out_h, out_w, out_c = context.hwc(op.output)
    k_h, _, middle = context.graph.tensors[op.inputs[3]].shape
    inner = -(-max(part.scratch_bytes for part in parts) // 8) * 8
    shape: tuple[tuple[str, CValue], ...] = (
        ("in_w", in_w), ("in_c", in_c), ("middle_c", middle), ("out_w", out_w), ("out_c", out_c),
        ("strips", len(strips.firsts)), ("width", strips.width), ("columns", strips.columns),
        ("pad_left", op.depthwise.padding.left), ("inner", inner), ("k_h", k_h), ("stride_w", op.depthwise.stride[1]),
        ("zero", op.depthwise.in_zero),
    )  # fmt: skip
    named = tuple(zip(("expand", "depthwise", "project"), parts, strict=True))
    cfg = (
        *((f"shape.{name}", value) for name, value in shape),
        *(field for name, part in named for field in _prefixed(name, part.cfg)),
    )
    data = tuple(field for name, part in named for field in _prefixed(name, part.data))
    count = len(strips.firsts)
    work = expand.instructions * strips.expanded / strips.columns + depthwise.instructions * count
    work += project.instructions * out_h * count + _ROW_COST * sum(strips.rows) * count
    return Lowered(
        function=variant.function,
        header=variant.header,
        cfg=CStruct(f"{variant.struct}_cfg", cfg),
        data=CStruct(f"{variant.struct}_data", data),
        rows=RowPlan(ticks=out_h, reads=(_window(op, context.graph),)),
        scratch_bytes=inner + (k_h * strips.columns + strips.width) * middle,
        instructions=int(work),
        code_bytes=sum(part.code_bytes for part in parts) + 300,
    )


class BottleneckKernel(Kernel[Bottleneck]):
    """Strips of expanded rows in scratch memory."""

    op = Bottleneck

    def evaluate(self, op: Bottleneck, graph: Graph, args: Sequence[Array]) -> Array:
        """The oracle: the three operators' oracles in sequence."""
        whole = unfold(op, graph)
        expand, depthwise, project = _parts(op)
        x = Conv2DKernel().evaluate(expand, whole, args[:3])
        x = DepthwiseConv2DKernel().evaluate(depthwise, whole, (x, *args[3:5]))
        return Conv2DKernel().evaluate(project, whole, (x, *args[5:7]))

    def lower(self, op: Bottleneck, context: LowerContext) -> list[Lowered | Refusal]:
        """The row functions whose parts the core has."""
        k_h = context.graph.tensors[op.inputs[3]].shape[0]
        refusal = too_large("mf_bottleneck_row_s8", kernel_h=(k_h, MAX_ROWS))
        if refusal:
            return [refusal]
        strips = strip_plan(op, context.graph)
        expand, depthwise, project = _ways(op, context, strips)
        found: list[Lowered | Refusal] = []
        for variant in _VARIANTS:
            parts = (
                _chosen(expand, variant.conv),
                _chosen(depthwise, variant.depthwise),
                _chosen(project, variant.conv),
            )
            made = tuple(part for part in parts if isinstance(part, Lowered))
            if len(made) == len(parts):
                found.append(_combine(op, context, variant, strips, made))
            else:
                reasons = dict.fromkeys(f"{p.function}: {p.reason}" for p in parts if isinstance(p, Refusal))
                found.append(Refusal(variant.function, "; ".join(reasons)))
        return found

    def macs(self, op: Bottleneck, graph: Graph) -> int:
        """What is executed, repeated pixels included; padding of the depthwise counts."""
        strips = strip_plan(op, graph)
        in_c, out_c = graph.tensors[op.inputs[0]].hwc[2], graph.tensors[op.output].hwc[2]
        k_h, k_w, middle = graph.tensors[op.inputs[3]].shape
        return middle * (strips.expanded * in_c + strips.outputs * (k_h * k_w + out_c))

    def recomputed_macs(self, op: Bottleneck, graph: Graph) -> int:
        """MACs beyond those of the three operators on whole maps."""
        whole = unfold(op, graph)
        expand, depthwise, project = _parts(op)
        convs = sum(Conv2DKernel().macs(conv, whole) for conv in (expand, project))
        return self.macs(op, graph) - convs - DepthwiseConv2DKernel().macs(depthwise, whole)
