# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""From the YAML file to a typed, immutable `Config`; all that is wrong with a file is said at once."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .errors import Problems, UserError
from .schema import KEYS, SECTIONS, InputMode, Key, Optimize, Refusal, RoundingMode, identifier_problem
from .target import DEFAULT_CORE, Core, Flash, core_by_name
from .yaml_marks import Entry, Mapping, Mark, Scalar, read_text, read_yaml

__all__ = [
    "MODEL_SUFFIXES", "Budget", "Config", "Input", "InputMode", "Optimize", "Placement", "Plan", "RoundingMode",
    "Target", "Verify", "load_config", "parse_config",
]  # fmt: skip

MODEL_SUFFIXES = (".tflite", ".onnx")

_KEYS: dict[str, Key] = {key.path: key for key in KEYS}
_SECTIONS = frozenset(section.path for section in SECTIONS)


@dataclass(frozen=True, slots=True)
class Target:
    """What to generate for; `core` None: the board's when built by west, else the default."""

    core: Core | None = None
    wait_states: int = 0
    flash_line: int = 16
    icache: int = 0
    dcache: int = 0

    @property
    def flash(self) -> Flash:
        """The part's flash, for estimates of cycles."""
        return Flash(self.wait_states, self.flash_line, self.icache, self.dcache)


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits in bytes; None is no limit."""

    ram: int | None = None
    flash: int | None = None


@dataclass(frozen=True, slots=True)
class Input:
    """How input 0 is handed over."""

    mode: InputMode = InputMode.RESIDENT
    hop: int | None = None  # rows from one window to the next; None: windows share nothing


@dataclass(frozen=True, slots=True)
class Placement:
    """Section (".bss"), memory region ("SRAM1") or devicetree node ("&sram1", "/soc/memory@20010000")."""

    arena: str = ".bss"
    weights: str = ".rodata"


@dataclass(frozen=True, slots=True)
class Verify:
    """Test vectors: recorded ones (.npz), or `count` generated ones."""

    vectors: Path | None = None
    count: int = 8


@dataclass(frozen=True, slots=True)
class Plan:
    """Choices of the planner that the user pinned."""

    strips: int | None = None
    allowance: float | None = None  # `Objective.ram_allowance`
    scratch: int | None = None  # bytes, `Objective.scratch_limit`


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """One network as the user describes it. Paths are absolute, except `path`, which is as she gave it."""

    path: Path  # the YAML file, or the model itself when there is none
    model: Path
    name: str
    target: Target = Target()
    budget: Budget = Budget()
    optimize: Optimize = Optimize.BALANCED
    rounding: RoundingMode = RoundingMode.AUTO
    input: Input = Input()
    placement: Placement = Placement()
    verify: Verify = Verify()
    plan: Plan = Plan()
    arena_group: str | None = None
    marks: dict[str, Mark] = field(default_factory=dict, compare=False, repr=False)

    def place(self, key: str) -> str:
        """Where `key` stands, for messages: "kws.yaml:12: budget.ram"; without the line if it is not in the file."""
        mark = self.marks.get(key)
        return f"{self.path}:{mark.line}: {key}" if mark else f"{self.path}: {key}"

    def core(self, override: str | None = None) -> Core:
        """The core by the command line's word, else by the file, else the default."""
        if override is not None:
            return core_by_name(override)
        return self.target.core or core_by_name(DEFAULT_CORE)

    def renamed(self, name: str) -> Config:
        """The same network under another name; raises `UserError` if that is no C identifier."""
        problem = identifier_problem(name)
        if problem:
            raise UserError(f'"{name}": {problem}', place="--name")
        return replace(self, name=name)


def load_config(path: Path) -> Config:
    """Reads a YAML file, or takes a bare .tflite or .onnx as the file that only names it.

    Raises `UserError` with every problem of the file: place (file, line, column, key), value and reason.
    """
    if path.suffix.lower() in MODEL_SUFFIXES:
        return _bare_model(path)
    return parse_config(read_text(path), path)


def parse_config(text: str, path: Path) -> Config:
    """The configuration in `text`, which came from `path`; see `load_config`."""
    root = read_yaml(text, str(path))
    if not isinstance(root, Mapping):
        mark = "" if root is None else f":{root.mark.line}:{root.mark.column}"
        what = "is empty" if root is None else "holds no keys"
        raise UserError(what, place=f"{path}{mark}", hint="the smallest file is one line: model: kws.tflite")
    reader = _Reader(path)
    reader.read_mapping(root, "")
    reader.require(root)
    name = reader.values.get("name") or reader.name_from_stem(root)
    reader.problems.raise_if_any()
    return _build(path, name, reader.values, reader.marks)


def _bare_model(path: Path) -> Config:
    try:
        model = _KEYS["model"].kind.read(str(path.name), path.parent)
    except Refusal as refusal:
        raise UserError(refusal.reason, place=str(path)) from refusal
    assert isinstance(model, Path)
    name = _stem_identifier(path)
    problem = identifier_problem(name)
    if problem:
        raise UserError(f'the name "{name}" is {problem}', place=str(path), hint="pass another one with --name")
    return Config(path=path, model=model, name=name)


