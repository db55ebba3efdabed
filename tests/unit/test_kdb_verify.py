"""Verifying: what MIOpen would do with a file and with each record, told without MIOpen."""

from __future__ import annotations

import bz2
import hashlib
import multiprocessing
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from kdbforge.codeobject.elf import Setting
from kdbforge.errors import WorkerError
from kdbforge.kdb.record import Record
from kdbforge.kdb.schema import CREATE_INDEX, CREATE_TABLE
from kdbforge.kdb.verify import VerifyOptions, verify_kdb
from kdbforge.kdb.verify_device import Device, device_of_name, loading
from kdbforge.kdb.verify_kind import file_kind
from kdbforge.kdb.verify_report import Fate, Level, Report
from kdbforge.kdb.writer import write_kdb
from kdbforge.model.target import TargetId
from kdbforge.vgpu.profiles import load_profiles

DATA = Path(__file__).parent / "data"
NAVI = (DATA / "scale_gfx1030.co").read_bytes()
CDNA = (DATA / "scale_gfx90a_xnack+.co").read_bytes()
ARGS = " -DA=1 -mcpu=gfx1030"
NAVI_DEVICE = Device(TargetId("gfx1030", None, False))


def run(path: Path, device: Device | None = NAVI_DEVICE, **options: object) -> Report:
    return verify_kdb(path, VerifyOptions(device, **options))  # type: ignore[arg-type]


def said(report: Report) -> list[tuple[Level, str]]:
    return [(finding.level, finding.check) for finding in report.findings]


def change(path: Path, *statements: object) -> None:
    with closing(sqlite3.connect(path)) as db:
        for statement in statements:
            db.execute(*(statement if isinstance(statement, tuple) else (statement,)))
        db.commit()


def set_record(path: Path, blob: object, digest: object, size: object) -> None:
    query = "UPDATE kern_db SET kernel_blob = ?, kernel_hash = ?, uncompressed_size = ?"
    change(path, (query, (blob, digest, size)))


def set_object(path: Path, data: bytes) -> None:
    digest = hashlib.md5(data).hexdigest()
    set_record(path, bz2.compress(data), digest, len(data))


@pytest.fixture
def kdb(tmp_path: Path) -> Path:
    """A database of one record that nothing is wrong with."""
    write_kdb(tmp_path / "gfx1030_40.kdb", [Record.pack("scale.cl.o", ARGS, NAVI)])
    return tmp_path / "gfx1030_40.kdb"


def test_nothing_is_wrong(kdb: Path) -> None:
    before = kdb.read_bytes()
    report = run(kdb)
    assert report.findings == ()
    assert report.counts == {}
    assert (report.records, report.sound, report.fate) == (1, 1, Fate.HIT)
    assert report.kind == "a kernel database"
    assert not report.failing(strict=True)
    assert [step.name for step in report.steps] == [
        "exists", "readable", "size", "format", "journal", "schema", "content",
    ]  # fmt: skip
    assert all(step.passed for step in report.steps)
    assert kdb.read_bytes() == before
    assert list(kdb.parent.iterdir()) == [kdb]


PACKED = bz2.compress(NAVI, 9)
MD5 = hashlib.md5(NAVI).hexdigest()
SIZE = len(NAVI)
HUGE = bz2.compress(bytes(65 << 20))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((PACKED, "0" * 32, SIZE), (Level.FATAL, "md5")),
        ((PACKED, MD5.upper(), SIZE), (Level.FATAL, "md5")),
        ((PACKED, "", SIZE), (Level.FATAL, "md5")),
        ((PACKED, MD5, SIZE - 1), (Level.FATAL, "size")),
        ((PACKED, MD5, SIZE + 1), (Level.SUSPICIOUS, "size")),
        ((PACKED, MD5, -1), (Level.SUSPICIOUS, "size")),
        ((PACKED, MD5, (1 << 32) + SIZE), (Level.SUSPICIOUS, "size")),
        ((PACKED, MD5, 1 << 32), (Level.FATAL, "size")),
        ((PACKED, MD5, 1 << 31), (Level.SUSPICIOUS, "size")),
        ((PACKED, MD5, -(1 << 31)), (Level.SUSPICIOUS, "size")),
        ((PACKED, MD5, 0), (Level.FATAL, "size")),
        ((PACKED, MD5, "many"), (Level.FATAL, "type")),
        ((PACKED[:-50], MD5, SIZE), (Level.FATAL, "bzip2")),
        ((b"", MD5, SIZE), (Level.FATAL, "bzip2")),
        ((NAVI, MD5, SIZE), (Level.FATAL, "bzip2")),
        ((PACKED + b"more", MD5, SIZE), (Level.SUSPICIOUS, "bzip2")),
        ((b"", hashlib.md5(b"").hexdigest(), 0), (Level.NEVER_HITS, "empty")),
        ((HUGE, MD5, 65 << 20), (Level.SUSPICIOUS, "not-checked")),
        ((HUGE, MD5, -1), (Level.SUSPICIOUS, "not-checked")),
    ],
)
def test_packing(kdb: Path, values: tuple[object, ...], expected: tuple[Level, str]) -> None:
    set_record(kdb, *values)
    report = run(kdb)
    assert said(report) == [expected]
    assert report.sound == (expected[0] is Level.SUSPICIOUS)
    assert report.failing() == (expected[0] > Level.SUSPICIOUS or expected[1] == "not-checked")
    assert report.failing(strict=True)


