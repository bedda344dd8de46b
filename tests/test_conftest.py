# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Tests that need a tool are skipped only when the tool is missing; any other skip of them is a failure."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from test_doctor import zephyr_tree

SUITE = """
from __future__ import annotations
import pytest

@pytest.mark.{marker}
def test_it() -> None:
    {body}

@pytest.mark.{marker}
@pytest.mark.xfail(reason="known")
def test_known() -> None:
    assert False

def test_other() -> None:
    pytest.skip("not marked")
"""


def outcome(suite: Path, repo: Path, marker: str, body: str, **environment: str) -> str:
    """The closing lines of pytest over a suite of its own with this project's conftest.py."""
    shutil.copy(repo / "tests" / "conftest.py", suite)
    shutil.copy(repo / "pyproject.toml", suite)
    (suite / "test_suite.py").write_text(SUITE.format(marker=marker, body=body), encoding="utf-8")
    (suite / "home").mkdir(exist_ok=True)
    env = {k: v for k, v in os.environ.items() if k not in ("CI", "ZEPHYR_BASE") and not k.startswith("PYTEST")}
    env |= {"PYTHONPATH": str(repo / "generator"), "HOME": str(suite / "home")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_suite.py"],
        cwd=suite,
        env=env | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.stdout


def test_zephyr_tests_without_zephyr(tmp_path: Path, repo: Path) -> None:
    if (repo.parent / "zephyr").exists() or (repo / ".cache" / "zephyrproject").exists():
        pytest.skip("this checkout stands in a Zephyr workspace")
    text = outcome(tmp_path, repo, "zephyr", "raise AssertionError")
    assert "no Zephyr workspace: set ZEPHYR_BASE" in text
    assert "3 skipped" in text


def test_zephyr_tests_with_zephyr(tmp_path: Path, repo: Path) -> None:
    base = str(zephyr_tree(tmp_path / "zephyr"))
    assert "1 passed, 1 skipped, 1 xfailed" in outcome(tmp_path, repo, "zephyr", "pass", ZEPHYR_BASE=base)
    text = outcome(tmp_path, repo, "zephyr", "pytest.skip('no board')", ZEPHYR_BASE=base)
    assert "marked `zephyr` and skipped, but what it needs is here" in text
    assert "1 failed, 1 skipped, 1 xfailed" in text


def test_qemu_tests_may_be_skipped_at_home_but_not_in_ci(tmp_path: Path, repo: Path) -> None:
    assert "3 skipped" in outcome(tmp_path, repo, "qemu", "pass", PATH="/nonexistent")
    text = outcome(tmp_path, repo, "qemu", "pass", PATH="/nonexistent", CI="true")
    assert "marked `qemu` and skipped, but missing arm-none-eabi-gcc, qemu-system-arm" in text
