# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""Sizes, owners and regions of linked images, against the GNU tools; overlaps; broken files."""

from __future__ import annotations

import dataclasses
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from mcufuse.baremetal import BuiltImage, build
from mcufuse.elf import ImageSizes, check_overlaps, network_names, network_sizes, read_image
from mcufuse.elfmodel import read_model
from mcufuse.errors import UserError
from mcufuse.mapfile import MapRegion, read_map
from mcufuse.target import core_by_name
from mcufuse.toolchain import find_toolchain

pytestmark = pytest.mark.qemu

TINY = Path(__file__).parent / "data" / "tiny"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> BuiltImage:
    return build(TINY, core_by_name("cortex-m3"), out_dir=tmp_path_factory.mktemp("elf"))


@pytest.fixture(scope="module")
def image(built: BuiltImage) -> ImageSizes:
    return built.read()


def without_map(image: ImageSizes) -> ImageSizes:
    return dataclasses.replace(image, regions=(), pieces=())


def tool(name: str, *arguments: object) -> str:
    command = [str(find_toolchain().tool(name)), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def symbol_bytes(object_file: Path, kinds: str) -> int:
    lines = (line.split() for line in tool("nm", "-S", object_file).splitlines())
    return sum(int(words[1], 16) for words in lines if len(words) == 4 and words[2] in kinds)


def test_network_sizes_are_those_of_its_object(built: BuiltImage, image: ImageSizes) -> None:
    network, runtime = built.objects[0], built.objects[1]
    sizes = network_sizes(image, "tiny")
    assert (network.name, runtime.name) == ("tiny.o", "mcufuse.o")
    functions = symbol_bytes(network, "tT") + symbol_bytes(runtime, "tT")
    assert 0 <= sizes.code_bytes - functions < 16  # padding within sections
    strings = len(b"tiny\0") + sum(len(s) + 1 for s in ("x", "y", "scale", "sum"))
    assert 0 <= sizes.weights_bytes - symbol_bytes(network, "rR") - strings < 12  # strings are padded to 4
    assert (sizes.arena_bytes, sizes.state_bytes) == (128, 0)
    assert sizes.flash_bytes == sizes.code_bytes + sizes.weights_bytes


def test_without_a_map_the_symbols_tell_the_same(image: ImageSizes) -> None:
    full, bare = network_sizes(image, "tiny"), network_sizes(without_map(image), "tiny")
    assert 0 <= full.code_bytes - bare.code_bytes < 16  # padding has no symbols
    assert bare.arena_bytes == full.arena_bytes
    assert 0 < full.weights_bytes - bare.weights_bytes < 32  # nor have strings
    assert without_map(image).owners == ()


def test_state_is_what_the_network_keeps_beside_its_arena(tmp_path: Path) -> None:
    text = (TINY / "rows.c").read_text()
    (tmp_path / "rows.c").write_text(text)
    (tmp_path / "rows.h").write_text((TINY / "rows.h").read_text())
    (tmp_path / "report.json").write_text('{"name": "rows"}')
    image = build(tmp_path, core_by_name("cortex-m3"), out_dir=tmp_path / "out").read()
    sizes = network_sizes(image, "rows")
    assert (sizes.arena_bytes, sizes.state_bytes) == (16, 2 + 8)


def test_owners_add_up_to_the_image(image: ImageSizes) -> None:
    names = {owner.name for owner in image.owners}
    assert names == {"network tiny", "mcufuse runtime", "C library", "application"}
    pieces = sum(owner.flash + owner.ram for owner in image.owners)
    sections = sum(s.size for s in image.sections if s.name != ".stack")
    assert 0 <= sections - pieces < 250  # padding and the guards, which belong to nobody


def test_regions_are_as_the_linker_reports(built: BuiltImage, image: ImageSizes) -> None:
    script = built.elf.with_name("image.ld")
    gcc = find_toolchain().gcc
    command = [gcc, *built.core.gcc, "-nostartfiles", "-Wl,--gc-sections", "-Wl,--print-memory-usage", "-T", script]
    command += [*built.objects, "-o", built.elf.with_name("again.elf")]
    usage = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True, timeout=60).stdout
    reported = re.findall(r"^\s*(\w+):\s+(\d+) B\s", usage, re.MULTILINE)
    assert reported == [(region.name, str(region.used)) for region in image.regions]
    assert [region.name for region in image.regions] == ["BOOT", "CODE", "RAM"]
    assert all(region.free == region.length - region.used > 0 for region in image.regions)