def test_a_plain_record(kdb: Path) -> None:
    set_record(kdb, NAVI, MD5, 0)
    assert run(kdb).findings == ()


@pytest.mark.parametrize(
    ("column", "value", "check"),
    [
        ("kernel_name", "sca'le.cl.o", "quote"),
        ("kernel_name", "sca\0le.cl.o", "quote"),
        ("kernel_name", b"scale.cl.o", "type"),
        ("kernel_name", "scale.cl", "name"),
        ("kernel_name", "x" * (1 << 20) + ".o", "text"),
        ("kernel_args", " -DA='1' -mcpu=gfx1030", "quote"),
        ("kernel_args", " -DA=1", "mcpu"),
        ("kernel_args", " -DA=1 -mcpu=gfx1030 ", "mcpu"),
        ("kernel_args", " -mcpu=gfx1030:xnack- -DA=1", "mcpu"),
        ("kernel_args", " -DA=1 -mcpu=gfx1030:xnack-", "mcpu"),
        ("kernel_args", ARGS.encode(), "type"),
    ],
)
def test_keys_that_are_never_asked_for(kdb: Path, column: str, value: object, check: str) -> None:
    change(kdb, (f"UPDATE kern_db SET {column} = ?", (value,)))
    report = run(kdb)
    assert said(report) == [(Level.NEVER_HITS, check)]
    assert report.sound == 0
    assert report.failing()


def test_a_key_that_is_not_utf8(kdb: Path) -> None:
    change(kdb, "UPDATE kern_db SET kernel_args = CAST(x'ff' AS TEXT) || kernel_args")
    assert said(run(kdb)) == [(Level.NEVER_HITS, "text")]


def test_mlir_kernels_have_no_mcpu(kdb: Path) -> None:
    change(kdb, "UPDATE kern_db SET kernel_name = 'a.mlir.o', kernel_args = ' -A'")
    assert run(kdb).findings == ()


def test_a_renamed_file(kdb: Path) -> None:
    """Renaming gfx1030.kdb does not make kernels for gfx1031 of it."""
    assert said(run(kdb, Device(TargetId("gfx1031")))) == [(Level.NEVER_HITS, "mcpu")]


def test_a_name_that_nobody_looks_for(kdb: Path) -> None:
    report = run(kdb, None)
    assert said(report) == [(Level.SUSPICIOUS, "file-name")]
    assert report.sound == 1


def test_the_object_of_another_processor(kdb: Path) -> None:
    set_object(kdb, CDNA)
    report = run(kdb)
    assert said(report) == [(Level.FATAL, "target")]
    assert "gfx90a, not for gfx1030" in report.findings[0].message


def test_equal_blobs_are_judged_by_their_keys(tmp_path: Path) -> None:
    """What was found out about a blob holds for the next one; its target does not."""
    path = tmp_path / "gfx1030_40.kdb"
    keys = (ARGS, " -DA=2 -mcpu=gfx1030", " -DA=1 -mcpu=gfx906")
    write_kdb(path, [Record.pack("scale.cl.o", args, NAVI) for args in keys])
    report = run(path, None)
    assert [(f.record, f.check) for f in report.findings if f.level is Level.FATAL] == [
        (2, "target")
    ]
    assert (report.records, report.sound) == (3, 2)


