# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""mcufuse turns a trained int8 network into Cortex-M firmware that provably fits."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
