"""Removes records from a kernel database: what is not wanted, stale, damaged or there twice.

Each record that is kept has been checked, and the file is replaced as a whole.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import groupby
from pathlib import Path

from kdbforge.errors import DatabaseError, InputError
from kdbforge.files import host_errors
from kdbforge.kdb.record import Record
from kdbforge.kdb.source import Row, Source, check_output, check_records, open_source
from kdbforge.kdb.writer import write_sorted

__all__ = ["PruneReport", "PruneRules", "Removed", "mentions_kernel_file", "prune_kdb"]


@dataclass(frozen=True, slots=True)
class PruneRules:
    """What to remove, besides damaged records and repeats; nothing by default."""

    keep: frozenset[tuple[str, str]] | None = None  # keys outside of which all goes
    kernels: tuple[str, ...] = ()  # globs of kernel files that go; `.o` may be left out
    library: Path | None = None  # libMIOpen: what it does not know goes


@dataclass(frozen=True, slots=True)
class Removed:
    """A record that is not kept, and the rule that it falls under."""

    kernel_name: str
    kernel_args: str
    stored_size: int
    rule: str  # "plan", "kernel", "stale", "duplicate" or "damaged"
    reason: str


@dataclass(frozen=True, slots=True)
class PruneReport:
    """What was, or would be, removed: `rows_in == rows_out + len(removed)`."""

    source: Path
    output: Path | None  # None: nothing was written
    rows_in: int
    rows_out: int
    stored_in: int  # bytes of blobs
    stored_out: int
    removed: tuple[Removed, ...]


def prune_kdb(
    path: Path,
    rules: PruneRules,
    output: Path | None = None,
    *,
    strict: bool = False,
    force: bool = False,
) -> PruneReport:
    """Write what the rules leave of a database to `output`, which may be `path` itself.

    Without `output` nothing is written; the report says what would be removed.

    Parameters
    ----------
    strict
        Fail on a damaged record instead of removing it.
    force
        Replace `output` if it exists.

    Raises
    ------
    InputError
        If `output` exists, or is `path` in WAL mode: MIOpen may be using it.
    DatabaseError
        If the database is something else or damaged, has different code for one key, or nothing
        of it would be left.
    HostError
        If a file cannot be read or written.
    """
    with open_source(path) as source:
        if output is not None:
            _check_output(source, output, force=force)
        pruner = _Pruner(source, rules, strict=strict)
        if output is None:
            kept = sum(1 for _ in pruner.records())
        else:
            kept = write_sorted(output, pruner.records())
        return pruner.report(output, kept)


def _check_output(source: Source, output: Path, *, force: bool) -> None:
    in_place = output.exists() and output.samefile(source.path)
    if in_place and (source.facts.journal_mode == "wal" or source.facts.side_files):
        raise InputError(
            f"`{source.path}` is in WAL mode or has side files: MIOpen may be using it",
            hint=f"kdbforge kdb prune {source.path} -o FILE",
        )
    if in_place and output.is_symlink():
        raise InputError(
            f"`{output}` is a link, and would be replaced by a file",
            hint=f"name the file itself: {output.resolve()}",
        )
    check_output(output, [], force=force or in_place)


class _Pruner:
    def __init__(self, source: Source, rules: PruneRules, *, strict: bool):
        self._source = source
        self._strict = strict
        self._rules = rules
        self._removed: list[Removed] = []
        self._numbers: set[int] = set()
        self._stale: dict[str, bool] = {}
        self._stored_in = self._stored_out = 0

    def records(self) -> Iterator[Record]:
        """What is kept, in the order of the keys."""
        checked = check_records(self._wanted())
        kept = False
        for _, group in groupby(self._sound(checked), key=lambda found: found[1].key):
            (_, first), *repeats = group
            for row, record in repeats:
                self._refuse_other_code(first, record)
                self._remove(row, "duplicate", "its key is there twice, with the same code")
            self._stored_out += len(first.kernel_blob)
            kept = True
            yield first
        if self._strict:
            self._source.refuse_rejected()
        if not kept:
            raise DatabaseError(
                f"Nothing of `{self._source.path}` would be left: {self._source.count} records "
                "would be removed",
                context=tuple(dict.fromkeys(entry.reason for entry in self._removed))[:10],
                hint="MIOpen reads no other database where it finds an empty one",
            )

    def report(self, output: Path | None, kept: int) -> PruneReport:
        # Where even the key cannot be read there was no row to remove.
        nameless = [
            Removed("", "", 0, "damaged", bad.reason)
            for bad in self._source.rejected.values()
            if bad.number not in self._numbers
        ]
        return PruneReport(
            self._source.path,
            output,
            self._source.count,
            kept,
            self._stored_in,
            self._stored_out,
            tuple(sorted((*self._removed, *nameless), key=_key)),
        )

    def _wanted(self) -> Iterator[tuple[Row, Record]]:
        for row in self._source.rows():
            self._stored_in += row.stored_size
            verdict = self._verdict(row)
            if verdict is not None:
                self._remove(row, *verdict)
                continue
            record = self._source.record(row)
            if record is None:
                self._remove(row, "damaged", self._source.rejected[row.number].reason)
            else:
                yield row, record

    def _sound(self, checked: Iterator[tuple[Row, Record, object]]) -> Iterator[tuple[Row, Record]]:
        for row, record, target in checked:
            if isinstance(target, DatabaseError):
                self._source.reject(row.number, row.kernel_name, target.message)
                self._remove(row, "damaged", target.message)
            else:
                yield row, record

    def _verdict(self, row: Row) -> tuple[str, str] | None:
        """Rule and reason for removing a record; None to keep it."""
        file = row.kernel_name.removesuffix(".o")
        for glob in self._rules.kernels:
            if fnmatchcase(file, glob) or fnmatchcase(row.kernel_name, glob):
                return "kernel", f"its kernel file fits `{glob}`"
        if self._rules.keep is not None and row.key not in self._rules.keep:
            return "plan", "the plan does not have it"
        if self._rules.library is not None and self._is_stale(file):
            return "stale", f"the library does not know `{file}`"
        return None

    def _is_stale(self, file: str) -> bool:
        assert self._rules.library is not None
        if file not in self._stale:
            self._stale[file] = not mentions_kernel_file(self._rules.library, file)
        return self._stale[file]

    def _refuse_other_code(self, first: Record, record: Record) -> None:
        if first.unpack() != record.unpack():
            raise DatabaseError(
                f"`{self._source.path}` has two records of `{record.kernel_name}` with one key "
                "and different code",
                context=(f"options: {record.kernel_args}",),
                hint=f"choose one: kdbforge kdb merge --on-conflict first OUT {self._source.path}",
            )

    def _remove(self, row: Row, rule: str, reason: str) -> None:
        self._numbers.add(row.number)
        self._removed.append(Removed(*row.key, row.stored_size, rule, reason))


def _key(entry: Removed) -> tuple[str, str]:
    return entry.kernel_name, entry.kernel_args


def mentions_kernel_file(library: Path, file: str) -> bool:
    """Whether a library has the name in its bytes.

    Every kernel source is embedded under its name, and every solver names its kernel file. A name
    that is part of a longer one counts too: a record too many is no harm.
    """
    with (
        host_errors(f"read `{library}`"),
        library.open("rb") as stream,
        mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        return data.find(file.encode()) >= 0
