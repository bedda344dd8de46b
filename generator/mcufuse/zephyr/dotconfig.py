# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""What Zephyr's `.config` says about the core, its instruction set and its memory.

The instruction set is the one that Zephyr lets the compiler use (cmake/gcc-m-cpu.cmake), not the one
that the silicon has: Helium needs CONFIG_FPU, because without it Zephyr keeps a soft-float ABI and the
compiler then has no vector registers; no symbol tells of the DSP extension of Armv7E-M.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import UserError
from ..target import Core, Isa, core_by_name

__all__ = ["DotConfig", "core_from_dotconfig", "read_dotconfig"]

_LINE = re.compile(r"CONFIG_(?P<key>\w+)=(?P<value>.*)")
_KIB = 1024

# Kconfig symbol of the core -> the nearest core that mcufuse generates for. Order matters only to readers.
_CORES = {
    "CPU_CORTEX_M0": "cortex-m0plus",
    "CPU_CORTEX_M0PLUS": "cortex-m0plus",
    "CPU_CORTEX_M1": "cortex-m0plus",
    "CPU_CORTEX_M23": "cortex-m0plus",
    "CPU_CORTEX_M3": "cortex-m3",
    "CPU_CORTEX_M4": "cortex-m4",
    "CPU_CORTEX_M7": "cortex-m7",
    "CPU_CORTEX_M33": "cortex-m33",
    "CPU_CORTEX_M55": "cortex-m55",
    "CPU_CORTEX_M85": "cortex-m55",
}


@dataclass(frozen=True, slots=True)
class DotConfig:
    """The symbols of one `.config`, without their CONFIG_ prefix; symbols that are n are absent."""

    path: Path
    symbols: Mapping[str, str]

    def flag(self, name: str) -> bool:
        """Whether the bool symbol `name` is y."""
        return self.symbols.get(name) == "y"

    def number(self, name: str, default: int = 0) -> int:
        """The int or hex symbol `name`."""
        text = self.symbols.get(name, "")
        return int(text, 0) if text else default

    def text(self, name: str, default: str = "") -> str:
        """The string symbol `name`."""
        return self.symbols.get(name, default).strip('"')

    @property
    def sram_bytes(self) -> int:
        """Size of the region that holds Zephyr's data, in bytes; 0 if unknown."""
        return self.number("SRAM_SIZE") * _KIB

    @property
    def flash_bytes(self) -> int:
        """Size of the region that holds the image, in bytes; 0 if unknown.

        As Zephyr's linker script has it: the code partition when one is used, else the flash
        behind the load offset; the RAM when the image runs from there.
        """
        if not self.flag("XIP"):
            return self.sram_bytes
        load = self.number("FLASH_LOAD_SIZE")
        return load or self.number("FLASH_SIZE") * _KIB - self.number("FLASH_LOAD_OFFSET")

    @property
    def main_stack_bytes(self) -> int:
        """Stack of the main thread, in bytes."""
        return self.number("MAIN_STACK_SIZE")


def read_dotconfig(path: Path) -> DotConfig:
    """Reads `path` (build/zephyr/.config); raises `UserError` if it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"cannot read the Kconfig output: {error.strerror}", place=str(path), hint="configure the build first"
        ) from error
    matches = (_LINE.fullmatch(line) for line in text.splitlines())
    return DotConfig(path, {m["key"]: m["value"] for m in matches if m and m["value"] != "n"})


def core_from_dotconfig(path: Path) -> Core:
    """The core of the build whose `.config` is `path`, with the instruction set that its compiler may use.

    Raises `UserError` when the build is not for a Cortex-M core.
    """
    config = read_dotconfig(path)
    names = [name for symbol, name in _CORES.items() if config.flag(symbol)]
    if not names:
        raise UserError(
            f'"{config.text("BOARD", "this board")}" ({config.text("ARCH", "unknown architecture")}) is no Cortex-M',
            place=str(path),
            hint="mcufuse generates for Cortex-M0+, M3, M4, M7, M33 and M55",
        )
    core = core_by_name(names[0])
    return replace(core, isa=_isa(config, core))


def _isa(config: DotConfig, core: Core) -> Isa:
    if core.isa is Isa.MVE and config.flag("ARMV8_1_M_MVEI") and config.flag("FPU"):
        return Isa.MVE
    dsp = config.flag("CPU_CORTEX_M4") or config.flag("CPU_CORTEX_M7") or config.flag("ARMV8_M_DSP")
    return Isa.DSP if dsp and core.isa is not Isa.BASE else Isa.BASE
