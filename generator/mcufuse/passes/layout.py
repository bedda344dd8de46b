# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Pushes transpositions and reshapes through the graph until they cancel or reach its border.

One walk in execution order. Instead of moving bytes, the walk remembers for each tensor of the old graph a `_View`:
which tensor of the new graph holds its elements, and in what arrangement. An operator that does not care for the
order of elements works on the tensor as it lies; one that does gets its operand realized: by nothing, by a Reshape,
or by one Transpose.

    1  Reshape and Transpose emit nothing
    2  element-wise operators keep their operand's arrangement; constants are rearranged at compile time
    3  two operands in different arrangements: the cheaper one is realized in the other's
    4  Concat, Slice and Pad with permuted axes; Softmax wherever channels stay last
    5  a fully connected operator reads any arrangement: its weights' columns are permuted
    6  all other operators, and the outputs, get the layout they ask for

Every element has the same value before and after; only its place changes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..ir import (
    Add,
    Concat,
    Dequantize,
    DType,
    FullyConnected,
    Graph,
    Lut,
    Mul,
    Op,
    Pad,
    Padding,
    PRelu,
    Quantize,
    Reshape,
    Slice,
    Softmax,
    Tensor,
    Transpose,
)  # fmt: skip
from .arrangement import Arrangement, Array

__all__ = ["push_layout", "renamed"]

Shape = tuple[int, ...]
Axes = tuple[int, int, int]
_SAME = Arrangement()
_STRAIGHT: Axes = (0, 1, 2)
_WALKS = 4
_UNARY = (Lut, Quantize, Dequantize)
_BINARY = (Add, Mul, PRelu)


def push_layout(graph: Graph) -> Graph:
    """The same network with as few transpositions as the walk above leaves; notes those that stay."""
    moved = _moved_bytes(graph)
    if not moved:
        return graph
    for _ in range(_WALKS):  # what one walk realized, the next may cancel
        candidate = _Walk(graph).run()
        better = _moved_bytes(candidate)
        if (better, len(candidate.ops)) >= (moved, len(graph.ops)):
            break
        graph, moved = candidate, better
    return graph.with_(notes=[note for note in _remaining(graph) if note not in graph.notes])


def _moved_bytes(graph: Graph) -> int:
    return sum(graph.tensors[op.output].bytes for op in graph.ops if isinstance(op, Transpose))


def renamed(graph: Graph, names: Mapping[str, str]) -> Graph:
    """The graph with some tensors, and the operators that compute them, under other names; clashes get a number."""
    wanted = {old: new for old, new in names.items() if old != new and old in graph.tensors}
    taken = set(graph.tensors) | set(wanted.values())
    for clash in [n for n in wanted.values() if n in graph.tensors and n not in wanted]:
        free = next(f"{clash}.{i}" for i in itertools.count(1) if f"{clash}.{i}" not in taken)
        wanted[clash] = free
        taken.add(free)

    def new(name: str) -> str:
        return wanted.get(name, name)

    ops = (replace(o, name=new(o.output), inputs=tuple(map(new, o.inputs)), output=new(o.output)) for o in graph.ops)
    return Graph(
        graph.name,
        {new(n): replace(t, name=new(n)) for n, t in graph.tensors.items()},
        tuple(ops),
        tuple(map(new, graph.inputs)),
        tuple(map(new, graph.outputs)),
        graph.notes,
    )


@dataclass(frozen=True, slots=True)
class _View:
    """The elements of an old tensor: those of `tensor` in the new graph, in this arrangement."""

    tensor: str
    arrangement: Arrangement = _SAME


def _hwc(shape: Shape) -> Axes:
    height, width, channels = Tensor("", shape, DType.S8).hwc
    return height, width, channels


