"""Databases for the tests of merge, diff, prune and split: real objects, and what is wrong."""

from __future__ import annotations

import hashlib
import sqlite3
import struct
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from kdbforge.kdb.reader import read_kdb
from kdbforge.kdb.record import Record
from kdbforge.kdb.schema import CREATE_TABLE

__all__ = [
    "CDNA",
    "NAVI",
    "digest",
    "edit",
    "for_target",
    "plain_database",
    "record",
    "records_of",
    "repacked",
    "wal_database",
]

_DATA = Path(__file__).parent / "data"
NAVI = (_DATA / "scale_gfx1030.co").read_bytes()
CDNA = (_DATA / "scale_gfx90a_xnack+.co").read_bytes()
#: EF_AMDGPU_MACH_AMDGCN_* and the settings, LLVM AMDGPU usage guide.
_MACHS = {"gfx1030": 0x36, "gfx1031": 0x37, "gfx90a": 0x3F}
_SETTINGS = {None: 1, False: 2, True: 3}


def for_target(
    arch: str, xnack: bool | None = None, sramecc: bool | None = None, variant: int = 0
) -> bytes:
    """An object whose e_flags say so; objects of other variants have other bytes."""
    data = bytearray(NAVI if arch.startswith("gfx10") else CDNA)
    flags = _MACHS[arch]
    if arch == "gfx90a":
        flags |= _SETTINGS[xnack] << 8 | _SETTINGS[sramecc] << 10
    struct.pack_into("<I", data, 48, flags)
    return bytes(data) + bytes([variant]) * (variant > 0)


def record(name: str = "a.cl", number: int = 0, arch: str = "gfx1030", **options: object) -> Record:
    """A record with a key as MIOpen makes it."""
    return Record.pack(
        f"{name}.o",
        f" -DN={number} -mcpu={arch}",
        for_target(arch, **options),  # type: ignore[arg-type]
    )


def repacked(one: Record) -> Record:
    """The same object, stored plain."""
    return Record(one.kernel_name, one.kernel_args, one.unpack(), one.kernel_hash, 0)


def edit(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(statement, values)


def plain_database(path: Path, rows: Iterable[Record | tuple[object, ...]]) -> Path:
    """A database without the unique index and without checks, as a stranger may have made it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(CREATE_TABLE)
        for row in rows:
            _insert(db, row)
    return path


def _insert(db: sqlite3.Connection, row: Record | tuple[object, ...]) -> None:
    values = (
        (row.kernel_name, row.kernel_args, row.kernel_blob, row.kernel_hash, row.uncompressed_size)
        if isinstance(row, Record)
        else row
    )
    db.execute(
        "INSERT INTO kern_db(kernel_name, kernel_args, kernel_blob, kernel_hash, uncompressed_size)"
        " VALUES(?, ?, ?, ?, ?)",
        values,
    )


def wal_database(path: Path, rows: Iterable[Record]) -> sqlite3.Connection:
    """A user database as a running MIOpen has it, with content in the log; keep it open."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA wal_autocheckpoint=0")
    db.execute(CREATE_TABLE)
    for row in rows:
        _insert(db, row)
    return db


def records_of(path: Path) -> list[Record]:
    return list(read_kdb(path))


def digest(folder: Path) -> dict[str, str]:
    """What is in a folder, to show that nothing changed."""
    return {
        entry.name: hashlib.sha256(entry.read_bytes()).hexdigest()
        for entry in folder.iterdir()
        if entry.is_file()
    }
