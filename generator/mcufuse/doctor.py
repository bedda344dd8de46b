# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Looks at the machine: what is there, what it is needed for, and how to get what is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from pathlib import Path

from .errors import EXIT_OK, EXIT_USER, UserError

__all__ = ["Finding", "Need", "examine", "exit_code", "find_zephyr_base", "render", "zephyr_problem", "zephyr_version"]

MIN_PYTHON = (3, 11)


class Need(StrEnum):
    """What a tool is needed for."""

    GENERATE = "generate"  # mcufuse compile
    BARE_METAL = "bare metal"  # mcufuse run, bench, check
    ZEPHYR = "Zephyr"  # west mcufuse ...
    COMPARE = "compare"  # tests against other runtimes


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked for. `found` is its version or place, "" if it is missing."""

    name: str
    need: Need
    what_for: str
    found: str
    get: str  # the command that gets it

    @property
    def ok(self) -> bool:
        """Whether it is there."""
        return bool(self.found)

    @property
    def required(self) -> bool:
        """Whether `mcufuse run` cannot do without."""
        return self.need in {Need.GENERATE, Need.BARE_METAL}


# distribution, import it is needed for
_PACKAGES: tuple[tuple[str, Need, str], ...] = (
    ("numpy", Need.GENERATE, "the oracle and the import of models"),
    ("onnx", Need.GENERATE, "reading .onnx files"),
    ("PyYAML", Need.GENERATE, "reading configurations"),
    ("pyelftools", Need.BARE_METAL, "checking budgets on the linked ELF"),
    ("rich", Need.GENERATE, "reports and progress on a terminal"),
    ("pyserial", Need.ZEPHYR, "boards on a serial line"),
    ("west", Need.ZEPHYR, "west mcufuse build, run, test"),
    ("tflite-micro", Need.COMPARE, "tests against TFLite Micro"),
    ("onnxruntime", Need.COMPARE, "tests against ONNX Runtime"),
)

# program, what it is needed for, Debian packages
_PROGRAMS: tuple[tuple[str, Need, str, str], ...] = (
    ("cmake", Need.ZEPHYR, "Zephyr builds", "cmake"),
    ("ninja", Need.ZEPHYR, "Zephyr builds", "ninja-build"),
    ("dtc", Need.ZEPHYR, "Zephyr's devicetrees", "device-tree-compiler"),
)


def find_zephyr_base() -> Path | None:
    """Zephyr's source tree, or None: $ZEPHYR_BASE, the workspace round the checkout, ~/zephyrproject, .cache/."""
    from .paths import checkout_dir

    named = os.environ.get("ZEPHYR_BASE", "")
    checkout = checkout_dir()
    places = [Path(named)] if named else []
    if checkout is not None:
        places.append(checkout.parent / "zephyr")
    places.append(Path.home() / "zephyrproject" / "zephyr")
    if checkout is not None:
        places.append(checkout / ".cache" / "zephyrproject" / "zephyr")
    return next((place for place in places if zephyr_version(place)), None)


def zephyr_version(base: Path) -> str:
    """The version in `base`/VERSION, such as "4.2.0-rc1"; "" if that is no Zephyr tree."""
    try:
        text = (base / "VERSION").read_text(encoding="utf-8")
    except OSError:
        return ""
    fields = dict(re.findall(r"^(\w+)[ \t]*=[ \t]*(\S*)[ \t]*$", text, re.MULTILINE))
    if not (base / "Kconfig.zephyr").is_file() or "VERSION_MAJOR" not in fields:
        return ""
    version = ".".join(fields.get(key, "0") for key in ("VERSION_MAJOR", "VERSION_MINOR", "PATCHLEVEL"))
    extra = fields.get("EXTRAVERSION", "")
    return f"{version}-{extra}" if extra else version


def zephyr_problem() -> str:
    """Why nothing can be built on Zephyr here: no tree, or one that wants a newer Python; "" if it can."""
    base = find_zephyr_base()
    if base is None:
        return "no Zephyr workspace: set ZEPHYR_BASE, or make ~/zephyrproject (see `mcufuse doctor`)"
    wanted = _zephyr_python(base)
    if sys.version_info[:3] < wanted:
        names = (".".join(map(str, version)) for version in (wanted, sys.version_info[:3]))
        return "Zephyr in {} wants Python {}, this is {}".format(base, *names)
    return ""


