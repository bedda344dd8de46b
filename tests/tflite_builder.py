# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Builds .tflite files from Python, tensor by tensor and operator by operator, for the tests of the importer.

>>> m = TfliteBuilder()
>>> x = m.tensor((1, 4, 4, 2), scale=0.1, zero=3)
>>> y = m.tensor((1, 4, 4, 2), scale=0.1, zero=3)
>>> m.op("RELU", [x], [y])
>>> data = m.build([x], [y])
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt

__all__ = ["TfliteBuilder"]

_DTYPES = {
    "INT8": np.int8, "UINT8": np.uint8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64,
    "FLOAT32": np.float32, "FLOAT16": np.float16, "BOOL": np.bool_,
}  # fmt: skip


def _module(name: str) -> Any:
    return importlib.import_module(f"tflite.{name}")


def _number(enum: str, member: str) -> int:
    return int(getattr(getattr(_module(enum), enum), member))


@dataclass
class _Tensor:
    shape: tuple[int, ...]
    dtype: str
    name: str
    data: bytes | None
    scales: list[float] | None
    zeros: list[int] | None
    axis: int
    signature: tuple[int, ...] | None
    variable: bool
    sparse: bool


@dataclass
class _Op:
    code: int
    custom: str
    inputs: list[int]
    outputs: list[int]
    options: tuple[str, dict[str, Any]] | None


