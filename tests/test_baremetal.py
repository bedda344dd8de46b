# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Networks on the emulated cores: bits, exact instruction counts, stack, and what happens when they go wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from mcufuse.baremetal import BuiltImage, build, compile_and_link, run
from mcufuse.elfmodel import read_model
from mcufuse.errors import UserError
from mcufuse.machines import machine_for, run_elf
from mcufuse.paths import firmware_dir
from mcufuse.stack import stack_bound
from mcufuse.target import CORES, Core, core_by_name
from mcufuse.toolchain import find_emulator
from mcufuse.vectors import VectorCase, VectorKind, emit_vectors_c, make_input

pytestmark = pytest.mark.qemu

TINY = Path(__file__).parent / "data" / "tiny"
WEIGHTS = np.array([3, -7, 12, 9, -1, 8, 5, -16, 2, 11, -4, 6, 10, -9, 7, 1])
SCALE_LOOP = "\tfor (int i = 0; i < 64; i++) {\n\t\ty[i]"  # the first statement of step "scale"
M3 = core_by_name("cortex-m3")
M0 = core_by_name("cortex-m0plus")

Int8 = npt.NDArray[np.int8]


def tiny_input(seed: int) -> Int8:
    x: Int8 = make_input(VectorKind.RANDOM, seed, np.int8, (4, 4, 4))
    return x


def tiny_reference(x: Int8) -> Int8:
    scaled = np.clip((x.reshape(4, 16).astype(int) * WEIGHTS) >> 3, -128, 127).reshape(8, 8)
    return np.clip(scaled.sum(axis=1), -128, 127).astype(np.int8)


def rows_reference(x: Int8) -> Int8:
    return np.cumsum(x.astype(int).sum(axis=(1, 2))).astype(np.uint8).view(np.int8)


def variant(tmp_path: Path, change: Callable[[str], str], source: str = "tiny") -> Path:
    """A generated directory with a changed network in it."""
    text = (TINY / f"{source}.c").read_text()
    changed = change(text)
    assert changed != text
    (tmp_path / f"{source}.c").write_text(changed)
    (tmp_path / f"{source}.h").write_text((TINY / f"{source}.h").read_text())
    (tmp_path / "report.json").write_text(json.dumps({"name": source, "cflags": ["-O2"]}))
    return tmp_path


def with_first(statement: str) -> Callable[[str], str]:
    return lambda text: text.replace(SCALE_LOOP, f"\t{statement}\n{SCALE_LOOP}")


def rows_dir(tmp_path: Path) -> Path:
    return variant(tmp_path, lambda text: text + "\n", "rows")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Core], BuiltImage]:
    built: dict[str, BuiltImage] = {}

    def get(core: Core) -> BuiltImage:
        if core.name not in built:
            built[core.name] = build(TINY, core, out_dir=tmp_path_factory.mktemp(core.name))
        return built[core.name]

    return get


@pytest.mark.parametrize("core", CORES, ids=lambda c: c.name)
def test_bits_and_figures_on_every_core(images: Callable[[Core], BuiltImage], core: Core) -> None:
    image = images(core)
    xs = [tiny_input(seed) for seed in range(120)]
    result = run(image, inputs=[[x] for x in xs])
    assert [y.tolist() for (y,) in result.outputs] == [tiny_reference(x).tolist() for x in xs]
    assert result.guards == ("low", "high")
    assert result.arena_bytes == 128
    assert [step.name for step in result.steps] == ["scale", "sum"]
    steps = sum(step.instructions for step in result.steps)
    assert steps < result.instructions[0] < steps + 60  # mcufuse_run()'s own
    assert result.feed_instructions == (0,) * 120
    assert result.stack_bytes == stack_bound(image.read(), "tiny", callgraphs=image.callgraphs).size
    assert run(image, inputs=[[x] for x in xs]).instructions == result.instructions


@pytest.mark.parametrize("name", ["cortex-m0plus", "cortex-m3", "cortex-m55"])
def test_counts_equal_a_trace_of_every_instruction(
    images: Callable[[Core], BuiltImage], name: str, tmp_path: Path
) -> None:
    image = images(core_by_name(name))
    x = tiny_input(3)
    counted = run(image, inputs=[[x]], profile=False).instructions[0]

    (tmp_path / "request.bin").write_bytes(np.array([0x3151464D, 1, 0], "<u4").tobytes() + x.tobytes())
    machine = image.machine
    command = ["timeout", "-s", "KILL", "60", find_emulator().path, "-M", machine.board, *machine.qemu]
    command += ["-display", "none", "-monitor", "none", "-serial", "none"]
    command += ["-semihosting-config", "enable=on,target=native", "-kernel", image.elf]
    command += ["-singlestep", "-d", "exec,nochain", "-D", "trace.txt"]
    subprocess.run(command, cwd=tmp_path, check=True)
    trace = [line.split() for line in (tmp_path / "trace.txt").read_text().splitlines() if line.startswith("Trace")]
    functions = [words[-1] for words in trace]
    start = functions.index("mcufuse_run")
    back = functions.index("mf_call_counted", start)
    assert counted == back - start


