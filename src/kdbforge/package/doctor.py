"""Says for each libMIOpen which database it opens for a GPU, and why it would find nothing.

Changes nothing: libraries run on a virtual GPU, with a home of their own.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from urllib.parse import quote

from kdbforge.errors import KdbforgeError
from kdbforge.kdb.reader import read_kdb
from kdbforge.model.device import Gpu
from kdbforge.package.host import (
    Finding,
    Host,
    effective_gpu,
    folder_findings,
    host_findings,
    real_gpus,
)
from kdbforge.package.libraries import Library, Places, find_libraries, inspect
from kdbforge.package.lookup import Lookup, ask, is_off, is_on, system_folder
from kdbforge.package.manifest import manifest_path, read_manifest
from kdbforge.toolchain.closure import host_folders
from kdbforge.toolchain.elf import contains
from kdbforge.vgpu.profiles import expected_basename, expected_files

__all__ = ["Diagnosis", "LibraryReport", "diagnose", "examine"]

_SLOW = "MIOpen compiles each kernel when it is first needed: slow, but not the cause of a failure"
#: Headers that kernels include, with what provides them (MIOpen src/kernels).
_HEADERS = (
    ("hip/hip_runtime.h", "pooling", "libamdhip64-dev"),
    ("type_traits", "reduce", "libstdc++-dev"),
    ("rocrand/rocrand_xorwow.h", "dropout", "librocrand-dev"),
)


@dataclass(frozen=True, slots=True)
class LibraryReport:
    """One libMIOpen: what it opens for the GPU, and what is wrong with that."""

    path: Path
    library: Library | None  # None: it cannot even be read
    folder: Path | None  # where it looks for system databases
    lookup: Lookup | None  # None: it was not run
    opens: Path | None  # system database; concluded from the names where it was not run
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything that was found out about a machine."""

    gpu: Gpu | None  # as MIOpen sees it
    findings: tuple[Finding, ...]  # that hold for every library
    libraries: tuple[LibraryReport, ...]

    @property
    def healthy(self) -> bool:
        """Whether there is nothing worse than a note."""
        found = [*self.findings, *(f for report in self.libraries for f in report.findings)]
        return all(finding.level == "note" for finding in found)


def diagnose(paths: Sequence[Path], gpu: Gpu | None, host: Host, places: Places) -> Diagnosis:
    """Examine the given libMIOpen, or else all on this machine.

    Parameters
    ----------
    paths
        Files, prefixes or wheels' folders.
    gpu
        None: the first GPU of this machine.

    Raises
    ------
    HostError
        If there is no room for temporary files.
    """
    findings = host_findings(host, gpu_is_here=gpu is None)
    if gpu is not None:
        gpu, more = effective_gpu(gpu, host)
        findings += more
    else:
        here = real_gpus(host)
        gpu = next(iter(here), None)
        findings += [_others(here)] if len({str(one) for one in here}) > 1 else []
        findings += effective_gpu(gpu, host)[1] if gpu else [_no_gpu()]
    found = [path.absolute() for path in paths] or list(find_libraries(places))
    if not found:
        findings.append(
            Finding(
                "warning", "No libMIOpen was found",
                "looked in the loader's folders and cache, /opt/rocm* and Python's packages",
                "give its path: kdbforge doctor PATH",
            )
        )  # fmt: skip
    reports = tuple(_report(path, gpu, host) for path in found)
    return Diagnosis(gpu, tuple(findings), reports)


def _no_gpu() -> Finding:
    return Finding(
        "note", "No GPU was given, and there is none here that kdbforge knows",
        "which file MIOpen opens depends on it", "name one: --gpu gfx1030_40",
    )  # fmt: skip


def _others(here: Sequence[Gpu]) -> Finding:
    names = dict.fromkeys(expected_basename(one) for one in here)
    return Finding(
        "note", f"There are different GPUs: {', '.join(names)}", "only the first is looked at",
        f"name another: --gpu {list(names)[-1]}",
    )  # fmt: skip


def _report(path: Path, gpu: Gpu | None, host: Host) -> LibraryReport:
    try:
        library = inspect(path)
    except KdbforgeError as error:
        finding = Finding("error", error.message, "; ".join(error.context), error.hint or "")
        return LibraryReport(path, None, None, None, None, (finding,))
    return examine(library, gpu, host)


def examine(library: Library, gpu: Gpu | None, host: Host) -> LibraryReport:
    """Examine one library for a GPU.

    Raises
    ------
    HostError
        If there is no room for temporary files.
    """
    folder = system_folder(library, host.environment)
    findings = [*_of_library(library, host), *_of_folder(folder, host)]
    lookup, opens = None, None
    if gpu is not None and library.toolchain is not None:
        lookup = ask(library, gpu, host.environment)
        opens = lookup.system
        findings += _of_lookup(library, lookup, gpu, host, folder)
    elif gpu is not None and folder is not None and not library.embedded:
        opens = _first_there(folder, gpu)
        findings += _of_files(library, opens, gpu, folder)
    return LibraryReport(library.path, library, folder, lookup, opens, tuple(findings))


