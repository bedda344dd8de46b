# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The YAML's budget against a report, before compiling (the plan) and after linking (the image).

RAM is arena + state + worst stack, flash is code + weights; parts that a report does not know yet count as nothing,
so a plan that passes may still fail after the link, and one that fails can never fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .config import Config, InputMode, Optimize
from .errors import Problems

__all__ = ["FLASH", "RAM", "Budgeted", "check_budget"]


@dataclass(frozen=True, slots=True)
class Budgeted:
    """One budget and the figures of a report that count towards it."""

    key: str
    parts: tuple[str, ...]  # of report.json

    def known(self, report: Mapping[str, Any]) -> dict[str, int]:
        """The figures that the report has, by their plain names."""
        return {p.removesuffix("_bytes"): int(report[p]) for p in self.parts if report.get(p) is not None}


RAM = Budgeted("ram", ("arena_bytes", "state_bytes", "stack_bytes"))
FLASH = Budgeted("flash", ("weights_bytes", "code_bytes"))


def check_budget(config: Config, report: Mapping[str, Any]) -> None:
    """Raises `UserError` for each budget that is passed, with the largest contributors and what would help."""
    problems = Problems()
    for budgeted, limit, why, hint in (
        (RAM, config.budget.ram, _peak(report), _ram_hint(config)),
        (FLASH, config.budget.flash, _largest_steps(report), _flash_hint(config)),
    ):
        parts = budgeted.known(report)
        need = sum(parts.values())
        if limit is not None and need > limit:
            listed = " + ".join(f"{name} {size:,} B" for name, size in parts.items() if size)
            problems.add(
                f"{limit:,} B, but {report['name']} needs {need:,} B ({listed}), {need - limit:,} B too much{why}",
                place=config.place(f"budget.{budgeted.key}"),
                hint=hint,
            )
    problems.raise_if_any()


def _peak(report: Mapping[str, Any], count: int = 4) -> str:
    """The buffers that are live at the fullest moment, largest first."""
    buffers: Sequence[Mapping[str, Any]] = report.get("buffers") or ()
    if not buffers:
        return ""
    times = range(max(int(b["last"]) for b in buffers) + 1)
    live = [[b for b in buffers if b["first"] <= t <= b["last"]] for t in times]
    time = max(times, key=lambda t: sum(b["size"] for b in live[t]))
    largest = sorted(live[time], key=lambda b: -int(b["size"]))[:count]
    names = [str(s["name"]) for s in report.get("steps") or () if s.get("stage") == time]
    where = f" ({names[0] if len(names) == 1 else f'{names[0]} to {names[-1]}'})" if names else ""
    listed = " + ".join(f"{b['name']} {int(b['size']):,} B" for b in largest)
    return f"; the arena is fullest in stage {time}{where}: {listed}"


def _largest_steps(report: Mapping[str, Any], count: int = 3) -> str:
    sized = [s for s in report.get("steps") or () if s.get("weights_bytes")]
    largest = sorted(sized, key=lambda s: -int(s["weights_bytes"]))[:count]
    listed = ", ".join(f"{s['name']} {int(s['weights_bytes']):,} B" for s in largest)
    return f"; largest weights: {listed}" if listed else ""


def _ram_hint(config: Config) -> str:
    options = [] if config.optimize is Optimize.RAM else ["optimize: ram"]
    options += [] if config.input.mode is InputMode.ROWS else ["input: {mode: rows}"]
    return ", or ".join([*options, "a smaller network"])


def _flash_hint(config: Config) -> str:
    options = [] if config.optimize is Optimize.FLASH else ["optimize: flash"]
    return ", or ".join([*options, "a smaller network"])
