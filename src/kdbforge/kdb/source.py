"""Reads databases of any origin in the order of their keys, and checks each of their records.

A damaged row costs that row, a damaged file that file; the file itself is never written to.
"""

from __future__ import annotations

import os
import sqlite3
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TypeVar

from kdbforge.codeobject.bundle import device_objects
from kdbforge.codeobject.elf import read_object
from kdbforge.errors import DatabaseError, InputError
from kdbforge.kdb.inspect import FileFacts, open_database
from kdbforge.kdb.memo import BlobMemo
from kdbforge.kdb.reader import database_errors, quick_check, record_of
from kdbforge.kdb.record import Record
from kdbforge.model.target import TargetId

__all__ = [
    "Rejected",
    "Row",
    "Source",
    "check_name",
    "check_output",
    "check_records",
    "join_targets",
    "open_source",
    "record_target",
]

T = TypeVar("T")
#: Blobs and objects that may be in memory at once, all threads together; one is always let in.
_IN_FLIGHT_BYTES = 64 << 20
#: What a thread is given at once.
_BATCH_BYTES = 1 << 20
_BATCH_RECORDS = 32
_READABLE = "typeof(kernel_name) = 'text' AND typeof(kernel_args) = 'text'"
# A foreign table may declare another collation, and its index may lie.
_KEYS = (
    "SELECT id, kernel_name, kernel_args, length(kernel_blob) FROM main.kern_db NOT INDEXED"  # noqa: S608
    f" WHERE {_READABLE} ORDER BY kernel_name COLLATE BINARY, kernel_args COLLATE BINARY, id"
)
_UNREADABLE = f"SELECT id FROM main.kern_db NOT INDEXED WHERE NOT ({_READABLE})"  # noqa: S608
_REST = (
    "SELECT kernel_blob, typeof(kernel_blob), kernel_hash, uncompressed_size"
    " FROM main.kern_db NOT INDEXED WHERE id = ?"
)


@dataclass(frozen=True, slots=True)
class Row:
    """Where a record stands in its file, and its key."""

    number: int  # its id
    kernel_name: str
    kernel_args: str
    stored_size: int

    @property
    def key(self) -> tuple[str, str]:
        return self.kernel_name, self.kernel_args


@dataclass(frozen=True, slots=True)
class Rejected:
    """A row that cannot be used."""

    number: int
    kernel_name: str  # empty where not even that can be read
    reason: str


class Source:
    """A database that is open for reading; `rejected` grows as damaged rows are met."""

    def __init__(self, path: Path, facts: FileFacts, db: sqlite3.Connection):
        self.path = path  # as the user named it
        self.facts = facts
        self.rejected: dict[int, Rejected] = {}
        self._db = db
        self._begun: Iterator[Row] | None = None
        with database_errors(path):
            (self.count,) = db.execute("SELECT count(*) FROM main.kern_db NOT INDEXED").fetchone()

    def begin(self) -> None:
        """Sort all keys; the next call of `rows` hands them out.

        Raises
        ------
        DatabaseError
            If the file is damaged.
        """
        rows = self.rows()
        self._begun = chain([first], rows) if (first := next(rows, None)) else rows

    def rows(self) -> Iterator[Row]:
        """All rows that have a key, in its order; rows with equal keys by their ids.

        SQLite sorts before it hands out the first, so that damage to a key shows at once.

        Raises
        ------
        DatabaseError
            If the file is damaged.
        """
        if self._begun is not None:
            begun, self._begun = self._begun, None
            return begun
        return self._sorted()

    def _sorted(self) -> Iterator[Row]:
        with database_errors(self.path):
            for (number,) in self._db.execute(_UNREADABLE):
                self.reject(number, "", "its key is not text")
            for number, name, args, size in self._db.execute(_KEYS):
                try:
                    yield Row(number, name.decode(), args.decode(), size)
                except UnicodeDecodeError:
                    self.reject(number, "", "its key is not valid Unicode")

    def record(self, row: Row) -> Record | None:
        """The whole record; None if it is damaged, and it is rejected then.

        Its blob is not unpacked.
        """
        try:
            with database_errors(self.path):
                blob, kind, digest, size = self._db.execute(_REST, (row.number,)).fetchone()
                # Texts come as bytes, since one that is no Unicode would end the whole query.
                digest = digest.decode() if isinstance(digest, bytes) else digest
            if kind != b"blob":
                raise DatabaseError(f"its kernel_blob is of the wrong type: {kind.decode()}")
            return record_of(self.path, (*row.key, blob, digest, size))
        except DatabaseError as error:
            self.reject(row.number, row.kernel_name, error.message)
            return None

    def reject(self, number: int, kernel_name: str, reason: str) -> None:
        self.rejected[number] = Rejected(number, kernel_name, reason)

    def refuse_rejected(self) -> None:
        """Fail if a row was rejected.

        Raises
        ------
        DatabaseError
            That names the first.
        """
        for bad in self.rejected.values():
            raise DatabaseError(
                f"`{self.path}`: record {bad.number} cannot be used: {bad.reason}",
                context=(f"kernel: {bad.kernel_name}",) if bad.kernel_name else (),
                hint="without --strict it is left out",
            )


