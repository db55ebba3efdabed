"""Installing and uninstalling system databases: what is refused, kept, restored, left alone."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from installing import BUILD_ID, digest, library, make_kdb

from kdbforge.errors import BusyError, DatabaseError, HostError, InputError, UnknownNameError
from kdbforge.files import lock_folder
from kdbforge.kdb.writer import write_kdb
from kdbforge.package.install import InstallOptions, Placed, install, target_folder, uninstall
from kdbforge.package.receipt import FILE_NAME, Layer, read_receipt, write_receipt
from kdbforge.package.sign import generate_key, sign_manifest

NO_SETTINGS = InstallOptions(environment={})


def states(files: list[Placed] | tuple[Placed, ...]) -> list[tuple[str, str]]:
    return [(file.path.name, file.state) for file in files]


@pytest.fixture
def kdb(tmp_path: Path) -> Path:
    return make_kdb(tmp_path / "out/gfx1030_40.kdb", "gfx1030")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "rocm"


@pytest.fixture
def folder(root: Path) -> Path:
    return root / "share/miopen/db"


def test_it_goes_where_the_library_looks(kdb: Path, root: Path, folder: Path) -> None:
    done = install([kdb], library(root), NO_SETTINGS)
    assert states(done.files) == [
        ("gfx1030_40.kdb", "installed"),
        ("gfx1030_40.manifest.json", "installed"),
    ]
    assert (folder / kdb.name).read_bytes() == kdb.read_bytes()
    assert (folder / kdb.name).stat().st_mode & 0o777 == 0o644
    assert not done.confirmed
    assert done.warnings == ("Not confirmed: the library cannot be run here: it is made of air",)
    assert sorted(os.listdir(folder)) == sorted(
        [FILE_NAME, "gfx1030_40.kdb", "gfx1030_40.manifest.json"]
    )


def test_a_wheel_is_a_place_like_others(kdb: Path, tmp_path: Path) -> None:
    """The folder follows from the library, not from the distribution's package (#1709, #1391)."""
    wheel = tmp_path / "site-packages/torch"
    done = install([kdb], library(wheel), NO_SETTINGS)
    assert done.folder == wheel / "share/miopen/db"


def test_the_environment_moves_the_folder(kdb: Path, root: Path, tmp_path: Path) -> None:
    options = InstallOptions(environment={"MIOPEN_SYSTEM_DB_PATH": str(tmp_path / "shared")})
    assert install([kdb], library(root), options).folder == tmp_path / "shared"


def test_a_folder_of_ones_own(kdb: Path, root: Path, tmp_path: Path) -> None:
    """HOME cannot be reached from compute nodes: a shared folder can (#1295)."""
    done = install([kdb], library(root), InstallOptions(to=tmp_path / "shared", environment={}))
    assert done.environment == {"MIOPEN_SYSTEM_DB_PATH": str(tmp_path / "shared")}
    assert (tmp_path / "shared" / kdb.name).is_file()


def test_a_folder_of_ones_own_hides_the_find_db(
    kdb: Path, root: Path, folder: Path, tmp_path: Path
) -> None:
    folder.mkdir(parents=True)
    (folder / "gfx1030_36.HIP.fdb.txt").write_text("x")
    done = install([kdb], library(root), InstallOptions(to=tmp_path / "shared", environment={}))
    assert any("no longer sees the find-db" in text for text in done.warnings)


def test_what_the_user_must_set_is_said(tmp_path: Path, root: Path) -> None:
    wanted = {"MIOPEN_DEBUG_GCN_ASM_KERNELS": "0"}
    kdb = make_kdb(tmp_path / "gfx1030_40.kdb", "gfx1030", environment=wanted)
    assert install([kdb], library(root), NO_SETTINGS).environment == wanted


def test_installing_twice_changes_nothing(kdb: Path, root: Path, folder: Path) -> None:
    install([kdb], library(root), NO_SETTINGS)
    before = {p.name: p.stat().st_mtime_ns for p in folder.iterdir()}
    done = install([kdb], library(root), NO_SETTINGS)
    assert {state for _, state in states(done.files)} == {"unchanged"}
    assert {p.name: p.stat().st_mtime_ns for p in folder.iterdir()} == before


# -- packaging ------------------------------------------------------------------------------------


