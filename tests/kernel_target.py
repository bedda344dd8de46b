# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the program of `kernel_harness` on the emulated cores, where the kernels use DSP and MVE instructions."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from kernel_harness import INCLUDE, Case, compare, input_bytes, lowerings, program_text, split
from mcufuse.machines import MACHINES
from mcufuse.target import CORES

__all__ = ["check_on_target"]

_START = """\
#include <stdint.h>
#include <stdlib.h>
extern uint32_t stack_top[];
extern void initialise_monitor_handles(void);
int main(void);
void _init(void);
void _fini(void);
void _init(void)
{
}
void _fini(void)
{
}
static void reset(void)
{
#if defined(__ARM_FEATURE_MVE) || defined(__ARM_FP)
	*(volatile uint32_t *)0xE000ED88U |= 0xFU << 20;
	__asm__ volatile("dsb\\n\\tisb");
#endif
	initialise_monitor_handles();
	exit(main());
}
static void fault(void)
{
	exit(99);
}
__attribute__((section(".vectors"), used)) static const uintptr_t vectors[16] = {
	(uintptr_t)stack_top, (uintptr_t)reset, (uintptr_t)fault, (uintptr_t)fault,
	(uintptr_t)fault, (uintptr_t)fault, (uintptr_t)fault,
};
"""

# the emulator loads all sections where they run: nothing is copied or cleared
_SCRIPT = """\
ENTRY(main)
MEMORY
{{
	BOOT (rx) : ORIGIN = {boot:#x}, LENGTH = 0x400
	CODE (rx) : ORIGIN = {code:#x}, LENGTH = {code_length:#x}
	RAM (rwx) : ORIGIN = {ram:#x}, LENGTH = {ram_length:#x}
}}
SECTIONS
{{
	.vectors : {{ KEEP(*(.vectors)) }} > BOOT
	.text : {{ *(.text .text.* .rodata .rodata.*) }} > CODE
	.ARM.exidx : {{ *(.ARM.exidx*) }} > CODE
	.data : {{ *(.data .data.* .bss .bss.* COMMON) . = ALIGN(8); }} > RAM
	end = .;
	stack_top = ORIGIN(RAM) + LENGTH(RAM);
}}
"""


def check_on_target(cases: Sequence[Case], core: str, folder: Path, opt: str = "-O2", only: str = "") -> None:
    """Builds the cases for a core, runs them in QEMU and compares with the oracle; `only`: see `check_cases`."""
    machine = next(m for m in MACHINES if m.core == core)
    flags = next(c for c in CORES if c.name == core).gcc
    ways = [lowerings(case, core, only) for case in cases]
    script = _SCRIPT.format(
        boot=machine.boot, code=machine.code.origin, code_length=machine.code.length, ram=machine.ram.origin,
        ram_length=machine.ram.length,
    )  # fmt: skip
    texts = {"cases.c": program_text(cases, ways), "start.c": _START, "memory.ld": script}
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "input").write_bytes(input_bytes(cases))
    command = [
        "arm-none-eabi-gcc", *flags, "-std=c11", opt, "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter",
        "-Wno-unused-function", "-DFILES", f"-I{INCLUDE}", "-nostartfiles", "--specs=rdimon.specs", "-Tmemory.ld",
        "cases.c", "start.c", "-o", "cases.elf",
    ]  # fmt: skip
    build = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert build.returncode == 0, build.stderr[:4000]
    emulator = [
        "timeout", "-s", "KILL", "300", "qemu-system-arm", "-M", machine.board, *machine.qemu, "-nographic",
        "-semihosting-config", "enable=on,target=native", "-kernel", "cases.elf",
    ]  # fmt: skip
    run = subprocess.run(emulator, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert run.returncode == 0, f"exit code {run.returncode}: {run.stdout[-500:]}{run.stderr[-2000:]}"
    compare(cases, split(cases, ways, (folder / "output").read_bytes()), f"{core} {opt}")
