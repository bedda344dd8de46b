# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Finds Zephyr and a compiler for it, and lays out a workspace where there is only a source tree.

`make_workspace` is for tests and for `make demo`: symbolic links beside a manifest that imports nothing, so
that neither the network nor a git history is needed, and the tree that it points to stays untouched:

    topdir/.west/config        manifest = manifest/west.yml
    topdir/manifest/west.yml   names the projects below
    topdir/zephyr/* -> ...     topdir/modules/hal/cmsis_6 -> ...       topdir/mcufuse -> this repository

Links alone would not do: Zephyr's scripts look for the workspace in the parents of zephyr, its linker scripts
include others by a path relative to zephyr/include, the search for system calls follows no linked directory, and
west refuses extension commands outside their project. So zephyr, zephyr/include (all the way down) and
zephyr/scripts are directories of links, and the west commands are copied.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from ..doctor import find_zephyr_base
from ..errors import UserError
from ..paths import checkout_dir

__all__ = ["make_workspace", "project_env", "repository", "toolchain_env", "zephyr_base"]

_SDK_PLACES = ("~", "~/.local", "~/.local/opt", "~/bin", "/opt", "/usr", "/usr/local")  # as FindZephyr-sdk.cmake looks


def repository() -> Path:
    """The checkout of mcufuse; the Zephyr side needs its firmware/, boards/ and twister-tests/."""
    top = checkout_dir()
    if top is None:
        raise UserError(
            "this is an installed package, without the Zephyr module",
            hint="clone the repository and use it as a Zephyr module (docs/zephyr.md)",
        )
    return top


def zephyr_base() -> Path:
    """Zephyr's tree: $ZEPHYR_BASE, else ~/zephyrproject/zephyr, ...; raises `UserError` when there is none."""
    base = find_zephyr_base()
    if base is None:
        raise UserError("no Zephyr found", hint="set ZEPHYR_BASE, or run west from a Zephyr workspace (mcufuse doctor)")
    return base


def toolchain_env(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment`, with Debian's arm-none-eabi-gcc named to Zephyr when nothing else is.

    A toolchain that the user named, or an installed Zephyr SDK, comes first.
    """
    env = dict(environment)
    named = any(env.get(key) for key in ("ZEPHYR_TOOLCHAIN_VARIANT", "ZEPHYR_SDK_INSTALL_DIR", "CROSS_COMPILE"))
    gcc = shutil.which("arm-none-eabi-gcc", path=env.get("PATH"))
    if named or gcc is None or _has_sdk():
        return env
    env["ZEPHYR_TOOLCHAIN_VARIANT"] = "gnuarmemb"
    env["GNUARMEMB_TOOLCHAIN_PATH"] = str(Path(gcc).parents[1])
    return env


def _has_sdk() -> bool:
    if (Path.home() / ".cmake" / "packages" / "Zephyr-sdk").is_dir():
        return True
    return any(next(Path(place).expanduser().glob("zephyr-sdk*"), None) is not None for place in _SDK_PLACES)


def make_workspace(topdir: Path, base: Path, repo: Path | None = None) -> Path:
    """Makes a west workspace in `topdir` around the Zephyr tree `base`, its modules, and mcufuse; returns `topdir`."""
    repo = repository() if repo is None else repo
    projects = [("zephyr", base.resolve(), "scripts/west-commands.yml")]
    modules = base.resolve().parent / "modules"
    found = sorted(path.parents[1] for path in modules.glob("*/*/zephyr/module.yml"))
    projects += [(str(path.relative_to(modules.parent)), path, "") for path in found]
    projects += [("mcufuse", repo, "generator/west/west-commands.yml")]
    lines = ["manifest:", "  self:", "    path: manifest", "  projects:"]
    for place, source, commands in projects:
        link = topdir / place
        if place == "zephyr":
            _lay_out_zephyr(link, source)
        else:
            _link(link, source)
        lines += [f"    - name: {link.name}", f"      path: {place}", f"      url: file://{source}"]
        lines += [f"      west-commands: {commands}"] if commands else []
    _write(topdir / "manifest" / "west.yml", "\n".join(lines) + "\n")
    _write(topdir / ".west" / "config", "[manifest]\npath = manifest\nfile = west.yml\n\n[zephyr]\nbase = zephyr\n")
    return topdir


def _lay_out_zephyr(directory: Path, source: Path) -> None:
    commands = ("west-commands.yml", "west_commands")
    for parent, real in ((".", ("include", "scripts")), ("scripts", commands)):
        for entry in (source / parent).iterdir():
            if entry.name not in real:
                _link(directory / parent / entry.name, entry)
    shutil.copytree(source / "include", directory / "include", copy_function=_link_file, dirs_exist_ok=True)
    for path in [source / "scripts" / commands[0], *(source / "scripts" / commands[1]).rglob("*.py")]:
        _copy(path, directory / path.relative_to(source))


def _link_file(source: str, link: str) -> None:
    _link(Path(link), Path(source))


def _link(link: Path, source: Path) -> None:
    if link.is_symlink():
        if link.readlink() == source:
            return  # others may be using it
        link.unlink()
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(source)


def _copy(source: Path, target: Path) -> None:
    _write(target, source.read_text(encoding="utf-8"))


def _write(path: Path, text: str) -> None:
    """Writes `path` unless it holds `text` already; in one move, because others may be reading it."""
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def west_topdir(start: Path) -> Path | None:
    """The west workspace around `start`, or None."""
    return next((place for place in (start, *start.parents) if (place / ".west" / "config").is_file()), None)


def project_env(environment: Mapping[str, str], start: Path | None = None) -> dict[str, str]:
    """`environment` for a Zephyr build started in `start`: the toolchain and, outside a workspace, ZEPHYR_BASE.

    The directory of the running Python comes first in PATH when it holds west: twister calls `west flash` by name, and
    in a virtual environment that is not activated it would not find it, or find another one.
    """
    env = toolchain_env(environment)
    scripts = Path(sys.executable).parent
    if (scripts / "west").is_file():
        env["PATH"] = os.pathsep.join([str(scripts), env.get("PATH", os.defpath)])
    if not env.get("ZEPHYR_BASE") and west_topdir(start or Path.cwd()) is None:
        env["ZEPHYR_BASE"] = str(zephyr_base())
    return env
