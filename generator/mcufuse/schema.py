# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The one table of what may stand in a network's YAML file.

`config.py` reads files by it and docs/yaml-reference.md is made from it (`mcufuse.commands.schema_doc`).
A kind of value says how it is written and turns text into a value; it raises `Refusal` with the reason.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from .errors import UserError
from .target import CORES, DEFAULT_CORE, core_by_name
from .units import parse_bytes

__all__ = [
    "KEYS", "SECTIONS", "Identifier", "InputMode", "Key", "Kind", "Optimize", "Refusal", "RoundingMode", "Section",
    "identifier_problem",
]  # fmt: skip


class Optimize(StrEnum):
    """What the planner and the kernel choice favour."""

    BALANCED = "balanced"
    LATENCY = "latency"
    RAM = "ram"
    FLASH = "flash"


class RoundingMode(StrEnum):
    """How requantization rounds; AUTO follows the model's format."""

    AUTO = "auto"
    TFLITE = "tflite"
    TFLITE_SINGLE = "tflite-single"
    ONNX = "onnx"


class InputMode(StrEnum):
    """Whether input 0 stands in the arena or is fed row by row."""

    RESIDENT = "resident"
    ROWS = "rows"


class Refusal(Exception):
    """Why a value is not taken, and what would be."""

    def __init__(self, reason: str, hint: str = ""):
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


class Kind(Protocol):
    """A kind of value."""

    @property
    def describe(self) -> str:
        """How it is written, for the documentation."""

    def read(self, text: str, base: Path) -> object:
        """The value of `text`; paths are relative to `base`. Raises `Refusal`."""


@dataclass(frozen=True, slots=True)
class FileKind:
    """A file that exists and has one of the suffixes."""

    suffixes: tuple[str, ...]
    what: str

    @property
    def describe(self) -> str:
        """See `Kind`."""
        return f"path of a {' or '.join(f'`{s}`' for s in self.suffixes)} file, relative to the YAML file"

    def read(self, text: str, base: Path) -> Path:
        """See `Kind`."""
        if not text.isprintable() or not text:
            raise Refusal("not a file name")
        path = base / text
        if path.suffix.lower() not in self.suffixes:
            raise Refusal(f"{self.what} is a {' or '.join(self.suffixes)} file")
        try:
            present = path.exists()
            regular = path.is_file()
            readable = os.access(path, os.R_OK)
        except (OSError, ValueError) as error:
            raise Refusal(f"not a file name ({error})") from error
        if not present:
            raise Refusal("no such file", f"looked for {path}; the path is relative to the YAML file")
        if not regular:
            raise Refusal("not a file")
        if not readable:
            raise Refusal("cannot be read: permission denied")
        return path.resolve() if ".." in path.parts else path.absolute()


_C_KEYWORDS = frozenset(
    """alignas alignof asm auto bool break case catch char class const constexpr continue default delete do double
    else enum explicit export extern false float for friend goto if inline int long mutable namespace new nullptr
    operator private protected public register restrict return short signed sizeof static static_assert struct switch
    template this thread_local throw true try typedef typeid typename typeof union unsigned using virtual void volatile
    wchar_t while""".split()
)
_C_HEADERS = frozenset(
    """assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg
    stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype""".split()
)
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_LONGEST_NAME = 48


def identifier_problem(name: str) -> str:
    """Why `name` cannot name a network, whose C files and symbols begin with it; "" if it can."""
    if not _IDENTIFIER.fullmatch(name):
        return "not a C identifier (letters, digits and _, not beginning with a digit)"
    if len(name) > _LONGEST_NAME:
        return f"longer than {_LONGEST_NAME} characters"
    if name.lower() in _C_KEYWORDS:
        return "a keyword of C or C++"
    if name.lower() in _C_HEADERS:
        return f"taken: the generated {name}.h would hide C's <{name.lower()}.h>"
    if name.lower() in {"main", "mcufuse", "mf"}:
        return "taken: it would clash with other symbols of the firmware"
    return ""


@dataclass(frozen=True, slots=True)
class Identifier:
    """A C identifier."""

    describe: str = "C identifier"

    def read(self, text: str, base: Path) -> str:
        """See `Kind`."""
        problem = identifier_problem(text)
        if problem:
            raise Refusal(problem)
        return text


