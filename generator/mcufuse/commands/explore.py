# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""`mcufuse explore`: what less memory costs in speed, and the choice of a point."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import EXIT_OK, UserError
from ..progress import make_progress
from .base import Command, add_config, add_core, add_json, add_quiet, print_json, read_config

if TYPE_CHECKING:
    from ..config import Config
    from ..explore import Point

__all__ = ["COMMAND"]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    add_core(parser)
    parser.add_argument("--html", metavar="FILE", type=Path, help="also write a page with the plot")
    parser.add_argument("--write", metavar="N", type=_number, help="pin point N in the YAML file")
    add_json(parser)
    add_quiet(parser)


def _number(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r}: expected the number of a point")
    return int(text)


def _run(args: argparse.Namespace) -> int:
    from ..config import MODEL_SUFFIXES
    from ..explore import explore
    from ..exploretext import lay_out_front
    from ..htmlfront import front_page
    from ..output import write_files
    from ..report import show_blocks

    config = read_config(args)
    if args.write is not None and config.path.suffix.lower() in MODEL_SUFFIXES:
        raise UserError("there is no YAML file to write to", place=str(config.path), hint="make one: model: FILE")
    with make_progress(quiet=args.quiet) as progress:
        front = explore(config, config.core(args.core), progress=progress)
    if args.html:
        write_files(args.html.absolute().parent, {args.html.name: front_page(front)})
    if args.json:
        print_json(front.as_json())
    else:
        show_blocks(lay_out_front(front))
    if args.write is not None:
        _write(config, front.point(args.write))
    return EXIT_OK


def _write(config: Config, point: Point) -> None:
    """Pins a point in the file that the configuration came from."""
    from ..config import parse_config
    from ..output import write_files
    from ..yaml_edit import edit_yaml

    raw = config.path.read_bytes()
    mark = "\ufeff" if raw.startswith(b"\xef\xbb\xbf") else ""
    changed = edit_yaml(raw.decode("utf-8-sig"), point.pins(), str(config.path))
    pinned = parse_config(changed, config.path)
    assert (pinned.input.mode, pinned.plan.scratch) == (point.mode, point.scratch)
    write_files(config.path.absolute().parent, {config.path.name: mark + changed})


COMMAND = Command(
    name="explore",
    summary="show what less memory costs in speed, and pin a choice",
    description="Plans the network in every way that makes a difference and shows those that no other one beats in\n"
    "memory and modelled instructions. Each arena is that of a real, checked plan.",
    example="example: mcufuse explore kws.yaml --core cortex-m4 --html kws.html --write 3",
    add_arguments=_add_arguments,
    run=_run,
)
