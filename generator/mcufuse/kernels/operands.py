# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""How the operands of element-wise kernels are broadcast: `struct mf_operand_cfg` of mcufuse/operand.h.

A row of W pixels and C channels is walked as `groups` x `elements`: 1 x W*C if no operand mixes broadcast and full
axes within a row, else W x C. Constants are stored without the axes along which they repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..ir import Graph
from .base import Access, Array, CArray, CValue, Indexed, Window

__all__ = ["Layout", "Operand", "lay_out"]


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand. `varies` says along which of (height, width, channels) its elements differ."""

    varies: tuple[bool, bool, bool]
    constant: Array | None  # int8, in the order (height, width, channels), repeated axes dropped
    group: int
    step: int
    row: int

    def cfg_fields(self, name: str) -> tuple[tuple[str, CValue], ...]:
        """Initializers of the member `name`."""
        return (
            (f"{name}.constant", self.constant is not None),
            (f"{name}.row", self.row),
            (f"{name}.group", self.group),
            (f"{name}.step", self.step),
        )

    def data_field(self, name: str) -> tuple[str, CValue]:
        """The pointer to the constant; NULL for an activation."""
        return name, None if self.constant is None else CArray("int8_t", self.constant, name)


@dataclass(frozen=True, slots=True)
class Layout:
    """All operands of an element-wise operator."""

    groups: int
    elements: int
    operands: tuple[Operand, ...]
    reads: tuple[Access, ...]  # of the activations among them
    in_place: tuple[bool, ...]

    def cfg_fields(self) -> tuple[tuple[str, CValue], ...]:
        """Initializers of the row's shape."""
        return ("groups", self.groups), ("elements", self.elements)


def lay_out(graph: Graph, names: Sequence[str], output: str) -> Layout:
    """The layout of the operands `names` broadcast to `output`; raises ValueError if one of them does not fit."""
    height, width, channels = graph.tensors[output].hwc
    varies = [_varies(graph, name, output) for name in names]
    mixed = width > 1 and channels > 1 and any(v[1] != v[2] for v in varies)
    operands, reads, in_place = [], [], []
    for name, (h, w, c) in zip(names, varies, strict=True):
        row = (width if w else 1) * (channels if c else 1)
        if mixed:
            group, step = (channels if w and c else int(w)), int(c)
        else:
            group, step = 0, int(w or c)
        constant = None
        if graph.is_const(name):
            full = np.broadcast_to(graph.const(name), graph.tensors[output].shape).reshape(height, width, channels)
            constant = np.ascontiguousarray(full[: None if h else 1, : None if w else 1, : None if c else 1], np.int8)
        else:
            reads.append(Window() if h or height == 1 else Indexed((0,) * height))
            in_place.append(graph.tensors[name].hwc == (height, width, channels))
        operands.append(Operand((h, w, c), constant, group, step, row if h and constant is not None else 0))
    groups, elements = (width, channels) if mixed else (1, width * channels)
    return Layout(groups, elements, tuple(operands), tuple(reads), tuple(in_place))


def _varies(graph: Graph, name: str, output: str) -> tuple[bool, bool, bool]:
    full = graph.tensors[output].hwc
    if graph.is_const(name):
        data = np.broadcast_to(graph.const(name), graph.tensors[output].shape).reshape(full)
        h, w, c = (size > 1 and bool((np.diff(data, axis=axis) != 0).any()) for axis, size in enumerate(full))
        return h, w, c
    own = graph.tensors[name].hwc
    if any(mine not in (1, size) for mine, size in zip(own, full, strict=True)):
        raise ValueError(f"{name}: shape {list(own)} cannot be broadcast to {list(full)}")
    h, w, c = (mine == size and size > 1 for mine, size in zip(own, full, strict=True))
    return h, w, c
