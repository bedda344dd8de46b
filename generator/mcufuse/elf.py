# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
"""What stands where in a linked image, and who it belongs to.

Sizes are taken from the ELF file and, where there is one, from GNU ld's map file. Sections are known
by their flags and addresses, never by their names, so that Zephyr images (`datas`, `noinit`, ...) and
bare-metal ones are read alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from .errors import Problems, UserError
from .mapfile import MapRegion, Piece, read_map

__all__ = [
    "ImageSizes",
    "NetworkSizes",
    "Owner",
    "Region",
    "Section",
    "Symbol",
    "check_overlaps",
    "network_names",
    "network_sizes",
    "read_image",
]

_SHF_WRITE, _SHF_ALLOC, _SHF_EXEC, _SHF_TLS = 1, 2, 4, 0x400
_MODEL_SUFFIX = "_model"
_RUNTIME = ("mcufuse_init", "mcufuse_input", "mcufuse_output", "mcufuse_run", "mcufuse_feed_rows")


@dataclass(frozen=True, slots=True)
class Section:
    """An output section that takes memory on the target."""

    name: str
    address: int
    size: int
    load_address: int | None  # of the bytes in flash that are copied to `address` at start, if any
    writable: bool
    executable: bool
    in_file: bool  # False: cleared or left alone at start (NOBITS)

    @property
    def end(self) -> int:
        """First address behind it."""
        return self.address + self.size


@dataclass(frozen=True, slots=True)
class Region:
    """A MEMORY region of the linker script; `used` is the high-water mark, as ld reports it."""

    name: str
    origin: int
    length: int
    used: int

    @property
    def free(self) -> int:
        """Bytes left; negative when it overflows."""
        return self.length - self.used


@dataclass(frozen=True, slots=True)
class Symbol:
    """A function or an object; the Thumb bit is left out of `address`."""

    name: str
    address: int
    size: int
    is_function: bool
    source: str  # file symbol before a local one; "" for a global one


@dataclass(slots=True)
class Owner:
    """Bytes that one owner has in the image."""

    name: str
    code: int = 0  # executable
    constants: int = 0  # read-only data
    data: int = 0  # initialised variables: they take RAM, and flash for the load copy
    zeroed: int = 0  # variables without initial value: they take RAM
    relocated: int = 0  # code and constants, counted above, that also take RAM because they run from it

    @property
    def flash(self) -> int:
        """Bytes of flash, load copies included."""
        return self.code + self.constants + self.data

    @property
    def ram(self) -> int:
        """Bytes of RAM."""
        return self.data + self.zeroed + self.relocated


@dataclass(frozen=True)
class ImageSizes:
    """A linked image."""

    path: Path
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]
    regions: tuple[Region, ...] = ()  # empty without a map file
    pieces: tuple[Piece, ...] = ()  # input sections; empty without a map file
    short_enums: bool = True
    contents: dict[int, bytes] = field(default_factory=dict, repr=False)  # address -> bytes of a section

    @cached_property
    def owners(self) -> tuple[Owner, ...]:
        """Who owns how much, largest first; empty without a map file."""
        networks = {piece.file: name for name in network_names(self) for piece in _network_pieces(self, name)}
        found: dict[str, Owner] = {}
        for piece in self.pieces:
            section = self.section_at(piece.address)
            if section is None:
                continue
            name = _owner_name(piece, networks)
            _charge(found.setdefault(name, Owner(name)), section, piece.size)
        return tuple(sorted(found.values(), key=lambda o: (-(o.flash + o.ram), o.name)))

    @cached_property
    def _by_name(self) -> dict[str, Symbol]:
        return {symbol.name: symbol for symbol in reversed(self.symbols)}

    @cached_property
    def _functions(self) -> dict[int, Symbol]:
        return {symbol.address: symbol for symbol in reversed(self.symbols) if symbol.is_function}

    def symbol(self, name: str) -> Symbol | None:
        """The symbol called `name`, or None."""
        return self._by_name.get(name)

    def function_at(self, address: int) -> Symbol | None:
        """The function that begins at `address` (the Thumb bit is ignored)."""
        return self._functions.get(address & ~1)

    def section_at(self, address: int) -> Section | None:
        """The section that holds `address`, or None."""
        return next((s for s in self.sections if s.address <= address < s.end), None)

    def read(self, address: int, size: int) -> bytes:
        """`size` bytes of the file at `address`; raises `KeyError` where the file holds none."""
        for start, data in self.contents.items():
            if start <= address and address + size <= start + len(data):
                return data[address - start : address - start + size]
        raise KeyError(f"{address:#x}")


@dataclass(frozen=True, slots=True)
class NetworkSizes:
    """What one network takes, in bytes."""

    code_bytes: int  # its functions and the mcufuse runtime
    weights_bytes: int  # its read-only data: weights, tables, descriptions
    arena_bytes: int
    state_bytes: int  # its other variables

    @property
    def flash_bytes(self) -> int:
        """Code and weights."""
        return self.code_bytes + self.weights_bytes


def read_image(elf_path: Path, map_path: Path | None = None) -> ImageSizes:
    """Reads `elf_path`, and the map file beside it unless another is named.

    Without a map file there are no regions and no pieces. Raises `UserError` for a file that is not a
    linked 32-bit little-endian Arm ELF, or a map file that cannot be read.
    """
    from elftools.common.exceptions import ELFError
    from elftools.construct import ConstructError
    from elftools.elf.elffile import ELFFile

    try:
        with elf_path.open("rb") as file:
            elf = ELFFile(file)
            if (
                elf["e_machine"] != "EM_ARM"
                or elf.elfclass != 32
                or not elf.little_endian
                or elf["e_type"] != "ET_EXEC"
            ):
                raise UserError(
                    "not a linked image for Cortex-M",
                    place=str(elf_path),
                    hint="give the final .elf, for example build/zephyr/zephyr.elf",
                )
            sections, contents = _sections(elf)
            symbols = _symbols(elf)
            short_enums = _short_enums(elf)
    except OSError as error:
        raise UserError(f"cannot read it: {error.strerror}", place=str(elf_path)) from error
    except (ELFError, ConstructError, UnicodeDecodeError, ValueError, KeyError) as error:
        raise UserError(f"not a readable ELF file: {error}", place=str(elf_path)) from error
    map_path = map_path or (beside if (beside := elf_path.with_suffix(".map")).is_file() else None)
    regions: tuple[MapRegion, ...] = ()
    pieces: tuple[Piece, ...] = ()
    if map_path is not None:
        regions, all_pieces = read_map(map_path)
        in_memory = {section.name for section in sections}
        pieces = tuple(piece for piece in all_pieces if piece.output in in_memory)
    return ImageSizes(elf_path, sections, symbols, _usage(regions, sections), pieces, short_enums, contents)


def check_overlaps(image: ImageSizes) -> None:
    """Raises `UserError` if two sections share addresses, where they run or where they are loaded.

    GNU ld does not object when two MEMORY regions alias and one section is NOLOAD.
    """
    problems = Problems()
    running = [(s.address, s.end, s.name) for s in image.sections]
    loaded = [(s.load_address, s.load_address + s.size, s.name) for s in image.sections if s.load_address is not None]
    loaded += [(s.address, s.end, s.name) for s in image.sections if s.in_file and s.load_address is None]
    for what, ranges in (("", running), ("the load copy of ", loaded)):
        for (start, end, name), (other_start, other_end, other) in _overlapping(ranges):
            problems.add(
                f'{what}section "{name}" ({start:#010x} to {end:#010x}) overlaps section "{other}" '
                f"({other_start:#010x} to {other_end:#010x})",
                place=str(image.path),
                hint="two memory regions of the devicetree or linker script cover the same addresses; "
                "place the arena or the weights elsewhere",
            )
    problems.raise_if_any()


def network_names(image: ImageSizes) -> tuple[str, ...]:
    """The networks in the image: every `<name>_model` that comes with a `<name>_arena`."""
    objects = {s.name for s in image.symbols if not s.is_function}
    names = (s.removesuffix(_MODEL_SUFFIX) for s in objects if s.endswith(_MODEL_SUFFIX))
    return tuple(sorted(n for n in names if n and f"{n}_arena" in objects))


def network_sizes(image: ImageSizes, name: str) -> NetworkSizes:
    """What the network `name` takes; raises `UserError` when it is not in the image.

    With a map file everything of the generated object counts; without one, its symbols.
    """
    model = image.symbol(f"{name}{_MODEL_SUFFIX}")
    if model is None:
        known = ", ".join(network_names(image)) or "none"
        raise UserError(f'there is no network "{name}" in the image', place=str(image.path), hint=f"found: {known}")
    arena = image.symbol(f"{name}_arena")
    arena_bytes = arena.size if arena else 0
    own, runtime = Owner(name), Owner("mcufuse")
    if image.pieces:
        for piece in _network_pieces(image, name):
            _charge_piece(image, own, piece.address, piece.size)
        for piece in image.pieces:
            if _is_runtime(piece):
                _charge_piece(image, runtime, piece.address, piece.size)
    else:
        _charge_symbols(image, name, own, runtime)
    return NetworkSizes(
        code_bytes=own.code + runtime.code,
        weights_bytes=own.constants,
        arena_bytes=arena_bytes,
        state_bytes=max(0, own.ram - arena_bytes),
    )


def _charge_symbols(image: ImageSizes, name: str, own: Owner, runtime: Owner) -> None:
    """Without a map: symbols of the file `<name>.c`, or all that begin with the network's name."""
    model = image.symbol(f"{name}{_MODEL_SUFFIX}")
    file = f"{name}.c"
    by_file = any(s.source == file for s in image.symbols)
    seen: set[int] = set()
    for symbol in image.symbols:
        if symbol.address in seen or symbol.size == 0:
            continue
        if symbol == model or (symbol.source == file if by_file else symbol.name.startswith(f"{name}_")):
            _charge_piece(image, own, symbol.address, symbol.size)
        elif symbol.is_function and symbol.name in _RUNTIME:
            _charge_piece(image, runtime, symbol.address, symbol.size)
        else:
            continue
        seen.add(symbol.address)


