#!/usr/bin/env python3
# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Runs every C row function on every core in QEMU, thousands of random operators each, against the oracle.

    PYTHONPATH=generator .venv/bin/python tests/kernel_sweep.py --cases 2000 --core m4 m55 --kernel Conv2D Add

A case is one operator with its own shape, scales, zero points, clamp and weights. Each runs with four inputs (among
them all of one extreme, and extremes by turns) in every mode of `kernel_harness`: between guard bytes, with poisoned
memory, from rings at odd addresses, and in place.

Row functions are made to be compiled for a constant cfg, one operator at a time: seconds for each hundred. Here they
are compiled once with a cfg that the program reads from a file, so that all cases of a core share one program; and
besides (`--constant N`) a part of the cases is compiled the usual way. Row functions are found in firmware/include;
one that no lowering offers, or that gets too few cases, is an error.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from unittest import mock

import numpy as np

from kernel_harness import INCLUDE, PRELUDE, RUNNERS, Array, Case, align_of, modes, oracle_of
from kernel_sweep_cases import MAKERS, input_sets
from kernel_target import build, check_on_target, run
from mcufuse.ir import Add, Op, Rounding
from mcufuse.kernels import KERNELS, kernel_of
from mcufuse.kernels.base import CArray, CStruct, Indexed, LowerContext, Lowered, Whole, Window
from mcufuse.target import CORES, Core, Isa, core_by_name

__all__ = ["Outcome", "offered", "row_functions", "sweep"]

ROW_FUNCTION = re.compile(
    r"\bMF_INLINE void\s+(mf_\w+)\(\s*const struct \w+ \*\w+,\s*const struct \w+ \*\w+,\s*const int8_t \*const \*in,"
    r"\s*int8_t \*out,\s*int tick,\s*void \*\w+\)"
)
# What a function needs is told by the end of its name.
_NEEDS = {"_dsp": (Isa.DSP, Isa.MVE), "_mve": (Isa.MVE,)}

ATTEMPTS = 40
"""Operators that are made for each case asked for, before a function counts as out of reach."""


def row_functions(core: Core) -> set[str]:
    """The row functions of the headers that the core's instructions allow."""
    names = {name for path in INCLUDE.rglob("*.h") for name in ROW_FUNCTION.findall(path.read_text())}
    lacking = [suffix for suffix, isas in _NEEDS.items() if core.isa not in isas]
    return {name for name in names if not name.endswith(tuple(lacking))}


@dataclass
class Layout:
    """The fields of a row function's cfg and data that the program loads, in their order in a record."""

    way: Lowered
    index: int
    names: dict[str, list[str]] = field(default_factory=lambda: {"cfg": [], "data": []})
    kinds: dict[str, str] = field(default_factory=dict)

    def values(self, way: Lowered, arrays: Arrays) -> list[int]:
        """The words of an operator's structs; pointers are offsets into `arrays`, -1 for NULL."""
        words = []
        for member, struct in (("cfg", way.cfg), ("data", way.data)):
            given = dict(struct.fields)
            known = self.names[member]
            known += [name for name in given if name not in known]
            words.append(len(known))
            words += [self._word(f"{member}.{name}", given.get(name, 0), name in given, arrays) for name in known]
        return words

    def _word(self, place: str, value: object, given: bool, arrays: Arrays) -> int:
        if value is None or isinstance(value, CArray):
            kind, word = "pointer", -1 if value is None else arrays.add(value)
        elif isinstance(value, float):
            kind, word = "float", int(np.float32(value).view(np.int32))
        else:
            assert isinstance(value, (int, np.integer)), f"{place}: {value!r} is not a number"
            kind, word = "int", int(value)
        if not given:
            return -1 if self.kinds[place] == "pointer" else 0
        assert self.kinds.setdefault(place, kind) == kind, f"{place} is {kind} and {self.kinds[place]}"
        return word

    def text(self) -> str:
        """C that loads the structs and calls the function."""
        i = self.index
        lines = [f"static struct {self.way.cfg.type} cfg_{i};", f"static struct {self.way.data.type} data_{i};"]
        lines.append(f"static void load_{i}(const int32_t *v, const int8_t *arrays)\n{{\n\tint n;\n")
        for member in ("cfg", "data"):
            lines.append(f"\tmemset(&{member}_{i}, 0, sizeof({member}_{i}));\n\tn = *v++;")
            lines += [f"\tif (n > {at}) {{ {self._load(member, name)} }}" for at, name in enumerate(self.names[member])]
            lines.append("\tv += n;")
        lines.append("\t(void)arrays;\n}")
        lines.append(
            f"static MF_NOINLINE void tick_{i}(const int8_t *const *in, int8_t *out, int tick, void *scratch)\n{{\n"
            f"\tconst struct {self.way.cfg.type} cfg = cfg_{i};\n\tconst struct {self.way.data.type} data = data_{i};\n"
            f"\t{self.way.function}(&cfg, &data, in, out, tick, scratch);\n}}\n"
        )
        return "\n".join(lines)

    def _load(self, member: str, name: str) -> str:
        at, place = self.names[member].index(name), f"{member}_{self.index}.{name}"
        kind = self.kinds[f"{member}.{name}"]
        if kind == "pointer":
            return f"{place} = v[{at}] < 0 ? NULL : (const void *)(arrays + v[{at}]);"
        if kind == "float":
            return f"memcpy(&{place}, v + {at}, 4);"
        return f'{place} = v[{at}]; fits((int32_t){place} == v[{at}], "{place}");'


