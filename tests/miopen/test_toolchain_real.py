"""The real libMIOpen: moved to a place like /opt/rocm and found there, damaged, refused."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kdbforge import Toolchain
from kdbforge.errors import ToolchainError
from kdbforge.toolchain import add, describe, find, names, probe, verify
from kdbforge.toolchain.elf import read_elf


def link_tree(source: Path, target: Path) -> None:
    """Copy a tree by hard links where the file system allows it: it is over a gigabyte."""

    def link(one: str, other: str) -> None:
        try:
            os.link(one, other)
        except OSError:
            shutil.copy2(one, other)

    shutil.copytree(source, target, symlinks=True, copy_function=link, dirs_exist_ok=True)


def replace_file(path: Path, data: bytes) -> None:
    """Write a file anew, since the one there may be a hard link to the toolchain's."""
    path.unlink()
    path.write_bytes(data)


def real_root(toolchain: Toolchain) -> Path:
    home = next(p for p in toolchain.libmiopen.parents if (p / "toolchain.json").exists())
    return home / "root"


@pytest.fixture(scope="module")
def module_opt(
    toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Path:
    """The tree laid out as AMD's packages do it: PREFIX/lib, PREFIX/share, loader beside."""
    if "toolchain.json" not in {p.name for p in real_root(toolchain).parent.iterdir()}:
        pytest.fail("the toolchain of these tests must be a fetched one")
    usr = real_root(toolchain) / "usr"
    opt = tmp_path_factory.mktemp("opt") / "rocm"
    for name in ("bin", "include", "lib"):
        link_tree(usr / name, opt / name)
    (opt / "share").mkdir()
    link_tree(usr / "share/miopen", opt / "share/miopen")
    for path in sorted((opt / "lib" / toolchain.libmiopen.parent.name).iterdir()):
        path.rename(opt / "lib" / path.name)
    return opt


@pytest.fixture
def opt(module_opt: Path, tmp_path: Path) -> Path:
    link_tree(module_opt / "lib", tmp_path / "rocm/lib")
    for name in ("bin", "include", "share"):
        (tmp_path / "rocm" / name).symlink_to(module_opt / name)
    return tmp_path / "rocm"


def test_a_moved_tree_is_found_natively(
    toolchain: Toolchain, module_opt: Path, tmp_path: Path
) -> None:
    known = add(module_opt, data_dir=tmp_path)
    assert names(tmp_path) == (known.name,)
    assert known.name == f"rocm-{toolchain.miopen_version}"
    assert known.origin == "installed"
    assert known.libmiopen == module_opt / "lib/libMIOpen.so.1"
    assert known.library_path == (module_opt / "lib",)
    assert known.loader is not None
    assert known.loader.parent == module_opt / "lib"
    assert known.python.parent == module_opt / "bin"
    assert known.python_home == module_opt
    assert known.system_db == module_opt / "share/miopen/db"
    assert known.include_path == (module_opt / "include",)
    assert all(p.is_relative_to(module_opt) for p in known.cxx_include_path)
    assert len(known.cxx_include_path) == len(toolchain.cxx_include_path)
    same = ("miopen_version", "build_id", "fingerprint", "sonames", "asm_kernels")
    assert [getattr(known, k) for k in same] == [getattr(toolchain, k) for k in same]
    assert find(known.name, tmp_path) == known


COMPILE = r"""
import ctypes, hashlib
lib = ctypes.CDLL("libhiprtc.so.7")
source = b'''
#include <hip/hip_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <errno.h>
#include <climits>
#include <type_traits>
#include <rocrand/rocrand_xorwow.h>
extern "C" __global__ void k(float* x) { x[threadIdx.x] = threadIdx.x * 2.0f; }
'''
program, size = ctypes.c_void_p(), ctypes.c_size_t()
lib.hiprtcCreateProgram(ctypes.byref(program), source, b"k.cpp", 0, None, None)
options = (ctypes.c_char_p * 2)(b"--offload-arch=gfx1030", b"-O3")
print(lib.hiprtcCompileProgram(program, 2, options))
lib.hiprtcGetCodeSize(program, ctypes.byref(size))
code = ctypes.create_string_buffer(size.value)
lib.hiprtcGetCode(program, code)
print(hashlib.sha256(code.raw).hexdigest())
"""


def compile_one(toolchain: Toolchain, folder: Path) -> list[str]:
    assert toolchain.loader is not None
    done = subprocess.run(
        [
            toolchain.loader, "--library-path", ":".join(map(str, toolchain.library_path)),
            toolchain.python, "-c", COMPILE,
        ],
        env={
            "PYTHONHOME": str(toolchain.python_home),
            "CPATH": ":".join(map(str, toolchain.include_path)),
            "CPLUS_INCLUDE_PATH": ":".join(map(str, toolchain.cxx_include_path)),
            "TMPDIR": str(folder),
        },
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return done.stdout.split()


def test_its_headers_are_complete_and_its_output_the_same(
    toolchain: Toolchain, module_opt: Path, tmp_path: Path
) -> None:
    here = compile_one(toolchain, tmp_path)
    assert here[0] == "0"
    assert compile_one(probe(module_opt, name="x").toolchain, tmp_path) == here


def test_digests(toolchain: Toolchain) -> None:
    verify(describe(str(real_root(toolchain).parent)))


def test_assembly_kernels_and_replaced_libraries(toolchain: Toolchain) -> None:
    needed = read_elf(toolchain.libmiopen).needed
    assert set(toolchain.sonames) < set(needed)
    beginnings = {name.split(".")[0] for name in toolchain.sonames}
    assert {"libamdhip64", "librocblas", "libamd_comgr", "libhiprtc"} <= beginnings
    has_sources = b"s_endpgm" in toolchain.libmiopen.read_bytes()
    assert toolchain.asm_kernels is has_sources


def test_no_host_library_in_it(toolchain: Toolchain) -> None:
    root = real_root(toolchain)
    for library in describe(str(root.parent)).libraries:
        assert library.path.is_relative_to(root), library.soname
    for path in root.rglob("*"):
        if path.is_symlink():
            assert not os.readlink(path).startswith("/"), path


def test_without_the_c_library_that_it_needs(opt: Path) -> None:
    """A host with an old C library says which version is needed; a new one just runs it."""
    for pattern in ("libc.so*", "libm.so*", "ld-linux*", "libm-*", "libmvec*", "libstdc++*"):
        for path in (opt / "lib").glob(pattern):
            path.unlink()
    host = tuple(map(int, os.confstr("CS_GNU_LIBC_VERSION").split()[1].split(".")))  # type: ignore[union-attr]
    if host < (2, 38):
        with pytest.raises(ToolchainError, match=r"GLIBC_2\.\d+ is needed, and this machine's"):
            probe(opt, name="x")
    else:
        assert probe(opt, name="x").toolchain.loader is None


@pytest.mark.parametrize(
    "beginning", ["libLLVM.so", "libamd_comgr.so", "libhiprtc.so", "libsqlite3.so", "libzstd.so"]
)
def test_a_lost_library_is_named(opt: Path, beginning: str) -> None:
    for path in (opt / "lib").glob(f"{beginning}*"):
        path.unlink()
    with pytest.raises(ToolchainError, match=f"Library `{beginning}.*` is missing"):
        probe(opt, name="x")


def test_no_comgr_is_a_child_process_compiler(opt: Path) -> None:
    """The real library with another name for libamd_comgr: what a build without COMGR needs."""
    path = opt / "lib/libMIOpen.so.1"
    data = path.read_bytes()
    replace_file(path, data.replace(b"libamd_comgr.so.", b"libz_no_comgr.s."))
    with pytest.raises(ToolchainError, match="clang\\+\\+-22`, which is missing"):
        probe(path, name="x")


def test_its_own_c_library_without_a_python(opt: Path) -> None:
    (opt / "bin").unlink()
    with pytest.raises(ToolchainError, match="no Python runs on it"):
        probe(opt, name="x")
