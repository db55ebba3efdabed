"""Kernel databases built of fuzzed rows and schemas; what MIOpen makes of each row is known."""

from __future__ import annotations

import bz2
import functools
import hashlib
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from fuzz.fields import Fields
from fuzz.scratch import empty_folder
from fuzz.targets import bundle, kdb
from kdbforge.codeobject.bundle import BundleEntry
from kdbforge.kdb.schema import CREATE_INDEX, CREATE_TABLE
from kdbforge.kdb.verify_report import Fate

_OBJECTS = Path(__file__).parents[2] / "unit" / "data"
_COLUMNS = "id, kernel_name, kernel_args, kernel_blob, kernel_hash, uncompressed_size"
#: Schemas: MIOpen's own is the first, and likeliest.
_SCHEMAS = (
    *((CREATE_TABLE, CREATE_INDEX),) * 6,
    (CREATE_TABLE,),
    (CREATE_TABLE, "CREATE INDEX i ON kern_db(kernel_name, kernel_args)"),
    (CREATE_TABLE, "CREATE INDEX i ON kern_db(kernel_name) WHERE id > 1"),
    (CREATE_TABLE, CREATE_INDEX, "ALTER TABLE kern_db ADD COLUMN extra TEXT DEFAULT 'x'"),
    (CREATE_TABLE, CREATE_INDEX, "CREATE TRIGGER t AFTER UPDATE ON kern_db BEGIN SELECT 1; END"),
    ("CREATE TABLE kern_db(id INTEGER PRIMARY KEY, kernel_name, kernel_args, kernel_blob, "
     "kernel_hash, uncompressed_size)",),
    ("CREATE TABLE KERN_DB(id INTEGER PRIMARY KEY, Kernel_Name TEXT COLLATE NOCASE, kernel_args "
     "TEXT, kernel_blob BLOB, kernel_hash TEXT, uncompressed_size INT)",),
    ("CREATE TABLE kern_db(id TEXT PRIMARY KEY, kernel_name TEXT, kernel_args TEXT, kernel_blob "
     "BLOB, kernel_hash TEXT, uncompressed_size TEXT) WITHOUT ROWID",),
    ("CREATE TABLE t(id INTEGER PRIMARY KEY, kernel_name TEXT, kernel_args TEXT, kernel_blob BLOB, "
     "kernel_hash TEXT, uncompressed_size INT)", "CREATE VIEW kern_db AS SELECT * FROM t"),
    ("CREATE TABLE kern_db(id INTEGER PRIMARY KEY, kernel_name TEXT, kernel_args TEXT, kernel_blob "
     "BLOB, kernel_hash TEXT, uncompressed_size INT AS (5))",),
    ("CREATE VIRTUAL TABLE kern_db USING fts5(id, kernel_name, kernel_args, kernel_blob, "
     "kernel_hash, uncompressed_size)",),
    ("CREATE TABLE kern_db(id INTEGER PRIMARY KEY, kernel_name TEXT, kernel_args TEXT, kernel_blob "
     "BLOB, kernel_hash TEXT)",),
    ("CREATE TABLE perf_db(id INTEGER)", "CREATE TABLE config(id INTEGER)"),
)  # fmt: skip
_NAMES = ("a.cl.o", "b.cpp.o", "c.s.o", "d.mlir.o", "e.cl", "", "it's.o", "f\0.o", "../g.o")
_ARGS = (
    *(" -DX=1 -mcpu=gfx1030", " -mcpu=gfx90a", " -mcpu=gfx1030 -O3", " -mcpu=gfx1030:xnack-"),
    *("-mcpu=gfx1030", "", " -mcpu=", " -DY='1' -mcpu=gfx1030", " -mcpu=gfx1030 -mcpu=gfx90a"),
)
_SIZES = (-1, 1, 1 << 31, 1 << 32, (64 << 20) + 1, -(1 << 63), (1 << 63) - 1, 0.5, "7", None, b"7")


@dataclass(frozen=True, slots=True)
class Row:
    """A row as it goes into the table."""

    name: object
    args: object
    blob: object
    digest: object
    size: object


def target(data: bytes) -> None:
    fields = Fields(data)
    path = empty_folder() / fields.choice(("gfx1030_40.kdb", "gfx1030.kdb", "my.kdb", "gfx90a.kdb"))
    schema = fields.choice(_SCHEMAS)
    rows = [_row(fields) for _ in range(fields.byte() % 6)]
    stored = _build(path, fields, schema, rows)
    if len(list(path.parent.iterdir())) > 1:
        return
    report = kdb.check(path)
    if schema is _SCHEMAS[0] and report.fate is Fate.HIT:
        hits = [_hits(row) for row in stored]
        least, most = hits.count(True), len(hits) - hits.count(False)
        assert report.records == len(stored)
        assert least <= report.sound <= most, f"{report.sound} are sound, not {least} to {most}"


