"""What the doctor says of a library and of the files in the folder where it looks."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from installing import BUILD_ID, library, make_kdb

from kdbforge.errors import HostError, InputError, ToolchainError
from kdbforge.kdb.writer import write_kdb
from kdbforge.model.toolchain import Toolchain
from kdbforge.package.doctor import LibraryReport, diagnose, examine
from kdbforge.package.host import Host
from kdbforge.package.libraries import Places, choose_library, find_libraries, inspect
from kdbforge.package.lookup import ask, read_log
from kdbforge.vgpu.profiles import resolve

GPU = resolve("gfx1030_40")


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(environment={"HOME": str(tmp_path)}, cwd=tmp_path / "elsewhere", tmp=tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "share/miopen/db"
    path.mkdir(parents=True)
    return path


def said(report: LibraryReport) -> list[tuple[str, str]]:
    """Findings without the one that says that the library cannot be run."""
    first, *others = report.findings
    assert first.why == "it is made of air"
    return [(finding.level, finding.what) for finding in others]


def test_a_sound_database(tmp_path: Path, folder: Path, host: Host) -> None:
    path = make_kdb(folder / "gfx1030_40.kdb", "gfx1030")
    report = examine(library(tmp_path), GPU, host)
    assert said(report) == []
    assert report.opens == path
    assert report.folder == folder


def test_the_generic_database_serves(tmp_path: Path, folder: Path, host: Host) -> None:
    """One file for the architecture satisfies every CU count (#2123)."""
    make_kdb(folder / "gfx1030.kdb", "gfx1030", num_cus=(36,))
    report = examine(library(tmp_path), resolve("gfx1030_12"), host)
    assert said(report) == []
    assert report.opens == folder / "gfx1030.kdb"


def test_nothing_there(tmp_path: Path, folder: Path, host: Host) -> None:
    """Missing databases make programs slow, they do not make them fail (#3954)."""
    report = examine(library(tmp_path), GPU, host)
    assert said(report) == [
        ("warning", "There is no system database: neither `gfx1030_40.kdb` nor `gfx1030.kdb`")
    ]
    assert "not the cause of a failure" in report.findings[-1].why
    assert report.opens is None


def test_a_library_that_runs_clang(tmp_path: Path, folder: Path, host: Host) -> None:
    """Where its compiler is missing, a missing database is a failure."""
    report = examine(library(tmp_path, in_process=False), GPU, host)
    (found,) = [f for f in report.findings if f.what.startswith("It runs clang")]
    assert found.level == "note"
    assert "fails" in found.why


def test_no_folder(tmp_path: Path, host: Host) -> None:
    report = examine(library(tmp_path), GPU, host)
    assert said(report)[0] == (
        "warning",
        f"The folder for system databases does not exist: `{tmp_path / 'share/miopen/db'}`",
    )


def test_hiding(tmp_path: Path, folder: Path, host: Host) -> None:
    make_kdb(folder / "gfx1030_40.kdb", "gfx1030")
    make_kdb(folder / "gfx1030.kdb", "gfx1030", num_cus=(36, 40))
    assert said(examine(library(tmp_path), GPU, host)) == [
        ("warning", "`gfx1030_40.kdb` hides `gfx1030.kdb`")
    ]


def test_an_embedded_miopen(tmp_path: Path, host: Host) -> None:
    """pytorch/pytorch#60477, #1010, #1994: `open memvfs: unable to open database file`."""
    report = examine(library(tmp_path, embedded=True, system_folder=None), GPU, host)
    assert said(report)[0] == ("warning", "Its databases are built in, and it reads no files")
    assert "open memvfs: unable to open database file" in report.findings[1].why


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        (b"x" * 511, "MIOpen ignores files under 512"),
        (b"x" * 600, "not an SQLite file"),
        (b"<!DOCTYPE html>" + b" " * 600, "web page"),
    ],
)
def test_files_that_are_none(
    tmp_path: Path, folder: Path, host: Host, content: bytes, words: str
) -> None:
    """A file exists, is readable, and is still not read (#1254, #2255)."""
    (folder / "gfx1030_40.kdb").write_bytes(content)
    ((level, what),) = said(examine(library(tmp_path), GPU, host))
    assert level == "error"
    assert words in what


