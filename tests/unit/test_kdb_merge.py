"""Merging kernel databases: what gets together, what must not, and that inputs stay as they are."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from itertools import permutations
from pathlib import Path

import pytest
from databases import (
    NAVI,
    digest,
    edit,
    for_target,
    plain_database,
    record,
    records_of,
    repacked,
    wal_database,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from kdbforge.errors import DatabaseError, HostError, InputError
from kdbforge.kdb.merge import MergeInput, MergeReport, OnConflict, merge_kdbs
from kdbforge.kdb.record import Record
from kdbforge.kdb.schema import CREATE_TABLE
from kdbforge.kdb.writer import write_kdb, write_sorted

A, B, C = record("a.cl"), record("b.cpp"), record("c.s", variant=3)
OTHER_A = record("a.cl", variant=1)


def merge(out: Path, *paths: Path, policy: str = "error", **options: bool) -> MergeReport:
    report = merge_kdbs(
        out, [MergeInput(path) for path in paths], on_conflict=OnConflict(policy), **options
    )
    assert report.rows_in == report.rows_out + report.same + report.replaced + report.rejected
    return report


def write(path: Path, *records: Record) -> Path:
    write_kdb(path, records)
    return path


# --- what is merged ---


def test_union(tmp_path: Path) -> None:
    one, other = write(tmp_path / "1.kdb", C, A), write(tmp_path / "2.ukdb", B, A)
    before = digest(tmp_path)
    report = merge(tmp_path / "gfx1030.kdb", one, other)
    assert records_of(tmp_path / "gfx1030.kdb") == [A, B, C]
    assert (report.rows_in, report.rows_out, report.same, report.replaced) == (4, 3, 1, 0)
    assert [entry.rows for entry in report.inputs] == [2, 2]
    assert report.complete
    assert str(report.target) == "gfx1030"
    assert {name: digest(tmp_path)[name] for name in before} == before


def test_output_is_what_a_build_would_write(tmp_path: Path) -> None:
    merge(tmp_path / "m.kdb", write(tmp_path / "1.kdb", C), write(tmp_path / "2.kdb", A, B))
    write(tmp_path / "b.kdb", A, B, C)
    assert (tmp_path / "m.kdb").read_bytes() == (tmp_path / "b.kdb").read_bytes()


def test_user_databases_of_several_jobs(tmp_path: Path) -> None:
    """MIOpen#3322, #186: caches of finished and of running jobs become one system database."""
    write(tmp_path / "done.ukdb", A)
    with_log = wal_database(tmp_path / "running.ukdb", [B])
    link = tmp_path / "link.ukdb"
    link.symlink_to(tmp_path / "running.ukdb")
    try:
        before = digest(tmp_path)
        assert (tmp_path / "running.ukdb-wal").stat().st_size > 0
        merge(tmp_path / "m.kdb", tmp_path / "done.ukdb", tmp_path / "running.ukdb")
        merge(tmp_path / "n.kdb", tmp_path / "done.ukdb", link)
        assert {name: digest(tmp_path)[name] for name in before} == before
    finally:
        with_log.close()
    assert records_of(tmp_path / "m.kdb") == records_of(tmp_path / "n.kdb") == [A, B]


def test_output_is_not_in_wal_mode(tmp_path: Path) -> None:
    """MIOpen PR #2724: a WAL file in a system folder makes MIOpen abort."""
    db = wal_database(tmp_path / "a.ukdb", [A])
    db.close()
    assert (tmp_path / "a.ukdb").read_bytes()[18:20] == b"\2\2"
    merge(tmp_path / "m.kdb", tmp_path / "a.ukdb")
    assert (tmp_path / "m.kdb").read_bytes()[18:20] == b"\1\1"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.ukdb", "m.kdb"]