def _row(fields: Fields) -> Row:
    blob, code = _blob(fields)
    size = fields.choice((len(code), 0, len(code) + 1, None))
    if size is None:
        size = fields.choice(_SIZES)
    digest: object = hashlib.md5(code, usedforsecurity=False).hexdigest()
    digest = fields.choice((*[digest] * 6, str(digest).upper(), "", "0" * 32, None, b"x", 7))
    name = fields.choice((*_NAMES[:4], *_NAMES, fields.text(), 5, b"h.o"))
    args = fields.choice((*_ARGS[:1] * 6, *_ARGS, fields.text(), None))
    return Row(name, args, blob, digest, size)


def _blob(fields: Fields) -> tuple[object, bytes]:
    """What is stored, and what it was packed from."""
    code = fields.choice(_objects())
    if fields.byte() % 4 == 0 and code:
        flipped = bytearray(code)
        flipped[int.from_bytes(fields.bytes(2), "little") % len(code)] ^= fields.byte()
        code = bytes(flipped)
    packed = _pack(code)
    what = fields.byte() % 12
    if what < 5:
        return packed, code
    if what < 7:
        return code, code
    odd = (
        packed[: fields.byte() * 8],
        packed + fields.blob(),
        fields.blob(),
        fields.text(),
        fields.choice((None, 5, 0.5)),
    )
    return odd[what - 7], code


@functools.lru_cache(512)
def _pack(code: bytes) -> bytes:
    return bz2.compress(code, 9)


@functools.cache
def _objects() -> tuple[bytes, ...]:
    """Code objects of two GPUs, a bundle, nothing, and what unpacks to much more."""
    navi = (_OBJECTS / "scale_gfx1030.co").read_bytes()
    cdna = (_OBJECTS / "scale_gfx90a_xnack+.co").read_bytes()
    entries = (
        BundleEntry("hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+", None, cdna),
        BundleEntry("hipv4-amdgcn-amd-amdhsa--gfx1030", None, navi),
    )
    both = bundle.plain(entries)
    return navi, navi, navi, cdna, both, bundle.compressed(both, 2, 1), b"", bytes(200_000)


def _build(path: Path, fields: Fields, schema: tuple[str, ...], rows: list[Row]) -> list[Row]:
    """Write the file; the rows that SQLite took."""
    stored = []
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous=OFF")
        db.execute(f"PRAGMA page_size={fields.choice((512, 4096, 65536))}")
        db.execute(f"PRAGMA encoding='{fields.choice(('UTF-8', 'UTF-8', 'UTF-16le'))}'")
        db.execute(f"PRAGMA journal_mode={fields.choice(('OFF', 'OFF', 'OFF', 'WAL'))}")
        for statement in schema:
            db.execute(statement)
        for number, row in enumerate(rows, 1):
            values = (row.name, row.args, row.blob, row.digest, row.size)
            with suppress(sqlite3.Error, OverflowError):
                query = f"INSERT INTO kern_db({_COLUMNS}) VALUES(?, ?, ?, ?, ?, ?)"
                db.execute(query, (number, *values))
                stored.append(row)
    return stored


def _hits(row: Row) -> bool | None:
    """Whether MIOpen finds the row, and its kernels load; None where a changed object decides.

    Another model than `verify`'s, by what went into this file.
    """
    name, args = _stored_text(row.name), _stored_text(row.args)
    if name is None or args is None or not name.endswith(".o") or set("'\0") & {*name, *args}:
        return False
    wanted = args.rpartition(" -mcpu=")[2] if " -mcpu=" in args else ""
    if not name.endswith(".mlir.o") and (wanted.split() != [wanted] or ":" in wanted):
        return False
    code = _unpacked(row)
    if not code:
        return False
    arch = (wanted.split() or [""])[0].partition(":")[0]
    navi, cdna, both, packed = (_objects()[index] for index in (0, 3, 4, 5))
    known = {navi: ("gfx1030",), cdna: ("gfx90a",)}
    known |= dict.fromkeys((both, packed), ("gfx1030", "gfx90a"))
    if code not in known:
        return None
    return not arch or arch in known[code]


def _stored_text(value: object) -> str | None:
    """What a TEXT column makes of a value."""
    return str(value) if isinstance(value, (str, int)) else None


def _unpacked(row: Row) -> bytes | None:
    size = 7 if row.size == "7" else row.size
    blob = row.blob.encode() if isinstance(row.blob, str) else row.blob
    if not isinstance(size, int) or not isinstance(blob, bytes):
        return None
    code = blob
    if size:
        engine = bz2.BZ2Decompressor()
        try:
            code = engine.decompress(blob)
        except (OSError, ValueError):
            return None
        if not engine.eof or len(code) > size % (1 << 32):
            return None
    found = hashlib.md5(code, usedforsecurity=False).hexdigest()
    return code if found == row.digest else None