@dataclass
class TfliteBuilder:
    """Collects tensors and operators; `build` writes the file. `subgraphs` repeats the graph as further ones."""

    version: int = 3
    subgraphs: int = 1
    _tensors: list[_Tensor] = field(default_factory=list)
    _ops: list[_Op] = field(default_factory=list)

    def tensor(
        self,
        shape: Sequence[int],
        dtype: str = "INT8",
        *,
        scale: float | Sequence[float] | None = None,
        zero: int | Sequence[int] | None = None,
        data: npt.ArrayLike | bytes | None = None,
        name: str | None = None,
        axis: int = 0,
        signature: Sequence[int] | None = None,
        variable: bool = False,
        sparse: bool = False,
    ) -> int:
        """Adds a tensor, constant if `data` is given; its number. `scale` None: no quantization."""
        raw = data if data is None or isinstance(data, bytes) else np.asarray(data, _DTYPES[dtype]).tobytes()
        scales = None if scale is None else [float(s) for s in np.ravel(np.asarray(scale, np.float64))]
        zeros = [0] * len(scales) if scales is not None and zero is None else None
        if zero is not None:
            zeros = [int(z) for z in np.ravel(zero)]
        number = len(self._tensors)
        signed = None if signature is None else tuple(signature)
        label = f"t{number}" if name is None else name
        self._tensors.append(
            _Tensor(tuple(shape), dtype, label, raw, scales, zeros, axis, signed, variable, sparse)
        )  # fmt: skip
        return number

    def ints(self, values: Sequence[int], shape: Sequence[int] | None = None, dtype: str = "INT32") -> int:
        """A constant int32 vector (or another shape)."""
        return self.tensor((len(values),) if shape is None else shape, dtype, data=np.asarray(values))

    def op(
        self,
        kind: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        options: str = "",
        custom: str = "",
        **fields: Any,
    ) -> None:
        """Adds an operator; `options` names its options table ("Conv2DOptions"), `fields` its fields in camel case."""
        code = _number("BuiltinOperator", kind) if not kind.isdigit() else int(kind)
        chosen = (options, fields) if options else None
        self._ops.append(_Op(code, custom, list(inputs), list(outputs), chosen))

    def build(self, inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
        """The file's bytes."""
        return _Writer(self).write(list(inputs), list(outputs))


class _Writer:
    """One file under construction: children are written before their parents, as FlatBuffers demands."""

    def __init__(self, model: TfliteBuilder) -> None:
        self.model, self.fb = model, flatbuffers.Builder(1024)

    def write(self, inputs: list[int], outputs: list[int]) -> bytes:
        tensors, ops = self.model._tensors, self.model._ops
        buffers = [self._table("Buffer")]
        numbers = []
        for tensor in tensors:
            numbers.append(0 if tensor.data is None else len(buffers))
            if tensor.data is not None:
                buffers.append(self._table("Buffer", Data=self._bytes(tensor.data)))
        pairs = list(dict.fromkeys((op.code, op.custom) for op in ops))
        codes = [self._code(*pair) for pair in pairs]
        written = [self._tensor(t, n) for t, n in zip(tensors, numbers, strict=True)]
        written_ops = [self._op(op, pairs.index((op.code, op.custom))) for op in ops]
        subgraph = self._table(
            "SubGraph",
            Tensors=self._refs(written),
            Inputs=self._numbers(inputs, "Int32"),
            Outputs=self._numbers(outputs, "Int32"),
            Operators=self._refs(written_ops),
            Name=self.fb.CreateString("main"),
        )
        root = self._table(
            "Model",
            Version=self.model.version,
            OperatorCodes=self._refs(codes),
            Subgraphs=self._refs([subgraph] * self.model.subgraphs),
            Buffers=self._refs(buffers),
        )
        self.fb.Finish(root, b"TFL3")
        return bytes(self.fb.Output())

    def _table(self, kind: str, **fields: Any) -> int:
        """A table of the schema; None fields are left out."""
        module = _module(kind)
        getattr(module, f"{kind}Start")(self.fb)
        for name, value in fields.items():
            if value is not None:
                getattr(module, f"{kind}Add{name}")(self.fb, value)
        return int(getattr(module, f"{kind}End")(self.fb))

    def _bytes(self, data: bytes) -> int:
        self.fb.StartVector(1, len(data), 16)
        self.fb.head = self.fb.head - len(data)
        self.fb.Bytes[self.fb.head : self.fb.head + len(data)] = data
        return int(self.fb.EndVector())

    def _numbers(self, values: Sequence[float], kind: str) -> int:
        bits = int(re.sub(r"\D", "", kind))
        prepend: Callable[[Any], None] = getattr(self.fb, f"Prepend{kind}")
        self.fb.StartVector(bits // 8, len(values), bits // 8)
        for value in reversed(list(values)):
            prepend(value)
        return int(self.fb.EndVector())

    def _refs(self, places: Sequence[int]) -> int:
        self.fb.StartVector(4, len(places), 4)
        for place in reversed(places):
            self.fb.PrependUOffsetTRelative(place)
        return int(self.fb.EndVector())

    def _code(self, code: int, custom: str) -> int:
        name = self.fb.CreateString(custom) if custom else None
        return self._table(
            "OperatorCode", DeprecatedBuiltinCode=min(code, 127), BuiltinCode=code, CustomCode=name, Version=1
        )

    def _tensor(self, tensor: _Tensor, buffer: int) -> int:
        quant = None
        if tensor.scales is not None:
            zeros = None if tensor.zeros is None else self._numbers(tensor.zeros, "Int64")
            scales = self._numbers(tensor.scales, "Float32")
            quant = self._table("QuantizationParameters", Scale=scales, ZeroPoint=zeros, QuantizedDimension=tensor.axis)
        sparsity = self._table("SparsityParameters") if tensor.sparse else None
        name = self.fb.CreateString(tensor.name)
        shape = self._numbers(tensor.shape, "Int32")
        signature = None if tensor.signature is None else self._numbers(tensor.signature, "Int32")
        return self._table(
            "Tensor",
            Shape=shape,
            Type=_number("TensorType", tensor.dtype),
            Buffer=buffer,
            Name=name,
            Quantization=quant,
            IsVariable=tensor.variable or None,
            Sparsity=sparsity,
            ShapeSignature=signature,
            HasRank=True,
        )

    def _op(self, op: _Op, code: int) -> int:
        inputs, outputs = self._numbers(op.inputs, "Int32"), self._numbers(op.outputs, "Int32")
        kind, table = None, None
        if op.options is not None:
            name, fields = op.options
            values = {
                key: self._numbers(value, "Int32") if isinstance(value, (list, tuple)) else value
                for key, value in fields.items()
            }
            table, kind = self._table(name, **values), _number("BuiltinOptions", name)
        return self._table(
            "Operator", OpcodeIndex=code, Inputs=inputs, Outputs=outputs, BuiltinOptionsType=kind, BuiltinOptions=table
        )
