# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the description of a network, `struct mcufuse_model` of mcufuse.h, out of a linked image.

The layout is that of AAPCS32. An enum takes 1 byte or 4, as the image's build attributes say.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .elf import ImageSizes, network_names
from .errors import UserError

__all__ = ["LinkedModel", "LinkedStep", "LinkedTensor", "read_model"]

_MODEL = struct.Struct("<IIIIIIHHHHH2xIIII8s")
_STEP = struct.Struct("<III")
_TENSOR_SHORT = struct.Struct("<IBB4H2xIIfi")
_TENSOR_LONG = struct.Struct("<IIBx4H2xIIfi")
_DTYPES = (np.int8, np.uint8, np.float32)
_NAME_MAX = 256


@dataclass(frozen=True, slots=True)
class LinkedTensor:
    """An input or output; `offset` is in bytes from the start of the arena."""

    name: str
    dtype: npt.DTypeLike
    shape: tuple[int, ...]
    offset: int
    n_bytes: int
    scale: float
    zero_point: int

    def to_bytes(self, value: npt.NDArray[Any]) -> bytes:
        """The tensor as it stands in the arena; raises `UserError` when type or size do not fit."""
        if value.dtype != self.dtype or value.nbytes != self.n_bytes:
            raise UserError(
                f"{value.dtype} values of shape {value.shape} ({value.nbytes} B) were given, but it takes "
                f"{np.dtype(self.dtype)} of shape {self.shape} ({self.n_bytes} B)",
                place=f'input "{self.name}"',
                hint="leave out the batch dimension; NHWC order",
            )
        return np.ascontiguousarray(value).tobytes()

    def from_bytes(self, data: bytes) -> npt.NDArray[Any]:
        """The tensor with its shape."""
        return np.frombuffer(data, dtype=self.dtype).reshape(self.shape)


@dataclass(frozen=True, slots=True)
class LinkedStep:
    """One entry of the schedule; `function` is "" for the stage that is run by feeding rows."""

    name: str
    function: str
    macs: int


@dataclass(frozen=True, slots=True)
class LinkedModel:
    """A network as it stands in an image."""

    name: str
    arena: int
    arena_bytes: int
    inputs: tuple[LinkedTensor, ...]
    outputs: tuple[LinkedTensor, ...]
    steps: tuple[LinkedStep, ...]
    input_rows: int  # 0 when the input is resident
    row_bytes: int
    feed_row: str  # name of the function, or ""
    reset: str
    hash: bytes


def read_model(image: ImageSizes, name: str) -> LinkedModel:
    """The network `name` in `image`; raises `UserError` when there is none or it does not make sense."""
    symbol = image.symbol(f"{name}_model")
    if symbol is None:
        known = ", ".join(network_names(image)) or "none"
        raise UserError(f'there is no network "{name}" in the image', place=str(image.path), hint=f"found: {known}")
    try:
        return _model(image, symbol.address)
    except (KeyError, IndexError, UnicodeDecodeError) as error:
        raise UserError(
            f'the description of network "{name}" makes no sense ({error})',
            place=str(image.path),
            hint="build the image again with this version of mcufuse",
        ) from error


def _model(image: ImageSizes, address: int) -> LinkedModel:
    fields = _MODEL.unpack(image.read(address, _MODEL.size))
    name, arena, arena_bytes, inputs, outputs, steps, n_inputs, n_outputs, n_steps, rows = fields[:10]
    _, row_bytes, feed_row, reset, _, digest = fields[10:]
    return LinkedModel(
        name=_text(image, name),
        arena=arena,
        arena_bytes=arena_bytes,
        inputs=_tensors(image, inputs, n_inputs),
        outputs=_tensors(image, outputs, n_outputs),
        steps=tuple(_step(image, steps + i * _STEP.size) for i in range(n_steps)),
        input_rows=rows,
        row_bytes=row_bytes,
        feed_row=_function(image, feed_row),
        reset=_function(image, reset),
        hash=digest,
    )


def _step(image: ImageSizes, address: int) -> LinkedStep:
    name, run, macs = _STEP.unpack(image.read(address, _STEP.size))
    return LinkedStep(_text(image, name), _function(image, run), macs)


def _tensors(image: ImageSizes, address: int, count: int) -> tuple[LinkedTensor, ...]:
    layout = _TENSOR_SHORT if image.short_enums else _TENSOR_LONG
    found = []
    for i in range(count):
        name, dtype, rank, *shape, offset, n_bytes, scale, zero = layout.unpack(
            image.read(address + i * layout.size, layout.size)
        )
        found.append(
            LinkedTensor(_text(image, name), _DTYPES[dtype], tuple(shape[:rank]), offset, n_bytes, scale, zero)
        )
    return tuple(found)


def _function(image: ImageSizes, address: int) -> str:
    if address == 0:
        return ""
    symbol = image.function_at(address)
    if symbol is None:
        raise KeyError(f"no function at {address:#x}")
    return symbol.name


def _text(image: ImageSizes, address: int) -> str:
    data = bytearray()
    while len(data) < _NAME_MAX and (byte := image.read(address + len(data), 1)) != b"\0":
        data += byte
    return data.decode()
