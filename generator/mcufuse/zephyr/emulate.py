# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a build's self-test in QEMU and tells how it ended; QEMU never outlives the command."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from ..errors import UserError
from .builds import BuildDir
from .process import run_watched

__all__ = ["FAILED", "PASSED", "can_emulate", "run_selftest"]

PASSED = "mcufuse: self-test passed"
FAILED = "mcufuse: self-test failed"
_FAULT = (">>> ZEPHYR FATAL ERROR", "ASSERTION FAIL", FAILED)


class _Verdict:
    def __init__(self) -> None:
        self.passed = False
        self.why = ""

    def __call__(self, line: str) -> bool:
        if PASSED in line:
            self.passed = True
        elif any(mark in line for mark in _FAULT):
            self.why = line.strip()
        return self.passed or bool(self.why)


def can_emulate(build: BuildDir) -> bool:
    """Whether `ninja run` starts QEMU for this board."""
    return build.dotconfig.flag("QEMU_TARGET")


def run_selftest(build: BuildDir, env: Mapping[str, str], timeout: float) -> None:
    """Runs the image of `build` until its verdict; raises `UserError` if it does not pass within `timeout` seconds."""
    if not can_emulate(build):
        raise UserError(
            f"Zephyr does not run {build.board} in QEMU",
            place=str(build.path),
            hint="flash it (west mcufuse flash) and watch its console for the same lines",
        )
    verdict = _Verdict()
    command = [sys.executable, "-m", "west", "build", "-d", str(build.path), "-t", "run"]
    outcome = run_watched(command, on_line=verdict, env=env, timeout=timeout)
    if verdict.passed:
        return
    if verdict.why:
        raise UserError(f"the self-test did not pass: {verdict.why}", place=build.board)
    if outcome.timed_out:
        raise UserError(
            f'no verdict ("{PASSED}") within {timeout:g} s',
            place=build.board,
            hint="a large network may need more: --timeout SECONDS",
        )
    raise UserError(f"QEMU ended without a verdict (exit code {outcome.code})", place=build.board)
