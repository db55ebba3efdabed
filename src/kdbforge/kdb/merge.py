"""Merges kernel databases into one that MIOpen can use as system database.

Inputs are never modified, and code for different architectures or settings never gets together.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from pathlib import Path

from kdbforge.errors import DatabaseError
from kdbforge.kdb.record import Record
from kdbforge.kdb.source import (
    Rejected,
    Row,
    Source,
    check_name,
    check_output,
    check_records,
    join_targets,
    open_source,
)
from kdbforge.kdb.writer import write_sorted
from kdbforge.model.target import TargetId

__all__ = ["Conflict", "InputReport", "MergeInput", "MergeReport", "OnConflict", "merge_kdbs"]

#: Conflicts that an error lists.
_LISTED = 10


class OnConflict(StrEnum):
    """Which object is taken where inputs have different ones for one key."""

    ERROR = "error"
    FIRST = "first"  # that of the input named first
    LAST = "last"
    NEWEST = "newest-manifest"  # that of the newest libMIOpen, by the manifests of the inputs


@dataclass(frozen=True, slots=True)
class MergeInput:
    """A database to merge, and the version of the libMIOpen that its manifest names."""

    path: Path
    release: tuple[int, ...] | None = None  # None: it has no manifest


@dataclass(frozen=True, slots=True)
class InputReport:
    """What became of one input."""

    path: Path
    rows: int
    rejected: tuple[Rejected, ...]
    error: str = ""  # why none of it was used; empty: it was
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Conflict:
    """A key with different objects, and the input whose object was taken."""

    kernel_name: str
    kernel_args: str
    paths: tuple[Path, ...]
    taken: Path | None  # None: there was no telling


@dataclass(frozen=True, slots=True)
class MergeReport:
    """What was merged: `rows_in == rows_out + same + replaced + rejected`."""

    path: Path
    target: TargetId  # GPUs on which all of it loads
    rows_in: int
    rows_out: int
    same: int  # rows left out since an equal one was written
    replaced: int  # rows left out in favour of another object
    inputs: tuple[InputReport, ...]
    conflicts: tuple[Conflict, ...]

    @property
    def rejected(self) -> int:
        return sum(len(report.rejected) for report in self.inputs)

    @property
    def complete(self) -> bool:
        """Whether no input and no row was left out as damaged."""
        return not self.rejected and not any(report.error for report in self.inputs)


def merge_kdbs(
    path: Path,
    inputs: Sequence[MergeInput],
    *,
    on_conflict: OnConflict = OnConflict.ERROR,
    strict: bool = False,
    force: bool = False,
) -> MergeReport:
    """Merge databases of one architecture and compatible settings into `path`.

    Every record is unpacked and checked. A damaged input or record is left out and reported.
    The file is written whole or not at all, sorted, with journal mode `delete`; it does not
    depend on the order of the inputs, but for the policies `first` and `last`.

    Parameters
    ----------
    strict
        Fail on damage.
    force
        Replace `path` if it exists.

    Raises
    ------
    InputError
        If `path` is an input, exists, or is named for another GPU than the records are for.
    DatabaseError
        If inputs are for different GPUs or in conflict, or nothing is left of them.
    HostError
        If an input cannot be read or the output not be written.
    """
    check_output(path, [entry.path for entry in inputs], force=force)
    with ExitStack() as stack:
        merger = _Merger(path, on_conflict, strict=strict)
        for entry in inputs:
            merger.open(stack, entry)
        written = write_sorted(path, merger.records())
    return merger.report(written)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A record for a key, by the position of its input."""

    index: int
    row: Row
    record: Record


