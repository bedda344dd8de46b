# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Compiles a network, runs it bare-metal in QEMU, compares every output with the oracle and completes its report."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .budget import check_budget
from .config import Config
from .output import write_files
from .progress import Progress
from .target import Core

if TYPE_CHECKING:
    from .baremetal import BuiltImage, RunResult
    from .pipeline import Compiled
    from .vectors import VectorCase

__all__ = ["Measured", "compile_checked", "generated_files", "measure"]


@dataclass(frozen=True, slots=True)
class Measured:
    """What a run gave: the completed report, and how many outputs were not the oracle's."""

    report: dict[str, Any]
    inferences: int
    outputs: int  # elements compared
    differing: int

    @property
    def exact(self) -> bool:
        """Whether every bit was right."""
        return self.differing == 0


def compile_checked(
    config: Config, core: Core, *, progress: Progress | None = None, dump_after: str | None = None
) -> Compiled:
    """Compiles a network and holds its plan against the budget; raises `UserError`."""
    from .pipeline import compile_network

    compiled = compile_network(config, core=core, dump_after=dump_after, progress=progress)
    compiled.report["budget"] = {"ram": config.budget.ram, "flash": config.budget.flash}
    check_budget(config, compiled.report)
    return compiled


def generated_files(compiled: Compiled) -> dict[str, str]:
    """All files of a compiled network: its C and report.json."""
    return compiled.files | {"report.json": json.dumps(compiled.report, indent=2) + "\n"}


def measure(
    config: Config, core: Core, *, opt: str | None = None, count: int | None = None, progress: Progress | None = None
) -> Measured:
    """Compiles, builds, runs and checks a network; raises `UserError` for its budget and for what is missing here.

    `opt` replaces the optimisation flags of the report ("-Os"), `count` the number of inputs.
    """
    from .baremetal import build, run
    from .testcases import case_inputs, make_cases

    progress = progress or Progress()
    compiled = compile_checked(config, core, progress=progress)
    progress("computing the expected outputs")
    cases = make_cases(config, compiled, count)
    inputs = [case_inputs(case, compiled.inputs) for case in cases]
    with tempfile.TemporaryDirectory(prefix="mcufuse-") as temporary:
        generated = Path(temporary) / "generated"
        write_files(generated, generated_files(compiled))
        progress(f"compiling for {core.name}")
        image = build(generated, core, opt=opt, out_dir=Path(temporary) / "build")
        progress(f"running {len(cases)} inferences on an emulated {core.name}")
        result = run(image, inputs=inputs)
        report = _completed(compiled.report, image, result, opt)
    elements, differing = _differences(cases, result)
    report["verified"] = f"{len(cases)} inferences on {core.name} (QEMU): {differing:,} of {elements:,} outputs differ"
    check_budget(config, report)
    return Measured(report, len(cases), elements, differing)


def _differences(cases: list[VectorCase], result: RunResult) -> tuple[int, int]:
    """Elements compared, and elements whose bits differ."""
    elements = differing = 0
    for case, outputs in zip(cases, result.outputs, strict=True):
        for expected, found in zip(case.expected, outputs, strict=True):
            elements += expected.size
            size = expected.dtype.itemsize
            pairs = zip(_words(expected.tobytes(), size), _words(found.tobytes(), size), strict=True)
            differing += sum(a != b for a, b in pairs)
    return elements, differing


def _words(raw: bytes, size: int) -> list[bytes]:
    return [raw[i : i + size] for i in range(0, len(raw), size)]


def _completed(report: dict[str, Any], image: BuiltImage, result: RunResult, opt: str | None) -> dict[str, Any]:
    """The report with what only the compiler, the linker and the run can tell."""
    from .elf import network_sizes
    from .stack import stack_bound

    linked = image.read()
    sizes = network_sizes(linked, image.name)
    bound = stack_bound(linked, image.name, callgraphs=image.callgraphs, toolchain=image.toolchain)
    assert sizes.arena_bytes == report["arena_bytes"] == result.arena_bytes
    assert bound.size >= result.stack_bytes, (bound.size, result.stack_bytes)
    done = dict(report)
    done |= {
        "code_bytes": sizes.code_bytes,
        "weights_bytes": sizes.weights_bytes,  # with tables, configurations and descriptions
        "state_bytes": sizes.state_bytes,
        "stack_bytes": bound.size,
        "stack_measured_bytes": result.stack_bytes,
        "instructions": max(result.instructions, default=None),
        "toolchain": image.toolchain.label,
        "stages": [{"name": s.name, "instructions": s.instructions, "macs": s.macs} for s in result.steps],
    }
    if opt is not None:
        done["cflags"] = [opt]
    return done