def test_a_wal_file(tmp_path: Path, folder: Path, host: Host) -> None:
    path = make_kdb(folder / "gfx1030_40.kdb", "gfx1030")
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode=wal")
    ((level, what),) = said(examine(library(tmp_path), GPU, host))
    assert level == "error"
    assert "WAL mode" in what


def test_a_performance_database(tmp_path: Path, folder: Path, host: Host) -> None:
    with closing(sqlite3.connect(folder / "gfx1030_40.kdb")) as db:
        db.execute("CREATE TABLE perf_db (id INTEGER)")
    ((level, what),) = said(examine(library(tmp_path), GPU, host))
    assert level == "error"
    assert "performance database" in what


def test_a_renamed_database(tmp_path: Path, folder: Path, host: Host) -> None:
    """Renaming gfx1030_36.kdb helps for gfx1030_40; renaming one of gfx1031 does not (#1309)."""
    make_kdb(folder / "gfx1030_40.kdb", "gfx1031", manifest=False)
    found = said(examine(library(tmp_path), GPU, host))
    assert found[0][0] == "warning"
    assert "holds kernels for gfx1031, not for gfx1030" in found[0][1]


def test_an_empty_database(tmp_path: Path, folder: Path, host: Host) -> None:
    write_kdb(folder / "gfx1030_40.kdb", [])
    found = said(examine(library(tmp_path), GPU, host))
    assert found[0] == ("warning", f"`{folder / 'gfx1030_40.kdb'}` has no records")


def test_a_database_for_another_library(tmp_path: Path, folder: Path, host: Host) -> None:
    """Stale kernels crash programs (#3023)."""
    make_kdb(folder / "gfx1030_40.kdb", "gfx1030", build_id="12" * 20)
    ((level, what),) = said(examine(library(tmp_path), GPU, host))
    assert level == "error"
    assert "12" * 20 in what


def test_no_manifest(tmp_path: Path, folder: Path, host: Host) -> None:
    make_kdb(folder / "gfx1030_40.kdb", "gfx1030", manifest=False)
    assert [level for level, _ in said(examine(library(tmp_path), GPU, host))] == ["note"]


