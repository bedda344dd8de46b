# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The emulated boards that stand for each core, and how an ELF is run on one.

Boards are chosen for memory, so that any network runs. QEMU has no Cortex-M0+; its micro:bit has a
Cortex-M0, which executes the same Armv6-M instructions, faults on Armv7-M ones and on unaligned
accesses, and whose flash and RAM can be enlarged.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .errors import UserError
from .target import Core
from .toolchain import Emulator

__all__ = ["ICOUNT_SHIFT", "MACHINES", "Ended", "Machine", "Memory", "machine_for", "run_elf"]

ICOUNT_SHIFT = 8  # 256 ns of guest time per instruction: see firmware/baremetal/counter.h
_LOG_TAIL = 16384

# The counters of firmware/baremetal/counter.h.
_CMSDK, _SSE, _NRF = "MF_COUNTER_CMSDK", "MF_COUNTER_SSE", "MF_COUNTER_NRF"


@dataclass(frozen=True, slots=True)
class Memory:
    """An address range, in bytes."""

    origin: int
    length: int


@dataclass(frozen=True, slots=True)
class Machine:
    """One QEMU board: memory, counter and clock of the counter."""

    board: str
    core: str
    boot: int  # where the vector table must be
    code: Memory
    ram: Memory
    counter: str  # macro that counter.h knows
    counter_address: int
    counter_hz: int
    qemu: tuple[str, ...] = ()

    @property
    def ticks_per_instruction(self) -> float:
        """Of the counter, under `-icount shift=ICOUNT_SHIFT`."""
        return self.counter_hz * (1 << ICOUNT_SHIFT) / 1e9

    @property
    def defines(self) -> tuple[str, ...]:
        """Macros for the linker script and for firmware/baremetal/*.c."""
        return (
            f"-DMF_BOOT_ORIGIN={self.boot:#x}",
            f"-DMF_CODE_ORIGIN={self.code.origin:#x}",
            f"-DMF_CODE_LENGTH={self.code.length:#x}",
            f"-DMF_RAM_ORIGIN={self.ram.origin:#x}",
            f"-DMF_RAM_LENGTH={self.ram.length:#x}",
            f"-D{self.counter}={self.counter_address:#x}",
        )


_MIB = 1 << 20
_BOOT = 0x400  # bytes that image.ld sets aside for the vector table
_MPS2_CODE = Memory(_BOOT, 4 * _MIB - _BOOT)
_NRF_SIZES = ("nrf51-soc.flash-size", "nrf51-soc.sram-size")

MACHINES: tuple[Machine, ...] = (
    Machine(
        board="microbit",
        core="cortex-m0plus",
        boot=0,
        code=Memory(_BOOT, 16 * _MIB - _BOOT),
        ram=Memory(0x20000000, 16 * _MIB),
        counter=_NRF,
        counter_address=0x40008000,
        counter_hz=16_000_000,
        qemu=tuple(part for name in _NRF_SIZES for part in ("-global", f"{name}={16 * _MIB:#x}")),
    ),
    Machine("mps2-an385", "cortex-m3", 0, _MPS2_CODE, Memory(0x20000000, 4 * _MIB), _CMSDK, 0x40000000, 25_000_000),
    Machine("mps2-an386", "cortex-m4", 0, _MPS2_CODE, Memory(0x20000000, 4 * _MIB), _CMSDK, 0x40000000, 25_000_000),
    Machine("mps2-an500", "cortex-m7", 0, _MPS2_CODE, Memory(0x20000000, 4 * _MIB), _CMSDK, 0x40000000, 25_000_000),
    # Secure state: the secure aliases of SSRAM1 and of TIMER0, and the PSRAM.
    Machine(
        board="mps2-an505",
        core="cortex-m33",
        boot=0x10000000,
        code=Memory(0x10000000 + _BOOT, 4 * _MIB - _BOOT),
        ram=Memory(0x80000000, 16 * _MIB),
        counter=_CMSDK,
        counter_address=0x50000000,
        counter_hz=20_000_000,
    ),
    # Secure state: the vector table in ITCM, everything else in DDR.
    Machine(
        board="mps3-an547",
        core="cortex-m55",
        boot=0,
        code=Memory(0x60000000, 64 * _MIB),
        ram=Memory(0x64000000, 64 * _MIB),
        counter=_SSE,
        counter_address=0x58100000,
        counter_hz=32_000_000,
    ),
)


def machine_for(core: Core) -> Machine:
    """The board that stands for `core`."""
    return next(m for m in MACHINES if m.core == core.name)


@dataclass(frozen=True, slots=True)
class Ended:
    """How the emulator ended: its exit code and the end of what it wrote."""

    code: int
    log: str


def run_elf(
    emulator: Emulator, machine: Machine, elf: Path, *, work_dir: Path, icount: bool = True, timeout_s: float = 60.0
) -> Ended:
    """Runs `elf` on `machine` in `work_dir`, where the program's host files are.

    Raises `UserError` when it does not end within `timeout_s`. The emulator never outlives this call,
    nor, on Linux, this process.
    """
    command = [str(emulator.path), "-M", machine.board, *machine.qemu, "-kernel", str(elf)]
    command += ["-display", "none", "-monitor", "none", "-serial", "none", "-nic", "none"]
    command += ["-semihosting-config", "enable=on,target=native"]
    if icount:
        command += ["-icount", f"shift={ICOUNT_SHIFT},align=off,sleep=off"]
    if setpriv := shutil.which("setpriv"):
        command = [setpriv, "--pdeathsig", "KILL", *command]
    log_path = work_dir / "qemu.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(command, cwd=work_dir, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            code = process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise UserError(
                f"the emulated {machine.core} ({machine.board}) did not finish within {timeout_s:g} s",
                place=str(elf),
                hint="run fewer inputs at once or allow more time; a network that never ends is a bug of mcufuse",
            ) from None
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    with log_path.open("rb") as log:
        log.seek(max(0, os.fstat(log.fileno()).st_size - _LOG_TAIL))
        return Ended(code, log.read().decode(errors="replace"))