def test_without_icount_there_are_no_counts(images: Callable[[Core], BuiltImage]) -> None:
    x = tiny_input(1)
    result = run(images(M3), inputs=[[x]], icount=False)
    assert result.outputs[0][0].tolist() == tiny_reference(x).tolist()
    assert (result.instructions, result.steps) == ((), ())


@pytest.mark.parametrize("name", ["cortex-m0plus", "cortex-m4", "cortex-m55"])
def test_fed_by_rows(tmp_path: Path, name: str) -> None:
    image = build(rows_dir(tmp_path), core_by_name(name), out_dir=tmp_path / "out")
    xs = [make_input(VectorKind.RANDOM, seed, np.int8, (6, 5, 2)) for seed in range(20)]
    result = run(image, inputs=[[x] for x in xs])
    assert [y.tolist() for (y,) in result.outputs] == [rows_reference(x).tolist() for x in xs]
    assert [s.instructions > 0 for s in result.steps] == [False, True]
    assert all(0 < feed < total for feed, total in zip(result.feed_instructions, result.instructions, strict=True))
    model = read_model(image.read(), "rows")
    assert (model.input_rows, model.row_bytes, model.feed_row, model.reset) == (6, 10, "rows_feed", "rows_reset")
    assert result.stack_bytes <= stack_bound(image.read(), "rows", callgraphs=image.callgraphs).size


@pytest.mark.parametrize("name", ["cortex-m3", "cortex-m55"])
def test_selftest_runs_on_the_target(tmp_path: Path, name: str) -> None:
    """The self-test that firmware carries: exit code 1 tells that one of three cases failed."""
    xs = [make_input(kind, 5, np.int8, (4, 4, 4)) for kind in list(VectorKind)[:3]]
    expected = [tiny_reference(x) for x in xs]
    expected[1] = expected[1] ^ np.int8(1)
    cases = [VectorCase(kind, 5, expected=(y,)) for kind, y in zip(VectorKind, expected, strict=False)]
    source, header = emit_vectors_c("tiny", cases)
    (tmp_path / "tiny_vectors.c").write_text(source)
    (tmp_path / "tiny_vectors.h").write_text(header)
    (tmp_path / "main.c").write_text(
        '#include "tiny_vectors.h"\nint main(void)\n{\n\tstruct mcufuse_selftest_result r;\n'
        "\treturn mcufuse_selftest(&tiny_vectors, &r) == 0 || r.cases_run != 3U ? 99 : (int)r.cases_failed;\n}\n"
    )
    src = firmware_dir() / "src"
    sources = [TINY / "tiny.c", tmp_path / "tiny_vectors.c", tmp_path / "main.c", src / "mcufuse.c", src / "vectors.c"]
    image = compile_and_link(sources, core_by_name(name), out_dir=tmp_path, include_dirs=[TINY, tmp_path])
    assert run_elf(find_emulator(), image.machine, image.elf, work_dir=tmp_path, timeout_s=60).code == 1


def test_a_write_outside_of_the_arena_is_found(tmp_path: Path) -> None:
    for where, side in (("128", "above"), ("-1", "below")):
        directory = variant(tmp_path, with_first(f"((volatile int8_t *)x)[{where}] = 1;"))
        with pytest.raises(UserError, match=rf"wrote outside of its arena, {side} it"):
            run(build(directory, M3, out_dir=tmp_path / "out"), inputs=[[tiny_input(1)]])


def test_the_arena_is_poisoned_before_each_inference(tmp_path: Path) -> None:
    """A network that adds what it finds in its arena gives other outputs each time."""
    directory = variant(
        tmp_path, lambda text: text.replace("y[i] = (int8_t)clamp((x[i]", "y[i] = (int8_t)(y[i] + (x[i]")
    )
    x = np.zeros((4, 4, 4), np.int8)
    result = run(build(directory, M3, out_dir=tmp_path / "out"), inputs=[[x]] * 4, profile=False)
    assert len({y.tobytes() for (y,) in result.outputs}) > 1


def test_steps_that_depend_on_their_caller_are_found(tmp_path: Path) -> None:
    directory = variant(tmp_path, with_first("static int8_t calls; tiny_arena[0] = (uint8_t)(++calls << 6);"))
    with pytest.raises(UserError, match="step by step it computes other outputs"):
        run(build(directory, M3, out_dir=tmp_path / "out"), inputs=[[np.zeros((4, 4, 4), np.int8)]])


