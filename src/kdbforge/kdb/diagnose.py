"""Opens a file as MIOpen opens a kernel database, and says which step fails and what it really is.

Writes nothing, neither to the file nor beside it; records are `verify`'s.

Steps of src/binary_cache.cpp (GetDb), src/sqlite_db.cpp (CreateFileDb), src/kern_db.cpp and
kern_db.hpp (FindRecordUnsafe). A table without MIOpen's columns is said to be disabled, and looked
up all the same: runs of the real library (7.2.4) then fail with SQLite's error.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from array import array
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from kdbforge.errors import DatabaseError
from kdbforge.files import host_errors, scratch_folder
from kdbforge.kdb.reader import database_errors, restrict
from kdbforge.kdb.schema import COLUMNS, TABLE
from kdbforge.kdb.verify_kind import WAL, FileKind, file_kind
from kdbforge.kdb.verify_report import Fate, Finding, Level, Step

__all__ = ["Diagnosis", "connect", "diagnose"]

#: MIOpen takes a smaller system file for invalid.
_MIN_BYTES = 512
_NO_FILE = FileKind("no file")
_NEEDED = tuple(name for name, _, _, _ in COLUMNS if name != "id")
_MAX_COMPLAINTS = 20


@dataclass(slots=True)
class Diagnosis:
    """What became of opening one file."""

    path: Path
    kind: FileKind = _NO_FILE
    fate: Fate = Fate.HIT
    readable: bool = True
    steps: list[Step] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    database: Path | None = None  # what is to be read for the file; None: it has no such table
    rows: array[int] = field(default_factory=lambda: array("q"))  # ids of its records
    indexed: bool = False  # the index by which MIOpen looks up is there

    @property
    def system(self) -> bool:
        """Whether MIOpen opens it as a system database; `.ukdb` is a user's, and written to."""
        return self.path.suffix != ".ukdb"

    def passed(self, step: str, detail: str = "") -> None:
        self.steps.append(Step(step, True, detail))

    def failed(self, step: str, message: str, fate: Fate, *, check: str = "") -> None:
        """The step at which MIOpen turns away; `fate` is what comes of it."""
        self.steps.append(Step(step, False, message))
        level = Level.FATAL if fate is Fate.FATAL else Level.NEVER_HITS
        self.say(level, check or step, message)
        self.fate = fate

    def say(self, level: Level, check: str, message: str) -> None:
        self.findings.append(Finding(level, check, message))


@contextmanager
def diagnose(path: Path) -> Iterator[Diagnosis]:
    """Open a file, and keep what is to be read for its records while the block runs.

    Raises
    ------
    HostError
        If a file in WAL mode cannot be copied, which reading its log needs.
    """
    found = Diagnosis(path)
    with ExitStack() as stack:
        start = _check_file(found)
        if start is not None and _check_start(found, start):
            _check_journal(found, start)
            _check_content(found, _settled(found, stack))
        yield found


@contextmanager
def connect(named: Path, database: Path) -> Iterator[sqlite3.Connection]:
    """Open a database that nobody writes, for reading only; text comes as bytes.

    Raises
    ------
    DatabaseError
        If it is damaged; it is called by the name of the file that it stands for.
    """
    uri = f"file:{quote(str(database.absolute()))}?mode=ro&immutable=1"
    with database_errors(named), closing(sqlite3.connect(uri, uri=True)) as db:
        restrict(db)
        db.text_factory = bytes
        yield db


def _check_file(found: Diagnosis) -> bytes | None:
    """Look at the file from outside; its start, where there is one."""
    path = found.path
    try:
        status = path.stat()
    except OSError as error:
        found.readable = False
        # boost or std::filesystem::exists is false for a dangling link, too.
        found.failed("exists", f"It cannot be found: {error.strerror}", Fate.MISS)
        return None
    if not stat.S_ISREG(status.st_mode):
        found.readable = False
        found.kind = FileKind("a folder" if stat.S_ISDIR(status.st_mode) else "not a file")
        found.failed("exists", f"It is {found.kind.words}", Fate.FATAL)
        return None
    found.passed("exists")
    try:
        with path.open("rb") as file:
            start = file.read(4096)
    except OSError as error:
        found.readable = False
        found.kind = FileKind("not readable")
        found.failed("readable", f"It cannot be read: {error.strerror}", Fate.MISS)
        return None
    found.passed("readable")
    if found.system and not status.st_mode & stat.S_IROTH:
        found.say(
            Level.SUSPICIOUS, "permissions",
            f"Its mode is {stat.S_IMODE(status.st_mode):04o}: other users cannot read it, and "
            "their MIOpen does without",
        )  # fmt: skip
    return start


