# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The table of TFLite operators, and what is said about those that are not in it."""

from __future__ import annotations

from .tflite_ops_arith import ROWS as ARITH
from .tflite_ops_base import QUANTIZE_HINT, Row
from .tflite_ops_const import FOLDED
from .tflite_ops_linear import ROWS as LINEAR
from .tflite_ops_pool import ROWS as POOL
from .tflite_ops_shape import ROWS as SHAPE
from .tflite_ops_unary import ROWS as UNARY

__all__ = ["OPERATORS", "ROWS", "markdown", "unsupported"]

ROWS: tuple[Row, ...] = LINEAR + POOL + ARITH + UNARY + SHAPE
OPERATORS: dict[str, Row] = {row.kind: row for row in ROWS}

_STATE = (
    "keeps state between runs",
    "export the network without state: let the application keep the window of past frames and pass it as input",
)
_CONTROL = ("control flow", "unroll or freeze it before converting")
_UNSUPPORTED: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE", "SVDF"), _STATE),
    **dict.fromkeys(
        ("LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM", "RNN", "UNIDIRECTIONAL_SEQUENCE_RNN",
         "BIDIRECTIONAL_SEQUENCE_RNN"),
        ("recurrent layers are not supported", "use convolutions over time"),
    ),
    **dict.fromkeys(("IF", "WHILE", "CALL"), _CONTROL),
    "RESIZE_BILINEAR": ("not supported", "use nearest-neighbour resizing"),
    "TRANSPOSE_CONV": ("not supported", "use nearest-neighbour resizing and a convolution"),
    "MIRROR_PAD": ("not supported", "pad with zeros"),
    "SUM": ("not supported", "use a mean and scale the next layer"),
    "DIV": ("not supported", "multiply by the reciprocal"),
    "BATCH_MATMUL": ("the product of two activations is not supported", "use a dense layer with constant weights"),
    "MAXIMUM": ("not supported", "use ReLU, ReLU6 or a clip that the converter fuses"),
    "MINIMUM": ("not supported", "use ReLU, ReLU6 or a clip that the converter fuses"),
    "ARG_MAX": ("not supported", "let the application take the greatest output"),
    "ARG_MIN": ("not supported", "let the application take the smallest output"),
    "CAST": ("not supported on activations", QUANTIZE_HINT),
    "SHAPE": ("the shape of a dynamic tensor", "fix the input's shape"),
    "GATHER": ("only of constants", "use slices"),
}  # fmt: skip


def unsupported(kind: str) -> tuple[str, str]:
    """(reason, hint) for an operator without a converter."""
    if kind.startswith("CUSTOM"):
        return "custom operators are not supported", "replace the layer by built-in ones"
    return _UNSUPPORTED.get(kind, ("not supported", "docs/operators.md lists what is; replace the layer"))


def markdown() -> str:
    """The TFLite table of docs/operators.md."""
    lines = ["| TFLite operator | becomes | accepted |", "|---|---|---|"]
    lines += [f"| {row.kind} | {row.becomes} | {row.accepts} |" for row in sorted(ROWS, key=lambda r: r.kind)]
    lines += ["", "Computed at compile time when their operands are constant: " + ", ".join(sorted(FOLDED)) + "."]
    return "\n".join(lines) + "\n"