@pytest.mark.parametrize(
    ("name", "statement", "message"),
    [
        ("cortex-m3", '__asm__ volatile("udf #0");', r"undefined instruction: pc=\S+ \(tiny_s0_scale\+"),
        ("cortex-m3", "*(volatile int *)0xfffffff0U = 1;", r"data access|bus error"),
        ("cortex-m33", "volatile int zero = 0; zero = 7 / zero;", "division by zero"),
        ("cortex-m4", '__asm__ volatile(".inst.n 0xee00, 0x0a10");', "FPU or MVE is off"),
        ("cortex-m55", '__asm__ volatile("mov r0, #0\\n\\tmov sp, r0\\n\\tpush {r1}" ::: "r0");', "no stack frame"),
        ("cortex-m0plus", '__asm__ volatile(".inst.n 0xfb90, 0xf0f1");', r"the core faulted: pc=\S+ \(tiny_s0_scale"),
        (
            "cortex-m0plus",
            '__asm__ volatile("ldr r0, [%0]" ::"l"(tiny_arena + 1) : "r0");',
            r"the core faulted: pc=\S+ \(tiny_s0_scale",
        ),
    ],
)
def test_a_fault_is_told(tmp_path: Path, name: str, statement: str, message: str) -> None:
    image = build(variant(tmp_path, with_first(statement)), core_by_name(name), out_dir=tmp_path / "out")
    with pytest.raises(UserError, match=message):
        run(image, inputs=[[tiny_input(1)]], timeout_s=60)


def test_cortex_m0_executes_only_its_own_instructions(tmp_path: Path) -> None:
    """What is built for Cortex-M3 does not run there, so that a wrong -mcpu would be noticed."""
    machine = machine_for(M0)
    main = tmp_path / "main.c"
    main.write_text("int main(void)\n{\n\tvolatile int a = 42, b = 6;\n\treturn a / b;\n}\n")
    ended = {}
    for core in (M0, M3):
        as_m0 = Core(M0.name, core.isa, core.gcc)
        image = compile_and_link([main], as_m0, out_dir=tmp_path / core.name)
        ended[core.name] = run_elf(find_emulator(), machine, image.elf, work_dir=tmp_path, timeout_s=60).code
    assert ended["cortex-m0plus"] == 7
    assert ended["cortex-m3"] in (64, -signal.SIGABRT)  # the fault handler is built for Cortex-M3 too


def test_a_network_that_does_not_end_is_stopped(tmp_path: Path) -> None:
    image = build(
        variant(tmp_path, with_first("for (;;) { (void)*(volatile int8_t *)x; }")), M3, out_dir=tmp_path / "out"
    )
    began = time.monotonic()
    with pytest.raises(UserError, match=r"did not finish within 0\.5 s"):
        run(image, inputs=[[tiny_input(1)]], timeout_s=0.5)
    assert time.monotonic() - began < 30
    assert not emulators_of(os.getpid())


def emulators_of(pid: int) -> list[int]:
    children = [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [p for p in children if "qemu" in Path(f"/proc/{p}/cmdline").read_text()]


def test_no_emulator_outlives_a_killed_python(tmp_path: Path) -> None:
    image = build(
        variant(tmp_path, with_first("for (;;) { (void)*(volatile int8_t *)x; }")), M3, out_dir=tmp_path / "out"
    )
    program = (
        "from pathlib import Path; from mcufuse.machines import *; from mcufuse.toolchain import find_emulator\n"
        f"m = next(m for m in MACHINES if m.core == 'cortex-m3'); d = Path({str(tmp_path)!r})\n"
        f"(d / 'request.bin').write_bytes(bytes.fromhex('4d465131' '01000000' '00000000' + '00' * 64))\n"
        f"run_elf(find_emulator(), m, Path({str(image.elf)!r}), work_dir=d, timeout_s=60)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "generator")}
    python = subprocess.Popen([sys.executable, "-c", program], env=env)
    try:
        deadline = time.monotonic() + 60
        while not (found := emulators_of(python.pid)):
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        python.send_signal(signal.SIGKILL)
        python.wait()
    deadline = time.monotonic() + 30
    while Path(f"/proc/{found[0]}/cmdline").exists() and Path(f"/proc/{found[0]}/cmdline").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_user_errors(images: Callable[[Core], BuiltImage], tmp_path: Path) -> None:
    x = tiny_input(1)
    with pytest.raises(UserError, match="has 1 inputs, 2 given"):
        run(images(M3), inputs=[[x, x]])
    with pytest.raises(UserError, match=r'input "x": int16 values of shape \(64,\)'):
        run(images(M3), inputs=[[np.zeros(64, np.int16)]])
    with pytest.raises(UserError, match="no inputs"):
        run(images(M3), inputs=[])
    with pytest.raises(UserError, match=r"report\.json: cannot read it"):
        build(tmp_path, M3, out_dir=tmp_path)
    with pytest.raises(UserError, match="error: unknown type name 'nonsense'"):
        build(variant(tmp_path, lambda text: text + "nonsense x;\n"), M3, out_dir=tmp_path / "out")


def test_flags_of_the_report_and_of_the_caller(tmp_path: Path) -> None:
    counts = {}
    for opt in (None, "-O0", "-Os", "-O2"):
        image = build(TINY, M3, opt=opt, out_dir=tmp_path / str(opt), defines=["UNUSED=1"])
        counts[opt] = run(image, inputs=[[tiny_input(1)]]).instructions[0]
    assert counts[None] == counts["-O2"] < counts["-O0"]
