# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""The core from Kconfig, and the plan against the board's memory: no Zephyr needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcufuse.config import parse_config
from mcufuse.errors import UserError
from mcufuse.target import Isa
from mcufuse.zephyr.devicetree import Memory, Region
from mcufuse.zephyr.dotconfig import DotConfig, core_from_dotconfig, read_dotconfig
from mcufuse.zephyr.fit import Demand, Placement, Spot, check_fit, resolve_placement

KIB = 1024


def dotconfig(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / ".config"
    path.write_text("\n".join(["# Automatically generated", *lines, "# CONFIG_LOG is not set", ""]))
    return path


@pytest.mark.parametrize(
    ("symbols", "core", "isa"),
    [
        (["CPU_CORTEX_M0PLUS"], "cortex-m0plus", Isa.BASE),
        (["CPU_CORTEX_M23"], "cortex-m0plus", Isa.BASE),
        (["CPU_CORTEX_M3", "ARMV7_M_ARMV8_M_MAINLINE"], "cortex-m3", Isa.BASE),
        (["CPU_CORTEX_M4", "CPU_HAS_FPU"], "cortex-m4", Isa.DSP),
        (["CPU_CORTEX_M7", "FPU"], "cortex-m7", Isa.DSP),
        (["CPU_CORTEX_M33"], "cortex-m33", Isa.BASE),  # mps2/an521/cpu0: compiled with +nodsp
        (["CPU_CORTEX_M33", "ARMV8_M_DSP"], "cortex-m33", Isa.DSP),
        (["CPU_CORTEX_M55", "ARMV8_M_DSP", "ARMV8_1_M_MVEI", "ARMV8_1_M_MVEF", "FPU"], "cortex-m55", Isa.MVE),
        # Without CONFIG_FPU the ABI is soft-float and the compiler has no vector registers.
        (["CPU_CORTEX_M55", "ARMV8_M_DSP", "ARMV8_1_M_MVEI", "CPU_HAS_FPU"], "cortex-m55", Isa.DSP),
        (["CPU_CORTEX_M85", "ARMV8_M_DSP", "ARMV8_1_M_MVEI", "FPU"], "cortex-m55", Isa.MVE),
    ],
)
def test_core(tmp_path: Path, symbols: list[str], core: str, isa: Isa) -> None:
    found = core_from_dotconfig(dotconfig(tmp_path, *(f"CONFIG_{symbol}=y" for symbol in symbols)))
    assert (found.name, found.isa) == (core, isa)


def test_another_architecture_is_refused(tmp_path: Path) -> None:
    path = dotconfig(tmp_path, "CONFIG_RISCV=y", 'CONFIG_ARCH="riscv"', 'CONFIG_BOARD="qemu_riscv32"')
    with pytest.raises(UserError, match=r'"qemu_riscv32" \(riscv\) is no Cortex-M'):
        core_from_dotconfig(path)


def test_a_missing_dotconfig_is_the_users_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot read the Kconfig output"):
        read_dotconfig(tmp_path / "nowhere")


def test_memory_of_a_dotconfig(tmp_path: Path) -> None:
    lines = ["CONFIG_XIP=y", "CONFIG_SRAM_SIZE=64", "CONFIG_FLASH_SIZE=512", "CONFIG_FLASH_LOAD_OFFSET=0x8000"]
    plain = read_dotconfig(dotconfig(tmp_path, *lines, "CONFIG_MAIN_STACK_SIZE=1024"))
    assert (plain.sram_bytes, plain.flash_bytes, plain.main_stack_bytes) == (64 * KIB, 480 * KIB, 1024)
    partition = read_dotconfig(dotconfig(tmp_path, *lines, "CONFIG_FLASH_LOAD_SIZE=0x10000"))
    assert partition.flash_bytes == 64 * KIB
    ram_only = read_dotconfig(dotconfig(tmp_path, *lines[1:]))
    assert ram_only.flash_bytes == 64 * KIB


SRAM = Region("/memory@20000000", "", 0x20000000, 64 * KIB, is_ram=True)
FLASH = Region("/flash@0", "", 0, 256 * KIB, is_ram=False)
FREE = Region("/memory@30000000", "SRAM1", 0x30000000, 32 * KIB, is_ram=True, labels=("sram1",))
QSPI = Region("/memory@90000000", "QSPI", 0x90000000, 1024 * KIB, is_ram=False, labels=("qspi",))
ALIAS = Region("/memory@20008000", "UPPER", 0x20008000, 64 * KIB, is_ram=True, labels=("upper",))
BOARD = DotConfig(
    Path(".config"), {"XIP": "y", "SRAM_SIZE": "64", "FLASH_SIZE": "256", "BOARD": "demo", "BOARD_TARGET": "demo/m3"}
)


def memory(*regions: Region, arena: str = "", weights: str = "") -> Memory:
    return Memory(SRAM, FLASH, regions or (FREE, QSPI, ALIAS), arena, weights)


def demand(**changes: object) -> Demand:
    values = {"name": "kws", "arena": 16 * KIB, "state": 20, "weights": 30 * KIB, "file": "kws.yaml", **changes}
    return Demand(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize("place", ["SRAM1", "&sram1", "/memory@30000000"])
def test_arena_in_a_region(place: str) -> None:
    found = resolve_placement(demand(arena_place=place), memory())
    assert found == Placement(arena=Spot("SRAM1", "SRAM1"))
    assert found.cflags() == [r"-DMCUFUSE_ARENA_SECTION=\"SRAM1\""]


def test_weights_in_a_region_get_a_loaded_section() -> None:
    found = resolve_placement(demand(weights_place="QSPI"), memory())
    assert found.weights == Spot(".mcufuse_weights_QSPI", "QSPI")


def test_chosen_nodes_hold_unless_the_file_says_otherwise() -> None:
    board = memory(arena="/memory@30000000")
    assert resolve_placement(demand(), board).arena.region == "SRAM1"
    assert resolve_placement(demand(arena_place=".bss"), board).arena == Spot()
    assert resolve_placement(demand(arena_place=".noinit"), board).arena == Spot(".noinit", "")


def test_a_region_that_zephyr_fills_is_refused() -> None:
    with pytest.raises(UserError) as caught:
        resolve_placement(demand(arena_place="UPPER"), memory())
    assert "kws.yaml: placement.arena: UPPER" in str(caught.value)
    assert "chosen zephyr,sram (/memory@20000000)" in str(caught.value)
    assert "SRAM1, QSPI" in caught.value.problems[0].hint


def test_all_wrong_places_are_named_at_once() -> None:
    with pytest.raises(UserError) as caught:
        resolve_placement(demand(arena_place="NOWHERE", weights_place="&sram1"), memory())
    assert len(caught.value.problems) == 2
    assert "not a linker region of this board" in str(caught.value)
    assert "SRAM1 is RAM, which holds no constants after a reset" in str(caught.value)


def test_a_board_without_regions_says_how_to_get_one() -> None:
    with pytest.raises(UserError, match="this board has none"):
        resolve_placement(demand(arena_place="SRAM1"), Memory(SRAM, FLASH, (), "", ""))


def test_fit_sums_the_networks_of_an_image() -> None:
    usage = check_fit([(demand(), Placement()), (demand(name="ic"), Placement())], BOARD, memory(), "kws.yaml")
    assert usage["RAM"] == {"size": 64 * KIB, "networks": 2 * (16 * KIB + 20)}
    assert usage["FLASH"] == {"size": 256 * KIB, "networks": 60 * KIB}


def test_weights_that_cannot_fit_are_refused() -> None:
    with pytest.raises(UserError) as caught:
        check_fit([(demand(name="ad", weights=270_880), Placement())], BOARD, memory(), "ad.yaml")
    text = str(caught.value)
    assert "ad.yaml: weights of ad 270,880 B do not fit into FLASH of demo/m3: 262,144 B" in text
    assert "12,832 B too much" in text  # with the least that Zephyr takes


def test_the_arena_is_held_against_its_own_region() -> None:
    big = demand(arena=40 * KIB, arena_place="SRAM1")
    with pytest.raises(UserError, match=r"arena of kws 40,960 B do not fit into SRAM1 .*: 32,768 B; 8,192 B too much"):
        check_fit([(big, resolve_placement(big, memory()))], BOARD, memory(), "kws.yaml")


def test_places_come_from_the_file_only_where_it_says_them(tmp_path: Path) -> None:
    (tmp_path / "kws.tflite").touch()
    report = {"name": "kws", "arena_bytes": 1, "state_bytes": 2, "weights_bytes": 3}
    silent = parse_config("model: kws.tflite\n", tmp_path / "kws.yaml")
    said = parse_config("model: kws.tflite\nplacement: {arena: .bss}\n", tmp_path / "kws.yaml")
    assert Demand.from_files(report, silent).arena_place == ""
    assert Demand.from_files(report, said).arena_place == ".bss"
