# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Fronts of memory against speed, and how a point is pinned in the YAML."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from conftest import MODELS
from mcufuse.cli import main
from mcufuse.config import InputMode, load_config, parse_config
from mcufuse.errors import UserError
from mcufuse.explore import Front, explore, pinned_allowance
from mcufuse.exploretext import lay_out_front, plot
from mcufuse.pipeline import compile_network
from mcufuse.plan.pareto import least_on_front
from mcufuse.report import render_plain
from mcufuse.target import core_by_name
from mcufuse.yaml_edit import edit_yaml

M4 = core_by_name("cortex-m4")


@cache
def front(network: str) -> Front:
    return explore(load_config(MODELS / f"{network}_int8.tflite"), M4)


# ---- the front -------------------------------------------------------------------------------------------


def test_least_on_front() -> None:
    items = [(3, 3), (1, 9), (2, 9), (4, 3), (2, 5), (5, 1)]
    assert least_on_front(items, lambda item: item) == [(1, 9), (2, 5), (3, 3), (5, 1)]


@pytest.mark.parametrize(("peak", "least", "above"), [(8640, 6138, 1e9), (100, 99, 101), (16_704, 16_640, 16_705)])
def test_pinned_allowance(peak: int, least: int, above: float) -> None:
    allowance = pinned_allowance(peak, least, above)
    assert peak <= least * allowance < above
    assert len(f"{allowance:.12g}") <= 14


@pytest.mark.parametrize("network", ["kws", "ic"])
def test_no_point_is_beaten(network: str) -> None:
    for mode in InputMode:
        points = [p for p in front(network).points if p.mode is mode and p.on_front]
        assert points
        for a, b in itertools.pairwise(points):
            assert a.arena_bytes < b.arena_bytes
            assert a.instructions > b.instructions
        assert all(p.lower_bound <= p.arena_bytes for p in points)
        assert all((p.recomputed_macs > 0) is (p.strips is not None) for p in points)
    assert [p.number for p in front(network).points] == list(range(1, len(front(network).points) + 1))


def test_kws_has_both_ends() -> None:
    resident = [p for p in front("kws").points if p.mode is InputMode.RESIDENT]
    assert resident[-1].streamed_steps == 0
    assert resident[-1].stages == resident[-1].steps
    assert resident[0].streamed_steps >= 8
    assert resident[0].arena_bytes < 0.6 * resident[-1].arena_bytes
    fed = [p for p in front("kws").points if p.mode is InputMode.ROWS]
    assert fed[0].arena_bytes < resident[0].arena_bytes


@pytest.mark.slow
def test_strips_are_on_the_front_where_they_pay() -> None:
    cut = [p for p in front("vww").points if p.strips is not None]
    assert cut
    assert all(p.mode is InputMode.ROWS and p.recomputed_macs > 0 for p in cut)


@pytest.mark.parametrize("network", ["kws", pytest.param("vww", marks=pytest.mark.slow)])
def test_every_point_is_what_compile_gives_when_it_is_pinned(network: str) -> None:
    config = load_config(MODELS / f"{network}_int8.tflite")
    for point in front(network).points:
        pinned = replace(
            config,
            input=replace(config.input, mode=point.mode),
            plan=replace(config.plan, allowance=point.allowance, scratch=point.scratch, strips=point.strips),
        )
        report = compile_network(pinned, core=M4).report
        assert report["arena_bytes"] == point.arena_bytes, point
        assert report["arena_lower_bound"] == point.lower_bound


def test_the_configured_plan_is_marked() -> None:
    config = load_config(MODELS / "kws_int8.tflite")
    marked = [p for p in front("kws").points if p.configured]
    assert len(marked) == 1
    assert marked[0].arena_bytes == compile_network(config, core=M4).report["arena_bytes"]


def test_a_plan_that_is_beaten_is_shown_too() -> None:
    points = [replace(p, on_front=not p.configured) for p in front("kws").points]
    found = replace(front("kws"), points=tuple(points))
    assert "now, not on the front" in render_plain(lay_out_front(found))


def test_sliding_windows_are_refused(workspace: Path) -> None:
    config = parse_config("model: kws_int8.tflite\ninput: {mode: rows, hop: 2}\n", Path("kws.yaml"))
    with pytest.raises(UserError, match=r"kws.yaml:2: input.hop: windows that slide have one plan"):
        explore(config, M4)