def test_equal_blobs_of_other_md5s(kdb: Path) -> None:
    """The same blob is damaged in the record that gives it another MD5 or size."""
    change(
        kdb,
        "INSERT INTO kern_db SELECT 2, kernel_name, ' -DA=2' || kernel_args, kernel_blob,"
        " replace(kernel_hash, substr(kernel_hash, 1, 4), 'beef'), uncompressed_size FROM kern_db",
        "INSERT INTO kern_db SELECT 3, kernel_name, ' -DA=3' || kernel_args, kernel_blob,"
        " kernel_hash, uncompressed_size - 1 FROM kern_db WHERE id = 1",
    )
    report = run(kdb)
    found = {(f.record, f.check) for f in report.findings if f.level is Level.FATAL}
    assert found == {(2, "md5"), (3, "size")}


def test_what_is_no_object(kdb: Path) -> None:
    set_object(kdb, b"hello" * 100)
    assert said(run(kdb)) == [(Level.FATAL, "code-object")]


def test_an_old_code_object_is_not_condemned(kdb: Path) -> None:
    set_object(kdb, NAVI[:8] + b"\1" + NAVI[9:])
    report = run(kdb)
    assert said(report) == [(Level.SUSPICIOUS, "not-checked")]
    assert report.failing()


def test_a_bundle_is_as_good_as_its_best_object(kdb: Path) -> None:
    def bundle(*parts: tuple[str, bytes]) -> bytes:
        head = b"__CLANG_OFFLOAD_BUNDLE__" + len(parts).to_bytes(8, "little")
        at = len(head) + sum(24 + len(name) for name, _ in parts)
        body = b""
        for name, data in parts:
            numbers = (at + len(body), len(data), len(name))
            head += b"".join(n.to_bytes(8, "little") for n in numbers) + name.encode()
            body += data
        return head + body

    host = ("host-x86_64-unknown-linux--", b"")
    navi = ("hipv4-amdgcn-amd-amdhsa--gfx1030", NAVI)
    cdna = ("hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+", CDNA)
    set_object(kdb, bundle(host, cdna, navi))
    assert run(kdb).findings == ()
    set_object(kdb, bundle(host, cdna))
    assert said(run(kdb)) == [(Level.FATAL, "target")]


def test_a_kernel_whose_symbol_was_renamed(kdb: Path) -> None:
    set_object(kdb, NAVI.replace(b"kf_scale.kd\0", b"kf_scalf.kd\0"))
    report = run(kdb)
    assert (Level.FATAL, "symbol") in said(report)
    assert "`kf_scale` has no symbol `kf_scale.kd`" in report.findings[0].message
    assert report.sound == 0


def test_xnack_against_the_file_name(tmp_path: Path) -> None:
    record = Record.pack("scale.cl.o", " -mcpu=gfx90a", CDNA)
    found = {}
    for name in ("gfx90a68", "gfx90a_xnack68"):
        write_kdb(tmp_path / f"{name}.kdb", [record])
        device = device_of_name(name, load_profiles())
        found[name] = said(run(tmp_path / f"{name}.kdb", device))
    assert found == {"gfx90a68": [(Level.FATAL, "xnack")], "gfx90a_xnack68": []}


ON, OFF, ANY, NONE = Setting.ON, Setting.OFF, Setting.ANY, Setting.UNSUPPORTED


@pytest.mark.parametrize(
    ("xnack", "device", "exact", "level"),
    [
        (ANY, None, True, None),
        (NONE, None, True, None),
        (NONE, False, False, None),
        (NONE, True, False, Level.FATAL),
        (ON, True, True, None),
        (ON, True, False, None),
        (ON, False, False, Level.FATAL),
        (ON, None, True, Level.FATAL),
        (OFF, None, True, Level.FATAL),
        (OFF, True, False, Level.FATAL),
        (OFF, False, True, None),
        (OFF, False, False, Level.NOTE),
    ],
)
def test_loading(xnack: Setting, device: bool | None, exact: bool, level: Level | None) -> None:
    found = loading(ANY, xnack, Device(TargetId("gfx90a", None, device), exact))
    assert [(one[0], one[1]) for one in found] == ([] if level is None else [(level, "xnack")])


def test_sramecc_is_not_in_a_file_name() -> None:
    device = Device(TargetId("gfx906", None, False))
    assert [one[0] for one in loading(ON, ANY, device)] == [Level.NOTE]
    assert [one[0] for one in loading(OFF, ANY, device)] == [Level.SUSPICIOUS]


