# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Reads an ONNX file into plain, checked Python objects: nodes in order, constants as arrays, inputs and outputs.

Nothing of the file is trusted: sizes are compared with the bytes that are there before anything is allocated,
external data must lie beside the model, and the nodes must form a graph without cycles.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import Problems, UserError
from .limits import MAX_FILE_BYTES, MAX_OPERANDS, MAX_OPERATORS, MAX_TENSORS, shape_fault
from .onnx_node import Array, Attribute, Node

__all__ = ["OnnxModel", "ValueInfo", "read_model"]

OLDEST_OPSET = 11

# TensorProto.DataType -> NumPy's name and the field that holds the elements when they are not raw bytes.
_TYPES: Mapping[int, tuple[str, str]] = {
    1: ("float32", "float_data"),
    2: ("uint8", "int32_data"),
    3: ("int8", "int32_data"),
    4: ("uint16", "int32_data"),
    5: ("int16", "int32_data"),
    6: ("int32", "int32_data"),
    7: ("int64", "int64_data"),
    9: ("bool", "int32_data"),
    10: ("float16", "int32_data"),
    11: ("float64", "double_data"),
    12: ("uint32", "uint64_data"),
    13: ("uint64", "uint64_data"),
}
_TYPE_NAMES = {8: "string", 14: "complex64", 15: "complex128", 16: "bfloat16", 17: "float8", 21: "uint4", 22: "int4"}


@dataclass(frozen=True, slots=True)
class ValueInfo:
    """A declared value: `dtype` is NumPy's name; unknown dimensions are None, and so is an unknown shape."""

    name: str
    dtype: str
    shape: tuple[int | None, ...] | None


@dataclass(frozen=True, slots=True)
class OnnxModel:
    """A model file's content. `nodes` are in an order in which each operand is defined before it is used."""

    name: str
    opset: int
    nodes: tuple[Node, ...]
    constants: Mapping[str, Array]
    inputs: tuple[ValueInfo, ...]
    outputs: tuple[ValueInfo, ...]
    declared: Mapping[str, ValueInfo]


def read_model(path: Path, data: bytes) -> OnnxModel:
    """The model in `data`, read from `path` (used for messages and external data); raises `UserError`."""
    proto = _parse(path, data)
    try:
        return _decode(path, proto)
    except (_Damaged, UnicodeDecodeError):
        raise UserError("a name in the file is not valid UTF-8: the file is damaged", place=str(path)) from None


class _Damaged(Exception):
    """A name in the file is no text."""


def _text(value: str | bytes) -> str:
    """A string field; protobuf hands over invalid UTF-8 as bytes."""
    if isinstance(value, bytes):
        raise _Damaged
    return value


def _parse(path: Path, data: bytes) -> Any:
    from google.protobuf.message import DecodeError
    from onnx import ModelProto

    place = str(path)
    if len(data) > MAX_FILE_BYTES:
        raise UserError(f"{len(data):,} bytes; at most {MAX_FILE_BYTES:,} are read", place=place)
    proto = ModelProto()
    try:
        proto.ParseFromString(data)
    except (DecodeError, ValueError) as error:
        raise UserError(
            f"not a readable ONNX model ({str(error).strip() or 'it cannot be parsed'})",
            place=place,
            hint="is the file complete? `python -m onnx.checker FILE` tells more",
        ) from None
    if not proto.HasField("graph") or not proto.graph.output:
        raise UserError("not an ONNX model: it holds no graph with an output", place=place)
    if proto.functions:
        raise UserError(
            f"the model defines {len(proto.functions)} functions of its own",
            place=place,
            hint="expand them first: onnx.save(onnx.inliner.inline_local_functions(onnx.load(IN)), OUT)",
        )
    return proto


