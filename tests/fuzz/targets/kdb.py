"""Kernel databases from anybody: the strict reader, `verify`, `info`, and the reader of `merge`."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

from fuzz.scratch import empty_folder
from kdbforge.codeobject.bundle import device_objects
from kdbforge.codeobject.elf import read_object
from kdbforge.errors import DatabaseError, KdbforgeError
from kdbforge.kdb.inspect import open_kdb, summarize
from kdbforge.kdb.reader import read_kdb
from kdbforge.kdb.record import Record
from kdbforge.kdb.source import open_source, record_target
from kdbforge.kdb.verify import verify_kdb
from kdbforge.kdb.verify_report import Fate, Level, Report
from kdbforge.kdb.writer import write_kdb

TOKENS = (b"SQLite format 3\0", b"kern_db", b"CREATE VIEW", b"CREATE TRIGGER", b"BZh9")
_STATEMENTS = (
    "UPDATE kern_db SET kernel_hash = upper(kernel_hash)",
    "UPDATE kern_db SET uncompressed_size = uncompressed_size + 1",
    "UPDATE kern_db SET uncompressed_size = 0",
    "UPDATE kern_db SET uncompressed_size = 4294967296 + uncompressed_size",
    "UPDATE kern_db SET uncompressed_size = -1",
    "UPDATE kern_db SET kernel_blob = zeroblob(1000)",
    "UPDATE kern_db SET kernel_blob = CAST(kernel_blob AS TEXT)",
    "UPDATE kern_db SET kernel_blob = substr(kernel_blob, 1, length(kernel_blob) / 2)",
    "UPDATE kern_db SET kernel_name = kernel_name || char(39)",
    "UPDATE kern_db SET kernel_name = CAST(x'ff00' AS TEXT)",
    "UPDATE kern_db SET kernel_args = 5",
    "UPDATE kern_db SET id = -id",
    "INSERT INTO kern_db SELECT max(id) + 1, kernel_name || 1, kernel_args, kernel_blob, "
    "kernel_hash, uncompressed_size FROM kern_db",
    "DELETE FROM kern_db",
    "ALTER TABLE kern_db ADD COLUMN extra",
    "ALTER TABLE kern_db RENAME COLUMN kernel_hash TO hash",
    "ALTER TABLE kern_db RENAME TO other",
    "DROP INDEX idx_kern_db",
    "CREATE VIEW other AS SELECT * FROM kern_db",
    "CREATE TRIGGER other BEFORE DELETE ON kern_db BEGIN SELECT 1; END",
    "UPDATE sqlite_master SET rootpage = rootpage + 1",
    "UPDATE sqlite_master SET sql = replace(sql, 'INT', 'TEXT')",
    "UPDATE sqlite_master SET sql = replace(sql, 'TABLE', 'VIEW')",
    "UPDATE sqlite_master SET type = 'view'",
    "UPDATE sqlite_master SET sql = replace(sql, 'NOT NULL', 'COLLATE NOCASE')",
)


def target(data: bytes) -> None:
    path = empty_folder() / "gfx1030_40.kdb"
    path.write_bytes(data)
    check(path)
    assert path.read_bytes() == data
    assert len(list(path.parent.iterdir())) == 1, "something was left beside the file"


def check(path: Path) -> Report:
    """Read a file in every way, and compare what they say of it."""
    report = verify_kdb(path)
    records = strict_records(path)
    if records is None:
        assert report.failing(strict=True), "verify finds nothing in what the reader refuses"
    else:
        assert report.fate is Fate.HIT
        assert report.records == len(records)
        if all(_loads(record) for record in records) and len(records) > 0:
            _check_sound(path, report, records)
    _check_inspect(path, records)
    _check_source(path, report)
    return report


def strict_records(path: Path) -> list[Record] | None:
    """The records of a file that is acceptable in all parts; None for any other."""
    try:
        records = list(read_kdb(path))
        for record in records:
            record.unpack()
    except DatabaseError:
        return None
    return records


def _loads(record: Record) -> bool:
    try:
        return all(read_object(part) for part in device_objects(record.unpack()))
    except KdbforgeError:
        return False


def _check_sound(path: Path, report: Report, records: list[Record]) -> None:
    """What is in order gives a database with the same records."""
    copy = path.with_name("copy.kdb")
    assert write_kdb(copy, records) == len(records)
    again = strict_records(copy)
    assert again == sorted(records, key=lambda record: record.key)
    assert verify_kdb(copy).sound <= len(records)
    copy.unlink()
    assert not {"md5", "bzip2", "size", "type"} & {check for _, check in report.counts}


def _check_inspect(path: Path, records: list[Record] | None) -> None:
    try:
        with open_kdb(path) as kdb:
            summary = summarize(kdb)
            entries = list(kdb.entries(order="name", full=True))
            assert summary.records == len(entries)
            for entry in entries[:4]:
                try:
                    record = kdb.record(entry.id)
                except DatabaseError:
                    continue
                assert record.key == (entry.kernel_name, entry.kernel_args)
    except DatabaseError:
        assert records is None, "info refuses what the reader accepts"


def _check_source(path: Path, report: Report) -> None:
    """`merge` takes no record whose packing `verify` calls fatal."""
    fatal = {
        finding.record
        for finding in report.findings
        if finding.level is Level.FATAL and finding.check in {"md5", "bzip2", "size", "type"}
    }
    seen: Counter[int] = Counter()
    try:
        with open_source(path) as source:
            for row in source.rows():
                seen[row.number] += 1
                record = source.record(row)
                if record is None or not _targets(record):
                    continue
                assert row.number not in fatal, "merge takes what verify calls fatal"
    except DatabaseError:
        return
    assert max(seen.values(), default=1) == 1


def _targets(record: Record) -> bool:
    try:
        record_target(record)
    except KdbforgeError:
        return False
    return True


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Let SQLite change the file, or change bytes and mend the header around them."""
    if rng.random() < 0.5:
        return _by_sqlite(data, rng)
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        if out:
            out[rng.randrange(len(out))] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
    return mended(bytes(out))


def mended(data: bytes) -> bytes:
    """The same bytes with a header that promises as many pages as there are."""
    if len(data) < 512:
        return data
    out = bytearray(data)
    out[:16] = b"SQLite format 3\0"
    page = int.from_bytes(out[16:18], "big")
    if page not in (512, 1024, 2048, 4096):
        page = 512
    out[16:18] = page.to_bytes(2, "big")
    out += bytes(-len(out) % page)
    out[28:32] = (len(out) // page).to_bytes(4, "big")
    out[92:96] = out[24:28]  # else SQLite counts pages itself
    return bytes(out)


def _by_sqlite(data: bytes, rng: random.Random) -> bytes:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.deserialize(data)
        db.execute("PRAGMA journal_mode=MEMORY")
        db.execute("PRAGMA writable_schema=ON")
        for _ in range(rng.randint(1, 2)):
            statement = rng.choice(_STATEMENTS)
            some = " WHERE id % 2" if rng.random() < 0.3 else ""
            db.execute(statement + some * statement.startswith("UPDATE kern_db"))
        return db.serialize()
