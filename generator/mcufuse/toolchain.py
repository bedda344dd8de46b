# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Where the cross compiler and the emulator are.

What the user said in the environment comes first and must hold; then PATH; then the usual places of a
Zephyr SDK.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from .errors import UserError

__all__ = ["MIN_GCC", "MIN_QEMU", "Emulator", "Toolchain", "find_emulator", "find_toolchain"]

MIN_GCC = (10, 1)  # -mcpu=cortex-m55, -fcallgraph-info
MIN_QEMU = (7, 0)  # mps3-an547; older ones were not tried

_TOOL_TIMEOUT_S = 20
_SDK_GCC = ("arm-zephyr-eabi/bin/arm-zephyr-eabi-gcc", "gnu/arm-zephyr-eabi/bin/arm-zephyr-eabi-gcc")
_SDK_QEMU = "*/sysroots/*/usr/bin/qemu-system-arm"
_SDK_QEMU_SHORT = "sysroots/*/usr/bin/qemu-system-arm"
_GCC_HINT = (
    "on Debian or Ubuntu: sudo apt install gcc-arm-none-eabi libnewlib-arm-none-eabi; or set "
    "GNUARMEMB_TOOLCHAIN_PATH or ZEPHYR_SDK_INSTALL_DIR to an installed one"
)
_QEMU_HINT = "on Debian or Ubuntu: sudo apt install qemu-system-arm; or set QEMU_BIN_PATH to its directory"


@dataclass(frozen=True)
class Toolchain:
    """A GNU toolchain for Cortex-M."""

    gcc: Path
    version: tuple[int, ...]

    def tool(self, name: str) -> Path:
        """The program beside the compiler: "objdump", "nm", ..."""
        return self.gcc.with_name(self.gcc.name.removesuffix("gcc") + name)

    @cached_property
    def label(self) -> str:
        """For reports: "arm-none-eabi-gcc 12.2.1"."""
        return f"{self.gcc.name} {'.'.join(map(str, self.version))}"


@dataclass(frozen=True)
class Emulator:
    """qemu-system-arm."""

    path: Path
    version: tuple[int, ...]

    @cached_property
    def label(self) -> str:
        """For reports: "qemu-system-arm 7.2.22"."""
        return f"{self.path.name} {'.'.join(map(str, self.version))}"


def find_toolchain(env: Mapping[str, str] | None = None) -> Toolchain:
    """The compiler to use; raises `UserError` when there is none, it is too old or it has no C library."""
    env = os.environ if env is None else env
    gcc = _find_gcc(env)
    version = _version(gcc, "-dumpfullversion", r"(\d+(?:\.\d+)*)")
    if version < MIN_GCC:
        raise UserError(
            f"version {_dotted(version)} is too old, mcufuse needs {_dotted(MIN_GCC)}", place=str(gcc), hint=_GCC_HINT
        )
    libc = _output(gcc, "-mcpu=cortex-m3", "-mthumb", "-print-file-name=libc.a").strip()
    if not Path(libc).is_absolute():
        raise UserError(
            "the compiler has no C library for Cortex-M (string.h, memcpy)",
            place=str(gcc),
            hint="on Debian or Ubuntu: sudo apt install libnewlib-arm-none-eabi",
        )
    return Toolchain(gcc, version)


def find_emulator(env: Mapping[str, str] | None = None) -> Emulator:
    """The emulator to use; raises `UserError` when there is none or it is too old."""
    env = os.environ if env is None else env
    path = _find_qemu(env)
    version = _version(path, "--version", r"version (\d+(?:\.\d+)*)")
    if version < MIN_QEMU:
        raise UserError(
            f"version {_dotted(version)} is too old, mcufuse needs {_dotted(MIN_QEMU)}",
            place=str(path),
            hint=_QEMU_HINT,
        )
    return Emulator(path, version)


def _find_gcc(env: Mapping[str, str]) -> Path:
    if given := env.get("GNUARMEMB_TOOLCHAIN_PATH"):
        return _must_run(Path(given).expanduser() / "bin" / "arm-none-eabi-gcc", "GNUARMEMB_TOOLCHAIN_PATH", given)
    if given := env.get("ZEPHYR_SDK_INSTALL_DIR"):
        places = [Path(given).expanduser() / name for name in _SDK_GCC]
        return next((p for p in places if _runs(p)), None) or _must_run(places[0], "ZEPHYR_SDK_INSTALL_DIR", given)
    if on_path := shutil.which("arm-none-eabi-gcc", path=env.get("PATH")):
        return Path(on_path)
    for sdk in _usual_sdks(env):
        for name in _SDK_GCC:
            if _runs(sdk / name):
                return sdk / name
    raise UserError("arm-none-eabi-gcc was not found", hint=_GCC_HINT)


def _find_qemu(env: Mapping[str, str]) -> Path:
    if given := env.get("QEMU_BIN_PATH"):
        return _must_run(Path(given).expanduser() / "qemu-system-arm", "QEMU_BIN_PATH", given)
    if on_path := shutil.which("qemu-system-arm", path=env.get("PATH")):
        return Path(on_path)
    given = env.get("ZEPHYR_SDK_INSTALL_DIR")
    for sdk in [Path(given).expanduser()] if given else _usual_sdks(env):
        for pattern in (_SDK_QEMU_SHORT, _SDK_QEMU):
            for path in sorted(sdk.glob(pattern)):
                if _runs(path):
                    return path
    raise UserError("qemu-system-arm was not found", hint=_QEMU_HINT)


def _usual_sdks(env: Mapping[str, str]) -> Iterator[Path]:
    """Installed Zephyr SDKs, newest first, in the places where Zephyr's CMake looks too."""
    home = Path(env.get("HOME", "~")).expanduser()
    for parent in (home, home / ".local", home / ".local/opt", home / "bin", Path("/opt"), Path("/usr/local")):
        yield from sorted(parent.glob("zephyr-sdk-*"), key=_numbers, reverse=True)


def _numbers(path: Path) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", path.name)]


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _must_run(path: Path, variable: str, value: str) -> Path:
    if not _runs(path):
        raise UserError(
            f"{path} is not there or cannot be executed",
            place=f"environment variable {variable}={value}",
            hint=f"unset {variable}, or let it name an installed toolchain",
        )
    return path


def _output(*command: str | Path) -> str:
    """Standard output of a tool that should answer at once; raises `UserError` when it does not."""
    try:
        done = subprocess.run(
            [str(part) for part in command],
            capture_output=True,
            text=True,
            timeout=_TOOL_TIMEOUT_S,
            check=True,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise UserError(f"it does not run: {error}", place=str(command[0]), hint="reinstall it") from error
    return done.stdout


def _version(program: Path, option: str, pattern: str) -> tuple[int, ...]:
    text = _output(program, option)
    found = re.search(pattern, text)
    if found is None:
        raise UserError(f"it does not tell its version: {text[:80]!r}", place=str(program), hint="reinstall it")
    return tuple(int(part) for part in found[1].split("."))


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
