"""Writing kernel databases: MIOpen's schema, the same bytes every time, whole or not at all."""

from __future__ import annotations

import hashlib
import os
import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kdbforge.errors import DatabaseError, HostError
from kdbforge.kdb.reader import read_kdb
from kdbforge.kdb.record import Record
from kdbforge.kdb.writer import write_kdb

#: What MIOpen runs on a user kdb (src/include/miopen/kern_db.hpp, KernelConfig::CreateQuery).
MIOPEN_SQL = (
    "CREATE TABLE IF NOT EXISTS `kern_db` (`id` INTEGER PRIMARY KEY ASC"
    ",`kernel_name` TEXT NOT NULL,`kernel_args` TEXT NOT NULL,`kernel_blob` BLOB NOT NULL"
    ",`kernel_hash` TEXT NOT NULL,`uncompressed_size` INT NOT NULL);"
    "CREATE UNIQUE INDEX IF NOT EXISTS `idx_kern_db` ON kern_db(kernel_name, kernel_args);"
)


def _records(count: int = 60) -> list[Record]:
    return [
        Record.pack(
            f"kernel{n % 7}.cpp.o",
            f" -DN={n}  -O3 -mcpu=gfx1030",
            hashlib.sha256(bytes([n])).digest() * (1 + n % 50 * 20),
        )
        for n in range(1, count)
    ]


def _schema(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()


def test_schema_is_miopens(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "miopen.kdb")) as db:
        db.executescript(MIOPEN_SQL)
    write_kdb(tmp_path / "ours.kdb", _records())
    assert _schema(tmp_path / "ours.kdb") == _schema(tmp_path / "miopen.kdb")


def test_file_is_plain_and_sound(tmp_path: Path) -> None:
    path = tmp_path / "gfx1030_40.kdb"
    assert write_kdb(path, _records()) == 59
    assert path.read_bytes()[18:20] == b"\1\1"  # not WAL
    with closing(sqlite3.connect(path)) as db:
        for pragma, value in (
            ("integrity_check", "ok"),
            ("journal_mode", "delete"),
            ("page_size", 4096),
            ("freelist_count", 0),
            ("user_version", 0),
            ("application_id", 0),
            ("encoding", "UTF-8"),
        ):
            assert db.execute(f"PRAGMA {pragma}").fetchone() == (value,)
        rows = db.execute("SELECT id, kernel_name, kernel_args FROM kern_db ORDER BY id").fetchall()
    assert [row[0] for row in rows] == list(range(1, 60))
    assert [row[1:] for row in rows] == sorted(row[1:] for row in rows)
    assert path.stat().st_mode & 0o444 == 0o444
    assert os.listdir(tmp_path) == ["gfx1030_40.kdb"]


def test_miopens_lookup_finds_every_record(tmp_path: Path) -> None:
    path = tmp_path / "a.kdb"
    write_kdb(path, _records())
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        for record in _records():
            where = (
                f"(kernel_name = '{record.kernel_name}') AND (kernel_args = '{record.kernel_args}')"
            )
            found = db.execute(
                "SELECT kernel_blob, kernel_hash, uncompressed_size FROM kern_db WHERE " + where
            ).fetchall()
            assert found == [(record.kernel_blob, record.kernel_hash, record.uncompressed_size)]


def test_same_bytes_whatever_the_order(tmp_path: Path) -> None:
    records = _records(200)
    write_kdb(tmp_path / "a.kdb", records)
    random.Random(4).shuffle(records)
    write_kdb(tmp_path / "b.kdb", records)
    assert (tmp_path / "a.kdb").read_bytes() == (tmp_path / "b.kdb").read_bytes()


def test_same_bytes_in_another_process(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from kdbforge.kdb.reader import read_kdb;"
        "from kdbforge.kdb.writer import write_kdb;"
        "write_kdb(Path(sys.argv[2]), reversed(list(read_kdb(Path(sys.argv[1])))))"
    )
    write_kdb(tmp_path / "a.kdb", _records(200))
    args = [sys.executable, "-c", code, str(tmp_path / "a.kdb"), str(tmp_path / "b.kdb")]
    # glibc then fills fresh memory with a pattern, which would show in the file.
    subprocess.run(args, check=True, env={**os.environ, "MALLOC_PERTURB_": "165"})
    assert (tmp_path / "a.kdb").read_bytes() == (tmp_path / "b.kdb").read_bytes()


TEXT = st.text(st.characters(exclude_characters="'\0", exclude_categories=["Cs"]), max_size=30)


@settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50
)
@given(st.dictionaries(st.tuples(TEXT.filter(bool), TEXT), st.binary(min_size=1), max_size=12))
def test_round_trip(tmp_path: Path, objects: dict[tuple[str, str], bytes]) -> None:
    records = [Record.pack(*key, data) for key, data in objects.items()]
    write_kdb(tmp_path / "a.kdb", records)
    found = list(read_kdb(tmp_path / "a.kdb"))
    assert found == sorted(records, key=lambda record: record.key)
    assert {record.key: record.unpack() for record in found} == objects


def test_empty_database_is_one_that_miopen_accepts(tmp_path: Path) -> None:
    assert write_kdb(tmp_path / "a.kdb", []) == 0
    assert (tmp_path / "a.kdb").stat().st_size >= 512
    assert list(read_kdb(tmp_path / "a.kdb")) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, "same key: `kernel1.cpp.o`"),
        ({"kernel_name": "it's.cpp.o"}, "quote"),
        ({"kernel_name": "b", "kernel_hash": "0" * 32}, "MD5 is"),
        ({"kernel_name": "b", "uncompressed_size": 3}, "Damaged record"),
    ],
)
def test_bad_records_leave_the_old_file(
    tmp_path: Path, change: dict[str, str], message: str
) -> None:
    path = tmp_path / "a.kdb"
    path.write_bytes(b"old")
    records = _records(10)
    with pytest.raises(DatabaseError, match=message):
        write_kdb(path, [*records, replace(records[0], **change)])
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.kdb"]


def test_replaces_an_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.kdb"
    path.write_bytes(b"old")
    write_kdb(path, _records(3))
    assert len(list(read_kdb(path))) == 2


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="No such file or directory"):
        write_kdb(tmp_path / "none" / "a.kdb", _records(3))


def test_name_taken_by_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.kdb").mkdir()
    with pytest.raises(HostError, match="directory"):
        write_kdb(tmp_path / "a.kdb", _records(3))
    assert os.listdir(tmp_path) == ["a.kdb"]


def test_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    # A file size limit stops the writer as a full disk does: in the middle of a write.
    path = tmp_path / "a.kdb"
    path.write_bytes(b"old")
    code = (
        "import os, resource, signal, sys; from pathlib import Path\n"
        "from kdbforge.errors import HostError\n"
        "from kdbforge.kdb.record import Record; from kdbforge.kdb.writer import write_kdb\n"
        "records = [Record.pack(f'k{n}', '', os.urandom(50_000)) for n in range(40)]\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
        "try: write_kdb(Path(sys.argv[1]), records)\n"
        "except HostError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True
    )
    assert done.stdout.startswith(f"Cannot write `{path}`: ")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.kdb"]