def test_log_of_another_file_is_reported(tmp_path: Path) -> None:
    one = write(tmp_path / "a.kdb", A)
    (tmp_path / "a.kdb-wal").write_bytes(b"something")
    (entry,) = merge(tmp_path / "m.kdb", one).inputs
    assert "a.kdb-wal" in entry.notes[0]
    (tmp_path / "link.kdb").symlink_to(one)
    (entry,) = merge(tmp_path / "n.kdb", tmp_path / "link.kdb").inputs
    assert "a.kdb-wal" in entry.notes[0]


def test_inputs_in_a_read_only_folder(tmp_path: Path) -> None:
    folder = tmp_path / "system"
    folder.mkdir()
    write(folder / "a.kdb", A)
    folder.chmod(0o555)
    try:
        assert merge(tmp_path / "m.kdb", folder / "a.kdb").rows_out == 1
    finally:
        folder.chmod(0o755)


def test_records_without_mcpu(tmp_path: Path) -> None:
    mlir = Record.pack("x.mlir.o", " --arg", for_target("gfx1030"))
    assert merge(tmp_path / "m.kdb", write(tmp_path / "a.kdb", mlir, A)).rows_out == 2


# --- conflicts ---


def test_conflict_is_an_error(tmp_path: Path) -> None:
    """MIOpen#3023: a stale object under the key of a new one crashes on the GPU."""
    paths = [write(tmp_path / "1.kdb", A, B), write(tmp_path / "2.kdb", OTHER_A)]
    with pytest.raises(DatabaseError, match="1 keys have different code") as caught:
        merge(tmp_path / "m.kdb", *paths)
    (line,) = caught.value.context
    assert line == f"a.cl.o -DN=0 -mcpu=gfx1030 in `{paths[0]}`, `{paths[1]}`"
    assert not (tmp_path / "m.kdb").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.kdb", "2.kdb"]


@pytest.mark.parametrize(("policy", "taken"), [("first", 0), ("last", 1)])
def test_first_and_last(tmp_path: Path, policy: str, taken: int) -> None:
    paths = [write(tmp_path / "1.kdb", A, B), write(tmp_path / "2.kdb", OTHER_A, B)]
    report = merge(tmp_path / "m.kdb", *paths, policy=policy)
    assert records_of(tmp_path / "m.kdb") == [(A, OTHER_A)[taken], B]
    assert (report.rows_in, report.same, report.replaced) == (4, 1, 1)
    (conflict,) = report.conflicts
    assert conflict.taken == paths[taken]


