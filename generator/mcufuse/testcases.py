# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The inputs that a network is verified with, and the outputs that the oracle expects of them.

Inputs are generated from seeds, or recorded by the user in an .npz (`verify.vectors`): one array for each input and,
if she likes, for each output, with the number of vectors as first dimension. An array is called as the tensor of the
model, or `input_0`, `output_0`, ... in the model's order.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .config import Config
from .errors import Problems, UserError
from .ir import DType, Quantize, Rounding, Tensor
from .vectors import VectorCase, VectorKind, default_cases, make_input

if TYPE_CHECKING:
    from .pipeline import Compiled

__all__ = ["case_inputs", "make_cases"]

Array = npt.NDArray[Any]
MAX_RECORDED_BYTES = 1 << 30


def make_cases(config: Config, compiled: Compiled, count: int | None = None) -> list[VectorCase]:
    """The verification cases of a network with their expected outputs; `count` None: as the configuration says."""
    count = config.verify.count if count is None else count
    if config.verify.vectors is not None:
        return _recorded(config, compiled, count)
    cases = default_cases(count, exponent=_float_exponent(compiled))
    return [replace(case, expected=_expected(compiled, case_inputs(case, compiled.inputs))) for case in cases]


def case_inputs(case: VectorCase, inputs: Sequence[Tensor]) -> tuple[Array, ...]:
    """The input arrays of a case, without batch dimension, in the order of the network's inputs."""
    if case.kind is VectorKind.STORED:
        return case.inputs
    return tuple(
        make_input(case.kind, case.seed, np.dtype(t.dtype.value), _inner(t), index=i, exponent=case.exponent)
        for i, t in enumerate(inputs)
    )


def _expected(compiled: Compiled, inputs: Sequence[Array]) -> tuple[Array, ...]:
    batched = [array.reshape(t.shape) for array, t in zip(inputs, compiled.inputs, strict=True)]
    return tuple(
        np.asarray(array).reshape(_inner(t))
        for array, t in zip(compiled.evaluate(batched), compiled.outputs, strict=True)
    )


def _inner(tensor: Tensor) -> tuple[int, ...]:
    """The shape without the batch dimension."""
    return tensor.shape[1:] if len(tensor.shape) > 1 else tensor.shape


def _float_exponent(compiled: Compiled) -> int:
    """The power of two that covers the range of the float inputs; 0 without float inputs.

    A float input is quantized first: real = scale * (q - zero_point) with q in -128..127 or 0..255.
    """
    graph = compiled.graph
    reach = 0.0
    for op in graph.ops:
        quant = graph.tensors[op.output].quant
        if isinstance(op, Quantize) and op.inputs[0] in graph.inputs and quant is not None:
            low, high = (0, 255) if graph.tensors[op.output].dtype is DType.U8 else (-128, 127)
            zero = quant.zero_point[0]
            reach = max(reach, quant.scale[0] * max(high - zero, zero - low))
    return math.ceil(math.log2(reach)) if reach > 0 else 0


def _recorded(config: Config, compiled: Compiled, count: int) -> list[VectorCase]:
    place = config.place("verify.vectors")
    arrays = _load_npz(config)
    problems = Problems()
    inputs = [_pick(arrays, t, "input", i, place, problems) for i, t in enumerate(compiled.inputs)]
    known = [n for n in arrays if _belongs(n, compiled.outputs, "output")]
    outputs = [_pick(arrays, t, "output", i, place, problems) for i, t in enumerate(compiled.outputs)] if known else []
    problems.raise_if_any()
    lengths = {len(array) for array in (*inputs, *outputs)}
    if len(lengths) > 1:
        raise UserError(f"arrays of different lengths: {sorted(lengths)}", place=place)
    available = lengths.pop()
    if available == 0:
        raise UserError("holds no vectors", place=place)
    cases = []
    for k in range(min(count, available)):
        given = tuple(array[k].reshape(_inner(t)) for array, t in zip(inputs, compiled.inputs, strict=True))
        case = VectorCase(VectorKind.STORED, inputs=given, expected=_expected(compiled, given))
        for array, tensor, expected in zip(outputs, compiled.outputs, case.expected, strict=False):
            _compare(
                array[k].reshape(_inner(tensor)), expected, f"{place}: vector {k}, {tensor.name}", compiled, problems
            )
        cases.append(case)
    problems.raise_if_any()
    return cases


def _load_npz(config: Config) -> dict[str, Array]:
    place = config.place("verify.vectors")
    assert config.verify.vectors is not None
    try:
        with zipfile.ZipFile(config.verify.vectors) as archive:
            unpacked = sum(info.file_size for info in archive.infolist())
        if unpacked > MAX_RECORDED_BYTES:
            raise UserError(f"unpacks to {unpacked:,} B, more than {MAX_RECORDED_BYTES:,}", place=place)
        with np.load(config.verify.vectors, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(f"{config.verify.vectors}: not a readable .npz ({error})", place=place) from error


def _belongs(name: str, tensors: Sequence[Tensor], role: str) -> bool:
    return any(name in (t.name, f"{role}_{i}") for i, t in enumerate(tensors))


def _pick(arrays: Mapping[str, Array], tensor: Tensor, role: str, index: int, place: str, problems: Problems) -> Array:
    """The recorded array of a tensor as [vectors, elements]; notes what is wrong with it."""
    empty = np.zeros((0, tensor.elements), np.dtype(tensor.dtype.value))
    array = arrays.get(tensor.name, arrays.get(f"{role}_{index}"))
    if array is None:
        have = ", ".join(arrays) or "nothing"
        problems.add(f'no array "{tensor.name}" or "{role}_{index}"; it holds {have}', place=place)
        return empty
    if array.dtype != np.dtype(tensor.dtype.value):
        problems.add(f"{role}_{index}: {array.dtype}, but the network has {tensor.dtype.value}", place=place)
        return empty
    if array.ndim < 1 or array[:1].size not in (0, tensor.elements) or array.size != len(array) * tensor.elements:
        wanted = "x".join(map(str, _inner(tensor)))
        problems.add(
            f"{role}_{index}: shape {list(array.shape)}, expected a first dimension, then {wanted}", place=place
        )
        return empty
    return array.reshape(len(array), tensor.elements)


def _compare(recorded: Array, expected: Array, place: str, compiled: Compiled, problems: Problems) -> None:
    """Recorded outputs must be those of the oracle: exactly, or within one step for ONNX's float scaling."""
    onnx = any(getattr(getattr(op, "requant", None), "rounding", None) is Rounding.ONNX for op in compiled.graph.ops)
    allowed = 1.0 if onnx and expected.dtype.kind in "iu" else 0.0
    distance = np.abs(recorded.astype(np.float64) - expected.astype(np.float64))
    worst = float(distance.max(initial=0.0))
    if worst > allowed or math.isnan(worst):
        problems.add(
            f"{int((distance > allowed).sum()):,} of {distance.size:,} recorded outputs differ from what mcufuse "
            f"computes, by up to {worst:g}",
            place=place,
            hint="recorded with another runtime or model? `rounding:` names the one to follow",
        )
