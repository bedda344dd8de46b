# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Sizes and counts as people write and read them.

K, KB and KiB all mean 1,024 bytes, as in Zephyr's devicetrees, the linker's tables and data sheets.
"""

from __future__ import annotations

import re
from fractions import Fraction

__all__ = ["MAX_SIZE", "format_bytes", "format_count", "parse_bytes"]

MAX_SIZE = 1 << 32  # the address space of the cores

_UNITS = {"": 1, "b": 1, "byte": 1, "bytes": 1}
_UNITS |= dict.fromkeys(("k", "kb", "kib"), 1 << 10)
_UNITS |= dict.fromkeys(("m", "mb", "mib"), 1 << 20)
_SIZE = re.compile(r"(0x[0-9a-f]+|[0-9][0-9,_]*)(\.[0-9]+)?\s*([a-z]*)", re.IGNORECASE | re.ASCII)
_GROUPED = re.compile(r"(0|[1-9][0-9]*|[1-9][0-9]{0,2}([,_][0-9]{3})+)", re.ASCII)


def parse_bytes(text: str) -> int:
    """Bytes of "16 KiB", "64KB", "12,000 B", "1.5 MiB", "4096" or "0x4000"; raises `ValueError` with the reason."""
    found = _SIZE.fullmatch(text.strip()) if len(text) < 64 else None
    if not found:
        raise ValueError("not a size")
    number, fraction, unit = found.groups()
    factor = _UNITS.get(unit.lower())
    if factor is None:
        raise ValueError(f'unknown unit "{unit}"')
    if number.lower().startswith("0x"):
        if fraction:
            raise ValueError("not a size")
        whole = int(number, 16)
    else:
        if not _GROUPED.fullmatch(number):
            raise ValueError("digits are grouped by three, and leading zeros are ambiguous")
        whole = int(number.replace(",", "").replace("_", ""))
    size = (whole + Fraction("0" + (fraction or ""))) * factor
    if size.denominator != 1:
        raise ValueError("not a whole number of bytes")
    if size > MAX_SIZE:
        raise ValueError("more than the 4 GiB that these cores can address")
    return int(size)


def format_count(value: float) -> str:
    """1234567 -> "1,234,567"; fractions are rounded."""
    return f"{round(value):,}"


def format_bytes(value: int) -> str:
    """12288 -> "12,288 B (12.0 KiB)"; below 1 KiB only the bytes."""
    if abs(value) < 1 << 10:
        return f"{value:,} B"
    if abs(value) < 1 << 20:
        return f"{value:,} B ({value / (1 << 10):,.1f} KiB)"
    return f"{value:,} B ({value / (1 << 20):,.2f} MiB)"
