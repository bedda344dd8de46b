# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The subcommands, in the order in which `mcufuse -h` lists them."""

from __future__ import annotations

from . import bench, check, doctor, explore, report, run, version
from . import compile as compile_command
from .base import Command

__all__ = ["COMMANDS"]

COMMANDS: tuple[Command, ...] = (
    compile_command.COMMAND,
    run.COMMAND,
    report.COMMAND,
    check.COMMAND,
    bench.COMMAND,
    explore.COMMAND,
    doctor.COMMAND,
    version.COMMAND,
)
