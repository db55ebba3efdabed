"""Looking into kernel databases: what is in them, and that looking changes nothing."""

from __future__ import annotations

import hashlib
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdbforge.errors import DatabaseError, HostError, InputError
from kdbforge.kdb.inspect import (
    Filter,
    Kdb,
    Option,
    Part,
    open_kdb,
    parse_options,
    summarize,
)
from kdbforge.kdb.record import Record
from kdbforge.kdb.schema import CREATE_INDEX, CREATE_TABLE
from kdbforge.kdb.verify import verify_kdb
from kdbforge.kdb.writer import write_kdb

NAVI = (Path(__file__).parent / "data" / "scale_gfx1030.co").read_bytes()
PLAIN = b"no object"
RECORDS = [
    Record.pack("a.cl.o", " -DN=1 -mcpu=gfx1030", NAVI),
    Record.pack("a.cl.o", " -DN=2 -mcpu=gfx1030", NAVI),
    Record.pack("b.cpp.o", " -DN=1 -mcpu=gfx1030", NAVI + bytes(5000)),
    Record("c.s.o", "", PLAIN, hashlib.md5(PLAIN).hexdigest(), 0),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_kdb(tmp_path / "gfx1030.kdb", RECORDS)
    return tmp_path / "gfx1030.kdb"


@contextmanager
def editing(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        yield db


def ids(kdb: Kdb, wanted: Filter | None = None, **options: str) -> list[int]:
    return [entry.id for entry in kdb.entries(wanted, **options)]  # type: ignore[arg-type]


def test_summary(path: Path) -> None:
    with open_kdb(path) as kdb:
        found = summarize(kdb)
    sizes = [len(record.kernel_blob) for record in RECORDS]
    assert (found.records, found.kernel_files, found.objects, found.plain) == (4, 3, 3, 1)
    assert found.stored_size == sum(sizes)
    assert found.object_size == 3 * len(NAVI) + 5000 + len(PLAIN)
    assert found.languages == {
        "cl": Part(2, sizes[0] + sizes[1]), "cpp": Part(1, sizes[2]), "s": Part(1, sizes[3]),
    }  # fmt: skip
    assert found.architectures == {"": Part(1, sizes[3]), "gfx1030": Part(3, sum(sizes[:3]))}
    assert (found.sampled, found.targets, found.versions) == (4, {"gfx1030": 3}, {6: 3})
    assert found.unreadable == 1
    assert (found.facts.journal_mode, found.facts.side_files) == ("delete", ())
    assert found.facts.size == path.stat().st_size
    assert found.facts.sqlite_version == sqlite3.sqlite_version


def test_summary_of_nothing(tmp_path: Path) -> None:
    write_kdb(tmp_path / "empty.kdb", [])
    with open_kdb(tmp_path / "empty.kdb") as kdb:
        found = summarize(kdb)
    assert (found.records, found.sampled, found.languages, found.targets) == (0, 0, {}, {})


def test_summary_of_many_unpacks_few(tmp_path: Path) -> None:
    write_kdb(tmp_path / "a.kdb", [Record.pack("a.cl.o", f" -DN={n}", NAVI) for n in range(100)])
    with open_kdb(tmp_path / "a.kdb") as kdb:
        found = summarize(kdb)
    assert (found.records, found.sampled) == (100, 8)


def test_entries_and_records(path: Path) -> None:
    with open_kdb(path) as kdb:
        brief, full = list(kdb.entries()), list(kdb.entries(full=True))
        assert [kdb.record(entry.id) for entry in full] == RECORDS
    for entry, more, record in zip(brief, full, RECORDS, strict=True):
        assert (entry.kernel_name, entry.kernel_args) == record.key
        assert entry.stored_size == more.stored_size == len(record.kernel_blob)
        assert (entry.kernel_hash, entry.uncompressed_size) == (None, None)
        assert entry.object_size is None
        assert (more.kernel_hash, more.object_size) == (record.kernel_hash, len(record.unpack()))


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Filter(), [1, 2, 3, 4]),
        (Filter(("a.cl",)), [1, 2]),
        (Filter(("a.cl.o",)), [1, 2]),
        (Filter(("*.c*",)), [1, 2, 3]),
        (Filter(("?.s", "b*")), [3, 4]),
        (Filter(args=("-DN=1",)), [1, 3]),
        (Filter(args=("-DN=1", "gfx1030"), kernels=("b*",)), [3]),
        (Filter(args=("' OR 1 --",)), []),
        (Filter(("x' OR '1",)), []),
        (Filter(id=2), [2]),
        (Filter(("b*",), id=2), []),
    ],
)
def test_filters(path: Path, wanted: Filter, expected: list[int]) -> None:
    with open_kdb(path) as kdb:
        assert ids(kdb, wanted) == expected


def test_order(path: Path) -> None:
    with open_kdb(path) as kdb:
        assert ids(kdb, order="name") == [1, 2, 3, 4]
        sizes = [entry.stored_size for entry in kdb.entries(order="size")]
    assert sizes == sorted(sizes, reverse=True)


def test_a_record_that_is_not_there(path: Path) -> None:
    with open_kdb(path) as kdb:
        with pytest.raises(DatabaseError, match="has no record 9"):
            kdb.record(9)
        with pytest.raises(InputError, match="no record number"):
            ids(kdb, Filter(id=1 << 63))