@pytest.mark.parametrize(
    ("stem", "target"),
    [
        ("gfx1030_40", "gfx1030:xnack-"),
        ("gfx1030", "gfx1030:xnack-"),
        ("gfx90a68", "gfx90a:xnack-"),
        ("gfx90a_64", "gfx90a:xnack-"),
        ("gfx942130", "gfx942:xnack-"),
        ("gfx90a_xnack6e", "gfx90a:xnack+"),
        ("gfx90c_xnack_7", "gfx90c:xnack+"),
        ("gfx906_nosramecc_60", "gfx906:sramecc-:xnack-"),
        ("gfx1030_0", None),
        ("gfx90a1234", None),
        ("gfx9999_40", None),
        ("my", None),
    ],
)
def test_file_names(stem: str, target: str | None) -> None:
    found = device_of_name(stem, load_profiles())
    assert (str(found.target) if found else None) == target


def test_duplicates_are_noted_once(tmp_path: Path) -> None:
    records = [Record.pack(f"s{n}.cl.o", ARGS, NAVI) for n in range(4)]
    write_kdb(tmp_path / "a.kdb", records)
    report = run(tmp_path / "a.kdb")
    assert said(report) == [(Level.NOTE, "duplicates")]
    assert report.findings[0].message.startswith("3 of 4 records")
    assert not report.failing(strict=True)


def test_one_key_twice(kdb: Path) -> None:
    change(
        kdb,
        "DROP INDEX idx_kern_db",
        "INSERT INTO kern_db SELECT 9, kernel_name, kernel_args, kernel_blob, kernel_hash,"
        " uncompressed_size FROM kern_db",
    )
    assert set(said(run(kdb))) == {
        (Level.SUSPICIOUS, "duplicate-key"), (Level.SUSPICIOUS, "index"), (Level.NOTE, "duplicates")
    }  # fmt: skip


def test_an_index_that_leads_astray(tmp_path: Path) -> None:
    kdb = tmp_path / "a.kdb"
    write_kdb(kdb, [Record.pack(f"{name}.cl.o", ARGS, NAVI) for name in ("aaaa", "bbbb")])
    data = kdb.read_bytes()
    at = data.rindex(b"aaaa.cl.o", 0, data.rindex(b"aaaa.cl.o"))  # table and index have it
    found = set()
    for place in (at, data.rindex(b"aaaa.cl.o")):
        kdb.write_bytes(data[:place] + b"aaab" + data[place + 4 :])
        found |= {kind for kind in said(run(kdb)) if kind[1] == "index"}
    assert found == {(Level.NEVER_HITS, "index")}


def test_what_a_plan_wants(kdb: Path) -> None:
    assert run(kdb, planned=[("scale.cl.o", ARGS)]).findings == ()
    report = run(kdb, planned=[("scale.cl.o", ARGS), ("b.cl.o", " -B")])
    assert said(report) == [(Level.SUSPICIOUS, "plan")]
    assert report.findings[0].message == "Missing of the plan: `b.cl.o` with `-B`"
    assert report.failing()


def test_many_records_in_processes(tmp_path: Path) -> None:
    """The same findings from several processes as from one, and few are kept of many."""
    kdb = tmp_path / "gfx1030.kdb"
    records = [Record.pack(f"s{n}.cl.o", f" -DN={n} -mcpu=gfx1030", NAVI) for n in range(700)]
    write_kdb(kdb, records)
    change(kdb, ("UPDATE kern_db SET kernel_hash = ? WHERE id % 2", ("0" * 32,)))
    seen: list[tuple[int, int]] = []
    one = run(kdb)
    two = verify_kdb(kdb, VerifyOptions(NAVI_DEVICE, jobs=2), progress=lambda *at: seen.append(at))
    assert one.counts == two.counts == {(Level.FATAL, "md5"): 350, (Level.NOTE, "duplicates"): 1}
    assert (two.records, two.sound) == (700, 350)
    assert len(two.findings) == 201
    assert seen[-1] == (700, 700)


def test_a_process_that_dies_is_an_error(tmp_path: Path) -> None:
    kdb = tmp_path / "gfx1030.kdb"
    write_kdb(kdb, [Record.pack(f"s{n}.cl.o", f" -DN={n} -mcpu=gfx1030", NAVI) for n in range(900)])

    def kill_them(_done: int, _total: int) -> None:
        for child in multiprocessing.active_children():
            child.kill()

    with pytest.raises(WorkerError, match=r"A process that checked records of .* died"):
        verify_kdb(kdb, VerifyOptions(jobs=2), progress=kill_them)