class Arrays:
    """The constant arrays of a case, one after another, aligned as declared and no better."""

    def __init__(self) -> None:
        self.data = bytearray()

    def add(self, array: CArray) -> int:
        """Where the array stands: 4 modulo 8 if it is aligned to 4. The program aligns the first byte to 16."""
        if array.align >= 8:
            self.data += bytes(-len(self.data) % array.align)
        else:
            self.data += bytes((4 - len(self.data)) % 8)
        at = len(self.data)
        self.data += np.ascontiguousarray(array.values).tobytes()
        return at


def _words(values: Sequence[int]) -> bytes:
    return np.asarray(values, np.int64).astype(np.uint32).tobytes()


def _filled(data: bytes, align: int = 4) -> bytes:
    return data + bytes(-len(data) % align)


def record(case: Case, way: Lowered, layout: Layout, sets: Sequence[tuple[Array, ...]], expected: list[Array]) -> bytes:
    """What the program reads of one case: see `main` in `_PROGRAM`."""
    out = case.graph.tensors[case.op.output]
    names = case.graph.activations(case.op)
    memory = way.state_bytes or way.scratch_bytes
    head = [
        layout.index, way.rows.ticks, int(way.rows.writes.at_end), len(names), align_of(out),
        int(way.state_bytes > 0), out.bytes, out.row_bytes, memory,
    ]  # fmt: skip
    for i, (name, access) in enumerate(zip(names, way.rows.reads, strict=True)):
        tensor = case.graph.tensors[name]
        kind, stride, offset, count, step, index = 2, 0, 0, 1, 0, ()
        if isinstance(access, Window):
            kind, stride, offset, count, step = 0, access.stride, access.offset, access.count, access.step
        elif isinstance(access, Indexed):
            kind, index = 1, access.index
            assert len(index) == way.rows.ticks
        else:
            assert isinstance(access, Whole)
        in_place = int(bool(way.rows.in_place) and way.rows.in_place[i])
        head += [kind, tensor.hwc[0], stride, offset, count, step, in_place, align_of(tensor), tensor.row_bytes, *index]
    arrays = Arrays()
    head += layout.values(way, arrays)
    head += [len(_filled(bytes(arrays.data))), len(sets)]
    data = _words(head)
    data += bytes(-(len(data) + 4) % 16)  # arrays begin at a multiple of 16 of the record, its length included
    data += _filled(bytes(arrays.data))
    for inputs, output in zip(sets, expected, strict=True):
        data += b"".join(_filled(np.ascontiguousarray(a).tobytes()) for a in inputs) + _filled(output.tobytes())
    return _words([len(data)]) + data


