"""Where the parts of a ROCm lie: in a prefix, a distribution's /usr, a wheel, a moved tree.

Looks at names only; what the files hold is `probe`'s business.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kdbforge.errors import ToolchainError
from kdbforge.toolchain.closure import host_folders

__all__ = [
    "HeaderTrees",
    "Runtime",
    "find_headers",
    "find_libmiopen",
    "find_release",
    "find_runtime",
    "find_system_db",
    "library_folders",
    "roots_of",
]

_LIBRARY = "libMIOpen.so"
# Folders below a prefix that hold libraries; `*` stands for a multiarch triplet.
_LIBRARY_FOLDERS = (
    "", "lib", "lib64", "lib/*-linux-gnu*", "usr/lib", "usr/lib64", "usr/lib/*-linux-gnu*",
    "torch/lib", "_rocm_sdk_*/lib", "../_rocm_sdk_*/lib",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Runtime:
    """What starts a process on the toolchain when the host's C library cannot."""

    loader: Path
    python: Path
    python_home: Path


@dataclass(frozen=True, slots=True)
class HeaderTrees:
    """Folders of headers for kernels that include some, in the order of search."""

    c: tuple[Path, ...]
    cxx: tuple[Path, ...]  # ends with the folders of `c`, see `find_headers`
    shared: tuple[Path, ...]  # those that may hold headers of unrelated packages as well


def find_libmiopen(path: Path) -> Path:
    """Find the libMIOpen in a prefix or wheel's folder, or take the file that is given.

    Raises
    ------
    ToolchainError
        If there is none, or several different ones.
    """
    if path.is_file():
        return path
    if not path.is_dir():
        raise ToolchainError(f"`{path}` does not exist", hint="give a prefix such as /opt/rocm")
    found: dict[Path, Path] = {}
    for folder in _expand(path, _LIBRARY_FOLDERS):
        for library in sorted(folder.glob(f"{_LIBRARY}*")):
            if re.fullmatch(r"\.so(\.\d+)*", library.name[len("libMIOpen") :]):
                known = found.get(library.resolve())
                if known is None or _rank(library) < _rank(known):
                    found[library.resolve()] = library
    if not found:
        raise ToolchainError(
            f"No `{_LIBRARY}` below `{path}`",
            context=[f"looked in: {', '.join(p or '.' for p in _LIBRARY_FOLDERS)}"],
            hint="give the file itself, or run `kdbforge toolchain fetch`",
        )
    if len(found) > 1:
        raise ToolchainError(
            f"Several libMIOpen below `{path}`",
            context=[str(p) for p in found.values()],
            hint="give the one that is meant",
        )
    return next(iter(found.values()))


def _rank(library: Path) -> tuple[bool, int]:
    """Prefer the name that the loader uses, `libMIOpen.so.1`, then the shortest."""
    return (re.fullmatch(r"libMIOpen\.so\.\d+", library.name) is None, len(library.name))


def roots_of(libmiopen: Path, given: Path) -> tuple[Path, ...]:
    """List the prefixes that may hold the other parts, best first."""
    found = [given, given / "usr"] if given.is_dir() else []
    folder = libmiopen.parent
    # lib/libMIOpen.so.1 or lib/x86_64-linux-gnu/libMIOpen.so.1
    steps = 2 if folder.parent.name in ("lib", "lib64") else 1
    found.append(folder.parents[steps - 1])
    return tuple(dict.fromkeys(p for p in found if p.is_dir()))


def library_folders(libmiopen: Path, roots: Iterable[Path]) -> tuple[Path, ...]:
    """List the toolchain's own folders with libraries, that of libMIOpen first."""
    found = [libmiopen.parent]
    for root in roots:
        for folder in _expand(root, (*_LIBRARY_FOLDERS, "llvm/lib", "lib/llvm/lib")):
            if folder != root and any(folder.glob("*.so*")):
                found.append(folder)
    unique: dict[Path, Path] = {}
    for folder in found:
        unique.setdefault(folder.resolve(), folder)
    return tuple(unique.values())