class _Walk:
    """The state of one walk: the new graph so far, and a view of each old tensor."""

    def __init__(self, graph: Graph) -> None:
        self.old = graph
        self.tensors: dict[str, Tensor] = {n: t for n, t in graph.tensors.items() if t.data is not None}
        self.tensors.update({n: graph.tensors[n] for n in graph.inputs})
        self.names = set(graph.tensors)
        self.ops: list[Op] = []
        self.views: dict[str, _View] = {name: _View(name) for name in graph.inputs}
        self.realized: dict[tuple[str, Arrangement, Shape], str] = {}

    def run(self) -> Graph:
        """Walks all operators; returns the new graph."""
        for op in self.old.ops:
            self._visit(op)
        outputs: list[str] = []
        for name in self.old.outputs:
            tensor = self._realize(self.views[name], self.old.tensors[name].shape)
            if tensor in outputs or tensor in self.old.inputs:
                output = self._derive(tensor, self.tensors[tensor].shape, "output")
                self.ops.append(Reshape(name=output, inputs=(tensor,), output=output, origin=self._origin(tensor)))
                tensor = output
            outputs.append(tensor)
        graph = replace(self.old, tensors=self.tensors, ops=tuple(self.ops), outputs=tuple(outputs)).with_()
        graph = renamed(graph, dict(zip(outputs, self.old.outputs, strict=True)))
        plain = {n: n.removesuffix("/nhwc") for n in graph.tensors if n.endswith("/nhwc")}
        return renamed(graph, {n: p for n, p in plain.items() if p not in graph.tensors})

    # -- building --------------------------------------------------------------------------------------------------

    def _name(self, wanted: str) -> str:
        if wanted not in self.names:
            self.names.add(wanted)
            return wanted
        free = next(f"{wanted}.{i}" for i in itertools.count(1) if f"{wanted}.{i}" not in self.names)
        self.names.add(free)
        return free

    def _derive(self, source: str, shape: Shape, suffix: str) -> str:
        known = self.tensors[source]
        name = self._name(f"{source.removesuffix('/nhwc')}/{suffix}")
        self.tensors[name] = replace(known, name=name, shape=shape, data=None)
        return name

    def _shaped(self, tensor: str, shape: Shape) -> str:
        if self.tensors[tensor].shape == shape:
            return tensor
        key = (tensor, Arrangement(), shape)
        if key not in self.realized:
            output = self._derive(tensor, shape, "reshaped")
            self.ops.append(Reshape(name=output, inputs=(tensor,), output=output, origin=self._origin(tensor)))
            self.realized[key] = output
        return self.realized[key]

    def _origin(self, tensor: str) -> tuple[str, ...]:
        return next((op.origin for op in reversed(self.ops) if op.output == tensor), ())

    def _realize(self, view: _View, shape: Shape) -> str:
        """A tensor of `shape` with the view's elements in the order of the old tensor."""
        if view.arrangement.identity:
            return self._shaped(view.tensor, shape)
        key = (view.tensor, view.arrangement, shape)
        if key not in self.realized:
            source, perm = self._transposition(view)
            permuted = tuple(self.tensors[source].shape[p] for p in perm)
            output = self._derive(view.tensor, permuted, "transposed")
            op = Transpose(name=output, inputs=(source,), output=output, perm=perm, origin=self._origin(view.tensor))
            self.ops.append(op)
            self.realized[key] = self._shaped(output, shape)
        return self.realized[key]

    def _transposition(self, view: _View) -> tuple[str, tuple[int, ...]]:
        """The tensor to permute and how: as it is if its own axes allow, else reshaped to the factors."""
        known = self.tensors[view.tensor].shape
        if len(known) == 4:
            for axes in itertools.permutations((1, 2, 3)):
                if Arrangement.of(known, (0, *axes)) == view.arrangement:
                    return view.tensor, (0, *axes)
        lead = 4 - len(view.arrangement.sizes)
        source = self._shaped(view.tensor, (1,) * lead + view.arrangement.sizes)
        return source, (*range(lead), *(lead + i for i in view.arrangement.order))

    def _emit(self, op: Op, inputs: Sequence[str], shape: Shape, arrangement: Arrangement) -> None:
        """Adds `op` on new operands; its result has `shape` and is the old output in this arrangement."""
        self.tensors[op.output] = replace(self.old.tensors[op.output], shape=shape)
        self.ops.append(replace(op, inputs=tuple(inputs)))
        self.views[op.output] = _View(op.output, arrangement)

    # -- operators -------------------------------------------------------------------------------------------------

    def _visit(self, op: Op) -> None:
        if isinstance(op, Reshape):
            self.views[op.output] = self.views[op.inputs[0]]
        elif isinstance(op, Transpose):
            self._transpose(op)
        elif isinstance(op, _UNARY):
            view = self.views[op.inputs[0]]
            self._emit(op, [view.tensor], self.tensors[view.tensor].shape, view.arrangement)
        elif isinstance(op, _BINARY):
            self._binary(op)
        elif isinstance(op, Concat | Slice | Pad):
            self._along_axes(op)
        elif isinstance(op, Softmax):
            self._softmax(op)
        elif isinstance(op, FullyConnected) and not self.views[op.inputs[0]].arrangement.identity:
            self._fully_connected(op)
        else:
            self._as_asked(op)

    def _operand(self, name: str) -> str:
        """An operand in the layout of the old graph."""
        if self.old.is_const(name):
            return name
        return self._realize(self.views[name], self.old.tensors[name].shape)

    def _as_asked(self, op: Op) -> None:
        self._emit(op, [self._operand(n) for n in op.inputs], self.old.tensors[op.output].shape, Arrangement())

    def _transpose(self, op: Transpose) -> None:
        view = self.views[op.inputs[0]]
        after = view.arrangement.then(Arrangement.of(self.old.tensors[op.inputs[0]].shape, op.perm))
        if after is None or len(after.sizes) > 3:
            self._as_asked(op)
        else:
            self.views[op.output] = _View(view.tensor, after)

    def _binary(self, op: Op) -> None:
        lhs, rhs = op.inputs[0], op.inputs[1]
        shape = self.old.tensors[op.output].shape
        view = self.views[lhs]
        if self.old.is_const(rhs):
            if view.arrangement.identity and self.tensors[view.tensor].shape == shape:
                self._as_asked(op)
                return
            constant = self._constant(op, rhs, shape, view)
            self._emit(op, [view.tensor, constant], self.tensors[view.tensor].shape, view.arrangement)
            return
        if self.old.tensors[rhs].elements != self.old.tensors[lhs].elements:  # a gate over a map
            self._as_asked(op)
            return
        target = self._common([lhs, rhs], [self.views[lhs].arrangement, self.views[rhs].arrangement])
        leader = next((self.views[n] for n in (lhs, rhs) if self.views[n].arrangement == target), None)
        stored = self.tensors[leader.tensor].shape if leader and not target.identity else shape
        operands = [self._arranged(n, target, stored) for n in (lhs, rhs)]
        self._emit(op, operands, stored, target)

    def _constant(self, op: Op, name: str, shape: Shape, view: _View) -> str:
        """A broadcast constant rearranged to lie as the view's tensor does, without axes along which it repeats."""
        known = self.old.tensors[name]
        assert known.data is not None
        full = np.broadcast_to(known.data, shape)
        stored = self.tensors[view.tensor].shape
        data: Array = view.arrangement.inverse().apply(full).reshape(stored)
        for axis in range(data.ndim):
            first = data.take([0], axis)
            if np.array_equal(np.broadcast_to(first, data.shape), data):
                data = first
        free = self._name(f"{op.output}/constant")
        self.tensors[free] = replace(known, name=free, shape=data.shape, data=np.ascontiguousarray(data))
        return free

    def _cost(self, name: str, target: Arrangement) -> float:
        """Bytes to move so that an old tensor lies in the arrangement `target`; infinite if it cannot."""
        change = self.views[name].arrangement.then(target.inverse())
        if change is None or len(change.sizes) > 3:
            return math.inf
        return 0 if change.identity else self.old.tensors[name].bytes

    def _common(self, names: Sequence[str], candidates: Sequence[Arrangement]) -> Arrangement:
        """The arrangement in which all operands can be had with the fewest bytes moved; ties keep a changed one."""
        choices = list(dict.fromkeys([*(c for c in candidates if not c.identity), Arrangement()]))
        return min(choices, key=lambda c: sum(self._cost(n, c) for n in names))

    def _arranged(self, name: str, target: Arrangement, shape: Shape) -> str:
        """A tensor of `shape` that is the old tensor in the arrangement `target`."""
        view = self.views[name]
        change = view.arrangement.then(target.inverse())
        assert change is not None
        return self._realize(_View(view.tensor, change), shape)

    def _along_axes(self, op: Concat | Slice | Pad) -> None:
        candidates = [self._axes(n) for n in op.inputs]
        out = self.old.tensors[op.output].shape
        known = [axes for axes in candidates if axes is not None]
        best = min(
            dict.fromkeys([*(a for a in known if a != _STRAIGHT), _STRAIGHT]),
            key=lambda axes: sum(self._cost(n, self._permuted(n, axes)) for n in op.inputs),
        )
        if best == _STRAIGHT:
            self._as_asked(op)
            return
        operands = [
            self._arranged(n, self._permuted(n, best), (1, *_stored(_hwc(self.old.tensors[n].shape), best)))
            for n in op.inputs
        ]
        stored = (1, *_stored(_hwc(out), best))
        self._emit(_with_axes(op, best), operands, stored, self._permuted(op.output, best))

    def _permuted(self, name: str, axes: Axes) -> Arrangement:
        """The arrangement of an old tensor whose (h, w, c) are stored as axes[0], axes[1], axes[2]."""
        return Arrangement.of(_stored(_hwc(self.old.tensors[name].shape), axes), axes)

    def _axes(self, name: str) -> Axes | None:
        """Where the old tensor's height, width and channels lie in the tensor that holds it; None: nowhere as such."""
        view = self.views[name]
        logical, held = _hwc(self.old.tensors[name].shape), _hwc(self.tensors[view.tensor].shape)
        for a, b, c in itertools.permutations(_STRAIGHT):
            if (held[a], held[b], held[c]) == logical and Arrangement.of(held, (a, b, c)) == view.arrangement:
                return a, b, c
        return None

    def _softmax(self, op: Softmax) -> None:
        axes = self._axes(op.inputs[0])
        view = self.views[op.inputs[0]]
        if axes is None or axes[2] != 2 or view.arrangement.identity:
            self._as_asked(op)
        else:
            self._emit(op, [view.tensor], self.tensors[view.tensor].shape, view.arrangement)

    def _fully_connected(self, op: FullyConnected) -> None:
        view = self.views[op.inputs[0]]
        weights = self.old.tensors[op.inputs[1]]
        assert weights.data is not None
        taken = view.arrangement.apply(np.arange(weights.shape[1]))  # operand k of the old is element taken[k]
        data = np.empty_like(weights.data)
        data[:, taken] = weights.data
        name = self._name(f"{weights.name}/permuted")
        self.tensors[name] = replace(weights, name=name, data=data)
        inputs = [view.tensor, name, *op.inputs[2:]]
        self._emit(op, inputs, self.old.tensors[op.output].shape, Arrangement())


