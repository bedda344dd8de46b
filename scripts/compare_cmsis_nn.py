#!/usr/bin/env python3
# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Counts the instructions of CMSIS-NN and of mcufuse, layer by layer, on the same weights and inputs.

mcufuse neither contains nor needs CMSIS-NN; its sources are the user's own. See docs/cmsis-nn.md.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mcufuse.baremetal import compile_and_link, count_instructions, execute
from mcufuse.bylayer import Layers, compile_alone, layer_inputs, measure_layers
from mcufuse.cli import guarded
from mcufuse.config import load_config
from mcufuse.errors import EXIT_OK, UserError
from mcufuse.ir import (
    Add,
    AvgPool2D,
    Clamp,
    Conv2D,
    DepthwiseConv2D,
    DType,
    FullyConnected,
    Graph,
    MaxPool2D,
    Mean,
    Op,
    Padding,
    Requant,
    Rounding,
    Softmax,
)
from mcufuse.oracle import evaluate_all
from mcufuse.pipeline import Compiled
from mcufuse.progress import make_progress
from mcufuse.report import Block, Table, show_blocks
from mcufuse.target import Core, core_by_name
from mcufuse.toolchain import find_toolchain

Array = npt.NDArray[Any]

URL = "https://github.com/ARM-software/CMSIS-NN"
CORES = ("cortex-m3", "cortex-m4", "cortex-m55")
OPTS = ("-O2", "-Ofast")  # ours, and the default of CMSIS-NN's own CMakeLists.txt
FOLDERS = ("Convolution", "FullyConnected", "Pooling", "BasicMath", "Softmax", "NNSupport", "Transpose")
FLOAT = ("_f16", "_f32", "_flt")
ARCHIVE = "libcmsis_nn.a"
ALIGNMENT = 16
SOFTMAX_INTEGER_BITS = 5


# What CMSIS-NN is called with


@dataclass
class Blob:
    """Constants and inputs, which stand in one array of the program."""

    data: bytearray = field(default_factory=bytearray)

    def add(self, array: Array, c_type: str) -> str:
        """Appends an array; the C expression of its address."""
        self.data += bytes(-len(self.data) % ALIGNMENT)
        at = len(self.data)
        self.data += np.ascontiguousarray(array).tobytes()
        return f"({c_type} *)(blob + {at})"


@dataclass(frozen=True)
class Source:
    """What the calls of a network are made from."""

    graph: Graph
    values: dict[str, Array]  # all activations, of the oracle
    blob: Blob


@dataclass(frozen=True)
class Call:
    """One layer in C."""

    definitions: list[str]
    scratch: str  # expression: bytes of scratch
    call: str  # expression: status of CMSIS-NN
    prepare: tuple[str, ...] = ()  # further lines that run once, before the first inference


class NoCounterpartError(Exception):
    """CMSIS-NN has no function that computes the layer; says why."""


def layer_call(op: Op, source: Source) -> Call:
    """The call of CMSIS-NN that computes `op`. Raises `NoCounterpartError`."""
    make = MAKERS.get(type(op))
    if make is None:
        raise NoCounterpartError(f"no function for {op.kind}")
    if any(source.graph.tensors[name].dtype is not DType.S8 for name in (*source.graph.activations(op), op.output)):
        raise NoCounterpartError("not int8")
    return make(op, source)


def _convolution(op: Conv2D, source: Source) -> Call:
    params = f"static const cmsis_nn_conv_params params = {{{_offsets(op)}, {_geometry(op)}, {_clamp(op.clamp)}}};"
    return _window_call("arm_convolve_wrapper_s8", params, source.graph.const(op.inputs[1]).shape, op, source)


def _depthwise(op: DepthwiseConv2D, source: Source) -> Call:
    params = (
        f"static const cmsis_nn_dw_conv_params params = {{{_offsets(op)}, .ch_mult = {op.multiplier}, "
        f"{_geometry(op)}, {_clamp(op.clamp)}}};"
    )
    filters = (1, *source.graph.const(op.inputs[1]).shape)
    return _window_call("arm_depthwise_conv_wrapper_s8", params, filters, op, source)


