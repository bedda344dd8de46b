# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The verbs of `west mcufuse`: what each takes, and what it does.

West's own options are passed on as they were given and nothing else is added, so that build.board,
build.dir-fmt, build.pristine and the rest of west's configuration hold here, too.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..cli import guarded
from ..errors import EXIT_OK, EXIT_USER
from .workspace import project_env, repository

__all__ = ["main"]

# Options of `west build` that take a value, and those that do not; all are handed on.
_BUILD_VALUES = ("-t", "--target", "-T", "--test-item", "-o", "--build-opt", "-S", "--snippet", "--shield", "--domain",
                 "--extra-conf", "--extra-dtc-overlay")  # fmt: skip
_BUILD_FLAGS = ("-c", "--cmake", "--cmake-only", "-n", "--just-print", "--dry-run", "--recon", "-f", "--force",
                "--sysbuild", "--no-sysbuild")  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Verb:
    summary: str
    example: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    passes_on: bool = False  # hands unknown arguments to the tool behind it


class _PassOn(argparse.Action):
    """Keeps an option of `west build` as it was written."""

    def __call__(
        self, parser: object, namespace: argparse.Namespace, values: object, option: str | None = None
    ) -> None:
        items = [str(option), *([str(values)] if isinstance(values, str) else [])]
        namespace.west = [*(namespace.west or []), *items]


