"""Make a toolchain from what lies in a folder: probe, do not assume.

Looks at files only; no library is loaded and nothing is written.
"""

from __future__ import annotations

import mmap
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from kdbforge.errors import ToolchainError
from kdbforge.model.toolchain import Toolchain
from kdbforge.toolchain import layout
from kdbforge.toolchain.childbuild import Clang, find_clang
from kdbforge.toolchain.closure import Closure, host_folders, resolve
from kdbforge.toolchain.description import Description, LibraryFile
from kdbforge.toolchain.elf import (
    ElfFile,
    contains,
    host_machine,
    machine_name,
    read_elf,
    read_machine,
)
from kdbforge.toolchain.fingerprint import affects_output, combine, file_digest, header_digests

__all__ = ["REPLACED", "probe"]

# Libraries that the virtual GPU replaces in every process, so that they need not be there.
REPLACED = ("libamdhip64", "librocblas", "librocrand", "libhipblaslt")
# What it may replace: libamd_comgr while compiles are captured. libhiprtc is named for information.
_REPLACEABLE = (*REPLACED, "libamd_comgr", "libhiprtc")

# Texts of MIOpen: the one that it logs first, and the suffix of its user databases
# (CMakeLists.txt: MIOPEN_USER_DB_SUFFIX).
_VERSIONS = (rb"MIOpen version (\d+)\.(\d+)\.(\d+)", rb"HIP\.(\d+)_(\d+)_(\d+)_")
# Kernel sources are embedded as plain text (addkernels); these words begin a kernel function.
_KERNEL_WORDS = (b"__kernel void", b'extern "C" __global__')
# Of 4813 assembly sources in MIOpen 3.3 all but 44 hold one of these, of the others none.
_ASSEMBLY_WORDS = (b".amdhsa_kernel", b"s_endpgm")


def probe(
    path: Path, *, name: str, origin: str = "installed", version: str | None = None
) -> Description:
    """Describe the libMIOpen in a prefix or a wheel's folder, or given as a file.

    Raises
    ------
    ToolchainError
        If there is none, it is not for this machine, it has no kernels, a library or a compiler
        that it needs is missing, or the C library at hand is too old for it.
    """
    libmiopen = layout.find_libmiopen(path.absolute())
    elf, miopen_version = _read_libmiopen(libmiopen)
    roots = layout.roots_of(libmiopen, path.absolute())
    folders = layout.library_folders(libmiopen, roots)
    runtime = layout.find_runtime(folders, roots)
    clang = None
    if not any(n.startswith("libamd_comgr") for n in elf.needed):
        clang = find_clang(libmiopen, roots, host=runtime is None)
    closure = _resolve(libmiopen, clang, folders, host=runtime is None)
    _check_versions(closure, own_libc=runtime is not None)
    compiler = _compiler_names(closure, clang)
    trees = layout.find_headers(roots, clang=_clang_version(compiler), own_libc=runtime is not None)
    libraries = [_record(soname, file) for soname, file in closure.files.items()]
    toolchain = Toolchain(
        name=name,
        origin=origin,
        version=version or layout.find_release(roots) or miopen_version,
        miopen_version=miopen_version,
        build_id=elf.build_id,
        fingerprint=_fingerprint(libmiopen, libraries, compiler, trees, clang),
        libmiopen=libmiopen,
        library_path=_library_path(libmiopen, closure, own_libc=runtime is not None),
        loader=runtime.loader if runtime else None,
        python=runtime.python if runtime else Path(sys.executable),
        python_home=runtime.python_home if runtime else None,
        system_db=layout.find_system_db(roots),
        include_path=trees.c,
        cxx_include_path=trees.cxx,
        sonames=tuple(n for n in elf.needed if n.startswith(_REPLACEABLE)),
        asm_kernels=contains(libmiopen, *_ASSEMBLY_WORDS),
        clang=clang.path if clang else None,
        sysroot=_sysroot(runtime) if clang and runtime else None,
    )
    return Description(toolchain, tuple(libraries))


def _read_libmiopen(path: Path) -> tuple[ElfFile, str]:
    """Read libMIOpen, refusing everything that cannot be one that kdbforge drives."""
    machine, host = read_machine(path), host_machine()
    if machine != host:
        raise ToolchainError(
            f"`{path}` is for {machine_name(machine)}, and this machine is {machine_name(host)}"
        )
    elf = read_elf(path)
    version = _miopen_version(path)
    if version is None:
        raise ToolchainError(f"`{path}` is not a libMIOpen: it names no MIOpen version")
    if not contains(path, *_KERNEL_WORDS):
        raise ToolchainError(
            f"`{path}` (MIOpen {version}) has no kernels: their sources are not embedded in it",
            hint="use the libMIOpen of a distribution or of AMD, not a stripped or stub build",
        )
    if not elf.build_id:
        raise ToolchainError(f"`{path}` has no build ID, so its kernel databases cannot name it")
    return elf, version