def test_newest_manifest(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{n}.kdb", r) for n, r in enumerate((A, OTHER_A, A))]
    releases: list[tuple[int, ...] | None] = [(3, 5, 1), (3, 10, 0), None]
    out = tmp_path / "m.kdb"
    inputs = [MergeInput(*entry) for entry in zip(paths, releases, strict=True)]
    for order in permutations(inputs):
        merge_kdbs(out, order, on_conflict=OnConflict.NEWEST, force=True)
        assert records_of(out) == [OTHER_A]


@pytest.mark.parametrize("releases", [(None, (3, 5)), ((3, 5), (3, 5)), (None, None)])
def test_newest_manifest_does_not_guess(
    tmp_path: Path, releases: Sequence[tuple[int, ...] | None]
) -> None:
    paths = [write(tmp_path / "1.kdb", A), write(tmp_path / "2.kdb", OTHER_A)]
    inputs = [MergeInput(*entry) for entry in zip(paths, releases, strict=True)]
    with pytest.raises(DatabaseError, match="do not tell which is the newest"):
        merge_kdbs(tmp_path / "m.kdb", inputs, on_conflict=OnConflict.NEWEST)


def test_packing_is_no_conflict(tmp_path: Path) -> None:
    one, other = write(tmp_path / "1.kdb", repacked(A)), write(tmp_path / "2.kdb", A)
    for number, paths in enumerate(permutations([one, other])):
        report = merge(tmp_path / f"m{number}.kdb", *paths)
        assert records_of(tmp_path / f"m{number}.kdb") == [A]
        assert (report.same, report.conflicts) == (1, ())


def test_repeated_keys_within_an_input(tmp_path: Path) -> None:
    same = plain_database(tmp_path / "1.kdb", [B, A, A])
    assert merge(tmp_path / "m.kdb", same).same == 1
    other = plain_database(tmp_path / "2.kdb", [A, OTHER_A])
    with pytest.raises(DatabaseError, match="different code"):
        merge(tmp_path / "n.kdb", other)


# --- what never gets together ---


def test_architectures_are_not_mixed(tmp_path: Path) -> None:
    """MIOpen#1309: gfx1031 gains nothing from records of gfx1030."""
    one = write(tmp_path / "1.kdb", A)
    other = write(tmp_path / "2.kdb", record("b.cl", arch="gfx1031"))
    with pytest.raises(DatabaseError, match="`gfx1031`, and other records are for `gfx1030`"):
        merge(tmp_path / "m.kdb", one, other, policy="last")
    assert not (tmp_path / "m.kdb").exists()


@pytest.mark.parametrize("feature", ["xnack", "sramecc"])
def test_settings_are_not_mixed(tmp_path: Path, feature: str) -> None:
    paths = [
        write(tmp_path / f"{n}.kdb", record(name, arch="gfx90a", **{feature: value}))
        for n, (name, value) in enumerate([("a.cl", None), ("b.cl", True), ("c.cl", False)])
    ]
    assert merge(tmp_path / "on.kdb", *paths[:2]).rows_out == 2
    assert merge(tmp_path / "off.kdb", paths[0], paths[2]).rows_out == 2
    for order in permutations(paths):
        with pytest.raises(DatabaseError, match="one kind of GPU"):
            merge(tmp_path / "m.kdb", *order, policy="first")


def test_settings_are_not_mixed_by_a_conflict(tmp_path: Path) -> None:
    """One key can stand for either setting; the loser must not vanish as a conflict."""
    paths = [
        write(tmp_path / f"{xnack}.kdb", record(arch="gfx90a", xnack=xnack))
        for xnack in (False, True)
    ]
    with pytest.raises(DatabaseError, match="one kind of GPU"):
        merge(tmp_path / "m.kdb", *paths, policy="first")


@pytest.mark.parametrize(
    ("name", "options", "good"),
    [
        ("gfx1030_40.kdb", {}, True),
        ("gfx1030.kdb", {}, True),
        ("mine.kdb", {}, True),
        ("gfx1031.kdb", {}, False),
        ("gfx1031_20.kdb", {}, False),
        ("gfx90a68.kdb", {"arch": "gfx90a"}, True),
        ("gfx90a_xnack68.kdb", {"arch": "gfx90a"}, True),
        ("gfx90a68.kdb", {"arch": "gfx90a", "xnack": False}, True),
        ("gfx90a68.kdb", {"arch": "gfx90a", "xnack": True}, False),
        ("gfx90a_xnack.kdb", {"arch": "gfx90a", "xnack": True}, True),
        ("gfx90a_xnack.kdb", {"arch": "gfx90a", "xnack": False}, False),
    ],
)
def test_name_of_the_output(
    tmp_path: Path, name: str, options: dict[str, object], good: bool
) -> None:
    source = write(tmp_path / "source.kdb", record(**options))  # type: ignore[arg-type]
    if good:
        assert merge(tmp_path / name, source).rows_out == 1
    else:
        with pytest.raises(InputError, match="is not a name for records of"):
            merge(tmp_path / name, source)
        assert not (tmp_path / name).exists()


# --- damage ---

PERF_DB = "CREATE TABLE perf_db(id INTEGER)"
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 143\n"


def corrupt(tmp_path: Path, kind: str) -> Path:
    path = tmp_path / "bad.kdb"
    if kind == "performance database":
        edit(path, PERF_DB)  # MIOpen#1930
    elif kind == "Git LFS pointer":
        path.write_bytes(LFS)  # MIOpen#2255
    elif kind == "web page":
        path.write_bytes(b"<!DOCTYPE html>" + bytes(1000))
    else:
        write(path, *(record("k.cl", n) for n in range(200)))
        data = bytearray(path.read_bytes())
        if kind == "cut off":
            path.write_bytes(data[: len(data) // 2])
        else:  # MIOpen#1878: "database disk image is malformed"
            data[4096:8192] = b"\xff" * 4096
            path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    "kind", ["performance database", "Git LFS pointer", "web page", "cut off", "damaged"]
)
def test_damaged_input(tmp_path: Path, kind: str) -> None:
    bad, good = corrupt(tmp_path, kind), write(tmp_path / "good.kdb", A)
    before = digest(tmp_path)
    report = merge(tmp_path / "m.kdb", bad, good)
    assert records_of(tmp_path / "m.kdb") == [A]
    assert not report.complete
    (failed,) = [entry for entry in report.inputs if entry.error]
    assert failed.path == bad
    if kind != "damaged":
        assert kind in failed.error
    with pytest.raises(DatabaseError):
        merge(tmp_path / "n.kdb", bad, good, strict=True)
    assert not (tmp_path / "n.kdb").exists()
    assert {name: digest(tmp_path)[name] for name in before} == before


def test_half_written_input(tmp_path: Path) -> None:
    bad, good = write(tmp_path / "bad.kdb", B), write(tmp_path / "good.kdb", A)
    (tmp_path / "bad.kdb-journal").write_bytes(b"\xd9\xd5\x05\xf9" * 200)
    report = merge(tmp_path / "m.kdb", bad, good)
    assert "half-written" in next(entry.error for entry in report.inputs if entry.error)


BLOB, HASH, SIZE = B.kernel_blob, B.kernel_hash, B.uncompressed_size
ARGS = " -DN=0 -mcpu=gfx1030"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (("b.o", ARGS, BLOB, "0" * 32, SIZE), "MD5"),
        (("b.o", ARGS, BLOB, HASH, SIZE - 1), "unpacks to more"),
        (("b.o", ARGS, BLOB, HASH, SIZE + 1), "cut off"),
        (("b.o", ARGS, BLOB[:-9], HASH, SIZE), "cut off"),
        (("b.o", ARGS, BLOB, HASH, 1 << 31), "uncompressed_size"),
        (("b.o", ARGS, BLOB, HASH, "much"), "wrong types"),
        (("b.o", ARGS, "text", HASH, SIZE), "wrong type: text"),
        (("b'.o", ARGS, BLOB, HASH, SIZE), "quote"),
        (("", ARGS, BLOB, HASH, SIZE), "kernel_name is empty"),
        ((b"b.o", ARGS, BLOB, HASH, SIZE), "its key is not text"),
        (("b.o", " -mcpu=gfx1031", BLOB, HASH, SIZE), "its key says `-mcpu=gfx1031`"),
        (("b.o", " -mcpu=native", BLOB, HASH, SIZE), "is no GPU"),
        (("b.o", ARGS, b"none", hashlib.md5(b"none").hexdigest(), 0), ""),
    ],
)
def test_damaged_record(tmp_path: Path, row: tuple[object, ...], reason: str) -> None:
    path = plain_database(tmp_path / "a.kdb", [A, row, C])
    before = digest(tmp_path)
    report = merge(tmp_path / "m.kdb", path)
    assert records_of(tmp_path / "m.kdb") == [A, C]
    ((bad,),) = [entry.rejected for entry in report.inputs]
    assert bad.number == 2
    assert reason in bad.reason
    assert not report.complete
    with pytest.raises(DatabaseError, match="record 2 cannot be used"):
        merge(tmp_path / "n.kdb", path, strict=True)
    assert {name: digest(tmp_path)[name] for name in before} == before


