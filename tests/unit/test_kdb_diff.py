"""Comparing kernel databases, as a library and on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from databases import (
    CDNA,
    NAVI,
    digest,
    edit,
    for_target,
    plain_database,
    record,
    repacked,
    wal_database,
)

from kdbforge.cli.main import cli
from kdbforge.errors import DatabaseError, HostError
from kdbforge.kdb.diff import diff_kdbs
from kdbforge.kdb.record import Record
from kdbforge.kdb.writer import write_kdb

A, B, C, D = (record(f"{name}.cl") for name in "abcd")
OTHER_B = record("b.cl", variant=1)


def write(path: Path, *records: Record) -> Path:
    write_kdb(path, records)
    return path


def run(*args: object) -> Result:
    return CliRunner().invoke(cli, ["kdb", "diff", *map(str, args)])


def test_lost_gained_changed(tmp_path: Path) -> None:
    one, other = write(tmp_path / "1.kdb", A, B, C), write(tmp_path / "2.kdb", OTHER_B, C, D)
    before = digest(tmp_path)
    found = diff_kdbs(one, other)
    assert [side.kernel_name for side in found.lost] == ["a.cl.o"]
    assert [side.kernel_name for side in found.gained] == ["d.cl.o"]
    ((change),) = found.changed
    assert change.before.kernel_hash == B.kernel_hash
    assert (change.before.object_size, change.after.object_size) == (len(NAVI), len(NAVI) + 1)
    assert (found.same, found.repacked, found.rows) == (1, 0, (3, 3))
    assert digest(tmp_path) == before


def test_the_same(tmp_path: Path) -> None:
    one = plain_database(tmp_path / "1.kdb", [C, repacked(A), B])
    found = diff_kdbs(one, write(tmp_path / "2.kdb", A, B, C))
    assert not found
    assert (found.same, found.repacked) == (3, 1)


def test_object_of_another_kind(tmp_path: Path) -> None:
    key = ("a.cl.o", " -DN=0")
    one = write(tmp_path / "1.kdb", Record.pack(*key, NAVI))
    other = write(tmp_path / "2.kdb", Record.pack(*key, CDNA))
    (change,) = diff_kdbs(one, other).changed
    assert change.before.targets == ("gfx1030",)
    assert change.after.targets == ("gfx90a:xnack+",)
    assert change.before.kernels
    assert change.before.versions == (6,)


def test_object_with_a_borrowed_hash_is_changed(tmp_path: Path) -> None:
    fake = Record(*A.key, OTHER_B.kernel_blob, A.kernel_hash, OTHER_B.uncompressed_size)
    found = diff_kdbs(write(tmp_path / "1.kdb", A), plain_database(tmp_path / "2.kdb", [fake]))
    ((change),) = found.changed
    assert "MD5" in change.after.damage


def test_repeated_keys(tmp_path: Path) -> None:
    found = diff_kdbs(
        plain_database(tmp_path / "1.kdb", [A, A, B]), plain_database(tmp_path / "2.kdb", [A, B, B])
    )
    assert [side.kernel_name for side in found.lost] == ["a.cl.o"]
    assert [side.kernel_name for side in found.gained] == ["b.cl.o"]


def test_database_in_use(tmp_path: Path) -> None:
    db = wal_database(tmp_path / "1.ukdb", [A])
    try:
        assert not diff_kdbs(tmp_path / "1.ukdb", write(tmp_path / "2.kdb", A))
    finally:
        db.close()


def test_trouble(tmp_path: Path) -> None:
    good = write(tmp_path / "1.kdb", A)
    with pytest.raises(HostError):
        diff_kdbs(good, tmp_path / "none.kdb")
    edit(tmp_path / "perf.kdb", "CREATE TABLE perf_db(id INTEGER)")
    with pytest.raises(DatabaseError, match="performance database"):
        diff_kdbs(good, tmp_path / "perf.kdb")
    row = ("b.o", " -DN=0", A.kernel_blob, "no hash", 1)
    with pytest.raises(DatabaseError, match="record 1 cannot be read"):
        diff_kdbs(plain_database(tmp_path / "3.kdb", [row]), good)
    row = (b"b.o", " -DN=0", A.kernel_blob, A.kernel_hash, 1)
    with pytest.raises(DatabaseError, match="record 1 cannot be read"):
        diff_kdbs(good, plain_database(tmp_path / "4.kdb", [row]))


def test_command(tmp_path: Path) -> None:
    one, other = write(tmp_path / "1.kdb", A, B, C), write(tmp_path / "2.kdb", OTHER_B, C, D)
    result = run(one, other)
    sizes = one.stat().st_size, other.stat().st_size
    assert result.exit_code == 1
    assert result.stdout == (
        "LOST     a.cl.o  -DN=0 -mcpu=gfx1030\n"
        "           object   3544 bytes, gfx1030, code object v6, 1 kernels\n"
        "GAINED   d.cl.o  -DN=0 -mcpu=gfx1030\n"
        "           object   3544 bytes, gfx1030, code object v6, 1 kernels\n"
        "CHANGED  b.cl.o  -DN=0 -mcpu=gfx1030\n"
        "           object   3544 -> 3545 bytes\n"
        f"           MD5      {B.kernel_hash} -> {OTHER_B.kernel_hash}\n"
        "1 lost, 1 gained, 1 changed, 1 the same\n"
        f"3 -> 3 records, {sizes[0]} -> {sizes[1]} bytes\n"
    )
    assert run(one, one).exit_code == 0
    assert isinstance(run(one, tmp_path / "none.kdb").exception, HostError)


def test_command_shows_what_differs(tmp_path: Path) -> None:
    key = ("\x1b[31m.o", " -DN=0")
    one = write(tmp_path / "1.kdb", Record.pack(*key, NAVI))
    other = write(tmp_path / "2.kdb", Record.pack(*key, for_target("gfx90a", True, False)))
    text = run(one, other).stdout
    assert "target   gfx1030 -> gfx90a:sramecc-:xnack+\n" in text
    assert "\x1b" not in text
    damaged = plain_database(
        tmp_path / "3.kdb",
        [Record(*key, A.kernel_blob[:-3], A.kernel_hash, A.uncompressed_size)],
    )
    assert "damaged  in B: " in run(one, damaged).stdout


def test_json(tmp_path: Path) -> None:
    one, other = write(tmp_path / "1.kdb", A, B), write(tmp_path / "2.kdb", OTHER_B)
    found = json.loads(run(one, other, "--json").stdout)
    assert found["different"] is True
    assert found["lost"][0]["kernel_name"] == "a.cl.o"
    assert found["changed"][0]["after"]["object_size"] == len(NAVI) + 1
    assert found["records"] == [2, 1]
    assert json.loads(run(one, one, "--json").stdout)["different"] is False
