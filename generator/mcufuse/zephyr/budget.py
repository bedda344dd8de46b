# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""After the link: what each memory holds, whose it is, and whether the budgets hold.

Everything is read from the ELF and the map file. The plan is only compared with it: the arena that the
report promised must be the arena in the image.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..budget import FLASH, RAM, check_budget
from ..config import Config
from ..elf import ImageSizes, NetworkSizes, Region, Section, network_sizes
from ..errors import Problem, UserError

__all__ = ["Holding", "Memory", "Network", "check_budgets", "memories", "network", "render"]

_SYSTEM = "Zephyr"
_PADDING = "padding"
_APPLICATION = "application"
_RUNTIME = "mcufuse runtime"
_COMPILER = "libgcc and libc"
_LIBRARIES = {
    "libapp.a": _APPLICATION,
    "libmcufuse.a": _RUNTIME,
    "libgcc.a": _COMPILER,
    "libc.a": _COMPILER,
    "libm.a": _COMPILER,
}
_MODEL_ARCHIVE = "libmcufuse_model_"


@dataclass(frozen=True, slots=True)
class Holding:
    """Bytes that one owner has in one memory."""

    owner: str
    size: int


@dataclass(frozen=True, slots=True)
class Memory:
    """One region of the linker script and who holds what of it, largest first."""

    region: Region
    holdings: tuple[Holding, ...]


@dataclass(frozen=True, slots=True)
class Network:
    """One network of the image: what was planned, what was linked, what is allowed."""

    report: Mapping[str, Any]
    sizes: NetworkSizes
    stack: int | None  # worst stack of one inference, in bytes; None if it is not known
    config: Config | None

    @property
    def name(self) -> str:
        """Its C identifier."""
        return str(self.report["name"])

    def linked_report(self) -> dict[str, Any]:
        """The report with the figures of the image in place of those of the plan."""
        return {
            **self.report,
            "arena_bytes": self.sizes.arena_bytes,
            "state_bytes": self.sizes.state_bytes,
            "stack_bytes": self.stack,
            "weights_bytes": self.sizes.weights_bytes,
            "code_bytes": self.sizes.code_bytes,
        }


def memories(image: ImageSizes) -> tuple[Memory, ...]:
    """Each region that holds anything, with its owners; regions that are another name for one are left out."""
    found: dict[tuple[int, int], Memory] = {}
    for region in image.regions:
        key = (region.origin, region.length)
        if region.used and key not in found and region.name != "IDT_LIST":
            found[key] = Memory(region, _holdings(image, region))
    return tuple(found.values())


def _holdings(image: ImageSizes, region: Region) -> tuple[Holding, ...]:
    sums: dict[str, int] = {}
    for piece in image.pieces:
        section = image.section_at(piece.address)
        if section is None:
            continue
        places = _places(section, piece.address)
        hits = sum(region.origin <= place < region.origin + region.length for place in places)
        if hits:
            owner = _owner(piece.archive, piece.member)
            sums[owner] = sums.get(owner, 0) + hits * piece.size
    sums[_PADDING] = region.used - sum(sums.values())
    ordered = sorted(sums.items(), key=lambda item: -item[1])
    return tuple(Holding(owner, size) for owner, size in ordered if size > 0)


def _places(section: Section, address: int) -> tuple[int, ...]:
    """Where a byte of `section` stands: at its address, and in the load copy if there is one."""
    if section.load_address is None:
        return (address,)
    return (address, section.load_address + address - section.address)


def _owner(archive: str, member: str) -> str:
    if archive.startswith(_MODEL_ARCHIVE):
        name = archive.removeprefix(_MODEL_ARCHIVE).removesuffix(".a")
        return f"vectors of {name}" if member.startswith(f"{name}_vectors.") else f"network {name}"
    return _LIBRARIES.get(archive, _SYSTEM)


def check_budgets(image: ImageSizes, networks: Iterable[Network]) -> None:
    """Raises `UserError` with everything that does not hold: plan against ELF, and the YAML's budgets."""
    problems: list[Problem] = []
    for network in networks:
        planned, linked = int(network.report["arena_bytes"]), network.sizes.arena_bytes
        if planned != linked:
            problems.append(
                Problem(
                    f"the plan says {planned:,} B of arena, the image holds {linked:,} B",
                    place=f"{image.path}: {network.name}_arena",
                    hint="the image is older than the plan; build again",
                )
            )
        if network.config is not None:
            try:
                check_budget(network.config, network.linked_report())
            except UserError as error:
                largest = _largest_symbols(image, network.name)
                problems += [
                    Problem(f"{p.message}; largest in the image: {largest}", p.place, p.hint) for p in error.problems
                ]
    if problems:
        raise UserError(problems=problems)


def _largest_symbols(image: ImageSizes, name: str, count: int = 5) -> str:
    parts = ("_arena", "_vectors", "_expected_", "_stored_")
    own = [s for s in image.symbols if s.name.startswith(f"{name}_") and s.size]
    ordered = sorted((s for s in own if not s.name.removeprefix(name).startswith(parts)), key=lambda s: -s.size)
    return ", ".join(f"{s.name} {s.size:,} B" for s in ordered[:count]) or "unknown"


def network(image: ImageSizes, report: Mapping[str, Any], stack: int | None, config: Config | None) -> Network:
    """The network that `report` describes, as it stands in `image`."""
    sizes = network_sizes(image, str(report["name"]))
    shared = image.symbol(f"mcufuse_arena_{config.arena_group}") if config is not None and config.arena_group else None
    if shared is not None:
        # The map charges the common block to the network with the largest arena; each uses its own part.
        own = sizes.state_bytes - shared.size if sizes.state_bytes >= shared.size else sizes.state_bytes
        sizes = replace(sizes, arena_bytes=min(shared.size, int(report["arena_bytes"])), state_bytes=own)
    return Network(report, sizes, stack, config)


def render(found: Iterable[Memory], networks: Iterable[Network]) -> str:
    """The report as text: each memory with its owners, then each network."""
    lines = []
    for memory in found:
        region = memory.region
        percent = 100 * region.used / region.length
        lines.append(
            f"{region.name:<12} {region.used:>11,} B of {region.length:>11,} B used ({percent:4.1f}%), "
            f"{region.free:,} B free"
        )
        lines += [f"  {holding.owner:<18} {holding.size:>11,} B" for holding in memory.holdings]
    for network_ in networks:
        sizes = network_.sizes
        stack = f"{network_.stack:,} B" if network_.stack is not None else "unknown"
        lines.append(
            f"network {network_.name}: arena {sizes.arena_bytes:,} B, state {sizes.state_bytes:,} B, "
            f"stack at most {stack}; code {sizes.code_bytes:,} B, weights {sizes.weights_bytes:,} B"
        )
        lines += _budget_lines(network_)
    return "\n".join(lines)


def _budget_lines(network_: Network) -> list[str]:
    if network_.config is None:
        return []
    budget, report = network_.config.budget, network_.linked_report()
    pairs = (
        ("RAM", sum(RAM.known(report).values()), budget.ram),
        ("flash", sum(FLASH.known(report).values()), budget.flash),
    )
    return [
        f"  {what} {used:,} B of the budget's {limit:,} B, {limit - used:,} B left"
        for what, used, limit in pairs
        if limit is not None
    ]
