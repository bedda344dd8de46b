# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""How large a model may claim to be: far above any microcontroller, far below what would hurt the host.

The limits are checked on claimed sizes, before anything is allocated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = [
    "MAX_FILE_BYTES", "MAX_OPERANDS", "MAX_OPERATORS", "MAX_RANK", "MAX_TENSORS", "MAX_TENSOR_BYTES", "Budget",
    "shape_fault",
]  # fmt: skip

MAX_FILE_BYTES = 256 << 20
MAX_TENSOR_BYTES = 64 << 20
MAX_TENSORS = 65_536
MAX_OPERATORS = 8_192
MAX_OPERANDS = 1_024  # of one operator
MAX_RANK = 8


def shape_fault(shape: Sequence[int], item_bytes: int) -> str | None:
    """Why a static shape is not acceptable, or None."""
    if len(shape) > MAX_RANK:
        return f"{len(shape)} dimensions; at most {MAX_RANK} are read"
    if any(d < 0 for d in shape):
        return f"the dynamic shape {list(shape)}"
    if any(d == 0 for d in shape):
        return f"the empty shape {list(shape)}"
    size = math.prod(shape) * item_bytes  # Python's integers do not overflow
    if size > MAX_TENSOR_BYTES:
        return f"the shape {list(shape)}, {size:,} bytes; at most {MAX_TENSOR_BYTES:,} are accepted"
    return None


class Budget:
    """Bounds the work that many small claims add up to (each operator may cite the same large tensor)."""

    def __init__(self, limit: int) -> None:
        self._left = limit

    def spend(self, amount: int) -> bool:
        """Whether `amount` more is still within the limit."""
        self._left -= amount
        return self._left >= 0
