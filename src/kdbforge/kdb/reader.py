"""Reads kernel databases: foreign ones, which are hostile, and those of our own children.

Opens files read-only and runs no SQL that a file brings along.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from kdbforge.codeobject.elf import MAX_OBJECT_BYTES
from kdbforge.errors import DatabaseError
from kdbforge.files import host_errors
from kdbforge.kdb.record import MAX_KEY_BYTES, Record
from kdbforge.kdb.schema import COLUMNS, TABLE

__all__ = [
    "check_start",
    "check_table",
    "database_errors",
    "quick_check",
    "read_kdb",
    "read_ukdb_rows",
    "record_of",
    "restrict",
]

_MAGIC = b"SQLite format 3\0"
#: MIOpen takes a smaller system file for invalid (src/sqlite_db.cpp, CreateFileDb).
_MIN_BYTES = 512
#: One row: the blob, the key, and some room.
_MAX_ROW_BYTES = MAX_OBJECT_BYTES + 3 * MAX_KEY_BYTES
_SELECT = (
    "SELECT kernel_name, kernel_args, kernel_blob, kernel_hash, uncompressed_size"
    " FROM main.kern_db NOT INDEXED ORDER BY id"
)


def read_kdb(path: Path) -> Iterator[Record]:
    """Read a system kdb from anywhere; its records in the order of their ids.

    The file is checked before the first record is handed out: SQLite's quick_check, and exactly
    MIOpen's table. Each record's fields are in range and its key is unique; its blob is not
    unpacked (`Record.unpack` does that, with a limit).

    Raises
    ------
    DatabaseError
        If the file is something else (said what), damaged, or in WAL mode.
    HostError
        If it cannot be read.
    """
    with host_errors(f"read `{path}`"), path.open("rb") as file:
        start = file.read(4096)
        check_start(path, start, os.fstat(file.fileno()).st_size)
    return _records(path, "mode=ro&immutable=1")


def read_ukdb_rows(path: Path) -> Iterator[Record]:
    """Read a user kdb that a process of ours has just written, in WAL mode with its side files.

    Not for foreign files. A writer that died is no obstacle: SQLite recovers what it committed.

    Raises
    ------
    DatabaseError
        If it is missing or not a kernel database.
    """
    if not path.is_file():
        raise DatabaseError(f"There is no user kernel database `{path}`")
    return _records(path, "mode=rw")


def _records(path: Path, mode: str) -> Iterator[Record]:
    """Check the file now, and hand its records out later."""
    uri = f"file:{quote(str(path.absolute()))}?{mode}"
    with database_errors(path):
        db = sqlite3.connect(uri, uri=True, isolation_level=None)
        try:
            restrict(db)
            check_table(path, db)
            quick_check(path, db)
        except BaseException:
            db.close()
            raise
    return _iterate(path, db)


def _iterate(path: Path, db: sqlite3.Connection) -> Iterator[Record]:
    keys: set[tuple[str, str]] = set()
    with closing(db), database_errors(path):
        for row in db.execute(_SELECT):
            record = record_of(path, row)
            if record.key in keys:
                raise DatabaseError(
                    f"`{path}` has two records with the key of `{record.kernel_name}`",
                    context=(f"options: {record.kernel_args}",),
                )
            keys.add(record.key)
            yield record


def record_of(path: Path, row: tuple[object, ...]) -> Record:
    """Make a record of a row's name, args, blob, hash and size, and check it.

    Raises
    ------
    DatabaseError
        If a value has the wrong type, or the record is not sound.
    """
    name, args, blob, digest, size = row
    # SQLite columns hold any type, whatever was declared.
    if not (
        isinstance(name, str)
        and isinstance(args, str)
        and isinstance(blob, bytes)
        and isinstance(digest, str)
        and isinstance(size, int)
    ):
        kinds = ", ".join(type(value).__name__ for value in row)
        raise DatabaseError(f"`{path}` has a record of the wrong types: {kinds}")
    record = Record(name, args, blob, digest, size)
    record.check()
    return record


def restrict(db: sqlite3.Connection) -> None:
    """Take from a connection what a hostile file could use: code in its schema, large values."""
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_ROW_BYTES)
    db.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    db.execute("PRAGMA trusted_schema=OFF")
    db.execute("PRAGMA cell_size_check=ON")
    db.execute("PRAGMA mmap_size=0")


def check_table(path: Path, db: sqlite3.Connection) -> None:
    """Check that `kern_db` is a real table with MIOpen's columns and no other."""
    rows = db.execute("SELECT type, rootpage, lower(name) FROM sqlite_master").fetchall()
    found = [(kind, root) for kind, root, name in rows if name == TABLE]
    if not found:
        raise DatabaseError(f"`{path}` has no `{TABLE}` table{_what_else(rows)}")
    # A virtual table is a "table" without pages of its own.
    if len(found) != 1 or found[0][0] != "table" or not found[0][1]:
        kinds = ", ".join(kind for kind, root in found)
        raise DatabaseError(f"`{TABLE}` in `{path}` is not a plain table ({kinds})")
    columns = [
        (name, kind.upper(), notnull, key) if not hidden else (name, "generated", notnull, key)
        for _, name, kind, notnull, _, key, hidden in db.execute(f"PRAGMA table_xinfo({TABLE})")
    ]
    if tuple(columns) != COLUMNS:
        wanted, has = (", ".join(column[0] for column in part) for part in (COLUMNS, columns))
        raise DatabaseError(
            f"`{TABLE}` in `{path}` does not have MIOpen's columns: {has}",
            hint=f"they are, in this order and with their types: {wanted}",
        )


