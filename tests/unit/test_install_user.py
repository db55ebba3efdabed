"""User databases: records go in and out, while MIOpen may use the file."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from installing import library, make_kdb, records

from kdbforge.errors import DatabaseError, HostError, InputError
from kdbforge.kdb.reader import read_kdb
from kdbforge.package import userdb
from kdbforge.package.install import InstallOptions
from kdbforge.package.userdb import USER_RECORD, install_for_user, uninstall_for_user

MINE = records("gfx1030", 1, b"s_endpgm\n")[0]  # the key of the first, other code


def rows(path: Path) -> dict[tuple[str, str], str]:
    with closing(sqlite3.connect(path)) as db:
        found = db.execute("SELECT kernel_name, kernel_args, kernel_hash FROM kern_db")
        return {(name, args): value for name, args, value in found}


@pytest.fixture
def kdb(tmp_path: Path) -> Path:
    return make_kdb(tmp_path / "out/gfx1030_40.kdb", "gfx1030", count=3)


@pytest.fixture
def user(tmp_path: Path) -> Path:
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache/gfx1030_40.ukdb"


def own(user: Path) -> None:
    """A user database as MIOpen leaves it: in WAL mode, with a kernel of its own."""
    with closing(sqlite3.connect(user)) as db:
        db.execute("PRAGMA journal_mode=wal")
        userdb._check_table(user, db, create=True)
        db.execute(
            userdb._INSERT,
            (MINE.kernel_name, MINE.kernel_args, MINE.kernel_blob, MINE.kernel_hash,
             MINE.uncompressed_size),
        )  # fmt: skip
        db.commit()


def test_a_new_database(kdb: Path, user: Path) -> None:
    assert userdb._add(user, read_kdb(kdb)) == (3, 0)
    assert [record.key for record in read_kdb(user)] == [record.key for record in read_kdb(kdb)]
    (placed,) = uninstall_for_user([user.name], user.parent)
    assert placed.state == "removed"
    assert os.listdir(user.parent) == []


def test_the_users_own_kernels_stay(kdb: Path, user: Path) -> None:
    own(user)
    assert userdb._add(user, read_kdb(kdb)) == (2, 1)
    assert rows(user)[MINE.key] == MINE.kernel_hash
    assert len(rows(user)) == 3
    (placed,) = uninstall_for_user([user.name], user.parent)
    assert placed.state == "restored"
    assert rows(user) == {MINE.key: MINE.kernel_hash}


def test_kernels_that_miopen_added_later_stay(kdb: Path, user: Path) -> None:
    userdb._add(user, read_kdb(kdb))
    with closing(sqlite3.connect(user)) as db:
        db.execute("PRAGMA journal_mode=wal")
        db.execute("UPDATE kern_db SET kernel_hash = 'other' WHERE id = 1")
        db.execute("INSERT INTO kern_db SELECT 9, 'new.cl.o', kernel_args, x'00', 'h', 0 FROM"
                   " kern_db LIMIT 1")  # fmt: skip
        db.commit()
    uninstall_for_user([user.name], user.parent)
    assert sorted(rows(user).values()) == ["h", "other"]


def test_an_empty_database_of_the_users_stays(kdb: Path, user: Path) -> None:
    own(user)
    with closing(sqlite3.connect(user)) as db:
        db.execute("DELETE FROM kern_db")
        db.commit()
    userdb._add(user, read_kdb(kdb))
    (placed,) = uninstall_for_user([user.name], user.parent)
    assert placed.state == "restored"
    assert rows(user) == {}


def test_adding_twice(kdb: Path, user: Path) -> None:
    userdb._add(user, read_kdb(kdb))
    assert userdb._add(user, read_kdb(kdb)) == (0, 3)
    uninstall_for_user([user.name], user.parent)
    assert not user.exists()


def test_while_a_program_reads_and_writes(kdb: Path, user: Path) -> None:
    own(user)
    with closing(sqlite3.connect(user)) as program:
        program.execute("SELECT count(*) FROM kern_db").fetchone()
        assert userdb._add(user, read_kdb(kdb)) == (2, 1)
        assert program.execute("SELECT count(*) FROM kern_db").fetchone() == (3,)


def test_a_program_that_holds_the_file(
    kdb: Path, user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(userdb, "_WAIT_SECONDS", 0.01)
    own(user)
    with closing(sqlite3.connect(user, isolation_level=None)) as program:
        program.execute("BEGIN IMMEDIATE")
        with pytest.raises(HostError, match="locked"):
            userdb._add(user, read_kdb(kdb))
    assert os.listdir(user.parent) == [user.name]


def test_an_error_in_the_middle_changes_nothing(kdb: Path, user: Path) -> None:
    own(user)

    def broken():  # type: ignore[no-untyped-def]
        yield from list(read_kdb(kdb))[1:]
        raise DatabaseError("the file ends here")

    with pytest.raises(DatabaseError, match="ends here"):
        userdb._add(user, broken())
    assert rows(user) == {MINE.key: MINE.kernel_hash}
    assert not (user.parent / USER_RECORD).exists()


def test_a_malformed_database(kdb: Path, user: Path) -> None:
    """Parallel jobs on a bad file system leave such files (#1878)."""
    user.write_bytes(b"SQLite format 3\0" + b"\xff" * 4000)
    with pytest.raises((DatabaseError, HostError)):
        userdb._add(user, read_kdb(kdb))


def test_a_file_that_is_something_else(kdb: Path, user: Path) -> None:
    with closing(sqlite3.connect(user)) as db:
        db.execute("CREATE VIEW kern_db AS SELECT 1 AS kernel_name")
    with pytest.raises(DatabaseError, match="not a user kernel database"):
        userdb._add(user, read_kdb(kdb))


def test_nothing_was_added(user: Path) -> None:
    own(user)
    with pytest.raises(InputError, match="has added nothing"):
        uninstall_for_user([user.name], user.parent)


def test_a_damaged_record(kdb: Path, user: Path) -> None:
    userdb._add(user, read_kdb(kdb))
    (user.parent / USER_RECORD).write_text(json.dumps({user.name: []}))
    with pytest.raises(HostError, match="damaged"):
        uninstall_for_user([user.name], user.parent)
    assert len(rows(user)) == 3


def test_a_library_that_cannot_be_run(kdb: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="its user folder is not known"):
        install_for_user([kdb], library(tmp_path), InstallOptions(environment={}))