def test_the_model_is_read_from_the_image(image: ImageSizes) -> None:
    model = read_model(image, "tiny")
    assert network_names(image) == ("tiny",)
    assert (model.name, model.arena_bytes, model.input_rows, model.feed_row) == ("tiny", 128, 0, "")
    assert [(s.name, s.function, s.macs) for s in model.steps] == [
        ("scale", "tiny_s0_scale", 64),
        ("sum", "tiny_s1_sum", 0),
    ]
    (x,), (y,) = model.inputs, model.outputs
    assert (x.name, x.dtype, x.shape, x.offset, x.n_bytes, x.scale, x.zero_point) == (
        "x", np.int8, (4, 4, 4), 0, 64, 0.5, 0,
    )  # fmt: skip
    assert (y.name, y.shape, y.n_bytes) == ("y", (8,), 8)
    arena = image.symbol("tiny_arena")
    assert arena is not None
    assert model.arena == arena.address
    with pytest.raises(UserError, match='there is no network "other" in the image\n  hint: found: tiny'):
        read_model(image, "other")
    with pytest.raises(UserError, match='there is no network "other" in the image\n  hint: found: tiny'):
        network_sizes(image, "other")


SCRIPT = """
MEMORY {{ FLASH (rx) : ORIGIN = 0, LENGTH = 64K
          RAM (rwx) : ORIGIN = 0x20000000, LENGTH = 64K
          OTHER (rwx) : ORIGIN = {other}, LENGTH = 64K }}
SECTIONS {{
  text : {{ KEEP(*(.text.keep)) }} > FLASH
  datas : {{ KEEP(*(.data.keep)) }} > RAM AT > FLASH
  arena (NOLOAD) : {{ KEEP(*(.noinit.keep)) }} > OTHER
  fast : {{ KEEP(*(.text.fast)) }} > RAM AT > FLASH
  /DISCARD/ : {{ *(*) }}
}}
"""
PROGRAM = """
__attribute__((section(".text.keep"), used)) void keep(void) { }
__attribute__((section(".text.fast"), used)) void fast(void) { }
__attribute__((section(".data.keep"), used)) int data[4] = {1, 2, 3, 4};
__attribute__((section(".noinit.keep,\\"aw\\",%nobits @"), used)) char net_arena[48];
"""


def link(tmp_path: Path, other: str) -> ImageSizes:
    (tmp_path / "x.c").write_text(PROGRAM)
    (tmp_path / "x.ld").write_text(SCRIPT.format(other=other))
    command = [find_toolchain().gcc, "-mcpu=cortex-m3", "-mthumb", "-nostdlib", "-T", tmp_path / "x.ld"]
    command += ["-Wl,--entry=keep", f"-Wl,-Map={tmp_path / 'x.map'}", tmp_path / "x.c", "-o", tmp_path / "x.elf"]
    subprocess.run(list(map(str, command)), check=True, timeout=60)
    return read_image(tmp_path / "x.elf")


def test_load_copies_count_for_both_regions(tmp_path: Path) -> None:
    image = link(tmp_path, "0x30000000")
    check_overlaps(image)
    text, fast, data = (next(s for s in image.sections if s.name == n) for n in ("text", "fast", "datas"))
    used = {region.name: region.used for region in image.regions}
    assert used == {"FLASH": text.size + data.size + fast.size, "RAM": data.size + fast.size, "OTHER": 48}
    assert (data.load_address, fast.load_address) == (text.size, text.size + data.size)
    assert fast.executable
    (owner,) = image.owners
    assert (owner.flash, owner.ram) == (text.size + data.size + fast.size, 48 + data.size + fast.size)


