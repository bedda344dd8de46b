# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Runs twister, and does not believe in a success of nothing.

Twister ends with exit code 0 when every test was filtered out (a toolchain that it does not know, a board
that no test allows, a hardware map without the board), and when an image does not fit into its board.
Here both are failures.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import Problems, UserError
from .process import run_watched

__all__ = ["Outcome", "read_outcome", "run_twister"]

_BAD = ("failed", "error", "blocked")
_EXECUTED = frozenset({"passed", "failed", "error", "blocked"})


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run of twister did."""

    executed: int  # test cases that ran on a board or in QEMU
    passed: int
    failures: tuple[tuple[str, str], ...]  # (scenario on platform, reason)
    filtered: tuple[tuple[str, str], ...]
    platforms: tuple[str, ...]  # on which a test case ran

    def raise_if_bad(self, place: str) -> None:
        """Raises `UserError` for failures, and when nothing was executed."""
        found = Problems()
        for name, reason in self.failures:
            found.add(reason or "failed", place=name)
        found.raise_if_any()
        if not self.executed:
            reasons = sorted({f"{name}: {reason}" for name, reason in self.filtered if reason})
            raise UserError(
                "twister executed no test case" + (": " + "; ".join(reasons[:5]) if reasons else ""),
                place=place,
                hint="check the board's name, the toolchain (ZEPHYR_TOOLCHAIN_VARIANT) and the hardware map",
            )


def read_outcome(outdir: Path) -> Outcome:
    """Reads `outdir`/twister.json; raises `UserError` if twister did not get as far as writing it."""
    path = outdir / "twister.json"
    try:
        suites: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["testsuites"]
    except (OSError, ValueError, KeyError) as error:
        raise UserError("twister wrote no results; its output is above", place=str(path)) from error
    cases = [(suite, case) for suite in suites for case in suite.get("testcases", ())]
    run = [(suite, case) for suite, case in cases if case.get("status") in _EXECUTED and _ran(suite)]
    return Outcome(
        executed=len(run),
        passed=sum(case["status"] == "passed" for _, case in run),
        failures=tuple(_named(s for s in suites if s.get("status") in _BAD or _overflowed(s))),
        filtered=tuple(_named(s for s in suites if s.get("status") in ("filtered", "skipped"))),
        platforms=tuple(sorted({str(suite["platform"]) for suite, _ in run})),
    )


def _overflowed(suite: Mapping[str, Any]) -> bool:
    """Whether the image did not fit, which twister counts as skipped (unless --overflow-as-errors is given)."""
    return suite.get("status") == "skipped" and "overflow" in str(suite.get("reason", ""))


def _ran(suite: Mapping[str, Any]) -> bool:
    """Whether the suite's image ran; one that was only built has "not run" cases."""
    return suite.get("status") in ("passed", "failed")


def _named(suites: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, str]]:
    for suite in suites:
        yield f"{suite.get('name')} on {suite.get('platform')}", str(suite.get("reason", ""))


def run_twister(
    roots: Sequence[Path], platforms: Sequence[str], outdir: Path, options: Sequence[str], env: Mapping[str, str]
) -> Outcome:
    """Runs twister over `roots`; raises `UserError` unless at least one case was executed and all passed."""
    command = [sys.executable, "-m", "west", "twister", "--overflow-as-errors", "-O", str(outdir)]
    for option, values in (("-T", roots), ("-p", platforms)):
        for value in values:
            command += [option, str(value)]
    done = run_watched([*command, *options], on_line=lambda _: False, env=env)
    outcome = read_outcome(outdir)
    outcome.raise_if_bad(str(outdir))
    if done.code:
        raise UserError(f"twister failed (exit code {done.code}); its output is above", place=str(outdir))
    print(f"mcufuse: {outcome.passed} of {outcome.executed} test cases passed on {', '.join(outcome.platforms)}")
    return outcome
