# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The on-target suites by twister: in QEMU, and on a simulated board that is flashed and talks over a serial line."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from mcufuse.elf import read_image
from zephyr_support import REPO, TOPDIR, fresh, west

pytestmark = pytest.mark.zephyr

SIM = REPO / "boards" / "mcufuse" / "sim_m3"
QEMU_BOARDS = ("qemu_cortex_m3", "mps2/an385", "mps2/an521/cpu0", "mps3/corstone300/an547")


def executed(outdir: Path) -> dict[str, set[str]]:
    """Names of the test cases that passed, by platform (without the SoC)."""
    found: dict[str, set[str]] = {}
    for suite in json.loads((outdir / "twister.json").read_text())["testsuites"]:
        cases = {case["identifier"].rpartition(".")[2] for case in suite["testcases"] if case["status"] == "passed"}
        if cases:
            found.setdefault(suite["platform"], set()).update(cases)
    return found


@pytest.mark.slow
def test_all_suites_pass_on_the_emulated_boards() -> None:
    outdir = fresh("twister_qemu")
    boards = [argument for board in QEMU_BOARDS for argument in ("-p", board)]
    done = west("mcufuse", "test", *boards, "-O", outdir)
    assert done.returncode == 0, done.stdout
    found = executed(outdir)
    assert len(found) == len(QEMU_BOARDS), found
    for board, cases in found.items():
        assert {"kws", "ic", "vww", "selftest_finds_a_difference"} <= cases, board
        assert {"conv2d", "depthwise", "fully_connected", "add", "softmax", "reshape"} <= cases, board
        assert ("ad" in cases) == (not board.startswith("qemu_cortex_m3")), board


def hardware_map(path: Path, platform: str = "mcufuse_sim_m3") -> Path:
    text = (SIM / "support" / "map.yaml").read_text()
    path.write_text(text.replace("@DIR@", str(SIM)).replace("mcufuse_sim_m3", platform))
    return path


@pytest.mark.slow
def test_a_board_of_the_hardware_map_is_flashed_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything of the way to hardware except the board: flash tool, serial line, records of numbers."""
    monkeypatch.setenv("MCUFUSE_SIM_DIR", str(tmp_path / "board"))
    outdir = fresh("twister_hardware")
    done = west(
        "mcufuse", "test", "-T", REPO / "twister-tests", "-T", REPO / "firmware" / "app", "-p", "mcufuse_sim_m3",
        "-O", outdir, "--device-testing", "--hardware-map", hardware_map(tmp_path / "map.yaml"),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "board" / "flash.elf").is_file()
    log = (outdir / "twister.log").read_text()
    assert "Using serial device /dev/pts/" in log
    assert "'--runner', 'misc-flasher'" in log
    (cases,) = executed(outdir).values()
    assert {"kws", "ic"} <= cases
    (record,) = outdir.rglob("recording.csv")
    with record.open() as file:
        rows = list(csv.DictReader(file))
    report = json.loads((record.parent / "mcufuse" / "kws" / "report.json").read_text())
    assert [int(row["step"]) for row in rows] == list(range(len(rows)))
    assert sum(int(row["macs"]) for row in rows) == report["macs"]
    assert all(int(row["cycles"]) > 0 for row in rows)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["-p", "mps2/an383"], "twister executed no test case"),  # no scenario allows it
        (["-p", "mcufuse_sim_m3"], "twister executed no test case"),  # a board, but no hardware map: built at most
    ],
)
def test_a_run_in_which_nothing_was_executed_fails(options: list[str], reason: str, tmp_path: Path) -> None:
    roots = ("-T", REPO / "samples" / "placement") if "mcufuse_sim_m3" in options else ()
    done = west("mcufuse", "test", *roots, *options, "-O", tmp_path / "out", cwd=TOPDIR)
    assert done.returncode == 1, done.stdout
    assert reason in done.stdout


@pytest.mark.slow
def test_the_samples_run() -> None:
    outdir = fresh("twister_samples")
    done = west("mcufuse", "test", "-T", REPO / "samples", "-p", "qemu_cortex_m3", "-O", outdir)
    assert done.returncode == 0, done.stdout
    names = {suite["name"] for suite in json.loads((outdir / "twister.json").read_text())["testsuites"]}
    assert any("hello_kws" in name for name in names)
    assert any("placement.carved" in name for name in names)
    # One arena in the image, and each network checked against its own part of it.
    (config,) = outdir.rglob("mcufuse.sample.shared_arena/zephyr/.config")
    build = config.parents[1]
    done = west("mcufuse", "check", "-d", build)
    assert done.returncode == 0, done.stdout
    shared = read_image(build / "zephyr" / "zephyr.elf").symbol("mcufuse_arena_senses")
    assert shared is not None
    reports = {n: json.loads((build / "mcufuse" / n / "report.json").read_text()) for n in ("kws", "ic", "vww")}
    planned = {name: report["arena_bytes"] for name, report in reports.items()}
    assert shared.size == max(planned.values())
    for name, size in planned.items():
        assert re.search(rf"network {name}: arena {size:,} B, state \d{{1,3}} B", done.stdout)
