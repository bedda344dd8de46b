# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The command line: one subcommand per file of `commands/`, and how each ends.

Exit codes: 0 fine, 1 the user's input, budget or machine, 2 usage, 70 a bug of ours, 130 interrupted.
"""

from __future__ import annotations

import argparse
import errno
import os
import platform
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence

from . import __version__
from .commands import COMMANDS
from .errors import EXIT_BUG, EXIT_OK, EXIT_USER, UserError

__all__ = ["guarded", "main", "make_parser"]

EXIT_INTERRUPTED = 130

# Errors of the operating system that the user can do something about.
_USERS_OS_ERRORS = frozenset(
    {
        errno.EACCES, errno.EDQUOT, errno.EFBIG, errno.EISDIR, errno.EMFILE, errno.ENAMETOOLONG, errno.ENFILE,
        errno.ENOENT, errno.ENOSPC, errno.ENOTDIR, errno.EPERM, errno.EROFS,
    }
)  # fmt: skip


def make_parser() -> argparse.ArgumentParser:
    """The parser with all subcommands; each sets `run`, which takes the arguments and returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="mcufuse",
        description="Turns a trained int8 network (.tflite or .onnx) into Cortex-M firmware that provably fits.",
        epilog="example: mcufuse run examples/kws/kws.yaml --core cortex-m4",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mcufuse {__version__}")
    subparsers = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        sub = subparsers.add_parser(
            command.name,
            help=command.summary,
            description=command.description,
            epilog=command.example,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(sub)
        sub.set_defaults(run=command.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line `argv` (default: the process's own) and returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    args = make_parser().parse_args(_joined(arguments))
    return guarded(lambda: args.run(args), arguments)


def _joined(arguments: Sequence[str]) -> list[str]:
    """`--opt -O2` as `--opt=-O2`, which argparse would otherwise take for two options."""
    joined: list[str] = []
    for word in arguments:
        if joined and joined[-1] == "--opt" and word.startswith("-O"):
            joined[-1] = f"--opt={word}"
        else:
            joined.append(word)
    return joined


def guarded(command: Callable[[], int], arguments: Sequence[str]) -> int:
    """Runs `command`; whatever it raises becomes a message on standard error and an exit code."""
    try:
        code = command()
        sys.stdout.flush()
    except UserError as error:
        return _user_error(str(error), len(error.problems))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader of our output, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except MemoryError:
        return _user_error("not enough memory for this network")
    except OSError as error:
        if error.errno not in _USERS_OS_ERRORS:
            return _bug(error, arguments)
        names = " -> ".join(str(name) for name in (error.filename, error.filename2) if name)
        return _user_error(f"{names}: {error.strerror}" if names else str(error.strerror))
    except Exception as error:  # noqa: BLE001 - the last resort is the point of this function
        return _bug(error, arguments)
    return code


def _user_error(text: str, problems: int = 1) -> int:
    print(f"error: {problems} problems\n{text}" if problems > 1 else f"error: {text}", file=sys.stderr)
    return EXIT_USER


def _bug(error: BaseException, arguments: Sequence[str]) -> int:
    details = "\n".join(
        (
            f"mcufuse {__version__}, Python {platform.python_version()}, {platform.platform()}",
            f"command: mcufuse {' '.join(arguments)}",
            "".join(traceback.format_exception(error)),
        )
    )
    what = str(error).partition("\n")[0]
    print(f"error: this is a bug in mcufuse: {type(error).__name__}: {what}", file=sys.stderr)
    try:
        handle, name = tempfile.mkstemp(prefix="mcufuse-bug-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(details)
    except OSError:
        print(details, file=sys.stderr)
        name = "the text above"
    print(
        f"  hint: please report it in the project's issue tracker, with {name} and, if you may share it, the model",
        file=sys.stderr,
    )
    return EXIT_BUG