def _zephyr_python(base: Path) -> tuple[int, ...]:
    """The oldest Python that a Zephyr tree's CMake takes; (0,) if it does not say."""
    try:
        text = (base / "cmake" / "modules" / "python.cmake").read_text(encoding="utf-8")
    except OSError:
        return (0,)
    found = re.search(r"PYTHON_MINIMUM_REQUIRED\s+([0-9.]+)", text)
    return tuple(int(part) for part in found[1].split(".")) if found else (0,)


def examine(which: Callable[[str], str | None] = shutil.which) -> list[Finding]:
    """Looks for everything; `which` finds programs (tests give their own)."""
    return [_python(), *_packages(), _compiler(), _emulator(), *_programs(which), *_zephyr()]


def exit_code(findings: Iterable[Finding]) -> int:
    """1 if something is missing that `mcufuse run` needs."""
    return EXIT_USER if any(f.required and not f.ok for f in findings) else EXIT_OK


def render(findings: Iterable[Finding]) -> str:
    """The findings as text, missing ones with the command that gets them."""
    lines = []
    missing = []
    for f in findings:
        state = "ok     " if f.ok else ("MISSING" if f.required else "missing")
        lines.append(f"{state}  {f.name:<18} {f.found or '-':<32} {f.need}: {f.what_for}")
        if not f.ok:
            missing.append(f)
            lines.append(f"         {'':<18} get it: {f.get}")
    required = [f.name for f in missing if f.required]
    optional = [f.name for f in missing if not f.required]
    if required:
        lines.append(f"needed and missing: {', '.join(required)}")
    if optional:
        lines.append(f"optional and missing: {', '.join(optional)}")
    if not missing:
        lines.append("everything is there")
    return "\n".join(lines)


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding(
        "Python",
        Need.GENERATE,
        "mcufuse itself; Zephyr 4.2 wants 3.12",
        version if sys.version_info >= MIN_PYTHON else "",
        "apt-get install python3 (3.11 or later)",
    )


def _packages() -> list[Finding]:
    found = []
    for name, need, what_for in _PACKAGES:
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            version = ""
        found.append(Finding(name, need, what_for, version, f"{sys.executable} -m pip install {name}"))
    return found


def _compiler() -> Finding:
    from .toolchain import find_toolchain

    get = "apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi"
    found, get = _label(lambda: find_toolchain().label, get)
    return Finding("arm-none-eabi-gcc", Need.BARE_METAL, "compiling for the cores", found, get)


def _emulator() -> Finding:
    from .toolchain import find_emulator

    found, get = _label(lambda: find_emulator().label, "apt-get install qemu-system-arm")
    return Finding("qemu-system-arm", Need.BARE_METAL, "running without a board", found, get)


def _label(look: Callable[[], str], get: str) -> tuple[str, str]:
    """What `look` finds; if nothing usable, why, before the command that gets it."""
    try:
        return look(), get
    except UserError as error:
        problem = error.problems[0]
        return "", get if problem.message.endswith("was not found") else f"{problem.place}: {problem.message}; {get}"


def _programs(which: Callable[[str], str | None]) -> list[Finding]:
    found = []
    for name, need, what_for, packages in _PROGRAMS:
        path = which(name)
        version = (_version_of(path) or path) if path else ""
        found.append(Finding(name, need, what_for, version, f"apt-get install {packages}"))
    return found


def _version_of(program: str) -> str:
    """The first version number in the first line that `program --version` prints."""
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=20, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    first = done.stdout.partition("\n")[0]
    numbers = re.findall(r"\d+(?:\.\d+)+", first)
    return numbers[0] if numbers else first.strip()[:32]


def _zephyr() -> list[Finding]:
    base = find_zephyr_base()
    get = (
        "west init -m https://github.com/zephyrproject-rtos/zephyr ~/zephyrproject && cd ~/zephyrproject && west update"
    )
    found = f"{zephyr_version(base)} in {base}" if base else ""
    problem = zephyr_problem()
    if base and problem:
        found, get = "", f"{problem}; a virtual environment with that Python"
    findings = [Finding("Zephyr workspace", Need.ZEPHYR, "firmware on Zephyr (optional)", found, get)]
    if base is not None:
        module = base.parent / "modules" / "hal" / "cmsis_6"
        present = (module / "zephyr" / "module.yml").is_file()
        findings.append(
            Finding(
                "cmsis_6 module",
                Need.ZEPHYR,
                "Zephyr on Cortex-M",
                str(module) if present else "",
                f"cd {base.parent} && west update cmsis_6",
            )
        )
    return findings
