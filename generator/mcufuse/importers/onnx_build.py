# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The graph under construction: tensors, operators, tables that are emitted when something needs their result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .. import tables
from ..arith import quantize_multiplier
from ..ir import (
    S8_MAX,
    S8_MIN,
    Clamp,
    Dequantize,
    DType,
    Graph,
    Lut,
    Op,
    Quant,
    Requant,
    Reshape,
    Rounding,
    Tensor,
    Transpose,
)  # fmt: skip
from ..passes.layout import renamed
from .limits import Budget, shape_fault
from .onnx_node import Array, Gap
from .onnx_values import Codes, Linear8, QParams, Real, describe

__all__ = ["Builder", "map_axis", "map_shape"]

Shape = tuple[int, ...]
_IDENTITY = np.arange(S8_MIN, S8_MAX + 1, dtype=np.int64)
_MAX_RATIO = float(1 << 16)
_WORK = 1 << 30  # bytes of activations that a model may have in total
_CONSTANTS = 512 << 20  # bytes of constants, counted again for each node that uses them
_REQUANT_BYTES = 256  # what the multiplier of one channel takes on the host


def map_shape(shape: Shape) -> Shape:
    """The shape under which a tensor is stored: ONNX's own if that is a single map, else the same elements as one."""
    if len(shape) <= 4 and (len(shape) < 2 or shape[0] == 1):
        return shape
    dims = tuple(d for d in shape if d != 1)
    if len(dims) > 3:
        dims = (*dims[:2], math.prod(dims[2:]))
    return (1,) * (4 - len(dims)) + dims


def map_axis(shape: Shape, axis: int) -> int:
    """Where an axis of ONNX's shape lies in (height, width, channels); raises `Gap` if it is in none."""
    rank = len(shape)
    if map_shape(shape) != shape or (rank >= 2 and axis == 0):
        raise Gap(f"axis {axis} of the shape {list(shape)} is not one of a single map's height, width or channels")
    return {4: (0, 0, 1, 2), 3: (0, 0, 2), 2: (0, 2), 1: (2,)}[rank][axis]


