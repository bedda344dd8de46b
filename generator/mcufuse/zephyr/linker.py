# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Puts into words what GNU ld says when an image does not fit: it never names the culprit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import Problem

__all__ = ["BuildWatch"]

_OURS = "error: "  # how cli.py begins a message
_NINJA = re.compile(r"\[\d+/\d+\] |ninja: |FAILED: |FATAL ERROR: |-- ")
_OVERFLOW = re.compile(r"region [`']([^']+)' overflowed by (\d+) bytes?")


_RAM_HINT = (
    "optimize: ram, input: {mode: rows}, placement.arena in another region, or less of the application's "
    "(west build -t ram_report lists it)"
)
_FLASH_HINT = (
    "optimize: flash, fewer self-test vectors, placement.weights in another region, or less of the application's "
    "(west build -t rom_report lists it)"
)


class BuildWatch:
    """Looks at the lines of a build for what the user should read last: regions that overflowed, and the
    messages of our own steps, which ninja buries under the command lines that it repeats.
    """

    def __init__(self) -> None:
        self.overflows: dict[str, int] = {}
        self.messages: list[str] = []
        self._in_message = False

    def __call__(self, line: str) -> bool:
        """Takes one line; never asks to stop."""
        if match := _OVERFLOW.search(line):
            self.overflows[match[1]] = int(match[2])
        if line.startswith(_OURS):
            self._in_message = True
        elif not line.startswith(" ") and (not self._in_message or _NINJA.match(line)):
            self._in_message = False
        if self._in_message:
            self.messages.append(line)
        return False

    def problems(self, reports: Sequence[Mapping[str, Any]], sizes: Mapping[str, int]) -> list[Problem]:
        """One problem for each region, with what the networks take of it.

        `reports` are the networks' report.json, `sizes` the bytes of the regions where they are known.
        """
        found = []
        for region, excess in self.overflows.items():
            is_ram = "ram" in region.lower() or "tcm" in region.lower()
            keys = ("arena_bytes", "state_bytes") if is_ram else ("weights_bytes",)
            parts = [
                (f"{key.removesuffix('_bytes')} of {r['name']}", int(r.get(key, 0))) for r in reports for key in keys
            ]
            size = sizes.get(region, 0)
            total = size + excess
            rest = total - sum(n for _, n in parts)
            if size:
                parts.append(("Zephyr, application" + ("" if is_ram else " and code"), rest))
            listed = ", ".join(f"{what} {n:,} B" for what, n in sorted(parts, key=lambda p: -p[1]) if n > 0)
            needs = (
                f"the image needs {total:,} B of {region}, which has {size:,} B" if size else f"{region} is too small"
            )
            found.append(
                Problem(
                    f"{needs}: {excess:,} B too much ({listed})",
                    place="link",
                    hint=_RAM_HINT if is_ram else _FLASH_HINT,
                )
            )
        return found
