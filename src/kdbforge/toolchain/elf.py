"""What the loader sees in a host ELF file: names, folders, versions, build ID.

Reads headers and dynamic sections only; AMDGPU code objects are `kdbforge.codeobject`'s.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerDefSection, GNUVerNeedSection
from elftools.elf.sections import NoteSection

from kdbforge.errors import ToolchainError

__all__ = ["ElfFile", "contains", "host_machine", "machine_name", "read_elf", "read_machine"]

_MACHINES = {3: "x86", 21: "ppc64", 40: "arm", 62: "x86-64", 183: "aarch64", 224: "AMD GPU"}
_MACHINES |= {243: "riscv", 258: "loongarch"}
_VER_FLG_WEAK = 2


@dataclass(frozen=True, slots=True)
class ElfFile:
    """The loader's view of one ELF file."""

    path: Path
    machine: int  # e_machine
    needed: tuple[str, ...]  # DT_NEEDED
    soname: str | None  # DT_SONAME
    search: tuple[str, ...]  # DT_RPATH or DT_RUNPATH, $ORIGIN not yet replaced
    build_id: str  # GNU build ID in hex, "" when there is none
    versions_needed: tuple[tuple[str, str], ...]  # (library, version), .gnu.version_r
    versions_defined: frozenset[str]  # .gnu.version_d

    def search_folders(self) -> Iterator[Path]:
        """Yield the folders that the file itself sends the loader to."""
        origin = str(self.path.resolve().parent)
        for entry in self.search:
            folder = entry.replace("${ORIGIN}", origin).replace("$ORIGIN", origin)
            yield Path(os.path.normpath(folder))  # the origin is resolved, so `..` is its parent


def machine_name(machine: int) -> str:
    """Name an e_machine value for a message."""
    return _MACHINES.get(machine, f"machine {machine}")


def read_machine(path: Path) -> int:
    """Read e_machine from the first 20 bytes.

    Raises
    ------
    ToolchainError
        If the file is missing, not readable, or no little-endian ELF file.
    """
    try:
        with path.open("rb") as data:
            head = data.read(20)
    except OSError as error:
        raise ToolchainError(f"Cannot read `{path}`: {error.strerror}") from error
    if len(head) < 20 or head[:4] != b"\x7fELF" or head[5] != 1:
        raise ToolchainError(f"`{path}` is not an ELF file")
    return int.from_bytes(head[18:20], "little")


def host_machine() -> int:
    """Give the e_machine of programs that this very process can run."""
    return read_machine(Path("/proc/self/exe"))


def read_elf(path: Path) -> ElfFile:
    """Read the loader's view of a library or program.

    Raises
    ------
    ToolchainError
        If the file is missing, not readable, no ELF file, or damaged.
    """
    machine = read_machine(path)
    try:
        with path.open("rb") as data:
            return _parse(path, machine, ELFFile(data))
    except (ELFError, ValueError, KeyError, AttributeError, UnicodeDecodeError) as error:
        raise ToolchainError(f"`{path}` is a damaged ELF file", context=[str(error)]) from error


def _parse(path: Path, machine: int, elf: ELFFile) -> ElfFile:
    needed: list[str] = []
    search: list[str] = []
    soname, build_id = None, ""
    wanted: list[tuple[str, str]] = []
    defined: set[str] = set()
    for section in elf.iter_sections():
        if isinstance(section, DynamicSection):
            for tag in cast("Iterable[Any]", section.iter_tags()):
                if tag.entry.d_tag == "DT_NEEDED":
                    needed.append(tag.needed)
                elif tag.entry.d_tag == "DT_SONAME":
                    soname = tag.soname
                elif tag.entry.d_tag in ("DT_RPATH", "DT_RUNPATH"):
                    text = tag.runpath if tag.entry.d_tag == "DT_RUNPATH" else tag.rpath
                    search += [entry for entry in text.split(":") if entry]
        elif isinstance(section, GNUVerNeedSection):
            wanted += _version_pairs(section.iter_versions())
        elif isinstance(section, GNUVerDefSection):
            defined |= {next(names).name for _, names in section.iter_versions()}
        elif isinstance(section, NoteSection):
            build_id = _build_id(section) or build_id
    return ElfFile(
        path, machine, tuple(needed), soname, tuple(search), build_id, tuple(wanted),
        frozenset(defined),
    )  # fmt: skip


def _version_pairs(entries: Iterable[tuple[Any, Any]]) -> Iterator[tuple[str, str]]:
    for library, versions in entries:
        for version in versions:
            if not version["vna_flags"] & _VER_FLG_WEAK:
                yield library.name, version.name


def _build_id(section: NoteSection) -> str:
    for note in section.iter_notes():
        if note["n_name"] == "GNU" and note["n_type"] == "NT_GNU_BUILD_ID":
            return str(note["n_desc"])
    return ""


def contains(path: Path, *texts: bytes) -> bool:
    """Tell whether any of the texts occurs in the file."""
    with path.open("rb") as data:
        if os.fstat(data.fileno()).st_size == 0:
            return False
        with mmap.mmap(data.fileno(), 0, access=mmap.ACCESS_READ) as view:
            return any(view.find(text) >= 0 for text in texts)
