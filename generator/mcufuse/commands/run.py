# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""`mcufuse run`: a network on an emulated core, without Zephyr."""

from __future__ import annotations

import argparse
import sys

from ..errors import EXIT_BUG, EXIT_OK
from ..progress import make_progress
from .base import Command, add_config, add_core, add_json, add_quiet, print_json, read_config

__all__ = ["COMMAND"]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    add_core(parser)
    parser.add_argument(
        "--opt", metavar="FLAG", choices=("-O0", "-O1", "-O2", "-O3", "-Os"), help="compile with FLAG, e.g. --opt=-Os"
    )
    parser.add_argument("--inputs", metavar="N", type=_positive, help="how many inputs (default: verify.count)")
    add_json(parser)
    add_quiet(parser)


def _positive(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number from 1 to 10,000")
    return int(text)


def _run(args: argparse.Namespace) -> int:
    from ..measure import measure
    from ..report import show_report

    config = read_config(args)
    core = config.core(args.core)
    with make_progress(quiet=args.quiet) as progress:
        measured = measure(config, core, opt=args.opt, count=args.inputs, progress=progress)
    if args.json:
        print_json(measured.report)
    else:
        show_report(measured.report)
    if not measured.exact:
        print(
            f"error: this is a bug in mcufuse: {measured.differing:,} of {measured.outputs:,} outputs on {core.name} "
            "differ from the oracle\n  hint: please report it in the project's issue tracker",
            file=sys.stderr,
        )
        return EXIT_BUG
    return EXIT_OK


COMMAND = Command(
    name="run",
    summary="run a network in QEMU, compared with the oracle bit for bit",
    description="Compiles the network for a core, runs it in QEMU without Zephyr, compares every output with the\n"
    "oracle and prints instructions, arena, stack, code and weights.",
    example="example: mcufuse run kws.yaml --core cortex-m4 --inputs 20",
    add_arguments=_add_arguments,
    run=_run,
)
