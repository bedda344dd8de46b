# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The `west mcufuse` extension command.

Only the standard library and west are imported here: west runs this in its own interpreter, and hides an
ImportError at this point behind a traceback of its own. Everything else is in mcufuse.zephyr.verbs.
"""

import argparse
import importlib.util
import sys
from pathlib import Path

from west.commands import Verbosity, WestCommand

GENERATOR = Path(__file__).resolve().parents[1]
NEEDED = {"numpy": "numpy", "onnx": "onnx", "yaml": "PyYAML", "elftools": "pyelftools", "rich": "rich"}

DESCRIPTION = """\
Builds, checks, runs and tests neural-network firmware.

  west mcufuse build kws.yaml -b qemu_cortex_m3    generate, check, build, check the ELF, report
  west mcufuse run kws.yaml -b qemu_cortex_m3      the same, then the self-test in QEMU
  west mcufuse test -p qemu_cortex_m3              the on-target test suites, by twister
  west mcufuse report | check                      of a build directory; check also takes any ELF
  west mcufuse flash                               west flash

west mcufuse VERB -h tells more. Options of west build, flash and twister are passed on.
"""


class Mcufuse(WestCommand):
    """Hands the rest of its command line to mcufuse."""

    def __init__(self):
        super().__init__("mcufuse", "build, check, run and test neural-network firmware", DESCRIPTION)

    def do_add_parser(self, parser_adder):
        parser = parser_adder.add_parser(
            self.name,
            help=self.help,
            description=self.description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.add_argument("verb", metavar="VERB", help="build, run, test, report, check or flash")
        parser.add_argument("rest", metavar="...", nargs=argparse.REMAINDER, help="its arguments")
        return parser

    def do_run(self, args, unknown):
        if sys.version_info < (3, 11):
            self.die(f"mcufuse needs Python 3.11 or later; west runs in {sys.version.split()[0]} ({sys.executable})")
        missing = [package for module, package in NEEDED.items() if importlib.util.find_spec(module) is None]
        if missing:
            self.die(
                f"missing Python packages: {' '.join(missing)}\n"
                f"  install them for west's own interpreter:\n"
                f"  {sys.executable} -m pip install -r {GENERATOR / 'west' / 'requirements.txt'}"
            )
        sys.path.insert(0, str(GENERATOR))
        from mcufuse.zephyr import verbs

        verbosity = max(0, self.verbosity - Verbosity.INF)
        code = verbs.main([args.verb, *args.rest, *unknown], verbosity=verbosity)
        if code:
            raise SystemExit(code)
