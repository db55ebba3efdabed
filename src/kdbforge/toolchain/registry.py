"""Toolchains by name in a data folder, or anywhere by path.

Finding one only reads; `fetch`, `add` and `remove` are the only ones that write.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace as replace_fields
from pathlib import Path

from kdbforge.errors import HostError, InputError, ToolchainError, UnknownNameError
from kdbforge.model.toolchain import Toolchain
from kdbforge.toolchain.description import FILE_NAME, Description, load, save
from kdbforge.toolchain.elf import host_machine, machine_name, read_elf, read_machine
from kdbforge.toolchain.fingerprint import file_digest
from kdbforge.toolchain.probe import probe

__all__ = [
    "add",
    "check",
    "check_description",
    "data_folder",
    "describe",
    "find",
    "folder_of",
    "load_named",
    "names",
    "remove",
    "toolchains_folder",
    "verify",
]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+~-]{0,99}")


def data_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Name the folder that kdbforge keeps data in; it need not exist.

    Raises
    ------
    InputError
        If the environment names none.
    """
    env = os.environ if environment is None else environment
    for key, below in (("KDBFORGE_DATA", ""), ("XDG_DATA_HOME", "kdbforge")):
        if env.get(key):
            return Path(env[key], below).absolute()
    if env.get("HOME"):
        return Path(env["HOME"], ".local/share/kdbforge").absolute()
    raise InputError(
        "No data folder is known: KDBFORGE_DATA, XDG_DATA_HOME and HOME are not set",
        hint="set KDBFORGE_DATA to a folder, or give the path of a toolchain to `--toolchain`",
    )


def toolchains_folder(data_dir: Path) -> Path:
    """Name the folder of all toolchains in a data folder."""
    return data_dir / "toolchains"


def folder_of(home: Path, name: str) -> Path:
    """Name the folder of one toolchain below a folder of toolchains.

    Raises
    ------
    InputError
        If the name cannot be one of a folder.
    """
    if not _is_name(name):
        raise InputError(
            f"`{name}` cannot be the name of a toolchain",
            hint="use letters, digits and `.`, `_`, `+`, `~`, `-`",
        )
    return home / name


def names(data_dir: Path) -> tuple[str, ...]:
    """List the names of the toolchains in a data folder, sorted."""
    home = toolchains_folder(data_dir)
    if not home.is_dir():
        return ()
    found = [p.name for p in home.iterdir() if _is_name(p.name)]
    return tuple(sorted(name for name in found if (home / name / FILE_NAME).is_file()))


def _is_name(name: str) -> bool:
    """Tell whether a folder of this name is a toolchain's, not one being made or deleted."""
    return bool(_NAME.fullmatch(name)) and ".partial-" not in name and ".old-" not in name


def load_named(home: Path, name: str) -> Description:
    """Read what is known of a toolchain, without looking at its files."""
    return load(folder_of(home, name), name=name)


def describe(name: str | None, data_dir: Path | None = None) -> Description:
    """Find a toolchain as `find` does, with its libraries and source; unchecked."""
    if name is not None and ("/" in name or name in (".", "..")):
        return _at_path(Path(name))
    data_dir = data_folder() if data_dir is None else data_dir
    known = names(data_dir)
    if name is None:
        name = _only(known, data_dir)
    if name not in known:
        if Path(name).exists():
            return _at_path(Path(name))
        raise UnknownNameError("toolchain", name, known)
    return load_named(toolchains_folder(data_dir), name)


def _only(known: tuple[str, ...], data_dir: Path) -> str:
    if not known:
        raise ToolchainError(
            f"No toolchain in `{data_dir}`",
            hint="run `kdbforge toolchain fetch`, or `kdbforge toolchain add PATH` for a ROCm here",
        )
    if len(known) > 1:
        raise ToolchainError(
            f"Several toolchains are known: {', '.join(f'`{n}`' for n in known)}",
            hint=f"choose one, such as `--toolchain {known[-1]}`",
        )
    return known[0]


def _at_path(path: Path) -> Description:
    """Load a folder that was fetched (wherever it is now), or probe an installed one."""
    folder = path.absolute()
    if (folder / FILE_NAME).is_file():
        return load(folder, name=folder.name)
    return probe(folder, name=folder.name or "root")


def find(name: str | None, data_dir: Path | None = None) -> Toolchain:
    """Find a toolchain by name, by path, or the only one there is, and check it.

    Nothing is written. A path may be a fetched folder, an installed prefix or a libMIOpen.

    Raises
    ------
    UnknownNameError
        If no toolchain has that name.
    ToolchainError
        If there is none or no clear choice, or it is damaged; see `check`.
    """
    description = describe(name, data_dir)
    check_description(description)
    return description.toolchain


