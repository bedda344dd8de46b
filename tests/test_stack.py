# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The stack bound: never below what was used, refused where there is none."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mcufuse.baremetal import BuiltImage, build, run
from mcufuse.disasm import disassemble, parse_disassembly
from mcufuse.errors import UserError
from mcufuse.stack import stack_bound
from mcufuse.target import CORES, Core, core_by_name
from mcufuse.toolchain import find_toolchain

TINY = Path(__file__).parent / "data" / "tiny"
M3 = core_by_name("cortex-m3")
SCALE_LOOP = "\tfor (int i = 0; i < 64; i++) {\n\t\ty[i]"
SCALE_STEP = "static void tiny_s0_scale(void)"


def changed(tmp_path: Path, before: str, statement: str, core: Core = M3, opt: str = "-O2") -> BuiltImage:
    """The tiny network with `before` in front of step "scale" and `statement` at its start."""
    text = (TINY / "tiny.c").read_text()
    text = text.replace(SCALE_STEP, f"{before}\n{SCALE_STEP}").replace(SCALE_LOOP, f"\t{statement}\n{SCALE_LOOP}")
    (tmp_path / "tiny.c").write_text(text)
    (tmp_path / "tiny.h").write_text((TINY / "tiny.h").read_text())
    (tmp_path / "report.json").write_text(json.dumps({"name": "tiny"}))
    return build(tmp_path, core, opt=opt, out_dir=tmp_path / "out")


def used(image: BuiltImage) -> int:
    return run(image, inputs=[[np.ones((4, 4, 4), np.int8)]]).stack_bytes


HELPERS = "long long a = x[0], b = x[1] | 1; x[2] = (int8_t)(a / b + a % b); float f = x[3]; x[4] = (int8_t)(f / 3.0f);"
LARGE = "volatile int8_t large[5000]; for (int i = 0; i < 5000; i++) { large[i] = x[i % 64]; }"
COPY = "memcpy(tiny_arena + 64, tiny_arena, (unsigned int)(x[0] | 32)); memmove(tiny_arena + 1, tiny_arena, x[1] | 8);"


@pytest.mark.qemu
@pytest.mark.parametrize("core", CORES, ids=lambda c: c.name)
@pytest.mark.parametrize(
    ("statement", "least"), [(HELPERS, 24), (LARGE, 5000), (COPY, 24)], ids=["libgcc", "large", "libc"]
)
def test_bound_holds_with_helpers(tmp_path: Path, core: Core, statement: str, least: int) -> None:
    text = statement.replace("x[", "((volatile int8_t *)tiny_arena)[")
    image = changed(tmp_path, "#include <string.h>", text, core)
    bound = stack_bound(image.read(), "tiny", callgraphs=image.callgraphs)
    from_code = stack_bound(image.read(), "tiny")
    measured = used(image)
    assert least <= measured <= bound.size <= measured + 200
    assert from_code.size >= measured
    assert bound.paths[0].size == bound.size
    assert {path.step for path in bound.paths} == {"scale", "sum"}


@pytest.mark.qemu
def test_a_path_tells_each_frame(tmp_path: Path) -> None:
    inner = "static __attribute__((noinline)) int inner(int v) { volatile int a[20]; a[v & 7] = v; return a[3]; }"
    outer = (
        "static __attribute__((noinline)) int outer(int v) { volatile int a[10]; a[v & 7] = inner(v); return a[3]; }"
    )
    image = changed(tmp_path, f"{inner}\n{outer}", "tiny_arena[0] = (uint8_t)outer(3);")
    bound = stack_bound(image.read(), "tiny", callgraphs=image.callgraphs)
    (deep, shallow) = bound.paths
    names = [frame.function.split(".")[0] for frame in deep.frames]
    assert names == ["mcufuse_run", "tiny_s0_scale", "outer", "inner"]
    assert all(not frame.measured for frame in deep.frames)
    assert str(deep).startswith(f"scale: {deep.size} B = mcufuse_run 16 > tiny_s0_scale ")
    assert shallow.step == "sum"
    assert deep.size - 16 <= used(image) <= deep.size


REFUSED: list[tuple[str, str, str]] = [
    (
        "static __attribute__((noinline)) int loop(int v) { volatile int a = v; return a > 3 ? loop(a - 1) + a : a; }",
        "tiny_arena[0] = (uint8_t)loop(tiny_arena[1]);",
        r"mcufuse_run > tiny_s0_scale > loop > loop: recursion",
    ),
    (
        "static void fill(volatile char *p, int n) { for (int i = 0; i < n; i++) { p[i] = 1; } }",
        "char a[tiny_arena[0]]; fill(a, tiny_arena[0]);",
        r"tiny_s0_scale: its frame has a variable size",
    ),
    (
        "static int (*volatile pointer)(int);",
        "tiny_arena[0] = (uint8_t)pointer(3);",
        r"tiny_s0_scale: it calls through a pointer that is not in the step table",
    ),
]