def _decode(path: Path, proto: Any) -> OnnxModel:
    graph = proto.graph
    place = str(path)
    opset = _opset(place, proto)
    for what, count, limit in (
        ("nodes", len(graph.node), MAX_OPERATORS),
        ("initializers", len(graph.initializer), MAX_TENSORS),
        ("value descriptions", len(graph.value_info), MAX_TENSORS),
    ):
        if count > limit:
            raise UserError(f"{count:,} {what}; at most {limit:,} are read", place=place)
    if graph.sparse_initializer:
        raise UserError("sparse initializers are not supported", place=place, hint="store the weights densely")
    problems = Problems()
    constants: dict[str, Array] = {}
    for tensor in graph.initializer:
        array = _constant(path, tensor, problems, f'initializer "{tensor.name}"')
        if array is not None:
            constants[_text(tensor.name)] = array
    nodes = [_node(path, index, node, problems) for index, node in enumerate(graph.node)]
    problems.raise_if_any()
    inputs = [_value(v) for v in graph.input if v.name not in constants]
    ordered = _in_order(place, nodes, [*constants, *(v.name for v in inputs)], [v.name for v in graph.output])
    return OnnxModel(
        name=_text(graph.name),
        opset=opset,
        nodes=tuple(ordered),
        constants=constants,
        inputs=tuple(inputs),
        outputs=tuple(_value(v) for v in graph.output),
        declared={v.name: _value(v) for v in (*graph.value_info, *graph.output)},
    )


def _opset(place: str, proto: Any) -> int:
    opset = next((int(o.version) for o in proto.opset_import if o.domain in ("", "ai.onnx")), None)
    if opset is None:
        raise UserError("the file does not say which operator set it uses: it is damaged", place=place)
    if opset < OLDEST_OPSET:
        raise UserError(
            f"operator set {opset}; {OLDEST_OPSET} is the oldest that is read",
            place=place,
            hint=f"onnx.save(onnx.version_converter.convert_version(onnx.load(IN), {OLDEST_OPSET + 2}), OUT)",
        )
    return opset


def _value(info: Any) -> ValueInfo:
    tensor = info.type.tensor_type
    dtype = _TYPES.get(tensor.elem_type, (_TYPE_NAMES.get(tensor.elem_type, f"type {tensor.elem_type}"), ""))[0]
    if not tensor.HasField("shape"):
        return ValueInfo(_text(info.name), dtype, None)
    shape = tuple(d.dim_value if d.WhichOneof("value") == "dim_value" else None for d in tensor.shape.dim)
    return ValueInfo(_text(info.name), dtype, shape)


def _constant(path: Path, tensor: Any, problems: Problems, what: str) -> Array | None:
    """The array of a TensorProto; notes a problem and returns None if it is not sound."""
    place = f"{path}: {what}"
    if tensor.data_type not in _TYPES:
        name = _TYPE_NAMES.get(tensor.data_type, f"type {tensor.data_type}")
        problems.add(
            f"element type {name} is not supported", place=place, hint="quantize to int8; see docs/quantizing.md"
        )
        return None
    dtype_name, field = _TYPES[tensor.data_type]
    dtype = np.dtype(dtype_name)
    shape = tuple(int(d) for d in tensor.dims)
    fault = shape_fault([d or 1 for d in shape], dtype.itemsize)  # empty constants occur (an empty list of axes)
    if fault:
        problems.add(f"has {fault}", place=place)
        return None
    count = math.prod(shape)
    try:
        flat = _elements(path, tensor, dtype, field, count)
    except (ValueError, OverflowError, OSError) as error:
        problems.add(str(error), place=place)
        return None
    return flat.reshape(shape)


def _elements(path: Path, tensor: Any, dtype: np.dtype[Any], field: str, count: int) -> Array:
    expected = count * dtype.itemsize
    if tensor.data_location == 1:
        raw = _external(path, {_text(e.key): _text(e.value) for e in tensor.external_data}, expected)
    elif tensor.HasField("raw_data"):
        raw = tensor.raw_data
    else:
        values = getattr(tensor, field)
        if len(values) != count:
            raise ValueError(f"claims {count:,} elements but holds {len(values):,}")
        if dtype.name == "float16":
            return np.asarray(values, np.uint16).view(np.float16)
        return np.asarray(values).astype(dtype) if count else np.zeros(0, dtype)
    if len(raw) != expected:
        raise ValueError(f"claims {count:,} elements ({expected:,} bytes) but holds {len(raw):,} bytes")
    return np.frombuffer(raw, dtype.newbyteorder("<")).astype(dtype, copy=False)