def check(toolchain: Toolchain) -> None:
    """Check that what starts a process on the toolchain is there and fits this machine.

    Raises
    ------
    ToolchainError
        If a file or folder is missing, or a library is for another machine.
    """
    host = host_machine()
    optional = (toolchain.loader, toolchain.clang)
    programs = [toolchain.libmiopen, toolchain.python, *filter(None, optional)]
    for path in programs:
        if not path.is_file():
            raise _lost(toolchain, path)
    for path in (toolchain.libmiopen, *filter(None, optional)):
        machine = read_machine(path)
        if machine != host:
            raise ToolchainError(
                f"`{path}` is for {machine_name(machine)}, and this machine is {machine_name(host)}"
            )
    folders = [*toolchain.library_path, *toolchain.include_path, *toolchain.cxx_include_path]
    folders += [f for f in (toolchain.python_home, toolchain.system_db, toolchain.sysroot) if f]
    for folder in folders:
        if not folder.is_dir():
            raise _lost(toolchain, folder)


def check_description(description: Description) -> None:
    """Check a toolchain and each of its libraries: there, of the same size, for this machine.

    A library whose bytes were changed in place is found by `verify` only.

    Raises
    ------
    ToolchainError
        If something is missing or not as it was; the file is named.
    """
    toolchain = description.toolchain
    host = host_machine()
    for library in description.libraries:
        try:
            size = library.path.stat().st_size
        except OSError as error:
            raise _lost(toolchain, library.path) from error
        machine = read_machine(library.path)
        if machine != host:
            raise ToolchainError(
                f"`{library.path}` is for {machine_name(machine)}, and this machine is "
                f"{machine_name(host)}"
            )
        if size != library.size:
            raise _changed(toolchain, library.path, f"{size} bytes, not {library.size}")
    check(toolchain)
    build_id = read_elf(toolchain.libmiopen).build_id
    if build_id != toolchain.build_id:
        raise _changed(
            toolchain, toolchain.libmiopen, f"build ID {build_id}, not {toolchain.build_id}"
        )


def verify(description: Description) -> None:
    """Check everything, digests of all libraries included.

    Raises
    ------
    ToolchainError
        If something is missing or not as it was; the file is named.
    """
    check_description(description)
    for library in description.libraries:
        if file_digest(library.path) != library.sha256:
            raise _changed(description.toolchain, library.path, "its SHA-256 differs")


def _lost(toolchain: Toolchain, path: Path) -> ToolchainError:
    return ToolchainError(f"Toolchain `{toolchain.name}` has lost `{path}`", hint=_mend(toolchain))


def _changed(toolchain: Toolchain, path: Path, how: str) -> ToolchainError:
    return ToolchainError(
        f"`{path}` has changed since toolchain `{toolchain.name}` was made: {how}",
        hint=_mend(toolchain),
    )


def _mend(toolchain: Toolchain) -> str:
    if toolchain.origin == "fetched":
        return "run `kdbforge toolchain fetch`: it brings a damaged one again"
    return f"run `kdbforge toolchain add {toolchain.libmiopen} --name {toolchain.name} --replace`"


def add(
    path: Path, name: str | None = None, *, data_dir: Path | None = None, replace: bool = False
) -> Toolchain:
    """Register an installed MIOpen under a name; only the note of it is kept, no file is copied.

    Raises
    ------
    InputError
        If the name is taken, or cannot be one.
    ToolchainError
        If it cannot be used; see `probe`.
    HostError
        If the data folder cannot be written.
    """
    home = toolchains_folder(data_folder() if data_dir is None else data_dir)
    found = describe(str(path.absolute()))
    check_description(found)
    if name is None and found.folder is None:
        name = f"rocm-{found.toolchain.version}"
    chosen = name or found.toolchain.name  # a fetched folder knows its own
    found = replace_fields(found, toolchain=replace_fields(found.toolchain, origin="installed"))
    folder = folder_of(home, chosen)
    if (folder / FILE_NAME).is_file() and not replace:
        raise InputError(
            f"A toolchain named `{chosen}` exists", hint="give another `--name`, or `--replace`"
        )
    if (folder / FILE_NAME).is_file() and load_named(home, chosen).toolchain.origin == "fetched":
        raise InputError(
            f"`{chosen}` is a fetched toolchain", hint=f"kdbforge toolchain remove {chosen}"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HostError(f"Cannot make `{folder}`: {error.strerror}") from error
    save(found, folder)
    return load_named(home, chosen).toolchain


def remove(name: str, data_dir: Path | None = None) -> None:
    """Forget a toolchain, and delete its files if they were fetched.

    Raises
    ------
    UnknownNameError
        If there is none of that name.
    HostError
        If it cannot be deleted.
    """
    data_dir = data_folder() if data_dir is None else data_dir
    if name not in names(data_dir):
        raise UnknownNameError("toolchain", name, names(data_dir))
    folder = folder_of(toolchains_folder(data_dir), name)
    gone = folder.with_name(f"{name}.old-{os.getpid()}")
    try:
        folder.rename(gone)  # at once: a half-deleted toolchain must not be found
        shutil.rmtree(gone)
    except OSError as error:
        raise HostError(f"Cannot remove `{folder}`: {error.strerror}") from error