def _what_else(rows: list[tuple[str, int, str]]) -> str:
    tables = sorted(name for kind, _, name in rows if kind == "table")
    if "perf_db" in tables:
        return ": it is a performance database"
    return f"; its tables are: {', '.join(tables)[:200]}" if tables else ""


def quick_check(path: Path, db: sqlite3.Connection) -> None:
    """Check that all pages of the file hold together."""
    (verdict,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise DatabaseError(f"`{path}` is damaged: {str(verdict).splitlines()[-1]}")


@contextmanager
def database_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors in the block into `DatabaseError`."""
    try:
        yield
    # sqlite3 decodes names and messages too, and those may quote the damaged file.
    except (sqlite3.Error, UnicodeError) as error:
        raise DatabaseError(f"`{path}` cannot be read: {error}") from error


def check_start(path: Path, start: bytes, size: int, *, wal: bool = False) -> None:
    """Name what people really have in place of a kdb, before SQLite calls it "not a database".

    With `wal` a file in WAL mode is accepted.
    """
    text = start.lstrip().lower()
    if start.startswith(b"version https://git-lfs"):
        raise DatabaseError(
            f"`{path}` is a Git LFS pointer, not the file itself", hint="fetch it: git lfs pull"
        )
    if text.startswith((b"<!doctype", b"<html", b"<?xml")):
        raise DatabaseError(f"`{path}` is a web page, not a kernel database: a download went wrong")
    if start.startswith(b"BZh"):
        raise DatabaseError(f"`{path}` is compressed", hint="unpack it first: bunzip2")
    if size < _MIN_BYTES:
        raise DatabaseError(f"`{path}` has {size} bytes; MIOpen ignores files under {_MIN_BYTES}")
    if not start.startswith(_MAGIC):
        raise DatabaseError(f"`{path}` is not an SQLite file: it starts with `{start[:16].hex()}`")
    _check_header(path, start, size, wal=wal)


def _check_header(path: Path, start: bytes, size: int, *, wal: bool) -> None:
    # https://sqlite.org/fileformat.html: page size at 16, write and read version at 18 and 19.
    if 2 in start[18:20] and not wal:
        raise DatabaseError(
            f"`{path}` is in WAL mode, which MIOpen cannot read in a folder that it may not write",
            hint="change it: sqlite3 FILE 'PRAGMA journal_mode=delete'",
        )
    page = int.from_bytes(start[16:18], "big")
    page = 65536 if page == 1 else page
    pages = int.from_bytes(start[28:32], "big")
    if page < 512 or size % page or size // page < pages:
        raise DatabaseError(
            f"`{path}` is cut off: it has {size} bytes, and its header says {pages * page}"
        )
    real = Path(os.path.realpath(path))  # as SQLite does
    journal = real.with_name(real.name + "-journal")
    if journal.exists() and journal.stat().st_size:
        raise DatabaseError(f"`{path}` was left half-written: there is a `{journal.name}`")