def _charge_piece(image: ImageSizes, owner: Owner, address: int, size: int) -> None:
    section = image.section_at(address)
    if section is not None:
        _charge(owner, section, size)


def _charge(owner: Owner, section: Section, size: int) -> None:
    if not section.in_file:
        owner.zeroed += size
    elif section.executable:
        owner.code += size
    elif section.writable:
        owner.data += size
    else:
        owner.constants += size
    if section.load_address is not None and (section.executable or not section.writable):
        owner.relocated += size


def _network_pieces(image: ImageSizes, name: str) -> Iterable[Piece]:
    model = image.symbol(f"{name}{_MODEL_SUFFIX}")
    if model is None:
        return
    home = next((p for p in image.pieces if p.address <= model.address < p.address + p.size), None)
    if home is not None:
        yield from (p for p in image.pieces if p.file == home.file)


def _is_runtime(piece: Piece) -> bool:
    """firmware/src/mcufuse.c, which every network needs: in an archive under Zephyr; the self-test does not count."""
    return piece.archive in ("", "libmcufuse.a") and piece.member in ("mcufuse.o", "mcufuse.c.obj")


def _owner_name(piece: Piece, networks: dict[str, str]) -> str:
    if piece.file in networks:
        return f"network {networks[piece.file]}"
    if _is_runtime(piece):
        return "mcufuse runtime"
    if piece.archive.startswith("libmcufuse"):
        return "mcufuse, other"
    if piece.archive == "libgcc.a":
        return "libgcc"
    if piece.archive in ("libc.a", "libc_nano.a", "libm.a", "libc_minimal.a", "liblib__libc__minimal.a"):
        return "C library"
    if piece.archive == "libapp.a" or not piece.archive:
        return "application"
    return "Zephyr and others"