def _add_build(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", metavar="CONFIG", type=Path, nargs="?", help="the network's YAML, .tflite or .onnx")
    parser.add_argument(
        "-s", "--source-dir", metavar="APP", type=Path, help="an application of yours, which adds its own networks"
    )
    parser.add_argument(
        "-b", "--board", help="as for west build; default: west config build.board, or the build directory's"
    )
    parser.add_argument("-d", "--build-dir", type=Path, help="as for west build")
    parser.add_argument(
        "-p", "--pristine", nargs="?", const="always", choices=("auto", "always", "never"), help="as for west build"
    )
    for names, options in (("west", _BUILD_VALUES), ("west", _BUILD_FLAGS)):
        takes_value = options is _BUILD_VALUES
        for option in options:
            parser.add_argument(
                option,
                dest=names,
                action=_PassOn,
                nargs=None if takes_value else 0,
                default=None,
                help=argparse.SUPPRESS,
            )
    parser.add_argument("--no-check", action="store_true", help="build only, without the check of the ELF")
    parser.set_defaults(cmake=[], west=None)


def _add_run(parser: argparse.ArgumentParser) -> None:
    _add_build(parser)
    parser.add_argument(
        "--timeout", metavar="S", type=float, default=300.0, help="seconds until QEMU is ended (default 300)"
    )


def _add_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-d", "--build-dir", type=Path, help="build directory, as for west build")


def _add_check(parser: argparse.ArgumentParser) -> None:
    _add_dir(parser)
    parser.add_argument(
        "elf", metavar="ELF", type=Path, nargs="?", help="a linked image; default: the build directory's"
    )


def _add_report(parser: argparse.ArgumentParser) -> None:
    _add_dir(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def _add_test(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-p", "--platform", action="append", metavar="BOARD", help="board; may be given more than once")
    parser.add_argument(
        "-T", "--testsuite-root", action="append", type=Path, metavar="DIR", help="default: mcufuse's twister-tests"
    )
    parser.add_argument("-O", "--outdir", type=Path, default=Path("twister-out"), help="default: twister-out")


def _add_nothing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-d", "--build-dir", type=Path, help="build directory, as for west flash")


def _build(args: argparse.Namespace) -> int:
    from .build import build_image

    build_image(args)
    return EXIT_OK


def _run(args: argparse.Namespace) -> int:
    from .build import build_image
    from .emulate import run_selftest

    build = build_image(args)
    run_selftest(build, project_env(os.environ), args.timeout)
    return EXIT_OK


def _check(args: argparse.Namespace) -> int:
    from .build import check_build, check_elf
    from .builds import BuildDir, default_build_dir

    if args.elf is not None:
        print(check_elf(args.elf))
    else:
        print(check_build(BuildDir.of_image(default_build_dir(args.build_dir, "", None).path)))
    return EXIT_OK


def _report(args: argparse.Namespace) -> int:
    from .build import print_report
    from .builds import BuildDir, default_build_dir

    print_report(BuildDir.of_image(default_build_dir(args.build_dir, "", None).path), as_json=args.json)
    return EXIT_OK


def _test(args: argparse.Namespace) -> int:
    from .twister import run_twister

    roots = args.testsuite_root or [repository() / "twister-tests"]
    run_twister(roots, args.platform or [], args.outdir, args.rest, project_env(os.environ))
    return EXIT_OK


def _flash(args: argparse.Namespace) -> int:
    chosen = ["-d", str(args.build_dir)] if args.build_dir else []
    command = [sys.executable, "-m", "west", "flash", *chosen, *args.rest]
    done = subprocess.run(command, env=project_env(os.environ), check=False)
    return EXIT_OK if done.returncode == 0 else EXIT_USER


_VERBS: dict[str, _Verb] = {
    "build": _Verb(
        "generate, check against the board, build, check the ELF, report",
        "west mcufuse build kws.yaml -b nucleo_l4r5zi -- -DCONFIG_LOG=y",
        _add_build,
        _build,
    ),
    "run": _Verb(
        "build, then run the self-test in QEMU", "west mcufuse run kws.yaml -b qemu_cortex_m3", _add_run, _run
    ),
    "test": _Verb(
        "run the on-target tests with twister; further options go to twister",
        "west mcufuse test -p qemu_cortex_m3 --inline-logs",
        _add_test,
        _test,
        passes_on=True,
    ),
    "check": _Verb(
        "check a build directory's image, or any ELF", "west mcufuse check build/zephyr/zephyr.elf", _add_check, _check
    ),
    "report": _Verb(
        "say what the networks of a build take", "west mcufuse report -d build --json", _add_report, _report
    ),
    "flash": _Verb(
        "west flash, with its options", "west mcufuse flash --runner openocd", _add_nothing, _flash, passes_on=True
    ),
}


def _parser(name: str, verb: _Verb) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"west mcufuse {name}",
        description=f"{verb.summary[0].upper()}{verb.summary[1:]}.",
        epilog=f"example: {verb.example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    verb.add_arguments(parser)
    return parser


def _parse(argv: Sequence[str], verbosity: int) -> tuple[_Verb, argparse.Namespace]:
    """The verb and its arguments; what stands behind "--" is for CMake. Exits with code 2 on wrong usage."""
    overview = argparse.ArgumentParser(prog="west mcufuse", description="Verbs: " + ", ".join(_VERBS))
    if not argv or argv[0] not in _VERBS:
        overview.error(f"unknown verb {argv[0]!r}; known: {', '.join(_VERBS)}" if argv else "name a verb")
    verb = _VERBS[argv[0]]
    rest = list(argv[1:])
    cmake: list[str] = []
    if not verb.passes_on and "--" in rest:
        at = rest.index("--")
        rest, cmake = rest[:at], rest[at + 1 :]
    parser = _parser(argv[0], verb)
    args, unknown = parser.parse_known_args(rest)
    if unknown and not verb.passes_on:
        parser.error(f"unknown arguments: {' '.join(unknown)}")
    args.rest, args.cmake, args.verbosity = unknown, cmake, verbosity
    return verb, args


def main(argv: Sequence[str], verbosity: int = 0) -> int:
    """Runs `west mcufuse ARGV...`; `verbosity` counts west's own -v. Returns the exit code."""
    verb, args = _parse(argv, verbosity)
    return guarded(lambda: verb.run(args), ["west", "mcufuse", *argv])