def test_key_that_is_no_unicode(tmp_path: Path) -> None:
    path = plain_database(tmp_path / "a.kdb", [A, B])
    edit(path, "UPDATE kern_db SET kernel_name = CAST(x'ff00' AS TEXT) WHERE id = 2")
    assert merge(tmp_path / "m.kdb", path).rejected == 1


def test_sound_copy_replaces_a_damaged_one(tmp_path: Path) -> None:
    bad = Record(*A.key, A.kernel_blob[:-5], A.kernel_hash, A.uncompressed_size)
    one = plain_database(tmp_path / "1.kdb", [bad])
    report = merge(tmp_path / "m.kdb", one, write(tmp_path / "2.kdb", A))
    assert records_of(tmp_path / "m.kdb") == [A]
    assert (report.rejected, report.conflicts) == (1, ())


def test_xnack_of_the_key_counts(tmp_path: Path) -> None:
    wrong = Record.pack("a.s.o", " -mcpu=gfx90a:xnack-", for_target("gfx90a", True))
    right = Record.pack("b.s.o", " -mcpu=gfx90a:xnack+", for_target("gfx90a", True))
    report = merge(tmp_path / "m.kdb", plain_database(tmp_path / "a.kdb", [wrong, right]))
    assert (report.rejected, report.rows_out) == (1, 1)


