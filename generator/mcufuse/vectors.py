# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Test inputs made from a seed, bit for bit as firmware/src/vectors.c makes them.

See there for the formulas. A case names a kind and a seed (or stores its inputs) and the outputs that
are expected; `emit_vectors_c` writes cases as C for the self-test on the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import UserError

__all__ = ["VectorCase", "VectorKind", "default_cases", "emit_vectors_c", "make_input"]

_HASH_STEP, _INPUT_STEP = 0x9E3779B9, 0x85EBCA77
_CELL_SHIFT, _CELL = 3, 8
_MASK = 0xFFFFFFFF
_BYTES_PER_LINE = 12

_U32 = npt.NDArray[np.uint32]
_LICENCE = "/*\n * Copyright (c) 2026 The mcufuse authors\n * SPDX-License-Identifier: Apache-2.0\n *\n * {what}\n */\n"


class VectorKind(IntEnum):
    """How the elements of an input are made; the values of `enum mcufuse_vector_kind`."""

    RANDOM = 0
    EXTREME = 1
    SMOOTH = 2
    STORED = 3


@dataclass(frozen=True, slots=True)
class VectorCase:
    """One inference of the self-test.

    `inputs` are given for STORED only, one array per input; `expected` is one array per output.
    """

    kind: VectorKind
    seed: int = 0
    exponent: int = 0  # float inputs lie in -2^exponent .. 2^exponent
    inputs: tuple[npt.NDArray[Any], ...] = ()
    expected: tuple[npt.NDArray[Any], ...] = ()


def default_cases(count: int, seed: int = 1, exponent: int = 0) -> list[VectorCase]:
    """`count` cases of the three generated kinds in turn, without expected outputs."""
    kinds = (VectorKind.RANDOM, VectorKind.EXTREME, VectorKind.SMOOTH)
    return [VectorCase(kinds[i % 3], (seed + i) & _MASK, exponent) for i in range(count)]


def make_input(
    kind: VectorKind,
    seed: int,
    dtype: npt.DTypeLike,
    shape: Sequence[int],
    *,
    index: int = 0,
    exponent: int = 0,
    first: int = 0,
    count: int | None = None,
) -> npt.NDArray[Any]:
    """Input number `index` of a case: `shape` without the batch dimension, `dtype` int8, uint8 or float32.

    With `count`, only that many elements from element `first` on, as a flat array.
    """
    dtype = np.dtype(dtype)
    if dtype not in (np.int8, np.uint8, np.float32) or kind == VectorKind.STORED:
        raise ValueError(f"no generated input of type {dtype} and kind {kind.name}")
    total = int(np.prod(shape, dtype=np.int64))
    n = total - first if count is None else count
    key = int(_mix(np.array([(seed + index * _INPUT_STEP) & _MASK], np.uint32))[0])
    at = (first + np.arange(n, dtype=np.uint64)).astype(np.uint32)
    is_float = dtype == np.float32
    if kind == VectorKind.SMOOTH:
        level = _smooth(key, shape, at) << np.uint32(8 if is_float else 0)
    elif kind == VectorKind.RANDOM:
        level = _hash(key, at) >> np.uint32(16 if is_float else 24)
    else:
        level = (_hash(key, at) >> np.uint32(31)) * np.uint32(65536 if is_float else 255)
    values: npt.NDArray[Any]
    if is_float:
        values = np.ldexp((level.astype(np.int32) - 32768).astype(np.float32), exponent - 15).astype(np.float32)
    elif dtype == np.int8:
        values = (level.astype(np.int32) - 128).astype(np.int8)
    else:
        values = level.astype(np.uint8)
    return values if count is not None or first else values.reshape(tuple(shape))