# Files


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        (b"\n<!DOCTYPE html>", "web page"),
        (b"BZh91AY&SY", "packed with bzip2"),
        (b"\x28\xb5\x2f\xfd", "packed with zstd"),
        (b"1-1-1-3x3-2-3-3-128-0x0-1x1-1x1-0-NCHW-FP32-W=a:b,0.1,0", "find-db"),
        (b"2x992x7x7x1x1x1x1x128x8x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP32xF=C:32", "performance database"),
        (b"\x7fELF", "an ELF file"),
        (b"abc", "of an unknown kind, beginning with `616263"),
    ],
)
def test_other_files_are_named(tmp_path: Path, start: bytes, words: str) -> None:
    assert words in file_kind(start, 9).words
    path = tmp_path / "gfx1030_40.kdb"
    path.write_bytes(start.ljust(600, b" "))
    report = run(path)
    assert (report.fate, said(report)) == (Fate.FATAL, [(Level.FATAL, "format")])
    assert words in report.findings[0].message
    assert report.readable
    assert report.failing()
    path.write_bytes(start)
    report = run(path)
    assert (report.fate, said(report)) == (Fate.MISS, [(Level.NEVER_HITS, "size")])


def test_an_empty_file(tmp_path: Path) -> None:
    for name in ("a.kdb", "a.ukdb"):
        (tmp_path / name).write_bytes(b"")
    assert said(run(tmp_path / "a.kdb")) == [(Level.NEVER_HITS, "size")]
    report = run(tmp_path / "a.ukdb")
    assert (report.kind, report.findings) == ("empty", ())


def test_what_cannot_be_read(tmp_path: Path) -> None:
    for path, fate in ((tmp_path / "none.kdb", Fate.MISS), (tmp_path, Fate.FATAL)):
        report = run(path)
        assert (report.readable, report.fate) == (False, fate)
        assert [step.name for step in report.steps if not step.passed] == ["exists"]
    os.mkfifo(tmp_path / "fifo.kdb")
    assert run(tmp_path / "fifo.kdb").kind == "not a file"


def test_a_file_for_one_user(kdb: Path) -> None:
    kdb.chmod(0o600)
    assert said(run(kdb)) == [(Level.SUSPICIOUS, "permissions")]


def test_a_file_that_is_cut_off(kdb: Path) -> None:
    data = kdb.read_bytes()
    kdb.write_bytes(data[:-4096])
    assert said(run(kdb)) == [(Level.FATAL, "format")]
    kdb.write_bytes(data + b"x")
    assert said(run(kdb)) == [(Level.SUSPICIOUS, "format")]


def test_a_damaged_page(tmp_path: Path) -> None:
    kdb = tmp_path / "a.kdb"
    write_kdb(kdb, [Record.pack(f"s{n}.cl.o", ARGS, NAVI) for n in range(9)])
    data = bytearray(kdb.read_bytes())
    at = data.index(b"s4.cl.o")
    page = at // 4096 * 4096
    data[page : page + 100] = b"\xff" * 100
    kdb.write_bytes(data)
    report = run(kdb)
    assert (Level.FATAL, "damage") in said(report) or (Level.FATAL, "content") in said(report)
    assert report.failing()


def no_column(name: str) -> list[str]:
    return ["DROP INDEX idx_kern_db", f"ALTER TABLE kern_db DROP COLUMN {name}"]


VIEW = ["ALTER TABLE kern_db RENAME TO x", "CREATE VIEW kern_db AS SELECT * FROM x"]
PERF_DB = ["DROP TABLE kern_db", "CREATE TABLE config(a)", "CREATE TABLE perf_db(a)"]