@pytest.mark.qemu
@pytest.mark.parametrize(("before", "statement", "message"), REFUSED, ids=["recursion", "dynamic", "pointer"])
def test_what_has_no_bound_is_refused(tmp_path: Path, before: str, statement: str, message: str) -> None:
    image = changed(tmp_path, before, statement, opt="-O1")
    with pytest.raises(UserError, match=message):
        stack_bound(image.read(), "tiny", callgraphs=image.callgraphs)


@pytest.mark.qemu
def test_a_dynamic_frame_is_seen_in_the_code_too(tmp_path: Path) -> None:
    image = changed(tmp_path, REFUSED[1][0], REFUSED[1][1])
    with pytest.raises(UserError, match="moves the stack pointer by an unknown amount"):
        stack_bound(image.read(), "tiny")


@pytest.mark.qemu
@pytest.mark.parametrize("opt", ["-O0", "-Os", "-O3"])
def test_frames_of_compiler_and_disassembly_agree(tmp_path: Path, opt: str) -> None:
    image = changed(tmp_path, "", LARGE.replace("x[", "((volatile int8_t *)tiny_arena)["), opt=opt)
    told = stack_bound(image.read(), "tiny", callgraphs=image.callgraphs)
    read = stack_bound(image.read(), "tiny")
    assert used(image) <= told.size <= read.size <= told.size + 32


@pytest.mark.qemu
def test_every_function_of_an_image_is_read(tmp_path: Path) -> None:
    image = changed(tmp_path, "", "")
    functions = disassemble(image.elf, find_toolchain())
    names = {function.name for function in functions.values()}
    assert {"mcufuse_run", "tiny_s0_scale", "tiny_s1_sum", "mf_call_counted", "memset"} <= names
    (run_function,) = (f for f in functions.values() if f.name == "mcufuse_run")
    assert run_function.indirect == 1


TEXT = """\
00000100 <frames>:
     100:\tstmdb\tsp!, {r3, r4, r5, r6, r7, r8, r9, lr}
     104:\tvpush\t{d8-d10}
     108:\tsub.w\tsp, sp, #1024\t@ 0x400
     10c:\tstr.w\tr3, [sp, #-8]!
     110:\tbl\t200 <callee>
     114:\tcbz\tr0, 110 <frames+0x10>
     116:\tble.n\t100 <frames>
     118:\tbic.w\tr0, r1, #512\t@ 0x200
     11c:\tb.w\t300 <tail+0x4>

00000200 <callee>:
     200:\tpush\t{r4, lr}
     202:\tsub\tsp, sp, r3
     206:\tpop\t{r4, lr}

00000208 <behind>:
     208:\tvpush\t{s16}
     20c:\tblxne\tr3
     20e:\tbx\tlr
     210:\t.word\t0x00000200

000002fc <tail>:
     2fc:\tbl\t2fc <tail>
     300:\tadd\tsp, r4
     302:\tpop\t{r0-r2, pc}

00000400 <thumb1>:
     400:\tldr\tr4, [pc, #12]\t@ (410 <thumb1+0x10>)
     402:\tadd\tsp, r4
     404:\tldr\tr3, [pc, #12]\t@ (414 <thumb1+0x14>)
     406:\tadd\tsp, r3
     408:\tmovs\tr3, #255\t@ 0xff
     40a:\tlsls\tr3, r3, #3
     40c:\tadd\tsp, r3
     40e:\tbx\tlr
     410:\t.word\t0xfffff000
     414:\t.word\t0x00001000
"""


def test_the_disassembly_is_understood() -> None:
    functions = parse_disassembly(TEXT)
    frames, callee, behind, tail, thumb1 = (functions[a] for a in (0x100, 0x200, 0x208, 0x2FC, 0x400))
    assert (frames.frame, frames.calls, frames.indirect) == (32 + 24 + 1024 + 8, (0x200, 0x2FC), 0)
    assert (frames.moves_sp, frames.falls_into) == (False, None)
    assert (callee.frame, callee.moves_sp, callee.falls_into) == (8, True, 0x208)
    assert (behind.frame, behind.indirect, behind.falls_into) == (4, 1, None)
    assert (tail.calls, tail.moves_sp, tail.frame, tail.falls_into) == ((0x2FC,), True, 0, None)
    assert (thumb1.frame, thumb1.moves_sp) == (0x1000, False)


def test_an_image_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "x.elf"
    path.write_bytes(b"nothing")
    with pytest.raises(UserError, match="cannot disassemble it"):
        disassemble(path, find_toolchain())
