"""Finds every libMIOpen on a machine, and reads from each how it looks for databases.

Nothing is run here: what cannot be run, such as a build for another machine, is described too.
"""

from __future__ import annotations

import mmap
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kdbforge.errors import InputError, KdbforgeError, ToolchainError
from kdbforge.model.toolchain import Toolchain
from kdbforge.toolchain import describe, names, probe
from kdbforge.toolchain.closure import host_folders
from kdbforge.toolchain.description import Description
from kdbforge.toolchain.elf import read_elf
from kdbforge.toolchain.layout import find_libmiopen
from kdbforge.toolchain.registry import check_description, data_folder

__all__ = ["Library", "Places", "choose_library", "find_libraries", "host_places", "inspect"]

_FOLDER = b"share/miopen/db\0"  # db_path.cpp.in: GetSystemDbPath
_EMBEDDED = b"open memvfs: "  # sqlite_db.cpp: CreateInMemDb, only in builds with MIOPEN_EMBED_DB
_VERSION = re.compile(rb"HIP\.(\d+)_(\d+)_(\d+)_")  # CMakeLists.txt: MIOPEN_USER_DB_SUFFIX
_SONAME = re.compile(r"libMIOpen\.so(\.\d+)*")
#: Where Python wheels keep a libMIOpen, below a folder of sys.path.
_WHEELS = ("torch/lib", "_rocm_sdk_*/lib", "tensorflow/lib", "onnxruntime/capi", "*.libs")


@dataclass(frozen=True, slots=True)
class Library:
    """One libMIOpen, and what its own bytes say about where it looks."""

    path: Path
    build_id: str
    miopen_version: str
    system_folder: Path | None  # where it looks unless told otherwise; need not exist
    embedded: bool  # its databases are built in, and it reads no files
    in_process: bool  # compiles through libamd_comgr, not in child processes
    toolchain: Toolchain | None  # None: cannot be run here
    reason: str = ""  # why it cannot be run
    fetched: bool = False  # brought by `kdbforge toolchain fetch`: no program uses it


@dataclass(frozen=True, slots=True)
class Places:
    """Where to look for libraries."""

    system: tuple[Path, ...]  # folders that the dynamic loader searches
    cached: tuple[Path, ...]  # libraries that its cache names
    rocm: tuple[Path, ...]  # prefixes
    python: tuple[Path, ...]  # folders of sys.path


def host_places(environment: Mapping[str, str] = os.environ) -> Places:
    """The places of this machine and of the Python environment that is active."""
    path = [Path(p) for p in environment.get("LD_LIBRARY_PATH", "").split(":") if p]
    rocm = [Path(p) for p in (environment.get("ROCM_PATH"),) if p]
    active = environment.get("VIRTUAL_ENV") or environment.get("CONDA_PREFIX")
    python = sorted(Path(active).glob("lib/python3*/site-packages")) if active else []
    return Places(
        (*path, *host_folders()),
        tuple(_loader_cache()),
        (*rocm, *sorted(Path("/opt").glob("rocm*"))),
        tuple(dict.fromkeys([*python, *(Path(p) for p in sys.path if p)])),
    )


def _loader_cache() -> Iterator[Path]:
    """The libMIOpen in /etc/ld.so.cache; none where there is no ldconfig."""
    search = os.pathsep.join([os.environ.get("PATH", ""), "/sbin", "/usr/sbin"])
    try:
        done = subprocess.run(
            ["ldconfig", "-p"],
            capture_output=True, text=True, check=False, errors="replace",
            env={"PATH": search, "LC_ALL": "C"},
        )  # fmt: skip
    except OSError:
        return
    for line in done.stdout.splitlines():
        name, _, path = line.strip().partition(" => ")
        if name.startswith("libMIOpen.so") and path:
            yield Path(path)