def test_a_packages_tree_gets_the_files_only(kdb: Path, root: Path, tmp_path: Path) -> None:
    tree = tmp_path / "debian/tmp"
    options = InstallOptions(root=tree, environment={"MIOPEN_SYSTEM_DB_PATH": "/elsewhere"})
    done = install([kdb], library(root, system_folder=Path("/usr/share/miopen/db")), options)
    assert done.folder == tree / "usr/share/miopen/db"
    assert sorted(os.listdir(done.folder)) == ["gfx1030_40.kdb", "gfx1030_40.manifest.json"]
    again = install([kdb], library(root, system_folder=Path("/usr/share/miopen/db")), options)
    assert {state for _, state in states(again.files)} == {"unchanged"}


def test_a_packages_tree_gets_no_backups(kdb: Path, root: Path, tmp_path: Path) -> None:
    there = tmp_path / "tree" / str(root / "share/miopen/db").lstrip("/")
    there.mkdir(parents=True)
    (there / kdb.name).write_text("another")
    with pytest.raises(InputError, match="is another file"):
        install([kdb], library(root), InstallOptions(root=tmp_path / "tree", environment={}))
    assert os.listdir(there) == [kdb.name]


def test_a_fetched_library_is_nobodys(kdb: Path, root: Path, tmp_path: Path) -> None:
    fetched = library(root, fetched=True)
    with pytest.raises(InputError, match="no program uses it"):
        target_folder(fetched, NO_SETTINGS)
    assert target_folder(fetched, InstallOptions(root=tmp_path, environment={})).is_relative_to(
        tmp_path
    )


def test_root_and_to_exclude_each_other(root: Path) -> None:
    with pytest.raises(InputError, match="exclude"):
        target_folder(library(root), InstallOptions(root=root, to=root, environment={}))


# -- refusals -------------------------------------------------------------------------------------


def refused(kdb: Path, root: Path, **changes: object) -> str:
    with pytest.raises((InputError, DatabaseError)) as caught:
        install([kdb], library(root, **changes), NO_SETTINGS)
    assert not (root / "share").exists()
    return "\n".join([caught.value.message, *caught.value.context, caught.value.hint or ""])


def test_a_database_for_another_library(tmp_path: Path, root: Path) -> None:
    """Its keys hold no version, and stale kernels crash programs (#3023)."""
    kdb = make_kdb(tmp_path / "gfx1030_40.kdb", "gfx1030", build_id="12" * 20)
    said = refused(kdb, root)
    assert "12" * 20 in said
    assert BUILD_ID in said
    assert "--force" in said


def test_force_says_so_loudly(tmp_path: Path, root: Path, folder: Path) -> None:
    kdb = make_kdb(tmp_path / "gfx1030_40.kdb", "gfx1030", build_id="12" * 20)
    done = install([kdb], library(root), InstallOptions(force=True, environment={}))
    assert done.warnings[0].startswith("FORCED: ")
    assert "12" * 20 in done.warnings[0]
    assert (folder / kdb.name).is_file()


def test_a_database_without_manifest(tmp_path: Path, root: Path) -> None:
    kdb = make_kdb(tmp_path / "gfx1030_40.kdb", "gfx1030", manifest=False)
    assert "has no manifest" in refused(kdb, root)


def test_a_database_that_was_changed_after_its_manifest(kdb: Path, root: Path) -> None:
    with closing(sqlite3.connect(kdb)) as db:
        db.execute("DELETE FROM kern_db WHERE id = 1")
        db.commit()
    assert "SHA-256 differs" in refused(kdb, root)


def test_a_broken_manifest(kdb: Path, root: Path) -> None:
    kdb.with_suffix(".manifest.json").write_text('{"schema": 7}')
    assert "not a manifest" in refused(kdb, root)


def test_an_embedded_miopen_cannot_use_it(kdb: Path, root: Path) -> None:
    """Renaming and copying changes nothing there, and users must be told so (#1606)."""
    assert "built in" in refused(kdb, root, embedded=True)


def test_a_renamed_database(tmp_path: Path, root: Path) -> None:
    """gfx1031 finds nothing in what was made for gfx1030 (#1309, PR #1531)."""
    kdb = make_kdb(tmp_path / "gfx1031_20.kdb", "gfx1030", manifest=False)
    said = refused(kdb, root)
    assert "named for gfx1031" in said
    assert "gfx1030" in said


