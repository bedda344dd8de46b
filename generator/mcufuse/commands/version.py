# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""`mcufuse version`."""

from __future__ import annotations

import argparse

from .. import __version__
from ..errors import EXIT_OK
from .base import Command

__all__ = ["COMMAND"]


def _no_arguments(_parser: argparse.ArgumentParser) -> None:
    pass


def _run(_args: argparse.Namespace) -> int:
    print(f"mcufuse {__version__}")
    return EXIT_OK


COMMAND = Command(
    name="version",
    summary="print the version",
    description="Prints the version of mcufuse.",
    example="example: mcufuse version",
    add_arguments=_no_arguments,
    run=_run,
)