# The library itself


def _of_library(library: Library, host: Host) -> Iterator[Finding]:
    if library.toolchain is None:
        yield Finding(
            "note", "It cannot be run here, so what it opens is concluded from its bytes",
            library.reason,
        )  # fmt: skip
    if not library.in_process:
        yield Finding(
            "note", "It runs clang as a child process for each kernel that is in no database",
            "where that clang or a header is missing, or Debian's 6.4.3 meets an OpenCL kernel, a "
            "program does not become slow but fails: its databases must hold all that it needs",
        )  # fmt: skip
    if library.embedded:
        yield Finding(
            "warning",
            "Its databases are built in, and it reads no files",
            "a kdb cannot be installed for it, whatever its name; where it says `open memvfs: "
            "unable to open database file`, the file of the library itself cannot be read well",
            "use a libMIOpen that was built without MIOPEN_EMBED_DB",
        )
    toolchain = library.toolchain
    if toolchain is None:
        return
    setting = host.environment.get("MIOPEN_DEBUG_GCN_ASM_KERNELS")
    if library.in_process and not toolchain.asm_kernels and not is_off(setting):
        yield Finding(
            "error",
            "Its assembly kernels were removed, and MIOPEN_DEBUG_GCN_ASM_KERNELS=0 is not set",
            "it still prefers them, and then fails with `Failed to load kernel source`; databases "
            "are made with that setting",
            "export MIOPEN_DEBUG_GCN_ASM_KERNELS=0",
        )
    yield from _hiprtc(library, host)
    folders = (*toolchain.include_path, *toolchain.cxx_include_path)
    for header, kernels, package in _HEADERS:
        if not any((folder / header).is_file() for folder in folders):
            yield Finding(
                "warning", f"The header `{header}` is missing",
                f"kernels of {kernels} include it, and cannot be compiled on this machine; those "
                "in a database are not concerned", f"install {package}",
            )  # fmt: skip


def _hiprtc(library: Library, host: Host) -> Iterator[Finding]:
    """HIP's compiler asks the GPU's name of a library that only development packages bring."""
    toolchain = library.toolchain
    if toolchain is None or library.fetched:
        return  # a fetched one has the virtual GPU's
    path = [Path(p) for p in host.environment.get("LD_LIBRARY_PATH", "").split(":") if p]
    folders = (*path, *toolchain.library_path, *host_folders())
    for name in toolchain.sonames:
        if not name.startswith("libhiprtc"):
            continue
        hiprtc = next((f / name for f in folders if (f / name).is_file()), None)
        if hiprtc is None or not contains(hiprtc, b"libamdhip64.so\0"):
            continue
        if not any((folder / "libamdhip64.so").exists() for folder in folders):
            yield Finding(
                "error",
                f"`{hiprtc}` opens `libamdhip64.so`, and there is none of that name",
                "every HIP kernel that must be compiled fails with `Please provide architecture "
                "for which code is to be generated`",
                "install libamdhip64-dev, or link libamdhip64.so to the versioned file beside it",
            )


def _of_folder(folder: Path | None, host: Host) -> Iterator[Finding]:
    if folder is None:
        yield Finding(
            "warning", "It does not say in which folder it looks for system databases",
            "its bytes name none", "set MIOPEN_SYSTEM_DB_PATH",
        )  # fmt: skip
        return
    text = host.environment.get("MIOPEN_SYSTEM_DB_PATH")
    relative = bool(text) and not Path(str(text)).is_absolute()
    if folder == host.cwd or relative:
        yield Finding(
            "warning",
            f"It looks for system databases in or below the current directory: `{folder}`",
            "what it finds depends on where a program is started, and who put files there",
            "set MIOPEN_SYSTEM_DB_PATH to an absolute path",
        )
    if not folder.is_dir():
        yield Finding(
            "warning", f"The folder for system databases does not exist: `{folder}`", _SLOW,
            "kdbforge install KDB",
        )  # fmt: skip


# The files


def _of_lookup(
    library: Library, lookup: Lookup, gpu: Gpu, host: Host, folder: Path | None
) -> Iterator[Finding]:
    if lookup.error:
        yield Finding(
            "error", f"It fails when it opens its databases: {lookup.error}",
            "a program fails in the same way",
        )  # fmt: skip
    if is_on(host.environment.get("MIOPEN_DISABLE_CACHE")):
        return
    if folder is not None and not library.embedded:
        there = _first_there(folder, gpu, lookup.basename)
        if lookup.system is None and there is not None:
            yield Finding(
                "error", f"`{there}` is there, and it does not open it",
                "it was built without system databases, or cannot read the folder",
                "put the records into the user's database: kdbforge install --user KDB",
            )  # fmt: skip
        else:
            yield from _of_files(library, lookup.system, gpu, folder, lookup.basename)
    if lookup.user is not None:
        yield from folder_findings(
            lookup.user.parent, host, "user databases", "MIOPEN_CUSTOM_CACHE_DIR"
        )
        yield from _of_user(lookup.user, lookup.system)


