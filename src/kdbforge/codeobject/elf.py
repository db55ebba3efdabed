"""Reads AMDGPU ELF files: target, code object version, kernels; trusts nothing in them.

Offload bundles and code objects before version 4 are refused by name.

Fields as in the LLVM AMDGPU usage guide, "ELF Code Object":

| field         | where           | meaning                                         |
|---------------|-----------------|-------------------------------------------------|
| e_machine     | header          | 224, EM_AMDGPU                                  |
| EI_OSABI      | e_ident[7]      | 64, ELFOSABI_AMDGPU_HSA                         |
| EI_ABIVERSION | e_ident[8]      | 2, 3, 4 for code object version 4, 5, 6         |
| processor     | e_flags & 0x0ff | EF_AMDGPU_MACH_AMDGCN_*                         |
| xnack         | e_flags & 0x300 | 0x000 unsupported, 0x100 any, 0x200 off, 0x300 on |
| sramecc       | e_flags & 0xc00 | 0x000 unsupported, 0x400 any, 0x800 off, 0xc00 on |
| kernels       | .dynsym         | data symbols `NAME.kd`: kernel descriptors      |
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from elftools.common.utils import struct_parse
from elftools.elf.elffile import ELFFile

from kdbforge.errors import DatabaseError
from kdbforge.model.target import TargetId

__all__ = ["MAX_OBJECT_BYTES", "CodeObject", "Setting", "check_object", "read_object"]

#: Largest code object that is read; the largest that MIOpen compiles is a few megabytes.
MAX_OBJECT_BYTES = 64 << 20
_MAX_HEADERS = 4096
_MAX_SYMBOLS = 100_000
_MAX_NAME = 16_384

_BUNDLE = b"__CLANG_OFFLOAD_BUNDLE__"
_VERSIONS = {0: 2, 1: 3, 2: 4, 3: 5, 4: 6}  # code object version by EI_ABIVERSION
_SYMBOL = struct.Struct("<IBBHQQ")
_OBJECT = 1  # STT_OBJECT

#: EF_AMDGPU_MACH_AMDGCN_*: the processors that ROCm's compilers have had since code object v4.
#: All but gfx940 and gfx941 (dropped since) were read off objects that a compiler made.
_MACHS: Mapping[int, str] = {
    0x20: "gfx600",
    0x21: "gfx601",
    0x22: "gfx700",
    0x23: "gfx701",
    0x24: "gfx702",
    0x25: "gfx703",
    0x26: "gfx704",
    0x28: "gfx801",
    0x29: "gfx802",
    0x2A: "gfx803",
    0x2B: "gfx810",
    0x2C: "gfx900",
    0x2D: "gfx902",
    0x2E: "gfx904",
    0x2F: "gfx906",
    0x30: "gfx908",
    0x31: "gfx909",
    0x32: "gfx90c",
    0x33: "gfx1010",
    0x34: "gfx1011",
    0x35: "gfx1012",
    0x36: "gfx1030",
    0x37: "gfx1031",
    0x38: "gfx1032",
    0x39: "gfx1033",
    0x3A: "gfx602",
    0x3B: "gfx705",
    0x3C: "gfx805",
    0x3D: "gfx1035",
    0x3E: "gfx1034",
    0x3F: "gfx90a",
    0x40: "gfx940",
    0x41: "gfx1100",
    0x42: "gfx1013",
    0x43: "gfx1150",
    0x44: "gfx1103",
    0x45: "gfx1036",
    0x46: "gfx1101",
    0x47: "gfx1102",
    0x48: "gfx1200",
    0x49: "gfx1250",
    0x4A: "gfx1151",
    0x4B: "gfx941",
    0x4C: "gfx942",
    0x4E: "gfx1201",
    0x4F: "gfx950",
    0x55: "gfx1152",
    0x58: "gfx1153",
    0x5A: "gfx1251",
}


class Setting(Enum):
    """Setting of xnack or sramecc that an object was compiled for; values as in e_flags."""

    UNSUPPORTED = 0  # the processor has no such feature
    ANY = 1  # the object runs under either setting
    OFF = 2
    ON = 3


@dataclass(frozen=True, slots=True)
class CodeObject:
    """What one code object says of itself."""

    arch: str
    sramecc: Setting
    xnack: Setting
    version: int  # code object version
    kernels: tuple[str, ...]  # names of its kernels, sorted

    @property
    def target(self) -> TargetId:
        """Its target ID; a feature whose setting does not matter is not named."""
        return TargetId(self.arch, _named(self.sramecc), _named(self.xnack))


def read_object(data: bytes) -> CodeObject:
    """Read a code object.

    Raises
    ------
    DatabaseError
        If the bytes are no AMDGPU ELF of code object version 4 to 6, or are cut off or damaged.
    """
    _check_ident(data)
    try:
        return _read(data)
    except DatabaseError:
        raise
    except Exception as error:  # pyelftools raises whatever it stumbles over
        raise DatabaseError(f"Code object is damaged: {error or type(error).__name__}") from error


def check_object(data: bytes, target: TargetId) -> CodeObject:
    """Read a code object that must load on a GPU of `target`.

    A feature that `target` does not name may be set either way on the GPU, so that an object
    compiled for one setting is refused.

    Raises
    ------
    DatabaseError
        If it would not load, or cannot be read.
    """
    found = read_object(data)
    if found.arch != target.arch:
        raise DatabaseError(f"Code object is for `{found.target}`, not for `{target}`")
    for feature, setting, wanted in (
        ("sramecc", found.sramecc, target.sramecc),
        ("xnack", found.xnack, target.xnack),
    ):
        if not _loads(setting, wanted):
            raise DatabaseError(
                f"Code object is for `{found.target}`, and would not load on `{target}`: "
                f"{feature} is {setting.name.lower()}"
            )
    return found


def _named(setting: Setting) -> bool | None:
    return {Setting.ON: True, Setting.OFF: False}.get(setting)


def _loads(setting: Setting, wanted: bool | None) -> bool:
    if setting is Setting.UNSUPPORTED:
        return wanted is None
    return setting is Setting.ANY or _named(setting) is wanted


def _check_ident(data: bytes) -> None:
    """Check what can be said without a parser, so that the parser sees 64-bit AMDGPU files only."""
    if len(data) > MAX_OBJECT_BYTES:
        raise DatabaseError(
            f"Code object has {len(data)} bytes; at most {MAX_OBJECT_BYTES} are read"
        )
    if data.startswith(_BUNDLE):
        raise DatabaseError("Code object is a clang offload bundle, not an ELF file")
    if len(data) < 64 or not data.startswith(b"\x7fELF"):
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


def _read(data: bytes) -> CodeObject:
    elf = ELFFile(io.BytesIO(data))
    flags = int(elf["e_flags"])
    arch = _MACHS.get(flags & 0xFF)
    if arch is None:
        raise DatabaseError(f"Code object is for an unknown processor: e_flags {flags:#x}")
    _check_segments(elf, data)
    kernels = sorted(set(_kernels(elf, data)))
    return CodeObject(
        arch=arch,
        sramecc=Setting(flags >> 10 & 3),
        xnack=Setting(flags >> 8 & 3),
        version=_VERSIONS[data[8]],
        kernels=tuple(kernels),
    )


def _headers(elf: ELFFile, kind: str) -> Iterator[Mapping[str, Any]]:
    """All program or section headers; names are not looked up, which has no bound on its work."""
    name, prefix = ("Elf_Phdr", "e_ph") if kind == "program" else ("Elf_Shdr", "e_sh")
    offset, size, count = (int(elf[prefix + key]) for key in ("off", "entsize", "num"))
    layout = getattr(elf.structs, name)
    if count > _MAX_HEADERS or (count and size < layout.sizeof()):
        raise DatabaseError(f"Code object is damaged: {count} {kind} headers of {size} bytes")
    for index in range(count):
        yield struct_parse(layout, elf.stream, offset + index * size)


def _check_segments(elf: ELFFile, data: bytes) -> None:
    loads = 0
    for header in _headers(elf, "program"):
        _slice(data, header["p_offset"], header["p_filesz"], "segment")
        loads += header["p_type"] == "PT_LOAD"
    if not loads:
        raise DatabaseError("Code object is damaged: it has nothing to load")


def _kernels(elf: ELFFile, data: bytes) -> Iterator[str]:
    sections = list(_headers(elf, "section"))
    for section in sections:
        if section["sh_type"] != "SHT_DYNSYM":
            continue
        symbols = _slice(data, section["sh_offset"], section["sh_size"], "symbol table")
        strings = sections[section["sh_link"]]
        names = _slice(data, strings["sh_offset"], strings["sh_size"], "string table")
        if len(symbols) % _SYMBOL.size or len(symbols) > _MAX_SYMBOLS * _SYMBOL.size:
            raise DatabaseError(f"Code object is damaged: a symbol table of {len(symbols)} bytes")
        for name_offset, info, _, index, _, _ in _SYMBOL.iter_unpack(symbols):
            if info & 15 == _OBJECT and index:  # defined here
                name = _name(names, name_offset)
                if name.endswith(".kd"):
                    yield name.removesuffix(".kd")


def _name(strings: bytes, offset: int) -> str:
    end = strings.find(b"\0", offset, offset + _MAX_NAME)
    if end < 0:
        raise DatabaseError("Code object is damaged: a symbol's name does not end")
    return strings[offset:end].decode()


def _slice(data: bytes, offset: int, size: int, what: str) -> bytes:
    if offset + size > len(data):
        raise DatabaseError(f"Code object is cut off: {what} at {offset} has {size} bytes")
    return data[offset : offset + size]
