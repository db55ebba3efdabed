"""Writes kernel databases: whole files, the same bytes for the same records.

The bytes depend on the records and on the SQLite library: its version number stands in the file's
header (offset 96), and another version leaves other bytes in unused parts of pages (3.40 and 3.53
do). They do not depend on the order of the records, on time, place or process.
"""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import pairwise
from pathlib import Path

from kdbforge.errors import DatabaseError, HostError
from kdbforge.files import host_errors, sync_folder
from kdbforge.kdb.record import Record
from kdbforge.kdb.schema import CREATE_INDEX, CREATE_TABLE

__all__ = ["write_kdb", "write_sorted"]

_INSERT = (
    "INSERT INTO kern_db(id, kernel_name, kernel_args, kernel_blob, kernel_hash, uncompressed_size)"
    " VALUES(?, ?, ?, ?, ?, ?)"
)


def write_kdb(path: Path, records: Iterable[Record]) -> int:
    """Write a kernel database that MIOpen can use as system kdb; returns the number of records.

    Records are sorted by key and numbered from 1. The journal mode is `delete`, since MIOpen
    aborts on a WAL file in a folder that the user cannot write. An existing file is replaced
    only when the new one is complete and on the disk.

    Raises
    ------
    DatabaseError
        If two records have one key, or a record is damaged; MIOpen throws on a wrong MD5.
    HostError
        If the file cannot be written.
    """
    ordered = sorted(records, key=lambda record: record.key)
    _check(ordered)
    with _replacing(path) as temporary:
        return _fill(temporary, ordered)


def write_sorted(path: Path, records: Iterable[Record]) -> int:
    """Write the same file as `write_kdb` with one record in memory at a time.

    The records must come in the order of their keys, and the caller has unpacked each of them.
    Nothing is written when the iterator raises.

    Raises
    ------
    DatabaseError
        If a record does not come behind the one before it.
    HostError
        If the file cannot be written.
    """
    with _replacing(path) as temporary:
        return _fill(temporary, _ascending(records))


def _ascending(records: Iterable[Record]) -> Iterator[Record]:
    before: tuple[str, str] | None = None
    for record in records:
        if before is not None and record.key <= before:
            raise DatabaseError(
                f"Record `{record.kernel_name}` does not come behind `{before[0]}`",
                context=(f"options: {record.kernel_args}",),
            )
        before = record.key
        yield record


def _check(ordered: Sequence[Record]) -> None:
    for before, record in pairwise(ordered):
        if before.key == record.key:
            raise DatabaseError(
                f"Two records have the same key: `{record.kernel_name}`",
                context=(f"options: {record.kernel_args}",),
            )
    for record in ordered:
        record.unpack()


def _fill(path: Path, ordered: Iterable[Record]) -> int:
    # Neither journal nor fsync: on failure the file is thrown away, and it is synced as a whole.
    # Both leave no trace in the file, nor has it a freed page that could keep old content.
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA page_size=4096")
        db.execute("PRAGMA encoding='UTF-8'")
        db.execute("PRAGMA auto_vacuum=0")
        db.execute("PRAGMA journal_mode=OFF")
        db.execute("PRAGMA synchronous=OFF")
        db.execute("PRAGMA secure_delete=ON")
        db.execute("BEGIN EXCLUSIVE")
        db.execute(CREATE_TABLE)
        db.execute(CREATE_INDEX)
        written = db.executemany(_INSERT, _rows(ordered)).rowcount
        db.execute("COMMIT")
    return max(written, 0)  # -1 for none at all


def _rows(ordered: Iterable[Record]) -> Iterator[tuple[object, ...]]:
    for number, record in enumerate(ordered, 1):
        yield (
            number,
            record.kernel_name,
            record.kernel_args,
            record.kernel_blob,
            record.kernel_hash,
            record.uncompressed_size,
        )


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A new empty file beside `path`, by its name because SQLite wants one."""
    with host_errors(f"write `{path}`"):
        temporary = path.parent / f".{path.name}.{uuid.uuid4().hex}.tmp"
        try:
            # Made here for the permissions: SQLite would make it 0644 whatever the umask says.
            os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
            try:
                yield temporary
            except sqlite3.Error as error:
                raise HostError(
                    f"Cannot write `{path}`: {error}", hint="is the disk full?"
                ) from error
            _sync(temporary)
            temporary.replace(path)
        finally:
            with suppress(FileNotFoundError):
                temporary.unlink()
        sync_folder(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
