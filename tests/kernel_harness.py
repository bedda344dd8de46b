# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Runs kernels' C on the host, row by row, in every way that a plan may call them, and compares with the oracle.

Each way to lower an operator is run in several modes:

    whole     operands are whole maps, the output is a whole map
    ring      each operand stands in a ring with just the rows that the tick may read, everything else is poison,
              all rows at odd addresses (float rows: 4-aligned); the output is one row
    shifted   as inplace, but the output row begins a few bytes before the operand's row, as the planner may put it
    inplace   as ring, but the output row stands where operand i's row stands, for each i that `RowPlan.in_place` allows

Around every buffer there are guard bytes (with `sanitize`, none: AddressSanitizer watches the exact sizes); operands
must be unchanged after each call; scratch is poisoned before each tick, state before the first one only.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mcufuse.emit.ctext import array_definition, array_key, struct_initializer
from mcufuse.ir import DType, Graph, Op, Tensor
from mcufuse.kernels import kernel_of
from mcufuse.kernels.base import CArray, Indexed, LowerContext, Lowered, Refusal, Whole, Window
from mcufuse.oracle import evaluate_op
from mcufuse.target import core_by_name

__all__ = [
    "PRELUDE", "RUNNERS", "Case", "Result", "align_of", "check_cases", "modes", "run_cases", "run_op",
    "single_op_graph",
]  # fmt: skip

Array = npt.NDArray[Any]
INCLUDE = Path(__file__).resolve().parents[1] / "firmware" / "include"


@dataclass(frozen=True)
class Case:
    """One operator with its activation operands (in the order of `graph.activations(op)`)."""

    graph: Graph
    op: Op
    inputs: tuple[Array, ...]


@dataclass(frozen=True)
class Result:
    function: str
    mode: str
    output: Array


def single_op_graph(op: Op, operands: Sequence[Tensor], output: Tensor) -> Graph:
    """A graph of one operator; constant operands hold their data."""
    tensors = {t.name: t for t in (*operands, output)}
    inputs = tuple(dict.fromkeys(t.name for t in operands if t.data is None))
    return Graph("test", tensors, (op,), inputs, (output.name,))


def run_op(
    graph: Graph, op: Op, inputs: Sequence[Array], *, core: str = "cortex-m3", opt: str = "-O2", sanitize: bool = False
) -> Array:
    """The output of the first lowering; all lowerings and modes are checked against the oracle."""
    case = Case(graph, op, tuple(inputs))
    results = check_cases([case], core=core, opt=opt, sanitize=sanitize)
    return results[0][0].output


def check_cases(
    cases: Sequence[Case], *, core: str = "cortex-m3", opt: str = "-O2", sanitize: bool = False, only: str = ""
) -> list[list[Result]]:
    """Runs the cases in one program; asserts that every lowering in every mode equals the oracle.

    `only`: just the C functions whose name ends so.
    """
    all_results = run_cases(cases, core=core, opt=opt, sanitize=sanitize, only=only)
    compare(cases, all_results, opt)
    return all_results


def compare(cases: Sequence[Case], all_results: Sequence[Sequence[Result]], opt: str) -> None:
    """Asserts that every result equals the oracle."""
    for index, (case, results) in enumerate(zip(cases, all_results, strict=True)):
        expected = oracle_of(case)
        assert results, f"case {index}: nothing ran for {case.op}"
        for result in results:
            wrong = np.flatnonzero(result.output.ravel() != expected.ravel())
            assert wrong.size == 0, (
                f"case {index}, {result.function}, {result.mode}, {opt}: {wrong.size} of {expected.size} differ, "
                f"first at {wrong[0]}: got {result.output.ravel()[wrong[0]]}, expected {expected.ravel()[wrong[0]]}\n"
                f"{case.op}\ninputs {[i.shape for i in case.inputs]}"
            )


def oracle_of(case: Case) -> Array:
    """The operator's output by its `evaluate`."""
    names = case.graph.activations(case.op)
    return evaluate_op(case.op, case.graph, dict(zip(names, case.inputs, strict=True)))


