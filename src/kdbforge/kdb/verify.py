"""Verifies kernel databases: opens them as MIOpen would, then checks every record on all cores.

A database may be of any size: no more than some records are in memory at once.
"""

from __future__ import annotations

import gc
import multiprocessing
import signal
import sqlite3
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kdbforge.errors import DatabaseError, WorkerError
from kdbforge.kdb.diagnose import Diagnosis, connect, diagnose
from kdbforge.kdb.verify_device import Device
from kdbforge.kdb.verify_report import Fate, Finding, Level, Report, record_fate
from kdbforge.kdb.verify_row import Checked, Row, RowChecker, key_digest

__all__ = ["VerifyOptions", "verify_kdb"]

#: Records that a process is given at once.
_CHUNK = 64
#: With fewer records than this, starting processes takes longer than the work.
_FEW = 128
#: Findings that are kept for each check; all are counted.
_KEPT = 200
_VALUES = (
    "id, kernel_name, kernel_args, kernel_blob, kernel_hash, uncompressed_size,"
    " typeof(kernel_name), typeof(kernel_args), typeof(kernel_blob), typeof(kernel_hash),"
    " typeof(uncompressed_size)"
)
_ROW = f"SELECT {_VALUES} FROM main.kern_db NOT INDEXED WHERE id = ?"  # noqa: S608
#: Several rows, and what their keys lead to.
_ROWS = (
    f"SELECT {_VALUES}, (SELECT found.id FROM main.kern_db AS found"  # noqa: S608
    " WHERE found.kernel_name = kern_db.kernel_name AND found.kernel_args = kern_db.kernel_args)"
    " FROM main.kern_db NOT INDEXED WHERE id BETWEEN ? AND ? ORDER BY id"
)
_LOOKUP = "SELECT id FROM main.kern_db WHERE kernel_name = ? AND kernel_args = ?"
_UNKNOWN = object()


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """What to hold a database against."""

    device: Device | None = None  # who looks it up; None: not known, and not checked
    planned: Collection[tuple[str, str]] | None = None  # keys that it must hold
    jobs: int = 1  # processes at work at once


