# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The tables of a TFLite file, read into plain data. Facts: TensorFlow Lite's schema.fbs, version 3.

Structural faults of the file raise `UserError` at once. What makes only one tensor unusable (a size, a scale) is
kept as its `fault`, so that the importer can list it with the other problems of the model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .flatbuffer import Buffer, Table, root_table
from .limits import MAX_OPERANDS, MAX_OPERATORS, MAX_RANK, MAX_TENSORS, shape_fault

__all__ = ["ACTIVATIONS", "OPERATOR_NAMES", "Model", "Operator", "Quantization", "TensorInfo", "read_model"]

Array = npt.NDArray[Any]

TFLITE_MARK = b"TFL3"

# BuiltinOperator, in the order of its numbers from 0.
OPERATOR_NAMES: tuple[str, ...] = tuple(
    """ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP FLOOR
    FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC
    LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH
    SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER
    BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE
    BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM
    ARG_MAX MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE
    TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK
    LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL
    FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL
    REVERSE_V2 ADD_N GATHER_ND COS WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND
    HARD_SWISH IF WHILE NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM
    BATCH_MATMUL PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG REAL COMPLEX_ABS
    HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE
    ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM MULTINOMIAL GELU
    DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM ATAN2
    UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR RIGHT_SHIFT""".split()
)
ACTIVATIONS = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT")  # ActivationFunctionType

