# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Everything is in pyproject.toml; this only copies firmware/ into the wheel, as mcufuse/_firmware."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

FIRMWARE = Path(__file__).resolve().parent / "firmware"


class BuildWithFirmware(build_py):
    """Builds the package and puts the C headers and sources beside it (not for an editable install)."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "mcufuse" / "_firmware"
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(FIRMWARE, target, ignore=shutil.ignore_patterns("build*", "__pycache__"))


setup(cmdclass={"build_py": BuildWithFirmware})