@dataclass(frozen=True, slots=True)
class CoreKind:
    """A core of the target table."""

    describe: str = ", ".join(f"`{core.name}`" for core in CORES) + " (also without `cortex-`)"

    def read(self, text: str, base: Path) -> object:
        """See `Kind`."""
        try:
            return core_by_name(text)
        except UserError as error:
            raise Refusal("unknown core", error.problems[0].hint) from error


@dataclass(frozen=True, slots=True)
class Bytes:
    """A size in bytes."""

    describe: str = 'size: `16 KiB`, `64KB`, `"12,000 B"`, `4096`, `0x4000`; KB and KiB are both 1,024 bytes'

    def read(self, text: str, base: Path) -> int:
        """See `Kind`."""
        try:
            size = parse_bytes(text)
        except ValueError as error:
            raise Refusal(str(error), 'write it as 16 KiB, 64KB, "12,000 B" or 4096') from error
        if size == 0:
            raise Refusal("nothing fits into 0 bytes", "leave the key out for no limit")
        return size


@dataclass(frozen=True, slots=True)
class Choice:
    """One word of an enumeration."""

    options: type[StrEnum]

    @property
    def describe(self) -> str:
        """See `Kind`."""
        return ", ".join(f"`{option.value}`" for option in self.options)

    def read(self, text: str, base: Path) -> StrEnum:
        """See `Kind`."""
        try:
            return self.options(text)
        except ValueError:
            raise Refusal("not one of the choices", "choose " + " | ".join(o.value for o in self.options)) from None


@dataclass(frozen=True, slots=True)
class Count:
    """A whole number in a range."""

    lowest: int
    highest: int

    @property
    def describe(self) -> str:
        """See `Kind`."""
        return f"whole number, {self.lowest:,} to {self.highest:,}"

    def read(self, text: str, base: Path) -> int:
        """See `Kind`."""
        if not re.fullmatch(r"0|-?[1-9][0-9]{0,11}", text, re.ASCII):
            raise Refusal("not a whole number")
        if not self.lowest <= int(text) <= self.highest:
            raise Refusal(f"out of range {self.lowest:,} to {self.highest:,}")
        return int(text)


@dataclass(frozen=True, slots=True)
class Factor:
    """A decimal number in a range."""

    lowest: int
    highest: int

    @property
    def describe(self) -> str:
        """See `Kind`."""
        return f"decimal number, {self.lowest:,} to {self.highest:,}"

    def read(self, text: str, base: Path) -> float:
        """See `Kind`."""
        if not re.fullmatch(r"(0|[1-9][0-9]{0,11})(\.[0-9]{1,15})?", text, re.ASCII):
            raise Refusal("not a decimal number")
        if not self.lowest <= float(text) <= self.highest:
            raise Refusal(f"out of range {self.lowest:,} to {self.highest:,}")
        return float(text)


@dataclass(frozen=True, slots=True)
class PlaceKind:
    """A linker section, a Zephyr memory region or a devicetree node."""

    describe: str = (
        "section (`.bss`), name of a `zephyr,memory-region` (`SRAM1`), or devicetree node "
        '(`"&sram1"` in quotes, or its path `/soc/memory@20010000`)'
    )

    def read(self, text: str, base: Path) -> str:
        """See `Kind`."""
        if not re.fullmatch(r"\.[A-Za-z_][\w.]*|&?[A-Za-z_]\w*|(/[A-Za-z0-9,._+@-]+)+", text, re.ASCII):
            raise Refusal("not a section, memory region or devicetree node", 'for example .bss, SRAM1 or "&sram1"')
        return text


@dataclass(frozen=True, slots=True)
class Key:
    """One key: where it stands, what it takes, and what it means."""

    path: str  # "budget.ram"
    kind: Kind
    doc: str
    default: str  # how the default reads in the documentation
    example: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """A key that holds other keys."""

    path: str
    doc: str


SECTIONS: tuple[Section, ...] = (
    Section("target", "What the code is generated for."),
    Section("budget", "What the network may take of the chip. A plan or a link that passes it fails the command."),
    Section("input", "How the application hands over input 0."),
    Section("placement", "Where the linker puts the two large objects."),
    Section("verify", "What the self-test and `mcufuse run` compare."),
    Section("plan", "Pins a choice of the planner instead of letting it choose."),
)

