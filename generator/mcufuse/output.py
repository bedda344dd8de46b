# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Writes generated files so that a directory never holds a half-written set.

All files are first written to a temporary directory inside it, which is on the same file system whatever the
directory is mounted or linked to, and then moved to their place. A file whose content has not changed keeps its
modification time, so that nothing is recompiled for it.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from .errors import UserError

__all__ = ["depfile_text", "write_files"]


def write_files(directory: Path, files: Mapping[str, str | bytes]) -> list[str]:
    """Writes `files` (plain name -> content) into `directory`, which is made if needed; returns the changed names.

    Raises `UserError` if it cannot: a full disk, no permission, a file in the way. Nothing is changed then,
    unless the disk itself fails between two renames.
    """
    for name in files:
        assert Path(name).name == name, f"not a plain file name: {name!r}"
    changed = {name: raw for name, raw in _encoded(files) if not _holds(directory / name, raw)}
    if not changed:
        return []
    made = _missing_parents(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _move_in(directory, changed)
    except OSError as error:
        for parent in made:  # innermost first; only those that this call made, and only while empty
            with contextlib.suppress(OSError):
                parent.rmdir()
        hint = "-o names a directory" if isinstance(error, FileExistsError | NotADirectoryError) else ""
        raise UserError(f"cannot be written: {error.strerror or error}", place=str(directory), hint=hint) from error
    return sorted(changed)


def depfile_text(target: Path, sources: Iterable[Path]) -> str:
    """A Make rule, as Ninja and CMake read it: `target` depends on `sources`."""
    lines = [f"{_escape(target)}:", *(f"  {_escape(source)}" for source in sorted(set(sources)))]
    return " \\\n".join(lines) + "\n"


def _escape(path: Path) -> str:
    text = str(path).replace("\\", "\\\\") if "\\" in str(path) else str(path)
    return text.replace(" ", "\\ ").replace("#", "\\#").replace("$", "$$")


def _encoded(files: Mapping[str, str | bytes]) -> list[tuple[str, bytes]]:
    return [(name, text.encode() if isinstance(text, str) else text) for name, text in files.items()]


def _holds(path: Path, raw: bytes) -> bool:
    try:
        return path.stat().st_size == len(raw) and path.read_bytes() == raw
    except OSError:
        return False


def _missing_parents(directory: Path) -> list[Path]:
    return [place for place in (directory, *directory.parents) if not place.exists()]


def _move_in(directory: Path, files: Mapping[str, bytes]) -> None:
    blocked = [name for name in files if (directory / name).is_dir()]
    if blocked:
        raise IsADirectoryError(21, f"{blocked[0]} is a directory")
    temporary = Path(tempfile.mkdtemp(prefix=".mcufuse-", dir=directory))
    try:
        for name, raw in files.items():
            (temporary / name).write_bytes(raw)
        for name in files:
            (temporary / name).replace(directory / name)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
