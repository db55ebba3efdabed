"""The real libMIOpen agrees with `install` and `doctor` on which files it opens."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from namespaces import isolated

from kdbforge import Toolchain
from kdbforge.errors import InputError
from kdbforge.kdb.reader import read_kdb, read_ukdb_rows
from kdbforge.kdb.record import Record
from kdbforge.kdb.writer import write_kdb
from kdbforge.miopen.replay import ReplayOptions, replay
from kdbforge.package.doctor import LibraryReport, examine
from kdbforge.package.host import Host
from kdbforge.package.install import InstallOptions, install
from kdbforge.package.libraries import Library, Places, choose_library
from kdbforge.package.lookup import ask
from kdbforge.package.userdb import _add, install_for_user, uninstall_for_user
from kdbforge.vgpu.process import CompileMode
from kdbforge.vgpu.profiles import load_profiles, resolve

GPU = resolve("gfx1030_40")
NOWHERE = Places((), (), (), ())


@pytest.fixture(scope="module")
def library(toolchain: Toolchain) -> Library:
    return choose_library(toolchain.name, NOWHERE)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "db").mkdir()
    return {
        "HOME": str(tmp_path / "home"),
        "MIOPEN_SYSTEM_DB_PATH": str(tmp_path / "db"),
        "MIOPEN_DEBUG_GCN_ASM_KERNELS": "0",
    }


@pytest.fixture
def kdb(tmp_path: Path, library: Library) -> Callable[..., Path]:
    def make(name: str, arch: str = "gfx1030", **changes: str) -> Path:
        path = tmp_path / "out" / name
        path.parent.mkdir(exist_ok=True)
        write_kdb(path, [Record.pack("k.cpp.o", f" -O3 -mcpu={arch}", b"code" * 400)])
        build_id = changes.get("build_id", library.build_id)
        document = {
            "schema": 1,
            "toolchain": {
                "name": "t", "version": "1", "miopen_version": "3", "build_id": build_id,
                "fingerprint": "0",
            },
            "policy": "default", "problems": {"count": 0, "sha256": "0"}, "environment": {},
            "files": [], "gpus": [], "proofs": [], "missing": [],
        }  # fmt: skip
        path.with_suffix(".manifest.json").write_text(json.dumps(document))
        return path

    return make


def levels(report: LibraryReport) -> list[str]:
    return [finding.level for finding in report.findings]


@pytest.mark.parametrize("gpu", ["gfx1030_40", "gfx90a68", "gfx90a:xnack+/104", "gfx906_60"])
def test_the_library_opens_what_was_installed(
    library: Library, environment: dict[str, str], kdb: Callable[..., Path], gpu: str
) -> None:
    found = ask(library, resolve(gpu), environment)
    assert found.basename is not None
    assert (found.system, found.error) == (None, "")
    path = kdb(f"{found.basename}.kdb", resolve(gpu).target.arch)
    folder = Path(environment["MIOPEN_SYSTEM_DB_PATH"])
    done = install([path], library, InstallOptions(to=folder, force=True, environment=environment))
    assert done.confirmed
    assert ask(library, resolve(gpu), environment).system == folder / path.name


def test_the_generic_name_serves_until_there_is_an_exact_one(
    library: Library, environment: dict[str, str], kdb: Callable[..., Path]
) -> None:
    folder = Path(environment["MIOPEN_SYSTEM_DB_PATH"])
    options = InstallOptions(to=folder, force=True, environment=environment)
    install([kdb("gfx1030.kdb")], library, options)
    assert ask(library, GPU, environment).system == folder / "gfx1030.kdb"
    done = install([kdb("gfx1030_40.kdb")], library, options)
    assert any("hides" in text for text in done.warnings)
    assert ask(library, GPU, environment).system == folder / "gfx1030_40.kdb"


def test_an_install_that_is_hidden_is_not_confirmed(
    library: Library, environment: dict[str, str], kdb: Callable[..., Path]
) -> None:
    folder = Path(environment["MIOPEN_SYSTEM_DB_PATH"])
    exact = f"gfx1030_{load_profiles()['gfx1030'].num_cus[0]}.kdb"
    shutil.copy(kdb(exact), folder)
    options = InstallOptions(to=folder, force=True, environment=environment)
    done = install([kdb("gfx1030.kdb")], library, options)
    assert not done.confirmed
    assert any(f"MIOpen opens `{folder / exact}`" in text for text in done.warnings)


def test_miopen_loads_what_was_added_to_the_users_database(
    toolchain: Toolchain, tmp_path: Path
) -> None:
    """Its own record, taken out of one user database and added to another, is found."""

    def run(cache: Path, work: str) -> str:
        variables = {"MIOPEN_CUSTOM_CACHE_DIR": str(cache), "MIOPEN_LOG_LEVEL": "6"}
        options = ReplayOptions(CompileMode.CAPTURE, ("find",), None, variables, name_only=True)
        replay(toolchain, GPU, [], options, tmp_path / work)
        return (tmp_path / work / "log").read_text()

    assert "Successfully loaded binary" not in run(tmp_path / "first", "one")
    made = list(read_ukdb_rows(tmp_path / "first/gfx1030_40.ukdb"))
    write_kdb(tmp_path / "gfx1030_40.kdb", made)
    (tmp_path / "second").mkdir()
    user = tmp_path / "second/gfx1030_40.ukdb"
    assert _add(user, read_kdb(tmp_path / "gfx1030_40.kdb")) == (len(made), 0)
    assert "Successfully loaded binary" in run(tmp_path / "second", "two")
    assert uninstall_for_user([user.name], user.parent)[0].state == "removed"
    assert "Successfully loaded binary" not in run(tmp_path / "second", "three")


def test_another_library_is_refused(
    library: Library, environment: dict[str, str], kdb: Callable[..., Path]
) -> None:
    path = kdb("gfx1030_40.kdb", build_id="12" * 20)
    with pytest.raises(InputError, match="12121212"):
        install([path], library, InstallOptions(to=Path("/nowhere"), environment=environment))


def test_the_users_database(
    library: Library, environment: dict[str, str], kdb: Callable[..., Path], tmp_path: Path
) -> None:
    """It goes to the very file that the library opens first, below the user's home."""
    options = InstallOptions(force=True, environment=environment)
    done = install_for_user([kdb("gfx1030_40.kdb")], library, options)
    (placed,) = done.files
    assert placed.path == ask(library, GPU, environment).user
    assert placed.path.is_relative_to(tmp_path / "home/.cache/miopen")
    uninstall_for_user([placed.path.name], placed.path.parent)
    assert not placed.path.exists()