def _window_call(
    function: str, params: str, filters: Sequence[int], op: Conv2D | DepthwiseConv2D, source: Source
) -> Call:
    outputs = source.graph.tensors[op.output].hwc[2]
    definitions = [
        params,
        f"static const cmsis_nn_per_channel_quant_params quant = {_scales(op.requant, outputs, source.blob)};",
        *_map_dims(op, source.graph),
        _dims("filter", *filters),
        _dims("bias", 1, 1, 1, outputs),
    ]
    data = _operands(op, source)
    call = f"{function}(&scratch, &params, &quant, &in, {data[0]}, &filter, {data[1]}, &bias, {data[2]}, &out, output)"
    return Call(definitions, f"{function}_get_buffer_size(&params, &in, &filter, &out)", call)


def _fully_connected(op: FullyConnected, source: Source) -> Call:
    outputs, depth = source.graph.const(op.inputs[1]).shape
    per_channel = len(op.requant) > 1
    scales = _scales(op.requant, outputs if per_channel else 1, source.blob).rstrip("}")
    data = _operands(op, source)
    definitions = [
        f"static const cmsis_nn_fc_params params = {{{_offsets(op)}, .filter_offset = 0, {_clamp(op.clamp)}}};",
        f"static const cmsis_nn_quant_params quant = {scales}, .is_per_channel = {int(per_channel)}}};",
        _dims("in", 1, 1, 1, depth),
        _dims("filter", depth, 1, 1, outputs),
        _dims("bias", 1, 1, 1, outputs),
        _dims("out", 1, 1, 1, outputs),
    ]
    sums = f"arm_vector_sum_s8(scratch.buf, {depth}, {outputs}, {data[1]}, {-op.in_zero}, 0, {data[2]});"
    return Call(
        definitions,
        "arm_fully_connected_s8_get_buffer_size(&filter)",
        f"arm_fully_connected_wrapper_s8(&scratch, &params, &quant, &in, {data[0]}, &filter, {data[1]}, &bias, "
        f"{data[2]}, &out, output)",
        ("if (scratch.size != 0) {", f"\t(void){sums}", "}"),
    )


def _max_pool(op: MaxPool2D, source: Source) -> Call:
    return _pool_call("arm_max_pool_s8", "0", op, op.kernel, op.stride, op.padding, op.clamp, source)


def _avg_pool(op: AvgPool2D, source: Source) -> Call:
    if op.requant is not None or op.count_padding:
        raise NoCounterpartError("an average that is scaled")
    return _average(op, op.kernel, op.stride, op.padding, op.clamp, source)


def _mean(op: Mean, source: Source) -> Call:
    if op.requant is not None:
        raise NoCounterpartError("a mean that is scaled")
    kernel = source.graph.tensors[op.inputs[0]].hwc[:2]
    return _average(op, kernel, kernel, Padding(), op.clamp, source)


def _average(
    op: Op, kernel: tuple[int, int], stride: tuple[int, int], padding: Padding, clamp: Clamp, source: Source
) -> Call:
    _, width, channels = source.graph.tensors[op.output].hwc
    scratch = f"arm_avgpool_s8_get_buffer_size({width}, {channels})"
    return _pool_call("arm_avgpool_s8", scratch, op, kernel, stride, padding, clamp, source)


def _pool_call(
    function: str,
    scratch: str,
    op: Op,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: Padding,
    clamp: Clamp,
    source: Source,
) -> Call:
    channels = source.graph.tensors[op.inputs[0]].hwc[2]
    geometry = f"{_tile('stride', stride)}, {_tile('padding', _pad(padding))}"
    definitions = [
        f"static const cmsis_nn_pool_params params = {{{geometry}, {_clamp(clamp)}}};",
        *_map_dims(op, source.graph),
        _dims("filter", 1, *kernel, channels),
    ]
    data = _operands(op, source)
    return Call(definitions, scratch, f"{function}(&scratch, &params, &in, {data[0]}, &filter, &out, output)")


