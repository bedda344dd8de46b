# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Where the compiler and the emulator are looked for, and what is said when they are not there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mcufuse.errors import UserError
from mcufuse.toolchain import find_emulator, find_toolchain

GCC = """#!/bin/sh
case "$*" in
*-dumpfullversion*) echo {version} ;;
*libc.a*) echo {libc} ;;
esac
"""
QEMU = """#!/bin/sh
echo "QEMU emulator version {version} (Debian 1:9)"
"""


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def put_gcc(path: Path, version: str = "12.2.1", libc: str = "/lib/libc.a") -> Path:
    return put(path, GCC.format(version=version, libc=libc))


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    return {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path / "home"), **more}


def test_on_path(tmp_path: Path) -> None:
    gcc = put_gcc(tmp_path / "bin" / "arm-none-eabi-gcc")
    found = find_toolchain(environment(tmp_path))
    assert (found.gcc, found.version, found.label) == (gcc, (12, 2, 1), "arm-none-eabi-gcc 12.2.1")
    assert found.tool("objdump") == gcc.with_name("arm-none-eabi-objdump")


def test_what_the_environment_names_comes_first(tmp_path: Path) -> None:
    put_gcc(tmp_path / "bin" / "arm-none-eabi-gcc")
    own = put_gcc(tmp_path / "own" / "bin" / "arm-none-eabi-gcc", "14.3.1")
    sdk = put_gcc(tmp_path / "sdk" / "arm-zephyr-eabi" / "bin" / "arm-zephyr-eabi-gcc")
    given = {"ZEPHYR_SDK_INSTALL_DIR": str(tmp_path / "sdk")}
    assert find_toolchain(environment(tmp_path, **given)).gcc == sdk
    assert find_toolchain(environment(tmp_path, **given)).tool("nm").name == "arm-zephyr-eabi-nm"
    given["GNUARMEMB_TOOLCHAIN_PATH"] = str(tmp_path / "own")
    assert find_toolchain(environment(tmp_path, **given)).gcc == own


def test_newer_layout_of_the_zephyr_sdk(tmp_path: Path) -> None:
    gcc = put_gcc(tmp_path / "sdk" / "gnu" / "arm-zephyr-eabi" / "bin" / "arm-zephyr-eabi-gcc", "14.3.0")
    assert find_toolchain(environment(tmp_path, ZEPHYR_SDK_INSTALL_DIR=str(tmp_path / "sdk"))).gcc == gcc


def test_an_sdk_in_its_usual_place(tmp_path: Path) -> None:
    for version in ("0.9.5", "0.17.0", "0.16.8"):
        put_gcc(tmp_path / "home" / f"zephyr-sdk-{version}" / "arm-zephyr-eabi" / "bin" / "arm-zephyr-eabi-gcc")
    assert "zephyr-sdk-0.17.0" in str(find_toolchain(environment(tmp_path)).gcc)


@pytest.mark.parametrize("variable", ["GNUARMEMB_TOOLCHAIN_PATH", "ZEPHYR_SDK_INSTALL_DIR"])
def test_a_variable_that_names_nothing_is_an_error(tmp_path: Path, variable: str) -> None:
    put_gcc(tmp_path / "bin" / "arm-none-eabi-gcc")
    with pytest.raises(UserError, match=f"environment variable {variable}=/nowhere: .* is not there") as error:
        find_toolchain(environment(tmp_path, **{variable: "/nowhere"}))
    assert f"unset {variable}" in str(error.value)


@pytest.mark.parametrize(
    ("version", "libc", "message"),
    [
        ("9.3.1", "/lib/libc.a", r"version 9\.3\.1 is too old, mcufuse needs 10\.1"),
        ("12.2.1", "libc.a", "no C library for Cortex-M(.|\n)*libnewlib-arm-none-eabi"),
        ("nonsense", "/lib/libc.a", "does not tell its version"),
    ],
)
def test_an_unfit_compiler(tmp_path: Path, version: str, libc: str, message: str) -> None:
    put_gcc(tmp_path / "bin" / "arm-none-eabi-gcc", version, libc)
    with pytest.raises(UserError, match=message):
        find_toolchain(environment(tmp_path))


def test_a_compiler_that_does_not_run(tmp_path: Path) -> None:
    put(tmp_path / "bin" / "arm-none-eabi-gcc", "#!/bin/sh\nexit 3\n")
    with pytest.raises(UserError, match="it does not run"):
        find_toolchain(environment(tmp_path))


def test_nothing_is_installed(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"not found(.|\n)*apt install gcc-arm-none-eabi libnewlib-arm-none-eabi"):
        find_toolchain(environment(tmp_path))
    with pytest.raises(UserError, match=r"not found(.|\n)*apt install qemu-system-arm"):
        find_emulator(environment(tmp_path))


def test_emulators(tmp_path: Path) -> None:
    sdk = tmp_path / "sdk"
    in_sdk = put(
        sdk / "hosttools" / "sysroots" / "x86_64-pokysdk-linux" / "usr" / "bin" / "qemu-system-arm",
        QEMU.format(version="9.1.0"),
    )
    assert find_emulator(environment(tmp_path, ZEPHYR_SDK_INSTALL_DIR=str(sdk))).path == in_sdk
    on_path = put(tmp_path / "bin" / "qemu-system-arm", QEMU.format(version="7.2.22"))
    found = find_emulator(environment(tmp_path, ZEPHYR_SDK_INSTALL_DIR=str(sdk)))
    assert (found.path, found.version, found.label) == (on_path, (7, 2, 22), "qemu-system-arm 7.2.22")
    own = put(tmp_path / "own" / "qemu-system-arm", QEMU.format(version="6.2.0"))
    with pytest.raises(UserError, match=re.escape(f"{own}: version 6.2.0 is too old, mcufuse needs 7.0")):
        find_emulator(environment(tmp_path, QEMU_BIN_PATH=str(own.parent)))