def test_the_users_folder_is_taken_as_it_is(
    library: Library, environment: dict[str, str], tmp_path: Path
) -> None:
    environment["MIOPEN_CUSTOM_CACHE_DIR"] = str(tmp_path / "mine")
    assert ask(library, GPU, environment).user == tmp_path / "mine/gfx1030_40.ukdb"
    assert not (tmp_path / "mine").exists()
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("damage", ["small", "wal", "garbage", "perf-db", "renamed", "none"])
def test_the_doctor_and_the_library_see_the_same_file(
    library: Library, environment: dict[str, str], kdb: Callable[..., Path], damage: str
) -> None:
    folder = Path(environment["MIOPEN_SYSTEM_DB_PATH"])
    path = Path(shutil.copy(kdb("gfx1030_40.kdb", "gfx1031" if damage == "renamed" else "gfx1030"),
                            folder))  # fmt: skip
    if damage == "small":
        path.write_bytes(path.read_bytes()[:130])
    elif damage == "wal":
        with closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA journal_mode=wal")
    elif damage == "garbage":
        path.write_bytes(b"x" * 5000)
    elif damage == "perf-db":
        path.unlink()
        with closing(sqlite3.connect(path)) as db:
            db.execute("CREATE TABLE perf_db (id INTEGER)")
    report = examine(library, GPU, Host(environment=environment))
    assert report.opens == path
    assert report.lookup is not None
    # MIOpen goes on without a file that SQLite refuses, and fails with one that has no `kern_db`.
    assert ("no such table: kern_db" in report.lookup.error) == (damage == "perf-db")
    worst = {"renamed": "warning", "none": "note"}.get(damage, "error")
    assert worst in levels(report)
    assert ("error" in levels(report)) == (worst == "error")


def test_an_older_user_database_wins(
    library: Library, environment: dict[str, str], kdb: Callable[..., Path]
) -> None:
    folder = Path(environment["MIOPEN_SYSTEM_DB_PATH"])
    system = Path(shutil.copy(kdb("gfx1030_40.kdb"), folder))
    user = ask(library, GPU, environment).user
    assert user is not None
    user.parent.mkdir(parents=True)
    shutil.copy(system, user)
    host = Host(environment=environment)
    assert any("is looked at first" in f.what for f in examine(library, GPU, host).findings)
    with closing(sqlite3.connect(user)) as db:
        db.execute("UPDATE kern_db SET kernel_hash = 'older'")
        db.commit()
    found = examine(library, GPU, host).findings
    assert [f.level for f in found if "wins over" in f.what] == ["warning"]
    user.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    found = examine(library, GPU, host).findings
    assert [f.level for f in found if "is damaged" in f.what] == ["error"]


def test_a_cache_that_is_switched_off(library: Library, environment: dict[str, str]) -> None:
    environment["MIOPEN_DISABLE_CACHE"] = "1"
    found = ask(library, GPU, environment)
    assert (found.system, found.user, found.reads_files) == (None, None, False)


def test_the_assembly_kernels_of_debian(library: Library, environment: dict[str, str]) -> None:
    del environment["MIOPEN_DEBUG_GCN_ASM_KERNELS"]
    report = examine(library, GPU, Host(environment=environment))
    assert any("MIOPEN_DEBUG_GCN_ASM_KERNELS=0 is not set" in f.what for f in report.findings)


def test_the_command(kdbforge: Callable[..., object], toolchain: Toolchain, tmp_path: Path) -> None:
    done = kdbforge("doctor", "--toolchain", toolchain.name, "--gpu", "gfx1030_40", "--json")
    found = json.loads(done.stdout)  # type: ignore[attr-defined]
    (library,) = found["libraries"]
    assert library["basename"] == "gfx1030_40"
    assert library["build_id"] == toolchain.build_id
    assert found["healthy"] is False
    assert done.returncode == 1  # type: ignore[attr-defined]


def test_a_read_only_cache(tmp_path: Path) -> None:
    """As in an image of Singularity: the mode allows what the mount does not."""
    program = (
        "import sys, os, pathlib; from kdbforge.package.host import Host, folder_findings\n"
        "for f in folder_findings(pathlib.Path(sys.argv[1], 'miopen'), Host(), 'x', 'VARIABLE'):\n"
        "    print(f.level, f.what, f.hint, sep='; ')"
    )
    script = 'mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"; exec "$2" -c "$3" "$1"'
    done = isolated(script, tmp_path, sys.executable, program)
    assert done.stdout.startswith("error; "), done.stderr
    assert f"may not make it in `{tmp_path}`" in done.stdout
    assert "set VARIABLE" in done.stdout
