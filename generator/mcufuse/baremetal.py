# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Builds a generated network without Zephyr and runs it in QEMU, on the real instruction set.

`build` compiles the generated code with the mcufuse runtime and firmware/baremetal; `run` feeds it any
number of inputs in one start of the emulator and gives back outputs, exact instruction counts and the
stack that was used.
"""

from __future__ import annotations

import json
import re
import struct
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .elf import ImageSizes, check_overlaps, read_image
from .elfmodel import LinkedModel, read_model
from .errors import UserError
from .machines import Ended, Machine, machine_for, run_elf
from .paths import firmware_dir
from .target import Core
from .toolchain import Toolchain, find_emulator, find_toolchain

__all__ = ["BuiltImage", "RunResult", "StepCount", "build", "compile_and_link", "count_instructions", "execute", "run"]

Tensors = Sequence[npt.NDArray[Any]]

_COMPILE_TIMEOUT_S = 600
_REQUEST = struct.Struct("<III")
_RESULT = struct.Struct("<IIIIIII")
_REQUEST_MAGIC, _RESULT_MAGIC = 0x3151464D, 0x3152464D
_CALIBRATE = (100, 1100)  # loop counts of calibrate() in runner.c; mf_loop(n) takes 2 n + 1 instructions
_EXIT_FAULT, _EXIT_HOST, _EXIT_MODEL = 64, 65, 66  # semihost.h
_BASE_FLAGS = ("-std=c11", "-ffunction-sections", "-fdata-sections", "-fno-common", "-g", "-Wall", "-Wextra")
_STACK_FLAGS = ("-fstack-usage", "-fcallgraph-info=su,da")
_FAULT_BITS = (
    (0, "instruction fetch where execution is forbidden"),
    (1, "data access that is forbidden"),
    (8, "bus error on an instruction fetch"),
    (9, "bus error on a data access"),
    (16, "undefined instruction"),
    (17, "invalid execution state (not Thumb?)"),
    (19, "FPU or MVE is off"),
    (20, "stack overflow"),
    (24, "unaligned access"),
    (25, "division by zero"),
)


@dataclass(frozen=True, slots=True)
class BuiltImage:
    """A linked bare-metal image."""

    elf: Path
    map: Path
    name: str  # of the network; "" for a program of another kind
    core: Core
    machine: Machine
    toolchain: Toolchain
    objects: tuple[Path, ...]
    callgraphs: tuple[Path, ...]  # .ci files of GCC, one per C file

    def read(self) -> ImageSizes:
        """Sections, symbols and owners; raises `UserError` if sections overlap."""
        image = read_image(self.elf, self.map)
        check_overlaps(image)
        return image


@dataclass(frozen=True, slots=True)
class StepCount:
    """Instructions of one step in the profiled inference; 0 for the stage that runs as rows are fed."""

    name: str
    instructions: int
    macs: int


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run gave."""

    outputs: tuple[tuple[npt.NDArray[Any], ...], ...]  # per inference, per output
    instructions: tuple[int, ...]  # per inference, feeding included; empty without icount
    feed_instructions: tuple[int, ...]  # of these, in mcufuse_feed_rows(); 0 for a resident input
    steps: tuple[StepCount, ...]  # empty without icount
    stack_bytes: int  # high-water mark over all inferences
    arena_bytes: int
    guards: tuple[str, ...]  # sides of the arena that were guarded and found whole: "low", "high"


