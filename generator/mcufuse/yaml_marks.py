# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Reads YAML into a tree whose every key and value knows its line and column.

The tree is built from PyYAML's event stream, never by recursion and without constructing objects, so that
deep nesting, alias bombs and tags such as `!!python/object` end in a `UserError` and cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from .errors import UserError

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_NODES",
    "Entry",
    "Mapping",
    "Mark",
    "Node",
    "Scalar",
    "Sequence",
    "read_text",
    "read_yaml",
]

MAX_BYTES = 64 * 1024  # of the file; a description of a network is a few hundred bytes
MAX_DEPTH = 16
MAX_NODES = 4096


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A place in a file, both counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value as it is written; `kind` is YAML 1.1's reading of a plain one: str, int, float, bool, null, ...

    An anchor without a value, as in `arena: &sram1`, is a null whose text is "&sram1".
    """

    mark: Mark
    text: str
    kind: str


@dataclass(slots=True)
class Sequence:
    """A list."""

    mark: Mark
    items: list[Node] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Entry:
    """One `key: value` of a mapping."""

    mark: Mark  # of the key
    key: str
    value: Node


@dataclass(slots=True)
class Mapping:
    """A mapping in the order of the file; keys that are given twice are both here."""

    mark: Mark
    entries: list[Entry] = field(default_factory=list)


Node = Scalar | Sequence | Mapping


def read_yaml(text: str, name: str) -> Node | None:
    """The tree of the only document in `text`, None if it is empty; `name` is the file's name in messages."""
    if len(text) > MAX_BYTES:
        raise UserError(
            f"{len(text):,} characters, but a description of a network has at most {MAX_BYTES:,}",
            place=name,
            hint="is this the right file?",
        )
    try:
        return _Builder(text, name).build()
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, name) from error
    except (ValueError, OverflowError) as error:  # PyYAML on numbers and escapes that are out of any range
        raise UserError(f"YAML: {error}", place=name) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        column = error.position - (text.rfind("\n", 0, error.position) + 1) + 1
        raise UserError(
            f"character U+{ord(text[error.position]):04X} is not allowed in YAML", place=f"{name}:{line}:{column}"
        ) from error


def read_text(path: Path) -> str:
    """The text of a YAML file; raises `UserError` when it cannot be read or is not UTF-8."""
    try:
        with path.open("rb") as stream:
            raw = stream.read(4 * MAX_BYTES + 1)
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror or error}", place=str(path)) from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UserError("is not UTF-8 text", place=f"{path}:{line}", hint="is this a YAML file?") from error


def _syntax_error(error: yaml.MarkedYAMLError, name: str) -> UserError:
    mark = error.problem_mark or error.context_mark
    place = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
    problem = error.problem or error.context or "not valid YAML"
    message = f"YAML: {problem}"
    if error.context and error.context != problem:
        message += f" ({error.context}"
        if error.context_mark and mark and error.context_mark.line != mark.line:
            message += f" that begins in line {error.context_mark.line + 1}"
        message += ")"
    hint = "indent with spaces, not with tabs" if "'\\t'" in problem else ""
    return UserError(message, place=place, hint=hint)


def _mark(event: yaml.Event) -> Mark:
    assert event.start_mark is not None
    return Mark(event.start_mark.line + 1, event.start_mark.column + 1)


class _Builder:
    """Turns events into nodes with a stack of the collections that are still open."""

    def __init__(self, text: str, name: str) -> None:
        self._loader = yaml.SafeLoader(text)
        self._name = name
        self._open: list[Sequence | Mapping] = []
        self._keys: list[Scalar | None] = []  # beside _open: the key that waits for its value
        self._anchors: dict[str, Node] = {}
        self._root: Node | None = None
        self._documents = 0
        self._nodes = 0
        self._handlers: tuple[tuple[type[yaml.Event], Callable[[yaml.Event], None]], ...] = (
            (yaml.DocumentStartEvent, self._document),
            (yaml.ScalarEvent, self._scalar),
            (yaml.AliasEvent, self._alias),
            (yaml.CollectionStartEvent, self._begin),
            (yaml.CollectionEndEvent, self._end),
        )

    def build(self) -> Node | None:
        """The root; syntax errors pass through as PyYAML raises them."""
        while self._loader.check_event():
            event: yaml.Event = self._loader.get_event()  # type: ignore[no-untyped-call]
            for kind, handle in self._handlers:
                if isinstance(event, kind):
                    handle(event)
                    break
        return self._root

    def _fail(self, message: str, mark: Mark, hint: str = "") -> UserError:
        return UserError(f"YAML: {message}", place=f"{self._name}:{mark.line}:{mark.column}", hint=hint)

    def _document(self, event: yaml.Event) -> None:
        self._documents += 1
        if self._documents > 1:
            raise self._fail("a second document begins here", _mark(event), "one file describes one network")

    def _scalar(self, event: yaml.Event) -> None:
        assert isinstance(event, yaml.ScalarEvent)
        self._refuse_tag(event)
        kind = "str"
        if event.implicit[0]:  # a plain scalar: YAML decides what it is
            tag: str = self._loader.resolve(yaml.ScalarNode, event.value, event.implicit)  # type: ignore[no-untyped-call]
            kind = tag.rsplit(":", 1)[-1]
        text = f"&{event.anchor}" if kind == "null" and event.anchor else event.value
        self._add(Scalar(_mark(event), text, kind), event.anchor)

    def _alias(self, event: yaml.Event) -> None:
        assert isinstance(event, yaml.AliasEvent)
        node = self._anchors.get(event.anchor or "")
        if node is None:
            raise self._fail(
                f"alias *{event.anchor} has no anchor &{event.anchor} before it",
                _mark(event),
                "a devicetree node is written in quotes",
            )
        if any(node is o for o in self._open):
            raise self._fail(f"alias *{event.anchor} contains itself", _mark(event))
        self._add(node, None)

    def _begin(self, event: yaml.Event) -> None:
        assert isinstance(event, yaml.CollectionStartEvent)
        self._refuse_tag(event)
        if len(self._open) >= MAX_DEPTH:
            raise self._fail(f"nested deeper than {MAX_DEPTH} levels", _mark(event))
        mapping = isinstance(event, yaml.MappingStartEvent)
        node: Sequence | Mapping = Mapping(_mark(event)) if mapping else Sequence(_mark(event))
        self._add(node, event.anchor)
        self._open.append(node)
        self._keys.append(None)

    def _end(self, event: yaml.Event) -> None:
        self._open.pop()
        self._keys.pop()

    def _add(self, node: Node, anchor: str | None) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise self._fail(f"more than {MAX_NODES:,} values", node.mark, "is this the right file?")
        if anchor is not None:
            self._anchors[anchor] = node
        if not self._open:
            self._root = node
            return
        parent = self._open[-1]
        if isinstance(parent, Sequence):
            parent.items.append(node)
            return
        key = self._keys[-1]
        if key is not None:
            parent.entries.append(Entry(key.mark, key.text, node))
            self._keys[-1] = None
        elif isinstance(node, Scalar):
            self._keys[-1] = node
        else:
            raise self._fail("a key must be a plain word", node.mark)

    def _refuse_tag(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent) -> None:
        if event.tag is not None and event.tag != "!":
            raise self._fail(f"tag {event.tag} is not supported", _mark(event), "leave the tag out")
