"""Reading kernel databases: foreign files lie, and user kdbs of our children are in WAL mode."""

from __future__ import annotations

import bz2
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kdbforge.errors import DatabaseError, HostError
from kdbforge.kdb.reader import read_kdb, read_ukdb_rows
from kdbforge.kdb.record import Record
from kdbforge.kdb.schema import CREATE_INDEX, CREATE_TABLE
from kdbforge.kdb.writer import write_kdb

RECORDS = [Record.pack(f"k{n}.cpp.o", " -O3", b"s_nop 0\n" * n * 50) for n in range(1, 9)]
INSERT = "INSERT INTO kern_db VALUES(?, ?, ?, ?, ?, ?)"
MD5 = "0123456789abcdef" * 2
LATER = "CREATE TABLE `kern_db` (`id` INTEGER PRIMARY KEY ASC, "


def _make(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()
    return path


@pytest.fixture
def kdb(tmp_path: Path) -> Path:
    write_kdb(tmp_path / "a.kdb", RECORDS)
    return tmp_path / "a.kdb"


def test_reads_what_was_written(kdb: Path) -> None:
    assert list(read_kdb(kdb)) == RECORDS


def test_path_with_odd_characters(kdb: Path) -> None:
    odd = kdb.with_name("50% of #2?mode=rwc&x=.kdb")
    kdb.rename(odd)
    assert list(read_kdb(odd)) == RECORDS


def test_reading_changes_and_leaves_nothing(kdb: Path) -> None:
    before = kdb.read_bytes()
    list(read_kdb(kdb))
    assert kdb.read_bytes() == before
    assert list(kdb.parent.iterdir()) == [kdb]


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="No such file"):
        read_kdb(tmp_path / "none.kdb")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "Git LFS pointer"),
        (b"\n<!DOCTYPE html><html>" + bytes(900), "web page"),
        (b"<HTML>404</HTML>", "web page"),
        (bz2.compress(bytes(5000)), "is compressed"),
        (b"", "has 0 bytes; MIOpen ignores files under 512"),
        (b"SQLite format 3\0" + bytes(100), "has 116 bytes"),
        (b"\x7fELF" + bytes(900), "not an SQLite file: it starts with `7f454c46"),
        (b"SQLite format 3\0" + bytes(900), "cut off"),
    ],
)
def test_other_files_are_named(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.kdb").write_bytes(content)
    with pytest.raises(DatabaseError, match=message):
        read_kdb(tmp_path / "a.kdb")


def test_truncated(kdb: Path) -> None:
    data = kdb.read_bytes()
    for size in (len(data) - 1, len(data) - 4096, 4096, 600):
        kdb.write_bytes(data[:size])
        with pytest.raises(DatabaseError, match="cut off"):
            read_kdb(kdb)


def test_wal_mode(kdb: Path) -> None:
    _make(kdb, "PRAGMA journal_mode=WAL")
    with pytest.raises(DatabaseError, match="WAL mode"):
        read_kdb(kdb)


def test_left_half_written(kdb: Path) -> None:
    (kdb.parent / "a.kdb-journal").write_bytes(b"x")
    with pytest.raises(DatabaseError, match="half-written"):
        read_kdb(kdb)
    (kdb.parent / "link.kdb").symlink_to(kdb)  # the journal lies beside what it leads to
    with pytest.raises(DatabaseError, match="half-written"):
        read_kdb(kdb.parent / "link.kdb")


REST = (
    "kernel_args TEXT NOT NULL, kernel_blob BLOB NOT NULL, kernel_hash TEXT NOT NULL,"
    " uncompressed_size INT NOT NULL"
)


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        (["CREATE TABLE perf_db (id)", "CREATE TABLE config (id)"], "performance database"),
        (["CREATE TABLE stuff (id)"], "no `kern_db` table; its tables are: stuff"),
        (
            [CREATE_TABLE.replace("`kern_db`", "x"), "CREATE VIEW kern_db AS SELECT * FROM x"],
            "view",
        ),
        (["CREATE VIRTUAL TABLE kern_db USING fts4(kernel_name)"], "not a plain table"),
        ([CREATE_TABLE.replace(",`uncompressed_size` INT NOT NULL", "")], "columns: id, .*_hash$"),
        ([CREATE_TABLE.replace("BLOB NOT NULL", "BLOB")], "does not have MIOpen's columns"),
        ([CREATE_TABLE.replace("BLOB", "TEXT")], "does not have MIOpen's columns"),
        ([CREATE_TABLE[:-1] + ",extra)"], "columns: .*extra"),
        (
            [f"{LATER} kernel_name TEXT NOT NULL AS (hex(1)), {REST})"],
            "does not have MIOpen's columns",
        ),
    ],
)
def test_other_tables(tmp_path: Path, statements: list[str], message: str) -> None:
    path = _make(tmp_path / "a.kdb", *statements)
    with pytest.raises(DatabaseError, match=message):
        read_kdb(path)