def test_nothing_left(tmp_path: Path) -> None:
    empty, bad = write(tmp_path / "empty.kdb"), corrupt(tmp_path, "cut off")
    with pytest.raises(DatabaseError, match="nothing to merge") as caught:
        merge(tmp_path / "m.kdb", empty, bad)
    assert "cut off" in caught.value.context[0]
    assert not (tmp_path / "m.kdb").exists()


def test_view_and_trigger_of_a_stranger(tmp_path: Path) -> None:
    view = tmp_path / "view.kdb"
    edit(view, "CREATE VIEW kern_db AS SELECT 1")
    trigger = write(tmp_path / "trigger.kdb", B)
    edit(trigger, "CREATE TRIGGER t AFTER INSERT ON kern_db BEGIN DELETE FROM kern_db; END")
    report = merge(tmp_path / "m.kdb", view, trigger)
    assert records_of(tmp_path / "m.kdb") == [B]
    assert "not a plain table" in report.inputs[1].error


def test_foreign_collation(tmp_path: Path) -> None:
    path = tmp_path / "a.kdb"
    table = (
        "CREATE TABLE kern_db(id INTEGER PRIMARY KEY ASC, kernel_name TEXT COLLATE NOCASE NOT NULL,"
        " kernel_args TEXT NOT NULL, kernel_blob BLOB NOT NULL, kernel_hash TEXT NOT NULL,"
        " uncompressed_size INT NOT NULL)"
    )
    edit(path, table)
    for one in (record("b.cl"), record("A.cl"), record("a.cl"), record("B.cl")):
        edit(
            path, "INSERT INTO kern_db VALUES(NULL, ?, ?, ?, ?, ?)",
            *one.key, one.kernel_blob, one.kernel_hash, one.uncompressed_size,
        )  # fmt: skip
    merge(tmp_path / "m.kdb", path)
    names = [one.kernel_name for one in records_of(tmp_path / "m.kdb")]
    assert names == ["A.cl.o", "B.cl.o", "a.cl.o", "b.cl.o"]


def test_utf16_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.kdb"
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA encoding='UTF-16le'")
        db.execute(CREATE_TABLE)
    report = merge(tmp_path / "m.kdb", path, write(tmp_path / "b.kdb", A))
    assert "UTF-16" in report.inputs[1].error


# --- the output ---


def test_output_is_never_an_input(tmp_path: Path) -> None:
    one = write(tmp_path / "1.kdb", A)
    link = tmp_path / "link.kdb"
    os.link(one, link)
    for out in (one, link):
        with pytest.raises(InputError, match="never modified"):
            merge(out, one, force=True)


def test_output_that_exists(tmp_path: Path) -> None:
    """`kdb merge a.kdb b.kdb`, where OUT was forgotten, must not eat `a.kdb`."""
    one, out = write(tmp_path / "1.kdb", A), write(tmp_path / "m.kdb", B)
    before = digest(tmp_path)
    with pytest.raises(InputError, match="exists"):
        merge(out, one)
    assert digest(tmp_path) == before
    merge(out, one, force=True)
    assert records_of(out) == [A]


