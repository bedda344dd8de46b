# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Reads GNU ld's map file: the MEMORY regions, and each input section that went into the image."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from .errors import UserError

__all__ = ["MapRegion", "Piece", "read_map"]

_CONFIGURATION = "Memory Configuration"
_MEMORY_MAP = "Linker script and memory map"
_REGION = re.compile(r"^(\S+)\s+(0x[0-9a-f]+)\s+(0x[0-9a-f]+)")
# " .text.main     0x00000400       0x24 build/main.o", possibly wrapped behind a long name
_PIECE = re.compile(r"^ (\S+)\s+0x([0-9a-f]+)\s+0x([0-9a-f]+) (\S.*)$")
_NAME_ALONE = re.compile(r"^ ([^\s*]\S*)$")  # Zephyr: .noinit."WEST_TOPDIR/zephyr/kernel/init.c".0
_OUTPUT = re.compile(r"^([\w.$]+)(?:\s+0x|$)")
_MEMBER = re.compile(r"^(.*?)\(([^()]+)\)$")


@dataclass(frozen=True, slots=True)
class MapRegion:
    """A region of the linker script's MEMORY command."""

    name: str
    origin: int
    length: int


@dataclass(frozen=True, slots=True)
class Piece:
    """An input section in the image."""

    output: str  # section of the image that it went into: ".text"
    section: str  # ".text.kws_s0"
    address: int
    size: int
    file: str  # as in the map: "lib/libapp.a(main.c.obj)" or "main.o"

    @property
    def archive(self) -> str:
        """The archive, "libapp.a", or "" when it came straight from an object file."""
        found = _MEMBER.match(self.file)
        return PurePosixPath(found[1]).name if found else ""

    @property
    def member(self) -> str:
        """The object file, "main.c.obj"."""
        found = _MEMBER.match(self.file)
        return found[2] if found else PurePosixPath(self.file).name


def read_map(path: Path) -> tuple[tuple[MapRegion, ...], tuple[Piece, ...]]:
    """Regions and pieces of the map file; raises `UserError` when it is none."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise UserError(f"cannot read it: {error.strerror}", place=str(path)) from error
    try:
        head, body = lines.index(_CONFIGURATION), lines.index(_MEMORY_MAP)
    except ValueError:
        raise UserError(
            "not a map file of GNU ld", place=str(path), hint="link with -Wl,-Map=FILE; Zephyr writes zephyr.map"
        ) from None
    regions = (_REGION.match(line) for line in lines[head:body])
    found = tuple(
        MapRegion(m[1], int(m[2], 16), int(m[3], 16)) for m in regions if m and m[1] not in ("Name", "*default*")
    )
    return found, tuple(_pieces(lines[body:]))


def _pieces(lines: list[str]) -> list[Piece]:
    found = []
    name = output = ""
    for line in lines:
        if section := _OUTPUT.match(line):
            output = section[1]
            continue
        if alone := _NAME_ALONE.match(line):
            name = alone[1]
            continue
        # A wrapped line goes on with blanks where the name would be.
        whole = f" {name} {line}" if name and line.startswith("  ") else line
        name = ""
        match = _PIECE.match(whole)
        if match is None or match[4].startswith("load address") or match[1].startswith("*"):
            continue
        size = int(match[3], 16)
        if size:
            found.append(Piece(output, match[1], int(match[2], 16), size, match[4].strip()))
    return found
