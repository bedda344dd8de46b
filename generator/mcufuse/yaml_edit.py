# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Sets and removes keys of a network's YAML file; every other character stays as it is, comments included."""

from __future__ import annotations

import re
from collections.abc import Mapping as Dict

from .errors import UserError
from .yaml_marks import Entry, Mapping, Mark, Scalar, read_yaml

__all__ = ["edit_yaml"]


def edit_yaml(text: str, changes: Dict[str, str | None], name: str) -> str:
    """`text` with each key of `changes` ("input.mode") set to its value, or removed if that is None.

    Keys of one section only, values that are plain words or numbers. Raises `UserError` where a section is written in
    a way that cannot be edited safely.
    """
    for path, value in changes.items():
        text = _changed(text, path, value, name)
    return text


def _changed(text: str, path: str, value: str | None, name: str) -> str:
    section, _, leaf = path.rpartition(".")
    root = read_yaml(text, name)
    if not isinstance(root, Mapping):
        raise UserError("holds no keys", place=name)
    holder = root
    if section:
        outer = _entry(root, section)
        if outer is None:
            return text if value is None else _append(text, root, f"{section}: {{{leaf}: {value}}}")
        if not isinstance(outer.value, Mapping) or not outer.value.entries:
            raise UserError(f"{section}: cannot be edited here", place=f"{name}:{outer.mark.line}", hint=_by_hand(path))
        holder = outer.value
    entry = _entry(holder, leaf)
    if entry is not None and not isinstance(entry.value, Scalar):
        raise UserError("cannot be edited here", place=f"{name}:{entry.mark.line}: {path}", hint=_by_hand(path))
    if entry is None:
        return text if value is None else _inserted(text, holder, f"{leaf}: {value}")
    if value is not None:
        return _replaced(text, entry, value)
    if len(holder.entries) == 1 and section:
        outer = _entry(root, section)
        assert outer is not None
        return _without(text, root, outer, entry)
    return _without(text, holder, entry, entry)


def _by_hand(path: str) -> str:
    return f"set {path} by hand"


def _entry(mapping: Mapping, key: str) -> Entry | None:
    return next((entry for entry in mapping.entries if entry.key == key), None)


def _offset(text: str, mark: Mark) -> int:
    lines = text.splitlines(keepends=True)
    return sum(len(line) for line in lines[: mark.line - 1]) + mark.column - 1


def _is_flow(text: str, mapping: Mapping) -> bool:
    return text[_offset(text, mapping.mark)] == "{"


def _end_of_scalar(text: str, entry: Entry) -> int:
    """Where the value ends: a quoted one after its quote, a plain one before a comma, bracket, comment or line end."""
    start = _offset(text, entry.value.mark)
    quoted = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL).match(text, start)
    if quoted:
        return quoted.end()
    plain = re.compile(r"[^\s,{}\[\]#]*(?:[ \t]+[^\s,{}\[\]#]+)*").match(text, start)
    assert plain is not None
    return plain.end()


def _replaced(text: str, entry: Entry, value: str) -> str:
    start = _offset(text, entry.value.mark)
    return text[:start] + value + text[_end_of_scalar(text, entry) :]


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _append(text: str, root: Mapping, line: str) -> str:
    """A further key at the end of the file, or before the bracket of a root in braces."""
    if _is_flow(text, root):
        return _inserted(text, root, line)
    end = _newline(text)
    indent = " " * (root.entries[0].mark.column - 1)
    closing = re.search(r"^\.\.\.[ \t]*$", text, re.MULTILINE)
    at = closing.start() if closing else len(text)
    before = text[:at] if text[:at].endswith("\n") else text[:at] + end
    return f"{before}{indent}{line}{end}{text[at:]}"


def _inserted(text: str, mapping: Mapping, item: str) -> str:
    """Puts `item` before the first key of a mapping: a line of its own, or a part of the braces."""
    first = _offset(text, mapping.entries[0].mark)
    if _is_flow(text, mapping):
        return f"{text[:first]}{item}, {text[first:]}"
    indent = " " * (mapping.entries[0].mark.column - 1)
    return f"{text[:first]}{item}{_newline(text)}{indent}{text[first:]}"


def _without(text: str, holder: Mapping, entry: Entry, last: Entry) -> str:
    """`text` without `entry`, whose value ends where that of `last` does."""
    start, end = _offset(text, entry.mark), _end_of_scalar(text, last)
    if isinstance(entry.value, Mapping) and _is_flow(text, entry.value):
        end = text.index("}", end) + 1
    if not _is_flow(text, holder):
        line_start = text.rfind("\n", 0, start) + 1
        line_end = text.find("\n", end)
        return text[:line_start] + (text[line_end + 1 :] if line_end >= 0 else "")
    after = re.compile(r"\s*,\s*").match(text, end)
    if after:
        return text[:start] + text[after.end() :]
    before = re.compile(r"\s*,\s*$").search(text, 0, start)
    return text[: before.start() if before else start] + text[end:]