def lowerings(case: Case, core: str, only: str = "") -> list[Lowered]:
    """All ways to run the case whose function's name ends with `only`; at least one."""
    ways = kernel_of(case.op).lower(case.op, LowerContext(case.graph, core_by_name(core)))
    lowered = [way for way in ways if isinstance(way, Lowered) and way.function.endswith(only)]
    assert lowered, f"refused: {[way.reason for way in ways if isinstance(way, Refusal)]}"
    return lowered


def run_cases(
    cases: Sequence[Case], *, core: str = "cortex-m3", opt: str = "-O2", sanitize: bool = False, only: str = ""
) -> list[list[Result]]:
    """Builds one program for all cases, runs it and returns each case's results."""
    ways = [lowerings(case, core, only) for case in cases]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "cases.c"
        program = Path(folder) / "cases"
        source.write_text(program_text(cases, ways))
        flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-Wno-unused-function", opt, "-g0"]
        if sanitize:
            flags += ["-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-DGUARD=0"]
        compiler = os.environ.get("HOSTCC", "gcc")
        build = subprocess.run(
            [compiler, *flags, f"-I{INCLUDE}", str(source), "-o", str(program)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert build.returncode == 0, build.stderr[:6000]
        run = subprocess.run([str(program)], input=input_bytes(cases), capture_output=True, timeout=300, check=False)
        assert run.returncode == 0, run.stderr.decode(errors="replace")[:6000]
    return split(cases, ways, run.stdout)


def input_bytes(cases: Sequence[Case]) -> bytes:
    """What the program reads."""
    return b"".join(np.ascontiguousarray(array).tobytes() for case in cases for array in case.inputs)


def modes(lowered: Lowered) -> list[str]:
    in_place = [f"inplace{i}" for i, allowed in enumerate(lowered.rows.in_place) if allowed]
    shifted = [mode.replace("inplace", "shifted") for mode in in_place]
    return ["whole", "ring", *(mode for pair in zip(in_place, shifted, strict=True) for mode in pair)]


def split(cases: Sequence[Case], ways: Sequence[Sequence[Lowered]], data: bytes) -> list[list[Result]]:
    results: list[list[Result]] = []
    at = 0
    for case, lowered in zip(cases, ways, strict=True):
        out = case.graph.tensors[case.op.output]
        mine = []
        for way in lowered:
            for mode in modes(way):
                array = np.frombuffer(data, np.dtype(out.dtype.value), out.elements, at).reshape(out.shape)
                mine.append(Result(way.function, mode, array))
                at += out.bytes
        results.append(mine)
    assert at == len(data)
    return results


def program_text(cases: Sequence[Case], ways: Sequence[Sequence[Lowered]]) -> str:
    headers = sorted({way.header for lowered in ways for way in lowered})
    parts = [PRELUDE, *(f'#include "{header}"\n' for header in headers)]
    arrays: dict[tuple[str, bytes], str] = {}
    entries: list[str] = []
    for index, (case, lowered) in enumerate(zip(cases, ways, strict=True)):
        for number, way in enumerate(lowered):
            parts.append(_variant(case, way, f"c{index}_{number}", index, arrays))
            entries.append(f"&c{index}_{number}")
    sizes = [array.nbytes for case in cases for array in case.inputs]
    counts = [len(case.inputs) for case in cases]
    parts.append(f"static const struct variant *const variants[] = {{{', '.join(entries)}}};\n")
    parts.append(f"static const long input_bytes[] = {{{', '.join(map(str, sizes)) or '0'}}};\n")
    parts.append(f"static const int input_count[] = {{{', '.join(map(str, counts))}}};\n")
    parts += [RUNNERS, _MAIN]
    return "".join(parts)


def _variant(case: Case, way: Lowered, name: str, index: int, arrays: dict[tuple[str, bytes], str]) -> str:
    text = ""
    for struct in (way.cfg, way.data):
        for _, value in struct.fields:
            if isinstance(value, CArray) and array_key(value) not in arrays:
                arrays[array_key(value)] = f"a{len(arrays)}"
                text += array_definition(arrays[array_key(value)], value)
    for kind, struct in (("cfg", way.cfg), ("data", way.data)):
        text += f"static const struct {struct.type} {name}_{kind} = {struct_initializer(struct, arrays)};\n"
    text += (
        f"static void {name}_tick(const int8_t *const *in, int8_t *out, int tick, void *scratch)\n{{\n"
        f"\t{way.function}(&{name}_cfg, &{name}_data, in, out, tick, scratch);\n}}\n"
    )
    names = case.graph.activations(case.op)
    assert len(way.rows.reads) == len(names), f"{way.function}: one access for each activation operand"
    assert len(way.rows.in_place) in (0, len(names))
    operands = []
    for i, (operand, access) in enumerate(zip(names, way.rows.reads, strict=True)):
        tensor = case.graph.tensors[operand]
        height, _, _ = tensor.hwc
        fields = f".height = {height}, .row_bytes = {tensor.row_bytes}, .align = {align_of(tensor)}"
        if isinstance(access, Window):
            fields += f", .kind = WINDOW, .stride = {access.stride}, .offset = {access.offset}"
            fields += f", .count = {access.count}, .step = {access.step}"
        elif isinstance(access, Indexed):
            assert len(access.index) == way.rows.ticks
            text += f"static const int {name}_i{i}[] = {{{', '.join(map(str, access.index))}}};\n"
            fields += f", .kind = INDEXED, .count = 1, .index = {name}_i{i}"
        else:
            assert isinstance(access, Whole)
            fields += ", .kind = WHOLE, .count = 1"
        if way.rows.in_place and way.rows.in_place[i]:
            fields += ", .in_place = 1"
        operands.append(f"{{{fields}}}")
    out = case.graph.tensors[case.op.output]
    memory = way.state_bytes or way.scratch_bytes
    text += (
        f'static const struct variant {name} = {{.name = "{way.function}", .index = {index}, .tick = {name}_tick,'
        f" .ticks = {way.rows.ticks}, .at_end = {int(way.rows.writes.at_end)}, .out_bytes = {out.bytes},"
        f" .out_row = {out.row_bytes}, .out_align = {align_of(out)}, .memory = {memory},"
        f" .state = {int(way.state_bytes > 0)}, .operands = {len(operands)}, .operand = {{{', '.join(operands)}}}}};\n"
    )
    return text


def align_of(tensor: Tensor) -> int:
    return 4 if tensor.dtype in (DType.F32, DType.S32) else 1


PRELUDE = """\
#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>
#include <string.h>
#define MF_WEIGHTS
#ifndef GUARD
#define GUARD 64
#endif
enum kind { WINDOW, INDEXED, WHOLE };
struct operand {
	enum kind kind;
	int height, stride, offset, count, step, in_place, align;
	long row_bytes;
	const int *index;
};
struct variant {
	const char *name;
	int index, ticks, at_end, operands, out_align, state;
	long out_bytes, out_row, memory;
	void (*tick)(const int8_t *const *in, int8_t *out, int tick, void *scratch);
	struct operand operand[16];
};
"""

RUNNERS = """\
#define POISON 0x5a
/* takes the next bytes of a variant's output */
static void emit(const int8_t *at, long bytes);

struct block {
	uint8_t *base;
	int8_t *at;
	long bytes, lead;
};

static void fail(const struct variant *v, const char *mode, int tick, const char *what)
{
	fprintf(stderr, "case %d, %s, %s, tick %d: %s\\n", v->index, v->name, mode, tick, what);
	exit(1);
}

/* bytes of memory between guards; address = skew modulo 8 */
static struct block block_new(long bytes, long skew)
{
	struct block b = {.bytes = bytes, .lead = GUARD + skew};

	b.base = malloc(b.lead + bytes + GUARD + (bytes + GUARD + skew == 0));
	memset(b.base, 0xc3, b.lead + bytes + GUARD);
	b.at = (int8_t *)b.base + b.lead;
	memset(b.at, POISON, bytes);
	return b;
}

static int block_intact(const struct block *b)
{
	for (long i = 0; i < b->lead; i++) {
		if (b->base[i] != 0xc3) {
			return 0;
		}
	}
	for (long i = 0; i < GUARD; i++) {
		if (b->base[b->lead + b->bytes + i] != 0xc3) {
			return 0;
		}
	}
	return 1;
}

/* rows that a tick reads: row[i], or -1 */
static int rows_of(const struct operand *o, int tick, int *row)
{
	int n = o->kind == WINDOW ? o->count : 1;

	for (int i = 0; i < n; i++) {
		int r = 0;

		if (o->kind == WINDOW) {
			r = o->stride * tick + o->offset + o->step * i;
		} else if (o->kind == INDEXED) {
			r = o->index[tick];
		}
		row[i] = r >= 0 && r < o->height ? r : -1;
	}
	return n;
}

static int ring_rows(const struct operand *o, int ticks)
{
	int most = 1;
	int row[512];

	if (o->kind == WHOLE) {
		return o->height;
	}
	for (int t = 0; t < ticks; t++) {
		int n = rows_of(o, t, row), low = -1, high = -1;

		for (int i = 0; i < n; i++) {
			if (row[i] >= 0) {
				low = low < 0 || row[i] < low ? row[i] : low;
				high = row[i] > high ? row[i] : high;
			}
		}
		if (high >= 0 && high - low + 1 > most) {
			most = high - low + 1;
		}
	}
	return most;
}

static void run_whole(const struct variant *v, int8_t **input)
{
	struct block in[16], memory = block_new(v->memory, 0), out = block_new(v->out_bytes, 0);

	for (int i = 0; i < v->operands; i++) {
		const struct operand *o = &v->operand[i];

		in[i] = block_new(o->height * o->row_bytes, 0);
		memcpy(in[i].at, input[i], in[i].bytes);
	}
	for (int t = 0; t < v->ticks; t++) {
		const int8_t *pointer[1024];
		int n = 0, row[512];

		for (int i = 0; i < v->operands; i++) {
			int count = rows_of(&v->operand[i], t, row);

			for (int k = 0; k < count; k++) {
				pointer[n++] = row[k] < 0 ? NULL : in[i].at + row[k] * v->operand[i].row_bytes;
			}
		}
		if (!v->state || t == 0) {
			memset(memory.at, POISON, memory.bytes);
		}
		v->tick(pointer, out.at + (v->at_end ? 0 : t * v->out_row), t, memory.at);
		if (!block_intact(&memory) || !block_intact(&out)) {
			fail(v, "whole", t, "wrote outside the output or the scratch");
		}
		for (int i = 0; i < v->operands; i++) {
			if (!block_intact(&in[i]) || memcmp(in[i].at, input[i], in[i].bytes) != 0) {
				fail(v, "whole", t, "changed an operand");
			}
		}
	}
	emit(out.at, out.bytes);
	for (int i = 0; i < v->operands; i++) {
		free(in[i].base);
	}
	free(memory.base);
	free(out.base);
}

/* rows in rings of just the size they need; over >= 0: the output stands in that operand's row */
static void run_ring(const struct variant *v, int8_t **input, int over)
{
	struct block in[16], copy[16], memory = block_new(v->memory, 0);
	struct block out = block_new(v->out_row, v->out_align == 1 ? 1 : 0);
	const char *mode = over < 0 ? "ring" : "inplace";
	int slots[16];

	for (int i = 0; i < v->operands; i++) {
		const struct operand *o = &v->operand[i];

		slots[i] = ring_rows(o, v->ticks);
		in[i] = block_new(slots[i] * o->row_bytes, o->align == 1 ? 1 + i % 4 : 0);
		copy[i] = block_new(slots[i] * o->row_bytes, 0);
	}
	for (int t = 0; t < v->ticks; t++) {
		const int8_t *pointer[1024];
		int8_t *target = out.at;
		int n = 0, row[512];

		for (int i = 0; i < v->operands; i++) {
			const struct operand *o = &v->operand[i];
			int count = rows_of(o, t, row);

			memset(in[i].at, POISON, in[i].bytes);
			if (o->kind == WHOLE) {
				memcpy(in[i].at, input[i], in[i].bytes);
			}
			for (int k = 0; k < count; k++) {
				int8_t *slot = in[i].at + (row[k] < 0 ? 0 : row[k] % slots[i]) * o->row_bytes;

				if (row[k] >= 0 && o->kind != WHOLE) {
					memcpy(slot, input[i] + row[k] * o->row_bytes, o->row_bytes);
				}
				if (i == over && row[k] >= 0) {
					target = slot;
				}
				pointer[n++] = row[k] < 0 ? NULL : slot;
			}
			memcpy(copy[i].at, in[i].at, in[i].bytes);
		}
		memset(out.at, POISON, out.bytes);
		if (!v->state || t == 0) {
			memset(memory.at, POISON, memory.bytes);
		}
		v->tick(pointer, target, t, memory.at);
		if (!block_intact(&memory) || !block_intact(&out)) {
			fail(v, mode, t, "wrote outside the output or the scratch");
		}
		for (int i = 0; i < v->operands; i++) {
			if (!block_intact(&in[i])) {
				fail(v, mode, t, "wrote outside an operand");
			}
			if (target >= in[i].at && target < in[i].at + in[i].bytes && i == over) {
				long from = target - in[i].at;

				if (from + v->out_row > in[i].bytes) {
					fail(v, mode, t, "in place, but the output is longer than the operand");
				}
				memcpy(copy[i].at + from, target, v->out_row);
			}
			if (memcmp(in[i].at, copy[i].at, in[i].bytes) != 0) {
				fail(v, mode, t, "changed an operand");
			}
		}
		if (!v->at_end || t == v->ticks - 1) {
			emit(target, v->out_row);
		}
	}
	for (int i = 0; i < v->operands; i++) {
		free(in[i].base);
		free(copy[i].base);
	}
	free(memory.base);
	free(out.base);
}

/* the output row begins `shift` bytes before the row of operand `over`, whose end it overwrites */
static void run_shifted(const struct variant *v, int8_t **input, int over)
{
	struct block memory = block_new(v->memory, 0);

	for (int t = 0; t < v->ticks; t++) {
		const long shift = t % 2 == 0 ? 4 : 20;
		const int8_t *pointer[1024];
		const struct operand *o = &v->operand[over];
		struct block both = block_new(o->row_bytes + shift, 0);
		int n = 0, row[512];

		for (int i = 0; i < v->operands; i++) {
			int count = rows_of(&v->operand[i], t, row);

			for (int k = 0; k < count; k++) {
				const int8_t *at = row[k] < 0 ? NULL : input[i] + row[k] * v->operand[i].row_bytes;

				if (i == over && at != NULL) {
					memcpy(both.at + shift, at, o->row_bytes);
					at = both.at + shift;
				}
				pointer[n++] = at;
			}
		}
		memset(memory.at, POISON, memory.bytes);
		v->tick(pointer, both.at, t, memory.at);
		if (!block_intact(&memory) || !block_intact(&both)) {
			fail(v, "shifted", t, "wrote outside the output or the scratch");
		}
		emit(both.at, v->out_row);
		free(both.base);
	}
	free(memory.base);
}

/* all modes, see above */
static void run_modes(const struct variant *v, int8_t **input)
{
	run_whole(v, input);
	run_ring(v, input, -1);
	for (int i = 0; i < v->operands; i++) {
		if (v->operand[i].in_place) {
			run_ring(v, input, i);
			run_shifted(v, input, i);
		}
	}
}
"""

_MAIN = """\
static FILE *source, *sink;

static void emit(const int8_t *at, long bytes)
{
	fwrite(at, 1, bytes, sink);
}

int main(void)
{
	int8_t *input[16] = {NULL};
	int loaded = -1, next = 0;

#ifdef FILES
	source = fopen("input", "rb");
	sink = fopen("output", "wb");
#else
	source = stdin;
	sink = stdout;
#endif
	for (size_t n = 0; n < sizeof(variants) / sizeof(variants[0]); n++) {
		const struct variant *v = variants[n];

		if (v->index != loaded) {
			loaded = v->index;
			for (int i = 0; i < input_count[loaded]; i++) {
				free(input[i]);
				input[i] = malloc(input_bytes[next] + 1);
				if (fread(input[i], 1, input_bytes[next], source) != (size_t)input_bytes[next]) {
					return 2;
				}
				next++;
			}
		}
		run_modes(v, input);
	}
	for (int i = 0; i < 16; i++) {
		free(input[i]);
	}
	fclose(sink);
	return 0;
}
"""


def inputs_of(graph: Graph, op: Op, values: Mapping[str, Array]) -> tuple[Array, ...]:
    """The activation operands in the order that `Case` wants."""
    return tuple(values[name] for name in graph.activations(op))
