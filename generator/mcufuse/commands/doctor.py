# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""`mcufuse doctor`."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from .base import Command, add_json, print_json

__all__ = ["COMMAND"]


def _run(args: argparse.Namespace) -> int:
    from ..doctor import examine, exit_code, render

    findings = examine()
    if args.json:
        print_json([asdict(f) | {"ok": f.ok, "required": f.required} for f in findings])
    else:
        print(render(findings))
    return exit_code(findings)


COMMAND = Command(
    name="doctor",
    summary="say which tools are missing and how to get them",
    description="Looks for everything that mcufuse uses. Exit code 1 if something that `mcufuse run` needs is missing.",
    example="example: mcufuse doctor",
    add_arguments=add_json,
    run=_run,
)
