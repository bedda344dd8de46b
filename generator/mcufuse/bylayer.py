# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Measures a network step by step and holds the cost model against it.

For this the network is planned with every step on its own (no streaming, input resident), so that each step is an
entry of the schedule whose instructions the runner counts. The kernels are those of the configuration.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from .baremetal import RunResult, build, run
from .config import Config, Input
from .costs import bytes_moved, terms
from .cycles import estimated_cycles
from .output import write_files
from .pipeline import Compiled, compile_network
from .report import Block, Table
from .target import Core, Flash
from .vectors import default_cases, make_input

__all__ = ["Layer", "Layers", "compile_alone", "layer_inputs", "lay_out_layers", "measure_layers"]


@dataclass(frozen=True, slots=True)
class Layer:
    """One step: what was modelled, what was counted."""

    name: str
    kernel: str
    macs: int
    instructions: int  # counted
    modelled: int
    cycles: int  # estimated from the count
    bytes_moved: int
    terms: tuple[float, ...]  # `costs.terms`, what the model is fitted with

    @property
    def error(self) -> float:
        """Of the model, as a fraction of the count."""
        return self.modelled / self.instructions - 1 if self.instructions else 0.0


@dataclass(frozen=True, slots=True)
class Layers:
    """A network on a core."""

    name: str
    core: Core
    flash: Flash
    toolchain: str
    total: int  # instructions of the whole inference
    layers: tuple[Layer, ...]

    def as_json(self) -> dict[str, Any]:
        """For tools."""
        rows = [asdict(layer) | {"error": round(layer.error, 4)} for layer in self.layers]
        return {"name": self.name, "core": self.core.name, "toolchain": self.toolchain, "instructions": self.total,
                "flash": asdict(self.flash), "layers": rows}  # fmt: skip


def compile_alone(config: Config, core: Core) -> Compiled:
    """The network with every step on its own."""
    return compile_network(replace(config, input=Input(), plan=replace(config.plan, allowance=math.inf)), core=core)


def measure_layers(config: Config, core: Core) -> Layers:
    """Compiles, builds and runs; raises `UserError` for what is missing here."""
    compiled = compile_alone(config, core)
    with tempfile.TemporaryDirectory(prefix="mcufuse-") as temporary:
        generated = Path(temporary) / "generated"
        write_files(generated, compiled.files | {"report.json": json.dumps(compiled.report)})
        image = build(generated, core, out_dir=Path(temporary) / "build")
        result = run(image, inputs=[layer_inputs(compiled)])
    flash = config.target.flash
    layers = _layers(compiled, core, flash, result)
    return Layers(config.name, core, flash, image.toolchain.label, result.instructions[0], layers)


def layer_inputs(compiled: Compiled) -> list[Any]:
    """Random inputs; the counts hardly depend on them."""
    case = default_cases(1)[0]
    return [
        make_input(case.kind, case.seed, t.dtype.value, t.shape[1:], index=i) for i, t in enumerate(compiled.inputs)
    ]


def _layers(compiled: Compiled, core: Core, flash: Flash, result: RunResult) -> tuple[Layer, ...]:
    layers = []
    for row, step, count in zip(compiled.report["steps"], compiled.steps, result.steps, strict=True):
        assert row["name"] == count.name
        output = compiled.graph.tensors[step.op.output]
        layers.append(
            Layer(
                name=count.name,
                kernel=step.lowered.function,
                macs=step.macs,
                instructions=count.instructions,
                modelled=step.lowered.instructions,
                cycles=estimated_cycles(core, flash, step, output, count.instructions),
                bytes_moved=bytes_moved(step),
                terms=terms(step.lowered, step.macs, output),
            )
        )
    return tuple(layers)


_HEADINGS = (
    "step", "kernel", ">MACs", ">instructions", ">per MAC", ">modelled", ">error", ">cycles, about", ">bytes moved",
    ">share",
)  # fmt: skip


def lay_out_layers(found: Layers) -> Block:
    """The table, with a line of totals."""
    layers = found.layers
    rows = [_row(layer, found.total) for layer in layers]
    rows.append(_row(_sum(layers), found.total))
    block = Block(f"{found.name} on {found.core.name}, every step on its own")
    near = sum(abs(layer.error) <= 0.1 for layer in layers)
    worst = max(abs(layer.error) for layer in layers)
    block.lines = [
        f"{found.toolchain}; instructions are exact (QEMU, -icount)",
        f"cycles are estimated from published timings, {_memory(found.flash)}",
        f"the model is off by {worst:.1%} at most, {near} of {len(layers)} steps are within 10%",
    ]
    block.table = Table(_HEADINGS, tuple(rows))
    return block


def _memory(flash: Flash) -> str:
    if not flash.wait_states:
        return "with memory that does not wait (see target.wait_states)"
    return f"with {flash.wait_states} wait states for each {flash.line_bytes} B of flash"


def _sum(layers: Sequence[Layer]) -> Layer:
    def total(field: str) -> int:
        return sum(getattr(layer, field) for layer in layers)

    return Layer("total", "", total("macs"), total("instructions"), total("modelled"), total("cycles"),
                 total("bytes_moved"), ())  # fmt: skip


def _row(layer: Layer, total: int) -> tuple[str, ...]:
    return (
        layer.name, layer.kernel, f"{layer.macs:,}" if layer.macs else "", f"{layer.instructions:,}",
        f"{layer.instructions / layer.macs:.2f}" if layer.macs else "", f"{layer.modelled:,}", f"{layer.error:+.1%}",
        f"{layer.cycles:,}", f"{layer.bytes_moved:,}", f"{layer.instructions / total:.1%}",
    )  # fmt: skip
