"""One libMIOpen with its compiler libraries, and what is needed to start a process on it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Toolchain"]


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A usable toolchain; made by `kdbforge.toolchain`, never by hand."""

    name: str
    origin: str  # "fetched" or "installed"
    version: str  # version of the package or release, else of the library
    miopen_version: str  # MIOpen's own, e.g. "3.5.1"
    build_id: str  # GNU build ID of libMIOpen, hex
    fingerprint: str  # SHA-256 over libMIOpen, compiler libraries, builtins, headers; hex
    libmiopen: Path
    library_path: tuple[Path, ...]  # where libMIOpen and what it needs are found, in order
    loader: Path | None  # the toolchain's own ld-linux; None: the host's libc runs it
    python: Path  # a Python that can load libMIOpen
    python_home: Path | None
    system_db: Path | None  # folder with find-db, perf-db and models
    include_path: tuple[Path, ...]  # C headers for kernels that include them (CPATH)
    cxx_include_path: tuple[Path, ...]  # C++ headers likewise (CPLUS_INCLUDE_PATH)
    sonames: tuple[str, ...]  # DT_NEEDED names of libMIOpen that the virtual GPU may replace
    asm_kernels: bool  # False: the library's assembly sources were removed
    # The clang that libMIOpen runs as a child process; None: it compiles through libamd_comgr.
    clang: Path | None = None
    sysroot: Path | None = None  # where that clang finds headers; None: the host's own folders