def _check_start(found: Diagnosis, start: bytes) -> bool:
    """Whether SQLite would take the file for a database, and MIOpen hand it to SQLite."""
    size = found.path.stat().st_size
    found.kind = file_kind(start, size)
    if found.system and size < _MIN_BYTES:
        what = f"It is {found.kind.words}; it" if found.kind.known else "It"
        message = f"{what} has {size} bytes, and MIOpen ignores files under {_MIN_BYTES}"
        found.failed("size", message, Fate.MISS)
        return False
    found.passed("size", f"{size} bytes")
    if not size:
        found.passed("format", "MIOpen makes a database of an empty user file")
        return False
    if not found.kind.database:
        found.failed("format", f"It is {found.kind.words}, not a kernel database", Fate.FATAL)
        return False
    # https://sqlite.org/fileformat.html: page size at 16, number of pages at 28.
    page = int.from_bytes(start[16:18], "big")
    page = 65536 if page == 1 else page
    pages = int.from_bytes(start[28:32], "big")
    if page < 512 or page & page - 1:
        found.failed("format", f"It is damaged: its header says pages of {page} bytes", Fate.FATAL)
        return False
    if size < page * pages:
        message = f"It is cut off: it has {size} bytes, and its header says {page * pages}"
        found.failed("format", message, Fate.FATAL)
        return False
    if size % page:
        found.say(Level.SUSPICIOUS, "format", f"It ends with a part of a page, at {size} bytes")
    found.passed("format", "SQLite")
    return True


def _check_journal(found: Diagnosis, start: bytes) -> None:
    """Judge journal mode and side files; SQLite looks at both where the file really is."""
    real = found.path.resolve()
    log, shared, journal = (real.with_name(real.name + end) for end in ("-wal", "-shm", "-journal"))
    if _is_hot(journal):
        if found.system:
            message = (
                f"It was left half-written: there is a `{journal.name}`, which MIOpen may not undo"
            )
            found.failed("journal", message, Fate.FATAL)
            return
        found.say(Level.SUSPICIOUS, "journal", f"It was left half-written: `{journal.name}`")
    wal = start[19] == WAL
    if not found.system:
        if not wal:
            found.say(Level.NOTE, "journal", "It is not in WAL mode, as MIOpen's own are")
        if not os.access(real, os.W_OK) or not os.access(real.parent, os.W_OK | os.X_OK):
            found.say(Level.SUSPICIOUS, "permissions", "MIOpen writes to it, and you may not")
        found.passed("journal", "wal" if wal else "delete")
        return
    if not wal and not _size(log):
        _note_leftovers(found, (log, shared))
        found.passed("journal", "delete")
        return
    what = "It is in WAL mode" if wal else f"Beside it is a log, `{log.name}`"
    message = f"{what}: MIOpen fails for everyone who may not write to its folder"
    # SQLite gets by without writing where both side files are there already.
    both = log.exists() and shared.exists()
    if both or os.access(real.parent, os.W_OK | os.X_OK):
        found.say(Level.FATAL, "journal", message)
        found.passed("journal", "wal; here it can be read")
    else:
        found.failed("journal", message, Fate.FATAL)


def _note_leftovers(found: Diagnosis, paths: tuple[Path, ...]) -> None:
    for path in paths:
        if path.exists():
            found.say(Level.NOTE, "journal", f"Beside it is a left-over `{path.name}`")


def _is_hot(journal: Path) -> bool:
    """Whether SQLite would roll the journal back: a finished one is empty or begins with zeros."""
    try:
        with journal.open("rb") as file:
            return file.read(1) not in (b"", b"\0")
    except OSError:
        return False


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _settled(found: Diagnosis, stack: ExitStack) -> Path:
    """The file itself, or a copy of it with its log worked in; SQLite writes to read a log."""
    real = found.path.resolve()
    log = real.with_name(real.name + "-wal")
    if not _size(log):
        return real
    copy = stack.enter_context(scratch_folder()) / "copy.kdb"
    with host_errors(f"copy `{found.path}` and its log"):
        shutil.copyfile(real, copy)
        shutil.copyfile(log, copy.with_name(copy.name + "-wal"))
    try:
        with closing(sqlite3.connect(copy, isolation_level=None)) as db:
            restrict(db)
            db.execute("PRAGMA journal_mode=DELETE").fetchall()
    except sqlite3.Error as error:
        found.failed("journal", f"Its log `{log.name}` cannot be used: {error}", Fate.FATAL)
    return copy


def _check_content(found: Diagnosis, database: Path) -> None:
    before = found.fate
    try:
        with connect(found.path, database) as db:
            if not _check_table(found, db):
                return
            _check_pages(found, db)
            query = f"SELECT id FROM main.{TABLE} NOT INDEXED ORDER BY id"  # noqa: S608
            found.rows.extend(row[0] for row in db.execute(query))
    except DatabaseError as error:
        found.failed("content", error.message, Fate.FATAL)
        found.say(Level.SUSPICIOUS, "not-checked", "Its records cannot be listed")
        return
    found.database = database
    found.kind = FileKind("a kernel database", database=True, known=True)
    found.passed("content", f"{len(found.rows)} records")
    if not found.rows:
        more = ", and MIOpen looks into no other system file" if found.system else ""
        found.say(Level.NEVER_HITS, "empty", f"It has no records{more}")
    if before is Fate.FATAL:
        found.fate = before


