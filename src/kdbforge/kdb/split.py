"""Splits a kernel database by architecture and setting, without losing a record.

Files are named as MIOpen looks for them, without a CU count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from kdbforge.errors import DatabaseError
from kdbforge.files import host_errors
from kdbforge.kdb.record import Record
from kdbforge.kdb.source import (
    Rejected,
    Row,
    Source,
    check_output,
    check_records,
    join_targets,
    open_source,
)
from kdbforge.kdb.writer import write_sorted
from kdbforge.model.target import TargetId

__all__ = ["SplitPart", "SplitReport", "split_kdb"]


@dataclass(frozen=True, slots=True)
class SplitPart:
    """One of the files that were written."""

    path: Path
    db_id: str  # e.g. `gfx90a_xnack`
    target: TargetId  # GPUs on which all of it loads
    rows: int


@dataclass(frozen=True, slots=True)
class SplitReport:
    """What was split: `rows_in == rows_out + len(rejected)`."""

    source: Path
    rows_in: int
    parts: tuple[SplitPart, ...]
    rejected: tuple[Rejected, ...]

    @property
    def rows_out(self) -> int:
        return sum(part.rows for part in self.parts)


def split_kdb(
    path: Path, folder: Path, *, strict: bool = False, force: bool = False
) -> SplitReport:
    """Write a file into `folder` for each architecture and xnack setting in a database.

    Code that runs under either setting goes with that for xnack off, or, if the database is
    named for xnack on, with that. Every record is unpacked and checked; nothing is written before
    all of them are.

    Parameters
    ----------
    strict
        Fail on a damaged record instead of leaving it out.
    force
        Replace files that exist.

    Raises
    ------
    InputError
        If a file to write exists.
    DatabaseError
        If the database is something else or damaged, or has in one part different code for one
        key, or code for different sramecc settings, which no file name can tell apart.
    HostError
        If it cannot be read, or a file not be written.
    """
    with open_source(path) as source:
        groups, targets = _sort(source)
        if strict:
            source.refuse_rejected()
        if not groups:
            raise DatabaseError(f"`{path}` has no record that can be used")
        with host_errors(f"use folder `{folder}`"):
            folder.mkdir(parents=True, exist_ok=True)
        paths = {db_id: folder / f"{db_id}.kdb" for db_id in sorted(groups)}
        for output in paths.values():
            check_output(output, [path], force=force)
        parts = tuple(
            SplitPart(
                output, db_id, targets[db_id], write_sorted(output, _part(source, groups[db_id]))
            )
            for db_id, output in paths.items()
        )
        rejected = tuple(source.rejected[number] for number in sorted(source.rejected))
        return SplitReport(path, source.count, parts, rejected)


def _sort(source: Source) -> tuple[dict[str, set[int]], dict[str, TargetId]]:
    """Numbers of the sound records for each db id, and what all of these load on."""
    groups: dict[str, set[int]] = defaultdict(set)
    targets: dict[str, TargetId] = {}
    last: dict[str, tuple[str, str]] = {}
    for row, record, target in check_records(_read(source)):
        if isinstance(target, DatabaseError):
            source.reject(row.number, row.kernel_name, target.message)
            continue
        db_id = _db_id(source.path, target)
        joined = join_targets(targets.get(db_id, target), target)
        if joined is None:
            raise DatabaseError(
                f"`{source.path}` has code for `{targets[db_id]}` and for `{target}`, and MIOpen "
                f"looks for both in `{db_id}.kdb`",
                context=(f"kernel: {record.kernel_name}", f"options: {record.kernel_args}"),
            )
        if last.get(db_id) == row.key:
            raise DatabaseError(
                f"`{source.path}` has two records of `{record.kernel_name}` with one key for "
                f"`{db_id}.kdb`",
                context=(f"options: {record.kernel_args}",),
                hint=f"kdbforge kdb prune {source.path} -o FILE removes the second of equal ones",
            )
        last[db_id] = row.key
        targets[db_id] = joined
        groups[db_id].add(row.number)
    return groups, targets


def _db_id(path: Path, target: TargetId) -> str:
    """The name without CU count that MIOpen gives to databases for this code.

    Only xnack that is on is named (target_properties.cpp).
    """
    named = f"{target.arch}_xnack"
    on = target.xnack or (target.xnack is None and path.name.startswith(named))
    return named if on else target.arch


def _read(source: Source) -> Iterator[tuple[Row, Record]]:
    for row in source.rows():
        record = source.record(row)
        if record is not None:
            yield row, record


def _part(source: Source, numbers: Collection[int]) -> Iterator[Record]:
    """The records of one part, checked once more as they are read once more."""
    chosen = (
        (row, record)
        for row in source.rows()
        if row.number in numbers and (record := source.record(row)) is not None
    )
    for _, record, target in check_records(chosen):
        if isinstance(target, DatabaseError):
            raise DatabaseError(f"`{source.path}` has changed while it was read")
        yield record