# TensorType number -> (name, NumPy dtype of the stored data; "" where it is not read).
_TENSOR_TYPES: dict[int, tuple[str, str]] = {
    0: ("FLOAT32", "<f4"), 1: ("FLOAT16", "<f2"), 2: ("INT32", "<i4"), 3: ("UINT8", "<u1"), 4: ("INT64", "<i8"),
    5: ("STRING", ""), 6: ("BOOL", "?"), 7: ("INT16", "<i2"), 8: ("COMPLEX64", ""), 9: ("INT8", "<i1"),
    10: ("FLOAT64", "<f8"), 11: ("COMPLEX128", ""), 12: ("UINT64", "<u8"), 13: ("RESOURCE", ""), 14: ("VARIANT", ""),
    15: ("UINT32", "<u4"), 16: ("UINT16", "<u2"), 17: ("INT4", ""), 18: ("BFLOAT16", ""), 19: ("INT2", ""),
    20: ("UINT4", ""),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Quantization:
    """real = scale * (q - zero): float32 scales and their zero points, one or one for each slice along `axis`."""

    scales: npt.NDArray[np.float32]
    zeros: npt.NDArray[np.int64]
    axis: int


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor as the file states it. `raw` holds a constant's bytes; `fault` says why it cannot be used."""

    index: int
    name: str
    shape: tuple[int, ...]
    signature: tuple[int, ...]  # the shape with -1 where dynamic, or ()
    type: str
    quant: Quantization | None
    raw: npt.NDArray[np.uint8] | None
    fault: str | None

    def array(self) -> Array:
        """A constant's values in the tensor's shape (INT4 unpacked to int8); only without `fault`."""
        assert self.raw is not None
        assert self.fault is None
        if self.type == "INT4":
            return _unpack_int4(self.raw, math.prod(self.shape)).reshape(self.shape)
        dtype = next(code for name, code in _TENSOR_TYPES.values() if name == self.type)
        return np.frombuffer(self.raw, dtype).reshape(self.shape)


@dataclass(frozen=True, slots=True)
class Operator:
    """One node: operator name, operands as tensor numbers (-1: left out), and its options."""

    index: int
    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Table | None


@dataclass(frozen=True, slots=True)
class Model:
    """The main subgraph of a file, and how many there are."""

    tensors: tuple[TensorInfo, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    subgraphs: int


def _unpack_int4(raw: npt.NDArray[np.uint8], count: int) -> npt.NDArray[np.int8]:
    """Two values a byte, the first in the low half, as two's complement."""
    halves = np.stack([raw & 15, raw >> 4], axis=1).reshape(-1)[:count].astype(np.int8)
    return np.where(halves > 7, halves - 16, halves).astype(np.int8)


def _data_bytes(kind: str, shape: tuple[int, ...]) -> int:
    """Bytes of a constant's data."""
    if kind == "INT4":
        return (math.prod(shape) + 1) // 2
    dtype = next(code for name, code in _TENSOR_TYPES.values() if name == kind)
    return math.prod(shape) * np.dtype(dtype).itemsize


def _quantization(table: Table | None, what: str) -> Quantization | None:
    """A tensor's quantization, or None if it has no scale."""
    if table is None:
        return None
    scales = table.array(2, "<f4", f"the scales of {what}")
    zeros = table.array(3, "<i8", f"the zero points of {what}")
    if scales is None or not len(scales):
        return None
    if zeros is None:
        zeros = np.zeros(0, np.int64)
    return Quantization(scales, zeros, table.integer(6))


def _tensor_fault(kind: str, stored: bool, shape: tuple[int, ...], table: Table, data: Array | None) -> str | None:
    """Why a tensor cannot be used at all, or None."""
    fault = shape_fault(shape, 1 if kind == "INT4" else _item_bytes(kind))
    if fault:
        return fault
    if table.table(6, "sparsity") is not None:
        return "sparse weights; convert without sparsity (or densify them)"
    if table.scalar(5, "bool", False):
        return "state that is kept between runs (a variable tensor)"
    if table.integer(10, "u32"):
        return "data in an external file"
    if data is None:
        return None
    if not stored:
        return f"constant data of type {kind}"
    needed = _data_bytes(kind, shape)
    return None if len(data) == needed else f"{len(data):,} bytes of data, but shape {list(shape)} needs {needed:,}"


def _item_bytes(kind: str) -> int:
    """Bytes of one element, 4 where the type is not read."""
    dtype = next((code for name, code in _TENSOR_TYPES.values() if name == kind), "")
    return np.dtype(dtype).itemsize if dtype else 4


def _data(root: Buffer, buffers: list[Table], table: Table, what: str) -> npt.NDArray[np.uint8] | None:
    """A tensor's constant bytes (not copied), or None for an activation."""
    number = table.integer(2, "u32")
    if number == 0:
        return None
    if number >= len(buffers):
        root.fail(f"{what} cites buffer {number:,} of {len(buffers):,}")
    data = buffers[number].array(0, "<u1", f"the data of {what}")
    offset, size = buffers[number].integer(1, "u64"), buffers[number].integer(2, "u64")
    if (data is None or not len(data)) and offset > 1 and size:
        root.span(offset, size, f"the data of {what}")
        data = np.frombuffer(root.data, np.uint8, count=size, offset=offset)
    return data if data is not None and len(data) else None


def _tensor(root: Buffer, buffers: list[Table], table: Table, index: int, taken: set[str]) -> TensorInfo:
    """One tensor, under a name that no other tensor has."""
    name = table.string(3, f"the name of tensor {index}").split(";")[0][:200] or f"tensor_{index}"
    while name in taken:
        name = f"{name}:{index}"
    taken.add(name)
    what = f"tensor {index}"
    shape = table.ints(0, f"the shape of {what}", 4 * MAX_RANK)
    kind, stored = _TENSOR_TYPES.get(table.integer(1, "i8"), (f"type {table.integer(1, 'i8')}", ""))
    data = _data(root, buffers, table, what)
    return TensorInfo(
        index=index,
        name=name,
        shape=shape,
        signature=table.ints(7, f"the shape signature of {what}", 4 * MAX_RANK),
        type=kind,
        quant=_quantization(table.table(4, f"the quantization of {what}"), what),
        raw=data,
        fault=_tensor_fault(kind, bool(stored) or kind == "INT4", shape, table, data),
    )


def _operator(table: Table, index: int, codes: list[Table]) -> Operator:
    """One node."""
    number = table.integer(0, "u32")
    if number >= len(codes):
        table.buffer.fail(f"node {index} cites operator code {number:,} of {len(codes):,}")
    code = codes[number]
    builtin = max(code.integer(0, "i8"), code.integer(3))
    kind = OPERATOR_NAMES[builtin] if 0 <= builtin < len(OPERATOR_NAMES) else f"operator code {builtin}"
    if kind == "CUSTOM":
        kind = f'CUSTOM "{code.string(1, "custom code")[:80]}"'
    what = f"node {index}"
    return Operator(
        index=index,
        kind=kind,
        inputs=table.ints(1, f"the inputs of {what}", MAX_OPERANDS),
        outputs=table.ints(2, f"the outputs of {what}", MAX_OPERANDS),
        options=table.table(4, f"the options of {what}") if table.integer(3, "u8") else None,
    )


def read_model(data: bytes, place: str) -> Model:
    """Reads a file's main subgraph; raises `UserError` naming `place` for anything malformed."""
    root = root_table(data, place, TFLITE_MARK, "the model")
    version = root.integer(0, "u32")
    if version != 3:
        root.buffer.fail(f"schema version {version}, only 3 is known")
    codes = root.tables(1, "operator code", MAX_OPERATORS)
    subgraphs = root.tables(2, "subgraph", MAX_OPERANDS)
    buffers = root.tables(4, "buffer", 2 * MAX_TENSORS)
    if not subgraphs:
        root.buffer.fail("no subgraph")
    main = subgraphs[0]
    taken: set[str] = set()
    tables = main.tables(0, "tensor", MAX_TENSORS)
    model = Model(
        tensors=tuple(_tensor(root.buffer, buffers, t, i, taken) for i, t in enumerate(tables)),
        operators=tuple(_operator(t, i, codes) for i, t in enumerate(main.tables(3, "operator", MAX_OPERATORS))),
        inputs=main.ints(1, "the inputs of the model", MAX_OPERANDS),
        outputs=main.ints(2, "the outputs of the model", MAX_OPERANDS),
        subgraphs=len(subgraphs),
    )
    _check_numbers(model, root.buffer)
    operands = sum(len(op.inputs) + len(op.outputs) for op in model.operators)
    if operands > MAX_TENSORS:
        root.buffer.fail(f"{operands:,} operands of all nodes, more than {MAX_TENSORS:,}")
    return model


def _check_numbers(model: Model, buffer: Buffer) -> None:
    """Every cited tensor exists."""
    count = len(model.tensors)
    for what, numbers, lowest in [
        ("the model's inputs", model.inputs, 0),
        ("the model's outputs", model.outputs, 0),
        *((f"node {op.index} ({op.kind})", op.inputs, -1) for op in model.operators),
        *((f"node {op.index} ({op.kind})", op.outputs, 0) for op in model.operators),
    ]:
        for number in numbers:
            if not lowest <= number < count:
                buffer.fail(f"{what}: tensor {number:,} of {count:,}")
