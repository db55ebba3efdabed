"""Looks into kernel databases of any origin without changing or fully reading them.

Neither checks a file as a whole nor unpacks what was not asked for; `verify` does that.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import quote

from kdbforge.codeobject.bundle import device_objects
from kdbforge.codeobject.elf import CodeObject, read_object
from kdbforge.errors import DatabaseError, InputError, KdbforgeError
from kdbforge.files import host_errors, scratch_folder
from kdbforge.kdb.reader import (
    check_start,
    check_table,
    database_errors,
    record_of,
    restrict,
)
from kdbforge.kdb.record import Record

__all__ = [
    "Entry",
    "FileFacts",
    "Filter",
    "Kdb",
    "Option",
    "Part",
    "Summary",
    "open_database",
    "open_kdb",
    "parse_options",
    "summarize",
]

_SIDE_FILES = ("-wal", "-shm", "-journal")
#: Objects that a summary unpacks, to say what they were really compiled for.
_SAMPLES = 8
# The blob's length stands at the start of a row, but size and hash behind it: SQLite has to walk
# through all pages of the blob to get them.
_BRIEF = "id, kernel_name, kernel_args, typeof(kernel_blob), length(kernel_blob)"
_FULL = f"{_BRIEF}, kernel_hash, uncompressed_size"
#: MIOpen puts -mcpu last; for a summary the rest need not be read, kilobytes in each record.
_TOTALS = _FULL.replace("kernel_args", "substr(kernel_args, -100)")
_RECORD = "kernel_name, kernel_args, kernel_blob, kernel_hash, uncompressed_size"
_ORDERS = {"id": "id", "name": "kernel_name, kernel_args", "size": "length(kernel_blob) DESC, id"}
_OPTION = re.compile(r"-D\s*(?P<macro>[^\s=]+)(?:=(?P<value>\S*))?|(?P<flag>-[^\s=]+)=(?P<of>\S*)")
_WORDS = re.compile(r"-D\s+\S+|\S+")
T = TypeVar("T", int, str)


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What can be said of a file without its records."""

    path: Path
    size: int
    page_size: int
    journal_mode: str  # "delete" (any rollback mode) or "wal"
    side_files: tuple[str, ...]  # names of files that SQLite left beside it
    sqlite_version: str  # of the library that wrote it last


@dataclass(frozen=True, slots=True)
class Filter:
    """Which records are meant; an empty filter means all."""

    kernels: tuple[str, ...] = ()  # glob patterns, one of which must fit; `.o` may be left out
    args: tuple[str, ...] = ()  # texts that must all stand in kernel_args
    id: int | None = None


class Entry(NamedTuple):  # a database has tens of thousands, and tuples are made quickest
    """A record without its blob."""

    id: int
    kernel_name: str
    kernel_args: str
    stored_size: int
    kernel_hash: str | None  # None: not asked for
    uncompressed_size: int | None

    @property
    def object_size(self) -> int | None:
        """Bytes of its code object; None if that was not asked for."""
        return self.uncompressed_size if self.uncompressed_size != 0 else self.stored_size


@dataclass(frozen=True, slots=True)
class Option:
    """One build option, taken apart."""

    kind: str  # "macro" or "option"
    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class Part:
    """How many records are of one kind, and the bytes that they take."""

    records: int
    stored_size: int


@dataclass(frozen=True, slots=True)
class Summary:
    """What is in a kernel database."""

    facts: FileFacts
    records: int
    kernel_files: int
    objects: int  # different code objects, by MD5
    stored_size: int
    object_size: int
    plain: int  # records that are not compressed
    languages: Mapping[str, Part]  # by the ending of the kernel file
    architectures: Mapping[str, Part]  # by -mcpu; "" where there is none
    sampled: int  # objects that were unpacked to fill the rest
    targets: Mapping[str, int]
    versions: Mapping[int, int]  # code object versions
    unreadable: int