def _sections(elf: object) -> tuple[tuple[Section, ...], dict[int, bytes]]:
    from elftools.elf.elffile import ELFFile

    assert isinstance(elf, ELFFile)
    loads = [s for s in elf.iter_segments() if s["p_type"] == "PT_LOAD"]
    found: list[Section] = []
    contents: dict[int, bytes] = {}
    for section in elf.iter_sections():
        flags, size, address = section["sh_flags"], section["sh_size"], section["sh_addr"]
        if not flags & _SHF_ALLOC or size == 0 or (flags & _SHF_TLS and section["sh_type"] == "SHT_NOBITS"):
            continue
        in_file = section["sh_type"] != "SHT_NOBITS"
        load = None
        for segment in loads if in_file else ():
            inside = section["sh_offset"] - segment["p_offset"]
            if inside >= 0 and inside + size <= segment["p_filesz"]:
                load = segment["p_paddr"] + inside
        found.append(
            Section(
                name=section.name,
                address=address,
                size=size,
                load_address=load if load != address else None,
                writable=bool(flags & _SHF_WRITE),
                executable=bool(flags & _SHF_EXEC),
                in_file=in_file,
            )
        )
        if in_file:
            contents[address] = section.data()
    return tuple(sorted(found, key=lambda s: (s.address, s.size))), contents


