# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""`mcufuse compile`: a configuration becomes C files and report.json."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import EXIT_OK, UserError
from ..progress import make_progress
from .base import Command, add_config, add_core, add_quiet, read_config

if TYPE_CHECKING:
    from ..config import Config
    from ..pipeline import Compiled
    from ..target import Core

__all__ = ["COMMAND"]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    parser.add_argument("-o", "--output", metavar="DIR", type=Path, required=True, help="directory for the files")
    add_core(parser)
    parser.add_argument("--name", help="name of the network, instead of the file's")
    parser.add_argument("--vectors", metavar="N", type=_count, default=0, help="also write N test vectors as C")
    parser.add_argument("--dump-after", metavar="PASS", help="print the network after PASS, e.g. import")
    parser.add_argument("--dotconfig", metavar="FILE", type=Path, help="take the core from Zephyr's .config")
    parser.add_argument("--depfile", metavar="FILE", type=Path, help="write the files read as a Make rule")
    add_quiet(parser)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) > 1000:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number from 0 to 1000")
    return int(text)


def _run(args: argparse.Namespace) -> int:
    from ..measure import compile_checked, generated_files
    from ..output import write_files

    config = read_config(args)
    core = _core(config, args)
    if args.dump_after:
        _check_pass(args.dump_after)
    with make_progress(quiet=args.quiet) as progress:
        compiled = compile_checked(config, core, dump_after=args.dump_after, progress=progress)
        files = generated_files(compiled)
        if args.vectors:
            progress("computing test vectors")
            files |= _vectors(config, compiled, args.vectors)
    if compiled.dumps:
        print(compiled.dumps, end="")
    write_files(args.output, files)
    if args.depfile:
        _write_depfile(args, config, compiled)
    return EXIT_OK


def _check_pass(name: str) -> None:
    from ..passes import PASSES

    known = ["import", *(run.__name__ for run in PASSES)]
    if name not in known:
        raise UserError(f'no pass is called "{name}"', place="--dump-after", hint=f"passes: {', '.join(known)}")


def _vectors(config: Config, compiled: Compiled, count: int) -> dict[str, str]:
    """NAME_vectors.c and .h: the cases of the self-test on the target."""
    from ..config import InputMode
    from ..testcases import make_cases
    from ..vectors import emit_vectors_c

    row_bytes = compiled.inputs[0].row_bytes if config.input.mode is InputMode.ROWS else 0
    source, header = emit_vectors_c(config.name, make_cases(config, compiled, count), row_bytes=row_bytes)
    return {f"{config.name}_vectors.c": source, f"{config.name}_vectors.h": header}


def _core(config: Config, args: argparse.Namespace) -> Core:
    """--core, else what the file and Zephyr's .config agree on, else the one that is given, else the default."""
    if args.core or not args.dotconfig:
        return config.core(args.core)
    from ..zephyr.dotconfig import core_from_dotconfig

    board = core_from_dotconfig(args.dotconfig)
    wanted = config.target.core
    if wanted is not None and wanted.name != board.name:
        raise UserError(
            f"{wanted.name}, but the build is for {board.name}",
            place=config.place("target.core"),
            hint=f"leave target.core out: {args.dotconfig} tells it",
        )
    return board


def _write_depfile(args: argparse.Namespace, config: Config, compiled: Compiled) -> None:
    from ..output import depfile_text, write_files

    ours = [module.__file__ for name, module in list(sys.modules.items()) if name.partition(".")[0] == "mcufuse"]
    sources = [config.path.absolute(), config.model, *compiled.sources_read]
    sources += [Path(file).absolute() for file in ours if file]
    if config.verify.vectors is not None:
        sources.append(config.verify.vectors)
    target = args.output.absolute() / f"{config.name}.c"
    write_files(args.depfile.absolute().parent, {args.depfile.name: depfile_text(target, sources)})


COMMAND = Command(
    name="compile",
    summary="generate C files and report.json",
    description="Generates the network's C files and report.json. Nothing is written if anything is wrong.",
    example="example: mcufuse compile kws.yaml -o build/kws --core cortex-m4",
    add_arguments=_add_arguments,
    run=_run,
)
