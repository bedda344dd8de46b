# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Calls and stack frames of the functions in a linked image, from objdump's disassembly.

Every call is seen here, those into libgcc and the C library and tail calls included, whatever the
compiler's own call graph leaves out.
"""

from __future__ import annotations

import re
import subprocess
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

from .errors import UserError
from .toolchain import Toolchain

__all__ = ["Function", "disassemble", "parse_disassembly"]

_TIMEOUT_S = 120
_COND = "(?:eq|ne|cs|hs|cc|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le|al)?"
_WIDTH = r"(?:\.[nw])?"
_HEADING = re.compile(r"^([0-9a-f]+) <(.+)>:$")
_INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\t(\S+)(?:\t(.*))?$")
_BRANCH = re.compile(rf"^(?:bl?{_COND}|blx|cbn?z){_WIDTH}$")
_CALL = re.compile(rf"^blx?{_WIDTH}$")
_TARGET = re.compile(r"(?:^|,\s*)([0-9a-f]+) <")
_INDIRECT = re.compile(rf"^b(l?)x(?:ns)?{_COND}$")
_REGISTER_LIST = re.compile(r"\{([^}]*)\}")
_PUSH = re.compile(rf"^push{_COND}{_WIDTH}$")
_STORE_DOWN = re.compile(rf"^stmdb{_COND}{_WIDTH}$")
_VPUSH = re.compile(rf"^(?:vpush|vstmdb){_COND}$")
_STORE_PRE = re.compile(r"\[sp, #-(\d+)\]!")
_ADD_SP = re.compile(r"^sp, (?:sp, )?(r\d+|ip|lr|fp|sl)$")
_MOVE = re.compile(r"^(?!sp)\w+, #(\d+)$")
_SHIFT = re.compile(r"^\w+, (\w+), #(\d+)$")
_FRAME_POINTERS = ("r7", "fp", "r11")  # from which a function restores the stack pointer
_LITERAL = re.compile(r"^\(?([0-9a-f]+) <")
_SUB_SP = re.compile(r"^sp, (?:sp, )?#(\d+)$")
_ENDS = re.compile(rf"^(?:b{_WIDTH}|bx|udf|pop{_WIDTH}|ldmia{_WIDTH}|ldr{_WIDTH}|mov)$")


@dataclass(frozen=True, slots=True)
class Function:
    """One function of the image, or a labelled part of one that is written in assembly."""

    name: str
    address: int
    frame: int  # bytes that all its pushes and subtractions take together
    moves_sp: bool  # changes the stack pointer by an amount that cannot be read off
    calls: tuple[int, ...]  # addresses of functions, tail calls included
    indirect: int  # calls and jumps through a register
    falls_into: int | None  # what stands behind it, when it runs on into that


def disassemble(elf: Path, toolchain: Toolchain) -> dict[int, Function]:
    """The functions of `elf` by address; raises `UserError` when objdump fails."""
    command = [str(toolchain.tool("objdump")), "-d", "--no-show-raw-insn", str(elf)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise UserError(f"cannot disassemble it: {error}", place=str(elf), hint="run mcufuse doctor") from error
    return parse_disassembly(done.stdout)


def parse_disassembly(text: str) -> dict[int, Function]:
    """The functions in the output of `objdump -d --no-show-raw-insn`, by address."""
    bodies: list[tuple[int, str, list[_Instruction]]] = []
    words: dict[int, int] = {}
    for line in text.splitlines():
        if heading := _HEADING.match(line):
            bodies.append((int(heading[1], 16), heading[2], []))
        elif bodies and (found := _INSTRUCTION.match(line)):
            operands, _, comment = re.sub(r"\s*[@;]\s*", "@", found[3] or "", count=1).partition("@")
            literal = _LITERAL.match(comment)
            if found[2] == ".word":
                words[int(found[1], 16)] = int(operands, 16)
            bodies[-1][2].append(_Instruction(found[2], operands.strip(), int(literal[1], 16) if literal else None))
    starts = sorted(address for address, _, _ in bodies)
    functions = {}
    for index, (address, name, body) in enumerate(bodies):
        behind = bodies[index + 1][0] if index + 1 < len(bodies) else None
        frame, moves_sp = _frame(body, words)
        calls, indirect = _calls(address, body, starts)
        code = [i for i in body if not i.mnemonic.startswith(".") and i.mnemonic != "nop"]
        ends = not code or _ends(code[-1])
        functions[address] = Function(name, address, frame, moves_sp, calls, indirect, None if ends else behind)
    return functions


@dataclass(frozen=True, slots=True)
class _Instruction:
    mnemonic: str
    operands: str
    literal: int | None  # address of the constant that it loads


def _frame(body: list[_Instruction], words: dict[int, int]) -> tuple[int, bool]:
    """Bytes that all instructions together take from the stack, and whether some cannot be told."""
    taken, unknown = 0, False
    loaded: dict[str, int] = {}  # register -> constant, for frames too large for one instruction of Armv6-M
    for instruction in body:
        mnemonic, operands = instruction.mnemonic, instruction.operands
        constant = _constant(instruction, words, loaded)
        if constant is not None:
            loaded[operands.split(",", 1)[0]] = constant
            continue
        if mnemonic.startswith("add") and (found := _ADD_SP.match(operands)):
            size: int | None = -_signed(loaded[found[1]]) if found[1] in loaded else None
        else:
            size = _stack_taken(mnemonic, operands)
            loaded.pop(operands.split(",", 1)[0], None)
        unknown = unknown or size is None
        taken += max(size or 0, 0)
    return taken, unknown


def _constant(instruction: _Instruction, words: dict[int, int], loaded: dict[str, int]) -> int | None:
    """The constant that an instruction leaves in its first operand, if it is one."""
    mnemonic, operands = instruction.mnemonic, instruction.operands
    if mnemonic.startswith("ldr"):
        return words.get(instruction.literal) if instruction.literal is not None else None
    if mnemonic in ("mov", "movs", "mov.w", "movw") and (found := _MOVE.match(operands)):
        return int(found[1])
    if mnemonic == "lsls" and (shift := _SHIFT.match(operands)) and shift[1] in loaded:
        return loaded[shift[1]] << int(shift[2]) & 0xFFFFFFFF
    return None


def _calls(address: int, body: list[_Instruction], starts: list[int]) -> tuple[tuple[int, ...], int]:
    """Functions that are called or jumped to, and the number of calls through a register."""
    calls: dict[int, None] = {}
    indirect = 0
    for instruction in body:
        mnemonic, operands = instruction.mnemonic, instruction.operands
        if _BRANCH.match(mnemonic) and (found := _TARGET.search(operands)):
            target = int(found[1], 16)
            home = starts[max(0, bisect_right(starts, target) - 1)]
            # A call of itself is recursion, a jump within itself is a loop.
            if home != address or (_CALL.match(mnemonic) and target == address):
                calls[home] = None
        elif _INDIRECT.match(mnemonic) and operands != "lr":
            indirect += 1
    return tuple(calls), indirect


def _stack_taken(mnemonic: str, operands: str) -> int | None:
    """Bytes that an instruction takes from the stack; None when it cannot be told."""
    if _PUSH.match(mnemonic) or (_STORE_DOWN.match(mnemonic) and operands.startswith("sp!")):
        return 4 * _registers(operands)
    if _VPUSH.match(mnemonic) and (mnemonic.startswith("vpush") or operands.startswith("sp!")):
        return (8 if "{d" in operands else 4) * _registers(operands)
    if pre := _STORE_PRE.search(operands):
        return int(pre[1])
    if mnemonic.startswith("sub") and operands.startswith("sp,"):
        found = _SUB_SP.match(operands)
        return int(found[1]) if found else None
    if mnemonic == "mov" and operands.startswith("sp,") and operands[4:] not in _FRAME_POINTERS:
        return None
    return 0


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word


def _registers(operands: str) -> int:
    found = _REGISTER_LIST.search(operands)
    count = 0
    for part in found[1].split(",") if found else ():
        first, _, last = part.strip().partition("-")
        count += int(re.sub(r"\D", "", last)) - int(re.sub(r"\D", "", first)) + 1 if last else 1
    return count


def _ends(instruction: _Instruction) -> bool:
    """Whether nothing behind this instruction is run next."""
    mnemonic, operands = instruction.mnemonic, instruction.operands
    if not _ENDS.match(mnemonic):
        return False
    if mnemonic.startswith(("pop", "ldm")):
        return "pc" in operands
    if mnemonic.startswith(("ldr", "mov")):
        return operands.startswith("pc,")
    return True