def _stem_identifier(path: Path) -> str:
    """The file's stem as CMake's string(MAKE_C_IDENTIFIER) would write it."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", path.stem)
    return f"_{name}" if name[:1].isdigit() else name


def _build(path: Path, name: str, values: dict[str, Any], marks: dict[str, Mark]) -> Config:
    def section(prefix: str) -> dict[str, Any]:
        return {key.removeprefix(prefix): value for key, value in values.items() if key.startswith(prefix)}

    top = {key: value for key, value in values.items() if "." not in key and key != "name"}
    return Config(
        path=path,
        name=name,
        target=Target(**section("target.")),
        budget=Budget(**section("budget.")),
        input=Input(**section("input.")),
        placement=Placement(**section("placement.")),
        verify=Verify(**section("verify.")),
        plan=Plan(**section("plan.")),
        marks=marks,
        **top,
    )


class _Reader:
    """Collects values, marks and problems while it walks the tree."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems = Problems()
        self.values: dict[str, Any] = {}
        self.marks: dict[str, Mark] = {}

    def _add(self, mark: Mark, key: str, message: str, hint: str = "") -> None:
        place = f"{self.path}:{mark.line}:{mark.column}"
        self.problems.add(message, place=f"{place}: {key}" if key else place, hint=hint)

    def read_mapping(self, mapping: Mapping, prefix: str) -> None:
        """Reads the keys of one level; `prefix` is "" or "budget."."""
        first: dict[str, Mark] = {}
        for entry in mapping.entries:
            path = prefix + entry.key
            if entry.key in first:
                before = first[entry.key]
                self._add(entry.mark, _clip(path), f"given twice, first in line {before.line}", "keep one of them")
                continue
            first[entry.key] = entry.mark
            if path in _KEYS:
                self.marks[path] = entry.mark
                self._read_value(_KEYS[path], entry)
            elif path in _SECTIONS:
                self.marks[path] = entry.mark
                self._read_section(path, entry)
            else:
                self._unknown(entry, prefix)

    def _read_section(self, path: str, entry: Entry) -> None:
        if isinstance(entry.value, Mapping):
            self.read_mapping(entry.value, f"{path}.")
            return
        inner = [key for key in KEYS if key.path.startswith(f"{path}.")]
        sample = ", ".join(f"{key.path.partition('.')[2]}: {key.example}" for key in inner)
        what = "has no value" if _is_null(entry.value) else f"{_shown(entry.value)}: expected keys, not a plain value"
        self._add(entry.value.mark, path, what, f"write {path}: {{{sample}}}, or leave it out")

    def _read_value(self, key: Key, entry: Entry) -> None:
        node = entry.value
        if not isinstance(node, Scalar):
            self._add(node.mark, key.path, f"expected one value, not {_shown(node)}", f"for example {key.example}")
            return
        if node.kind == "null" and node.text.startswith("&"):
            self._add(
                node.mark, key.path, f"YAML takes {_clip(node.text)} for an anchor", f'write "{_clip(node.text)}"'
            )
            return
        if _is_null(node):
            self._add(node.mark, key.path, "has no value", f"for example {key.example}; or leave the key out")
            return
        try:
            self.values[key.path] = key.kind.read(node.text, self.path.parent)
        except Refusal as refusal:
            self._add(node.mark, key.path, f"{_shown(node)}: {refusal.reason}", refusal.hint)

    def _unknown(self, entry: Entry, prefix: str) -> None:
        here = _keys_at(prefix)
        if entry.key == "<<":
            self._add(entry.mark, "", "merge keys (<<) are not supported", "write the keys out")
            return
        if re.match(r"\d", entry.key) and _is_null(entry.value):
            hint = 'inside {...} a comma ends the value; write sizes with one in quotes: "12,000 B"'
        else:
            hint = f'did you mean "{_nearest(entry.key, prefix, here)}"? known keys here: {", ".join(here)}'
        self._add(entry.mark, _clip(prefix + entry.key), "unknown key", hint)

    def require(self, root: Mapping) -> None:
        """Notes the keys that must be there and are not."""
        for key in KEYS:
            if key.required and key.path not in self.marks:
                self._add(root.mark, key.path, "missing", f"add {key.path}: {key.example}")

    def name_from_stem(self, root: Mapping) -> str:
        """The default name; a stem that cannot serve is a problem, unless the file gave a (wrong) name itself."""
        name = _stem_identifier(self.path)
        problem = identifier_problem(name)
        if problem and "name" not in self.marks:
            self._add(root.mark, "name", f'"{name}" (from the file name): {problem}', "add a key, name: kws")
        return name


def _is_null(node: object) -> bool:
    return isinstance(node, Scalar) and node.kind == "null"


def _clip(text: str, longest: int = 60) -> str:
    text = text if text.isprintable() else repr(text)[1:-1]
    return text if len(text) <= longest else text[: longest - 3] + "..."


def _shown(node: object) -> str:
    if isinstance(node, Scalar):
        return f'"{_clip(node.text)}"'
    return "keys" if isinstance(node, Mapping) else "a list"


def _keys_at(prefix: str) -> list[str]:
    """The known keys of one level, in the order of the schema."""
    level = (key.path.removeprefix(prefix) for key in KEYS if key.path.startswith(prefix))
    return list(dict.fromkeys(path.partition(".")[0] for path in level))


def _nearest(word: str, prefix: str, here: Iterable[str]) -> str:
    """The known key that the user most likely meant: by spelling on this level, or the same word on another one."""
    word = word.lower()

    def likeness(candidate: str) -> float:
        return difflib.SequenceMatcher(None, word, candidate.lower()).ratio()

    best = max(here, key=likeness)
    elsewhere = max(_KEYS, key=lambda path: likeness(path.rpartition(".")[2]))
    if likeness(best) < 0.7 <= likeness(elsewhere.rpartition(".")[2]) and not elsewhere.startswith(prefix or "?"):
        return elsewhere
    return best
