# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Reads a .tflite file into a graph of integer operators.

    bytes ── tflite_schema ──> tables ── each live node: fold, or convert (tflite_ops) ──> graph, verified

Everything that is wrong with a model is collected and raised together. The bits are those of TFLite Micro's
reference kernels (github.com/tensorflow/tflite-micro).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..errors import Problems, UserError
from ..ir import Graph, Op, Rounding
from ..verify import verify
from .tflite_ops import OPERATORS, unsupported
from .tflite_ops_base import QUANTIZE_HINT, Builder, Node, Refused
from .tflite_ops_const import fold
from .tflite_schema import Model, Operator, TensorInfo, read_model

__all__ = ["import_tflite"]

_MAX_LISTED = 100  # problems of one model
_TOLD_ONCE = ("tensor ", "the constants ", "the model ")  # reasons that concern more than one node

_CONVERTER = """convert it with post-training quantization:
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = samples  # yields [one input], about 100 times
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = converter.inference_output_type = tf.int8
    open("model_int8.tflite", "wb").write(converter.convert())"""


def import_tflite(path: Path, data: bytes, rounding: Rounding | None) -> Graph:
    """The graph of a TFLite file; `rounding` None: TFLITE. Raises `UserError` with all problems of the model."""
    if rounding is Rounding.ONNX:
        raise UserError(
            "rounding onnx is defined for ONNX models", place=str(path), hint="use tflite or tflite-single, or auto"
        )
    model = read_model(data, str(path))
    problems = Problems()
    live = _live(model)
    _check_model(model, live, path, problems)
    builder = Builder(model, rounding or Rounding.TFLITE)
    _define_inputs(builder, path, problems)
    _convert(builder, live, path, problems)
    _check_outputs(builder, path, problems)
    problems.raise_if_any()
    return _finish(builder, path, len(model.operators) - len(live))


def _live(model: Model) -> list[Operator]:
    """The nodes whose results the outputs need, in the file's order."""
    producers: dict[int, list[int]] = {}
    for op in model.operators:
        for number in op.outputs:
            producers.setdefault(number, []).append(op.index)
    wanted, seen = list(model.outputs), set(model.outputs)
    live: set[int] = set()
    while wanted:
        for index in producers.get(wanted.pop(), []):
            live.add(index)
            new = {n for n in model.operators[index].inputs if n >= 0} - seen
            seen |= new
            wanted.extend(new)
    return [model.operators[i] for i in sorted(live)]


def _place(path: Path, model: Model, op: Operator) -> str:
    name = model.tensors[op.outputs[0]].name if op.outputs else ""
    return f'{path}: node {op.index} "{name}" ({op.kind})'


def _check_model(model: Model, live: list[Operator], path: Path, problems: Problems) -> None:
    """What concerns the model as a whole; raises at once where listing its nodes would say nothing more."""
    if not model.inputs or not model.outputs:
        raise UserError("the model has no inputs or no outputs", place=str(path), hint="convert the model again")
    if not live:
        raise UserError("the model computes nothing: no node reaches its outputs", place=str(path))
    _refuse_other_types(model, live, path)
    if model.subgraphs > 1:
        problems.add(
            f"{model.subgraphs} subgraphs; only one is supported",
            place=str(path),
            hint="export a single function without control flow or variables",
        )
    for what, numbers in (("inputs", model.inputs), ("outputs", model.outputs)):
        if len(set(numbers)) != len(numbers):
            problems.add(f"a tensor is listed twice among the {what}", place=str(path), hint="convert the model again")


def _refuse_other_types(model: Model, live: list[Operator], path: Path) -> None:
    """Raises for float, dynamically quantized and 16-bit networks."""
    used = {n for op in live for n in (*op.inputs, *op.outputs) if n >= 0}
    tensors = [model.tensors[n] for n in sorted(used)]
    activations = {t.type for t in tensors if t.raw is None}
    constants = {t.type for t in tensors if t.raw is not None}
    if activations & {"INT8", "UINT8"} or not activations & {"FLOAT32", "FLOAT16", "INT16"}:
        return
    if "INT16" in activations:
        reason = "a network with 16-bit activations; only 8-bit ones are supported"
    elif "INT8" in constants:
        reason = "a network with int8 weights but float32 activations (dynamic range quantization)"
    elif "FLOAT16" in constants:
        reason = "a float network with float16 weights; only int8 networks are supported"
    else:
        reason = "a float network; only int8 networks are supported"
    raise UserError(reason, place=str(path), hint=_CONVERTER)


