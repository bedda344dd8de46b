# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""A bounds-checked reader of FlatBuffers: enough of the format for model files, and safe on any bytes.

    root: u32 offset ──> table: i32 distance back to its vtable, then the inline fields
                         vtable: u16 bytes of vtable, u16 bytes of table, u16 offset of each field (0: absent)
    vector: u32 count, then the elements; a string is a vector of bytes; references are u32, forwards only

References point forwards only and the schema is of fixed depth, so that reading ends on any input. Every read is
checked against the file's length, and a vector against it before anything is allocated. All faults are
`UserError`s. Layout: https://flatbuffers.dev/internals/ (Binary Format).
"""

from __future__ import annotations

import struct
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from ..errors import UserError

__all__ = ["Buffer", "Table", "root_table"]

_U16, _I32, _U32, _U64, _F32 = (struct.Struct(code) for code in ("<H", "<i", "<I", "<Q", "<f"))
_SCALARS = {
    "bool": (struct.Struct("<?"), 1),
    "i8": (struct.Struct("<b"), 1),
    "u8": (struct.Struct("<B"), 1),
    "i32": (_I32, 4),
    "u32": (_U32, 4),
    "u64": (_U64, 8),
    "f32": (_F32, 4),
}
_MAX_STRING = 4096


class Buffer:
    """The bytes of a file with checked access; `place` is the file's name in messages."""

    def __init__(self, data: bytes, place: str) -> None:
        self.data = data
        self.place = place

    def fail(self, what: str) -> NoReturn:
        """Raises the `UserError` for a file that does not hold what it says."""
        raise UserError(
            f"not a TFLite model, or truncated: {what} (the file has {len(self.data):,} bytes)",
            place=self.place,
            hint="copy or convert the model again",
        )

    def span(self, start: int, length: int, what: str) -> int:
        """`start`, after checking that [start, start + length) lies inside the file."""
        if start < 0 or length < 0 or start + length > len(self.data):
            self.fail(f"{what} at byte {start:,} lies outside")
        return start

    def u16(self, at: int, what: str) -> int:
        """An unsigned 16-bit number."""
        return int(_U16.unpack_from(self.data, self.span(at, 2, what))[0])

    def i32(self, at: int, what: str) -> int:
        """A signed 32-bit number."""
        return int(_I32.unpack_from(self.data, self.span(at, 4, what))[0])

    def u32(self, at: int, what: str) -> int:
        """An unsigned 32-bit number."""
        return int(_U32.unpack_from(self.data, self.span(at, 4, what))[0])

    def follow(self, at: int, what: str) -> int:
        """The position that the reference at `at` points to."""
        distance = self.u32(at, what)
        if distance == 0:
            self.fail(f"{what} at byte {at:,} points to itself")
        return self.span(at + distance, 4, what)


class Table:
    """One table; fields are read by their number in the schema (0 for the first)."""

    __slots__ = ("_bytes", "_fields", "_vtable", "at", "buffer", "what")

    def __init__(self, buffer: Buffer, at: int, what: str) -> None:
        self.buffer, self.at, self.what = buffer, at, what
        self._vtable = at - buffer.i32(at, what)
        length = buffer.u16(self._vtable, f"the layout of {what}")
        self._bytes = buffer.u16(self._vtable + 2, f"the layout of {what}")
        if length < 4 or length % 2 or self._bytes < 4:
            buffer.fail(f"the layout of {what} at byte {self._vtable:,} is malformed")
        buffer.span(self._vtable, length, f"the layout of {what}")
        buffer.span(at, self._bytes, what)
        self._fields = (length - 4) // 2

    def _field(self, number: int, size: int) -> int | None:
        """Where a field stands, or None if the table does not hold it."""
        if number >= self._fields:
            return None
        offset = self.buffer.u16(self._vtable + 4 + 2 * number, self.what)
        if offset == 0:
            return None
        if offset < 4 or offset + size > self._bytes:
            self.buffer.fail(f"field {number} of {self.what} at byte {self.at:,} lies outside its table")
        return self.at + offset

    def scalar(self, number: int, kind: str, default: Any = 0) -> Any:
        """A number (`kind`: bool, i8, u8, i32, u32, u64, f32), or `default` if absent."""
        unpacker, size = _SCALARS[kind]
        at = self._field(number, size)
        return default if at is None else unpacker.unpack_from(self.buffer.data, at)[0]

    def integer(self, number: int, kind: str = "i32", default: int = 0) -> int:
        """A whole number."""
        return int(self.scalar(number, kind, default))

    def table(self, number: int, what: str) -> Table | None:
        """A sub-table, or None."""
        at = self._field(number, 4)
        return None if at is None else Table(self.buffer, self.buffer.follow(at, what), what)

    def _vector(self, number: int, item_bytes: int, what: str) -> tuple[int, int] | None:
        """(position of the first element, count) of a vector that lies inside the file."""
        at = self._field(number, 4)
        if at is None:
            return None
        start = self.buffer.follow(at, what)
        count = self.buffer.u32(start, what)
        self.buffer.span(start + 4, count * item_bytes, f"{what} of {count:,} elements")
        return start + 4, count

    def array(self, number: int, dtype: str, what: str) -> npt.NDArray[Any] | None:
        """A vector of numbers (`dtype` as NumPy's little-endian code, "<i4"), not copied; None if absent."""
        item = np.dtype(dtype)
        found = self._vector(number, item.itemsize, what)
        if found is None:
            return None
        return np.frombuffer(self.buffer.data, item, count=found[1], offset=found[0])

    def ints(self, number: int, what: str, limit: int) -> tuple[int, ...]:
        """A vector of int32; refused if longer than `limit`; () if absent."""
        values = self.array(number, "<i4", what)
        if values is None:
            return ()
        if len(values) > limit:
            self.buffer.fail(f"{what} has {len(values):,} elements, more than {limit:,}")
        return tuple(values.tolist())

    def string(self, number: int, what: str) -> str:
        """A string, printable and at most 4,096 bytes of it; "" if absent."""
        found = self._vector(number, 1, what)
        if found is None:
            return ""
        raw = self.buffer.data[found[0] : found[0] + min(found[1], _MAX_STRING)].decode("utf-8", "replace")
        return "".join(c if c.isprintable() else "?" for c in raw)

    def tables(self, number: int, what: str, limit: int) -> list[Table]:
        """A vector of tables; refused if longer than `limit`; [] if absent."""
        found = self._vector(number, 4, what)
        if found is None:
            return []
        first, count = found
        if count > limit:
            self.buffer.fail(f"{what}: {count:,} entries, more than {limit:,}")
        places = range(first, first + 4 * count, 4)
        return [Table(self.buffer, self.buffer.follow(at, what), f"{what} {i}") for i, at in enumerate(places)]


def root_table(data: bytes, place: str, identifier: bytes, what: str) -> Table:
    """The root table of a file with a four-byte identifier at byte 4; raises `UserError`."""
    buffer = Buffer(data, place)
    if data[4:8] != identifier:
        buffer.fail(f'the mark "{identifier.decode()}" is missing at byte 4')
    return Table(buffer, buffer.follow(0, what), what)