def snapshot(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def look(path: Path) -> int:
    with open_kdb(path) as kdb:
        return summarize(kdb).records


def test_looking_changes_nothing(path: Path) -> None:
    before = snapshot(path.parent)
    look(path)
    assert snapshot(path.parent) == before


def test_wal_mode_without_a_log(path: Path) -> None:
    with editing(path) as db:
        db.execute("PRAGMA journal_mode=WAL")
    before = snapshot(path.parent)
    with open_kdb(path) as kdb:
        assert kdb.facts.journal_mode == "wal"
        assert len(list(kdb.entries())) == 4
    assert snapshot(path.parent) == before


def test_wal_mode_with_records_in_the_log(path: Path) -> None:
    code = (
        "import os, sqlite3, sys\n"
        "db = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "db.execute('PRAGMA journal_mode=WAL')\n"
        "db.execute('DELETE FROM kern_db WHERE id > 1')\n"
        "os._exit(0)\n"  # without a checkpoint, as a process that is killed
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    before = snapshot(path.parent)
    assert set(before) == {"gfx1030.kdb", "gfx1030.kdb-wal", "gfx1030.kdb-shm"}
    with open_kdb(path) as kdb:
        assert kdb.facts.side_files == ("gfx1030.kdb-wal", "gfx1030.kdb-shm")
        assert ids(kdb) == [1]
    assert snapshot(path.parent) == before


def test_a_link_to_a_database_in_use_missed_what_stood_in_its_log(path: Path) -> None:
    link = path.parent / "elsewhere" / "link.ukdb"
    link.parent.mkdir()
    link.symlink_to(path)
    with editing(path) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA wal_autocheckpoint=0")
        db.execute("DELETE FROM kern_db WHERE id > 1")
        with open_kdb(link) as kdb:
            assert ids(kdb) == [1]
            assert summarize(kdb).records == 1
        assert kdb.facts.side_files == ("gfx1030.kdb-wal", "gfx1030.kdb-shm")
        assert kdb.facts.path == link
    assert list(link.parent.iterdir()) == [link]


def test_no_room_for_temporary_files_was_a_traceback(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a read-only image: what needs no copy works, the rest says what to do."""
    monkeypatch.setattr("tempfile.tempdir", "/proc/none")
    with open_kdb(path) as kdb:
        assert len(ids(kdb)) == 4
    assert verify_kdb(path).records == 4
    with editing(path) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA wal_autocheckpoint=0")
        db.execute("DELETE FROM kern_db WHERE id > 1")
        with pytest.raises(HostError, match="temporary files") as caught, open_kdb(path):
            pass
        assert "TMPDIR" in str(caught.value.hint)
        with pytest.raises(HostError, match="temporary files"):
            verify_kdb(path)


def test_links_that_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "cycle.kdb").symlink_to(tmp_path / "cycle.kdb")
    (tmp_path / "gone.kdb").symlink_to(tmp_path / "gone")
    for name in ("cycle.kdb", "gone.kdb"):
        with pytest.raises(HostError, match=name), open_kdb(tmp_path / name):
            pass


def test_other_files(tmp_path: Path) -> None:
    (tmp_path / "a.kdb").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    with pytest.raises(DatabaseError, match="Git LFS pointer"):
        look(tmp_path / "a.kdb")
    with pytest.raises(HostError, match="No such file"):
        look(tmp_path / "b.kdb")
    with closing(sqlite3.connect(tmp_path / "c.kdb")) as db:
        db.execute(CREATE_TABLE.replace("`kern_db`", "x"))
        db.execute("CREATE VIEW kern_db AS SELECT * FROM x")
        db.commit()
    with pytest.raises(DatabaseError, match="not a plain table"):
        look(tmp_path / "c.kdb")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("9, x'00', '', x'00', '', 0", "record 9 has values of wrong types"),
        ("9, 'a', '', 'text', '', 0", "record 9 has values of wrong types"),
        ("9, 'a', '', x'00', '', 'many'", "record 9 has values of wrong types"),
        ("9, CAST(x'ff' AS TEXT), '', x'00', '', 0", "UTF-8"),
    ],
)
def test_values_of_wrong_types(path: Path, values: str, message: str) -> None:
    with editing(path) as db:
        db.execute(f"INSERT INTO kern_db VALUES({values})")
    with pytest.raises(DatabaseError, match=message):
        look(path)


def test_huge_sizes_are_only_numbers(path: Path) -> None:
    with editing(path) as db:
        db.execute(f"UPDATE kern_db SET uncompressed_size = {1 << 31} WHERE id = 1")
    with open_kdb(path) as kdb:
        found = summarize(kdb)
        assert found.object_size > 1 << 31
        assert found.unreadable == 2


def test_a_file_made_by_hand(tmp_path: Path) -> None:
    with editing(tmp_path / "a.kdb") as db:
        db.execute(CREATE_TABLE)
        db.execute(CREATE_INDEX)
        db.execute("INSERT INTO kern_db VALUES(7, 'noending', '-mcpu=', x'00', 'no', 0)")
    with open_kdb(tmp_path / "a.kdb") as kdb:
        found = summarize(kdb)
    assert list(found.languages) == ["other"]
    assert list(found.architectures) == [""]
    assert found.unreadable == 1


def test_options() -> None:
    text = " -DA=1  -DB -D C=-2 -mcpu=gfx90a:sramecc+ -O3 -Wno-x -I. -DS=a=b junk -DE="
    assert parse_options(text) == (
        Option("macro", "A", "1"),
        Option("macro", "B", None),
        Option("macro", "C", "-2"),
        Option("option", "-mcpu", "gfx90a:sramecc+"),
        Option("option", "-O3", None),
        Option("option", "-Wno-x", None),
        Option("option", "-I.", None),
        Option("macro", "S", "a=b"),
        Option("option", "junk", None),
        Option("macro", "E", ""),
    )
    assert parse_options("") == ()


@given(st.text())
def test_any_options_can_be_taken_apart(text: str) -> None:
    parse_options(text)
