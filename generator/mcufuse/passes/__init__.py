# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Exact rewrites: each takes a graph and gives one with the same output bits. Their order is this list."""

from __future__ import annotations

from collections.abc import Callable

from ..ir import Graph

__all__ = ["PASSES"]

PASSES: tuple[Callable[[Graph], Graph], ...] = ()
