# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Everything that knows Zephyr: its configuration, devicetree, workspaces, builds and tests.

Nothing outside this package imports from it, except the command line.
"""

from __future__ import annotations