def test_force_does_not_make_a_renamed_database_useful(tmp_path: Path, root: Path) -> None:
    kdb = make_kdb(tmp_path / "gfx1031_20.kdb", "gfx1030", manifest=False)
    with pytest.raises(InputError, match="renaming"):
        install([kdb], library(root), InstallOptions(force=True, environment={}))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gfx103_40.kdb", "gfx1030"),  # mistyped: the nearest known are named (#1996)
        ("rx-6900-xt.kdb", "never looks for"),
        ("gfx1030_40.db", "not named like"),
        ("gfx1030_40.ukdb", "a user's own"),
    ],
)
def test_names_that_miopen_does_not_look_for(
    tmp_path: Path, root: Path, name: str, words: str
) -> None:
    assert words in refused(make_kdb(tmp_path / name, "gfx1030", manifest=False), root)


def test_a_performance_database(tmp_path: Path, root: Path) -> None:
    """Somebody copied gfx90878.db to gfx90878.kdb (#1930)."""
    path = tmp_path / "gfx90878.kdb"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE perf_db (id INTEGER)")
    assert "performance database" in refused(path, root)


def test_a_git_lfs_pointer(tmp_path: Path, root: Path) -> None:
    """gfx90a6e.kdb.bz2 was a pointer of 143 bytes (#2255)."""
    path = tmp_path / "gfx90a6e.kdb"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    assert "Git LFS pointer" in refused(path, root)


def test_a_wal_file(kdb: Path, root: Path) -> None:
    """Users without write access get errors from one (PR #2724)."""
    with closing(sqlite3.connect(kdb)) as db:
        db.execute("PRAGMA journal_mode=wal")
    assert "WAL" in refused(kdb, root)


def test_an_empty_database(tmp_path: Path, root: Path) -> None:
    write_kdb(tmp_path / "gfx1030_40.kdb", [])
    assert "has no records" in refused(tmp_path / "gfx1030_40.kdb", root)


def test_all_are_checked_before_any_is_written(kdb: Path, tmp_path: Path, root: Path) -> None:
    bad = make_kdb(tmp_path / "gfx1031_20.kdb", "gfx1031", build_id="12" * 20)
    with pytest.raises(InputError):
        install([kdb, bad], library(root), NO_SETTINGS)
    assert not (root / "share").exists()


def test_a_side_file_that_would_be_applied(kdb: Path, root: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "gfx1030_40.kdb-wal").write_bytes(b"x" * 100)
    with pytest.raises(HostError, match="would apply it"):
        install([kdb], library(root), NO_SETTINGS)
    assert os.listdir(folder) == ["gfx1030_40.kdb-wal"]


def test_one_writer_at_a_time(kdb: Path, root: Path, folder: Path) -> None:
    with lock_folder(folder), pytest.raises(BusyError):
        install([kdb], library(root), NO_SETTINGS)


# -- signatures -----------------------------------------------------------------------------------


def test_a_signature_is_required(kdb: Path, root: Path, folder: Path) -> None:
    key, other = generate_key("packager-1"), generate_key("stranger-1")
    wanted = InstallOptions(keys=(key.public,), environment={})
    with pytest.raises(DatabaseError, match="not signed"):
        install([kdb], library(root), wanted)
    manifest = kdb.with_suffix(".manifest.json")
    sign_manifest(manifest, other)
    with pytest.raises(DatabaseError):
        install([kdb], library(root), wanted)
    assert not folder.exists()
    sign_manifest(manifest, key)
    install([kdb], library(root), wanted)
    assert (folder / kdb.name).exists()


def test_force_does_not_replace_a_signature(tmp_path: Path, kdb: Path, root: Path) -> None:
    """A signed manifest beside another database vouches for nothing."""
    key = generate_key("packager-1")
    forced = InstallOptions(force=True, keys=(key.public,), environment={})
    sign_manifest(kdb.with_suffix(".manifest.json"), key)
    other = make_kdb(kdb.parent / "gfx1030_36.kdb", "gfx1030", manifest=False)
    with pytest.raises(DatabaseError, match="no manifest beside it"):
        install([other], library(root), forced)
    for suffix in (".manifest.json", ".manifest.json.sig"):
        shutil.copy(kdb.with_suffix(suffix), other.with_suffix(suffix))
    make_kdb(other, "gfx1030", count=7, manifest=False)
    with pytest.raises(DatabaseError, match="does not speak of"):
        install([other], library(root), forced)
    assert not (root / "share").exists()


# -- one hides another ----------------------------------------------------------------------------


