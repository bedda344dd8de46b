# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Imports quantized ONNX models, QDQ and QOperator alike: one walk over the nodes.

onnx_model.py reads the file, onnx_values.py says what is known of a value, the HANDLERS of the other modules import
one operator each, and passes/layout.py turns ONNX's NCHW into NHWC at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ..errors import Problems, UserError
from ..ir import DType, Graph, Rounding
from ..passes.layout import push_layout
from . import onnx_binary, onnx_linear, onnx_move, onnx_pool, onnx_qdq, onnx_resize, onnx_unary
from .limits import shape_fault
from .onnx_build import Builder, map_shape
from .onnx_context import Context, Handler, shape_of
from .onnx_fold import FOLDABLE, fold, shape_result
from .onnx_hints import FLOAT_NETWORK, hint_for
from .onnx_model import OnnxModel, ValueInfo, read_model
from .onnx_node import Gap, Node
from .onnx_values import Codes, Const, FloatInput, Pending, QuantConst, Real, Unknown, Value, describe

__all__ = ["HANDLERS", "Imported", "import_nodes", "import_onnx"]

HANDLERS: Mapping[str, Handler] = {
    **onnx_qdq.HANDLERS,
    **onnx_linear.HANDLERS,
    **onnx_unary.HANDLERS,
    **onnx_binary.HANDLERS,
    **onnx_pool.HANDLERS,
    **onnx_move.HANDLERS,
    **onnx_resize.HANDLERS,
}
_KEEPS_QUANTIZED = frozenset({"Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"})
_INPUT_TYPES = {"float32": DType.F32, "int8": DType.S8, "uint8": DType.U8}


@dataclass(slots=True)
class Imported:
    """A walk's state: the builder, the value of each name, and what was wrong."""

    model: OnnxModel
    path: Path
    builder: Builder
    values: dict[str, Value] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)  # node label -> how messages call it
    problems: Problems = field(default_factory=Problems)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)

    def trouble(self, gap: Gap, place: str) -> None:
        """Notes a refusal."""
        self.problems.add(gap.reason, place=f"{self.path}: {place}", hint=gap.hint)


def import_onnx(path: Path, data: bytes, rounding: Rounding | None) -> Graph:
    """The model in `data` as a graph; raises `UserError` with everything that is wrong with it.

    `rounding` None is ONNX's own: requantization in one step, halves to even.
    """
    state = import_nodes(path, data, rounding)
    graph = state.builder.graph(path.stem, state.inputs, state.outputs)
    return push_layout(graph)


def import_nodes(path: Path, data: bytes, rounding: Rounding | None) -> Imported:
    """Walks the nodes; the graph that results is still in ONNX's layout."""
    model = read_model(path, data)
    _refuse_float(path, model)
    state = Imported(model, path, Builder(rounding or Rounding.ONNX))
    _inputs(state)
    context = Context(state.builder, model.opset)
    state.values.update({name: Const(array) for name, array in model.constants.items()})
    for node in model.nodes:
        state.places[node.label] = node.place
        _step(state, context, node)
    for info in model.outputs:
        try:
            state.outputs.append(_output(state, info))
        except Gap as gap:
            state.trouble(gap, f'output "{info.name}"')
    state.problems.raise_if_any()
    return state


def _refuse_float(path: Path, model: OnnxModel) -> None:
    quantized = ("QuantizeLinear", "QLinear", "com.microsoft.Q", "DequantizeLinear", "ConvInteger", "MatMulInteger")
    if all(info.dtype in ("int8", "uint8") for info in model.inputs) and model.inputs:
        return  # nothing but moves of 8-bit values, perhaps
    if not any(node.op.startswith(quantized) or node.op == "com.microsoft.QuantizeLinear" for node in model.nodes):
        raise UserError("a float network; only quantized ones run in integers", place=str(path), hint=FLOAT_NETWORK)


def _inputs(state: Imported) -> None:
    """The network's inputs as values; a batch dimension that is left open is 1."""
    for info in state.model.inputs:
        place = f'input "{info.name}"'
        state.values[info.name] = Unknown()
        try:
            state.values[info.name] = _input(state, info)
        except Gap as gap:
            state.trouble(gap, place)


def _input(state: Imported, info: ValueInfo) -> Value:
    if info.dtype not in _INPUT_TYPES:
        raise Gap(
            f"its type is {info.dtype}; only float32, int8 and uint8 are supported",
            "compute what needs other types outside the network",
        )
    if info.shape is None:
        raise Gap("its shape is not given", _fix_shape(info.name))
    shape = tuple(1 if i == 0 and d in (None, 0) else d for i, d in enumerate(info.shape))
    if None in shape:
        shown = ", ".join("?" if d is None else str(d) for d in info.shape)
        raise Gap(f"its shape [{shown}] is dynamic", _fix_shape(info.name))
    fixed = tuple(d for d in shape if d is not None)
    dtype = _INPUT_TYPES[info.dtype]
    fault = shape_fault(fixed, dtype.bytes)
    if fault:
        raise Gap(f"it has {fault}")
    b = state.builder
    tensor = b.tensor(info.name, map_shape(fixed), dtype)
    state.inputs.append(tensor)
    if dtype is DType.F32:
        return FloatInput(tensor, fixed)
    return Codes(tensor, np.arange(-128, 128, dtype=np.int64), fixed, dtype is DType.U8, "", tensor)