def _symbols(elf: object) -> tuple[Symbol, ...]:
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection

    assert isinstance(elf, ELFFile)
    table = elf.get_section_by_name(".symtab")
    if not isinstance(table, SymbolTableSection):
        return ()
    found: list[Symbol] = []
    source = ""
    for entry in table.iter_symbols():
        kind, bind = entry["st_info"]["type"], entry["st_info"]["bind"]
        if kind == "STT_FILE":
            source = entry.name
        elif kind in ("STT_FUNC", "STT_OBJECT") and entry["st_shndx"] != "SHN_UNDEF":
            is_function = kind == "STT_FUNC"
            address = entry["st_value"] & ~1 if is_function else entry["st_value"]
            local = source if bind == "STB_LOCAL" else ""
            found.append(Symbol(entry.name, address, entry["st_size"], is_function, local))
    return tuple(found)


def _short_enums(elf: object) -> bool:
    """Whether an enum takes as few bytes as it needs (Tag_ABI_enum_size 1), the rule on bare metal."""
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import ARMAttributesSection

    assert isinstance(elf, ELFFile)
    for section in elf.iter_sections():
        if isinstance(section, ARMAttributesSection):
            for sub in section.iter_subsections():
                for group in sub.iter_subsubsections():
                    for attribute in group.iter_attributes("TAG_ABI_ENUM_SIZE"):
                        return bool(attribute.value == 1)
    return True


def _usage(regions: Iterable[MapRegion], sections: tuple[Section, ...]) -> tuple[Region, ...]:
    found = []
    for region in regions:
        end = region.origin + region.length
        marks = [s.end for s in sections if region.origin <= s.address < end]
        marks += [
            s.load_address + s.size
            for s in sections
            if s.load_address is not None and region.origin <= s.load_address < end
        ]
        found.append(
            Region(region.name, region.origin, region.length, max(marks, default=region.origin) - region.origin)
        )
    return tuple(found)


_Range = tuple[int, int, str]


def _overlapping(ranges: list[_Range]) -> Iterable[tuple[_Range, _Range]]:
    """Pairs of ranges that share an address; quadratic, because the linker script's sections are few."""
    ordered = sorted(ranges)
    for i, first in enumerate(ordered):
        for second in ordered[i + 1 :]:
            if second[0] >= first[1]:
                break
            yield first, second
