# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""What `mcufuse doctor` finds, on this machine and on made-up ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcufuse import doctor
from mcufuse.cli import main
from mcufuse.doctor import Finding, Need, examine, exit_code, find_zephyr_base, render, zephyr_problem, zephyr_version


def zephyr_tree(base: Path, version: str = "4.2.0", extra: str = "") -> Path:
    major, minor, patch = version.split(".")
    base.mkdir(parents=True)
    (base / "Kconfig.zephyr").touch()
    (base / "VERSION").write_text(
        f"VERSION_MAJOR = {major}\nVERSION_MINOR = {minor}\nPATCHLEVEL = {patch}\nVERSION_TWEAK = 0\n"
        f"EXTRAVERSION = {extra}\n",
        encoding="utf-8",
    )
    return base


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No tools on PATH, an empty home, no Zephyr; returns the home."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    for name in ("ZEPHYR_BASE", "GNUARMEMB_TOOLCHAIN_PATH", "ZEPHYR_SDK_INSTALL_DIR", "QEMU_BIN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("mcufuse.paths.checkout_dir", lambda: None)
    return home


def test_missing_tools_are_said_with_the_command_that_gets_them(
    bare_machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "MISSING  arm-none-eabi-gcc" in text
    assert "get it: apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi" in text
    assert "get it: apt-get install qemu-system-arm" in text
    assert "missing  cmake" in text
    assert "missing  Zephyr workspace" in text
    assert "get it: west init" in text
    assert "needed and missing: arm-none-eabi-gcc, qemu-system-arm" in text


@pytest.mark.qemu
def test_this_machine_can_run_networks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    findings = {f["name"]: f for f in json.loads(capsys.readouterr().out)}
    assert findings["arm-none-eabi-gcc"]["ok"]
    assert findings["arm-none-eabi-gcc"]["required"]
    assert findings["numpy"]["found"]
    assert not findings["Zephyr workspace"]["required"]


def test_only_what_running_needs_counts() -> None:
    there = Finding("a", Need.GENERATE, "x", "1.0", "get a")
    optional = Finding("b", Need.ZEPHYR, "x", "", "get b")
    needed = Finding("c", Need.BARE_METAL, "x", "", "get c")
    assert exit_code([there, optional]) == 0
    assert exit_code([there, optional, needed]) == 1
    assert render([there]).endswith("everything is there")
    assert "optional and missing: b" in render([there, optional])


def test_a_broken_tool_says_what_is_wrong(bare_machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNUARMEMB_TOOLCHAIN_PATH", str(tmp_path))
    compiler = next(f for f in examine() if f.name == "arm-none-eabi-gcc")
    assert not compiler.ok
    assert "GNUARMEMB_TOOLCHAIN_PATH" in compiler.get


def test_a_tool_that_hangs_or_fails_is_still_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "cmake"
    tool.write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    tool.chmod(0o755)
    findings = examine(which=lambda name: str(tool) if name == "cmake" else None)
    cmake = next(f for f in findings if f.name == "cmake")
    assert cmake.found == str(tool)


@pytest.mark.parametrize("place", ["environment", "home", "around", "cache"])
def test_where_zephyr_is_looked_for(
    bare_machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    assert find_zephyr_base() is None
    checkout = tmp_path / "ws" / "mcufuse"
    monkeypatch.setattr("mcufuse.paths.checkout_dir", lambda: checkout)
    base = {
        "environment": tmp_path / "elsewhere",
        "home": bare_machine / "zephyrproject" / "zephyr",
        "around": tmp_path / "ws" / "zephyr",
        "cache": checkout / ".cache" / "zephyrproject" / "zephyr",
    }[place]
    zephyr_tree(base)
    if place == "environment":
        monkeypatch.setenv("ZEPHYR_BASE", str(base))
    assert find_zephyr_base() == base


def test_zephyr_base_that_is_none_falls_through(bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZEPHYR_BASE", "/nonexistent")
    assert find_zephyr_base() is None


def test_zephyr_that_wants_another_python(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert zephyr_problem().startswith("no Zephyr workspace")
    base = zephyr_tree(bare_machine / "zephyrproject" / "zephyr")
    assert zephyr_problem() == ""
    (base / "cmake" / "modules").mkdir(parents=True)
    script = base / "cmake" / "modules" / "python.cmake"
    script.write_text("set(PYTHON_MINIMUM_REQUIRED 3.99.1)\n", encoding="utf-8")
    assert zephyr_problem().startswith(f"Zephyr in {base} wants Python 3.99.1, this is 3.")
    main(["doctor"])
    assert "wants Python 3.99.1" in capsys.readouterr().out
    script.write_text("set(PYTHON_MINIMUM_REQUIRED 3.9)\n", encoding="utf-8")
    assert zephyr_problem() == ""


def test_zephyr_version(tmp_path: Path) -> None:
    assert zephyr_version(zephyr_tree(tmp_path / "a", "4.2.0", "rc1")) == "4.2.0-rc1"
    assert zephyr_version(zephyr_tree(tmp_path / "b", "4.1.3")) == "4.1.3"
    assert zephyr_version(tmp_path) == ""
    (tmp_path / "VERSION").write_text("1.2.3\n", encoding="utf-8")
    (tmp_path / "Kconfig.zephyr").touch()
    assert zephyr_version(tmp_path) == ""


def test_missing_module_is_named(bare_machine: Path) -> None:
    base = zephyr_tree(bare_machine / "zephyrproject" / "zephyr", "4.2.0", "rc1")
    findings = {f.name: f for f in doctor.examine()}
    assert findings["Zephyr workspace"].found == f"4.2.0-rc1 in {base}"
    assert not findings["cmsis_6 module"].ok
    module = base.parent / "modules" / "hal" / "cmsis_6" / "zephyr"
    module.mkdir(parents=True)
    (module / "module.yml").touch()
    assert {f.name: f for f in doctor.examine()}["cmsis_6 module"].ok