def _fix_shape(name: str) -> str:
    return f"python -m onnxruntime.tools.make_dynamic_shape_fixed --input_name {name} --input_shape 1,... IN OUT"


def _step(state: Imported, context: Context, node: Node) -> None:
    """Imports one node, or notes why it cannot be."""
    args = [state.values[name] if name else None for name in node.inputs]
    state.builder.origin = (node.label,)
    place = node.place
    try:
        supported = node.op in HANDLERS or node.op in FOLDABLE or node.op in ("Constant", "Size")
        if not supported:
            raise Gap("the operator is not supported", hint_for(node.op))
        if any(isinstance(a, Unknown) for a in args):
            _poison(state, node)
            return
        pending = next((a for a in args if isinstance(a, Pending)), None)
        if pending is not None and pending.origin and node.op == "QuantizeLinear":
            place = state.places.get(pending.origin[0], place)  # what cannot be emitted is the operator before
        with np.errstate(all="ignore"):  # values of a file may overflow; what matters is checked where it is used
            result = _evaluate(context, node, args)
        if isinstance(result, Const | QuantConst):
            state.builder.account(result.data.nbytes)
    except Gap as gap:
        state.trouble(gap, place)
        _poison(state, node)
        return
    results = result if isinstance(result, list) else [result]
    for name, value in zip(node.outputs, results, strict=False):
        if name:
            state.values[name] = _with_origin(value, node)
    for name in node.outputs[len(results) :]:
        state.values[name] = Unknown()


def _evaluate(context: Context, node: Node, args: list[Value | None]) -> Value | list[Value]:
    if node.op == "Constant":
        return _constant(node)
    if node.op in ("Shape", "Size") and args and args[0] is not None:
        shape = shape_of(args[0])
        return Const(shape_result(node, shape) if node.op == "Shape" else np.asarray(np.prod(shape), np.int64))
    if node.op in FOLDABLE and all(isinstance(a, Const | QuantConst) for a in args):
        quantized = any(isinstance(a, QuantConst) for a in args)
        if not (quantized and node.op in _KEEPS_QUANTIZED):
            arrays = [
                a.real if isinstance(a, QuantConst) else a.data for a in args if isinstance(a, Const | QuantConst)
            ]
            return Const(fold(node, arrays, context.opset))
    if node.op not in HANDLERS:
        raise Gap("its operands are computed at run time; it is only supported for constants", hint_for(node.op))
    return HANDLERS[node.op](context, node, args)


def _constant(node: Node) -> Const:
    value = node.attributes.get("value")
    if isinstance(value, np.ndarray):
        return Const(value)
    for name, dtype in (("value_float", np.float32), ("value_floats", np.float32), ("value_int", np.int64)):
        if node.has(name):
            return Const(np.asarray(node.attributes[name], dtype))
    if node.has("value_ints"):
        return Const(np.asarray(node.attributes["value_ints"], np.int64))
    raise Gap("its value is not a plain tensor")


def _with_origin(value: Value, node: Node) -> Value:
    if node.op == "DequantizeLinear" or not isinstance(value, Real | Pending):
        return value
    return value if node.label in value.origin else replace(value, origin=(*value.origin, node.label))


def _poison(state: Imported, node: Node) -> None:
    """Gives a refused node results of the right shape, where that is known, so that what follows is still checked."""
    for name in node.outputs:
        info = state.model.declared.get(name)  # onnx.shape_inference would know more, but damaged files abort it
        shape: tuple[int, ...] | None = None
        if info is not None and info.shape is not None:
            shape = tuple(1 if d is None or d < 1 else d for d in info.shape)
        state.values[name] = Unknown(shape)
        if shape is None or shape_fault(shape, 1):
            continue
        if (node.op.endswith("QuantizeLinear") and node.op != "DequantizeLinear") or "QLinear" in node.op:
            unsigned = info is not None and info.dtype == "uint8"
            try:
                state.values[name] = state.builder.codes(state.builder.tensor(name, map_shape(shape)), shape, unsigned)
            except Gap:
                state.values[name] = Unknown(shape)


def _output(state: Imported, info: ValueInfo) -> str:
    """The tensor of a network's output, under its name in the file."""
    value, b = state.values[info.name], state.builder
    if isinstance(value, Unknown):
        if not len(state.problems):
            raise Gap("it is a result that its node does not have")
        return info.name  # its node was refused
    b.origin = (info.name,)
    if isinstance(value, Real):
        return b.dequantize(value, info.name)
    if not isinstance(value, Codes):
        raise Gap(
            f"it is {describe(value)}",
            "put QuantizeLinear, DequantizeLinear before it, or leave the last float operator to the caller",
        )
    shape = map_shape(value.shape)
    if value.unsigned:
        tensor = b.unsigned_output(replace(value, name=info.name), info.name)
    else:
        tensor = b.materialize(replace(value, name=info.name))
    return b.output(tensor, shape, info.name, (*state.inputs, *state.outputs))
