# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The cores that mcufuse generates for, and what their instruction sets offer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from .errors import UserError

__all__ = ["CORES", "DEFAULT_CORE", "Core", "Flash", "Isa", "core_by_name"]


class Isa(Enum):
    """What a kernel may rely on; every kernel set above PORTABLE is bit-identical to it."""

    BASE = "base"  # Armv6-M, Armv7-M, Armv8-M Baseline, the host: plain C
    DSP = "dsp"  # Armv7E-M, Armv8-M with DSP: SMLAD, SXTB16, SMMULR, SSAT
    MVE = "mve"  # Armv8.1-M with Helium (integer): VMLADAVA, predication


@dataclass(frozen=True, slots=True)
class Core:
    """One core: how it is named, compiled for and what it can do."""

    name: str
    isa: Isa
    gcc: tuple[str, ...]  # bare-metal compiler flags
    armv6: bool = False  # no SMULL, no unaligned loads, few instructions that reach the high registers

    @property
    def counts_as(self) -> str:
        """Cores of the same answer take about the same instructions for the same row function."""
        return "armv6" if self.armv6 else self.isa.value


@dataclass(frozen=True, slots=True)
class Flash:
    """How a part's flash answers, as its reference manual says for the clock in use. The default does not wait."""

    wait_states: int = 0  # cycles that the core waits for a line
    line_bytes: int = 16  # bytes read at once
    icache_bytes: int = 0  # cache between core and flash, for code
    dcache_bytes: int = 0  # the same for constants


CORES: tuple[Core, ...] = (
    Core("cortex-m0plus", Isa.BASE, ("-mcpu=cortex-m0plus", "-mthumb"), armv6=True),
    Core("cortex-m3", Isa.BASE, ("-mcpu=cortex-m3", "-mthumb")),
    Core("cortex-m4", Isa.DSP, ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=soft")),
    Core("cortex-m7", Isa.DSP, ("-mcpu=cortex-m7", "-mthumb", "-mfloat-abi=soft")),
    Core("cortex-m33", Isa.DSP, ("-mcpu=cortex-m33", "-mthumb", "-mfloat-abi=soft")),
    Core("cortex-m55", Isa.MVE, ("-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard")),
)
DEFAULT_CORE = "cortex-m3"
_ALIASES = {"cortex-m0": "cortex-m0plus", "cortex-m0+": "cortex-m0plus"}


def core_by_name(name: str) -> Core:
    """The core called `name` ("cortex-m4", or short "m4"); raises `UserError` with the known names."""
    full = name if name.startswith("cortex-") else f"cortex-{name}"
    full = _ALIASES.get(full, full)
    for core in CORES:
        if core.name == full:
            return core
    raise UserError(f'unknown core "{name}"', hint="known cores: " + ", ".join(c.name for c in CORES))