class _Merger:
    def __init__(self, path: Path, on_conflict: OnConflict, *, strict: bool):
        self._path = path
        self._on_conflict = on_conflict
        self._strict = strict
        self._inputs: list[MergeInput] = []
        self._sources: list[Source] = []
        self._failed: list[InputReport] = []
        self._target: tuple[TargetId, Path] | None = None
        self._conflicts: list[Conflict] = []
        self._same = self._replaced = 0

    def open(self, stack: ExitStack, entry: MergeInput) -> None:
        try:
            source = stack.enter_context(open_source(entry.path))
        except DatabaseError as error:
            if self._strict:
                raise
            self._failed.append(InputReport(entry.path, 0, (), error.message))
        else:
            self._sources.append(source)
            self._inputs.append(entry)

    def records(self) -> Iterator[Record]:
        """The records of the output in the order of their keys; checks everything at the end."""
        for _, group in groupby(self._checked(), key=lambda found: found.record.key):
            taken = self._choose(list(group))
            if taken is not None:
                yield taken.record
        for source in self._sources:
            if self._strict:
                source.refuse_rejected()
        self._refuse_conflicts()
        if self._target is None:
            raise DatabaseError(
                "There is nothing to merge: no input has a record that can be used",
                context=self._damage(),
            )
        check_name(self._path, self._target[0])

    def report(self, written: int) -> MergeReport:
        assert self._target is not None
        reports = [
            InputReport(
                source.path,
                source.count,
                tuple(source.rejected[number] for number in sorted(source.rejected)),
                notes=_notes(source),
            )
            for source in self._sources
        ]
        return MergeReport(
            path=self._path,
            target=self._target[0],
            rows_in=sum(source.count for source in self._sources),
            rows_out=written,
            same=self._same,
            replaced=self._replaced,
            inputs=(*reports, *self._failed),
            conflicts=tuple(self._conflicts),
        )

    def _checked(self) -> Iterator[_Candidate]:
        for (index, row), record, target in check_records(self._read()):
            if isinstance(target, DatabaseError):
                self._sources[index].reject(row.number, row.kernel_name, target.message)
            else:
                self._join(self._sources[index].path, record, target)
                yield _Candidate(index, row, record)

    def _read(self) -> Iterator[tuple[tuple[int, Row], Record]]:
        streams = [_stream(index, source) for index, source in enumerate(self._sources)]
        for _, index, _, row in heapq.merge(*streams):
            record = self._sources[index].record(row)
            if record is not None:
                yield (index, row), record

    def _join(self, path: Path, record: Record, target: TargetId) -> None:
        if self._target is None:
            self._target = target, path
            return
        joined = join_targets(self._target[0], target)
        if joined is None:
            raise DatabaseError(
                f"`{record.kernel_name}` of `{path}` is for `{target}`, and other records are "
                f"for `{self._target[0]}`; one database holds code for one kind of GPU",
                context=(f"the others: `{self._target[1]}`", f"options: {record.kernel_args}"),
                hint=f"merge them apart, or split it first: kdbforge kdb split {path} -o DIR",
            )
        if joined != self._target[0]:
            self._target = joined, path

    def _choose(self, found: list[_Candidate]) -> _Candidate | None:
        """The candidate to write; None if the policy does not tell."""
        classes = _classes(found)
        chosen = classes[0] if len(classes) == 1 else self._by_policy(found, classes)
        self._same += sum(len(members) - 1 for members in classes)
        self._replaced += len(classes) - 1
        taken = self._member(chosen) if chosen else None
        if len(classes) > 1:
            paths = tuple(dict.fromkeys(self._sources[c.index].path for c in found))
            where = self._sources[taken.index].path if taken else None
            self._conflicts.append(Conflict(*found[0].record.key, paths, where))
        return taken

    def _by_policy(
        self, found: list[_Candidate], classes: list[list[_Candidate]]
    ) -> list[_Candidate] | None:
        if self._on_conflict is OnConflict.FIRST:
            return classes[0]
        if self._on_conflict is OnConflict.LAST:
            return next(members for members in classes if found[-1] in members)
        if self._on_conflict is OnConflict.NEWEST:
            return self._newest(classes)
        return None

    def _newest(self, classes: list[list[_Candidate]]) -> list[_Candidate] | None:
        ranked = []
        for members in classes:
            releases = [self._inputs[member.index].release for member in members]
            known = [release for release in releases if release is not None]
            if not known:
                return None  # an object of unknown age may be the newest
            ranked.append((max(known), members))
        ranked.sort(key=lambda entry: entry[0])
        return ranked[-1][1] if ranked[-1][0] != ranked[-2][0] else None

    def _member(self, members: list[_Candidate]) -> _Candidate:
        """One of those with the same object; packed best, where the order shall not matter."""
        if self._on_conflict is OnConflict.FIRST:
            return members[0]
        if self._on_conflict is OnConflict.LAST:
            return members[-1]
        return min(members, key=_packing)

    def _refuse_conflicts(self) -> None:
        open_ones = [conflict for conflict in self._conflicts if conflict.taken is None]
        if not open_ones:
            return
        lines = [
            f"{conflict.kernel_name}{conflict.kernel_args} in "
            + ", ".join(f"`{path}`" for path in conflict.paths)
            for conflict in open_ones[:_LISTED]
        ]
        more = [f"and {len(open_ones) - _LISTED} more"] if len(open_ones) > _LISTED else []
        why = ""
        if self._on_conflict is OnConflict.NEWEST:
            why = ", and the manifests do not tell which is the newest"
        raise DatabaseError(
            f"{len(open_ones)} keys have different code in the inputs{why}",
            context=(*lines, *more),
            hint="they come from different compilers, settings or MIOpens; "
            "choose with --on-conflict first or last",
        )

    def _damage(self) -> tuple[str, ...]:
        lines = [f"`{report.path}`: {report.error}" for report in self._failed]
        for source in self._sources:
            lines += [f"`{source.path}`: {bad.reason}" for bad in source.rejected.values()]
        return tuple(lines[:_LISTED])


def _stream(index: int, source: Source) -> Iterator[tuple[tuple[str, str], int, int, Row]]:
    for row in source.rows():
        yield row.key, index, row.number, row


def _classes(found: list[_Candidate]) -> list[list[_Candidate]]:
    """Candidates by their objects, in the order in which the objects come."""
    classes: list[list[_Candidate]] = []
    for candidate in found:
        for members in classes:
            if _same_object(members[0].record, candidate.record):
                members.append(candidate)
                break
        else:
            classes.append([candidate])
    return classes


def _same_object(one: Record, other: Record) -> bool:
    if one.kernel_hash != other.kernel_hash:
        return False
    # Equal MD5 is no proof in a stranger's file.
    packed = (one.kernel_blob, one.uncompressed_size) == (
        other.kernel_blob,
        other.uncompressed_size,
    )
    return packed or one.unpack() == other.unpack()


def _packing(candidate: _Candidate) -> tuple[bool, int, bytes]:
    record = candidate.record
    return record.uncompressed_size == 0, len(record.kernel_blob), record.kernel_blob


def _notes(source: Source) -> tuple[str, ...]:
    if source.facts.journal_mode == "wal":
        return ()
    logs = [name for name in source.facts.side_files if name.endswith("-wal")]
    return tuple(
        f"`{log}` lies beside it and does not belong to it; it was not read" for log in logs
    )