def verify_kdb(
    path: Path,
    options: VerifyOptions | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Check a file and every record in it; the file may be anything, and is not changed.

    `progress` is called with the records that were checked, and how many there are.

    Findings are sorted by level, worst first. What cannot be known: whether a code object
    computes the right thing, and whether its kernels have the names that MIOpen asks for, as long
    as its own metadata agrees with them (`prove` finds that out).

    Raises
    ------
    HostError
        If a file in WAL mode cannot be copied to read its log.
    WorkerError
        If a process died, for example for want of memory.
    """
    options = options or VerifyOptions()
    with diagnose(path) as found:
        tally = _Tally(options.planned)
        if options.device is None and found.database:
            tally.say(Level.SUSPICIOUS, "file-name", _NO_DEVICE)
        for finding in found.findings:
            tally.add(finding)
        if found.database is not None:
            for chunk in _checked(found, found.database, options):
                tally.take(chunk)
                if progress:
                    progress(tally.records, len(found.rows))
        tally.end(readable=found.readable)
        return tally.report(found)


_NO_DEVICE = "No known GPU looks for a file of this name, so that records were not held against it"


@dataclass(frozen=True, slots=True)
class _Chunk:
    """What became of some records."""

    checked: tuple[tuple[int, Checked], ...]


@dataclass(slots=True)
class _Tally:
    """Adds up findings, and knows which keys and code objects were seen."""

    planned: Collection[tuple[str, str]] | None
    records: int = 0
    sound: int = 0
    counts: Counter[tuple[Level, str]] = field(default_factory=Counter)
    kept: list[Finding] = field(default_factory=list)
    _keys: set[bytes] = field(default_factory=set)
    _objects: Counter[bytes] = field(default_factory=Counter)

    def add(self, finding: Finding) -> None:
        kind = (finding.level, finding.check)
        self.counts[kind] += 1
        if self.counts[kind] <= _KEPT:
            self.kept.append(finding)

    def say(self, level: Level, check: str, message: str) -> None:
        self.add(Finding(level, check, message))

    def take(self, chunk: _Chunk) -> None:
        for number, checked in chunk.checked:
            self.records += 1
            self.sound += record_fate(checked.findings) is Fate.HIT
            for finding in checked.findings:
                self.add(finding)
            if checked.key in self._keys:
                message = "Another record has the same key; MIOpen takes one of them"
                self.add(Finding(Level.SUSPICIOUS, "duplicate-key", message, number))
            self._keys.add(checked.key)
            if checked.object:
                self._objects[checked.object] += 1

    def end(self, *, readable: bool) -> None:
        """Say what concerns the records together."""
        again = sum(self._objects.values()) - len(self._objects)
        if again:
            message = f"{again} of {self.records} records hold a code object that another one holds"
            self.say(Level.NOTE, "duplicates", message)
        if self.planned is None or not readable:
            return
        for name, args in sorted(self.planned):
            if key_digest(name.encode(), args.encode()) not in self._keys:
                message = f"Missing of the plan: `{name}` with `{args.strip()}`"
                self.add(Finding(Level.SUSPICIOUS, "plan", message, None, name))

    def report(self, found: Diagnosis) -> Report:
        def order(finding: Finding) -> tuple[int, int]:
            return -finding.level, -1 if finding.record is None else finding.record

        return Report(
            path=found.path,
            kind=found.kind.words,
            fate=found.fate,
            readable=found.readable,
            steps=tuple(found.steps),
            records=self.records,
            sound=self.sound if found.fate is Fate.HIT else 0,
            findings=tuple(sorted(self.kept, key=order)),
            counts=dict(sorted(self.counts.items(), key=lambda item: (-item[0][0], item[0][1]))),
        )


def _checked(found: Diagnosis, database: Path, options: VerifyOptions) -> Iterator[_Chunk]:
    chunks = [found.rows[at : at + _CHUNK] for at in range(0, len(found.rows), _CHUNK)]
    setting = (found.path, database, options.device, found.indexed)
    if options.jobs < 2 or len(found.rows) < _FEW:
        with _Worker(*setting) as worker:
            yield from map(worker.check, chunks)
        return
    yield from _in_processes(chunks, setting, min(options.jobs, len(chunks)))


_Setting = tuple[Path, Path, Device | None, bool]


def _in_processes(chunks: Sequence[array[int]], setting: _Setting, jobs: int) -> Iterator[_Chunk]:
    """Check chunks in processes; results come as they are ready, few wait to be taken."""
    pool = ProcessPoolExecutor(
        # Not "fork": a thread draws the progress bar, and could hold a lock just then.
        jobs, multiprocessing.get_context("spawn"), initializer=_start, initargs=setting,
    )  # fmt: skip
    left = iter(chunks)
    waiting: set[Future[_Chunk]] = set()
    try:
        while True:
            while len(waiting) < 3 * jobs and (chunk := next(left, None)) is not None:
                waiting.add(pool.submit(_check, chunk))
            if not waiting:
                return
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
    except BrokenProcessPool as error:
        raise WorkerError(
            f"A process that checked records of `{setting[0]}` died",
            hint="is there enough memory? `-j 1` needs least",
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


class _Worker:
    """Reads rows of one database and checks them."""

    def __init__(self, path: Path, database: Path, device: Device | None, indexed: bool):
        self._path = path
        self._checker = RowChecker(device)
        self._indexed = indexed
        self._stack = ExitStack()
        self._db = self._stack.enter_context(connect(path, database))

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def check(self, ids: array[int]) -> _Chunk:
        checked: list[tuple[int, Checked]] = []
        if self._indexed:
            # A damaged page ends the query; what it did not hand out is read row by row.
            with suppress(sqlite3.Error, UnicodeError, MemoryError):
                for number, (*values, hit) in zip(
                    ids, self._db.execute(_ROWS, (ids[0], ids[-1])), strict=False
                ):
                    if values[0] != number:
                        break
                    checked.append((values[0], self._check_values(values, hit)))
        for number in ids[len(checked) :]:
            checked.append((number, self._check_row(number)))
        return _Chunk(tuple(checked))

    def _check_row(self, number: int) -> Checked:
        # A damaged page costs the records on it, not the others.
        try:
            values = self._db.execute(_ROW, (number,)).fetchone()
            if values is None:
                raise DatabaseError(f"There is no record {number}")
            return self._check_values(values, _UNKNOWN)
        except (sqlite3.Error, DatabaseError, UnicodeError, MemoryError) as error:
            message = f"It cannot be read: {error}"[:300]
            return Checked((Finding(Level.FATAL, "damage", message, number),), b"", b"")

    def _check_values(self, values: Sequence[Any], hit: object) -> Checked:
        number, name, args, blob, digest, size, *kinds = values
        row = Row(number, name, args, blob, digest, size, tuple([kind.decode() for kind in kinds]))
        checked = self._checker.check(row)
        return self._looked_up(row, checked, hit) if self._indexed else checked

    def _looked_up(self, row: Row, checked: Checked, hit: object) -> Checked:
        """Look the record up by its key as MIOpen does: a damaged index leads elsewhere."""
        if row.types[:2] != ("text", "text"):
            return checked
        if hit is _UNKNOWN:
            assert isinstance(row.kernel_name, bytes)
            assert isinstance(row.kernel_args, bytes)
            try:  # as text, which SQLite turns into the encoding of the file
                key = row.kernel_name.decode(), row.kernel_args.decode()
            except UnicodeDecodeError:
                return checked  # never looked up, and it is said so
            found = self._db.execute(_LOOKUP, key).fetchone()
            hit = found[0] if found else None
        if hit == row.id:
            return checked
        message = (
            "The index does not lead to it" if hit is None else "The index leads to another record"
        )
        finding = Finding(Level.NEVER_HITS, "index", message, row.id)
        return Checked((*checked.findings, finding), checked.key, checked.object)


_worker: _Worker | None = None


def _start(path: Path, database: Path, device: Device | None, indexed: bool) -> None:
    """Set a process up; the parent alone minds Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Nothing that is made here lives long, and there is nothing old to look through.
    gc.freeze()
    gc.set_threshold(20_000)
    global _worker  # noqa: PLW0603
    _worker = _Worker(path, database, device, indexed)


def _check(ids: array[int]) -> _Chunk:
    assert _worker is not None
    return _worker.check(ids)