def build(
    generated_dir: Path,
    core: Core,
    *,
    opt: str | None = None,
    out_dir: Path,
    extra_sources: Sequence[Path] = (),
    defines: Sequence[str] = (),
) -> BuiltImage:
    """Compiles and links the network in `generated_dir` with the runner.

    Optimisation flags are the `cflags` of report.json, or `opt` alone when it is given. `defines` are
    "NAME" or "NAME=VALUE". Raises `UserError` for a missing tool or file; a compiler error carries the
    compiler's words.
    """
    report = _report(generated_dir)
    name = str(report["name"])
    firmware = firmware_dir()
    cflags = [opt] if opt is not None else [str(flag) for flag in report.get("cflags") or ("-O2",)]
    sources = [str(source) for source in report.get("sources") or (f"{name}.c",)]
    network = [path for path in (generated_dir / s for s in sources) if path.suffix == ".c"]
    return compile_and_link(
        [*network, firmware / "src" / "mcufuse.c", firmware / "baremetal" / "runner.c", *extra_sources],
        core,
        name=name,
        out_dir=out_dir,
        cflags=cflags,
        include_dirs=[generated_dir],
        defines=[f'MF_MODEL_HEADER="{name}.h"', f"MF_MODEL={name}_model", *defines],
    )


def compile_and_link(
    sources: Sequence[Path],
    core: Core,
    *,
    name: str = "",
    out_dir: Path,
    cflags: Sequence[str] = ("-O2",),
    include_dirs: Sequence[Path] = (),
    defines: Sequence[str] = (),
    libraries: Sequence[Path] = (),
) -> BuiltImage:
    """Builds a bare-metal program: `sources`, one of them with main(), the start-up code and what it needs of the
    archives `libraries`."""
    toolchain = find_toolchain()
    machine = machine_for(core)
    firmware = firmware_dir()
    bare = firmware / "baremetal"
    out_dir.mkdir(parents=True, exist_ok=True)
    common = [*core.gcc, *machine.defines]
    includes = [f"-I{d}" for d in (*include_dirs, firmware / "include", bare)]
    flags = [*_BASE_FLAGS, *_STACK_FLAGS, *cflags, *includes, *(f"-D{d}" for d in defines)]
    startup = [bare / "startup.c", bare / "semihost.c", bare / "counter.c", bare / "call.S"]
    objects = []
    for source in (*sources, *startup):
        target = out_dir / f"{source.stem}.o"
        if target in objects:
            raise UserError(f"two sources are called {source.stem}", place=str(source), hint="rename one of them")
        _tool(toolchain.gcc, *common, *flags, "-c", source, "-o", target)
        objects.append(target)
    script = out_dir / "image.ld"
    _tool(toolchain.gcc, "-E", "-P", "-x", "c", *machine.defines, bare / "image.ld", "-o", script)
    elf, map_path = out_dir / f"{name or 'program'}.elf", out_dir / f"{name or 'program'}.map"
    link: list[str | Path] = ["-nostartfiles", "-Wl,--gc-sections", f"-Wl,-Map={map_path}", "-T", script]
    _tool(toolchain.gcc, *core.gcc, *link, *objects, *libraries, "-o", elf)
    graphs = tuple(ci for o in objects if (ci := o.with_suffix(".ci")).is_file())
    return BuiltImage(elf, map_path, name, core, machine, toolchain, tuple(objects), graphs)


def run(
    image: BuiltImage, *, inputs: Sequence[Tensors], icount: bool = True, profile: bool = True, timeout_s: float = 120.0
) -> RunResult:
    """Runs the network over `inputs`: for each inference the input tensors, batch dimension left out.

    One start of the emulator for all. With `icount` the instruction counts are exact and repeatable;
    an inference counts from the first instruction of mcufuse_run() (and of each mcufuse_feed_rows()) to
    its return. With `profile` the first inputs are run once more, step by step. Raises `UserError` when
    the program faults, does not end in time or breaks its arena, and when the inputs do not fit.
    """
    if not inputs:
        raise UserError("there are no inputs to run", hint="give at least one")
    sizes = image.read()
    model = read_model(sizes, image.name)
    profile = profile and icount
    blobs = [_request_bytes(model, tensors, f"input set {i}") for i, tensors in enumerate(inputs)]
    if profile:
        blobs.insert(0, blobs[0])
    with tempfile.TemporaryDirectory(prefix="mcufuse-run-") as temporary:
        work_dir = Path(temporary)
        head = _REQUEST.pack(_REQUEST_MAGIC, len(inputs), int(profile))
        (work_dir / "request.bin").write_bytes(head + b"".join(blobs))
        execute(image, work_dir, icount=icount, timeout_s=timeout_s)
        answer = (work_dir / "result.bin").read_bytes()
        outputs = _outputs(model, (work_dir / "outputs.bin").read_bytes(), len(blobs))
    return _result(image, model, answer, outputs, profile=profile, icount=icount)


