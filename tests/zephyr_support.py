# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""What the tests of the Zephyr side share: a workspace, west in it, and builds that several tests look at.

Zephyr builds cost most of the time here, so they stand at fixed places (ccache then knows the command lines), and a
build that several tests need is made once in a test run, whichever worker comes first.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mcufuse.zephyr.workspace import make_workspace, toolchain_env, zephyr_base

REPO = Path(__file__).resolve().parents[1]
TOPDIR = REPO / ".cache" / "workspace"
TIMEOUT_S = 1800


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Holds a lock between the workers of a test run."""
    (REPO / ".cache").mkdir(exist_ok=True)
    with (REPO / ".cache" / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def workspace() -> Path:
    """The workspace for tests, made if needed."""
    with locked("workspace"):
        return make_workspace(TOPDIR, zephyr_base(), REPO)


def environment(**more: str) -> dict[str, str]:
    """The environment for west: Zephyr's tree is the workspace's own, whatever the user's variables say."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("ZEPHYR_BASE")}
    return toolchain_env(env) | more


def west(*arguments: str | Path, cwd: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    """Runs west in the workspace; output and errors come together in `stdout`."""
    return subprocess.run(
        [sys.executable, "-m", "west", *map(str, arguments)],
        cwd=cwd or workspace(),
        env=environment(**more),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def fresh(name: str) -> Path:
    """An empty build directory at a fixed place."""
    path = TOPDIR / "build" / name
    shutil.rmtree(path, ignore_errors=True)
    return path


def once(name: str, make: Callable[[], None]) -> None:
    """Runs `make` once in this test run, in the first worker that comes here; the others wait for it."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    with locked(f"once-{name}"):
        done = REPO / ".cache" / f"once-{name}.done"
        if not done.is_file() or done.read_text() != run:
            done.unlink(missing_ok=True)
            make()
            done.write_text(run)
