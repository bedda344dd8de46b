# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The FlatBuffers reader: right values from good bytes, a `UserError` from any others."""

from __future__ import annotations

import struct
import tracemalloc

import flatbuffers
import numpy as np
import pytest

from mcufuse.errors import UserError
from mcufuse.importers.flatbuffer import Table, root_table

MARK = b"TEST"


def sample() -> bytes:
    """Fields: 0 i32 -5, 1 f32 0.5, 2 u8 vector, 3 string, 4 absent, 5 vector of two tables with field 0, 6 bool."""
    b = flatbuffers.Builder(64)
    children = []
    for value in (7, 8):
        b.StartObject(1)
        b.PrependInt32Slot(0, value, 0)
        children.append(b.EndObject())
    b.StartVector(4, 2, 4)
    for child in reversed(children):
        b.PrependUOffsetTRelative(child)
    tables = b.EndVector()
    text = b.CreateString("caf\u00e9\n")
    data = b.CreateByteVector(bytes(range(10)))
    b.StartObject(7)
    b.PrependInt32Slot(0, -5, 0)
    b.PrependFloat32Slot(1, 0.5, 0.0)
    b.PrependUOffsetTRelativeSlot(2, data, 0)
    b.PrependUOffsetTRelativeSlot(3, text, 0)
    b.PrependUOffsetTRelativeSlot(5, tables, 0)
    b.PrependBoolSlot(6, True, False)
    b.Finish(b.EndObject(), MARK)
    return bytes(b.Output())


def read(data: bytes) -> Table:
    return root_table(data, "f.bin", MARK, "the root")


def read_all(data: bytes) -> tuple[object, ...]:
    """Every field of `sample`."""
    root = read(data)
    array = root.array(2, "<u1", "bytes")
    return (
        root.integer(0),
        root.scalar(1, "f32"),
        None if array is None else array.tolist(),
        root.string(3, "text"),
        root.integer(4, default=42),
        [t.integer(0) for t in root.tables(5, "children", 10)],
        root.scalar(6, "bool", False),
        root.table(4, "nothing"),
        root.array(99, "<i4", "beyond the layout"),
    )


def test_reads_what_the_library_writes() -> None:
    assert read_all(sample()) == (-5, 0.5, list(range(10)), "caf\u00e9?", 42, [7, 8], True, None, None)


def test_arrays_are_views_of_the_file() -> None:
    data = sample()
    array = read(data).array(2, "<u1", "bytes")
    assert array is not None
    assert not array.flags.owndata
    assert not array.flags.writeable


@pytest.mark.parametrize("length", range(len(sample())))
def test_every_truncation_is_a_user_error_or_reads_less(length: int) -> None:
    """Nothing but `UserError` leaves the reader, and it names the file and its size."""
    data = sample()[:length]
    try:
        read_all(data)
    except UserError as error:
        assert "f.bin: not a TFLite model, or truncated" in str(error)
        assert f"the file has {length:,} bytes" in str(error)
    else:
        assert length >= len(sample()) - 3, "only padding may be missing"


def test_every_bit_flip_ends() -> None:
    good = sample()
    failures = 0
    for position in range(len(good)):
        for bit in range(8):
            data = bytearray(good)
            data[position] ^= 1 << bit
            try:
                read_all(bytes(data))
            except UserError:
                failures += 1
    assert failures > len(good)


def test_random_bytes_end() -> None:
    rng = np.random.default_rng(1)
    for _ in range(2000):
        data = rng.integers(0, 256, int(rng.integers(8, 80))).astype(np.uint8)
        data[4:8] = list(MARK)
        data[0:4] = [int(rng.integers(4, 40)), 0, 0, 0]
        with pytest.raises(UserError):
            read_all(bytes(data))


def test_a_long_vector_is_refused_before_allocation() -> None:
    """A claim of 2^31 - 1 elements in a file of 40 bytes."""
    data = struct.pack("<I4s", 16, MARK) + struct.pack("<HHHH", 6, 8, 4, 0) + struct.pack("<iI", 8, 4)
    data += struct.pack("<I", 0x7FFFFFFF) + bytes(12)
    root = read(data)
    tracemalloc.start()
    for item in ("<u1", "<i8"):
        with pytest.raises(UserError, match=r"2,147,483,647 elements at byte .* lies outside"):
            root.array(0, item, "the data")
    with pytest.raises(UserError, match="lies outside"):
        root.tables(0, "rows", 1 << 40)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000


def test_more_entries_than_the_limit_are_refused() -> None:
    with pytest.raises(UserError, match="2 entries, more than 1"):
        read(sample()).tables(5, "children", 1)
    with pytest.raises(UserError, match="2 elements, more than 1"):
        read(sample()).ints(5, "children", 1)


def test_a_reference_to_itself_is_refused() -> None:
    data = struct.pack("<I4s", 16, MARK) + struct.pack("<HHHH", 6, 8, 4, 0) + struct.pack("<iI", 8, 0)
    with pytest.raises(UserError, match="points to itself"):
        read(data).table(0, "child")


@pytest.mark.parametrize("layout", [(2, 8), (5, 8), (6, 2), (0, 0), (6, 60000), (60000, 8)])
def test_malformed_layouts_are_refused(layout: tuple[int, int]) -> None:
    data = struct.pack("<I4s", 16, MARK) + struct.pack("<HHHH", *layout, 4, 0) + struct.pack("<iI", 8, 4) + bytes(8)
    with pytest.raises(UserError, match=r"malformed|lies outside"):
        read(data)


def test_a_missing_mark_is_named() -> None:
    with pytest.raises(UserError, match='the mark "TEST" is missing at byte 4'):
        read(b"\x10\0\0\0ELSE" + bytes(32))