def _add(op: Add, source: Source) -> Call:
    if op.out is None or op.subtract or source.graph.is_const(op.inputs[1]):
        raise NoCounterpartError("not an addition of two maps")
    _rounding(op.out)
    data = _operands(op, source)
    sides = [f"{-zero}, {_scale(scale)}" for zero, scale in ((op.lhs_zero, op.lhs), (op.rhs_zero, op.rhs))]
    call = (
        f"arm_elementwise_add_s8({data[0]}, {data[1]}, {sides[0]}, {sides[1]}, {op.left_shift}, output, {op.out_zero}, "
        f"{_scale(op.out)}, {op.clamp.lo}, {op.clamp.hi}, {source.graph.tensors[op.output].elements})"
    )
    return Call([], "0", call)


def _softmax(op: Softmax, source: Source) -> Call:
    quant = source.graph.tensors[op.inputs[0]].quant
    if op.rounding is not Rounding.TFLITE or quant is None:
        raise NoCounterpartError(f"rounding {op.rounding.value}")
    fraction_bits = 31 - SOFTMAX_INTEGER_BITS
    mantissa, exponent = math.frexp(min(quant.scale[0] * (1 << fraction_bits), 2**31 - 1))  # beta is 1, or bits differ
    multiplier = round(mantissa * (1 << 31))
    if multiplier == 1 << 31:
        multiplier, exponent = multiplier // 2, exponent + 1
    least = -(((1 << SOFTMAX_INTEGER_BITS) - 1 << fraction_bits) >> exponent)
    row = source.graph.tensors[op.inputs[0]].shape[-1]
    rows = source.graph.tensors[op.inputs[0]].elements // row
    data = _operands(op, source)
    return Call([], "0", f"(arm_softmax_s8({data[0]}, {rows}, {row}, {multiplier}, {exponent}, {least}, output), 0)")


MAKERS: dict[type[Op], Callable[..., Call]] = {
    Conv2D: _convolution,
    DepthwiseConv2D: _depthwise,
    FullyConnected: _fully_connected,
    MaxPool2D: _max_pool,
    AvgPool2D: _avg_pool,
    Mean: _mean,
    Add: _add,
    Softmax: _softmax,
}


def _operands(op: Op, source: Source) -> list[str]:
    types = {DType.S8: "const int8_t", DType.S32: "const int32_t"}
    found = []
    for name in op.inputs:
        data = source.graph.const(name) if source.graph.is_const(name) else source.values[name]
        found.append(source.blob.add(data, types[source.graph.tensors[name].dtype]))
    return found


def _rounding(requant: Requant) -> None:
    if requant.rounding is not Rounding.TFLITE:
        raise NoCounterpartError(f"rounding {requant.rounding.value}")


def _scale(requant: Requant) -> str:
    return f"{requant.multiplier[0]}, {requant.shift[0]}"


def _scales(requant: Requant, channels: int, blob: Blob) -> str:
    _rounding(requant)
    parts = [
        blob.add(np.broadcast_to(np.asarray(values, np.int32), channels), "int32_t")
        for values in (requant.multiplier, requant.shift)
    ]
    return f"{{.multiplier = {parts[0]}, .shift = {parts[1]}}}"


def _offsets(op: Conv2D | DepthwiseConv2D | FullyConnected) -> str:
    return f".input_offset = {-op.in_zero}, .output_offset = {op.out_zero}"


def _pad(padding: Padding) -> tuple[int, int]:
    return padding.top, padding.left


def _geometry(op: Conv2D | DepthwiseConv2D) -> str:
    return f"{_tile('stride', op.stride)}, {_tile('padding', _pad(op.padding))}, {_tile('dilation', op.dilation)}"