def find_libraries(places: Places) -> tuple[Path, ...]:
    """Every libMIOpen in the places, each file once, under the name that the loader uses."""
    found: dict[Path, Path] = {}
    for path in _candidates(places):
        if not _SONAME.fullmatch(path.name) or not path.is_file():
            continue
        real = path.resolve()
        known = found.get(real)
        if known is None or (path.parent == known.parent and _rank(path) < _rank(known)):
            found[real] = path
    return tuple(found.values())


def _candidates(places: Places) -> Iterator[Path]:
    for folder in places.system:
        yield from sorted(folder.glob("libMIOpen.so*"))
    yield from places.cached
    for prefix in places.rocm:
        for lib in ("lib", "lib64", "lib/*-linux-gnu*"):
            yield from sorted(prefix.glob(f"{lib}/libMIOpen.so*"))
    for folder in places.python:
        for wheel in _WHEELS:
            yield from sorted(folder.glob(f"{wheel}/libMIOpen.so*"))


def _rank(path: Path) -> tuple[bool, int]:
    return (re.fullmatch(r"libMIOpen\.so\.\d+", path.name) is None, len(path.name))


def inspect(path: Path) -> Library:
    """Describe the libMIOpen that is this file or lies below this folder.

    Raises
    ------
    ToolchainError
        If there is none, or the file is damaged.
    """
    folder = path.absolute()
    if (folder / "toolchain.json").is_file():
        return _of_description(describe(str(folder)))
    library = find_libmiopen(folder)
    try:
        return _read(library, probe(library, name=path.name).toolchain, "")
    except KdbforgeError as error:
        return _read(library, None, error.message)


def choose_library(name: str | None, places: Places) -> Library:
    """The library that `--toolchain` means, or else the only one on this machine.

    Raises
    ------
    InputError
        If there is none, or no clear choice.
    ToolchainError
        If the one that is named does not exist or is damaged.
    """
    if name is not None:
        if name in names(data_folder()):
            return _of_description(describe(name))
        return inspect(Path(name))
    found = find_libraries(places)
    if len(found) == 1:
        return inspect(found[0])
    if found:
        raise InputError(
            "There are several libMIOpen on this machine",
            context=[str(path) for path in found],
            hint=f"choose one, such as `--toolchain {found[0]}`",
        )
    raise InputError(
        "There is no libMIOpen on this machine",
        hint="name one by `--toolchain NAME|PATH`; for a package, together with `--root DIR`",
    )


def _of_description(description: Description) -> Library:
    check_description(description)
    toolchain = description.toolchain
    return _read(toolchain.libmiopen, toolchain, "")


def _read(path: Path, toolchain: Toolchain | None, reason: str) -> Library:
    elf = read_elf(path)
    version, folder, embedded = _scan(path)
    return Library(
        path=path,
        build_id=elf.build_id,
        miopen_version=toolchain.miopen_version if toolchain else version,
        system_folder=folder,
        embedded=embedded,
        in_process=any(name.startswith("libamd_comgr") for name in elf.needed),
        toolchain=toolchain,
        reason=reason,
        fetched=toolchain is not None and toolchain.origin == "fetched",
    )


def _scan(path: Path) -> tuple[str, Path | None, bool]:
    """Version, system folder, and whether databases are embedded, from the file's texts."""
    if not path.stat().st_size:
        raise ToolchainError(f"`{path}` is empty")
    with path.open("rb") as data, mmap.mmap(data.fileno(), 0, access=mmap.ACCESS_READ) as view:
        match = _VERSION.search(view)
        version = ".".join(part.decode() for part in match.groups()) if match else "unknown"
        end = view.find(_FOLDER)
        folder = None
        if end >= 0:
            start = view.rfind(b"\0", max(0, end - 4096), end) + 1
            text = view[start : end + len(_FOLDER) - 1].decode(errors="replace")
            # A relative one counts from the folder above that of the library itself.
            folder = path.resolve().parent.parent / text
        return version, folder, view.find(_EMBEDDED) >= 0