def _stored(logical: Axes, axes: Axes) -> Axes:
    """(h, w, c) of the stored tensor for a logical one: stored[axes[i]] = logical[i]."""
    stored = [0, 0, 0]
    for i, axis in enumerate(axes):
        stored[axis] = logical[i]
    return stored[0], stored[1], stored[2]


def _with_axes(op: Concat | Slice | Pad, axes: Axes) -> Op:
    """The operator on a tensor whose height, width and channels are stored as `axes`."""
    if isinstance(op, Concat):
        return replace(op, axis=axes[op.axis])
    if isinstance(op, Slice):
        return replace(op, begin=_stored(op.begin, axes), size=_stored(op.size, axes), stride=_stored(op.stride, axes))
    p = op.padding
    before, after = _stored((p.top, p.left, op.channels[0]), axes), _stored((p.bottom, p.right, op.channels[1]), axes)
    return replace(op, padding=Padding(before[0], before[1], after[0], after[1]), channels=(before[2], after[2]))


def _remaining(graph: Graph) -> list[str]:
    """A note for each transposition that is left."""
    fed = set(graph.inputs)
    for op in graph.ops:
        if isinstance(op, (*_UNARY, Reshape)) and op.inputs[0] in fed:
            fed.add(op.output)
    notes = []
    for op in graph.ops:
        if isinstance(op, Transpose):
            source = graph.tensors[op.inputs[0]]
            shapes = f"{list(source.shape)} to {list(graph.tensors[op.output].shape)}"
            if op.inputs[0] in fed:
                way = "the network's input has this layout; a network that is fed channels last saves it"
            else:
                way = "an operator or output asks for this layout"
            notes.append(f"transposes {shapes} ({source.bytes:,} bytes): {way}")
    return notes
