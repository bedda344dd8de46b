# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""How reports are shown, and budgets held against them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from mcufuse.budget import check_budget
from mcufuse.cli import main
from mcufuse.config import Budget, Config, Input, InputMode, Optimize
from mcufuse.errors import UserError
from mcufuse.report import lay_out, load_report, memory_map, render_plain, show_report


def report(**changes: Any) -> dict[str, Any]:
    """A small report: two stages, the second of two steps; map0 is overwritten by out."""
    base: dict[str, Any] = {
        "schema": 1,
        "name": "tiny",
        "core": "cortex-m3",
        "arena_bytes": 1200,
        "arena_lower_bound": 1000,
        "arena_method": "exact",
        "state_bytes": 8,
        "scratch_bytes": 0,
        "stack_bytes": None,
        "code_bytes": None,
        "weights_bytes": 2048,
        "macs": 3000,
        "steps": [
            {"name": "conv0", "operators": ["Conv2D"], "kernel": "mf_conv2d_row_s8", "stage": 0, "macs": 1000},
            {
                "name": "dw1",
                "operators": ["DepthwiseConv2D", "Add"],
                "kernel": "mf_dw_row_s8",
                "stage": 1,
                "macs": 2000,
            },
            {"name": "softmax2", "operators": ["Softmax"], "kernel": "mf_softmax_s8", "stage": 1, "macs": 0},
        ],
        "buffers": [
            {"name": "input", "role": "input", "offset": 0, "size": 600, "first": 0, "last": 0},
            {"name": "conv0_out", "role": "map", "offset": 600, "size": 600, "first": 0, "last": 1},
            {"name": "out", "role": "output", "offset": 500, "size": 200, "first": 1, "last": 1},
        ],
        "notes": ["removed 1,204 of 2,560 channels: always 0; saved 187 KB flash, 3.7 M MACs"],
        "cflags": ["-O2"],
    }
    return base | changes


def text(**changes: Any) -> str:
    return render_plain(lay_out(report(**changes)))


PLAIN = """\
tiny on cortex-m3
  removed 1,204 of 2,560 channels: always 0; saved 187 KB flash, 3.7 M MACs
  figures hold for -O2

memory
  what            bytes  remark
  arena         1,200 B  lower bound 1,000 B, gap 200 B (20.0%) (exact)
  state             8 B
  stack               -
  weights       2,048 B
  code                -
  ram in all    1,208 B  no budget given (without stack)
  flash in all  2,048 B  no budget given (without code)

steps
  step      operators            kernel            stage   MACs
  conv0     Conv2D               mf_conv2d_row_s8      0  1,000
  dw1       DepthwiseConv2D+Add  mf_dw_row_s8          1  2,000
  softmax2  Softmax              mf_softmax_s8         1
  total                                                   3,000

arena
     buffer     role    offset  bytes  stages
  A  input      input        0    600    0..0
  B  conv0_out  map        600    600    0..1
  C  out        output     500    200    1..1

arena in time
    0                                                        1,200 B
  0 AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB
  1 ..........................CCCCCC######BBBBBBBBBBBBBBBBBBBBBBBBBB
"""


def test_plain() -> None:
    assert text() == PLAIN


def test_measured_figures() -> None:
    shown = text(
        stack_bytes=300,
        stack_measured_bytes=280,
        code_bytes=1000,
        instructions=9500,
        budget={"ram": 1600, "flash": 3000},
        stages=[{"name": "a", "instructions": 4000, "macs": 1000}, {"name": "b", "instructions": 5000, "macs": 2000}],
        verified="8 inferences: 0 of 16 outputs differ",
        toolchain="gcc 12",
    )
    assert "stack           300 B  bound; 280 B seen\n" in shown
    assert "94% of the budget of 1,600 B, 92 B free\n" in shown
    assert "102% of the budget of 3,000 B, 48 B TOO MUCH\n" in shown
    assert "conv0     Conv2D               mf_conv2d_row_s8      0  1,000         4,000     4.00\n" in shown
    assert "dw1       DepthwiseConv2D+Add  mf_dw_row_s8          1  2,000         5,000     2.50\n" in shown
    assert "softmax2  Softmax              mf_softmax_s8         1\n" in shown
    assert "total                                                   3,000         9,500     3.17\n" in shown
    assert "8 inferences: 0 of 16 outputs differ\n" in shown
    assert "figures hold for -O2, gcc 12\n" in shown


