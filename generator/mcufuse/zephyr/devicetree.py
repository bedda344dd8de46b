# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The memory that a board's devicetree describes, read from the build's `edt.pickle`.

Zephyr's own devicetree library unpickles it, so what is seen here is what the linker script sees.
"""

from __future__ import annotations

import pickle
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import UserError

__all__ = ["Memory", "Region", "read_memory"]


@dataclass(frozen=True, slots=True)
class Region:
    """A piece of memory with an address. `name` is the linker's region name, empty if it has none."""

    path: str  # /soc/memory@20000000
    name: str
    address: int
    size: int  # bytes
    is_ram: bool  # compatible with mmio-sram: content is lost at reset
    labels: tuple[str, ...] = ()  # ("sram1",)

    def overlaps(self, other: Region) -> bool:
        """Whether the two share at least one byte."""
        return self.address < other.address + other.size and other.address < self.address + self.size


@dataclass(frozen=True, slots=True)
class Memory:
    """What the chosen nodes and the zephyr,memory-region nodes of a board offer."""

    sram: Region | None
    flash: Region | None
    regions: tuple[Region, ...]
    chosen_arena: str  # node path of chosen mcufuse,arena, "" if there is none
    chosen_weights: str

    def find(self, place: str) -> Region | None:
        """The linker region that `place` names: its name "SRAM1", label "&sram1" or path "/soc/memory@20010000"."""
        for region in self.regions:
            if place in (region.name, region.path, *(f"&{label}" for label in region.labels)):
                return region
        return None


def read_memory(pickle_path: Path, zephyr_base: Path) -> Memory:
    """Reads build/zephyr/edt.pickle with the library of `zephyr_base`; raises `UserError` if that fails."""
    source = str(zephyr_base / "scripts" / "dts" / "python-devicetree" / "src")
    sys.path.insert(0, source)
    try:
        with pickle_path.open("rb") as file:
            edt: Any = pickle.load(file)  # noqa: S301 - made by this very build
    except (OSError, ImportError, pickle.UnpicklingError, AttributeError, EOFError) as error:
        raise UserError(
            f"cannot read the devicetree: {error}",
            place=str(pickle_path),
            hint="configure the build again (west build -c)",
        ) from error
    finally:
        sys.path.remove(source)
    found = (_region(node) for node in edt.compat2okay.get("zephyr,memory-region", ()))
    return Memory(
        sram=_chosen_region(edt, "zephyr,sram"),
        flash=_chosen_region(edt, "zephyr,flash"),
        regions=tuple(region for region in found if region is not None),
        chosen_arena=_chosen_path(edt, "mcufuse,arena"),
        chosen_weights=_chosen_path(edt, "mcufuse,weights"),
    )


def _chosen_path(edt: Any, name: str) -> str:
    node = edt.chosen_node(name)
    return "" if node is None else str(node.path)


def _chosen_region(edt: Any, name: str) -> Region | None:
    node = edt.chosen_node(name)
    return None if node is None else _region(node)


def _region(node: Any) -> Region | None:
    if not node.regs or node.regs[0].size is None:
        return None
    prop = node.props.get("zephyr,memory-region")
    return Region(
        path=str(node.path),
        name=_token(prop.val) if prop is not None else "",
        address=int(node.regs[0].addr or 0),
        size=int(node.regs[0].size),
        is_ram="mmio-sram" in node.compats,
        labels=tuple(node.labels),
    )


def _token(name: str) -> str:
    """`name` as DT_STRING_TOKEN makes it, which is what the linker script calls the region."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name)
