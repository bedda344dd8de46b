# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""`mcufuse check`: what a linked image really holds, against plan and budget."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import EXIT_OK, UserError
from .base import Command

if TYPE_CHECKING:
    from ..config import Config
    from ..elf import ImageSizes

__all__ = ["COMMAND"]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("elf", metavar="ELF", type=Path, help="linked image, e.g. build/zephyr/zephyr.elf")
    parser.add_argument("--report", metavar="FILE", type=Path, help="report.json of the network in it")
    parser.add_argument("--config", metavar="CONFIG", type=Path, help="configuration, for its budget")


def _run(args: argparse.Namespace) -> int:
    if args.report is None and args.config is None:
        from ..zephyr.build import check_elf  # finds reports and configurations of a Zephyr build by itself

        print(check_elf(args.elf))
    else:
        _check(args)
    return EXIT_OK


def _check(args: argparse.Namespace) -> None:
    from ..config import load_config
    from ..elf import check_overlaps, read_image
    from ..report import load_report
    from ..zephyr import budget

    image = read_image(args.elf)
    check_overlaps(image)
    config = load_config(args.config) if args.config else None
    report = load_report(args.report) if args.report else _report_of(image, config)
    if config is not None and config.name != report["name"]:
        config = config.renamed(report["name"])
    network = budget.network(image, report, report.get("stack_bytes"), config)
    print(budget.render(budget.memories(image), [network]))
    budget.check_budgets(image, [network])


def _report_of(image: ImageSizes, config: Config | None) -> dict[str, Any]:
    """What stands for a report when none is given: the network by the configuration's name, or the only one."""
    from ..elf import network_names

    names = network_names(image)
    name = config.name if config is not None and config.name in names else names[0] if len(names) == 1 else ""
    if not name:
        raise UserError(
            f"cannot tell which network is meant; the image holds {', '.join(names) or 'none'}",
            place=str(image.path),
            hint="name its report.json with --report",
        )
    arena = image.symbol(f"{name}_arena")
    return {"name": name, "arena_bytes": arena.size if arena else 0}


COMMAND = Command(
    name="check",
    summary="check a linked image against plan and budget",
    description="Reads an ELF (and the map file beside it): what each memory holds and whose it is, that no sections\n"
    "overlap, that the arena is the planned one, and that the budget holds. A breach is exit code 1.",
    example="example: mcufuse check build/zephyr/zephyr.elf --report build/kws/report.json --config kws.yaml",
    add_arguments=_add_arguments,
    run=_run,
)