def test_an_exact_database_hides_the_generic_one(tmp_path: Path, root: Path, folder: Path) -> None:
    make_kdb(folder / "gfx1030.kdb", "gfx1030", num_cus=(36, 40), count=9)
    kdb = make_kdb(tmp_path / "gfx1030_40.kdb", "gfx1030", count=3)
    done = install([kdb], library(root), NO_SETTINGS)
    assert done.warnings[0].startswith("`gfx1030_40.kdb` hides `gfx1030.kdb`")
    assert "6 records" in done.warnings[0]


def test_a_generic_database_is_hidden_by_exact_ones(
    tmp_path: Path, root: Path, folder: Path
) -> None:
    make_kdb(folder / "gfx1030_36.kdb", "gfx1030")
    make_kdb(folder / "gfx10301_36.kdb", "gfx1030")  # of no GPU: hides nothing
    kdb = make_kdb(tmp_path / "gfx1030.kdb", "gfx1030", num_cus=(36, 40))
    done = install([kdb], library(root), NO_SETTINGS)
    assert [t.split(":")[0] for t in done.warnings if "hides" in t] == [
        "`gfx1030_36.kdb` hides `gfx1030.kdb`"
    ]


# -- backups --------------------------------------------------------------------------------------


def test_what_was_there_is_kept_and_restored(kdb: Path, root: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    old = make_kdb(folder / kdb.name, "gfx1030", count=1, manifest=False)
    before = digest(old)
    done = install([kdb], library(root), NO_SETTINGS)
    assert done.files[0].backup == folder / "gfx1030_40.kdb.kdbforge-backup-1"
    assert digest(folder / kdb.name) == digest(kdb)
    removed = uninstall([kdb.name], folder)
    assert states(removed) == [
        ("gfx1030_40.kdb", "restored"),
        ("gfx1030_40.manifest.json", "removed"),
    ]
    assert os.listdir(folder) == [kdb.name]
    assert digest(old) == before


def test_installs_over_installs_are_undone_one_by_one(
    tmp_path: Path, root: Path, folder: Path
) -> None:
    digests = []
    for count in (1, 2, 3):
        kdb = make_kdb(tmp_path / f"{count}/gfx1030_40.kdb", "gfx1030", count=count)
        install([kdb], library(root), NO_SETTINGS)
        digests.append(digest(kdb))
    for wanted in (digests[1], digests[0]):
        uninstall(["gfx1030_40.kdb"], folder)
        assert digest(folder / "gfx1030_40.kdb") == wanted
    uninstall(["gfx1030_40.kdb"], folder)
    assert os.listdir(folder) == []


def test_a_name_that_is_taken_is_no_backup(kdb: Path, root: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / kdb.name).write_text("old")
    (folder / f"{kdb.name}.kdbforge-backup-1").write_text("somebody's")
    done = install([kdb], library(root), NO_SETTINGS)
    assert done.files[0].backup == folder / f"{kdb.name}.kdbforge-backup-2"
    assert (folder / f"{kdb.name}.kdbforge-backup-1").read_text() == "somebody's"


def test_a_manifest_of_the_one_before_does_not_stay(
    kdb: Path, tmp_path: Path, root: Path, folder: Path
) -> None:
    install([kdb], library(root), NO_SETTINGS)
    other = make_kdb(tmp_path / "b/gfx1030_40.kdb", "gfx1030", count=5, manifest=False)
    install([other], library(root), InstallOptions(force=True, environment={}))
    assert not (folder / "gfx1030_40.manifest.json").exists()


def test_uninstall_leaves_what_is_not_ours(kdb: Path, root: Path, folder: Path) -> None:
    install([kdb], library(root), NO_SETTINGS)
    other = make_kdb(folder / "gfx1030_36.kdb", "gfx1030", manifest=False)
    with pytest.raises(UnknownNameError, match="gfx1030_36"):
        uninstall(["gfx1030_40.kdb", "gfx1030_36.kdb"], folder)
    assert (folder / kdb.name).exists()
    uninstall([], folder, everything=True)
    assert os.listdir(folder) == [other.name]


def test_uninstall_leaves_what_has_changed(kdb: Path, root: Path, folder: Path) -> None:
    install([kdb], library(root), NO_SETTINGS)
    (folder / kdb.name).write_bytes(b"new owner")
    with pytest.raises(InputError, match="changed since"):
        uninstall([kdb.name], folder)
    assert (folder / kdb.name).read_bytes() == b"new owner"
    assert (folder / "gfx1030_40.manifest.json").exists()


def test_uninstall_wants_the_backup_as_it_was(kdb: Path, root: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / kdb.name).write_text("old")
    backup = install([kdb], library(root), NO_SETTINGS).files[0].backup
    assert backup is not None
    backup.write_text("older")
    with pytest.raises(InputError, match="nothing was removed"):
        uninstall([kdb.name], folder)
    assert digest(folder / kdb.name) == digest(kdb)


def test_uninstall_of_a_file_that_is_gone(kdb: Path, root: Path, folder: Path) -> None:
    install([kdb], library(root), NO_SETTINGS)
    (folder / kdb.name).unlink()
    uninstall([kdb.name], folder)
    assert os.listdir(folder) == []


def test_uninstall_where_nothing_is(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing is installed"):
        uninstall(["gfx1030_40.kdb"], tmp_path / "none")


@pytest.mark.parametrize("backup", ["../../precious", "gfx1030_36.kdb", "/etc/passwd"])
def test_a_record_cannot_name_any_file_as_backup(
    kdb: Path, root: Path, folder: Path, backup: str
) -> None:
    install([kdb], library(root), NO_SETTINGS)
    receipt = read_receipt(folder)
    layer = receipt[kdb.name][0]
    receipt[kdb.name] = [Layer(layer.sha256, layer.build_id, backup, "0" * 64)]
    write_receipt(folder, receipt)
    with pytest.raises(InputError, match="strange backup"):
        uninstall([kdb.name], folder)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"schema": 2, "files": {}}', '{"schema": 1, "files": {"a/b": [{}]}}']
)
def test_a_damaged_record(kdb: Path, root: Path, folder: Path, text: str) -> None:
    install([kdb], library(root), NO_SETTINGS)
    (folder / FILE_NAME).write_text(text)
    with pytest.raises(HostError, match="damaged"):
        uninstall([kdb.name], folder)