@pytest.mark.parametrize(
    ("bound", "remark"), [(1200, "lower bound 1,200 B, met (exact)"), (0, "gap 1,200 B"), (None, "")]
)
def test_bounds(bound: int | None, remark: str) -> None:
    line = next(line for line in text(arena_lower_bound=bound).splitlines() if line.startswith("  arena  "))
    assert remark in line


def test_small_reports_are_shown_too() -> None:
    assert render_plain(lay_out({"name": "x", "arena_bytes": 0})).startswith("x on an unknown core\n\nmemory\n")


def test_map_of_long_schedules_is_cut() -> None:
    buffers = [
        {"name": f"b{i}", "offset": 8 * (i % 2), "size": 8, "first": i, "last": i + 1, "role": "map"}
        for i in range(500)
    ]
    lines = memory_map(report(arena_bytes=16, buffers=buffers))
    assert 10 < len(lines) <= 41
    assert {len(line) for line in lines} == {len(lines[1])}


def test_map_is_empty_without_buffers() -> None:
    assert memory_map(report(buffers=[])) == []
    assert memory_map(report(arena_bytes=0)) == []


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    stream = Terminal()
    show_report(report(notes=["[bold]not markup[/nonsense]"]), stream=stream)
    shown = stream.getvalue()
    assert "[bold]not markup[/nonsense]" in shown
    assert "mf_conv2d_row_s8" in shown
    assert "CCCCCC######BBB" in shown


# ---- files -----------------------------------------------------------------------------------------------


def test_load(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report()), encoding="utf-8")
    assert load_report(path)["name"] == "tiny"
    assert main(["report", str(tmp_path)]) == 0
    assert capsys.readouterr().out == PLAIN
    assert main(["report", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == report()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file"),
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "is not a report of mcufuse"),
        ('{"name": "x"}', "is not a report of mcufuse"),
        ('{"name": "x", "arena_bytes": 1, "schema": 99}', "has schema 99, this version of mcufuse reads 1"),
    ],
)
def test_files_that_are_no_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, message: str
) -> None:
    if content is not None:
        (tmp_path / "report.json").write_text(content, encoding="utf-8")
    assert main(["report", str(tmp_path)]) == 1
    assert message in capsys.readouterr().err


# ---- budgets ---------------------------------------------------------------------------------------------


def config(**changes: Any) -> Config:
    return Config(path=Path("tiny.yaml"), model=Path("/tiny.tflite"), name="tiny", **changes)


def test_budget_that_holds() -> None:
    check_budget(config(), report())
    check_budget(config(budget=Budget(ram=1208, flash=2048)), report())


def test_budget_of_the_plan_that_is_passed() -> None:
    with pytest.raises(UserError) as caught:
        check_budget(config(budget=Budget(ram=1207, flash=2000)), report())
    ram, flash = caught.value.problems
    assert ram.place == "tiny.yaml: budget.ram"
    assert ram.message == (
        "1,207 B, but tiny needs 1,208 B (arena 1,200 B + state 8 B), 1 B too much; "
        "the arena is fullest in stage 0 (conv0): input 600 B + conv0_out 600 B"
    )
    assert ram.hint == "optimize: ram, or input: {mode: rows}, or a smaller network"
    assert flash.message == "2,000 B, but tiny needs 2,048 B (weights 2,048 B), 48 B too much"
    assert flash.hint == "optimize: flash, or a smaller network"


def test_budget_after_the_link() -> None:
    linked = report(stack_bytes=300, code_bytes=1000)
    with pytest.raises(UserError) as caught:
        check_budget(
            config(budget=Budget(ram=1400, flash=3000), optimize=Optimize.RAM, input=Input(InputMode.ROWS)), linked
        )
    ram, flash = caught.value.problems
    assert "(arena 1,200 B + state 8 B + stack 300 B), 108 B too much" in ram.message
    assert ram.hint == "a smaller network"
    assert "(weights 2,048 B + code 1,000 B), 48 B too much" in flash.message
