# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Says what a long command is doing: a live line on a terminal, plain lines elsewhere, nothing with --quiet.

Everything goes to standard error, so that standard output holds results only.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

__all__ = ["PlainProgress", "Progress", "TerminalProgress", "make_progress"]


class Progress:
    """Says nothing; the base of the others."""

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Names what the body of the `with` does, e.g. "planning the arena"."""
        yield

    def note(self, text: str) -> None:
        """One line about how far the current step is, e.g. "17 of 40 inputs"."""


class PlainProgress(Progress):
    """One line when a step begins, and its time when it took a second or more."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def _say(self, text: str) -> None:
        self._stream.write(f"mcufuse: {text}\n")
        self._stream.flush()

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """See `Progress`."""
        self._say(text)
        start = time.monotonic()
        yield
        elapsed = time.monotonic() - start
        if elapsed >= 1:
            self._say(f"{text}: {elapsed:.1f} s")

    def note(self, text: str) -> None:
        """See `Progress`."""
        self._say(f"  {text}")


class TerminalProgress(Progress):
    """A spinner with the current step; finished steps leave a line when they took a second or more."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console

        self._console = Console(file=stream, highlight=False)
        self._status = self._console.status("")
        self._steps: list[str] = []

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """See `Progress`."""
        self._steps.append(text)
        self._show(text)
        if len(self._steps) == 1:
            self._status.start()
        start = time.monotonic()
        done = False
        try:
            yield
            done = True
        finally:
            self._steps.pop()
            if self._steps:
                self._show(self._steps[-1])
            else:
                self._status.stop()
            elapsed = time.monotonic() - start
            if done and elapsed >= 1:
                self._console.print(f"{text}: {elapsed:.1f} s", style="dim", markup=False)

    def note(self, text: str) -> None:
        """See `Progress`."""
        if self._steps:
            self._show(f"{self._steps[-1]}: {text}")

    def _show(self, text: str) -> None:
        from rich.markup import escape

        self._status.update(escape(text))


def make_progress(*, quiet: bool = False, stream: TextIO | None = None) -> Progress:
    """The progress that suits `stream` (standard error)."""
    stream = sys.stderr if stream is None else stream
    if quiet:
        return Progress()
    return TerminalProgress(stream) if stream.isatty() else PlainProgress(stream)
