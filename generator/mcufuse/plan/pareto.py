# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The choices that no other one beats."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

__all__ = ["least_on_front"]

T = TypeVar("T")


def least_on_front(items: Iterable[T], cost: Callable[[T], tuple[int, int]]) -> list[T]:
    """Items whose two costs no other item has both, or one of them and less of the other; by rising first cost.

    Of items with equal costs the first one given is kept.
    """
    front: list[T] = []
    for item in sorted(items, key=cost):
        if not front or cost(item)[1] < cost(front[-1])[1]:
            front.append(item)
    return front
