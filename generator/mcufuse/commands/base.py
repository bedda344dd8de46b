# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""What a subcommand is, and the arguments that several share.

Modules of this package import heavy things inside `run`, so that `mcufuse -h` and CMake's many calls start fast.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..config import Config

__all__ = ["Command", "add_config", "add_core", "add_json", "add_quiet", "print_json", "read_config"]


@dataclass(frozen=True, slots=True)
class Command:
    """One subcommand of the command line."""

    name: str
    summary: str  # one line of `mcufuse -h`
    description: str
    example: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def add_config(parser: argparse.ArgumentParser) -> None:
    """The positional CONFIG."""
    parser.add_argument("config", metavar="CONFIG", type=Path, help="YAML file of the network, or a .tflite or .onnx")


def add_core(parser: argparse.ArgumentParser) -> None:
    """--core."""
    parser.add_argument("--core", metavar="CORE", help="core to generate for, e.g. cortex-m4 or m4")


def add_json(parser: argparse.ArgumentParser) -> None:
    """--json."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def add_quiet(parser: argparse.ArgumentParser) -> None:
    """--quiet."""
    parser.add_argument("-q", "--quiet", action="store_true", help="say nothing about progress")


def read_config(args: argparse.Namespace) -> Config:
    """The configuration that the positional CONFIG names, with --name applied."""
    from ..config import load_config

    config = load_config(args.config)
    name = getattr(args, "name", None)
    return config.renamed(name) if name else config


def print_json(value: Any) -> None:
    """Prints `value` as indented JSON on standard output."""
    print(json.dumps(value, indent=2))
