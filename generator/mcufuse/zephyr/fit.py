# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Before anything is compiled: does the plan fit into the board, and where do arena and weights go?

A step of the build (firmware/cmake/mcufuse.cmake), after the generator and before the compiler:

    report.json, other reports, .config, edt.pickle  ->  cflags   what the compiler gets for the network
                                                         stack.ld  the same places, for stacksize.py
                                                         fit.json  what was found, for the reports

What is known here are the sizes of the plan. The code is not compiled yet and Zephyr is not linked
yet, so a plan that passes may still fail the check of the ELF; one that fails here can never fit.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..cli import guarded
from ..config import Config, load_config
from ..errors import EXIT_OK, Problems
from .devicetree import Memory, Region, read_memory
from .dotconfig import DotConfig, read_dotconfig

__all__ = ["Demand", "Placement", "Spot", "check_fit", "main", "resolve_placement", "write_if_changed"]

# No Zephyr image is smaller: the smallest measured takes 6,769 B of flash and 2,151 B of RAM
# (qemu_cortex_m3, everything optional off). A floor, not an estimate.
ZEPHYR_FLASH_FLOOR = 4096
ZEPHYR_RAM_FLOOR = 1024

# Zephyr compiles with -ffreestanding, which makes a call of each memcpy() of four bytes, and of what the kernels
# know at compile time something to be loaded. The code is the same as elsewhere with the built-in functions back.
_ZEPHYR_CFLAGS = ("-fbuiltin",)
_KEYS = ("arena", "weights")
_DEFAULTS = {"arena": ".bss", "weights": ".rodata"}
_NO_REGION = 'this board has none; add a node with compatible = "zephyr,memory-region", "mmio-sram" in an overlay'
_RAM_WEIGHTS = (
    "choose a region that the flash tool writes; to copy weights to RAM at boot, "
    "use zephyr_code_relocate(LIBRARY mcufuse_model_<name> LOCATION <region>_RODATA)"
)


@dataclass(frozen=True, slots=True)
class Demand:
    """Bytes that a network's plan needs, and where its configuration wants them."""

    name: str
    arena: int
    state: int
    weights: int
    arena_place: str = ""  # section, region or node as the configuration has it; "" if it says nothing
    weights_place: str = ""
    file: str = ""  # the configuration, for messages
    group: str = ""  # networks of one group share an arena

    @classmethod
    def from_files(cls, report: Mapping[str, Any], config: Config) -> Demand:
        """Takes the sizes from a report.json and the places from the network's configuration."""
        said = {key: getattr(config.placement, key) if f"placement.{key}" in config.marks else "" for key in _KEYS}
        return cls(
            name=report["name"],
            arena=report["arena_bytes"],
            state=report["state_bytes"],
            weights=report["weights_bytes"],
            arena_place=said["arena"],
            weights_place=said["weights"],
            file=str(config.path),
            group=config.arena_group or "",
        )


@dataclass(frozen=True, slots=True)
class Spot:
    """Where one object goes: the section that the compiler is told, and the linker region that holds it."""

    section: str = ""  # "": the compiler's own choice
    region: str = ""  # "": Zephyr's RAM or flash


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the arena and the weights of one network go."""

    arena: Spot = Spot()
    weights: Spot = Spot()

    def cflags(self) -> list[str]:
        """What the compiler needs to follow (include/mcufuse/placement.h), as in a gcc response file."""
        spots = (("ARENA", self.arena), ("WEIGHTS", self.weights))
        return [f'-DMCUFUSE_{key}_SECTION=\\"{spot.section}\\"' for key, spot in spots if spot.section]

    def script(self) -> str:
        """Linker script that gives the sections a place in an image without Zephyr (stacksize.py), beside ld's own."""
        inputs = "".join(f" *({s.section} {s.section}.*)" for s in (self.arena, self.weights) if s.section)
        return f"SECTIONS {{ .mcufuse_placed : {{{inputs} }} }} INSERT AFTER .data;\n"


def resolve_placement(demand: Demand, memory: Memory) -> Placement:
    """Where `demand` goes: its configuration first, then the chosen nodes, then the default.

    Raises `UserError` for a region that does not exist, that Zephyr uses itself (two linker regions
    over the same bytes are linked on top of each other without a word), or that loses weights at reset.
    """
    found = Problems()
    arena = _spot(demand, "arena", demand.arena_place, memory.chosen_arena, memory, found)
    weights = _spot(demand, "weights", demand.weights_place, memory.chosen_weights, memory, found)
    if demand.group and arena.section:
        found.add(
            f"the arena goes to {arena.section}, but one that networks share stays in .bss",
            place=f"{demand.file}: arena_group: {demand.group}",
            hint="leave arena_group out, or write placement: {arena: .bss}",
        )
    found.raise_if_any()
    if weights.region:
        weights = Spot(f".mcufuse_weights_{weights.region}", weights.region)  # firmware/linker/mcufuse_weights.ld
    return Placement(arena, weights)


def _spot(demand: Demand, what: str, wanted: str, chosen: str, memory: Memory, found: Problems) -> Spot:
    if wanted.startswith("."):
        return Spot("" if wanted == _DEFAULTS[what] else wanted)
    if not wanted and not chosen:
        return Spot()
    key = f"{demand.file}: placement.{what}: {wanted}" if wanted else f"devicetree: chosen mcufuse,{what} = {chosen}"
    region = memory.find(wanted or chosen)
    free = ", ".join(r.name for r in memory.regions if r.name and not _zephyrs(r, memory))
    if region is None or not region.name:
        hint = f"regions to choose from: {free}" if free else _NO_REGION
        found.add("not a linker region of this board", place=key, hint=hint)
        return Spot()
    user = _zephyrs(region, memory)
    if user:
        hint = f"choose another region ({free})" if free else "leave the placement out"
        message = f"shares memory with {user}, which Zephyr fills itself: both would be linked on top of each other"
        found.add(message, place=key, hint=f"{hint}, or shrink Zephyr's part with an overlay")
    elif what == "weights" and region.is_ram:
        found.add(f"{region.name} is RAM, which holds no constants after a reset", place=key, hint=_RAM_WEIGHTS)
    return Spot(region.name, region.name)