def _miopen_version(path: Path) -> str | None:
    if path.stat().st_size == 0:
        return None
    with path.open("rb") as data, mmap.mmap(data.fileno(), 0, access=mmap.ACCESS_READ) as view:
        for pattern in _VERSIONS:
            match = re.search(pattern, view)
            if match:
                return ".".join(part.decode() for part in match.groups())
    return None


def _sysroot(runtime: layout.Runtime) -> Path:
    """The folder whose usr/include a compiler would have as /usr/include."""
    return runtime.python_home.parent if runtime.python_home.name == "usr" else runtime.python_home


def _resolve(
    libmiopen: Path, clang: Clang | None, folders: Sequence[Path], *, host: bool
) -> Closure:
    """Find what libMIOpen and its compiler need, and what libhiprtc opens when it runs."""
    start = [libmiopen, *(clang.programs if clang else ())]
    closure = resolve(start, folders, skip=REPLACED, host=host)
    for soname, elf in closure.files.items():
        if soname.startswith("libhiprtc"):
            start += _opened_by_hiprtc(elf.path, folders)
    return resolve(start, folders, skip=REPLACED, host=host)


def _opened_by_hiprtc(hiprtc: Path, folders: Sequence[Path]) -> Iterator[Path]:
    """Find libhiprtc-builtins (same folder) and the libamd_comgr that hiprtc names."""
    major = hiprtc.name.partition(".so")[2]
    builtins = hiprtc.parent / f"libhiprtc-builtins.so{major}"
    if builtins.is_file():
        yield builtins
    names = set(re.findall(rb"libamd_comgr\.so\.\d+", hiprtc.read_bytes()))
    for name in sorted(names):
        found = [f / name.decode() for f in folders if (f / name.decode()).is_file()]
        yield from found[:1]


def _check_versions(closure: Closure, *, own_libc: bool) -> None:
    missing = closure.versions_missing()
    if not missing:
        return
    # The C library's version is what people know their system by.
    library, version, _ = ([m for m in missing if m[1].startswith("GLIBC_")] or missing)[-1]
    provider = closure.files[library].path
    whose = "the toolchain's own" if own_libc else "this machine's"
    raise ToolchainError(
        f"{version} is needed, and {whose} `{provider}` is too old for it",
        context=[f"{file} needs {version} of {lib}" for lib, version, file in missing[-8:]],
        hint="use a toolchain that brings its own C library: `kdbforge toolchain fetch`",
    )


def _compiler_names(closure: Closure, clang: Clang | None) -> tuple[str, ...]:
    """Name the libraries and programs of the compiler that can change what it puts out."""
    start = [n for n in closure.files if n.startswith(("libamd_comgr", "libhiprtc"))]
    if clang is not None:
        start = [path.name for path in clang.programs]
    return tuple(sorted(n for n in closure.needed_by(start) if affects_output(n)))


def _clang_version(compiler: Sequence[str]) -> int | None:
    for name in compiler:
        match = re.match(r"libLLVM(?:-|\.so\.)(\d+)", name)
        if match:
            return int(match[1])
    return None


def _record(soname: str, elf: ElfFile) -> LibraryFile:
    size = elf.path.stat().st_size
    return LibraryFile(soname, elf.path, size, elf.build_id, file_digest(elf.path))


def _fingerprint(
    libmiopen: Path,
    libraries: Sequence[LibraryFile],
    compiler: Sequence[str],
    trees: layout.HeaderTrees,
    clang: Clang | None,
) -> str:
    digests = {library.soname: library.sha256 for library in libraries}
    parts = [("libMIOpen", file_digest(libmiopen))]
    parts += [(f"compiler {name}", digests[name]) for name in compiler]
    parts += header_digests(trees.cxx, shared=trees.shared)
    if clang is not None:
        parts += [
            (f"device libraries {n}", d) for n, d in header_digests([clang.bitcode], shared=())
        ]
    return combine(parts)


def _library_path(libmiopen: Path, closure: Closure, *, own_libc: bool) -> tuple[Path, ...]:
    """List the folders that the loader must be given: none of the host's unless libMIOpen's."""
    host = set() if own_libc else {folder.resolve() for folder in host_folders()}
    found = {libmiopen.parent.resolve(): libmiopen.parent}
    for elf in closure.files.values():
        folder = elf.path.parent
        if ".so" in elf.path.name and folder.resolve() not in host:
            found.setdefault(folder.resolve(), folder)
    return tuple(found.values())
