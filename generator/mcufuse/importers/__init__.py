# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Reading model files. `load_model` tells the formats apart by content; the readers are imported when needed."""

from __future__ import annotations

from pathlib import Path

from ..errors import UserError
from ..ir import Graph, Rounding
from .limits import MAX_FILE_BYTES

__all__ = ["load_model"]

_TFLITE_MARK = b"TFL3"  # at byte 4
_CONVERT = "convert the trained network to int8 .tflite or to quantized .onnx first"

# What a file starts with that people pass by mistake: (bytes, what it is, what to do).
_OTHER_FORMATS: tuple[tuple[bytes, str, str], ...] = (
    (b"version https://git-lfs", "a Git LFS pointer, not the model itself", "run `git lfs pull`"),
    (b"\x89HDF\r\n", "a Keras HDF5 file", _CONVERT),
    (b"PK\x03\x04", "a zip archive (a .keras, PyTorch or .zip file)", _CONVERT),
    (b"\x1f\x8b", "a gzip archive", "unpack it first"),
    (b"<!DOCTYPE", "a web page, probably a failed download", "download the model again"),
    (b"<html", "a web page, probably a failed download", "download the model again"),
    (b"\x80\x02", "a Python pickle (an old PyTorch file)", _CONVERT),
)


def _read(path: Path) -> bytes:
    """The file's bytes; raises `UserError` for a missing, unreadable, empty or far too large file."""
    try:
        if path.is_dir():
            raise UserError("a directory, not a model file", place=str(path), hint=_CONVERT)
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            reason = f"{size:,} bytes; model files up to {MAX_FILE_BYTES:,} bytes are read"
            raise UserError(reason, place=str(path), hint="is this the quantized network?")
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read the model: {error.strerror}", place=str(path)) from error
    if not data:
        raise UserError("the model file is empty", place=str(path), hint="copy or convert the model again")
    return data


def _looks_like_onnx(data: bytes) -> bool:
    """Whether the bytes start like a protobuf ModelProto: field 1 (ir_version, a small varint)."""
    return len(data) >= 2 and data[0] == 0x08 and 0 < data[1] < 0x40


def load_model(path: Path, rounding: Rounding | None) -> Graph:
    """Reads a .tflite or .onnx file into a graph.

    `rounding` None takes the format's own (TFLITE for TFLite, ONNX for ONNX). Raises `UserError` with all problems
    of the model.
    """
    data = _read(path)
    suffix = path.suffix.lower()
    for start, what, hint in _OTHER_FORMATS:
        if data.startswith(start):
            raise UserError(f"this is {what}", place=str(path), hint=hint)
    is_tflite = data[4:8] == _TFLITE_MARK
    if is_tflite and suffix == ".onnx":
        raise UserError("named .onnx, but it holds a TFLite model", place=str(path), hint="rename it to .tflite")
    if suffix == ".tflite" and not is_tflite and _looks_like_onnx(data):
        raise UserError("named .tflite, but it holds an ONNX model", place=str(path), hint="rename it to .onnx")
    if is_tflite or suffix == ".tflite":
        from .tflite import import_tflite

        return import_tflite(path, data, rounding)
    if suffix == ".onnx" or _looks_like_onnx(data):
        from .onnx import import_onnx

        return import_onnx(path, data, rounding)
    raise UserError("neither a TFLite nor an ONNX model", place=str(path), hint=_CONVERT)
