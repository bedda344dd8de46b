# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Exact rewrites: each takes a graph and gives one with the same output bits. Their order is this list."""

from __future__ import annotations

from collections.abc import Callable

from ..ir import Graph
from .canonical import canonicalize
from .cleanup import fold_constants, remove_identities
from .constant_channels import remove_constant_channels
from .layout import push_layout
from .pads import fold_padding
from .tables import compose_tables, tables_to_clamps

__all__ = ["PASSES"]

PASSES: tuple[Callable[[Graph], Graph], ...] = (
    push_layout,
    fold_constants,
    remove_identities,
    compose_tables,
    tables_to_clamps,
    fold_padding,
    remove_identities,
    canonicalize,
    remove_constant_channels,
)