@contextmanager
def open_source(path: Path) -> Iterator[Source]:
    """Open a `.kdb` or `.ukdb` of any origin, also one that MIOpen is using.

    Raises
    ------
    DatabaseError
        If it is something else (said what), or damaged.
    HostError
        If it cannot be read.
    """
    with open_database(path) as (facts, db):
        with database_errors(path):
            quick_check(path, db)
            (encoding,) = db.execute("PRAGMA encoding").fetchone()
        if encoding != "UTF-8":
            raise DatabaseError(f"`{path}` is in {encoding}, and MIOpen's databases are in UTF-8")
        db.text_factory = bytes
        source = Source(path, facts, db)
        source.begin()  # what is wrong with the keys shows here
        yield source


def check_records(
    records: Iterable[tuple[T, Record]],
) -> Iterator[tuple[T, Record, TargetId | DatabaseError]]:
    """Check records on all cores, in their order: MD5, size, and what each is for.

    Memory stays bounded whatever the number of records.

    Raises
    ------
    HostError
        If an object is packed in a way that this machine cannot unpack.
    """
    waiting: deque[tuple[list[tuple[T, Record]], int, Future[list[TargetId | DatabaseError]]]]
    waiting = deque()
    in_flight = 0
    known = BlobMemo[tuple[TargetId, ...]]()
    pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)), "check")  # bz2 and MD5 drop the GIL
    try:
        for batch, weight in _batches(records):
            while waiting and in_flight + weight > _IN_FLIGHT_BYTES:
                done, freed, future = waiting.popleft()
                in_flight -= freed
                yield from _joined(done, future)
            future = pool.submit(_targets_or_errors, [record for _, record in batch], known)
            waiting.append((batch, weight, future))
            in_flight += weight
        for done, _, future in waiting:
            yield from _joined(done, future)
    finally:
        pool.shutdown(cancel_futures=True)


def _batches(records: Iterable[tuple[T, Record]]) -> Iterator[tuple[list[tuple[T, Record]], int]]:
    """Records by some at a time, since handing one to a thread takes as long as checking it."""
    batch: list[tuple[T, Record]] = []
    weight = 0
    for tag, record in records:
        more = len(record.kernel_blob) + record.uncompressed_size
        if batch and (weight + more > _BATCH_BYTES or len(batch) == _BATCH_RECORDS):
            yield batch, weight
            batch, weight = [], 0
        batch.append((tag, record))
        weight += more
    if batch:
        yield batch, weight


def _joined(
    batch: list[tuple[T, Record]], future: Future[list[TargetId | DatabaseError]]
) -> Iterator[tuple[T, Record, TargetId | DatabaseError]]:
    for (tag, record), result in zip(batch, future.result(), strict=True):
        yield tag, record, result


def _targets_or_errors(
    records: list[Record], known: BlobMemo[tuple[TargetId, ...]]
) -> list[TargetId | DatabaseError]:
    found: list[TargetId | DatabaseError] = []
    for record in records:
        try:
            found.append(record_target(record, known))
        except DatabaseError as error:
            found.append(error)
    return found


