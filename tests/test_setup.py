# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""scripts/setup.sh on made-up machines: without tools, without the network, with a network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BASICS = (
    "awk", "bash", "cat", "chmod", "cut", "dirname", "env", "grep", "head", "id", "ls", "mkdir", "mktemp", "rm", "sed",
    "sha256sum", "sh", "tail", "timeout", "touch", "tr", "uname",
)  # fmt: skip


class Machine:
    """A checkout with the scripts only, and a PATH with the basic tools only."""

    def __init__(self, top: Path, repo: Path) -> None:
        self.top = top / "checkout"
        self.bin = top / "bin"
        self.home = top / "home"
        for place in (self.top, self.bin, self.home):
            place.mkdir()
        shutil.copytree(repo / "scripts", self.top / "scripts")
        for name in ("pyproject.toml", "setup.py", "west.yml"):
            shutil.copy(repo / name, self.top)
        for name in BASICS:
            found = shutil.which(name)
            assert found, name
            (self.bin / name).symlink_to(found)
        self.generator = repo / "generator"

    def tool(self, name: str, script: str, where: Path | None = None) -> None:
        path = (where or self.bin) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)

    def python(self, script: str = "") -> None:
        """A .venv whose python is this one, with mcufuse importable; `script` runs before."""
        self.tool("python", f'{script}\nexec {sys.executable} "$@"', self.top / ".venv" / "bin")

    def setup(self, *parts: str, **environment: str) -> subprocess.CompletedProcess[str]:
        env = {"PATH": str(self.bin), "HOME": str(self.home), "PYTHONPATH": str(self.generator), "LC_ALL": "C.UTF-8"}
        return subprocess.run(
            ["bash", "scripts/setup.sh", *parts],
            cwd=self.top,
            env=env | environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )


@pytest.fixture
def machine(tmp_path: Path, repo: Path) -> Machine:
    return Machine(tmp_path, repo)


def test_unknown_part(machine: Machine) -> None:
    done = machine.setup("compiler")
    assert done.returncode == 1
    assert 'unknown part "compiler": choose from tools, python, zephyr' in done.stderr


def test_missing_tools_without_apt_are_named(machine: Machine) -> None:
    done = machine.setup("tools")
    assert done.returncode == 1
    assert "setup: error: missing: gcc-arm-none-eabi qemu-system-arm gcc git cmake ninja-build" in done.stderr
    assert "sudo apt-get update && sudo apt-get install gcc-arm-none-eabi" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="as root only: otherwise it asks for sudo")
def test_missing_tools_are_installed_once(machine: Machine) -> None:
    machine.tool("apt-get", 'echo "$@" >> "$HOME/apt.log"')
    done = machine.setup("tools")
    assert done.returncode == 0, done.stderr
    update, install, *browser = (machine.home / "apt.log").read_text().splitlines()
    assert all("chromium" in line or line.endswith(" update") for line in browser)
    assert update.endswith(" update")
    assert "install --no-install-recommends gcc-arm-none-eabi" in install
    assert "setup: installing Debian packages: gcc-arm-none-eabi qemu-system-arm" in done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="as root only: otherwise it asks for sudo")
def test_apt_that_fails_is_shown(machine: Machine) -> None:
    machine.tool("apt-get", 'case "$*" in *install*) echo "E: Unable to locate package"; exit 100;; esac')
    done = machine.setup("tools")
    assert done.returncode == 1
    assert "E: Unable to locate package" in done.stderr
    assert "setup: error: apt-get could not install: gcc-arm-none-eabi" in done.stderr


def test_python_that_does_not_run(machine: Machine) -> None:
    done = machine.setup("python", PYTHON="/nonexistent/python")
    assert "PYTHON=/nonexistent/python does not run or is older than Python 3.11" in done.stderr


def test_a_current_environment_is_left_alone(machine: Machine) -> None:
    machine.python('case "$*" in *" install "*) echo "no index"; exit 1;; esac')
    done = machine.setup("python")
    assert done.returncode == 1
    assert "no index" in done.stderr
    assert "setup: error: pip could not install the Python packages" in done.stderr
    assert list((machine.top / ".venv").glob("mcufuse-*")) == []
    digest = "cat pyproject.toml setup.py scripts/setup.sh | sha256sum | cut -c1-16"
    stamp = subprocess.run(["bash", "-c", digest], cwd=machine.top, capture_output=True, text=True, check=True).stdout
    (machine.top / ".venv" / f"mcufuse-{stamp.strip()}").touch()
    done = machine.setup("python")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def zephyr_tree(base: Path) -> None:
    base.mkdir(parents=True)
    (base / "Kconfig.zephyr").touch()
    (base / "VERSION").write_text("VERSION_MAJOR = 4\nVERSION_MINOR = 2\nPATCHLEVEL = 0\n", encoding="utf-8")


def test_a_workspace_that_is_there_is_used(machine: Machine) -> None:
    machine.python()
    base = machine.home / "zephyrproject" / "zephyr"
    zephyr_tree(base)
    done = machine.setup("zephyr")
    assert (done.returncode, done.stdout) == (0, f"setup: Zephyr: using {base}\n")


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Zephyr wants Python 3.12")
class TestFetching:
    def test_without_network_one_line_says_so(self, machine: Machine) -> None:
        machine.python()
        machine.tool("git", "exit 128")
        done = machine.setup("zephyr", ZEPHYR_BASE="")
        assert done.returncode == 0
        assert done.stdout == (
            "setup: Zephyr: no workspace here, and github.com cannot be reached; going on without it\n"
        )
        assert done.stderr == ""

    def test_with_network(self, machine: Machine) -> None:
        machine.python()
        machine.tool("git", 'echo "git $*" >> "$HOME/log"')
        machine.tool("west", 'echo "west $*" >> "$HOME/log"; mkdir -p .cache/zephyrproject', machine.top / ".venv/bin")
        done = machine.setup("zephyr", ZEPHYR_BASE="")
        assert done.returncode == 0, done.stderr
        log = (machine.home / "log").read_text().splitlines()
        assert log[0].endswith("github.com/zephyrproject-rtos/zephyr refs/tags/v4.2.0")
        assert log[1].startswith("west init -m https://github.com/zephyrproject-rtos/zephyr --mr v4.2.0")
        assert log[2] == "west config manifest.project-filter -- -.*,+cmsis_6"
        assert log[3].startswith("west update")

    def test_a_fetch_that_fails_leaves_nothing(self, machine: Machine) -> None:
        machine.python()
        machine.tool("git", "exit 0")
        machine.tool("west", "mkdir -p .cache/zephyrproject; exit 1", machine.top / ".venv/bin")
        done = machine.setup("zephyr", ZEPHYR_BASE="")
        assert done.returncode == 0
        assert done.stdout.endswith("setup: Zephyr: it could not be fetched; going on without it\n")
        assert not (machine.top / ".cache" / "zephyrproject").exists()


def test_old_python_goes_on_without_zephyr(machine: Machine) -> None:
    machine.python('case "$*" in *version_info*) exit 1;; esac')
    done = machine.setup("zephyr", ZEPHYR_BASE="")
    assert done.returncode == 0
    assert "it wants Python 3.12" in done.stdout