def _names(gpu: Gpu, basename: str | None) -> tuple[str, str]:
    """The exact and the generic name; the library's own word goes first."""
    exact, generic = expected_files(gpu)
    return (f"{basename}.kdb" if basename else exact), generic


def _first_there(folder: Path, gpu: Gpu, basename: str | None = None) -> Path | None:
    return next((folder / n for n in _names(gpu, basename) if (folder / n).is_file()), None)


def _of_files(
    library: Library, system: Path | None, gpu: Gpu, folder: Path, basename: str | None = None
) -> Iterator[Finding]:
    """Look at the system database that is opened, or say what was looked for."""
    exact, generic = _names(gpu, basename)
    if system is None:
        yield Finding(
            "warning", f"There is no system database: neither `{exact}` nor `{generic}`", _SLOW,
            f"kdbforge build SRC... --gpu {basename or expected_basename(gpu)} -o out; "
            "kdbforge install out/*.kdb",
        )  # fmt: skip
        return
    if system.name == exact and (folder / generic).is_file() and exact != generic:
        yield Finding(
            "warning", f"`{exact}` hides `{generic}`",
            "where the exact name fits, it is read alone, and records of the other are not found",
            f"compare them, and remove the lesser: kdbforge kdb info {folder / generic} {system}",
        )  # fmt: skip
    try:
        first = list(islice(read_kdb(system), 1))
    except KdbforgeError as error:
        yield Finding(
            "error", error.message, "MIOpen cannot use it, and may fail with it",
            error.hint or "get the file again from where it came from, or remove it",
        )  # fmt: skip
        return
    if not first:
        yield Finding("warning", f"`{system}` has no records", _SLOW, "build another")
    elif "-mcpu=" in first[0].kernel_args and not first[0].kernel_args.endswith(
        f"-mcpu={gpu.target.arch}"
    ):
        made_for = first[0].kernel_args.rpartition("-mcpu=")[2]
        yield Finding(
            "warning", f"`{system}` holds kernels for {made_for}, not for {gpu.target.arch}",
            "it was renamed: its keys name the architecture, so nothing in it is ever found",
            f"kdbforge build SRC... --gpu {expected_basename(gpu)} -o out",
        )  # fmt: skip
    yield from _of_manifest(library, system)


def _of_manifest(library: Library, system: Path) -> Iterator[Finding]:
    path = manifest_path(system)
    if not path.is_file():
        yield Finding(
            "note", f"`{system}` has no manifest", "it is not known for which libMIOpen it is",
            "check it: kdbforge prove",
        )  # fmt: skip
        return
    try:
        manifest = read_manifest(path)
    except KdbforgeError as error:
        yield Finding("warning", error.message, "; ".join(error.context))
        return
    if manifest.toolchain is None:
        yield Finding(
            "note", f"`{system}` was made by `kdb {manifest.derived_by}`",
            f"it is not known for which libMIOpen it is: {'; '.join(manifest.doubts)}",
            "check it: kdbforge prove",
        )  # fmt: skip
    elif manifest.toolchain.build_id != library.build_id:
        yield Finding(
            "error",
            f"`{system}` was built for another libMIOpen ({manifest.toolchain.version}, build ID "
            f"{manifest.toolchain.build_id})",
            "keys hold no version, so stale kernels are loaded: memory faults or wrong results",
            f"build it for this one, or remove it: kdbforge uninstall {system.name}",
        )


def _of_user(user: Path, system: Path | None) -> Iterator[Finding]:
    """Look at the user's own database, which is asked before the system's."""
    if not user.exists():
        return
    try:
        mine = _hashes(user)
    except sqlite3.Error as error:
        yield Finding(
            "error", f"`{user}` is damaged: {error}",
            "MIOpen fails with it, such as by `database disk image is malformed`",
            "delete it: MIOpen makes a new one",
        )  # fmt: skip
        return
    try:
        shipped = _hashes(system) if system else {}
    except sqlite3.Error:
        shipped = {}
    differ = sum(shipped[key] != value for key, value in mine.items() if key in shipped)
    if differ:
        yield Finding(
            "warning", f"`{user}` wins over the system database with {differ} different kernels",
            "the user's own is looked at first, however old it is",
            f"delete it if the system database is newer: rm '{user}'",
        )  # fmt: skip
    else:
        yield Finding("note", f"`{user}` is looked at first", f"it has {len(mine)} kernels")


def _hashes(path: Path) -> dict[tuple[str, str], str]:
    """Hashes by key, without touching a file that a program may be using."""
    uri = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
    with closing(sqlite3.connect(uri, uri=True)) as db:
        db.execute("PRAGMA trusted_schema=OFF")
        rows = db.execute("SELECT kernel_name, kernel_args, kernel_hash FROM main.kern_db")
        return {(str(name), str(args)): str(value) for name, args, value in rows}