def _row(**changes: object) -> tuple[object, ...]:
    fields: dict[str, object] = {
        "id": 9, "name": "z.cpp.o", "args": "", "blob": b"x", "hash": MD5, "size": 0,
    }  # fmt: skip
    return tuple({**fields, **changes}.values())


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (_row(name=b"bytes"), "wrong types: bytes, str, bytes, str, int"),
        (_row(blob="text"), "wrong types"),
        (_row(size="many"), "wrong types"),
        (_row(hash="zz"), "no MD5"),
        (_row(size=1 << 60), "uncompressed_size is"),
        (_row(size=-1), "uncompressed_size is"),
        (_row(name="a'b"), "quote"),
        (_row(blob=b""), "has 0 bytes"),
        (_row(blob=bytes(65 << 20)), "has 68157440 bytes"),
        (_row(blob=bytes(70 << 20)), "too big"),
        (_row(name="k1.cpp.o", args=" -O3"), "two records with the key"),
    ],
)
def test_bad_rows(kdb: Path, row: tuple[object, ...], message: str) -> None:
    with closing(sqlite3.connect(kdb)) as db:
        db.execute("DROP INDEX idx_kern_db")
        db.execute(INSERT, row)
        db.commit()
    with pytest.raises(DatabaseError, match=message):
        list(read_kdb(kdb))


def test_name_that_is_not_utf8(kdb: Path) -> None:
    _make(kdb, f"INSERT INTO kern_db VALUES(9, CAST(x'ff' AS TEXT), '', x'00', '{MD5}', 0)")
    with pytest.raises(DatabaseError, match="UTF-8"):
        list(read_kdb(kdb))


def test_bomb_is_refused_when_unpacked(kdb: Path) -> None:
    bomb = bz2.compress(bytes(48 << 20), 9)
    with closing(sqlite3.connect(kdb)) as db:
        db.execute(INSERT, _row(blob=bomb, size=1000))
        db.commit()
    *_, last = read_kdb(kdb)
    with pytest.raises(DatabaseError, match="more than 1000 bytes"):
        last.unpack()


def test_triggers_and_other_tables_are_ignored(kdb: Path) -> None:
    _make(
        kdb,
        "CREATE TABLE notes (t)",
        "CREATE TRIGGER t AFTER INSERT ON kern_db BEGIN DELETE FROM kern_db; END",
    )
    assert list(read_kdb(kdb)) == RECORDS


def test_damaged_pages(kdb: Path) -> None:
    data = bytearray(kdb.read_bytes())
    data[4096:4200] = bytes(104)
    kdb.write_bytes(data)
    with pytest.raises(DatabaseError, match=r"damaged|cannot be read"):
        list(read_kdb(kdb))


@settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150
)
@given(st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=20))
def test_any_damage_gives_records_or_our_error(kdb: Path, changes: list[tuple[int, int]]) -> None:
    data = bytearray(kdb.read_bytes())
    for offset, value in changes:
        data[offset % (len(data) if offset % 2 else 200)] = value
    damaged = kdb.with_name("damaged.kdb")
    damaged.write_bytes(data)
    try:
        for record in read_kdb(damaged):
            record.unpack()
    except DatabaseError:
        pass


# User kdbs, as MIOpen leaves them behind.


def _write_ukdb(path: Path, end: str) -> None:
    """Write a WAL database in another process that ends as `end` says."""
    code = (
        "import os, sqlite3, sys\n"
        "db = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "db.execute('PRAGMA journal_mode=WAL')\n"
        f"db.execute({CREATE_TABLE!r}); db.execute({CREATE_INDEX!r})\n"
        "db.execute(\"INSERT INTO kern_db VALUES(1, 'k.cpp.o', ' -O3', x'616263',"
        " '900150983cd24fb0d6963f7d28e17f72', 0)\")\n"
        f"{end}\n"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=False)


@pytest.mark.parametrize(
    ("end", "side_files"), [("db.close()", False), ("os.kill(os.getpid(), 9)", True)]
)
def test_ukdb_of_a_child(tmp_path: Path, end: str, side_files: bool) -> None:
    path = tmp_path / "a.ukdb"
    _write_ukdb(path, end)
    assert (tmp_path / "a.ukdb-wal").exists() == side_files
    (record,) = read_ukdb_rows(path)
    assert record.key == ("k.cpp.o", " -O3")
    assert record.unpack() == b"abc"


@pytest.mark.parametrize(
    "prepare", [lambda path: None, lambda path: _make(path, "CREATE TABLE x (y)")]
)
def test_ukdb_that_is_none(tmp_path: Path, prepare: Callable[[Path], object]) -> None:
    prepare(tmp_path / "a.ukdb")
    with pytest.raises(DatabaseError, match=r"no user kernel database|no `kern_db` table"):
        list(read_ukdb_rows(tmp_path / "a.ukdb"))
