# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""What `optimize:` in the YAML means for the planner and the emitter."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from .config import Config, Optimize

__all__ = ["BALANCED", "OBJECTIVES", "Objective", "objective_of"]

_NEVER = 1 << 30


@dataclass(frozen=True, slots=True)
class Objective:
    """`ram_allowance`: how far the arena may exceed the least one (`plan_arena`); `least_to_share`: from how many
    configurations of a kernel on its code is shared (`emit.instances`); `scratch_limit`: bytes of scratch that a
    kernel may take where another one takes less (`lower_graph`)."""

    ram_allowance: float
    least_to_share: int
    scratch_limit: int | None = None


BALANCED = Objective(1.05, 3)
OBJECTIVES = {
    Optimize.BALANCED: BALANCED,
    Optimize.RAM: Objective(1.0, 3),
    Optimize.LATENCY: Objective(math.inf, _NEVER),
    Optimize.FLASH: Objective(1.05, 2),
}


def objective_of(config: Config) -> Objective:
    """What `optimize:` says, with the choices that `plan:` pins."""
    objective = replace(OBJECTIVES[config.optimize], scratch_limit=config.plan.scratch)
    return objective if config.plan.allowance is None else replace(objective, ram_allowance=config.plan.allowance)