_HEADERS = """\
#include <unistd.h>
#include <fcntl.h>
/* shifts are constants of an instruction: here the instruction is chosen when running */
#include "mcufuse/common.h"
#define mf_shift_clamp mf_shift_clamp_constant
#include "mcufuse/simd.h"
#undef mf_shift_clamp
#define ONE(s)  case s: return mf_shift_clamp_constant(x, s, lo, hi);
#define FOUR(s) ONE(s) ONE(s + 1) ONE(s + 2) ONE(s + 3)
static MF_NOINLINE int32_t mf_shift_clamp(int32_t x, int shift, int32_t lo, int32_t hi)
{
	switch (shift) {
	FOUR(0) FOUR(4) FOUR(8) FOUR(12) FOUR(16) FOUR(20) FOUR(24) FOUR(28)
	}
	exit(3);
}
#include "mcufuse/vector.h"
#if MF_HAS_VECTOR_RUNS
/* the same for the counts of a window: a window is cut into parts with the counts below */
#define RUNS(f)   RUN(f, 0) RUN(f, 1) RUN(f, 2) RUN(f, 7)
#define FOUR_FIRST(f) RUNS(f) RUNS(f + 1) RUNS(f + 2) RUNS(f + 3)
#define ALL_FIRST FOUR_FIRST(1) FOUR_FIRST(5) FOUR_FIRST(9) FOUR_FIRST(13)
static MF_NOINLINE void part_1x4(int32x4_t *s, const int8_t **x, const int8_t **w, int first, int rest)
{
	const int8_t *px = *x, *pw = *w;
	int32x4_t v0;

#define RUN(f, r) case (f) * 8 + (r): MF_VECTOR_RUNS_1X4(v0, px, pw, f, r); break;
	switch (first * 8 + rest) {
	ALL_FIRST
	default: exit(8);
	}
#undef RUN
	s[0] = vaddq_s32(s[0], v0);
	*x = px;
	*w = pw;
}
static MF_NOINLINE void part_2x4(int32x4_t *s, const int8_t **x, const int8_t **y, const int8_t **w,
	int first, int rest)
{
	const int8_t *px = *x, *py = *y, *pw = *w;
	int32x4_t v0, v1;

#define RUN(f, r) case (f) * 8 + (r): MF_VECTOR_RUNS_2X4(v0, v1, px, py, pw, f, r); break;
	switch (first * 8 + rest) {
	ALL_FIRST
	default: exit(8);
	}
#undef RUN
	s[0] = vaddq_s32(s[0], v0);
	s[1] = vaddq_s32(s[1], v1);
	*x = px;
	*y = py;
	*w = pw;
}
static int part_rest(int rest)
{
	return rest >= 7 ? 7 : MF_MIN(rest, 2);
}
#undef MF_VECTOR_RUNS_1X4
#undef MF_VECTOR_RUNS_2X4
#define MF_VECTOR_RUNS_1X4(s0, x0, w, first_, rest_)                                               \\
	do {                                                                                       \\
		int32x4_t s_ = vdupq_n_s32(0);                                                     \\
		for (int f_ = first_, n_ = rest_; n_ >= 0; n_ -= part_rest(n_) + 1, f_ = 16) {     \\
			part_1x4(&s_, &x0, &w, f_, part_rest(n_));                                 \\
		}                                                                                  \\
		s0 = s_;                                                                           \\
	} while (false)
#define MF_VECTOR_RUNS_2X4(s0, s1, x0, x1, w, first_, rest_)                                       \\
	do {                                                                                       \\
		int32x4_t s_[2] = {vdupq_n_s32(0), vdupq_n_s32(0)};                                \\
		for (int f_ = first_, n_ = rest_; n_ >= 0; n_ -= part_rest(n_) + 1, f_ = 16) {     \\
			part_2x4(s_, &x0, &x1, &w, f_, part_rest(n_));                             \\
		}                                                                                  \\
		s0 = s_[0];                                                                        \\
		s1 = s_[1];                                                                        \\
	} while (false)
#endif
static void fits(int good, const char *what)
{
	if (!good) {
		fprintf(stderr, "%s: a value does not fit\\n", what);
		exit(4);
	}
}
"""

