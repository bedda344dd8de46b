# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""`mcufuse report`: what a network takes, from a directory of `mcufuse compile` or straight from a configuration."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..errors import EXIT_OK
from ..progress import make_progress
from .base import Command, add_core, add_json, add_quiet, print_json

__all__ = ["COMMAND"]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        metavar="DIR_OR_CONFIG",
        type=Path,
        help="directory or report.json of `mcufuse compile`, or a configuration",
    )
    add_core(parser)
    parser.add_argument(
        "--html", metavar="FILE", type=Path, help="also write a page with the arena in time as a drawing"
    )
    add_json(parser)
    add_quiet(parser)


def _load(args: argparse.Namespace) -> dict[str, Any]:
    from ..report import load_report

    what: Path = args.what
    if what.is_dir():
        return load_report(what / "report.json")
    if what.suffix == ".json":
        return load_report(what)
    from ..config import load_config
    from ..measure import compile_checked

    config = load_config(what)
    with make_progress(quiet=args.quiet) as progress:
        return compile_checked(config, config.core(args.core), progress=progress).report


def _run(args: argparse.Namespace) -> int:
    from ..report import show_report

    report = _load(args)
    if args.html:
        from ..htmlreport import report_page
        from ..output import write_files

        write_files(args.html.absolute().parent, {args.html.name: report_page(report)})
    if args.json:
        print_json(report)
    else:
        show_report(report)
    return EXIT_OK


COMMAND = Command(
    name="report",
    summary="show what a network takes: memory, steps, buffers",
    description="Shows the report of a compiled network, or compiles a configuration in memory and shows its report.",
    example="example: mcufuse report build/kws --html kws.html",
    add_arguments=_add_arguments,
    run=_run,
)