def _tile(name: str, size: tuple[int, int]) -> str:
    return f".{name} = {{.h = {size[0]}, .w = {size[1]}}}"


def _clamp(clamp: Clamp) -> str:
    return f".activation = {{.min = {clamp.lo}, .max = {clamp.hi}}}"


def _map_dims(op: Op, graph: Graph) -> list[str]:
    return [
        _dims("in", 1, *graph.tensors[op.inputs[0]].hwc),
        _dims("out", 1, *graph.tensors[op.output].hwc),
    ]


def _dims(name: str, *nhwc: int) -> str:
    return f"static const cmsis_nn_dims {name} = {{{', '.join(map(str, nhwc))}}};"


# The program


@dataclass
class Program:
    """The layers of a network that CMSIS-NN computes, in C."""

    calls: dict[int, Call] = field(default_factory=dict)  # by index of the step
    expected: dict[int, Array] = field(default_factory=dict)  # the oracle's outputs
    missing: dict[int, str] = field(default_factory=dict)  # why a layer has no call
    blob: Blob = field(default_factory=Blob)

    def text(self, blob_path: Path) -> str:
        """layers.h, see compare_cmsis_nn.c."""
        largest = max(array.size for array in self.expected.values())
        parts = [
            f"#define N_LAYERS {len(self.calls)}",
            _embedded(blob_path),
            f"static int8_t output[{largest}] __attribute__((aligned({ALIGNMENT})));",
        ]
        parts += [_function(index, call) for index, call in self.calls.items()]
        rows = [f"\t{{layer_{index}, {expected.size}U}},\n" for index, expected in self.expected.items()]
        parts.append(f"static const struct layer layers[N_LAYERS] = {{\n{''.join(rows)}}};")
        return "\n\n".join(parts) + "\n"


def _embedded(path: Path) -> str:
    """The file as the array `blob`."""
    lines = ('.section .rodata.blob, \\"a\\"', f".balign {ALIGNMENT}", ".global blob", "blob:", f'.incbin \\"{path}\\"',
             ".text")  # fmt: skip
    return "__asm__(" + "\n\t".join(f'"{line}\\n"' for line in lines) + ");"


def _function(index: int, call: Call) -> str:
    lines = [
        *call.definitions,
        "",
        "if (prepare) {",
        f"\tset_scratch({call.scratch});",
        *(f"\t{line}" for line in call.prepare),
        "\treturn 0;",
        "}",
        f"return {call.call};",
    ]
    body = "".join(f"\t{line}\n" if line else "\n" for line in lines)
    return f"static int32_t layer_{index}(int prepare)\n{{\n{body}}}"


def make_program(compiled: Compiled) -> Program:
    """The program for a network whose steps are on their own."""
    program = Program()
    values = evaluate_all(compiled.graph, layer_inputs(compiled))
    source = Source(compiled.graph, values, program.blob)
    for index, step in enumerate(compiled.steps):
        try:
            program.calls[index] = layer_call(step.op, source)
        except NoCounterpartError as error:
            program.missing[index] = str(error)
        else:
            program.expected[index] = values[step.op.output]
    return program


