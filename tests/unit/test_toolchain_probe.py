"""Toolchains made of tiny libraries: found, described, moved, damaged, refused."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kdbforge.errors import InputError, ToolchainError, UnknownNameError
from kdbforge.toolchain import add, check, data_folder, describe, find, names, probe, remove, verify
from kdbforge.toolchain.elf import read_elf
from kdbforge.toolchain.fingerprint import affects_output, combine, header_digests

MIOPEN = """\
const char version[] = ", MIOpen version 9.8.7.";
const char kernel[] = "__kernel void f(){{}}";
const char more[] = "{more}";
int comgr(void), hiprtc(void), blas(void);
int miopen(void) {{ return comgr() + hiprtc() + blas(); }}
"""


def cc(source: str, output: Path, *options: str) -> Path:
    output.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [
            "gcc", "-shared", "-fPIC", "-Wl,--build-id", f"-Wl,-soname,{output.name}",
            "-o", output, "-x", "c", "-", "-x", "none", *options,
        ],
        input=source, text=True, check=True,
    )  # fmt: skip
    return output


def make(root: Path, *, lib: str = "lib", more: str = "", miopen: str = MIOPEN) -> Path:
    """Make a prefix with a libMIOpen, its compiler, headers and databases; returns libMIOpen."""
    folder = root / lib
    llvm = cc("int llvm(void) { return 1; }", folder / "libLLVM.so.22.1")
    comgr = cc(
        "int llvm(void); int comgr(void) { return llvm(); }",
        folder / "libamd_comgr.so.3",
        str(llvm),
    )
    hiprtc = cc(
        'const char comgr[] = "libamd_comgr.so.3"; int hiprtc(void) { return 2; }',
        folder / "libhiprtc.so.7",
    )
    cc("int builtins;", folder / "libhiprtc-builtins.so.7")
    blas = cc("int blas(void) { return 3; }", root / "gone" / "librocblas.so.5")
    library = cc(
        miopen.format(more=more), folder / "libMIOpen.so.1",
        *map(str, (comgr, hiprtc, blas)), f"-Wl,-rpath-link,{folder}",
    )  # fmt: skip
    shutil.rmtree(root / "gone")
    (root / "share/miopen/db").mkdir(parents=True)
    (root / "include/hip").mkdir(parents=True)
    (root / "include/hip/hip_runtime.h").write_text("#define HIP 1\n")
    return library


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("made") / "rocm"
    make(root)
    return root


@pytest.fixture
def rocm(made: Path, tmp_path: Path) -> Path:
    """A prefix of its own, as /opt/rocm is one."""
    return Path(shutil.copytree(made, tmp_path / "rocm", symlinks=True))


def test_a_prefix_is_described(rocm: Path) -> None:
    found = probe(rocm, name="x")
    known = found.toolchain
    assert known.name == "x"
    assert known.origin == "installed"
    assert (known.version, known.miopen_version) == ("9.8.7", "9.8.7")
    assert known.build_id == read_elf(rocm / "lib/libMIOpen.so.1").build_id
    assert len(known.build_id) == 40
    assert known.libmiopen == rocm / "lib/libMIOpen.so.1"
    assert known.library_path == (rocm / "lib",)
    assert (known.loader, known.python, known.python_home) == (None, Path(sys.executable), None)
    assert known.system_db == rocm / "share/miopen/db"
    assert known.include_path[0] == rocm / "include"
    assert known.sonames == ("libamd_comgr.so.3", "libhiprtc.so.7", "librocblas.so.5")
    assert not known.asm_kernels
    sonames = {library.soname for library in found.libraries}
    assert {"libLLVM.so.22.1", "libhiprtc-builtins.so.7"} <= sonames
    check(known)
    verify(found)


def test_a_file_and_its_prefix_are_the_same(rocm: Path) -> None:
    by_file = probe(rocm / "lib/libMIOpen.so.1", name="x").toolchain
    assert by_file == probe(rocm, name="x").toolchain


def test_the_release_is_read_from_the_prefix(rocm: Path) -> None:
    (rocm / ".info").mkdir()
    (rocm / ".info/version").write_text("6.4.1-83\n")
    assert probe(rocm, name="x").toolchain.version == "6.4.1"


@pytest.mark.parametrize("lib", ["lib64", "lib/x86_64-linux-gnu", "_rocm_sdk_core/lib"])
def test_other_places_of_libraries(tmp_path: Path, lib: str) -> None:
    make(tmp_path, lib=lib)
    assert probe(tmp_path, name="x").toolchain.library_path == (tmp_path / lib,)


def test_assembly_sources_are_seen(tmp_path: Path) -> None:
    make(tmp_path, more=".amdhsa_kernel conv")
    assert probe(tmp_path, name="x").toolchain.asm_kernels


# -- refusals -------------------------------------------------------------------------------------


def refused(path: Path) -> str:
    with pytest.raises(ToolchainError) as caught:
        probe(path, name="x")
    return str(caught.value.message)


@pytest.mark.parametrize(("machine", "word"), [(183, "aarch64"), (224, "AMD GPU"), (999, "999")])
def test_an_elf_for_another_machine(rocm: Path, machine: int, word: str) -> None:
    path = rocm / "lib/libMIOpen.so.1"
    data = bytearray(path.read_bytes())
    data[18:20] = machine.to_bytes(2, "little")
    path.write_bytes(data)
    said = refused(rocm)
    assert str(path) in said
    assert word in said


def test_a_compiler_library_for_another_machine(rocm: Path) -> None:
    path = rocm / "lib/libamd_comgr.so.3"
    data = bytearray(path.read_bytes())
    data[18:20] = (183).to_bytes(2, "little")
    path.write_bytes(data)
    assert "`libamd_comgr.so.3` is missing" in refused(rocm)


def test_a_child_process_compiler_that_is_not_named(tmp_path: Path) -> None:
    cc(MIOPEN.partition("int comgr")[0].format(more=""), tmp_path / "lib/libMIOpen.so.1")
    assert "compiles in child processes, and names no clang++" in refused(tmp_path)


def test_without_kernels(tmp_path: Path) -> None:
    make(tmp_path, miopen=MIOPEN.replace("__kernel void", "nothing"))
    assert "has no kernels" in refused(tmp_path)


def test_no_miopen_at_all(rocm: Path) -> None:
    assert "is not a libMIOpen" in refused(rocm / "lib/libLLVM.so.22.1")
    assert "is not an ELF file" in refused(rocm / "include/hip/hip_runtime.h")
    assert "No `libMIOpen.so` below" in refused(rocm / "share")
    assert "does not exist" in refused(rocm / "nowhere")


def test_two_different_ones(rocm: Path) -> None:
    shutil.copytree(rocm / "lib", rocm / "lib64")
    assert "Several libMIOpen" in refused(rocm)


def test_one_under_several_names(rocm: Path) -> None:
    (rocm / "lib/libMIOpen.so.1").rename(rocm / "lib/libMIOpen.so.1.0")
    (rocm / "lib/libMIOpen.so.1").symlink_to("libMIOpen.so.1.0")
    (rocm / "lib/libMIOpen.so").symlink_to("libMIOpen.so.1")
    assert probe(rocm, name="x").toolchain.libmiopen == rocm / "lib/libMIOpen.so.1"


@pytest.mark.parametrize("cut", [100, 4096, -600])
def test_a_truncated_library(rocm: Path, cut: int) -> None:
    path = rocm / "lib/libamd_comgr.so.3"
    path.write_bytes(path.read_bytes()[:cut])
    assert str(path) in refused(rocm)


@pytest.mark.parametrize("name", ["libLLVM.so.22.1", "libamd_comgr.so.3", "libhiprtc.so.7"])
def test_a_missing_library(rocm: Path, name: str) -> None:
    (rocm / "lib" / name).unlink()
    assert f"Library `{name}` is missing" in refused(rocm)


def test_a_c_library_too_old(tmp_path: Path) -> None:
    """A libm that lacks a version which libMIOpen needs stands for an old C library."""
    make(tmp_path)
    version = tmp_path / "new.map"
    version.write_text("GLIBC_2.99 { global: ahead; local: *; };\n")
    new = cc(
        "int ahead(void){return 1;}", tmp_path / "new/libm.so.6", f"-Wl,--version-script={version}"
    )
    llvm = tmp_path / "lib/libLLVM.so.22.1"
    cc("int ahead(void); int llvm(void){return ahead();}", llvm, str(new), "-nostdlib")
    shutil.rmtree(tmp_path / "new")
    with pytest.raises(ToolchainError, match=r"GLIBC_2\.99 is needed") as caught:
        probe(tmp_path, name="x")
    assert caught.value.context == ("libLLVM.so.22.1 needs GLIBC_2.99 of libm.so.6",)


def test_a_c_library_without_its_loader(rocm: Path) -> None:
    (rocm / "lib/libc.so.6").write_bytes(b"")
    assert "no loader" in refused(rocm)


# -- registry -------------------------------------------------------------------------------------


def test_the_data_folder() -> None:
    assert data_folder({"KDBFORGE_DATA": "/d", "HOME": "/h"}) == Path("/d")
    assert data_folder({"XDG_DATA_HOME": "/x", "HOME": "/h"}) == Path("/x/kdbforge")
    assert data_folder({"HOME": "/h", "KDBFORGE_DATA": ""}) == Path("/h/.local/share/kdbforge")
    with pytest.raises(InputError, match="HOME are not set") as caught:
        data_folder({})
    assert "KDBFORGE_DATA" in str(caught.value.hint)


def test_add_find_remove(rocm: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with pytest.raises(ToolchainError, match="No toolchain in"):
        find(None, data)
    added = add(rocm, data_dir=data)
    assert added.name == "rocm-9.8.7"
    assert find(None, data) == find("rocm-9.8.7", data) == added
    assert add(rocm, "other", data_dir=data).fingerprint == added.fingerprint
    assert names(data) == ("other", "rocm-9.8.7")
    with pytest.raises(ToolchainError, match="Several toolchains"):
        find(None, data)
    with pytest.raises(UnknownNameError, match="`rocm-9`") as caught:
        find("rocm-9", data)
    assert "rocm-9.8.7" in str(caught.value.hint)
    remove("other", data)
    assert names(data) == ("rocm-9.8.7",)
    assert rocm.is_dir()
    with pytest.raises(UnknownNameError):
        remove("other", data)


@pytest.mark.parametrize("name", ["", "..", "a/b", "-x", "a.partial-1", "a.old-2", "x" * 200])
def test_names_that_cannot_be(rocm: Path, tmp_path: Path, name: str) -> None:
    if name:
        with pytest.raises(InputError, match="cannot be the name"):
            add(rocm, name, data_dir=tmp_path / "data")
    assert names(tmp_path / "data") == ()


def test_a_taken_name(rocm: Path, tmp_path: Path) -> None:
    add(rocm, "a", data_dir=tmp_path)
    with pytest.raises(InputError, match="exists"):
        add(rocm, "a", data_dir=tmp_path)
    assert add(rocm, "a", data_dir=tmp_path, replace=True).name == "a"


def test_a_toolchain_by_path_needs_no_data_folder(
    rocm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("KDBFORGE_DATA", "XDG_DATA_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    before = sorted(rocm.rglob("*"))
    assert find(str(rocm)).name == "rocm"
    assert sorted(rocm.rglob("*")) == before


def test_unfinished_folders_are_no_toolchains(tmp_path: Path) -> None:
    for name in ("a.partial-7", "b.old-8", "empty", ".fetch"):
        (tmp_path / "toolchains" / name).mkdir(parents=True)
    (tmp_path / "toolchains/a.partial-7/toolchain.json").write_text("{}")
    assert names(tmp_path) == ()


@pytest.fixture
def fetched(rocm: Path, tmp_path: Path) -> Path:
    """A folder as a fetch leaves it: the tree and its description, relative."""
    from kdbforge.toolchain.description import save

    home = tmp_path / "data/toolchains/deb"
    home.mkdir(parents=True)
    rocm.rename(home / "root")
    save(probe(home / "root", name="deb", origin="fetched", version="9"), home)
    return home


def test_a_moved_folder_still_loads(fetched: Path, tmp_path: Path) -> None:
    before = find("deb", tmp_path / "data")
    moved = fetched.rename(tmp_path / "elsewhere")
    after = find(str(moved))
    assert after.libmiopen == moved / "root/lib/libMIOpen.so.1"
    assert after.library_path == (moved / "root/lib",)
    same = ("fingerprint", "build_id", "version", "sonames", "origin")
    assert all(getattr(after, key) == getattr(before, key) for key in same)
    assert str(fetched) not in (moved / "toolchain.json").read_text()
    verify(describe(str(moved)))


def test_a_lost_library_is_named(fetched: Path) -> None:
    (fetched / "root/lib/libLLVM.so.22.1").unlink()
    with pytest.raises(ToolchainError, match=r"lost `.*libLLVM\.so\.22\.1`"):
        find(str(fetched))


def test_a_library_of_another_size_is_named(fetched: Path) -> None:
    with (fetched / "root/lib/libhiprtc.so.7").open("ab") as library:
        library.write(b"x")
    with pytest.raises(ToolchainError, match=r"libhiprtc\.so\.7` has changed"):
        find(str(fetched))


def test_a_changed_byte_is_found_by_verify(fetched: Path) -> None:
    path = fetched / "root/lib/libLLVM.so.22.1"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    find(str(fetched))
    with pytest.raises(ToolchainError, match=r"libLLVM\.so\.22\.1` has changed.*SHA-256"):
        verify(describe(str(fetched)))


def test_another_miopen_of_the_same_size(fetched: Path) -> None:
    path = fetched / "root/lib/libMIOpen.so.1"
    data = path.read_bytes()
    build_id = bytes.fromhex(read_elf(path).build_id)
    path.write_bytes(data.replace(build_id, build_id[::-1]))
    with pytest.raises(ToolchainError, match="build ID"):
        find(str(fetched))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 1}', '{"format": 1, "x": []}'])
def test_a_damaged_description(fetched: Path, text: str) -> None:
    (fetched / "toolchain.json").write_text(text)
    with pytest.raises(ToolchainError, match=r"toolchain\.json` is damaged"):
        find(str(fetched))


def test_a_description_of_a_newer_kdbforge(fetched: Path) -> None:
    document = json.loads((fetched / "toolchain.json").read_text())
    (fetched / "toolchain.json").write_text(json.dumps({**document, "format": 2}))
    with pytest.raises(ToolchainError, match="has format 2, not 1"):
        find(str(fetched))


# -- fingerprint ----------------------------------------------------------------------------------


def test_the_fingerprint_does_not_depend_on_the_place(rocm: Path, tmp_path: Path) -> None:
    first = probe(rocm, name="x").toolchain.fingerprint
    moved = rocm.rename(tmp_path / "opt with space")
    assert probe(moved, name="y").toolchain.fingerprint == first
    (moved / "share/miopen/db/gfx906_60.HIP.fdb.txt").write_text("not the compiler's")
    assert probe(moved, name="y").toolchain.fingerprint == first


Change = Callable[[Path], object]


@pytest.mark.parametrize(
    "change",
    [
        lambda root: cc("int llvm(void) { return 9; }", root / "lib/libLLVM.so.22.1"),
        lambda root: cc("int builtins = 5;", root / "lib/libhiprtc-builtins.so.7"),
        lambda root: (root / "include/hip/hip_runtime.h").write_text("#define HIP 2\n"),
        lambda root: (root / "include/hip/more.h").write_text(""),
        lambda root: (root / "include/top.h").write_text(""),
        lambda root: (root / "include/hip/hip_runtime.h").rename(root / "include/hip/h.h"),
    ],
    ids=["llvm", "builtins", "header", "new header", "top header", "renamed header"],
)
def test_the_fingerprint_sees(rocm: Path, change: Change) -> None:
    before = probe(rocm, name="x").toolchain.fingerprint
    change(rocm)
    assert probe(rocm, name="x").toolchain.fingerprint != before


def test_labels_and_digests_do_not_run_together() -> None:
    assert combine([("ab", "c")]) != combine([("a", "bc")])
    assert combine([("a", "b"), ("c", "d")]) != combine([("c", "d"), ("a", "b")])


def test_what_cannot_change_the_output() -> None:
    out = ["ld-linux-x86-64.so.2", "libc.so.6", "libgcc_s.so.1", "libpthread.so.0"]
    assert not any(affects_output(name) for name in out)
    assert all(affects_output(n) for n in ("libm.so.6", "libstdc++.so.6", "libLLVM.so.22.1"))
    assert affects_output("libclang-cpp.so.22.1")


def test_unrelated_headers_beside_shared_ones_do_not_count(tmp_path: Path) -> None:
    for name in ("include/hip/a.h", "include/boost/b.h", "cxx/deep/er/c.h"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(name)
    folders = [tmp_path / "cxx", tmp_path / "include"]

    def now() -> list[tuple[str, str]]:
        return list(header_digests(folders, shared=[tmp_path / "include"]))

    first = now()
    (tmp_path / "include/boost/b.h").write_text("other")
    assert now() == first
    (tmp_path / "cxx/deep/er/c.h").write_text("other")
    assert [a == b for a, b in zip(now(), first, strict=True)] == [False, True]


def test_a_toolchain_is_a_value(rocm: Path) -> None:
    known = probe(rocm, name="x").toolchain
    assert dataclasses.replace(known) == known
