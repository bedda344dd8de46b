# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""A Zephyr build directory: where it is, and what stands in it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from ..errors import UserError
from .dotconfig import DotConfig, read_dotconfig

__all__ = ["BuildDir", "default_build_dir", "west_config"]


@dataclass(frozen=True)
class BuildDir:
    """The build directory of one image, configured by CMake or not yet."""

    path: Path

    @classmethod
    def of_image(cls, path: Path) -> BuildDir:
        """`path`, or with sysbuild the directory of the default image within it."""
        try:
            domains = yaml.safe_load((path / "domains.yaml").read_text(encoding="utf-8"))
            images = {domain["name"]: Path(domain["build_dir"]) for domain in domains["domains"]}
            return cls(images[domains["default"]])
        except (OSError, yaml.YAMLError, TypeError, KeyError):
            return cls(path)

    @property
    def is_configured(self) -> bool:
        """Whether CMake has run to its end here."""
        return (self.path / "CMakeCache.txt").is_file() and (self.path / "build.ninja").is_file()

    @cached_property
    def cache(self) -> Mapping[str, str]:
        """CMake's cache; empty before CMake has run."""
        try:
            text = (self.path / "CMakeCache.txt").read_text(encoding="utf-8")
        except OSError:
            return {}
        return dict(re.findall(r"^([^#/\n][^:=\n]*):\w+=(.*)$", text, re.MULTILINE))

    @cached_property
    def dotconfig(self) -> DotConfig:
        """The Kconfig output."""
        return read_dotconfig(self.path / "zephyr" / ".config")

    @property
    def elf(self) -> Path:
        """The linked image, there or not."""
        return self.path / "zephyr" / f"{self.dotconfig.text('KERNEL_BIN_NAME', 'zephyr')}.elf"

    @property
    def board(self) -> str:
        """The board target, such as "mps2/an521/cpu0"."""
        return self.dotconfig.text("BOARD_TARGET") or self.cache.get("BOARD", "")

    @property
    def networks(self) -> tuple[str, ...]:
        """The names of the networks in the image; those of an earlier configuration are left out."""
        try:
            return tuple((self.path / "mcufuse" / "networks.txt").read_text(encoding="utf-8").split())
        except OSError:
            return ()

    def require_elf(self) -> Path:
        """The linked image; raises `UserError` if it is not there."""
        if not self.is_configured or not self.elf.is_file():
            raise UserError(
                "there is no finished Zephyr build",
                place=str(self.path),
                hint="build it: west mcufuse build CONFIG -b BOARD",
            )
        return self.elf

    def reports(self) -> list[dict[str, Any]]:
        """The report.json of each network that has been generated."""
        paths = [self.path / "mcufuse" / name / "report.json" for name in self.networks]
        return [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.is_file()]


def west_config(key: str) -> str:
    """West's configuration option `key`, "" if it is not set or there is no workspace."""
    done = subprocess.run(
        [sys.executable, "-m", "west", "config", key],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return done.stdout.strip() if done.returncode == 0 else ""


def default_build_dir(given: Path | None, board: str, source: Path | None) -> BuildDir:
    """The directory that `west build` would use: -d, build.dir-fmt, the current one if it is one, or build."""
    if given is not None:
        return BuildDir(given.absolute())
    pattern = west_config("build.dir-fmt") or "build"
    cwd = Path.cwd()
    source_dir = "" if source is None or source.is_relative_to(cwd) is False else str(source.relative_to(cwd))
    fields = {"board": board, "source_dir": source_dir, "app": source.name if source else ""}
    try:
        path = Path(pattern.format(**fields)).absolute()
    except (KeyError, IndexError, ValueError) as error:
        raise UserError(
            f"cannot fill in {error}", place=f"west config build.dir-fmt: {pattern}", hint="give -d DIR"
        ) from error
    found = BuildDir(path)
    if not found.is_configured and BuildDir(cwd).is_configured:
        return BuildDir(cwd)
    return found
