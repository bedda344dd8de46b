# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""`west mcufuse build`: west build around the default application, then the check of what was linked."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ..config import Config, load_config
from ..elf import ImageSizes, check_overlaps, network_names, network_sizes, read_image
from ..errors import UserError
from ..report import show_report
from ..stack import stack_bound
from ..toolchain import Toolchain
from . import budget
from .builds import BuildDir, default_build_dir, west_config
from .linker import BuildWatch
from .process import run_watched
from .workspace import project_env, repository

__all__ = ["build_image", "check_build", "check_elf", "linked_networks", "print_report"]

_THREAD_STACK = "network_stack"  # of the default application


def build_image(args: argparse.Namespace) -> BuildDir:
    """Builds and checks what `args` (verbs.py) ask for; raises `UserError` if any of it fails."""
    source = _source(args)
    board = args.board or os.environ.get("BOARD", "") or west_config("build.board")
    build = default_build_dir(args.build_dir, board, source)
    if args.config is None and source is None and not build.is_configured:
        raise UserError(
            "no network named, and there is no build directory yet",
            place=str(build.path),
            hint="west mcufuse build CONFIG -b BOARD, or -s APP for an application of your own",
        )
    watch = BuildWatch()
    outcome = run_watched(_command(args, source, build), on_line=watch, env=project_env(os.environ))
    build = BuildDir.of_image(build.path)
    if outcome.code:
        _explain(watch, build, outcome.code)
    if not args.no_check and build.is_configured and build.elf.is_file():
        print(check_build(build))
    return build


def _source(args: argparse.Namespace) -> Path | None:
    """The application: the user's, else the default one when she named a network, else the build directory's."""
    if args.source_dir is not None:
        if args.config is not None:
            raise UserError("CONFIG and -s exclude each other", hint="your application names its networks itself")
        return Path(args.source_dir).absolute()
    if args.config is None:
        return None
    load_config(args.config)  # what is wrong with it is said now, not in the midst of a build
    return repository() / "firmware" / "app"


def _command(args: argparse.Namespace, source: Path | None, build: BuildDir) -> list[str]:
    command = [sys.executable, "-m", "west", *(["-v"] * args.verbosity), "build"]
    for option, value in (("-b", args.board), ("-d", args.build_dir), ("-p", args.pristine)):
        command += [option, str(value)] if value else []
    command += args.west or []
    command += [str(source)] if source is not None else []
    cmake = list(args.cmake)
    if args.config is not None:
        model = str(args.config.absolute())
        if build.cache.get("MCUFUSE_MODEL") != model or args.pristine not in (None, "never"):
            cmake.append(f"-DMCUFUSE_MODEL={model}")  # only when it is news: it makes CMake run again
    return command + (["--", *cmake] if cmake else [])


def _explain(watch: BuildWatch, build: BuildDir, code: int) -> None:
    sizes: dict[str, int] = {}
    if build.is_configured:
        config = build.dotconfig
        sizes = {"RAM": config.sram_bytes, "FLASH": config.flash_bytes}
    problems = watch.problems(build.reports(), sizes)
    if problems:
        raise UserError(problems=problems)
    if watch.messages:
        raise UserError("\n".join(watch.messages).removeprefix("error: "))
    raise UserError(f"the build failed (exit code {code}); its output is above", place=str(build.path))


def check_build(build: BuildDir) -> str:
    """Checks the image of `build` against plan, YAML and itself; returns the report or raises `UserError`."""
    image = read_image(build.require_elf())
    check_overlaps(image)
    networks = linked_networks(build, image)
    text = budget.render(budget.memories(image), networks)
    try:
        budget.check_budgets(image, networks)
        _check_thread_stack(build, image, networks)
    except UserError:
        print(text)  # the whole picture first, then what is wrong with it
        raise
    return text


def linked_networks(build: BuildDir, image: ImageSizes) -> list[budget.Network]:
    """The networks of `build` as they stand in its image."""
    tools = Toolchain(Path(gcc), ()) if (gcc := build.cache.get("CMAKE_C_COMPILER")) else None
    found = []
    for report in build.reports():
        name = str(report["name"])
        bound = stack_bound(image, name, toolchain=tools).size
        found.append(budget.network(image, report, bound, _config(build, name)))
    return found


def _check_thread_stack(build: BuildDir, image: ImageSizes, networks: Sequence[budget.Network]) -> None:
    """The default application sizes its thread before the link (stacksize.py): does that hold in the whole image?"""
    stack = image.symbol(_THREAD_STACK)
    if "MCUFUSE_MODEL" not in build.cache or stack is None:
        return
    reserve = build.dotconfig.number("MCUFUSE_APP_STACK_RESERVE")
    for network in networks:
        missing = (network.stack or 0) + reserve - stack.size
        if missing > 0:
            raise UserError(
                f"{stack.size:,} B of stack, but {network.name} takes up to {network.stack:,} B, and {reserve:,} B go "
                "to the self-test and to interrupts",
                place=f"{image.path}: {_THREAD_STACK}",
                hint="the image calls other library functions than those that the stack was sized with: "
                f"west mcufuse build ... -- -DCONFIG_MCUFUSE_APP_STACK_RESERVE={-(-(reserve + missing) // 8) * 8}",
            )


def check_elf(elf: Path) -> str:
    """Checks any image; one that stands in a build directory is checked with all that is known there."""
    build = BuildDir(elf.absolute().parents[1])
    if build.is_configured and build.elf.resolve() == elf.resolve():
        return check_build(build)
    image = read_image(elf)
    check_overlaps(image)
    sizes = {name: network_sizes(image, name) for name in network_names(image)}
    reports = [{"name": name, "arena_bytes": size.arena_bytes} for name, size in sizes.items()]
    networks = [budget.network(image, report, _bound_or_none(image, report["name"]), None) for report in reports]
    text = budget.render(budget.memories(image), networks)
    return text or f"{elf}: no networks and no map file beside it; no two sections overlap"


def _bound_or_none(image: ImageSizes, name: object) -> int | None:
    try:
        return stack_bound(image, str(name)).size
    except UserError:  # no disassembler, or not built by us: then it is not known
        return None


def _config(build: BuildDir, name: str) -> Config | None:
    fit = build.path / "mcufuse" / name / "fit.json"
    path = Path(json.loads(fit.read_text(encoding="utf-8"))["config"]) if fit.is_file() else None
    return load_config(path).renamed(name) if path is not None and path.is_file() else None


def print_report(build: BuildDir, *, as_json: bool) -> None:
    """Prints what the networks of `build` take, with the figures of the image."""
    image = read_image(build.require_elf())
    networks = linked_networks(build, image)
    if as_json:
        print(json.dumps([network.linked_report() for network in networks], indent=2))
        return
    for network in networks:
        show_report(network.linked_report())
    print(budget.render(budget.memories(image), networks))