def _external(path: Path, entries: Mapping[str, str], expected: int) -> bytes:
    """The bytes of a tensor that is stored in a file of its own; it must lie in the model's directory."""
    location = entries.get("location", "")
    directory = path.parent.resolve()
    if not location or "\0" in location:
        raise ValueError("its external data names no file")
    target = (directory / location).resolve()
    if not target.is_relative_to(directory):
        raise ValueError(f"its external data {location} lies outside the model's directory")
    if not target.is_file():
        raise ValueError(f"its external data {location} is missing beside the model")
    offset, length = int(entries.get("offset", "0") or 0), int(entries.get("length", expected) or expected)
    if offset < 0 or length != expected or offset + length > target.stat().st_size:
        raise ValueError(f"its external data {location} does not hold {expected:,} bytes at offset {offset:,}")
    with target.open("rb") as file:
        file.seek(offset)
        return file.read(length)


def _node(path: Path, index: int, proto: Any, problems: Problems) -> Node:
    domain = "" if proto.domain in ("", "ai.onnx") else f"{_text(proto.domain)}."
    bare = Node(
        index,
        domain + _text(proto.op_type),
        _text(proto.name),
        tuple(map(_text, proto.input)),
        tuple(map(_text, proto.output)),
    )
    if len(bare.inputs) > MAX_OPERANDS or len(bare.outputs) > MAX_OPERANDS:
        problems.add(f"more than {MAX_OPERANDS} operands or results", place=f"{path}: {bare.place}")
        return bare
    attributes: dict[str, Attribute] = {}
    for attribute in proto.attribute:
        attributes[_text(attribute.name)] = _attribute(path, bare, attribute, problems)
    return Node(index, bare.op, bare.name, bare.inputs, bare.outputs, attributes)


def _attribute(path: Path, node: Node, attribute: Any, problems: Problems) -> Attribute:
    kind = attribute.type
    if kind == 1:
        return float(attribute.f)
    if kind == 2:
        return int(attribute.i)
    if kind == 3:
        return str(attribute.s.decode("utf-8", "replace"))
    if kind == 4:
        return _constant(path, attribute.t, problems, f"{node.place} attribute {attribute.name}")
    if kind == 6:
        return tuple(float(v) for v in attribute.floats)
    if kind == 7:
        return tuple(int(v) for v in attribute.ints)
    if kind == 8:
        return tuple(s.decode("utf-8", "replace") for s in attribute.strings)
    return None  # graphs and types: no operator that is read has any


def _in_order(place: str, nodes: list[Node], known: Iterable[str], outputs: list[str]) -> list[Node]:
    """The nodes sorted so that operands come first; raises `UserError` for cycles and loose ends."""
    defined = {"", *known}
    producer: dict[str, Node] = {}
    for node in nodes:
        for name in node.outputs:
            if name and (name in producer or name in defined):
                raise UserError(f'"{name}" is computed twice: the file is damaged', place=f"{place}: {node.place}")
            producer[name] = node
    for node in nodes:
        for name in node.inputs:
            if name not in defined and name not in producer:
                raise UserError(f'its operand "{name}" is defined nowhere', place=f"{place}: {node.place}")
    for name in outputs:
        if not name or (name not in defined and name not in producer):
            raise UserError(f'the output "{name}" is computed by no node', place=place)
    return _topological(place, nodes, defined, producer)


def _topological(place: str, nodes: list[Node], defined: set[str], producer: Mapping[str, Node]) -> list[Node]:
    waiting = {n.index: len({i for i in n.inputs if i not in defined}) for n in nodes}
    users: dict[str, list[Node]] = {}
    for node in nodes:
        for name in set(node.inputs) - defined:
            users.setdefault(name, []).append(node)
    ready = [n for n in nodes if not waiting[n.index]]
    ordered: list[Node] = []
    while len(ordered) < len(ready):
        node = ready[len(ordered)]
        ordered.append(node)
        for name in dict.fromkeys(node.outputs):
            for user in users.get(name, ()):
                waiting[user.index] -= 1
                if not waiting[user.index]:
                    ready.append(user)
    if len(ordered) < len(nodes):
        stuck = next(n for n in nodes if waiting[n.index])
        raise UserError("its operands depend on its own result: the graph has a cycle", place=f"{place}: {stuck.place}")
    if all(a.index < b.index for a, b in pairwise(ordered)):
        return ordered
    in_file_order = all(name in defined or producer[name].index < node.index for node in nodes for name in node.inputs)
    return list(nodes) if in_file_order else ordered