def execute(image: BuiltImage, work_dir: Path, *, icount: bool = True, timeout_s: float = 120.0) -> None:
    """Runs a program whose host files are in `work_dir`; raises `UserError` unless it ends with exit code 0."""
    elf = image.elf.resolve()
    ended = run_elf(find_emulator(), image.machine, elf, work_dir=work_dir, icount=icount, timeout_s=timeout_s)
    if ended.code != 0:
        raise _failure(image, ended)


def _report(generated_dir: Path) -> Mapping[str, Any]:
    path = generated_dir / "report.json"
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(
            f"cannot read it: {error}", place=str(path), hint="generate it with: mcufuse compile"
        ) from error
    if not isinstance(report, dict) or not isinstance(report.get("name"), str):
        raise UserError("it does not name the network", place=str(path), hint="generate it with: mcufuse compile")
    return report


def _tool(*command: str | Path) -> None:
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=_COMPILE_TIMEOUT_S, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"{error}", place=words[0], hint="run mcufuse doctor") from error
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        first = next((i for i, line in enumerate(lines) if "error" in line.lower()), 0)
        short = lines[first : first + 20]
        raise UserError("\n".join([f"exit code {done.returncode}:", *short]), place=" ".join(words))


def _request_bytes(model: LinkedModel, tensors: Tensors, place: str) -> bytes:
    if len(tensors) != len(model.inputs):
        raise UserError(f'network "{model.name}" has {len(model.inputs)} inputs, {len(tensors)} given', place=place)
    blobs = [tensor.to_bytes(value) for tensor, value in zip(model.inputs, tensors, strict=True)]
    # In rows mode the rows of input 0 come last.
    return b"".join([*blobs[1:], blobs[0]] if model.input_rows else blobs)


def _outputs(model: LinkedModel, data: bytes, count: int) -> list[tuple[npt.NDArray[Any], ...]]:
    each = sum(t.n_bytes for t in model.outputs)
    assert len(data) == each * count, (len(data), each, count)
    found, at = [], 0
    for _ in range(count):
        tensors = []
        for tensor in model.outputs:
            tensors.append(tensor.from_bytes(data[at : at + tensor.n_bytes]))
            at += tensor.n_bytes
        found.append(tuple(tensors))
    return found


def _result(
    image: BuiltImage,
    model: LinkedModel,
    answer: bytes,
    outputs: list[tuple[npt.NDArray[Any], ...]],
    *,
    profile: bool,
    icount: bool,
) -> RunResult:
    magic, n_calls, n_steps, stack_bytes, stack_room, guards, broken = _RESULT.unpack_from(answer)
    assert magic == _RESULT_MAGIC
    pairs = np.frombuffer(answer, dtype="<u4", offset=_RESULT.size).astype(np.int64).reshape(-1, 2)
    place = f"{model.name} on {image.core.name}"
    sides = tuple(side for bit, side in ((1, "low"), (2, "high")) if guards & bit)
    if broken:
        hurt = " and ".join(side for bit, side in ((1, "below"), (2, "above")) if broken & bit)
        raise UserError(
            f"the network wrote outside of its arena, {hurt} it", place=place, hint="this is a bug of mcufuse"
        )
    if stack_bytes + 64 > stack_room:
        raise UserError(f"it used all {stack_room} B of stack", place=place, hint="this is a bug of mcufuse")
    if profile:
        profiled = outputs.pop(0)
        if any(a.tobytes() != b.tobytes() for a, b in zip(profiled, outputs[0], strict=True)):
            raise UserError("step by step it computes other outputs", place=place, hint="this is a bug of mcufuse")
    counts: npt.NDArray[np.int64] = np.zeros((0, n_calls), np.int64)
    steps: tuple[StepCount, ...] = ()
    if icount:
        found = count_instructions(pairs, image.machine, place)
        counts = found[n_steps:].reshape(-1, n_calls)
        steps = tuple(
            StepCount(step.name, int(n) if step.function else 0, step.macs)
            for step, n in zip(model.steps, found[:n_steps], strict=False)
        )
    return RunResult(
        outputs=tuple(outputs),
        instructions=tuple(int(n) for n in counts.sum(axis=1)),
        feed_instructions=tuple(int(n) for n in counts[:, :-1].sum(axis=1)),
        steps=steps,
        stack_bytes=stack_bytes,
        arena_bytes=model.arena_bytes,
        guards=sides,
    )