def _define_inputs(builder: Builder, path: Path, problems: Problems) -> None:
    """The graph's inputs."""
    for number in dict.fromkeys(builder.model.inputs):
        info = builder.model.tensors[number]
        place = f'{path}: input "{info.name}"'
        if info.raw is not None:
            problems.add("an input that is constant", place=place, hint="convert the model again")
        elif any(d < 0 for d in info.signature[1:]):
            problems.add(
                f"dynamic shape {list(info.signature)}",
                place=place,
                hint="export with fixed dimensions, for example tf.keras.Input(shape=..., batch_size=1)",
            )
        elif len(info.shape) == 4 and info.shape[0] > 1:
            problems.add(
                f"batch {info.shape[0]}; only batch 1 runs", place=place, hint="export the model with batch size 1"
            )
        else:
            try:
                builder.define(info)
            except Refused as fault:
                problems.add(fault.reason, place=place, hint=fault.hint)


def _convert(builder: Builder, live: list[Operator], path: Path, problems: Problems) -> None:
    """Converts each node; what cannot be converted is noted, and its results are taken as given."""
    told: set[str] = set()
    written = set(builder.model.inputs)
    for op in live:
        place = _place(path, builder.model, op)
        try:
            _check_order(builder.model, op, written)
            _convert_node(builder, op)
        except Refused as fault:
            if not (fault.reason.startswith(_TOLD_ONCE) and fault.reason in told):
                told.add(fault.reason)
                problems.add(fault.reason, place=place, hint=fault.hint)
            if len(problems) >= _MAX_LISTED:
                problems.add(f"more than {_MAX_LISTED} problems; the rest is not listed", place=str(path))
                problems.raise_if_any()
        written.update(op.outputs)


def _check_order(model: Model, op: Operator, written: set[int]) -> None:
    """Operands are defined before, and results are defined once."""
    for number in op.inputs:
        if number >= 0 and number not in written and model.tensors[number].raw is None:
            raise Refused(
                f'reads "{model.tensors[number].name}" before it is computed (a cycle, or nodes out of order)',
                "convert the model again",
            )
    for number in op.outputs:
        if number in written or model.tensors[number].raw is not None:
            raise Refused(f'computes "{model.tensors[number].name}" a second time', "convert the model again")


def _convert_node(builder: Builder, op: Operator) -> None:
    """Folds or converts one node; raises `Refused`."""
    node = Node(builder, op)
    if fold(node):
        return
    row = OPERATORS.get(op.kind)
    if row is None:
        raise Refused(*unsupported(op.kind))
    row.convert(node)


def _check_outputs(builder: Builder, path: Path, problems: Problems) -> None:
    """Each output is computed by a node and is 8-bit or float32."""
    computed = {op.output for op in builder.ops}
    for info in _outputs(builder.model):
        place = f'{path}: output "{info.name}"'
        if info.raw is not None or info.index in builder.folded or info.index in builder.model.inputs:
            problems.add("the output is constant or an input; nothing is computed", place=place, hint=QUANTIZE_HINT)
        elif not len(problems) and info.name not in computed:
            problems.add("no node computes the output", place=place, hint="convert the model again")


def _outputs(model: Model) -> Iterator[TensorInfo]:
    return (model.tensors[n] for n in dict.fromkeys(model.outputs))


def _finish(builder: Builder, path: Path, dropped: int) -> Graph:
    """The graph without operators and tensors that nothing reads, verified."""
    model = builder.model
    outputs = tuple(info.name for info in _outputs(model))
    needed, ops = set(outputs), list[Op]()
    for op in reversed(builder.ops):
        if op.output in needed:
            needed.update(op.inputs)
            ops.append(op)
    notes = (f"left out {dropped} nodes whose results nothing reads",) if dropped else ()
    inputs = tuple(model.tensors[n].name for n in model.inputs)
    graph = Graph(path.stem, builder.tensors, tuple(reversed(ops)), inputs, outputs, notes).with_()
    verify(graph)
    return graph
