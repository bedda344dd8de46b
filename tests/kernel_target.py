# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the program of `kernel_harness` on the emulated cores, where the kernels use DSP and MVE instructions."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from kernel_harness import INCLUDE, Case, compare, input_bytes, lowerings, program_text, split
from mcufuse.machines import MACHINES
from mcufuse.target import core_by_name

__all__ = ["build", "check_on_target", "run"]

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
    ways = [lowerings(case, core, only) for case in cases]
    build(core, folder, program_text(cases, ways), opt, ("-Werror",))
    (folder / "input").write_bytes(input_bytes(cases))
    run(core, folder)
    compare(cases, split(cases, ways, (folder / "output").read_bytes()), f"{core} {opt}")


def build(core: str, folder: Path, program: str, opt: str = "-O2", flags: Sequence[str] = ()) -> None:
    """Makes cases.elf in the folder from the C of a program that uses host files."""
    machine = next(m for m in MACHINES if m.core == core)
    script = _SCRIPT.format(
        boot=machine.boot, code=machine.code.origin, code_length=machine.code.length, ram=machine.ram.origin,
        ram_length=machine.ram.length,
    )  # fmt: skip
    texts = {"cases.c": program, "start.c": _START, "memory.ld": script}
    for name, text in texts.items():
        (folder / name).write_text(text)
    command = [
        "arm-none-eabi-gcc", *core_by_name(core).gcc, "-std=c11", opt, "-Wall", "-Wextra", "-Wno-unused-parameter",
        "-Wno-unused-function", *flags, "-DFILES", f"-I{INCLUDE}", "-nostartfiles", "--specs=rdimon.specs",
        "-Tmemory.ld", "cases.c", "start.c", "-o", "cases.elf",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]


def run(core: str, folder: Path, seconds: int = 300) -> str:
    """Runs cases.elf in its folder, where its host files are; returns what it wrote to the console."""
    machine = next(m for m in MACHINES if m.core == core)
    emulator = [
        "timeout", "-s", "KILL", str(seconds), "qemu-system-arm", "-M", machine.board, *machine.qemu, "-nographic",
        "-semihosting-config", "enable=on,target=native", "-kernel", "cases.elf",
    ]  # fmt: skip
    done = subprocess.run(emulator, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, f"exit code {done.returncode}: {done.stdout[-500:]}{done.stderr[-2000:]}"
    return done.stdout + done.stderr