@pytest.mark.parametrize(
    ("statements", "fate", "level", "check", "words"),
    [
        (no_column("kernel_args"), Fate.FATAL, Level.FATAL, "schema", "no column `kernel_args`"),
        (no_column("kernel_hash"), Fate.FATAL, Level.FATAL, "schema", "no column `kernel_hash`"),
        (
            ["ALTER TABLE kern_db ADD COLUMN extra TEXT"],
            Fate.HIT, Level.SUSPICIOUS, "schema", "has a column `extra`",
        ),
        (["DROP TABLE kern_db"], Fate.FATAL, Level.FATAL, "schema", "without the table"),
        (PERF_DB, Fate.FATAL, Level.FATAL, "schema", "a performance database"),
        (VIEW, Fate.HIT, Level.SUSPICIOUS, "not-checked", "is a view"),
        (["DELETE FROM kern_db"], Fate.HIT, Level.NEVER_HITS, "empty", "no records"),
        (["DROP INDEX idx_kern_db"], Fate.HIT, Level.SUSPICIOUS, "index", "no index"),
        (
            ["CREATE TRIGGER t AFTER INSERT ON kern_db BEGIN SELECT 1; END"],
            Fate.HIT, Level.SUSPICIOUS, "schema", "1 triggers",
        ),
    ],
)  # fmt: skip
def test_schema(
    kdb: Path, statements: list[str], fate: Fate, level: Level, check: str, words: str
) -> None:
    change(kdb, *statements)
    report = run(kdb)
    assert (report.fate, said(report)) == (fate, [(level, check)])
    assert words in report.findings[0].message


def test_computed_columns_are_not_run(tmp_path: Path) -> None:
    table = CREATE_TABLE.replace(
        "`kernel_blob` BLOB NOT NULL", "`kernel_blob` BLOB AS (zeroblob(1000000000))"
    )
    change(tmp_path / "a.kdb", table, CREATE_INDEX)
    assert said(run(tmp_path / "a.kdb")) == [(Level.SUSPICIOUS, "not-checked")]


def test_wal_mode(kdb: Path) -> None:
    change(kdb, "PRAGMA journal_mode=WAL")
    before = kdb.read_bytes()
    report = run(kdb)
    assert said(report) == [(Level.FATAL, "journal")]
    # Here we may write, and so SQLite gets at it.
    assert (report.fate, report.sound) == (Fate.HIT, 1)
    assert kdb.read_bytes() == before
    assert list(kdb.parent.iterdir()) == [kdb]
    user = kdb.with_suffix(".ukdb")
    kdb.rename(user)
    assert run(user).findings == ()


def left_by_a_killed_process(kdb: Path, statement: str) -> None:
    """Change a database within its log, and die."""
    code = (
        "import sqlite3, os, sys; db = sqlite3.connect(sys.argv[1], isolation_level=None);"
        " db.execute('PRAGMA journal_mode=WAL'); db.execute(sys.argv[2]); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, kdb, statement], check=True)


def test_records_are_read_with_their_log(kdb: Path) -> None:
    user = kdb.with_suffix(".ukdb")
    kdb.rename(user)
    left_by_a_killed_process(user, f"UPDATE kern_db SET kernel_hash = '{'0' * 32}'")
    before = {path: path.read_bytes() for path in user.parent.iterdir()}
    assert len(before) == 3
    assert said(run(user)) == [(Level.FATAL, "md5")]
    assert {path: path.read_bytes() for path in user.parent.iterdir()} == before


@pytest.mark.parametrize(
    ("suffix", "content", "expected"),
    [
        ("-journal", b"x" * 600, [(Level.FATAL, "journal")]),
        ("-journal", bytes(600), []),
        ("-journal", b"", []),
        ("-wal", b"", [(Level.NOTE, "journal")]),
        ("-wal", b"x" * 5000, [(Level.FATAL, "journal")]),
        ("-shm", bytes(32768), [(Level.NOTE, "journal")]),
    ],
)
def test_side_files(
    kdb: Path, suffix: str, content: bytes, expected: list[tuple[Level, str]]
) -> None:
    kdb.with_name(kdb.name + suffix).write_bytes(content)
    assert said(run(kdb)) == expected
    assert kdb.with_name(kdb.name + suffix).read_bytes() == content


def test_a_link_is_followed_to_the_side_files(kdb: Path, tmp_path: Path) -> None:
    folder = tmp_path / "real"
    folder.mkdir()
    shutil.move(kdb, folder / "x.kdb")
    kdb.symlink_to(folder / "x.kdb")
    (folder / "x.kdb-journal").write_bytes(b"x" * 600)
    assert said(run(kdb)) == [(Level.FATAL, "journal")]


def test_odd_names(kdb: Path) -> None:
    odd = kdb.with_name("50% of #2?mode=rwc&x=.kdb")
    kdb.rename(odd)
    assert run(odd).findings == ()
    assert stat.S_ISREG(odd.stat().st_mode)
