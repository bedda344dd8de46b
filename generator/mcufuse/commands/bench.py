# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""`mcufuse bench`: exact figures of networks on cores, and what generating them costs."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import EXIT_BUG, EXIT_OK, UserError
from ..progress import make_progress
from .base import Command, add_json, add_quiet, print_json

if TYPE_CHECKING:
    from ..config import Config
    from ..target import Core

__all__ = ["COMMAND"]

_INPUTS = 3  # one of each kind; the counts of instructions of a network hardly depend on its input


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("configs", metavar="CONFIG", type=Path, nargs="+", help="YAML files, or .tflite or .onnx files")
    parser.add_argument("--core", metavar="CORE", action="append", help="core; may be given more than once")
    parser.add_argument("--by-layer", action="store_true", help="a table by step, modelled against measured")
    add_json(parser)
    add_quiet(parser)


def _run(args: argparse.Namespace) -> int:
    from ..config import load_config

    configs = [load_config(path) for path in args.configs]
    if args.by_layer:
        return _by_layer(configs, args)
    rows: list[dict[str, Any]] = []
    with make_progress(quiet=args.quiet) as progress:
        for config in configs:
            for core in [config.core(name) for name in args.core or [None]]:
                progress(f"{config.name} on {core.name}")
                rows.append(_figures(config, core))
    if args.json:
        print_json(rows)
    else:
        _show(rows)
    return EXIT_OK if all(row["differing"] == 0 for row in rows) else EXIT_BUG


def _by_layer(configs: list[Config], args: argparse.Namespace) -> int:
    """One table for each network and core."""
    from ..bylayer import lay_out_layers, measure_layers
    from ..report import show_blocks

    found = []
    with make_progress(quiet=args.quiet) as progress:
        for config in configs:
            for core in [config.core(name) for name in args.core or [None]]:
                progress(f"{config.name} on {core.name}")
                found.append(measure_layers(config, core))
    if args.json:
        print_json([layers.as_json() for layers in found])
    else:
        show_blocks([lay_out_layers(layers) for layers in found])
    return EXIT_OK


def _figures(config: Config, core: Core) -> dict[str, Any]:
    from ..measure import measure

    cpu, peak = _generation(config, core)
    measured = measure(config, core, count=_INPUTS)
    report = measured.report
    keys = ("name", "core", "macs", "instructions", "arena_bytes", "arena_lower_bound", "state_bytes", "stack_bytes",
            "code_bytes", "weights_bytes", "cflags", "toolchain", "model_sha256")  # fmt: skip
    figures = {key: report.get(key) for key in keys}
    return figures | {"differing": measured.differing, "generate_cpu_s": round(cpu, 2), "generate_peak_bytes": peak}


def _generation(config: Config, core: Core) -> tuple[float, int]:
    """CPU seconds and peak memory in bytes of one `mcufuse compile`, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="mcufuse-") as temporary:
        command = [sys.executable, "-m", "mcufuse", "compile", str(config.path), "-o", temporary, "--core", core.name]
        package = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH", ""))))
        process = subprocess.Popen(
            [*command, "-q"], env=os.environ | {"PYTHONPATH": path}, stderr=subprocess.PIPE, text=True
        )
        assert process.stderr is not None
        with process.stderr as stream:
            complaint = stream.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise UserError(complaint.strip().removeprefix("error: "))
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def _show(rows: list[dict[str, Any]]) -> None:
    from ..report import Block, Table, show_blocks

    headings = (
        "network", "core", ">MACs", ">instructions", ">per MAC", ">arena", ">bound", ">stack", ">code", ">weights",
        ">flash", ">generate", ">peak",
    )  # fmt: skip
    cells = tuple(
        (
            row["name"], row["core"], f"{row['macs']:,}", f"{row['instructions']:,}",
            f"{row['instructions'] / row['macs']:.2f}" if row["macs"] else "",
            f"{row['arena_bytes']:,}", f"{row['arena_lower_bound']:,}", f"{row['stack_bytes']:,}",
            f"{row['code_bytes']:,}", f"{row['weights_bytes']:,}", f"{row['code_bytes'] + row['weights_bytes']:,}",
            f"{row['generate_cpu_s']:.2f} s", f"{row['generate_peak_bytes'] / (1 << 20):.0f} MiB",
        )
        for row in rows
    )  # fmt: skip
    first = rows[0]
    block = Block("bench: one inference; bytes; instructions are exact (QEMU, -icount), not cycles")
    block.lines.append(f"{' '.join(first['cflags'])}, {first['toolchain']}")
    block.lines += [
        f"{row['name']} on {row['core']}: {row['differing']} OUTPUTS DIFFER" for row in rows if row["differing"]
    ]
    block.table = Table(headings, cells)
    show_blocks([block])


COMMAND = Command(
    name="bench",
    summary="measure instructions, memory and generation time",
    description="Compiles each network for each core, runs it in QEMU and prints exact figures. With --by-layer every\n"
    "step runs on its own, and the cost model stands beside the counts.",
    example="example: mcufuse bench kws.yaml vww.yaml --core cortex-m3 --core cortex-m4",
    add_arguments=_add_arguments,
    run=_run,
)