class Kdb:
    """A kernel database that is open for reading."""

    def __init__(self, facts: FileFacts, db: sqlite3.Connection):
        self.facts = facts
        self._db = db

    def entries(
        self, wanted: Filter | None = None, *, order: str = "id", full: bool = False
    ) -> Iterator[Entry]:
        """Records by `id`, `name` or (largest stored first) `size`; blobs are not read.

        With `full` they have hash and size of the object, for which SQLite reads most of the file.

        Raises
        ------
        DatabaseError
            If the file is damaged, or a record has values of the wrong types.
        """
        return self._select(_FULL if full else _BRIEF, wanted or Filter(), order)

    def totals(self) -> Iterator[Entry]:
        """All records in full, but only with the last 100 characters of their options."""
        return self._select(_TOTALS, Filter(), "id")

    def _select(self, columns: str, wanted: Filter, order: str) -> Iterator[Entry]:
        where, values = _where(wanted)
        query = (
            f"SELECT {columns} FROM main.kern_db NOT INDEXED"  # noqa: S608
            f" WHERE {where} ORDER BY {_ORDERS[order]}"
        )
        with database_errors(self.facts.path):
            for row in self._db.execute(query, values):
                yield self._entry(row)

    def record(self, number: int) -> Record:
        """One whole record, by its id.

        Raises
        ------
        DatabaseError
            If there is none, or a field is out of range; its blob is not unpacked.
        """
        query = f"SELECT {_RECORD} FROM main.kern_db NOT INDEXED WHERE id = ?"  # noqa: S608
        with database_errors(self.facts.path):
            row = self._db.execute(query, (number,)).fetchone()
        if row is None:
            raise DatabaseError(f"`{self.facts.path}` has no record {number}")
        return record_of(self.facts.path, row)

    def _entry(self, row: tuple[object, ...]) -> Entry:
        if len(row) == 5:
            number, name, args, kind, stored = row
            digest = size = None
        else:
            number, name, args, kind, stored, digest, size = row
        if not (
            kind == "blob"
            and type(number) is int
            and type(name) is str
            and type(args) is str
            and type(stored) is int
            and (digest is None or type(digest) is str)
            and (size is None or type(size) is int)
        ):
            raise DatabaseError(f"`{self.facts.path}`: record {number} has values of wrong types")
        return Entry(number, name, args, stored, digest, size)


@contextmanager
def open_kdb(path: Path) -> Iterator[Kdb]:
    """Open a kernel database of any origin, WAL mode included, and never write to it.

    Where a write-ahead log has content, file and log are copied to a temporary folder first.

    Raises
    ------
    DatabaseError
        If it is something else (said what), cut off, or has not MIOpen's table.
    HostError
        If it cannot be read.
    """
    with open_database(path) as (facts, db):
        yield Kdb(facts, db)


@contextmanager
def open_database(path: Path) -> Iterator[tuple[FileFacts, sqlite3.Connection]]:
    """The connection below `open_kdb`, restricted and with MIOpen's table.

    Raises
    ------
    DatabaseError
        As for `open_kdb`.
    HostError
        Likewise.
    """
    # SQLite keeps the side files beside what a link leads to. (Path.resolve fails on a cycle.)
    real = Path(os.path.realpath(path))
    facts = _facts(path, real)
    log = real.with_name(real.name + "-wal")
    if facts.journal_mode == "wal" and log.exists() and log.stat().st_size:
        with scratch_folder() as folder:
            copy = folder / "copy.kdb"
            with host_errors(f"copy `{path}` and its log"):
                shutil.copyfile(real, copy)
                shutil.copyfile(log, copy.with_name(copy.name + "-wal"))
            with _connect(path, copy, "mode=rw") as db:
                yield facts, db
    else:
        with _connect(path, real, "mode=ro&immutable=1") as db:
            yield facts, db