_PROGRAM = """\
#define MOST_BYTES (1 << 20)
#define MOST_SHOWN 20
static int8_t storage[MOST_BYTES] __attribute__((aligned(16)));
static const int8_t *expected;
static long emitted, failures, runs;
static int number, wrong;
static const char *running;

static void emit(const int8_t *at, long bytes)
{
	for (long i = 0; i < bytes; i++, emitted++) {
		const int8_t want = expected[emitted % (current_bytes)];

		if (at[i] != want && !wrong) {
			wrong = 1;
			failures++;
			if (failures <= MOST_SHOWN) {
				printf("case %d, %s, input %ld: ", number, running, runs);
				printf("byte %ld is %d, not ", emitted % current_bytes, at[i]);
				printf("%d (mode %ld)\\n", want, emitted / current_bytes);
			}
		}
	}
}

static void read_all(int file, int8_t *to, long bytes)
{
	while (bytes > 0) {
		const long n = read(file, to, bytes);

		if (n <= 0) {
			exit(5);
		}
		to += n;
		bytes -= n;
	}
}

int main(void)
{
	const int file = open("input", O_RDONLY);

	for (;; number++) {
		struct variant v = {.name = ""};
		const int32_t *at = (const int32_t *)storage;
		int8_t *input[16] = {NULL}, *arrays, *next;
		long arrays_bytes, sets;
		int function;

		read_all(file, storage, 4);
		if (*at == 0) {
			break;
		}
		if (*at > MOST_BYTES - 4) {
			return 6;
		}
		read_all(file, storage + 4, *at);
		at++;
		function = *at++;
		v.index = number;
		v.name = running = functions[function].name;
		v.tick = functions[function].tick;
		v.ticks = *at++;
		v.at_end = *at++;
		v.operands = *at++;
		v.out_align = *at++;
		v.state = *at++;
		v.out_bytes = *at++;
		v.out_row = *at++;
		v.memory = *at++;
		for (int i = 0; i < v.operands; i++) {
			struct operand *o = &v.operand[i];

			o->kind = *at++;
			o->height = *at++;
			o->stride = *at++;
			o->offset = *at++;
			o->count = *at++;
			o->step = *at++;
			o->in_place = *at++;
			o->align = *at++;
			o->row_bytes = *at++;
			if (o->kind == INDEXED) {
				o->index = (const int *)at;
				at += v.ticks;
			}
		}
		const int32_t *values = at;

		at += 1 + *at;
		at += 1 + *at;
		arrays_bytes = *at++;
		sets = *at++;
		arrays = (int8_t *)(((uintptr_t)at + 15) & ~(uintptr_t)15);
		functions[function].load(values, arrays);
		next = arrays + arrays_bytes;
		for (runs = 0; runs < sets; runs++) {
			for (int i = 0; i < v.operands; i++) {
				input[i] = next;
				next += (v.operand[i].height * v.operand[i].row_bytes + 3) & ~3L;
			}
			expected = next;
			current_bytes = v.out_bytes;
			next += (v.out_bytes + 3) & ~3L;
			emitted = wrong = 0;
			run_modes(&v, input);
			if (emitted % v.out_bytes != 0) {
				return 7;
			}
			total += emitted / v.out_bytes;
		}
	}
	printf("done: %d cases, %ld runs, %ld failures\\n", number, total, failures);
	return 0;
}
"""


def program(layouts: Sequence[Layout]) -> str:
    """The C that reads and runs records."""
    parts = [PRELUDE, _HEADERS, *(f'#include "{name}"\n' for name in sorted({lay.way.header for lay in layouts}))]
    parts += [RUNNERS, "static long current_bytes = 1, total;\n", *(layout.text() for layout in layouts)]
    rows = ", ".join(f'{{"{lay.way.function}", load_{lay.index}, tick_{lay.index}}}' for lay in layouts)
    parts.append(
        "static const struct {\n\tconst char *name;\n\tvoid (*load)(const int32_t *v, const int8_t *arrays);\n"
        "\tvoid (*tick)(const int8_t *const *in, int8_t *out, int tick, void *scratch);\n"
        f"}} functions[] = {{{rows}}};\n"
    )
    return "".join([*parts, _PROGRAM])


