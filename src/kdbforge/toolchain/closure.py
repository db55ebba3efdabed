"""Which files the loader would take for a library and all that it needs.

Follows DT_RPATH and DT_RUNPATH, the toolchain's folders, then the host's, as ld.so(8) does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kdbforge.errors import ToolchainError
from kdbforge.toolchain.elf import ElfFile, machine_name, read_elf, read_machine

__all__ = ["Closure", "host_folders", "resolve"]

_LD_SO_CONF = Path("/etc/ld.so.conf")


@dataclass(frozen=True, slots=True)
class Closure:
    """Files by the name under which the loader looks for them."""

    files: Mapping[str, ElfFile]

    def versions_missing(self) -> tuple[tuple[str, str, str], ...]:
        """List (library, version, needing file) for symbol versions that no file here defines."""
        missing = set()
        for elf in self.files.values():
            for library, version in elf.versions_needed:
                provider = self.files.get(library)
                # A library without any version definition is accepted by the loader as well.
                if provider is None or not provider.versions_defined:
                    continue
                if version not in provider.versions_defined:
                    missing.add((library, version, elf.path.name))
        return tuple(sorted(missing, key=lambda m: (m[0], _natural(m[1]), m[2])))

    def needed_by(self, names: Sequence[str]) -> tuple[str, ...]:
        """Give the names and, in order of discovery, everything they need in turn."""
        found: dict[str, None] = {}
        waiting = list(names)
        while waiting:
            name = waiting.pop(0)
            if name in found or name not in self.files:
                continue
            found[name] = None
            waiting += self.files[name].needed
        return tuple(found)


def _natural(text: str) -> list[tuple[int, str]]:
    return [(int(word), "") if word.isdigit() else (0, word) for word in re.split(r"(\d+)", text)]


@cache
def host_folders() -> tuple[Path, ...]:
    """List the folders that the host's loader searches by itself."""
    folders = [*_ld_so_conf(_LD_SO_CONF, depth=4)]
    for pattern in ("lib/*-linux-gnu*", "usr/lib/*-linux-gnu*"):
        folders += sorted(Path("/").glob(pattern))
    folders += [Path(p) for p in ("/lib64", "/usr/lib64", "/lib", "/usr/lib")]
    return tuple(dict.fromkeys(folder for folder in folders if folder.is_dir()))


def _ld_so_conf(path: Path, *, depth: int) -> Iterator[Path]:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        words = line.split("#")[0].split()
        if len(words) == 2 and words[0] == "include" and depth:
            pattern = words[1].lstrip("/") if words[1].startswith("/") else f"etc/{words[1]}"
            for included in sorted(Path("/").glob(pattern)):
                yield from _ld_so_conf(included, depth=depth - 1)
        elif len(words) == 1 and words[0].startswith("/"):
            yield Path(words[0])


def resolve(
    start: Sequence[Path], folders: Sequence[Path], *, skip: tuple[str, ...], host: bool
) -> Closure:
    """Find the libraries that the files of `start` need, in turn.

    Parameters
    ----------
    folders
        Searched after a file's own DT_RUNPATH.
    skip
        Beginnings of names that need not be there.
    host
        Whether the host's own folders count too, last.

    Raises
    ------
    ToolchainError
        If a library is missing, damaged, or for another machine.
    """
    found: dict[str, ElfFile] = {}
    waiting: list[ElfFile] = []
    for path in start:
        elf = read_elf(path)
        found[elf.soname or path.name] = elf
        waiting.append(elf)
    everywhere = [*folders, *(host_folders() if host else ())]
    while waiting:
        elf = waiting.pop(0)
        for name in elf.needed:
            if name in found or name.startswith(skip):
                continue
            found[name] = _find(name, elf, everywhere)
            waiting.append(found[name])
    return Closure(found)


def _find(name: str, wanted_by: ElfFile, folders: Sequence[Path]) -> ElfFile:
    others = []
    for folder in (*wanted_by.search_folders(), *folders):
        path = folder / name
        if not path.is_file():
            continue
        machine = read_machine(path)
        if machine == wanted_by.machine:
            return read_elf(path)
        others.append(f"{path} is for {machine_name(machine)}")  # the loader goes on, too
    raise ToolchainError(
        f"Library `{name}` is missing, and `{wanted_by.path}` needs it",
        context=others or [f"looked in {folder}" for folder in folders[:6]],
        hint="repair or reinstall the toolchain; `kdbforge toolchain fetch` brings a complete one",
    )
