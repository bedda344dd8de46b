# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Prints constants as C in Zephyr's style."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..kernels.base import CArray, CStruct, CValue

__all__ = ["array_definition", "array_key", "c_comment", "c_value", "struct_initializer"]

_WIDTH = 96


def c_comment(text: str) -> str:
    """`text` made safe inside a C comment: names come from model files."""
    return "".join(ch if " " <= ch <= "~" else "?" for ch in text).replace("*/", "* /").replace("/*", "/ *")


def c_value(value: CValue, arrays: Mapping[tuple[str, bytes], str]) -> str:
    """One initializer; `arrays` maps `array_key` to the names of emitted arrays."""
    if value is None:
        return "NULL"
    if isinstance(value, CArray):
        return arrays[array_key(value)]
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return float_literal(value)
    if isinstance(value, (int, np.integer)):
        return int_literal(int(value))
    return value


def int_literal(value: int) -> str:
    """An int32 literal; INT32_MIN needs an expression."""
    return "INT32_MIN" if value == -(1 << 31) else str(value)


def float_literal(value: float) -> str:
    """An exact hexadecimal float literal."""
    return f"{float(np.float32(value)).hex()}f"


def array_key(array: CArray) -> tuple[str, bytes]:
    """Equal keys: the same array in flash."""
    return array.ctype, np.ascontiguousarray(array.values).tobytes()


def array_definition(name: str, array: CArray) -> str:
    """`static const <type> <name>[n] = {...};` filled to the line width."""
    flat = np.ravel(array.values)
    texts = [float_literal(float(v)) if array.ctype == "float" else int_literal(int(v)) for v in flat]
    lines, line = [], "\t"
    for text in texts:
        if len(line.expandtabs(8)) + len(text) + 2 > _WIDTH:
            lines.append(line.rstrip())
            line = "\t"
        line += text + ", "
    lines.append(line.rstrip())
    align = f" __attribute__((aligned({array.align})))" if array.align > flat.dtype.itemsize else ""
    return f"static const {array.ctype} {name}[{flat.size}] MF_WEIGHTS{align} = {{\n" + "\n".join(lines) + "\n};\n"


def struct_initializer(struct: CStruct, arrays: Mapping[tuple[str, bytes], str]) -> str:
    """`{.field = value, ...}` one field a line, indented by one tab."""
    if not struct.fields:
        return "{0}"
    return "{\n" + "".join(f"\t.{name} = {c_value(value, arrays)},\n" for name, value in struct.fields) + "}"