class Builder:
    """Collects the operators of a graph. Tensor names are unique; equal tables and layouts are emitted once."""

    def __init__(self, rounding: Rounding) -> None:
        self.rounding = rounding
        self.tensors: dict[str, Tensor] = {}
        self.ops: list[Op] = []
        self.notes: list[str] = []
        self.origin: tuple[str, ...] = ()  # the nodes that are being imported
        self._cache: dict[object, str] = {}
        self._moved: dict[str, str] = {}  # a tensor with the elements of another -> that one
        self._names: dict[str, str] = {}
        self._budget = Budget(_WORK)
        self._constants = Budget(_CONSTANTS)

    # -- tensors ---------------------------------------------------------------------------------------------------

    def name(self, wanted: str) -> str:
        """The name, or one like it that is free."""
        result, count = wanted, 0
        while result in self.tensors:
            count += 1
            result = f"{wanted}.{count}"
        return result

    def tensor(self, name: str, shape: Shape, dtype: DType = DType.S8, quant: Quant | None = None) -> str:
        """Adds an activation under a free name like `name`; raises `Gap` for an absurd shape."""
        fault = shape_fault(shape, dtype.bytes)
        if fault:
            raise Gap(f"its result has {fault}")
        if not self._budget.spend(math.prod(shape) * dtype.bytes):
            raise Gap(f"the activations up to here take more than {_WORK:,} bytes")
        free = self.name(name)
        self.tensors[free] = Tensor(free, shape, dtype, quant)
        return free

    def account(self, size: int) -> None:
        """Counts bytes of constants; raises `Gap` once there are too many (nodes may cite one large tensor each)."""
        if not self._constants.spend(size):
            raise Gap(f"the constants up to here take more than {_CONSTANTS:,} bytes")

    def const(self, name: str, data: Array, dtype: DType = DType.S8, quant: Quant | None = None) -> str:
        """Adds a constant under a free name like `name`."""
        free = self.name(name)
        array = np.ascontiguousarray(data, np.dtype(dtype.value))
        self.account(array.nbytes)
        self.tensors[free] = Tensor(free, array.shape, dtype, quant, array)
        return free

    def add(self, op: Op) -> str:
        """Adds an operator whose output tensor exists; returns the output's name."""
        self.ops.append(op if op.origin else replace(op, origin=self.origin))
        return op.output

    def describe(self, tensor: str, quant: QParams | None) -> None:
        """Notes a tensor's quantization for people, unless it is known."""
        name: str | None = tensor
        while quant is not None and name is not None and self.tensors[name].quant is None:
            known = self.tensors[name]
            zero = quant.zero if known.dtype is DType.U8 else quant.stored_zero
            self.tensors[name] = replace(known, quant=Quant((float(quant.scale),), (zero,)))
            name = self._moved.get(name)

    # -- moving bytes ----------------------------------------------------------------------------------------------

    def shaped(self, tensor: str, shape: Shape) -> str:
        """The tensor under another shape of as many elements."""
        old = self.tensors[tensor]
        if old.shape == shape:
            return tensor
        key = ("shape", tensor, shape)
        if key not in self._cache:
            output = self.tensor(f"{tensor}/reshaped", shape, old.dtype, old.quant)
            self._moved[output] = tensor
            self._cache[key] = self.add(Reshape(name=output, inputs=(tensor,), output=output))
        return self._cache[key]

    def transposed(self, tensor: str, perm: Sequence[int], name: str = "") -> str:
        """The tensor with permuted axes; only a new shape if no element changes its place."""
        old = self.tensors[tensor]
        shape = tuple(old.shape[p] for p in perm)
        moving = [p for p in perm if old.shape[p] != 1]
        if moving == sorted(moving):
            return self.shaped(tensor, shape)
        key = ("transpose", tensor, tuple(perm))
        if key not in self._cache:
            output = self.tensor(name or f"{tensor}/transposed", shape, old.dtype, old.quant)
            self._moved[output] = tensor
            self._cache[key] = self.add(Transpose(name=output, inputs=(tensor,), output=output, perm=tuple(perm)))
        return self._cache[key]

    def permuted(self, tensor: str, shape: Shape, perm: Sequence[int]) -> str:
        """Permutes the axes of ONNX's `shape`, of any rank, by merging axes that stay together."""
        groups: list[list[int]] = []
        for p in perm:
            if shape[p] == 1:
                continue
            if groups and all(shape[q] == 1 for q in range(groups[-1][-1] + 1, p)) and p > groups[-1][-1]:
                groups[-1].append(p)
            else:
                groups.append([p])
        if len(groups) > 3:
            raise Gap(
                f"it permutes {len(groups)} separate axes of {list(shape)}; at most 3 are supported",
                "split it into several transpositions",
            )
        ordered = sorted(groups)
        dims = tuple(math.prod(shape[p] for p in g) for g in ordered)
        lead = 4 - len(dims)
        source = self.shaped(tensor, (1,) * lead + dims)
        order = (*range(lead), *(lead + ordered.index(g) for g in groups))
        return self.transposed(source, order)

    def channels_last(self, tensor: str, shape: Shape) -> str:
        """ONNX's [1, C, H, W] or [1, C, L] as [1, H, W, C] or [1, L, 1, C]."""
        if len(shape) == 3:
            last = self.transposed(self.shaped(tensor, shape), (0, 2, 1))
            return self.shaped(last, (1, shape[2], 1, shape[1]))
        return self.transposed(self.shaped(tensor, shape), (0, 2, 3, 1))

    def channels_first(self, tensor: str, shape: Shape, name: str) -> str:
        """The reverse of `channels_last`; `shape` is ONNX's shape of the result."""
        if len(shape) == 3:
            return self.transposed(self.shaped(tensor, (1, shape[2], shape[1])), (0, 2, 1), name)
        return self.transposed(tensor, (0, 3, 1, 2), name)

    # -- quantized values ------------------------------------------------------------------------------------------

    def codes(self, tensor: str, shape: Shape, unsigned: bool) -> Codes:
        """The value of an int8 tensor as it is."""
        return Codes(tensor, _IDENTITY, shape, unsigned, name=tensor)

    def signed(self, root: str) -> str:
        """An int8 tensor with the same values in the same order as a uint8 one."""
        old = self.tensors[root]
        if old.dtype is DType.S8:
            return root
        recoded = self._lut(root, tables.recode(DType.U8, DType.S8), DType.S8, "recode", f"{root}/s8", ())
        self._moved[recoded] = root
        return recoded

    def known(self, codes: Codes) -> Codes:
        """The same value without a table if its tensor is there already."""
        done = self._cache.get(("lut", codes.root, tuple(codes.stored.tolist()), DType.S8))
        return replace(self.codes(done, codes.shape, codes.unsigned), quant=codes.quant) if done else codes

    def materialize(self, codes: Codes) -> str:
        """The int8 tensor that holds the value, adding its table if need be."""
        source = self.tensors[codes.root]
        if source.dtype is DType.S8 and np.array_equal(codes.stored, _IDENTITY):
            tensor = codes.root
        else:
            table = tuple(codes.stored.tolist())
            tensor = self._lut(codes.root, table, DType.S8, codes.label, codes.name or codes.root, codes.origin)
        self.describe(tensor, codes.quant)
        return tensor

    def unsigned_output(self, codes: Codes, name: str) -> str:
        """A uint8 tensor with the value, for the network's border."""
        table = tuple(codes.visible.tolist())
        tensor = self._lut(codes.root, table, DType.U8, codes.label or "recode", name, codes.origin)
        self.describe(tensor, codes.quant)
        return tensor

    def _lut(
        self, root: str, table: tuple[int, ...], dtype: DType, label: str, name: str, origin: tuple[str, ...]
    ) -> str:
        key = ("lut", root, table, dtype)
        if key not in self._cache:
            output = self.tensor(name, self.tensors[root].shape, dtype)
            op = Lut(
                name=output, inputs=(root,), output=output, table=table, label=label or "requantize", origin=origin
            )
            self._cache[key] = self.add(op)
        return self._cache[key]

    def linear(self, real: Real) -> Linear8:
        """The value as an int8 tensor whose real values are exactly scale * (q - zero); raises `Gap` if it has none."""
        quant = real.quant
        codes = real.codes
        if real.functions:
            stored = quant.table(real.values)
            exact = (stored - quant.stored_zero).astype(np.float32) * quant.scale
            if not np.array_equal(exact, real.values):
                raise Gap(
                    f"one operand is {describe(real)}",
                    "quantize that too: put QuantizeLinear, DequantizeLinear behind it",
                )
            codes = replace(codes, stored=stored, label=real.label, name="", origin=real.origin)
        tensor = self.materialize(codes)
        self.describe(tensor, quant)
        return Linear8(tensor, quant.scale, quant.stored_zero)

    # -- integers for scales ---------------------------------------------------------------------------------------

    def requant(self, in_scale: float, weight_scales: Array, out_scale: float) -> Requant:
        """in * weight / out as multipliers: in float32, as ONNX Runtime does, or in double, as TFLite does."""
        if self.rounding is Rounding.ONNX:
            with np.errstate(all="ignore"):
                product = np.float32(in_scale) * np.asarray(weight_scales, np.float32)
                ratios = (product / np.float32(out_scale)).astype(np.float64)
        else:
            ratios = np.float64(in_scale) * np.asarray(weight_scales, np.float64) / np.float64(out_scale)
        if not np.all((ratios >= 0) & (ratios < _MAX_RATIO)):  # also false for NaN
            raise Gap(f"input scale * weight scale / output scale is {float(np.max(ratios)):g}, which is absurd")
        self.account(ratios.size * _REQUANT_BYTES)
        flat = ratios.ravel().tolist()
        pairs = [quantize_multiplier(r) for r in (flat[:1] if len(set(flat)) == 1 else flat)]
        return Requant(tuple(m for m, _ in pairs), tuple(s for _, s in pairs), self.rounding)

    def clamp(self, lo: float, hi: float, quant: QParams) -> Clamp:
        """The int8 limits that real limits become."""
        return Clamp(
            S8_MIN if lo == -math.inf else quant.code(lo),
            S8_MAX if hi == math.inf else quant.code(hi),
        )

    def dequantize(self, value: Real, name: str) -> str:
        """A float32 output of the network."""
        linear = self.linear(value)
        source = self.shaped(linear.tensor, map_shape(value.shape))
        output = self.tensor(name, self.tensors[source].shape, DType.F32)
        return self.add(
            Dequantize(name=output, inputs=(source,), output=output, scale=float(linear.scale), zero=linear.zero)
        )

    def output(self, tensor: str, shape: Shape, name: str, taken: Sequence[str]) -> str:
        """The tensor under a name and a shape of its own, for an output of the network."""
        if tensor in taken or self.tensors[tensor].shape != shape or self.tensors[tensor].data is not None:
            known = self.tensors[tensor]
            output = self.tensor(name, shape, known.dtype, known.quant)
            tensor = self.add(Reshape(name=output, inputs=(tensor,), output=output))
        self._names[tensor] = name
        return tensor

    def graph(self, name: str, inputs: Sequence[str], outputs: Sequence[str]) -> Graph:
        """The finished graph without operators that compute nothing which is used."""
        needed = set(outputs)
        kept: list[Op] = []
        for op in reversed(self.ops):
            if op.output in needed:
                needed.update(op.inputs)
                kept.append(op)
        tensors = {n: t for n, t in self.tensors.items() if n in needed or n in inputs}
        graph = Graph(name, tensors, tuple(reversed(kept)), tuple(inputs), tuple(outputs), tuple(self.notes))
        return renamed(graph, self._names)
