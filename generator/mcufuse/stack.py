# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The most stack that an inference can use, proved from the linked image.

Calls are those of the disassembly. Frames are the compiler's own figures (`-fcallgraph-info=su`) where
it gives them, and otherwise the sum of all pushes and subtractions in the function, which is never too
small; so the helpers of libgcc and the C library need no table. The calls through the model's step
table are known, because the table is read from the image. Recursion, frames of variable size and
other calls through pointers are refused: they have no bound.

An interrupt that is taken on the same stack comes on top.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .disasm import Function, disassemble
from .elf import ImageSizes
from .elfmodel import LinkedModel, read_model
from .errors import UserError
from .toolchain import Toolchain, find_toolchain

__all__ = ["Frame", "StackBound", "StackPath", "stack_bound"]

_NODE = re.compile(r'^node: \{ title: "(?P<title>[^"]*)" label: "(?P<label>[^"]*)"')
_USAGE = re.compile(r"\\n(\d+) bytes \(([a-z,]+)\)")
_VENEER = re.compile(r"^__(.+)_veneer$")


@dataclass(frozen=True, slots=True)
class Frame:
    """What one function takes, in bytes."""

    function: str
    size: int
    measured: bool  # True: read off the disassembly; False: told by the compiler


@dataclass(frozen=True, slots=True)
class StackPath:
    """The deepest chain of calls from one step (or from another function that an inference runs)."""

    step: str
    frames: tuple[Frame, ...]

    @property
    def size(self) -> int:
        """Bytes of the whole chain."""
        return sum(frame.size for frame in self.frames)

    def __str__(self) -> str:
        chain = " > ".join(f"{f.function} {f.size}{'*' if f.measured else ''}" for f in self.frames)
        return f"{self.step}: {self.size} B = {chain}"


@dataclass(frozen=True, slots=True)
class StackBound:
    """The bound of an inference, and the path of each step, deepest first."""

    size: int
    paths: tuple[StackPath, ...]


def stack_bound(
    image: ImageSizes, name: str, *, callgraphs: Iterable[Path] = (), toolchain: Toolchain | None = None
) -> StackBound:
    """The most stack that mcufuse_run() or mcufuse_feed_rows() of network `name` takes, in bytes.

    `callgraphs` are the .ci files of the generated code and of the runtime; without them all frames come
    from the disassembly. Raises `UserError` when there is no bound, with the path that has none.
    """
    model = read_model(image, name)
    analysis = _Analysis(
        disassemble(image.path, toolchain or find_toolchain()), _frames(callgraphs), _sources(image), str(image.path)
    )
    paths = [
        StackPath(step, tuple(frames))
        for entry, step, function in _entries(model)
        if (frames := analysis.chain(image, entry, function))
    ]
    paths.sort(key=lambda path: -path.size)
    return StackBound(max((path.size for path in paths), default=0), tuple(paths))


def _entries(model: LinkedModel) -> list[tuple[str, str, str]]:
    """(public function, what it runs, function that it calls through a pointer)."""
    entries = [("mcufuse_run", step.name, step.function) for step in model.steps if step.function]
    if model.feed_row:
        entries.append(("mcufuse_feed_rows", "feed_row", model.feed_row))
        entries.append(("mcufuse_feed_rows", "reset", model.reset))
    return entries or [("mcufuse_run", "run", "")]


@dataclass(frozen=True, slots=True)
class _Usage:
    size: int
    dynamic: bool


_Told = Mapping[tuple[str, str], _Usage]  # (source file's name, or "" when global; function) -> usage