KEYS: tuple[Key, ...] = (
    Key(
        "model",
        FileKind((".tflite", ".onnx"), "a model"),
        "The trained and quantized network. The only key that must be there.",
        "none",
        "models/kws_int8.tflite",
        required=True,
    ),
    Key(
        "name",
        Identifier(),
        "What the generated files and symbols begin with.",
        "the YAML file's stem, other characters turned to `_`",
        "kws",
    ),
    Key(
        "target.core",
        CoreKind(),
        "The core whose instructions are used. `--core` on the command line comes before it.",
        f"the board's core when built by west, else `{DEFAULT_CORE}`",
        "cortex-m4",
    ),
    Key(
        "target.wait_states",
        Count(0, 64),
        "Cycles that the core waits for a line of the flash, by the part's reference manual, for the clock in use. "
        "This and the three keys below serve the estimate of cycles (`mcufuse bench --by-layer`), nothing else.",
        "`0`",
        "5",
    ),
    Key("target.flash_line", Count(4, 256), "Bytes that the flash reads at once.", "`16`", "16"),
    Key("target.icache", Bytes(), "Size of the cache for code between core and flash.", "none", "1 KiB"),
    Key("target.dcache", Bytes(), "Size of the cache for constants between core and flash.", "none", "256 B"),
    Key(
        "budget.ram",
        Bytes(),
        "Limit for arena, state and worst stack of the network.",
        "the board's memory when built by west, else no limit",
        "16 KiB",
    ),
    Key(
        "budget.flash",
        Bytes(),
        "Limit for code and weights of the network.",
        "the board's memory when built by west, else no limit",
        "64 KiB",
    ),
    Key(
        "optimize",
        Choice(Optimize),
        "What to favour where memory, speed and size pull apart; the budget holds in any case. `latency`: code "
        "specialised for each shape, the fewest steps in line buffers. `ram`: the least arena. `flash`: layers share "
        "code wherever they can, compiled with -Os (the others: -O2). `balanced`: a KiB of code must save 1.22 % of "
        "the instructions.",
        "`balanced`",
        "balanced",
    ),
    Key(
        "rounding",
        Choice(RoundingMode),
        "How requantization rounds. `tflite`: as TFLite's reference kernels and CMSIS-NN, two roundings. "
        "`tflite-single`: one rounding, as XNNPACK. `onnx`: half to even, as ONNX Runtime.",
        "`auto`: `tflite` for a `.tflite`, `onnx` for an `.onnx`",
        "auto",
    ),
    Key(
        "input.mode",
        Choice(InputMode),
        "`resident`: input 0 is written whole into the arena before each run. `rows`: the application feeds its rows "
        "as they arrive (`mcufuse_feed_rows()`), and the arena never holds all of it.",
        "`resident`",
        "resident",
    ),
    Key(
        "input.hop",
        Count(1, 65535),
        "With `mode: rows`: rows from one window of a time series to the next. Work that windows share is done once, "
        "and after the first window only this many rows are fed for each inference.",
        "each window is fed as a whole",
        "1",
    ),
    Key("placement.arena", PlaceKind(), "Where the arena goes.", "`.bss`", ".bss"),
    Key("placement.weights", PlaceKind(), "Where the weights go.", "`.rodata`", ".rodata"),
    Key(
        "verify.vectors",
        FileKind((".npz",), "a set of test vectors"),
        "Recorded inputs, and if you like outputs, one array per tensor with the number of vectors as its first "
        "dimension. Without expected outputs, the oracle computes them.",
        "generated inputs",
        "kws_io.npz",
    ),
    Key(
        "verify.count",
        Count(1, 10_000),
        "How many inputs are run: generated ones, or the first of the recorded ones.",
        "`8`",
        "8",
    ),
    Key(
        "plan.strips",
        Count(1, 4096),
        "Cut bottlenecks whose line buffers decide the arena into this many vertical strips: less memory, more MACs.",
        "no strips",
        "4",
    ),
    Key(
        "plan.allowance",
        Factor(1, 1_000_000),
        "How many times the least arena the plan may take where that leaves more steps on their own, which saves the "
        "few instructions a row that streaming costs. `mcufuse explore` lists the values that make a difference.",
        "by `optimize`: 1.05 for `balanced` and `flash`, 1 for `ram`, no limit for `latency`",
        "1.2",
    ),
    Key(
        "plan.scratch",
        Count(0, 1 << 24),
        "Bytes of scratch memory up to which the fastest kernel is taken. Beyond, a slower one with less scratch is, "
        "where there is one.",
        "no limit",
        "256",
    ),
    Key(
        "arena_group",
        Identifier(),
        "Networks of one firmware with the same group share one arena, since they never run at the same time.",
        "an arena of its own",
        "vision",
    ),
)
