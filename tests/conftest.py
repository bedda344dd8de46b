# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""What all tests share: where the models are, and which tests may be skipped.

A test marked `zephyr` is skipped only when no Zephyr workspace can be had; tests marked `qemu`, `tflm` or `ort`
only when the tool is missing, and never in CI. Any other way to skip such a test is turned into a failure, because
a suite that silently tests nothing is worse than none.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Generator
from pathlib import Path

import pytest

from mcufuse.doctor import zephyr_problem

REPO = Path(__file__).resolve().parents[1]
MODELS = REPO / "examples" / "models"


def _missing(marker: str) -> str:
    """Why tests with `marker` cannot run on this machine, "" if they can."""
    if marker == "zephyr":
        return zephyr_problem()
    if marker == "qemu":
        lacking = [tool for tool in ("arm-none-eabi-gcc", "qemu-system-arm") if not shutil.which(tool)]
        return f"missing {', '.join(lacking)}: see `mcufuse doctor`" if lacking else ""
    package = {"tflm": "tflite_micro", "ort": "onnxruntime"}[marker]
    return "" if importlib.util.find_spec(package) else f"missing Python package {package}: see `mcufuse doctor`"


TOOL_MARKERS = ("zephyr", "qemu", "tflm", "ort")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = {marker: _missing(marker) for marker in TOOL_MARKERS}
    for item in items:
        for marker, reason in missing.items():
            if reason and item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if not report.skipped or hasattr(report, "wasxfail"):
        return report
    for marker in TOOL_MARKERS:
        if item.get_closest_marker(marker) is None:
            continue
        reason = _missing(marker)
        if not reason or (marker != "zephyr" and os.environ.get("CI")):
            report.outcome = "failed"
            report.longrepr = f"marked `{marker}` and skipped, but {reason or 'what it needs is here'}"
    return report


@pytest.fixture(scope="session")
def repo() -> Path:
    """The checkout."""
    return REPO


@pytest.fixture(scope="session")
def models() -> Path:
    """The directory with the example networks."""
    return MODELS


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory, which is the current one, with kws_int8.tflite in it."""
    (tmp_path / "kws_int8.tflite").symlink_to(MODELS / "kws_int8.tflite")
    monkeypatch.chdir(tmp_path)
    return tmp_path