class _Analysis:
    """Finds the deepest chains, each function once."""

    def __init__(self, functions: Mapping[int, Function], told: _Told, sources: Mapping[int, str], place: str) -> None:
        self._functions = functions
        self._told = told
        self._sources = sources
        self._place = place
        self._deepest: dict[int, tuple[Frame, ...]] = {}

    def chain(self, image: ImageSizes, entry: str, callee: str) -> list[Frame]:
        """The deepest chain of `entry`, which calls `callee` through a pointer.

        What `entry` itself calls directly is shallower than the steps and is looked at all the same.
        """
        root = self._named(image, entry)
        own = self._frame(root)
        below: list[tuple[Frame, ...]] = [self.deepest(target, (root.name,)) for target in root.calls]
        if callee:
            below.append(self.deepest(self._named(image, callee).address, (root.name,)))
        elif root.indirect:
            raise UserError(f"{entry} calls through a pointer and the model names no step", place=self._place)
        return [own, *max(below, key=_size, default=())]

    def deepest(self, address: int, above: tuple[str, ...]) -> tuple[Frame, ...]:
        """The deepest chain that begins with the function at `address`; `above` are its callers."""
        if address in self._deepest:
            return self._deepest[address]
        function = self._functions.get(address)
        if function is None:
            raise UserError(f"{above[-1]} calls {address:#x}, where no function begins", place=self._place)
        if function.name in above:
            raise self._unbounded(above, function, "recursion has no bound")
        callees = list(function.calls)
        if function.falls_into is not None and not self._usage(function):
            callees.append(function.falls_into)
        if function.indirect and not _VENEER.match(function.name):
            raise self._unbounded(above, function, "it calls through a pointer that is not in the step table")
        if len(above) > len(self._functions):
            raise self._unbounded(above, function, "the chain of calls does not end")
        own = self._frame(function, above)
        below = [self.deepest(target, (*above, function.name)) for target in callees]
        found = (own, *max(below, key=_size, default=()))
        self._deepest[address] = found
        return found

    def _named(self, image: ImageSizes, name: str) -> Function:
        symbol = image.symbol(name)
        function = self._functions.get(symbol.address) if symbol else None
        if function is None:
            raise UserError(f"function {name} is not in the image", place=self._place)
        return function

    def _usage(self, function: Function) -> _Usage | None:
        source = self._sources.get(function.address, "")
        return self._told.get((source, function.name)) or (None if source else self._told.get(("", function.name)))

    def _frame(self, function: Function, above: Sequence[str] = ()) -> Frame:
        usage = self._usage(function)
        if usage is not None:
            if usage.dynamic:
                raise self._unbounded(above, function, "its frame has a variable size")
            return Frame(function.name, usage.size, measured=False)
        if function.moves_sp:
            raise self._unbounded(above, function, "it moves the stack pointer by an unknown amount")
        return Frame(function.name, function.frame, measured=True)

    def _unbounded(self, above: Sequence[str], function: Function, why: str) -> UserError:
        path = " > ".join([*above, function.name])
        return UserError(
            f"there is no bound on the stack: {path}: {why}",
            place=self._place,
            hint="unless the function is your own, this is a bug of mcufuse",
        )


def _size(frames: Iterable[Frame]) -> int:
    return sum(frame.size for frame in frames)


def _frames(callgraphs: Iterable[Path]) -> dict[tuple[str, str], _Usage]:
    """Frames that GCC wrote into .ci files. A static function's title is "path/file.c:function"."""
    found: dict[tuple[str, str], _Usage] = {}
    for path in callgraphs:
        try:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError as error:
            raise UserError(f"cannot read it: {error.strerror}", place=str(path)) from error
        for line in lines:
            node = _NODE.match(line)
            usage = _USAGE.search(node["label"]) if node else None
            if node is None or usage is None:
                continue
            file, _, function = node["title"].rpartition(":")
            key = (Path(file).name if file else "", function)
            now = _Usage(int(usage[1]), "dynamic" in usage[2] and "bounded" not in usage[2])
            # Two files of one name: the larger frame counts.
            before = found.get(key, now)
            found[key] = _Usage(max(before.size, now.size), before.dynamic or now.dynamic)
    return found


def _sources(image: ImageSizes) -> dict[int, str]:
    """File symbol of each local function, by address."""
    return {s.address: Path(s.source).name for s in image.symbols if s.is_function and s.source}