# -- killed between two steps ---------------------------------------------------------------------


def test_an_install_that_was_killed_before_the_file_was_replaced(
    kdb: Path, root: Path, folder: Path
) -> None:
    """Backup and record are there, the file is still the old one."""
    folder.mkdir(parents=True)
    (folder / kdb.name).write_text("old")
    backup = folder / f"{kdb.name}.kdbforge-backup-1"
    os.link(folder / kdb.name, backup)
    layer = Layer(digest(kdb), BUILD_ID, backup.name, digest(backup))
    write_receipt(folder, {kdb.name: [layer]})
    undone = Path(shutil.copytree(folder, folder.with_name("undone")))
    uninstall([kdb.name], undone)
    assert os.listdir(undone) == [kdb.name]
    install([kdb], library(root), NO_SETTINGS)
    assert read_receipt(folder)[kdb.name] == [layer]
    uninstall([kdb.name], folder)
    assert (folder / kdb.name).read_text() == "old"


def test_an_uninstall_that_was_killed_before_the_record_was_written(
    kdb: Path, root: Path, folder: Path
) -> None:
    folder.mkdir(parents=True)
    (folder / kdb.name).write_text("old")
    backup = install([kdb], library(root), NO_SETTINGS).files[0].backup
    assert backup is not None
    backup.replace(folder / kdb.name)
    uninstall([kdb.name], folder)
    assert os.listdir(folder) == [kdb.name]


def test_a_failed_copy_leaves_nothing(
    kdb: Path, root: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database changes between its check and its copy."""
    folder.mkdir(parents=True)
    (folder / kdb.name).write_text("old")
    from kdbforge.package import install as module

    check = module.check_kdb

    def check_and_change(path: Path, *args: object, **options: object) -> object:
        checked = check(path, *args, **options)  # type: ignore[arg-type]
        path.write_bytes(b"changed")
        return checked

    monkeypatch.setattr(module, "check_kdb", check_and_change)
    with pytest.raises(InputError, match="changed while"):
        install([kdb], library(root), NO_SETTINGS)
    assert os.listdir(folder) == [kdb.name]
    assert (folder / kdb.name).read_text() == "old"


def test_the_record_is_readable(kdb: Path, root: Path, folder: Path) -> None:
    install([kdb], library(root), NO_SETTINGS)
    document = json.loads((folder / FILE_NAME).read_text())
    assert document["files"][kdb.name][0]["sha256"] == digest(kdb)
