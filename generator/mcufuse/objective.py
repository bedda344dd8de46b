# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""What `optimize:` in the YAML means for the planner and the emitter."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .config import Optimize

__all__ = ["BALANCED", "OBJECTIVES", "Objective"]

_NEVER = 1 << 30


@dataclass(frozen=True, slots=True)
class Objective:
    """`ram_allowance`: how far the arena may exceed the least one (`plan_arena`); `least_to_share`: from how many
    configurations of a kernel on its code is shared (`emit.instances`)."""

    ram_allowance: float
    least_to_share: int


BALANCED = Objective(1.05, 3)
OBJECTIVES = {
    Optimize.BALANCED: BALANCED,
    Optimize.RAM: Objective(1.0, 3),
    Optimize.LATENCY: Objective(math.inf, _NEVER),
    Optimize.FLASH: Objective(1.05, 2),
}