def emit_vectors_c(name: str, cases: Sequence[VectorCase], *, row_bytes: int = 0) -> tuple[str, str]:
    """`<name>_vectors.c` and `<name>_vectors.h` for the network `name`, which declares its model in `<name>.h`.

    They define `const struct mcufuse_vectors <name>_vectors`. `row_bytes` is the size of a row for a
    network that is fed by rows. Every case must have its expected outputs.
    """
    if not cases:
        raise UserError("there are no cases", place=f"test vectors of {name}", hint="give at least one")
    guard = f"{name.upper()}_VECTORS_H_"
    header = (
        _LICENCE.format(what=f"Test vectors of {name}, made by mcufuse.")
        + f"#ifndef {guard}\n#define {guard}\n\n#include <mcufuse/vectors.h>\n\n"
        + f"extern const struct mcufuse_vectors {name}_vectors;\n\n#endif /* {guard} */\n"
    )
    arrays: list[str] = []
    rows: list[str] = []
    for i, case in enumerate(cases):
        if not case.expected:
            raise UserError("it has no expected outputs", place=f"test vectors of {name}: case {i}")
        expected = f"{name}_expected_{i}"
        arrays.append(_array(expected, case.expected))
        stored = "NULL"
        if case.kind == VectorKind.STORED:
            stored = f"{name}_stored_{i}"
            arrays.append(_array(stored, case.inputs))
        rows.append(
            f"\t{{.kind = MCUFUSE_VECTOR_{case.kind.name}, .exponent = {case.exponent}, .seed = {case.seed:#x}U,\n"
            f"\t .stored = {stored}, .expected = {expected}}},\n"
        )
    row = f"static uint8_t {name}_vectors_row[{row_bytes}] __attribute__((aligned(16)));\n\n" if row_bytes else ""
    source = (
        _LICENCE.format(what=f"Test vectors of {name}, made by mcufuse.")
        + f'#include "{name}_vectors.h"\n#include "{name}.h"\n\n'
        + "".join(arrays)
        + row
        + f"static const struct mcufuse_vector_case {name}_cases[{len(cases)}] = {{\n{''.join(rows)}}};\n\n"
        + f"const struct mcufuse_vectors {name}_vectors = {{\n\t.model = &{name}_model,\n"
        + f"\t.cases = {name}_cases,\n\t.n_cases = {len(cases)},\n"
        + f"\t.row = {f'{name}_vectors_row' if row_bytes else 'NULL'},\n}};\n"
    )
    return source, header


def _array(name: str, tensors: Sequence[npt.NDArray[Any]]) -> str:
    data = b"".join(np.ascontiguousarray(t).tobytes() for t in tensors)
    lines = [
        "\t" + ", ".join(f"0x{b:02x}" for b in data[at : at + _BYTES_PER_LINE]) + ",\n"
        for at in range(0, len(data), _BYTES_PER_LINE)
    ]
    return f"static const uint8_t {name}[{len(data)}] = {{\n{''.join(lines)}}};\n\n"


def _mix(x: _U32) -> _U32:
    x = x ^ (x >> np.uint32(16))
    x = x * np.uint32(0x85EBCA6B)
    x = x ^ (x >> np.uint32(13))
    x = x * np.uint32(0xC2B2AE35)
    return x ^ (x >> np.uint32(16))


def _hash(key: int, i: _U32) -> _U32:
    return _mix(np.uint32(key) + i * np.uint32(_HASH_STEP))


def _smooth(key: int, shape: Sequence[int], at: _U32) -> _U32:
    rank = len(shape)
    channels = np.uint32(shape[-1] if rank >= 3 else 1)
    cols = np.uint32(shape[-2] if rank >= 3 else (shape[-1] if rank else 1))
    lattice_cols = (cols >> np.uint32(_CELL_SHIFT)) + np.uint32(2)
    c, x, y = at % channels, at // channels % cols, at // channels // cols
    cell_y, cell_x = y >> np.uint32(_CELL_SHIFT), x >> np.uint32(_CELL_SHIFT)
    t_y, t_x = y & np.uint32(_CELL - 1), x & np.uint32(_CELL - 1)
    one, cell = np.uint32(1), np.uint32(_CELL)

    def lattice(row: _U32, col: _U32) -> _U32:
        return _hash(key, (row * lattice_cols + col) * channels + c) >> np.uint32(24)

    upper = lattice(cell_y, cell_x) * (cell - t_x) + lattice(cell_y, cell_x + one) * t_x
    lower = lattice(cell_y + one, cell_x) * (cell - t_x) + lattice(cell_y + one, cell_x + one) * t_x
    level: _U32 = (upper * (cell - t_y) + lower * t_y + np.uint32(_CELL * _CELL // 2)) >> np.uint32(2 * _CELL_SHIFT)
    return level
