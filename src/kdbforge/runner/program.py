"""Which file a program's name means, and which loader can start it.

Reads ELF headers only; nothing is started here.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from kdbforge.errors import InputError, ToolchainError, UnknownNameError
from kdbforge.model.toolchain import Toolchain
from kdbforge.toolchain.closure import Closure, resolve
from kdbforge.toolchain.elf import host_machine, machine_name, read_elf, read_machine
from kdbforge.toolchain.layout import roots_of
from kdbforge.toolchain.probe import REPLACED

__all__ = ["Program", "find_program"]


@dataclass(frozen=True, slots=True)
class Program:
    """A program that can be started, and by which loader."""

    path: Path
    by_host: bool  # the host's loader starts it, not the toolchain's own
    needed: tuple[str, ...] = ()  # sonames of the libraries that it is known to need


def find_program(name: str, toolchain: Toolchain, folders: Sequence[Path] = ()) -> Program:
    """Find a program by path, among the toolchain's programs, or in PATH, in that order.

    A program of a toolchain that has a C library of its own is started by that library's loader,
    and so is one that needs libraries which the host and `folders` do not have.

    Raises
    ------
    InputError
        If there is no such program, or it cannot be put on a virtual GPU.
    """
    path = Path(name).absolute() if "/" in name else _by_name(name, toolchain)
    if not path.exists():
        raise InputError(f"There is no program `{name}`")
    if not path.is_file() or not os.access(path, os.X_OK):
        raise InputError(f"`{name}` is not an executable file")
    if not _is_elf(path):
        return Program(path, by_host=True)  # a script: the kernel finds its interpreter
    _check_dynamic(path)
    closure = None if _is_of(path, toolchain) else _host_closure(path, folders)
    if closure is None:
        return Program(path, by_host=toolchain.loader is None, needed=read_elf(path).needed)
    needed = dict.fromkeys(name for elf in closure.files.values() for name in elf.needed)
    return Program(path, by_host=True, needed=tuple(needed))


def _by_name(name: str, toolchain: Toolchain) -> Path:
    own = {path.name: path for path in _programs(toolchain)}
    if name in own:
        return own[name]
    found = shutil.which(name)
    if found is None:
        hint = None if own else "give its path"
        raise UnknownNameError("program", name, own, hint=hint)
    return Path(found).absolute()


def _programs(toolchain: Toolchain) -> Iterator[Path]:
    """The toolchain's own programs; MIOpenDriver is in libexec in Debian, in bin elsewhere."""
    prefix = _prefix(toolchain)
    for pattern in ("bin/*", "libexec/rocm/*/*"):
        for path in sorted(prefix.glob(pattern)):
            if path.is_file() and os.access(path, os.X_OK):
                yield path


def _prefix(toolchain: Toolchain) -> Path:
    return roots_of(toolchain.libmiopen, toolchain.libmiopen)[-1]


def _is_elf(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError as error:
        raise InputError(f"Cannot read the program `{path}`: {error.strerror}") from error


def _check_dynamic(path: Path) -> None:
    machine = read_machine(path)
    if machine != host_machine():
        raise InputError(
            f"The program `{path}` is for {machine_name(machine)}, "
            f"and this machine is {machine_name(host_machine())}"
        )
    try:
        with path.open("rb") as file:
            dynamic = any(s["p_type"] == "PT_INTERP" for s in ELFFile(file).iter_segments())
    except (ELFError, ValueError, KeyError) as error:
        raise InputError(f"The program `{path}` is damaged", context=(str(error),)) from error
    if not dynamic:
        raise InputError(
            f"The program `{path}` is linked statically: no library of it can be replaced",
            hint="link it with libamdhip64 as a shared library",
        )


def _is_of(path: Path, toolchain: Toolchain) -> bool:
    return path.resolve().is_relative_to(_prefix(toolchain).resolve())


def _host_closure(path: Path, folders: Sequence[Path]) -> Closure | None:
    """The libraries that the host's loader takes, but for those that are replaced, if it can."""
    try:
        closure = resolve([path], folders, skip=REPLACED, host=True)
    except ToolchainError:
        return None  # the toolchain's loader says what is missing there as well
    return None if closure.versions_missing() else closure
