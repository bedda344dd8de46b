# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The HTML pages, as text and in a real browser without a network."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from conftest import MODELS
from mcufuse.cli import main
from mcufuse.config import load_config
from mcufuse.explore import explore
from mcufuse.htmlfront import front_page
from mcufuse.htmlpage import scale_ticks
from mcufuse.htmlreport import report_page
from mcufuse.pipeline import compile_network
from mcufuse.target import core_by_name

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: scripts/setup.sh tools installs it")
M4 = core_by_name("cortex-m4")
NETWORKS = ("kws", "ic", "vww", "ad", "sww")
VOID = {"meta", "path", "rect", "circle", "br"}

# What the copy of a page that the browser loads says about itself, in attributes of its body.
BEFORE = "<script>addEventListener('error', e => { document.documentElement.dataset.fault = e.message; });</script>"
AFTER = """<script>
addEventListener("load", () => {
  document.body.dataset.requests = performance.getEntriesByType("resource").length;
  document.body.dataset.wide = document.documentElement.scrollWidth > innerWidth;
  const part = document.querySelector("[data-about]");
  part.focus();
  document.body.dataset.focus = document.activeElement === part;
  document.body.dataset.told = document.getElementById("about").textContent === part.dataset.about;
  document.body.dataset.row = document.getElementById(part.dataset.row).classList.contains("marked");
});
</script>"""


class Page(HTMLParser):
    """The elements of a page; fails on tags that are not closed in order."""

    def __init__(self, text: str):
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def of_class(self, name: str) -> list[dict[str, str]]:
        return [attrs for _, attrs in self.elements if name in attrs.get("class", "").split()]


@cache
def report(network: str) -> dict[str, Any]:
    return compile_network(load_config(MODELS / f"{network}_int8.tflite"), core=M4).report


def assert_alone(text: str) -> None:
    """Nothing in the page names anything outside of it."""
    assert not re.search(r"https?:|\b(src|href|action)\s*=|@import|url\((?!#)", text)


def buffers_of(page: Page) -> list[tuple[str, int, int]]:
    return sorted((b["data-name"], int(b["data-size"]), int(b["data-offset"])) for b in page.of_class("buffer"))


@pytest.mark.parametrize("network", NETWORKS)
def test_report_has_every_buffer(network: str) -> None:
    text = report_page(report(network))
    page = Page(text)
    expected = sorted((b["name"], b["size"], b["offset"]) for b in report(network)["buffers"])
    assert buffers_of(page) == expected
    assert_alone(text)
    told = [b["aria-label"] for b in page.of_class("buffer")]
    assert all(b["tabindex"] == "0" for b in page.of_class("buffer"))
    for name, size, _ in expected:
        assert any(f": {name}, " in label and f"{size:,} bytes" in label for label in told)
    words = " ".join(page.text)
    assert all(step["name"] in words and step["kernel"] in words for step in report(network)["steps"])
    assert f"arena {report(network)['arena_bytes']:,} B" in words


def test_text_of_the_model_is_escaped() -> None:
    hostile = report("kws") | {"name": "<script>alert(1)</script>", "notes": ["<b>&</b>"]}
    buffers = [b | {"name": '"><img onerror=x>'} for b in hostile["buffers"]]
    text = report_page(hostile | {"buffers": buffers})
    assert "<img" not in text
    assert "<script>alert" not in text
    assert "&lt;b&gt;&amp;&lt;/b&gt;" in text
    Page(text)


def test_a_report_without_buffers_and_budget() -> None:
    bare = {"name": "n", "arena_bytes": 0}
    assert Page(report_page(bare)).of_class("buffer") == []


def test_scale_ticks() -> None:
    assert scale_ticks(0, 6314) == [0, 2000, 4000, 6000]
    assert scale_ticks(5_500, 12_100, 8) == [6000, 7000, 8000, 9000, 10000, 11000, 12000]
    assert scale_ticks(7, 7) == [7]


def test_commands_write_pages(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "kws_int8.tflite", "-q", "--html", "pages/kws.html"]) == 0
    assert (workspace / "pages" / "kws.html").read_text().startswith("<!doctype html>")
    assert "arena in time" in capsys.readouterr().out


def in_browser(text: str, tmp_path: Path) -> tuple[Page, dict[str, str]]:
    """The page after its scripts have run, and what it says about itself."""
    path = tmp_path / "page.html"
    path.write_text(text.replace("<head>", "<head>" + BEFORE, 1).replace("</body>", AFTER + "</body>", 1))
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
        "--disable-background-networking", "--disable-component-update", f"--user-data-dir={tmp_path / 'profile'}",
        "--dump-dom", path.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    page = Page(done.stdout)
    root = next(attrs for tag, attrs in page.elements if tag == "html")
    assert "data-fault" not in root, root
    return page, next(attrs for tag, attrs in page.elements if tag == "body")


@needs_browser
@pytest.mark.parametrize("network", ["kws", "vww"])
def test_report_in_a_browser(network: str, tmp_path: Path) -> None:
    page, body = in_browser(report_page(report(network)), tmp_path)
    assert buffers_of(page) == sorted((b["name"], b["size"], b["offset"]) for b in report(network)["buffers"])
    assert body["data-requests"] == "0"
    assert body["data-wide"] == "false"  # wide parts scroll by themselves
    assert (body["data-focus"], body["data-told"], body["data-row"]) == ("true", "true", "true")


@needs_browser
def test_front_in_a_browser(tmp_path: Path) -> None:
    front = explore(load_config(MODELS / "ad_int8.tflite"), M4)
    text = front_page(front)
    assert_alone(text)
    page, body = in_browser(text, tmp_path)
    assert [int(p["data-arena"]) for p in page.of_class("point") if "data-arena" in p] == [
        p.arena_bytes for p in front.points
    ]
    assert body["data-requests"] == "0"
    assert (body["data-focus"], body["data-told"], body["data-row"]) == ("true", "true", "true")