def count_instructions(pairs: npt.NDArray[np.int64], machine: Machine, place: str) -> npt.NDArray[np.int64]:
    """Instructions of each call after the three calibration calls, from differences of both counters [calls, 2].

    Raises `UserError` when those of the calibration calls are not what they are known to be.

    The window round a call holds the call's own instructions and a constant number of others. An empty
    function (1 instruction) tells that constant; two loops of known length prove the scale. The slow
    counter, good to a few hundred ticks, tells how often the 32-bit counter came round.
    """
    fine, slow = pairs[:, 0], pairs[:, 1]
    ticks = fine + (((slow << 8) - fine + (1 << 31)) >> 32 << 32)
    windows: npt.NDArray[np.int64] = np.rint(ticks / machine.ticks_per_instruction).astype(np.int64)
    counts: npt.NDArray[np.int64] = windows - windows[0] + 1
    expected = [1, *(2 * n + 1 for n in _CALIBRATE)]
    if counts[:3].tolist() != expected:
        raise UserError(
            f"the emulator counted {counts[:3].tolist()} instructions where {expected} were executed",
            place=place,
            hint="this version of QEMU runs the board's timer at another clock; use QEMU 7.2",
        )
    return counts[3:]


def _failure(image: BuiltImage, ended: Ended) -> UserError:
    place = f"{image.name or image.elf.name} on {image.core.name}"
    if fault := re.search(r"^mcufuse-fault (.*)$", ended.log, re.MULTILINE):
        sizes = image.read()
        fields = dict(part.split("=", 1) for part in fault[1].split() if "=" in part)
        at = {key: _place_of(sizes, int(fields[key], 16)) for key in ("pc", "lr") if key in fields}
        cfsr = int(fields.get("cfsr", "0"), 16)
        why = ", ".join(text for bit, text in _FAULT_BITS if cfsr >> bit & 1)
        where = ", ".join(f"{key}={fields[key]} ({name})" for key, name in at.items())
        rest = " ".join(f"{k}={v}" for k, v in fields.items() if k not in at)
        return UserError(
            f"the core faulted{': ' + why if why else ''}: {where or 'no stack frame'}; {rest}",
            place=place,
            hint=f"look at {image.elf} with objdump or a debugger; unless the code is yours, this is a bug of mcufuse",
        )
    if error := re.search(r"^mcufuse-error (.*)$", ended.log, re.MULTILINE):
        return UserError(error[1], place=place)
    return UserError(
        f"the emulator ended with code {ended.code}: {ended.log.strip()[-2000:] or 'no message'}",
        place=place,
        hint="a core that faults while it handles a fault locks up; look for a wild pointer or a stack overflow",
    )


def _place_of(sizes: ImageSizes, address: int) -> str:
    """Where an address in code is: "function+0x12"."""
    address &= ~1
    for symbol in sizes.symbols:
        if symbol.is_function and symbol.address <= address < symbol.address + max(symbol.size, 1):
            return f"{symbol.name}+{address - symbol.address:#x}"
    return "outside of the program"
