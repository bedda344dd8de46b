# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Where the files that are not Python stand: in a checkout beside the package, in a wheel inside it."""

from __future__ import annotations

from pathlib import Path

from .errors import UserError

__all__ = ["checkout_dir", "firmware_dir"]

_PACKAGE = Path(__file__).resolve().parent
_LANDMARK = Path("include") / "mcufuse" / "mcufuse.h"


def checkout_dir() -> Path | None:
    """The top directory of the source checkout, or None when installed from a wheel."""
    top = _PACKAGE.parents[1]
    return top if (top / "firmware" / _LANDMARK).is_file() and (top / "pyproject.toml").is_file() else None


def firmware_dir() -> Path:
    """The directory with the C headers and sources (`include/`, `src/`, ...).

    A checkout's own firmware/ comes first, so that an edited kernel is used at once; raises `UserError`
    when the installation is incomplete.
    """
    for place in (_PACKAGE.parents[1] / "firmware", _PACKAGE / "_firmware"):
        if (place / _LANDMARK).is_file():
            return place
    raise UserError(
        "the C headers of mcufuse are missing",
        place=str(_PACKAGE),
        hint="the installation is incomplete; reinstall mcufuse, or run it from a full checkout",
    )
