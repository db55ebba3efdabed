"""Adds the records of a kernel database to a user's own (`.ukdb`), and takes them out again.

MIOpen writes to that file at any time, so it is never replaced: records go in by transactions.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from kdbforge.errors import DatabaseError, HostError, InputError
from kdbforge.files import host_errors, lock_folder, write_whole
from kdbforge.kdb.reader import read_kdb
from kdbforge.kdb.record import Record
from kdbforge.kdb.schema import COLUMNS, CREATE_INDEX, CREATE_TABLE, TABLE
from kdbforge.package.checked import check_kdb
from kdbforge.package.install import Installed, InstallOptions, Placed
from kdbforge.package.libraries import Library
from kdbforge.package.lookup import ask

__all__ = ["USER_RECORD", "install_for_user", "uninstall_for_user"]

USER_RECORD = ".kdbforge-user-install.json"
#: MIOpen itself waits for up to 30 s for another process.
_WAIT_SECONDS = 30.0
_INSERT = (
    "INSERT INTO kern_db (kernel_name, kernel_args, kernel_blob, kernel_hash, uncompressed_size)"
    " VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)


@dataclass(frozen=True, slots=True)
class _Added:
    """What was added to one user database."""

    created: bool  # the file did not exist before
    rows: frozenset[tuple[str, str]]  # digest of the key, kernel_hash


def install_for_user(kdbs: Sequence[Path], library: Library, options: InstallOptions) -> Installed:
    """Add the records of databases to the user databases that the library looks at first.

    Records that the user has already are kept. A database for every CU count goes to those GPUs
    that its manifest names.

    Raises
    ------
    InputError, DatabaseError
        If a database must not be installed for the library, or the library cannot be run.
    BusyError, HostError
        If the user's folder cannot be written.
    """
    checked = [check_kdb(path, library, force=options.force, keys=options.keys) for path in kdbs]
    if library.toolchain is None:
        raise InputError(
            f"`{library.path}` cannot be run here, so its user folder is not known",
            context=[library.reason],
            hint="install for all users, without --user",
        )
    placed, warnings, folder = [], [text for kdb in checked for text in kdb.warnings], Path()
    for kdb in checked:
        for gpu in kdb.gpus:
            target = ask(library, gpu, options.environment).user
            if target is None:
                raise InputError(f"`{library.path}` has no user database on {gpu}")
            folder = target.parent
            with lock_folder(folder):
                added, kept = _add(target, read_kdb(kdb.path))
            placed.append(Placed(target, "installed" if added else "unchanged"))
            if kept:
                warnings.append(f"`{target}` had {kept} of the records; they were kept")
    environment = {name: value for kdb in checked for name, value in kdb.environment.items()}
    return Installed(folder, tuple(placed), environment, tuple(warnings), confirmed=True)


def uninstall_for_user(names: Sequence[str], folder: Path) -> list[Placed]:
    """Take out the records that were added to user databases, by the files' names.

    Records that MIOpen has replaced since, and those of its own, stay.

    Raises
    ------
    InputError
        If nothing was added to a database of that name.
    BusyError, HostError
        If the folder cannot be written.
    """
    placed = []
    if not folder.is_dir():
        raise InputError(f"There is no folder `{folder}`, so nothing is installed there")
    with lock_folder(folder):
        record = _read(folder)
        for name in names:
            if name not in record:
                raise InputError(f"kdbforge has added nothing to `{folder / name}`")
        for name in names:
            path = folder / name
            state = _take_out(path, record.pop(name)) if path.exists() else "removed"
            _write(folder, record)
            placed.append(Placed(path, state))
    return placed


def _add(path: Path, records: Iterator[Record]) -> tuple[int, int]:
    """Add in one transaction; the numbers of records added and of those there before."""
    record = _read(path.parent)
    known = record.get(path.name)
    created = known.created if known else not path.exists()
    rows, kept = set(known.rows if known else ()), 0
    before = len(rows)
    with _transaction(path, create=True) as db:
        for one in records:
            values = (
                one.kernel_name, one.kernel_args, one.kernel_blob, one.kernel_hash,
                one.uncompressed_size,
            )  # fmt: skip
            if db.execute(_INSERT, values).rowcount == 1:
                rows.add((_key(one.kernel_name, one.kernel_args), one.kernel_hash))
            else:
                kept += 1
        if rows:
            # Before the commit: what is recorded and not there does no harm, the reverse would.
            _write(path.parent, {**record, path.name: _Added(created, frozenset(rows))})
    return len(rows) - before, kept


def _take_out(path: Path, added: _Added) -> str:
    with _transaction(path, create=False) as db:
        found = db.execute("SELECT id, kernel_name, kernel_args, kernel_hash FROM kern_db")
        ours = [(i,) for i, name, args, hash_ in found if (_key(name, args), hash_) in added.rows]
        db.executemany("DELETE FROM kern_db WHERE id = ?", ours)
        (left,) = db.execute("SELECT count(*) FROM kern_db").fetchone()
    if left or not added.created:
        return "restored"
    with host_errors(f"remove `{path}`"):
        for suffix in ("-wal", "-shm", ""):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    return "removed"


@contextmanager
def _transaction(path: Path, *, create: bool) -> Iterator[sqlite3.Connection]:
    """One transaction on a user database, which MIOpen may have open at the same time."""
    try:
        with closing(sqlite3.connect(path, timeout=_WAIT_SECONDS, isolation_level=None)) as db:
            db.execute("PRAGMA trusted_schema=OFF")
            db.execute("BEGIN IMMEDIATE")
            try:
                _check_table(path, db, create=create)
                yield db
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")
    except sqlite3.OperationalError as error:
        raise HostError(
            f"Cannot write `{path}`: {error}",
            hint="end the programs that use it, and see that you may write to its folder",
        ) from error
    except sqlite3.DatabaseError as error:
        raise DatabaseError(
            f"`{path}` is damaged: {error}",
            hint="delete it: MIOpen makes a new one, and compiles again what it held",
        ) from error


def _check_table(path: Path, db: sqlite3.Connection, *, create: bool) -> None:
    tables = db.execute("SELECT type FROM sqlite_master WHERE name = ?", (TABLE,)).fetchall()
    if not tables and create:
        db.execute(CREATE_TABLE)
        db.execute(CREATE_INDEX)
        return
    names = {row[1] for row in db.execute(f"PRAGMA table_info({TABLE})")}
    if tables != [("table",)] or not names.issuperset(column[0] for column in COLUMNS):
        raise DatabaseError(f"`{path}` is not a user kernel database: `{TABLE}` is not MIOpen's")


def _key(name: str, args: str) -> str:
    # A name cannot hold a NUL, so the two cannot be told apart wrongly.
    return hashlib.sha256(f"{name}\0{args}".encode()).hexdigest()


def _read(folder: Path) -> dict[str, _Added]:
    path = folder / USER_RECORD
    with host_errors(f"read `{path}`"):
        text = path.read_bytes() if path.exists() else b"{}"
    try:
        return {
            name: _Added(bool(entry["created"]), frozenset((k, h) for k, h in entry["rows"]))
            for name, entry in json.loads(text).items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise HostError(f"`{path}` is damaged: {error}") from error


def _write(folder: Path, record: dict[str, _Added]) -> None:
    path = folder / USER_RECORD
    if not record:
        with host_errors(f"remove `{path}`"):
            path.unlink(missing_ok=True)
        return
    document = {
        name: {"created": added.created, "rows": sorted(added.rows)}
        for name, added in sorted(record.items())
    }
    with write_whole(path) as file:
        file.write(json.dumps(document, indent=1).encode() + b"\n")
