"""Cuts an AMDGPU ELF file into segments, sections, symbols and notes; trusts nothing in it.

What the parts mean is said elsewhere; here every offset and count is checked before it is used.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import starmap
from typing import NamedTuple

from kdbforge.errors import DatabaseError

__all__ = [
    "MAX_OBJECT_BYTES",
    "Image",
    "Note",
    "Section",
    "Segment",
    "Symbol",
    "read_image",
]

#: Largest code object that is read; the largest that MIOpen compiles is a few megabytes.
MAX_OBJECT_BYTES = 64 << 20
# A linked code object has about ten segments and thirty sections.
_MAX_SEGMENTS = 128
_MAX_SECTIONS = 4096
_MAX_SYMBOLS = 100_000
_MAX_NAME = 16_384
#: Names may share their bytes, so that a small table of them can be read as gigabytes.
_MAX_NAME_BYTES = 8 << 20  # of all symbols of a table
_MAX_NOTES = 1000

# Elf64_Ehdr, Elf64_Phdr, Elf64_Shdr, Elf64_Sym, Elf64_Nhdr of the System V gABI.
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_NOTE = struct.Struct("<III")

_PT_LOAD, _PT_NOTE = 1, 4
_PF_X = 1
_SHT_SYMTAB, _SHT_DYNSYM = 2, 11
STT_OBJECT, STT_FUNC = 1, 2

_BUNDLES = (b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB")
_VERSIONS = {0: 2, 1: 3, 2: 4, 3: 5, 4: 6}  # code object version by EI_ABIVERSION


# A database has millions of the next three, and tuples are made several times as fast as frozen
# dataclasses.


class Segment(NamedTuple):
    """A program header, Elf64_Phdr."""

    kind: int
    flags: int
    offset: int
    address: int
    physical_address: int
    file_size: int
    memory_size: int
    alignment: int

    @property
    def loaded(self) -> bool:
        return self.kind == _PT_LOAD

    @property
    def executable(self) -> bool:
        return bool(self.flags & _PF_X)


class Section(NamedTuple):
    """A section header, Elf64_Shdr."""

    name: int  # offset in a string table; nothing depends on names
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


class Symbol(NamedTuple):
    """A symbol that this file defines."""

    name: str
    kind: int  # STT_OBJECT, STT_FUNC ...
    address: int
    size: int


@dataclass(frozen=True, slots=True)
class Note:
    """One ELF note."""

    owner: bytes
    kind: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Image:
    """An ELF file whose headers are sound; what they point to is checked when asked for."""

    data: bytes
    flags: int
    version: int  # code object version
    segments: tuple[Segment, ...]
    sections: tuple[Section, ...]

    def at(self, address: int, size: int) -> bytes | None:
        """Bytes that are loaded from the file to an address; None where there are none."""
        segment = self.segment_at(address, size)
        if segment is None:
            return None
        start = segment.offset + address - segment.address
        return self.data[start : start + size]

    def segment_at(self, address: int, size: int = 1) -> Segment | None:
        """The loaded segment with these bytes of the file."""
        for segment in self.segments:
            end = segment.address + segment.file_size
            if segment.kind == _PT_LOAD and segment.address <= address and address + size <= end:
                return segment
        return None

    def symbols(self, *, local: bool = False) -> Iterator[Symbol]:
        """Exported symbols; with `local` also those of the full symbol table, where there is one.

        Raises
        ------
        DatabaseError
            If a symbol table is damaged, has more than 100,000 symbols or 16 MiB of names, or is
            not the only one of its kind.
        """
        for section in self._symbol_tables(local=local):
            yield from self._table(section)

    def entry_points(self) -> set[int]:
        """Addresses at which a function begins, by both symbol tables; names are not looked at.

        Raises
        ------
        DatabaseError
            As for `symbols`, but for damaged names.
        """
        return {
            address
            for section in self._symbol_tables(local=True)
            for _, info, _, index, address, _ in _SYMBOL.iter_unpack(self._tables(section)[0])
            if index and info & 15 == STT_FUNC
        }

    def notes(self) -> Iterator[Note]:
        """All notes, as the loader finds them.

        Raises
        ------
        DatabaseError
            If a note is cut off, or there are more than 1,000, or notes overlap.
        """
        count = 0
        found = [segment for segment in self.segments if segment.kind == _PT_NOTE]
        if sum(segment.file_size for segment in found) > len(self.data):
            raise DatabaseError("Code object is damaged: its notes overlap")
        for segment in found:
            for note in _notes(_slice(self.data, segment.offset, segment.file_size, "notes")):
                count += 1
                if count > _MAX_NOTES:
                    raise DatabaseError("Code object is damaged: it has too many notes")
                yield note

    def _symbol_tables(self, *, local: bool) -> list[Section]:
        kinds = (_SHT_DYNSYM, _SHT_SYMTAB) if local else (_SHT_DYNSYM,)
        found = [section for section in self.sections if section.kind in kinds]
        # gABI, "Sections": an object file may have only one section of each of both types.
        if len(found) > len({section.kind for section in found}):
            raise DatabaseError(f"Code object is damaged: it has {len(found)} symbol tables")
        for section in found:
            if section.offset + section.size > len(self.data):
                raise _cut_off("symbol table", section.offset, section.size)
        if sum(section.size for section in found) > _MAX_SYMBOLS * _SYMBOL.size:
            raise DatabaseError("Code object is damaged: its symbol tables are too large")
        return found

    def _tables(self, section: Section) -> tuple[bytes, Section]:
        """Bytes of a symbol table, and its string table."""
        symbols = _slice(self.data, section.offset, section.size, "symbol table")
        if section.link >= len(self.sections):
            raise DatabaseError("Code object is damaged: a symbol table has no string table")
        strings = self.sections[section.link]
        if strings.offset + strings.size > len(self.data):
            raise _cut_off("string table", strings.offset, strings.size)
        if len(symbols) % _SYMBOL.size:
            raise DatabaseError(f"Code object is damaged: a symbol table of {len(symbols)} bytes")
        return symbols, strings

    def _table(self, section: Section) -> Iterator[Symbol]:
        symbols, strings = self._tables(section)
        data, first, behind = self.data, strings.offset, strings.offset + strings.size
        room = _MAX_NAME_BYTES
        for name, info, _, index, address, size in _SYMBOL.iter_unpack(symbols):
            if index:  # defined here
                start = first + name
                end = data.find(b"\0", start, min(start + _MAX_NAME, behind))
                if end < 0:
                    raise DatabaseError("Code object is damaged: a symbol's name does not end")
                room -= end - start
                if room < 0:  # names may overlap
                    raise DatabaseError("Code object is damaged: its symbols' names overlap")
                try:
                    text = data[start:end].decode()
                except UnicodeDecodeError:
                    raise DatabaseError(
                        "Code object is damaged: a symbol's name is not UTF-8"
                    ) from None
                yield Symbol(text, info & 15, address, size)


def read_image(data: bytes) -> Image:
    """Read the headers of a code object.

    Raises
    ------
    DatabaseError
        If the bytes are no AMDGPU ELF of code object version 4 to 6, or are cut off or damaged.
    """
    _check_ident(data)
    header = _HEADER.unpack_from(data)
    (_, _, _, _, _, phoff, shoff, flags, _, phentsize, phnum, shentsize, shnum, _) = header
    program = _headers(data, _SEGMENT, phoff, phentsize, phnum, "program", _MAX_SEGMENTS)
    section = _headers(data, _SECTION, shoff, shentsize, shnum, "section", _MAX_SECTIONS)
    segments = tuple(starmap(Segment, program))
    sections = tuple(starmap(Section, section))
    _check_segments(data, segments)
    return Image(data, flags, _VERSIONS[data[8]], segments, sections)


def _check_ident(data: bytes) -> None:
    if len(data) > MAX_OBJECT_BYTES:
        raise DatabaseError(
            f"Code object has {len(data)} bytes; at most {MAX_OBJECT_BYTES} are read"
        )
    if data.startswith(_BUNDLES):
        raise DatabaseError("Code object is a clang offload bundle, not an ELF file")
    if len(data) < _HEADER.size or not data.startswith(b"\x7fELF"):
        raise DatabaseError(f"Code object is not an ELF file: it starts with `{data[:8].hex()}`")
    machine = int.from_bytes(data[18:20], "little")
    if data[4:6] != b"\x02\x01" or machine != 224:
        raise DatabaseError(f"ELF file is not for AMD GPUs: e_machine is {machine}")
    version = _VERSIONS.get(data[8])
    if data[7] != 64 or version is None or version < 4:
        raise DatabaseError(
            f"Code object version is not supported: OS ABI {data[7]}, ABI version {data[8]}; "
            "supported are versions 4, 5 and 6 (64 and 2, 3, 4)"
        )


def _headers(
    data: bytes, layout: struct.Struct, offset: int, size: int, count: int, kind: str, most: int
) -> Iterator[tuple[int, ...]]:
    if count > most or (count and size < layout.size):
        raise DatabaseError(f"Code object is damaged: {count} {kind} headers of {size} bytes")
    if count and offset + size * count > len(data):
        raise DatabaseError(f"Code object is cut off: {count} {kind} headers at {offset}")
    if size == layout.size:
        yield from layout.iter_unpack(data[offset : offset + size * count])
    else:
        for index in range(count):
            yield layout.unpack_from(data, offset + index * size)


def _check_segments(data: bytes, segments: tuple[Segment, ...]) -> None:
    for segment in segments:
        _check_range(data, segment.offset, segment.file_size, "segment")
    if not any(segment.loaded for segment in segments):
        raise DatabaseError("Code object is damaged: it has nothing to load")


def _notes(data: bytes) -> Iterator[Note]:
    at = 0
    while at + _NOTE.size <= len(data):
        name_size, size, kind = _NOTE.unpack_from(data, at)
        name_at = at + _NOTE.size
        content_at = name_at + (name_size + 3 & ~3)
        owner = _slice(data, name_at, name_size, "note")
        yield Note(owner.rstrip(b"\0"), kind, _slice(data, content_at, size, "note"))
        at = content_at + (size + 3 & ~3)


def _slice(data: bytes, offset: int, size: int, what: str) -> bytes:
    _check_range(data, offset, size, what)
    return data[offset : offset + size]


def _check_range(data: bytes, offset: int, size: int, what: str) -> None:
    if offset + size > len(data):
        raise _cut_off(what, offset, size)


def _cut_off(what: str, offset: int, size: int) -> DatabaseError:
    return DatabaseError(f"Code object is cut off: {what} at {offset} has {size} bytes")