@pytest.mark.parametrize("text", [".", "db", "<cwd>"])
def test_the_current_directory(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows databases were looked up there (rocm-libraries PR #10838)."""
    monkeypatch.chdir(tmp_path)
    setting = text.replace("<cwd>", str(tmp_path))
    host = Host(environment={"HOME": "/", "MIOPEN_SYSTEM_DB_PATH": setting}, cwd=tmp_path)
    found = said(examine(library(tmp_path), GPU, host))
    assert "current directory" in found[0][1]
    assert str((tmp_path / setting).resolve()) in found[0][1]


# -- the library itself ---------------------------------------------------------------------------


def runnable(root: Path, *, asm_kernels: bool = True) -> Toolchain:
    """A toolchain with its headers and the `libamdhip64.so` that hiprtc opens."""
    for header in ("hip/hip_runtime.h", "type_traits", "rocrand/rocrand_xorwow.h"):
        (root / "include" / header).parent.mkdir(parents=True, exist_ok=True)
        (root / "include" / header).touch()
    (root / "lib").mkdir(exist_ok=True)
    (root / "lib/libhiprtc.so.7").write_bytes(b"..libamdhip64.so\0..")
    (root / "lib/libamdhip64.so").touch()
    return Toolchain(
        "t", "installed", "7.2.4", "3.5.1", BUILD_ID, "0", root / "lib/libMIOpen.so.1",
        (root / "lib",), None, Path("/usr/bin/python3"), None, None, (root / "include",), (),
        ("libhiprtc.so.7", "libamd_comgr.so.3", "libamdhip64.so.7"), asm_kernels,
    )  # fmt: skip


def alone(root: Path, host: Host, toolchain: Toolchain) -> list[tuple[str, str]]:
    (root / "share/miopen/db").mkdir(parents=True, exist_ok=True)
    report = examine(library(root, toolchain=toolchain, reason=""), None, host)
    return [(finding.level, finding.what) for finding in report.findings]


def test_a_sound_library(tmp_path: Path, host: Host) -> None:
    assert alone(tmp_path, host, runnable(tmp_path)) == []


@pytest.mark.parametrize(("value", "errors"), [(None, 1), ("1", 1), ("0", 0), ("Off", 0)])
def test_removed_assembly_kernels(tmp_path: Path, value: str | None, errors: int) -> None:
    setting = {} if value is None else {"MIOPEN_DEBUG_GCN_ASM_KERNELS": value}
    host = Host(environment={"HOME": "/", **setting}, cwd=tmp_path / "x")
    found = alone(tmp_path, host, runnable(tmp_path, asm_kernels=False))
    assert [level for level, _ in found] == ["error"] * errors
    assert all("assembly kernels were removed" in what for _, what in found)


def test_hiprtc_without_the_unversioned_name(tmp_path: Path, host: Host) -> None:
    """`Please provide architecture for which code is to be generated` (nixified-ai/flake#13)."""
    toolchain = runnable(tmp_path)
    (tmp_path / "lib/libamdhip64.so").rename(tmp_path / "lib/libamdhip64.so.7")
    ((level, what),) = alone(tmp_path, host, toolchain)
    assert level == "error"
    assert "opens `libamdhip64.so`" in what


def test_hiprtc_that_opens_the_versioned_name(tmp_path: Path, host: Host) -> None:
    toolchain = runnable(tmp_path)
    (tmp_path / "lib/libamdhip64.so").unlink()
    (tmp_path / "lib/libhiprtc.so.7").write_bytes(b"..libamdhip64.so.7\0..")
    assert alone(tmp_path, host, toolchain) == []


@pytest.mark.parametrize("header", ["hip/hip_runtime.h", "type_traits", "rocrand/rocrand_xorwow.h"])
def test_missing_headers(tmp_path: Path, host: Host, header: str) -> None:
    toolchain = runnable(tmp_path)
    (tmp_path / "include" / header).unlink()
    assert alone(tmp_path, host, toolchain) == [("warning", f"The header `{header}` is missing")]


# -- finding libraries ----------------------------------------------------------------------------


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(str(path).encode())
    return path


def test_every_library_is_found_once(tmp_path: Path) -> None:
    """System, /opt/rocm and the wheels, each of which looks in a folder of its own (#1709)."""
    system = touch(tmp_path / "usr/lib/libMIOpen.so.1.0")
    (tmp_path / "usr/lib/libMIOpen.so.1").symlink_to("libMIOpen.so.1.0")
    (tmp_path / "usr/lib/libMIOpen.so").symlink_to("libMIOpen.so.1")
    touch(tmp_path / "usr/lib/libMIOpen.so.1.debug")
    rocm = touch(tmp_path / "opt/rocm-6.4/lib/libMIOpen.so.1")
    (tmp_path / "opt/rocm").symlink_to("rocm-6.4")
    torch = touch(tmp_path / "venv/torch/lib/libMIOpen.so")
    sdk = touch(tmp_path / "venv/_rocm_sdk_libraries_gfx1030/lib/libMIOpen.so.1")
    cached = touch(tmp_path / "nix/store/miopen/libMIOpen.so.1")
    places = Places(
        (tmp_path / "usr/lib", tmp_path / "none"),
        (cached, system.with_name("libMIOpen.so.1"), tmp_path / "gone/libMIOpen.so.1"),
        (tmp_path / "opt/rocm", tmp_path / "opt/rocm-6.4"),
        (tmp_path / "venv",),
    )
    assert [path.resolve() for path in find_libraries(places)] == [
        system, cached, rocm, torch, sdk,
    ]  # fmt: skip
    assert find_libraries(places)[0].name == "libMIOpen.so.1"


NOWHERE = Places((), (), (), ())


def test_no_library_to_choose(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no libMIOpen on this machine"):
        choose_library(None, NOWHERE)


def test_several_libraries_to_choose_from(tmp_path: Path) -> None:
    paths = [touch(tmp_path / name / "libMIOpen.so.1") for name in "ab"]
    with pytest.raises(InputError, match="several libMIOpen") as caught:
        choose_library(None, Places((), tuple(paths), (), ()))
    assert caught.value.context == tuple(map(str, paths))


def compiled(path: Path, *texts: str) -> Path:
    """A real shared library that holds the texts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    source = "".join(f'const char t{n}[] = "{text}";\n' for n, text in enumerate(texts))
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-Wl,--build-id", "-o", path, "-x", "c", "-"],
        input=source, text=True, check=True,
    )  # fmt: skip
    return path


def test_where_a_library_looks(tmp_path: Path) -> None:
    """Distributions write the folder into the library; AMD counts from where it lies."""
    version = "HIP.3_5_1_"
    wheel = compiled(tmp_path / "torch/lib/libMIOpen.so.1", version, "share/miopen/db")
    found = inspect(wheel)
    assert found.system_folder == tmp_path / "torch/share/miopen/db"
    assert (found.toolchain, found.embedded, found.in_process) == (None, False, False)
    assert found.reason
    assert found.miopen_version == "3.5.1"
    debian = compiled(tmp_path / "usr/libMIOpen.so.1", version, "/usr/share/miopen/db")
    assert inspect(debian).system_folder == Path("/usr/share/miopen/db")


def test_a_library_is_followed_to_where_it_really_lies(tmp_path: Path) -> None:
    compiled(tmp_path / "rocm-7/lib/libMIOpen.so.1", "share/miopen/db")
    (tmp_path / "lib").mkdir()
    link = tmp_path / "lib/libMIOpen.so.1"
    link.symlink_to(tmp_path / "rocm-7/lib/libMIOpen.so.1")
    assert inspect(link).system_folder == tmp_path / "rocm-7/share/miopen/db"


def test_an_embedded_library_is_recognised(tmp_path: Path) -> None:
    path = compiled(tmp_path / "libMIOpen.so.1", "open memvfs: ", "HIP.2_15_0_")
    found = inspect(path)
    assert found.embedded
    assert found.system_folder is None


def test_a_path_without_library(tmp_path: Path, host: Host) -> None:
    with pytest.raises(ToolchainError, match=r"No `libMIOpen\.so`"):
        inspect(tmp_path)
    found = diagnose([tmp_path], GPU, host, NOWHERE)
    assert not found.healthy
    assert found.libraries[0].library is None


def test_a_machine_without_library(tmp_path: Path, host: Host) -> None:
    found = diagnose([], GPU, host, NOWHERE)
    assert "No libMIOpen was found" in [finding.what for finding in found.findings]
    assert not found.healthy


def test_a_library_that_cannot_be_run_is_not_asked(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="cannot be run here"):
        ask(library(tmp_path), GPU, os.environ)


def test_the_log_of_a_look_up() -> None:
    start = "MIOpen(HIP): Info2 [SQLiteBase] Initializing"
    log = f'{start} system database file "/d/gfx1030.kdb"\n{start} user database file "/u/x.ukdb"\n'
    assert read_log(log + log.replace("/d/", "/e/")) == ("/d/gfx1030.kdb", "/u/x.ukdb")
    assert read_log(f'{start} system database file ""\n') == ("", None)
    assert read_log("") == (None, None)


def test_nothing_is_left_by_the_doctor(tmp_path: Path, folder: Path, host: Host) -> None:
    make_kdb(folder / "gfx1030_40.kdb", "gfx1030")
    before = shutil.copytree(tmp_path, tmp_path.with_name("copy"))
    examine(library(tmp_path), GPU, host)
    assert sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*")) == sorted(
        p.relative_to(before) for p in Path(before).rglob("*")
    )