def find_runtime(folders: Sequence[Path], roots: Sequence[Path]) -> Runtime | None:
    """Find the C library, loader and Python that the toolchain brings along.

    None means that the host's own will run it.

    Raises
    ------
    ToolchainError
        If there is a C library other than the host's, without its loader or without a Python.
    """
    host = {folder.resolve() for folder in host_folders()}
    own = [f for f in folders if f.resolve() not in host and (f / "libc.so.6").is_file()]
    if not own:
        return None
    places = [*own, *(root / name for root in roots for name in ("lib64", "lib"))]
    loader = _first(p for f in places for p in sorted(f.glob("ld-linux*.so.*")) if p.is_file())
    if loader is None:
        raise ToolchainError(
            f"`{own[0]}` holds a C library of its own, but no loader (ld-linux) for it"
        )
    pythons = [p for root in roots for p in _pythons(root)]
    if not pythons:
        raise ToolchainError(
            f"`{own[0]}` holds a C library of its own, but no Python runs on it",
            context=[f"looked for bin/python3.* in {root}" for root in roots],
        )
    return Runtime(loader, pythons[0], pythons[0].parent.parent)


def _pythons(root: Path) -> list[Path]:
    found = []
    for path in (root / "bin").glob("python3.*"):
        match = re.fullmatch(r"python3\.(\d+)", path.name)
        if match and path.is_file() and (root / "lib" / path.name / "os.py").is_file():
            found.append((int(match[1]), path))
    return [path for _, path in sorted(found, reverse=True)]


def find_headers(roots: Sequence[Path], *, clang: int | None, own_libc: bool) -> HeaderTrees:
    """Find the headers that kernels may include: ROCm's, clang's, the C and C++ libraries'.

    Without a C library of its own the toolchain's kernels see the host's C and C++ headers, as
    they do when MIOpen compiles by itself. C folders come last, since the C++ library's headers
    reach the C ones of the same name by `#include_next`.
    """
    places = list(roots) if own_libc else [*roots, Path("/usr")]
    rocm = _first(r / "include" for r in roots if (r / "include" / "hip").is_dir())
    libc = _first(r / "include" for r in places if (r / "include" / "features.h").is_file())
    c = tuple(dict.fromkeys(folder for folder in (rocm, libc) if folder is not None))
    multiarch = () if libc is None else tuple(
        folder for folder in sorted(libc.glob("*-linux-gnu*")) if (folder / "bits").is_dir()
    )[:1]  # fmt: skip
    resource = _first(f for root in places for f in _clang_headers(root, clang))
    cxx = [*_standard_headers(places), *([resource] if resource else []), *multiarch, *c]
    return HeaderTrees(c, tuple(dict.fromkeys(cxx)), (*multiarch, *c))


def _standard_headers(places: Iterable[Path]) -> list[Path]:
    """Find the newest C++ standard library's headers, as clang would (Gnu.cpp in LLVM)."""
    for include in (root / "include" for root in places):
        versions = _numbered(include / "c++")
        if versions:
            main = include / "c++" / versions[-1]
            triplets = sorted(include.glob(f"*-linux-gnu*/c++/{versions[-1]}"))
            backward = [f for f in (main / "backward",) if f.is_dir()]
            return [main, *triplets[:1], *backward]
    return []


def _clang_headers(root: Path, clang: int | None) -> Iterator[Path]:
    for pattern in ("lib/clang", "lib/llvm-*/lib/clang", "lib/llvm/lib/clang", "llvm/lib/clang"):
        for folder in sorted(root.glob(pattern)):
            for version in reversed(_numbered(folder)):
                if clang in (None, int(version.split(".")[0])):
                    headers = folder / version / "include"
                    if headers.is_dir():
                        yield headers


def find_system_db(roots: Iterable[Path]) -> Path | None:
    """Find the folder with find-db, perf-db and models."""
    return _first(f for root in roots if (f := root / "share" / "miopen" / "db").is_dir())


def find_release(roots: Iterable[Path]) -> str | None:
    """Read the release of a ROCm prefix from the file that AMD's packages put there."""
    for root in roots:
        path = root / ".info" / "version"
        if path.is_file():
            match = re.match(r"\d+(\.\d+)+", path.read_text(encoding="utf-8", errors="replace"))
            if match:
                return match[0]
    return None


def _expand(root: Path, patterns: Iterable[str]) -> Iterator[Path]:
    for pattern in patterns:
        if pattern.startswith("../"):
            yield from (p for p in sorted(root.parent.glob(pattern[3:])) if p.is_dir())
        elif pattern:
            yield from (p for p in sorted(root.glob(pattern)) if p.is_dir())
        elif root.is_dir():
            yield root


def _numbered(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    names = [p.name for p in folder.iterdir() if re.fullmatch(r"\d+(\.\d+)*", p.name)]
    return sorted(names, key=lambda name: [int(word) for word in name.split(".")])


def _first(paths: Iterable[Path]) -> Path | None:
    return next(iter(paths), None)
