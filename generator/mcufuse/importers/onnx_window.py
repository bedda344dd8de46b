# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Kernel, stride, dilation and padding of convolutions and pools."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..ir import Padding
from .onnx_node import Gap, Node

__all__ = ["Window", "read_window"]

_MAX_KERNEL = 1 << 16
_MAX_STEP = 1 << 15


@dataclass(frozen=True, slots=True)
class Window:
    """Sizes are (height, width); one-dimensional windows have width 1."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: Padding
    overhang: bool = False  # ceil_mode made the last window reach beyond the padding


def _two(node: Node, name: str, rank: int) -> tuple[int, ...]:
    values = node.ints(name) or (1,) * rank
    if len(values) != rank or not all(1 <= v <= _MAX_STEP for v in values):
        raise Gap(f"{name} {list(values)} do not fit {rank} dimensions")
    return values


def read_window(node: Node, size: Sequence[int], kernel: Sequence[int]) -> tuple[Window, tuple[int, ...]]:
    """The window of a node over a map of `size`, and the size of its result."""
    rank = len(size)
    if len(kernel) != rank or not all(k >= 1 for k in kernel) or math.prod(kernel) > _MAX_KERNEL:
        raise Gap(f"a kernel of {list(kernel)} over {list(size)}")
    stride, dilation = _two(node, "strides", rank), _two(node, "dilations", rank)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    before, after = _pads(node, size, stride, spans)
    out, overhang = [], False
    for i, n in enumerate(size):
        room = n + before[i] + after[i] - spans[i]
        if room < 0:
            raise Gap(f"its window spans {spans[i]} elements, but the padded map has {room + spans[i]}")
        steps = room // stride[i]
        if node.integer("ceil_mode", 0) and room % stride[i] and (steps + 1) * stride[i] < n + before[i]:
            steps += 1
            after[i] += steps * stride[i] - room
            overhang = True
        out.append(steps + 1)
    pad = [*before, 0][:2] + [*after, 0][:2]
    one = (1,) * (2 - rank)
    window = Window(
        kernel=_pair((*kernel, *one)),
        stride=_pair((*stride, *one)),
        dilation=_pair((*dilation, *one)),
        padding=Padding(*pad),
        overhang=overhang,
    )
    return window, tuple(out)


def _pair(values: Sequence[int]) -> tuple[int, int]:
    return int(values[0]), int(values[1])


def _pads(node: Node, size: Sequence[int], stride: Sequence[int], spans: Sequence[int]) -> tuple[list[int], list[int]]:
    """Elements of padding before and after each dimension."""
    mode = node.text("auto_pad", "NOTSET")
    rank = len(size)
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        before, after = [], []
        for n, s, span in zip(size, stride, spans, strict=True):
            total = max((math.ceil(n / s) - 1) * s + span - n, 0)
            small, large = total // 2, total - total // 2
            before.append(small if mode == "SAME_UPPER" else large)
            after.append(large if mode == "SAME_UPPER" else small)
        return before, after
    if mode == "VALID":
        return [0] * rank, [0] * rank
    if mode != "NOTSET":
        raise Gap(f"auto_pad {mode} is unknown")
    pads = node.ints("pads") or (0,) * (2 * rank)
    if len(pads) != 2 * rank or not all(0 <= p <= _MAX_STEP for p in pads):
        raise Gap(f"pads {list(pads)} do not fit {rank} dimensions")
    return list(pads[:rank]), list(pads[rank:])