def build_library(sources: Path, core: Core, opt: str, folder: Path) -> Path:
    """Compiles the integer functions of CMSIS-NN into an archive in `folder`."""
    folder.mkdir(parents=True)
    files = [
        path
        for part in FOLDERS
        for path in sorted((sources / "Source" / f"{part}Functions").glob("*.c"))
        if not path.stem.endswith(FLOAT)
    ]
    toolchain = find_toolchain()
    flags = [*core.gcc, "-std=c11", opt, "-ffunction-sections", "-fdata-sections", f"-I{sources / 'Include'}", "-c"]
    objects = [folder / f"{path.stem}.o" for path in files]
    for command in (
        [toolchain.gcc, *flags, *files],
        [toolchain.tool("ar"), "rcs", folder / ARCHIVE, *objects],
    ):
        done = subprocess.run([str(x) for x in command], cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise UserError(
                f"CMSIS-NN does not build for {core.name} at {opt}:\n{done.stderr[:2000]}",
                place=str(sources),
                hint="check out its branch main",
            )
    return folder / ARCHIVE


@dataclass(frozen=True)
class Counted:
    """One layer at one optimisation level."""

    instructions: int
    status: int  # of CMSIS-NN; 0 is success
    scratch_bytes: int
    equal: bool  # to the oracle, every bit


def run_program(
    program: Program, core: Core, opt: str, library: Path, sources: Path, folder: Path
) -> tuple[dict[int, Counted], int]:
    """Builds and runs; (counts by index of the step, bytes of CMSIS-NN's code and constants in the image)."""
    folder.mkdir(parents=True)
    blob_path = folder.resolve() / "blob.bin"
    blob_path.write_bytes(program.blob.data)
    (folder / "layers.h").write_text(program.text(blob_path))
    image = compile_and_link(
        [Path(__file__).with_suffix(".c")],
        core,
        out_dir=folder,
        cflags=[opt],
        include_dirs=[folder, sources / "Include"],
        libraries=[library],
    )
    execute(image, folder)
    count = len(program.calls)
    words = np.frombuffer((folder / "result.bin").read_bytes(), "<u4").astype(np.int64).reshape(-1, 2)
    instructions = count_instructions(words[: 3 + count], image.machine, f"CMSIS-NN on {core.name}")
    facts = words[3 + count :].astype(np.int32)
    outputs, at = (folder / "outputs.bin").read_bytes(), 0
    found = {}
    for row, (index, expected) in enumerate(program.expected.items()):
        got = outputs[at : at + expected.size]
        at += expected.size
        status, scratch = (int(x) for x in facts[row])
        found[index] = Counted(int(instructions[row]), status, scratch, got == expected.astype(np.int8).tobytes())
    code = sum(piece.size for piece in image.read().pieces if piece.archive == ARCHIVE)
    return found, code


# The comparison


@dataclass(frozen=True)
class Row:
    """One layer of a network on a core."""

    name: str
    kind: str
    macs: int
    ours: int  # instructions
    theirs: dict[str, Counted]  # by optimisation level; empty where there is no counterpart
    note: str = ""

    @property
    def compared(self) -> bool:
        """Whether CMSIS-NN computed the layer at every level."""
        return bool(self.theirs) and all(found.status == 0 for found in self.theirs.values())

    @property
    def least(self) -> int:
        """CMSIS-NN's fewest instructions; only for a layer that is compared."""
        return min(found.instructions for found in self.theirs.values())

    @property
    def bits(self) -> str:
        """Whether CMSIS-NN gave the oracle's bits."""
        if not self.theirs:
            return ""
        return "equal" if all(found.equal for found in self.theirs.values()) else "DIFFER"


@dataclass(frozen=True)
class Comparison:
    """A network on a core."""

    network: str
    core: Core
    toolchain: str
    rows: tuple[Row, ...]
    code_bytes: dict[str, int]  # of CMSIS-NN in the image, by optimisation level

    @property
    def compared(self) -> list[Row]:
        """The layers that both compute."""
        return [row for row in self.rows if row.compared]

    def totals(self) -> dict[str, Any]:
        """Sums over the layers that both compute."""
        rows = self.compared
        ours, least = sum(row.ours for row in rows), sum(row.least for row in rows)
        best = sum(min(row.ours, row.least) for row in rows)
        return {
            "layers": len(self.rows),
            "compared": len(rows),
            "macs": sum(row.macs for row in rows),
            "mcufuse": ours,
            "cmsis_nn": {opt: sum(row.theirs[opt].instructions for row in rows) for opt in self.code_bytes},
            "cmsis_nn_least": least,
            "cmsis_nn_wins": sum(row.least < row.ours for row in rows),
            "better_of_both": best,
            "cmsis_nn_code_bytes": self.code_bytes,
            "bits_equal": sum(row.bits == "equal" for row in rows),
        }

    def as_json(self) -> dict[str, Any]:
        """For tools."""
        rows = [
            {
                "name": row.name,
                "kind": row.kind,
                "macs": row.macs,
                "mcufuse": row.ours,
                "cmsis_nn": {
                    opt: {"instructions": c.instructions, "status": c.status, "scratch_bytes": c.scratch_bytes,
                          "equal": c.equal}
                    for opt, c in row.theirs.items()
                },
                "note": row.note,
            }
            for row in self.rows
        ]  # fmt: skip
        return {"network": self.network, "core": self.core.name, "toolchain": self.toolchain, "totals": self.totals(),
                "layers": rows}  # fmt: skip


def compare(
    compiled: Compiled, ours: Layers, core: Core, libraries: dict[str, Path], sources: Path, folder: Path
) -> Comparison:
    """Runs CMSIS-NN at each optimisation level of `libraries` and puts it beside `ours`."""
    program = make_program(compiled)
    theirs: dict[str, dict[int, Counted]] = {}
    code: dict[str, int] = {}
    for opt, library in libraries.items() if program.calls else ():
        theirs[opt], code[opt] = run_program(program, core, opt, library, sources, folder / opt.strip("-"))
    rows = []
    for index, (step, layer) in enumerate(zip(compiled.steps, ours.layers, strict=True)):
        found = {opt: counts[index] for opt, counts in theirs.items() if index in counts}
        failed = sorted({c.status for c in found.values()} - {0})
        note = program.missing.get(index, f"CMSIS-NN refuses it, status {failed[0]}" if failed else "")
        rows.append(Row(layer.name, step.op.kind, layer.macs, layer.instructions, found, note))
    return Comparison(ours.name, core, ours.toolchain, tuple(rows), code)


def _layer_block(found: Comparison) -> Block:
    opts = list(found.code_bytes)
    rows = []
    for row in found.rows:
        counts = [f"{row.theirs[opt].instructions:,}" if opt in row.theirs else "" for opt in opts]
        ratio = f"{row.least / row.ours:.2f}" if row.compared else ""
        scratch = f"{max(c.scratch_bytes for c in row.theirs.values()):,}" if row.theirs else ""
        macs = f"{row.macs:,}" if row.macs else ""
        rows.append((row.name, row.kind, macs, *counts, f"{row.ours:,}", ratio, scratch, row.note or row.bits))
    headings = ("layer", "operator", ">MACs", *(f">CMSIS-NN {opt}" for opt in opts), ">mcufuse", ">ratio", ">scratch",
                "bits")  # fmt: skip
    block = Block(f"{found.network} on {found.core.name}: instructions of each layer")
    block.lines.append(f"{found.toolchain}; ratio: CMSIS-NN's fewest to mcufuse's; scratch: bytes, of CMSIS-NN")
    block.table = Table(headings, tuple(rows))
    return block


def _total_block(all_found: Sequence[Comparison], opts: Sequence[str], version: str) -> Block:
    rows = []
    for found in all_found:
        t = found.totals()
        if not t["compared"]:
            continue
        gain = 1 - t["better_of_both"] / t["mcufuse"]
        rows.append(
            (
                found.network, found.core.name, f"{t['compared']} of {t['layers']}", f"{t['macs']:,}",
                *(f"{t['cmsis_nn'][opt]:,}" for opt in opts), f"{t['mcufuse']:,}",
                f"{t['cmsis_nn_least'] / t['mcufuse']:.2f}", str(t["cmsis_nn_wins"]), f"{gain:.1%}",
                *(f"{t['cmsis_nn_code_bytes'][opt]:,}" for opt in opts), f"{t['bits_equal']} of {t['compared']}",
            )
        )  # fmt: skip
    headings = (
        "network", "core", "layers", ">MACs", *(f">CMSIS-NN {opt}" for opt in opts), ">mcufuse", ">ratio", ">wins",
        ">gain", *(f">code {opt}" for opt in opts), "bits equal",
    )  # fmt: skip
    block = Block("totals of the layers that both compute")
    block.lines += [
        f"CMSIS-NN {version or 'of an unknown version'}, {all_found[0].toolchain}",
        "wins: layers where CMSIS-NN needs fewer instructions; gain: what the better of both in each layer would save",
        "code: bytes of CMSIS-NN's functions and constants in the image, without weights",
    ]
    block.table = Table(headings, tuple(rows))
    return block


def version_of(sources: Path) -> str:
    """What git calls the checkout, "" when it cannot tell."""
    command = ["git", "-C", str(sources), "describe", "--tags", "--always"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()


def check_sources(sources: Path | None) -> Path:
    """The checkout of CMSIS-NN; raises `UserError` that says how to get it."""
    hint = f"git clone {URL}, then name its directory: --cmsis-nn CMSIS-NN"
    if sources is None:
        raise UserError("this comparison needs the sources of CMSIS-NN, which are no part of mcufuse", hint=hint)
    if not (sources / "Include" / "arm_nnfunctions.h").is_file():
        raise UserError("there is no Include/arm_nnfunctions.h in it", place=f"--cmsis-nn {sources}", hint=hint)
    return sources.resolve()


def _run(args: argparse.Namespace) -> int:
    sources = check_sources(args.cmsis_nn)
    configs = [load_config(path) for path in args.models]
    cores = [core_by_name(name) for name in args.core or CORES]
    opts = tuple(f"-{opt.removeprefix('-')}" for opt in args.opt) if args.opt else OPTS
    found = []
    with make_progress(quiet=args.quiet) as progress, tempfile.TemporaryDirectory(prefix="mcufuse-") as temporary:
        for core in cores:
            folder = Path(temporary) / core.name
            libraries = {}
            for opt in opts:
                progress(f"compiling CMSIS-NN for {core.name} at {opt}")
                libraries[opt] = build_library(sources, core, opt, folder / f"library{opt}")
            for i, config in enumerate(configs):
                progress(f"{config.name} on {core.name}")
                compiled, ours = compile_alone(config, core), measure_layers(config, core)
                found.append(compare(compiled, ours, core, libraries, sources, folder / f"network-{i}"))
    found.sort(key=lambda f: [config.name for config in configs].index(f.network))
    if args.json:
        print(json.dumps([comparison.as_json() for comparison in found], indent=2))
    else:
        blocks = [] if args.totals else [_layer_block(comparison) for comparison in found]
        show_blocks([*blocks, _total_block(found, opts, version_of(sources))])
    return EXIT_OK


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: compare_cmsis_nn.py --cmsis-nn ../CMSIS-NN --core cortex-m4 kws_int8.tflite",
    )
    parser.add_argument("models", metavar="MODEL", type=Path, nargs="+", help="YAML, .tflite or .onnx files")
    parser.add_argument("--cmsis-nn", metavar="DIR", type=Path, help=f"checkout of {URL}")
    parser.add_argument(
        "--core", metavar="CORE", action="append", help=f"may be given more than once; default: {', '.join(CORES)}"
    )
    parser.add_argument(
        "--opt", metavar="LEVEL", action="append", help="of CMSIS-NN: O2, Ofast, ...; default: O2 and Ofast"
    )
    parser.add_argument("--totals", action="store_true", help="only the table of totals")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("-q", "--quiet", action="store_true", help="say nothing about progress")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0, or 1 for what is missing or wrong."""
    args = make_parser().parse_args(argv)
    return guarded(lambda: _run(args), sys.argv[1:] if argv is None else argv)


if __name__ == "__main__":
    sys.exit(main())
