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
    configurations of a kernel on its code is shared (`emit.instances`); `kib_must_save`: the fraction of the network's
    instructions that a KiB of code must save (`lower_graph`); `scratch_limit`: bytes of scratch that a kernel may take
    where another one takes less (`lower_graph`); `level`: the compiler's optimisation flag."""

    ram_allowance: float
    least_to_share: int
    kib_must_save: float
    scratch_limit: int | None = None
    level: str = "-O2"


BALANCED = Objective(1.05, 3, 0.0122)
OBJECTIVES = {
    Optimize.BALANCED: BALANCED,
    Optimize.RAM: Objective(1.0, 3, 0.0122),
    Optimize.LATENCY: Objective(math.inf, _NEVER, 0.0001),
    Optimize.FLASH: Objective(1.05, 2, 0.12, level="-Os"),
}


def objective_of(config: Config) -> Objective:
    """What `optimize:` says, with the choices that `plan:` pins."""
    objective = replace(OBJECTIVES[config.optimize], scratch_limit=config.plan.scratch)
    return objective if config.plan.allowance is None else replace(objective, ram_allowance=config.plan.allowance)
