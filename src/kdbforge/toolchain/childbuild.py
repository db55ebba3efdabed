"""libMIOpen builds that run clang as a child process: which clang, and Debian's packages of it.

Looks at files and at Depends lines; nothing is run.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kdbforge.errors import ToolchainError

__all__ = ["Clang", "compiler_packages", "find_clang", "is_unneeded", "runs_children"]

# MIOPEN_HIP_COMPILER as it stands in the library (config.h.in). The compiler for OpenCL,
# HIP_OC_COMPILER, is the same clang; Debian's library has the path of a build folder there.
_HIP_COMPILER = re.compile(rb"\0(/[!-~]{1,200}/clang\+\+(?:-\d+)?)\0")
#: Programs that clang runs in turn, beside it.
_PARTS = ("lld", "ld.lld", "clang-offload-bundler")

# What the compiler's packages depend on and none of its runs for a GPU reads: a linker and
# assembler for the host, Objective C, the C interface of clang, the compiler as a library.
_UNNEEDED = re.compile(
    r"binutils.*|libbinutils|libctf.*|libsframe\d+|libgprofng\d+|libjansson\d+"
    r"|llvm-\d+-linker-tools|libobjc.*|libgc\d+|libclang1-\d+"
    r"|libamd-comgr\d+|libamd-comgr-dev|libhiprtc\d+|libhiprtc-builtins\d+"
)
#: Left out for other libraries, needed here: by its start-up files clang finds libstdc++.
_NEEDED = re.compile(r"libgcc-\d+-dev")


@dataclass(frozen=True, slots=True)
class Clang:
    """A clang with all that it needs to compile for a GPU."""

    path: Path
    parts: tuple[Path, ...]  # programs that it runs
    resources: Path  # its own headers, and the device libraries

    @property
    def programs(self) -> tuple[Path, ...]:
        return (self.path, *self.parts)

    @property
    def bitcode(self) -> Path:
        """The folder of the device libraries (ocml.bc, ockl.bc ...)."""
        return self.resources / "amdgcn" / "bitcode"


def find_clang(libmiopen: Path, roots: Sequence[Path], *, host: bool) -> Clang:
    """Find the clang that a libMIOpen names, below one of the roots or, with `host`, as it stands.

    Raises
    ------
    ToolchainError
        If the library names none, or it or one of its parts is not there.
    """
    name = _named_compiler(libmiopen)
    if name is None:
        raise ToolchainError(
            f"`{libmiopen}` compiles in child processes, and names no clang++ that it would run",
            context=["it does not need libamd_comgr, so it starts a compiler through popen"],
            hint="run `kdbforge toolchain fetch` for one that compiles through libamd_comgr",
        )
    places = [root / name.relative_to("/") for root in roots] + ([name] if host else [])
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise ToolchainError(
            f"`{libmiopen}` runs `{name}`, which is missing",
            context=[f"looked for {place}" for place in places],
            hint=_install(name),
        )
    path = found.resolve()
    parts = tuple(path.parent / part for part in _PARTS)
    for part in parts:
        if not part.is_file():
            raise ToolchainError(
                f"`{name}` needs `{part.name}`, and there is no `{part}`", hint=_install(name)
            )
    return Clang(path, parts, _resources(path, name))


def _named_compiler(libmiopen: Path) -> Path | None:
    with libmiopen.open("rb") as data, mmap.mmap(data.fileno(), 0, access=mmap.ACCESS_READ) as view:
        match = _HIP_COMPILER.search(view)
        return Path(match[1].decode()) if match else None


def _resources(path: Path, name: Path) -> Path:
    """The newest resource folder of a clang that has device libraries."""
    folder = path.parent.parent / "lib" / "clang"
    found = [p for p in folder.glob("*") if (p / "amdgcn" / "bitcode").is_dir()]
    if not found:
        raise ToolchainError(
            f"`{name}` has no device libraries (amdgcn/bitcode) in `{folder}`", hint=_install(name)
        )
    return max(found, key=lambda p: [int(word) for word in re.findall(r"\d+", p.name)])


def _install(name: Path) -> str:
    major = _major(name.name)
    if major is None:
        return "install the compiler that the library was built for"
    packages = " ".join((*compiler_packages(major), "libamdhip64-dev", "librocrand-dev"))
    return f"on Debian: apt install {packages}"


def _major(text: str) -> int | None:
    match = re.search(r"-(\d+)", text)
    return int(match[1]) if match else None


def compiler_packages(major: int) -> tuple[str, ...]:
    """Debian's packages of a clang that compiles for AMD GPUs."""
    names = ("clang-{}", "lld-{}", "clang-tools-{}", "rocm-device-libs-{}")
    return tuple(name.format(major) for name in names)


def runs_children(depends: str) -> int | None:
    """Read from a Depends line which clang a libMIOpen runs; None: none that is known of.

    Debian's library depends on the headers of its compiler, and on nothing else of it.
    """
    return next(_versions(depends), None)


def _versions(depends: str) -> Iterator[int]:
    for name in re.split(r"[,|]", depends):
        match = re.fullmatch(r"libclang-common-(\d+)-dev(?:[\s(:].*)?", name.strip())
        if match:
            yield int(match[1])


def is_unneeded(package: str, *, otherwise: bool) -> bool:
    """Whether a package is left out beside such a library; `otherwise`: beside any other."""
    if _NEEDED.fullmatch(package):
        return False
    return otherwise or _UNNEEDED.fullmatch(package) is not None