def _check_table(found: Diagnosis, db: sqlite3.Connection) -> bool:
    """Compare the table with what MIOpen asks for; whether its rows are to be read."""
    rows = db.execute("SELECT type, rootpage, name FROM sqlite_master").fetchall()
    master = [(kind.decode(), root, name.decode(errors="replace")) for kind, root, name in rows]
    kinds = [(kind, root) for kind, root, name in master if name.lower() == TABLE]
    if not kinds:
        found.kind = FileKind(_what_else(master), database=True, known=True)
        if found.system:
            message = f"It is {found.kind.words}: every look-up fails with `no such table`"
            found.failed("schema", message, Fate.FATAL)
        else:
            found.passed("schema", f"MIOpen makes its table `{TABLE}`")
        return False
    if kinds[0][0] != "table" or not kinds[0][1]:
        message = f"`{TABLE}` is a {kinds[0][0]}, not a plain table, and its rows are not checked"
        found.say(Level.SUSPICIOUS, "not-checked", message)
        return False
    return _check_columns(found, db, [name for kind, _, name in master if kind == "trigger"])


def _check_columns(found: Diagnosis, db: sqlite3.Connection, triggers: list[str]) -> bool:
    columns = {
        name.decode(errors="replace"): (kind.decode(errors="replace").upper(), hidden)
        for _, name, kind, _, _, _, hidden in db.execute(f"PRAGMA table_xinfo({TABLE})")
    }
    folded = {name.lower() for name in columns}
    missing = [name for name in _NEEDED if name not in folded]
    if missing:
        names = ", ".join(f"`{name}`" for name in missing)
        found.failed("schema", f"`{TABLE}` has no column {names}: every look-up fails", Fate.FATAL)
        return False
    if any(hidden for _, hidden in columns.values()) or not _is_numbered(db):
        message = f"`{TABLE}` has computed columns or no row number `id`: its rows are not checked"
        found.say(Level.SUSPICIOUS, "not-checked", message)
        return False
    known = {name: kind for name, kind, _, _ in COLUMNS}
    for name, (kind, _) in list(columns.items())[:_MAX_COMPLAINTS]:
        if name not in known:
            found.say(Level.SUSPICIOUS, "schema", f"`{TABLE}` has a column `{name[:100]}`")
        elif kind != known[name]:
            message = f"Column `{name}` is {kind[:100] or 'untyped'}, not {known[name]}"
            found.say(Level.SUSPICIOUS, "schema", message)
    if triggers:
        found.say(Level.SUSPICIOUS, "schema", f"It has {len(triggers)} triggers")
    found.indexed = _has_index(db)
    if not found.indexed:
        message = "It has no index over kernel_name and kernel_args: a look-up reads the whole file"
        found.say(Level.SUSPICIOUS, "index", message)
    found.passed("schema", ", ".join(columns)[:1000])
    return True


def _is_numbered(db: sqlite3.Connection) -> bool:
    """Whether `id` is SQLite's own row number; else it may be anything, also twice.

    It is, where an INTEGER is the primary key and needs no index (not so WITHOUT ROWID).
    """
    keys = [
        (name.lower(), kind.upper())
        for _, name, kind, _, _, key in db.execute(f"PRAGMA table_info({TABLE})")
        if key
    ]
    origins = [row[3] for row in db.execute(f"PRAGMA index_list({TABLE})")]
    return keys == [(b"id", b"INTEGER")] and b"pk" not in origins


def _has_index(db: sqlite3.Connection) -> bool:
    for _, name, _, _, partial in db.execute(f"PRAGMA index_list({TABLE})").fetchall():
        quoted = name.decode(errors="replace").replace("'", "''")
        columns = [row[2] for row in db.execute(f"PRAGMA index_info('{quoted}')")]
        if not partial and columns[:2] == [b"kernel_name", b"kernel_args"]:
            return True
    return False


def _check_pages(found: Diagnosis, db: sqlite3.Connection) -> None:
    """SQLite's own check; what concerns single values is left to the check of records."""
    complaints = [
        text.decode(errors="replace").splitlines()[-1]
        for (text,) in db.execute(f"PRAGMA quick_check({_MAX_COMPLAINTS})")
        if text != b"ok"
    ]
    for text in complaints:
        if text.startswith(("NULL value", "CHECK constraint", "TEXT value", "NUMERIC value")):
            continue
        level = Level.SUSPICIOUS if "freelist" in text.lower() else Level.FATAL
        found.say(level, "damage", f"The file is damaged: {text[:200]}")


def _what_else(master: list[tuple[str, int, str]]) -> str:
    tables = sorted(name for kind, _, name in master if kind == "table")
    if {"perf_db", "config"} <= set(tables):
        return "a performance database (SQLite)"
    listed = f", with {', '.join(tables)[:200]}" if tables else ""
    return f"an SQLite file without the table `{TABLE}`{listed}"