def test_side_files_at_the_output(tmp_path: Path) -> None:
    one = write(tmp_path / "1.kdb", A)
    (tmp_path / "m.kdb-wal").write_bytes(b"old")
    with pytest.raises(InputError, match="would apply it"):
        merge(tmp_path / "m.kdb", one, force=True)


def test_missing_input_is_no_damage(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r"none\.kdb"):
        merge(tmp_path / "m.kdb", write(tmp_path / "a.kdb", A), tmp_path / "none.kdb")


def test_streaming_writer(tmp_path: Path) -> None:
    assert write_sorted(tmp_path / "s.kdb", iter([A, B, C])) == 3
    write(tmp_path / "w.kdb", C, B, A)
    assert (tmp_path / "s.kdb").read_bytes() == (tmp_path / "w.kdb").read_bytes()
    assert write_sorted(tmp_path / "e.kdb", []) == 0
    for wrong in ([B, A], [A, A]):
        with pytest.raises(DatabaseError, match="does not come behind"):
            write_sorted(tmp_path / "x.kdb", wrong)
    assert not (tmp_path / "x.kdb").exists()


# --- laws ---

OBJECTS = [NAVI, for_target("gfx1030", variant=1), for_target("gfx1030", variant=2)]
keys = st.tuples(st.sampled_from(["a.cl.o", "b.cpp.o", "é.s.o"]), st.integers(0, 3))
databases = st.dictionaries(keys, st.sampled_from(OBJECTS), min_size=1, max_size=6)


def records(content: dict[tuple[str, int], bytes]) -> list[Record]:
    return [
        Record.pack(name, f" -DN={number} -mcpu=gfx1030", data)
        for (name, number), data in content.items()
    ]


class Folder:
    """Databases by number; each merge gives a new one."""

    def __init__(self, folder: str):
        self._folder = Path(folder)
        self._count = 0

    def _next(self) -> Path:
        self._count += 1
        return self._folder / f"{self._count}.kdb"

    def write(self, content: dict[tuple[str, int], bytes]) -> Path:
        return write(self._next(), *records(content))

    def merge(self, *paths: Path, policy: str = "first") -> Path:
        out = self._next()
        merge(out, *paths, policy=policy)
        return out


@settings(max_examples=12, deadline=None)
@given(databases, databases, databases, st.sampled_from(["first", "last"]))
def test_merge_is_associative_and_idempotent(
    one: dict[tuple[str, int], bytes],
    two: dict[tuple[str, int], bytes],
    three: dict[tuple[str, int], bytes],
    policy: str,
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Folder(name)
        a, b, c = map(folder.write, (one, two, three))
        left = folder.merge(folder.merge(a, b, policy=policy), c, policy=policy)
        right = folder.merge(a, folder.merge(b, c, policy=policy), policy=policy)
        flat = folder.merge(a, b, c, policy=policy)
        assert left.read_bytes() == right.read_bytes() == flat.read_bytes()
        again = folder.merge(flat, flat, policy=policy)
        assert again.read_bytes() == flat.read_bytes()
        order = (one, two, three) if policy == "last" else (three, two, one)
        expected = {**order[0], **order[1], **order[2]}
        assert records_of(flat) == sorted(records(expected), key=lambda r: r.key)


@settings(max_examples=12, deadline=None)
@given(st.lists(databases, min_size=2, max_size=3))
def test_order_does_not_matter_without_conflicts(
    contents: list[dict[tuple[str, int], bytes]],
) -> None:
    agreed: dict[tuple[str, int], bytes] = {}
    for content in contents:
        for key in content:
            agreed.setdefault(key, content[key])
            content[key] = agreed[key]
    with tempfile.TemporaryDirectory() as name:
        folder = Folder(name)
        paths = [folder.write(content) for content in contents]
        results = {
            folder.merge(*order, policy="error").read_bytes() for order in permutations(paths)
        }
        assert len(results) == 1