@dataclass
class Made:
    """The cases of one kernel for cores that lower alike."""

    folder: Path
    layouts: dict[str, Layout]
    counts: Counter[str]
    named: set[str]
    runs: int
    modes: dict[str, Counter[str]]  # of requantization or addition, by row function
    constant: list[tuple[Case, str]]  # cases, and the function that each is to be compiled for


@dataclass
class Outcome:
    """What a core did with the cases of a kernel."""

    core: str
    kernel: str
    cases: dict[str, int]  # by row function
    modes: dict[str, dict[str, int]]  # cases of each way to requantize (or to add), by row function
    runs: int  # cases times inputs times modes of the harness
    constant: int
    problems: list[str]
    seconds: float


@contextlib.contextmanager
def no_linear_sum(active: bool) -> Iterator[None]:
    """The definition's own arithmetic for additions, which a linear function nearly always replaces."""
    if not active:
        yield
        return
    with mock.patch("mcufuse.kernels.add.find_linear_sum", return_value=None):
        yield


def make(kind: type[Op], core: Core, cases: int, constant: int, seed: int, folder: Path) -> Made:
    """Writes the cases of a kernel, `cases` for each row function that the core may use; folder/input."""
    made = Made(folder, {}, Counter(), set(), 0, defaultdict(Counter), [])
    allowed = row_functions(core)
    compiled: Counter[str] = Counter()
    with (folder / "input").open("wb") as stream:
        for i in range(ATTEMPTS * cases):
            rng = np.random.default_rng([seed, *kind.__name__.encode(), i])
            case = MAKERS[kind](rng, list(Rounding)[i % 3], i)
            sets = input_sets(rng, case, i)
            with no_linear_sum(kind is Add and i % 8 == 3):
                ways = kernel_of(case.op).lower(case.op, LowerContext(case.graph, core))
            made.named |= {way.function for way in ways} & allowed
            fresh = [w for w in ways if isinstance(w, Lowered) and made.counts[w.function] < cases]
            if fresh:
                expected = [np.ascontiguousarray(oracle_of(Case(case.graph, case.op, inputs))) for inputs in sets]
            for way in fresh:
                layout = made.layouts.setdefault(way.function, Layout(way, len(made.layouts)))
                stream.write(record(case, way, layout, sets, expected))
                made.counts[way.function] += 1
                made.runs += len(sets) * len(modes(way))
                made.modes[way.function][_mode(way.cfg)] += 1
                if compiled[way.function] < constant and not (kind is Add and i % 8 == 3):
                    compiled[way.function] += 1
                    made.constant.append((Case(case.graph, case.op, sets[i % 4]), way.function))
            if i >= cases and all(made.counts[name] >= cases for name in made.named):
                break
        stream.write(_words([0]))
    return made


def offered(kind: type[Op], core: Core, count: int, seed: int = 1) -> set[str]:
    """The row functions that `count` cases of a kernel reach on a core; nothing is compiled."""
    found: set[str] = set()
    for i in range(count):
        case = MAKERS[kind](np.random.default_rng([seed, *kind.__name__.encode(), i]), list(Rounding)[i % 3], i)
        ways = kernel_of(case.op).lower(case.op, LowerContext(case.graph, core))
        found |= {way.function for way in ways if isinstance(way, Lowered)}
    return found


def _mode(cfg: CStruct) -> str:
    """The requantization of a case, "-" if it has none."""
    found = [str(value) for name, value in cfg.fields if name.endswith("rq_mode") or name == "mode"]
    return "+".join(found) or "-"


def run_core(kind: type[Op], core: Core, made: Made, cases: int, opt: str, batch: int) -> Outcome:
    """Builds and runs the cases on one core."""
    start = time.monotonic()
    layouts = sorted(made.layouts.values(), key=lambda layout: layout.index)
    problems = [f"{name}: only {made.counts[name]} cases" for name in sorted(made.named) if made.counts[name] < cases]
    problems += [f"{name} is not in {INCLUDE}" for name in sorted(set(made.layouts) - row_functions(core))]
    try:
        build(core.name, made.folder, program(layouts), opt, ("-Wno-maybe-uninitialized",))
        log = run(core.name, made.folder, 3000)
        want = f"done: {sum(made.counts.values())} cases, {made.runs} runs, 0 failures"
        if log.strip().splitlines()[-1:] != [want]:
            problems.append(f"expected {want!r}:\n{log}")
    except AssertionError as error:
        problems.append(str(error))
    by_function = defaultdict(list)
    for case, function in made.constant:
        by_function[function].append(case)
    for function, some in by_function.items():
        for at in range(0, len(some), batch):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    check_on_target(some[at : at + batch], core.name, Path(folder), opt, only=function)
                except AssertionError as error:
                    problems.append(f"constant cfg, {function}, cases from {at} on: {error}")
    seconds = time.monotonic() - start
    by_mode = {name: dict(sorted(counter.items())) for name, counter in made.modes.items()}
    return Outcome(
        core.name, kind.__name__, dict(made.counts), by_mode, made.runs, len(made.constant), problems, seconds
    )


