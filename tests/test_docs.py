# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The pages in docs/ hold: their links lead somewhere, and the page on operators works as it is written."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import REPO

BLOCK = re.compile(r"^```\w+ (file|append)=(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = sorted([REPO / "README.md", *(REPO / "docs").glob("*.md")])


def test_adding_an_operator(tmp_path: Path) -> None:
    page = (REPO / "docs" / "adding-an-operator.md").read_text()
    for part in ("generator/mcufuse", "firmware/include", "tests"):
        ignore = shutil.ignore_patterns("__pycache__", "data", "*.so")
        shutil.copytree(REPO / part, tmp_path / part, ignore=ignore)
    (tmp_path / "pyproject.toml").touch()
    blocks = BLOCK.findall(page)
    assert len(blocks) == 6
    for how, name, text in blocks:
        target = tmp_path / name
        assert target.exists() is (how == "append"), name
        with target.open("a") as file:
            file.write("\n\n" + text if how == "append" else text)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path / 'generator'}:{tmp_path / 'tests'}"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--noconftest",
        "--rootdir",
        str(tmp_path),
    ]
    result = subprocess.run(
        [*command, "tests/test_kernel_maximum.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 passed" in result.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