def _zephyrs(region: Region, memory: Memory) -> str:
    """The chosen node that overlaps `region`, "" if there is none."""
    for label, used in (("chosen zephyr,sram", memory.sram), ("chosen zephyr,flash", memory.flash)):
        if used is not None and region.overlaps(used):
            return f"{label} ({used.path})"
    return ""


def check_fit(
    demands: Sequence[tuple[Demand, Placement]], config: DotConfig, memory: Memory, place: str
) -> dict[str, dict[str, int]]:
    """Sums up what all networks of the image need of each memory; raises `UserError` where it cannot fit.

    Returns, for each memory, its size and what the networks need of it, in bytes.
    """
    ram, flash = "RAM", "FLASH" if config.flag("XIP") else "RAM"
    sizes = {ram: memory.sram.size if memory.sram else config.sram_bytes, "FLASH": config.flash_bytes}
    sizes |= {r.name: r.size for r in memory.regions if r.name}
    floors = {"RAM": ZEPHYR_RAM_FLOOR, "FLASH": ZEPHYR_FLASH_FLOOR}
    needs: dict[str, list[tuple[str, int]]] = {}
    for demand, placement in demands:
        if demand.group:
            largest = max(d.arena for d, _ in demands if d.group == demand.group)
            shared = (f"arena of group {demand.group}", largest)
            if shared not in needs.setdefault(ram, []):
                needs[ram].append(shared)
        else:
            needs.setdefault(placement.arena.region or ram, []).append((f"arena of {demand.name}", demand.arena))
        needs.setdefault(ram, []).append((f"state of {demand.name}", demand.state))
        needs.setdefault(placement.weights.region or flash, []).append((f"weights of {demand.name}", demand.weights))
    found = Problems()
    for name, parts in needs.items():
        size, need = sizes.get(name, 0), sum(n for _, n in parts)
        room = size - floors.get(name, 0)
        if size and need > room:
            listed = " + ".join(f"{what} {n:,} B" for what, n in sorted(parts, key=lambda p: -p[1]) if n)
            floor = f" less the {floors[name]:,} B that Zephyr takes at least" if name in floors else ""
            found.add(
                f"{listed} do not fit into {name} of {config.text('BOARD_TARGET') or config.text('BOARD')}: "
                f"{size:,} B{floor}; {need - room:,} B too much",
                place=place,
                hint=_hint(name),
            )
    found.raise_if_any()
    return {n: {"size": sizes.get(n, 0), "networks": sum(b for _, b in parts)} for n, parts in needs.items()}


def _hint(name: str) -> str:
    if name == "FLASH":
        return "a board with more flash, a smaller network, or weights in another region (placement.weights)"
    return "optimize: ram, input: {mode: rows}, a smaller network, or the arena in another region (placement.arena)"


def write_if_changed(path: Path, text: str) -> None:
    """Writes `text`, but leaves a file that holds it already as old as it is."""
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def _demand(report: Path, config: Path) -> Demand:
    return Demand.from_files(json.loads(report.read_text(encoding="utf-8")), load_config(config))


def _run(args: argparse.Namespace) -> int:
    config = read_dotconfig(args.dotconfig)
    memory = read_memory(args.edt, args.zephyr_base)
    others = [_demand(Path(report), Path(yaml)) for report, yaml in args.other]
    demands = [*others, _demand(args.report, args.config)]
    placed = [(demand, resolve_placement(demand, memory)) for demand in demands]
    usage = check_fit(placed, config, memory, str(args.config))
    placement = placed[-1][1]
    report = json.loads(args.report.read_text(encoding="utf-8"))
    cflags = [*report["cflags"], *_ZEPHYR_CFLAGS, *placement.cflags()]
    write_if_changed(args.out / "stack.ld", placement.script())
    write_if_changed(args.out / "cflags", "\n".join(cflags) + "\n")
    fit = {"name": demands[-1].name, "config": str(args.config), "placement": asdict(placement), "memory": usage}
    write_if_changed(args.out / "fit.json", json.dumps(fit, indent=2, sort_keys=True) + "\n")
    return EXIT_OK


def main(argv: Sequence[str] | None = None) -> int:
    """The build's entry: `python -m mcufuse.zephyr.fit REPORT ... -o DIR`."""
    parser = argparse.ArgumentParser(prog="python -m mcufuse.zephyr.fit", description=__doc__)
    parser.add_argument("report", type=Path)
    parser.add_argument(
        "--other",
        nargs=2,
        action="append",
        default=[],
        metavar=("REPORT", "CONFIG"),
        help="a network already in the image",
    )
    parser.add_argument("--config", type=Path, required=True, help="the network's YAML")
    parser.add_argument("--dotconfig", type=Path, required=True)
    parser.add_argument("--edt", type=Path, required=True)
    parser.add_argument("--zephyr-base", type=Path, required=True)
    parser.add_argument("-o", dest="out", type=Path, required=True)
    arguments = sys.argv[1:] if argv is None else argv
    args = parser.parse_args(arguments)
    return guarded(lambda: _run(args), ["zephyr.fit", *arguments])


if __name__ == "__main__":
    sys.exit(main())