def _alike(core: Core) -> tuple[object, ...]:
    """Equal for cores that lower alike."""
    return tuple(getattr(core, f.name) for f in fields(core) if f.name not in ("name", "gcc"))


def sweep(
    kinds: Sequence[type[Op]], cores: Sequence[Core], cases: int, *, constant: int = 0, seed: int = 1, opt: str = "-O2",
    batch: int = 50,
) -> Iterator[Outcome]:  # fmt: skip
    """Runs the kernels on the cores. Over all kernels, every row function of the headers must have been reached."""
    for kind in kinds:
        for alike in dict.fromkeys(_alike(core) for core in cores):
            with tempfile.TemporaryDirectory() as folder:
                same = [core for core in cores if _alike(core) == alike]
                made = make(kind, same[0], cases, constant, seed, Path(folder))
                for core in same:
                    yield run_core(kind, core, made, cases, opt, batch)


def unreached(outcomes: Sequence[Outcome], cores: Sequence[Core]) -> list[str]:
    """Row functions that no kernel offered on a core that could run them."""
    reached: dict[str, set[str]] = defaultdict(set)
    for outcome in outcomes:
        reached[outcome.core] |= set(outcome.cases)
    return [
        f"{core.name}: {name} never ran" for core in cores for name in sorted(row_functions(core) - reached[core.name])
    ]


def main() -> int:
    """The command."""
    names = {kind.__name__: kind for kind in KERNELS}
    parser = argparse.ArgumentParser(description="Random operators in QEMU against the oracle.")
    parser.add_argument("--cases", type=int, default=2000, help="for each row function and core")
    parser.add_argument("--constant", type=int, default=0, help="of them also compiled with a constant cfg")
    parser.add_argument("--core", nargs="+", default=[core.name for core in CORES])
    parser.add_argument("--kernel", nargs="+", default=list(names), choices=list(names))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--opt", default="-O2")
    parser.add_argument("--batch", type=int, default=50, help="operators of a program with constant cfgs")
    parser.add_argument("--verbose", action="store_true", help="how many cases have each mode of requantization")
    parser.add_argument("--json", type=Path, help="where the outcomes are written")
    args = parser.parse_args()
    cores = [core_by_name(name) for name in args.core]
    outcomes = []
    for outcome in sweep(
        [names[n] for n in args.kernel], cores, args.cases, constant=args.constant, seed=args.seed, opt=args.opt,
        batch=args.batch,
    ):  # fmt: skip
        outcomes.append(outcome)
        total = sum(outcome.cases.values())
        print(
            f"{outcome.kernel:16} {outcome.core:14} {len(outcome.cases):2} functions {total:6} cases "
            f"{outcome.runs:7} runs, {outcome.constant:4} constant, {outcome.seconds:6.1f} s, "
            f"{len(outcome.problems)} problems",
            flush=True,
        )
        for name, by_mode in outcome.modes.items():
            if args.verbose and by_mode.keys() != {"-"}:
                print(f"    {name}: " + ", ".join(f"mode {mode}: {n}" for mode, n in by_mode.items()), flush=True)
        for problem in outcome.problems:
            print(problem, flush=True)
    problems = sum(len(outcome.problems) for outcome in outcomes)
    if len(args.kernel) == len(names):
        for problem in unreached(outcomes, cores):
            print(problem)
            problems += 1
    if args.json:
        args.json.write_text(json.dumps([vars(outcome) for outcome in outcomes], indent=1))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