def test_the_plot_shows_every_mark() -> None:
    text = "\n".join(plot(front("kws")))
    assert "@" in text
    assert "+" in text
    smallest = min(p.arena_bytes for p in front("kws").points)
    assert f"{smallest:,} B" in text


# ---- writing to the YAML ---------------------------------------------------------------------------------


def test_write_keeps_everything_else(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "# my network\nmodel: kws_int8.tflite  # from Anna\nbudget: {ram: 20 KiB}\n\nverify:\n  count: 3  # few\n"
    path = workspace / "kws.yaml"
    path.write_text(text)
    assert main(["explore", "kws.yaml", "--core", "m4", "--json", "-q"]) == 0
    points = json.loads(capsys.readouterr().out)["points"]
    fed = next(p for p in points if p["mode"] == "rows")
    assert main(["explore", "kws.yaml", "--core", "m4", "-q", "--write", str(fed["number"])]) == 0
    changed = path.read_text()
    assert changed.startswith(text)
    config = load_config(path)
    assert config.input.mode is InputMode.ROWS
    assert compile_network(config, core=M4).report["arena_bytes"] == fed["arena_bytes"]


def test_write_needs_a_file_and_a_point(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "kws_int8.tflite", "-q", "--write", "1"]) == 1
    assert "there is no YAML file to write to" in capsys.readouterr().err
    (workspace / "kws.yaml").write_text("model: kws_int8.tflite\n")
    assert main(["explore", "kws.yaml", "-q", "--write", "99"]) == 1
    assert "there is no point 99" in capsys.readouterr().err
    assert (workspace / "kws.yaml").read_text() == "model: kws_int8.tflite\n"


EDITS = [
    ("model: a.tflite\n", "model: a.tflite\nplan: {allowance: 1.2}\n"),
    ("model: a.tflite", "model: a.tflite\nplan: {allowance: 1.2}\n"),
    ("model: a.tflite\nplan: {strips: 2} # x\n", "model: a.tflite\nplan: {allowance: 1.2, strips: 2} # x\n"),
    ("plan:\n  # why\n  strips: 2\nname: n\n", "plan:\n  # why\n  allowance: 1.2\n  strips: 2\nname: n\n"),
    ("plan: {allowance: 3.5, strips: 2}\n", "plan: {allowance: 1.2, strips: 2}\n"),
    ("plan:\n  allowance:   '2'  # y\n", "plan:\n  allowance:   1.2  # y\n"),
    ("{model: a.tflite}\n", "{plan: {allowance: 1.2}, model: a.tflite}\n"),
    ("model: a\r\nplan:\r\n  strips: 2\r\n", "model: a\r\nplan:\r\n  allowance: 1.2\r\n  strips: 2\r\n"),
    ("---\nmodel: a\n...\n", "---\nmodel: a\nplan: {allowance: 1.2}\n...\n"),
]


@pytest.mark.parametrize(("before", "after"), EDITS)
def test_setting_a_key(before: str, after: str) -> None:
    assert edit_yaml(before, {"plan.allowance": "1.2"}, "x.yaml") == after
    assert edit_yaml(after, {"plan.allowance": "1.2"}, "x.yaml") == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a: 1\nplan: {scratch: 5}\nb: 2\n", "a: 1\nb: 2\n"),
        ("a: 1\nplan: {scratch: 5, strips: 2}\n", "a: 1\nplan: {strips: 2}\n"),
        ("a: 1\nplan: {strips: 2, scratch: 5}\n", "a: 1\nplan: {strips: 2}\n"),
        ("plan:\n  strips: 2\n  scratch: 5 # z\na: 1\n", "plan:\n  strips: 2\na: 1\n"),
        ("a: 1\nplan:\n  scratch: 5\n", "a: 1\n"),
        ("a: 1\n", "a: 1\n"),
    ],
)
def test_removing_a_key(before: str, after: str) -> None:
    assert edit_yaml(before, {"plan.scratch": None}, "x.yaml") == after


def test_what_cannot_be_edited_is_refused() -> None:
    with pytest.raises(UserError, match=r"set plan\.allowance by hand"):
        edit_yaml("plan:\n", {"plan.allowance": "1.2"}, "x.yaml")