def test_a_silent_overlap_is_an_error(tmp_path: Path) -> None:
    """Two MEMORY regions alias and one section is NOLOAD: ld says nothing."""
    image = link(tmp_path, "0x20000000")
    with pytest.raises(UserError, match=r'section "datas" .* overlaps section "arena"') as error:
        check_overlaps(image)
    assert len(error.value.problems) == 2  # `fast` stands there too


MAP = """\
Discarded input sections

 .text          0x00000000        0x8 gone.o

Memory Configuration

Name             Origin             Length             Attributes
FLASH            0x00000000         0x00040000         xr
RAM              0x20000000         0x00010000         xrw
*default*        0x00000000         0xffffffff

Linker script and memory map

LOAD app/libapp.a
                0x00000000                . = 0x0

text            0x000000ec     0x20a4
                0x000000ec                __text_region_start = .
 *(SORT_BY_ALIGNMENT(.text))
 .text.main     0x000000ec       0x24 app/libapp.a(main.c.obj)
                0x000000ec                main
 .text.a_function_with_a_long_name
                0x00000110       0x10 zephyr/libzephyr.a(long name.c.obj)
 *fill*         0x00000120        0x4
 .text._k_mem$plt
                0x00000124        0x0 zephyr/libzephyr.a(empty.c.obj)

datas           0x20000000       0x28 load address 0x00002868
 .data.x        0x20000000       0x28 zephyr/kernel/libkernel.a(init.c.obj)

a_section_with_a_long_name
                0x20000028       0x10 load address 0x00002890
 COMMON         0x20000028       0x10 plain.o

.debug_info     0x00000000     0x1000
 .debug_info    0x00000000     0x1000 app/libapp.a(main.c.obj)
"""


def test_map_files(tmp_path: Path) -> None:
    path = tmp_path / "a.map"
    path.write_text(MAP)
    regions, pieces = read_map(path)
    assert regions == (MapRegion("FLASH", 0, 0x40000), MapRegion("RAM", 0x20000000, 0x10000))
    found = [(p.output, p.section, p.address, p.size, p.archive, p.member) for p in pieces]
    assert found == [
        ("text", ".text.main", 0xEC, 0x24, "libapp.a", "main.c.obj"),
        ("text", ".text.a_function_with_a_long_name", 0x110, 0x10, "libzephyr.a", "long name.c.obj"),
        ("datas", ".data.x", 0x20000000, 0x28, "libkernel.a", "init.c.obj"),
        ("a_section_with_a_long_name", "COMMON", 0x20000028, 0x10, "", "plain.o"),
        (".debug_info", ".debug_info", 0, 0x1000, "libapp.a", "main.c.obj"),
    ]
    path.write_text("nothing\n")
    with pytest.raises(UserError, match="not a map file of GNU ld"):
        read_map(path)
    with pytest.raises(UserError, match="cannot read it"):
        read_map(tmp_path / "none.map")


def test_broken_files_are_user_errors(built: BuiltImage, tmp_path: Path) -> None:
    whole = built.elf.read_bytes()
    path = tmp_path / "broken.elf"
    with pytest.raises(UserError, match="cannot read it: No such file"):
        read_image(path)
    with pytest.raises(UserError, match="not a linked image for Cortex-M"):
        read_image(built.objects[0])
    rng = np.random.default_rng(1)
    refused = 0
    for trial in range(120):
        data = bytearray(whole[: int(rng.integers(0, len(whole)))] if trial % 3 == 0 else whole)
        for _ in range(int(rng.integers(1, 9)) if data else 0):
            data[int(rng.integers(0, min(len(data), 256 if trial % 3 == 1 else len(data))))] = int(rng.integers(0, 256))
        path.write_bytes(data)
        try:
            image = read_image(path)
            network_sizes(image, "tiny")
            read_model(image, "tiny")
            check_overlaps(image)
        except UserError:
            refused += 1
    assert refused > 40