def record_target(record: Record, known: BlobMemo[tuple[TargetId, ...]] | None = None) -> TargetId:
    """Unpack a record, check it, and say on which GPUs its code would load.

    With `known` a blob is not unpacked again.

    Raises
    ------
    DatabaseError
        If it is damaged, or its object is not for the GPU that its key names.
    HostError
        If it is a bundle that this machine cannot unpack.
    """
    if known is None:
        known = BlobMemo()
    record.check()
    targets = known.get(
        record.kernel_blob,
        record.kernel_hash.encode(),
        record.uncompressed_size,
        lambda: tuple(read_object(part).target for part in device_objects(record.unpack())),
    )
    wanted = _mcpu(record.kernel_args)
    if wanted is not None:
        fitting = tuple(found for found in targets if found.arch == wanted.arch)
        if not fitting:
            raise DatabaseError(
                f"Code object is for `{targets[0]}`, and its key says `-mcpu={wanted}`"
            )
        targets = fitting
    target = _common(targets)
    if wanted is not None and join_targets(target, wanted) is None:
        raise DatabaseError(f"Code object is for `{target}`, and its key says `-mcpu={wanted}`")
    return target


def join_targets(one: TargetId, other: TargetId) -> TargetId | None:
    """The GPUs on which code for both would load; None if there are none."""
    if (
        one.arch != other.arch
        or _differ(one.sramecc, other.sramecc)
        or _differ(one.xnack, other.xnack)
    ):
        return None
    return TargetId(
        one.arch,
        other.sramecc if one.sramecc is None else one.sramecc,
        other.xnack if one.xnack is None else one.xnack,
    )


def _differ(one: bool | None, other: bool | None) -> bool:
    return one is not None and other is not None and one is not other


def _mcpu(kernel_args: str) -> TargetId | None:
    # handlehip.cpp, LoadProgram: the last option; .mlir kernels have none.
    _, found, value = kernel_args.rpartition("-mcpu=")
    if not found:
        return None
    name = (value.split() or [""])[0]
    try:
        return TargetId.parse(name)
    except InputError:
        raise DatabaseError(f"Its key says `-mcpu={name[:100]}`, which is no GPU") from None


def _common(targets: tuple[TargetId, ...]) -> TargetId:
    """Target of a record's objects, one of which is loaded."""
    if len({found.arch for found in targets}) > 1:
        raise DatabaseError("Its bundle is for several architectures, and its key names none")
    if len(set(targets)) == 1:
        return targets[0]
    # A bundle with both settings has an object for either.
    sramecc, xnack = {t.sramecc for t in targets}, {t.xnack for t in targets}
    return TargetId(
        targets[0].arch,
        sramecc.pop() if len(sramecc) == 1 else None,
        xnack.pop() if len(xnack) == 1 else None,
    )


def check_output(path: Path, inputs: Iterable[Path], *, force: bool = False) -> None:
    """Check that writing `path` harms no input, and nothing else unless `force` is set.

    Raises
    ------
    InputError
        If it does, or if side files of SQLite lie there, which would damage what is written.
    """
    for source in inputs:
        if path.exists() and source.exists() and path.samefile(source):
            raise InputError(f"`{path}` is an input, and inputs are never modified")
    for ending in ("-wal", "-shm", "-journal"):
        side = path.with_name(path.name + ending)
        if side.exists():
            raise InputError(
                f"`{side}` lies beside the file to write, and SQLite would apply it to that",
                hint="somebody uses that database, or left this file behind: write elsewhere",
            )
    if path.exists() and not force:
        raise InputError(f"`{path}` exists", hint="give another name, or --force to replace it")


def check_name(path: Path, target: TargetId) -> None:
    """Check that a file of this name is not looked for on other GPUs than `target`.

    Raises
    ------
    InputError
        If it is named like a system database, and MIOpen could not use the records in it.
    """
    name = path.name.partition(".")[0]
    if not name.startswith("gfx"):
        return
    if not name.startswith(target.arch):
        raise InputError(
            f"`{path.name}` is not a name for records of {target.arch}: MIOpen would find none",
            hint=f"name it `{target.arch}.kdb`, or `{target.arch}_` and the CU count",
        )
    # target_properties.cpp: xnack in the name says that it is on; off is not named.
    if target.xnack is not None and target.xnack is not ("_xnack" in name):
        raise InputError(
            f"`{path.name}` is not a name for records of `{target}`: GPUs with the other xnack "
            "setting look for it",
            hint=f"name it `{target.arch}{'_xnack' if target.xnack else ''}.kdb`",
        )
