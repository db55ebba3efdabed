"""Compares two kernel databases record by record; what was packed differently is the same.

Code is not compared with code: an object is the same or it is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, zip_longest
from pathlib import Path

from kdbforge.codeobject.bundle import device_objects
from kdbforge.codeobject.elf import read_object
from kdbforge.errors import DatabaseError
from kdbforge.kdb.record import Record
from kdbforge.kdb.source import Row, Source, open_source

__all__ = ["Change", "Difference", "Side", "diff_kdbs"]


@dataclass(frozen=True, slots=True)
class Side:
    """A record as one of the two files has it."""

    kernel_name: str
    kernel_args: str
    stored_size: int
    object_size: int
    kernel_hash: str
    targets: tuple[str, ...] = ()
    versions: tuple[int, ...] = ()  # code object versions
    kernels: tuple[str, ...] = ()
    damage: str = ""  # why its object cannot be read


@dataclass(frozen=True, slots=True)
class Change:
    """A key that has different objects in the two files."""

    before: Side
    after: Side


@dataclass(frozen=True, slots=True)
class Difference:
    """What sets two databases apart; all lists are sorted by key."""

    lost: tuple[Side, ...]  # only in the first
    gained: tuple[Side, ...]  # only in the second
    changed: tuple[Change, ...]
    same: int
    repacked: int  # of the same ones, those with other bytes in the file
    rows: tuple[int, int]
    file_sizes: tuple[int, int]

    def __bool__(self) -> bool:
        return bool(self.lost or self.gained or self.changed)


def diff_kdbs(before: Path, after: Path) -> Difference:
    """Compare two databases, `.kdb` or `.ukdb`; their order and numbers of records do not count.

    Raises
    ------
    DatabaseError
        If one is something else or damaged, or a row of it cannot be read; a record whose object
        is damaged is compared as it is.
    HostError
        If one cannot be read.
    """
    with open_source(before) as one, open_source(after) as other:
        differ = _Differ(one, other)
        differ.run()
        return differ.result()


class _Differ:
    def __init__(self, one: Source, other: Source):
        self._one = one
        self._other = other
        self._lost: list[Side] = []
        self._gained: list[Side] = []
        self._changed: list[Change] = []
        self._same = self._repacked = 0

    def run(self) -> None:
        for row, partner in _pairs(self._one.rows(), self._other.rows()):
            if partner is None:
                assert row is not None
                self._lost.append(_side(self._record(self._one, row)))
            elif row is None:
                self._gained.append(_side(self._record(self._other, partner)))
            else:
                self._compare(self._record(self._one, row), self._record(self._other, partner))
        for source in (self._one, self._other):
            _refuse_rejected(source)

    def result(self) -> Difference:
        return Difference(
            tuple(self._lost),
            tuple(self._gained),
            tuple(self._changed),
            self._same,
            self._repacked,
            (self._one.count, self._other.count),
            (self._one.facts.size, self._other.facts.size),
        )

    def _record(self, source: Source, row: Row) -> Record:
        record = source.record(row)
        if record is None:
            _refuse_rejected(source)
        assert record is not None
        return record

    def _compare(self, one: Record, other: Record) -> None:
        if one == other:
            self._same += 1
        elif one.kernel_hash == other.kernel_hash and _same_object(one, other):
            self._same += 1
            self._repacked += 1
        else:
            self._changed.append(Change(_side(one), _side(other)))


def _refuse_rejected(source: Source) -> None:
    for bad in source.rejected.values():
        raise DatabaseError(
            f"`{source.path}`: record {bad.number} cannot be read: {bad.reason}",
            hint=f"kdbforge kdb prune {source.path} -o FILE leaves such records out",
        )


def _pairs(
    one: Iterator[Row], other: Iterator[Row]
) -> Iterator[tuple[Row, None] | tuple[None, Row] | tuple[Row, Row]]:
    """Rows with equal keys together; both sides are sorted."""
    left, right = (groupby(rows, key=lambda row: row.key) for rows in (one, other))
    a, b = next(left, None), next(right, None)
    while a is not None or b is not None:
        if b is None or (a is not None and a[0] < b[0]):
            assert a is not None
            yield from ((row, None) for row in a[1])
            a = next(left, None)
        elif a is None or b[0] < a[0]:
            yield from ((None, row) for row in b[1])
            b = next(right, None)
        else:
            # More than one to a key is possible where a stranger's table has no unique index.
            yield from zip_longest(a[1], b[1])
            a, b = next(left, None), next(right, None)


def _same_object(one: Record, other: Record) -> bool:
    try:
        return one.unpack() == other.unpack()
    except DatabaseError:
        return False


def _side(record: Record) -> Side:
    size = record.uncompressed_size or len(record.kernel_blob)
    known = (*record.key, len(record.kernel_blob), size, record.kernel_hash)
    try:
        objects = [read_object(data) for data in device_objects(record.unpack())]
    except DatabaseError as error:
        return Side(*known, damage=error.message)
    return Side(
        *known,
        targets=tuple(sorted({str(found.target) for found in objects})),
        versions=tuple(sorted({found.version for found in objects})),
        kernels=tuple(sorted({name for found in objects for name in found.kernels})),
    )
