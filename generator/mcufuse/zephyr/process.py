# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Runs west, ninja and QEMU: shows their output as it comes, looks at each line, and leaves nothing running."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import UserError

__all__ = ["Outcome", "run_watched"]

_GRACE_S = 3.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended."""

    code: int  # its exit code; negative: the signal that ended it
    stopped: bool = False  # `on_line` asked for it
    timed_out: bool = False


def run_watched(
    command: Sequence[str],
    *,
    on_line: Callable[[str], bool],
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout: float | None = None,
    echo: bool = True,
) -> Outcome:
    """Runs `command` in a process group of its own, passes on what it prints and calls `on_line` with each line.

    When `on_line` returns True, when `timeout` seconds have passed, or when the user interrupts, the whole
    group is ended: a QEMU that ninja started would otherwise stay. On a terminal the command gets one, too,
    so that ninja shows its short progress line.
    """
    sys.stdout.flush()
    terminal = echo and sys.stdout.isatty()
    read_end, write_end = os.openpty() if terminal else os.pipe()
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=write_end,
            stderr=subprocess.STDOUT,
            env=dict(env) if env is not None else None,
            cwd=cwd,
            start_new_session=True,
        )
    except OSError as error:
        os.close(read_end)
        raise UserError(f"cannot start: {error.strerror}", place=command[0]) from error
    finally:
        os.close(write_end)
    deadline = None if timeout is None else time.monotonic() + timeout
    try:
        stopped, timed_out = _pump(process, read_end, on_line, deadline, echo=echo)
    finally:
        os.close(read_end)
        _end_group(process)
    return Outcome(process.returncode, stopped, timed_out)


def _pump(
    process: subprocess.Popen[bytes], fd: int, on_line: Callable[[str], bool], deadline: float | None, *, echo: bool
) -> tuple[bool, bool]:
    """Copies until the output ends, `on_line` has seen enough or the time is up: (stopped, timed out)."""
    pending = b""
    while True:
        left = 0.5 if deadline is None else min(0.5, deadline - time.monotonic())
        if left <= 0:
            return False, True
        if not select.select([fd], [], [], left)[0]:
            if process.poll() is not None:
                return False, False
            continue
        try:
            data = os.read(fd, 65536)
        except OSError:  # how a terminal tells that its other end is closed
            data = b""
        if not data:
            return False, _wait_past(process, deadline)
        if echo:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        *lines, pending = (pending + data).replace(b"\r", b"\n").split(b"\n")
        if any(on_line(line.decode(errors="replace")) for line in lines if line):
            return True, False


def _wait_past(process: subprocess.Popen[bytes], deadline: float | None) -> bool:
    try:
        process.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return True
    return False


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends what is left of the process group, first politely."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            continue
        if not _group_exists(process.pid):
            break
    process.wait()


def _group_exists(group: int) -> bool:
    end = time.monotonic() + _GRACE_S
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.02)
    return True
