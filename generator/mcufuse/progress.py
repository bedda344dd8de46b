# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Says what a long command is doing: a live line on a terminal, plain lines elsewhere, nothing with --quiet.

A progress is called with the name of each phase as it begins, and closed by a `with`:

    with make_progress() as progress:
        progress("planning the arena")
        progress("writing C")

Everything goes to standard error, so that standard output holds results only.
"""

from __future__ import annotations

import sys
import time
from typing import Self, TextIO

__all__ = ["PlainProgress", "Progress", "TerminalProgress", "make_progress"]

_WORTH_TELLING_S = 1.0  # a phase that took this long leaves a line with its time


class Progress:
    """Says nothing; the base of the others."""

    def __call__(self, phase: str) -> None:
        """The next phase begins, and the one before it is over."""

    def note(self, text: str) -> None:
        """How far the phase is, e.g. "17 of 40 inputs"; may be called often."""

    def close(self, *, failed: bool = False) -> None:
        """The last phase is over."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        self.close(failed=kind is not None)


class _Timed(Progress):
    """Knows the phase and since when it runs."""

    def __init__(self) -> None:
        self._phase = ""
        self._since = 0.0

    def __call__(self, phase: str) -> None:
        """See `Progress`."""
        self._finish()
        self._phase, self._since = phase, time.monotonic()
        self._begin(phase)

    def close(self, *, failed: bool = False) -> None:
        """See `Progress`."""
        if not failed:
            self._finish()
        self._phase = ""

    def _finish(self) -> None:
        elapsed = time.monotonic() - self._since
        if self._phase and elapsed >= _WORTH_TELLING_S:
            self._say(f"{self._phase}: {elapsed:.1f} s")

    def _begin(self, phase: str) -> None:
        raise NotImplementedError

    def _say(self, text: str) -> None:
        raise NotImplementedError


class PlainProgress(_Timed):
    """One line when a phase begins, and another with its time when it was a long one."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    def _begin(self, phase: str) -> None:
        self._say(phase)

    def _say(self, text: str) -> None:
        self._stream.write(f"mcufuse: {text}\n")
        self._stream.flush()


class TerminalProgress(_Timed):
    """A spinner with the current phase; long phases leave a line."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console

        super().__init__()
        self._console = Console(file=stream, highlight=False)
        self._status = self._console.status("")

    def _begin(self, phase: str) -> None:
        self._show(phase)
        self._status.start()

    def note(self, text: str) -> None:
        """See `Progress`."""
        self._show(f"{self._phase}: {text}")

    def close(self, *, failed: bool = False) -> None:
        """See `Progress`."""
        self._status.stop()
        super().close(failed=failed)

    def _show(self, text: str) -> None:
        from rich.markup import escape

        self._status.update(escape(text))

    def _say(self, text: str) -> None:
        self._console.print(text, style="dim", markup=False)


def make_progress(*, quiet: bool = False, stream: TextIO | None = None) -> Progress:
    """The progress that suits `stream` (standard error)."""
    stream = sys.stderr if stream is None else stream
    if quiet:
        return Progress()
    return TerminalProgress(stream) if stream.isatty() else PlainProgress(stream)