def summarize(kdb: Kdb) -> Summary:
    """Count what is in a database; unpacks a few objects and reads no other blob.

    Raises
    ------
    DatabaseError
        If the file is damaged; not for an object that cannot be unpacked or read.
    """
    totals = _Totals()
    for entry in kdb.totals():
        totals.add(entry)
    step = -(-len(totals.ids) // _SAMPLES) or 1
    samples = [_sample(kdb, number) for number in totals.ids[::step]]
    found = [sample for sample in samples if sample is not None]
    return Summary(
        facts=kdb.facts,
        records=len(totals.ids),
        kernel_files=len(totals.names),
        objects=len(totals.hashes),
        stored_size=totals.stored_size,
        object_size=totals.object_size,
        plain=totals.plain,
        languages=totals.languages.sorted(),
        architectures=totals.architectures.sorted(),
        sampled=len(samples),
        targets=_counts(str(sample.target) for sample in found),
        versions=_counts(sample.version for sample in found),
        unreadable=len(samples) - len(found),
    )


def parse_options(kernel_args: str) -> tuple[Option, ...]:
    """Take build options apart, in their order; `-D NAME=1` is one, as for a compiler."""
    found = []
    for word in _WORDS.findall(kernel_args):
        match = _OPTION.fullmatch(word)
        if match is None:
            found.append(Option("option", word, None))
        elif match["macro"]:
            found.append(Option("macro", match["macro"], match["value"]))
        else:
            found.append(Option("option", match["flag"], match["of"]))
    return tuple(found)


class _Parts:
    """Sums up records by kind."""

    def __init__(self) -> None:
        self._records: Counter[str] = Counter()
        self._sizes: Counter[str] = Counter()

    def add(self, kind: str, size: int) -> None:
        self._records[kind] += 1
        self._sizes[kind] += size

    def sorted(self) -> dict[str, Part]:
        return {
            kind: Part(self._records[kind], self._sizes[kind]) for kind in sorted(self._records)
        }


class _Totals:
    """Sums up records without keeping them: their options alone can be a hundred megabytes."""

    def __init__(self) -> None:
        self.ids = array("q")
        self.names: set[str] = set()
        self.hashes: set[str | None] = set()
        self.stored_size = self.object_size = self.plain = 0
        self.languages, self.architectures = _Parts(), _Parts()

    def add(self, entry: Entry) -> None:
        self.ids.append(entry.id)
        self.names.add(entry.kernel_name)
        self.hashes.add(entry.kernel_hash)
        self.stored_size += entry.stored_size
        self.object_size += entry.object_size or 0
        self.plain += entry.uncompressed_size == 0
        self.languages.add(_language(entry.kernel_name), entry.stored_size)
        self.architectures.add(_mcpu(entry.kernel_args), entry.stored_size)


def _counts(values: Iterator[T]) -> dict[T, int]:
    return dict(sorted(Counter(values).items()))


def _facts(path: Path, real: Path) -> FileFacts:
    with host_errors(f"read `{path}`"), path.open("rb") as file:
        start = file.read(4096)
        size = os.fstat(file.fileno()).st_size
    check_start(path, start, size, wal=True)
    # https://sqlite.org/fileformat.html: page size at 16, versions at 18, SQLite's own at 96.
    page_size = int.from_bytes(start[16:18], "big")
    version = int.from_bytes(start[96:100], "big")
    return FileFacts(
        path=path,
        size=size,
        page_size=65536 if page_size == 1 else page_size,
        journal_mode="wal" if 2 in start[18:20] else "delete",
        side_files=tuple(
            real.name + end for end in _SIDE_FILES if real.with_name(real.name + end).exists()
        ),
        sqlite_version=f"{version // 1_000_000}.{version // 1000 % 1000}.{version % 1000}",
    )


@contextmanager
def _connect(named: Path, path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    uri = f"file:{quote(str(path.absolute()))}?{mode}"
    with database_errors(named):
        db = sqlite3.connect(uri, uri=True, isolation_level=None)
    with closing(db):
        with database_errors(named):
            restrict(db)
            check_table(named, db)
        yield db


def _where(wanted: Filter) -> tuple[str, list[str | int]]:
    """The condition in SQL, and its values."""
    terms = ["1"]
    values: list[str | int] = []
    if wanted.id is not None:
        if not 0 <= wanted.id < 1 << 63:
            raise InputError(f"`{wanted.id}` is no record number")
        terms.append("id = ?")
        values.append(wanted.id)
    if wanted.kernels:
        choice = " OR ".join(["kernel_name GLOB ?"] * (2 * len(wanted.kernels)))
        terms.append(f"({choice})")
        values += [form for glob in wanted.kernels for form in (glob, f"{glob}.o")]
    for text in wanted.args:
        terms.append("instr(kernel_args, ?)")
        values.append(text)
    return " AND ".join(terms), values


def _language(kernel_name: str) -> str:
    """Ending of the kernel file, which tells its language: `cl`, `cpp`, `s`, `mlir`."""
    stem, dot, ending = kernel_name.removesuffix(".o").rpartition(".")
    return ending if stem and dot else "other"


def _mcpu(kernel_args: str) -> str:
    _, found, value = kernel_args.rpartition("-mcpu=")
    return (value.split() or [""])[0] if found else ""


def _sample(kdb: Kdb, number: int) -> CodeObject | None:
    try:
        return read_object(device_objects(kdb.record(number).unpack())[0])
    except KdbforgeError:
        return None
