"""Trust by reproduction: compiles the keys of a database again, and compares with what it holds.

Nothing in the database is believed, and none of its code is run.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path

from kdbforge.codeobject.compare import Comparison, Likeness, compare_objects
from kdbforge.compiler.codediff import CodeDiff, diff_code
from kdbforge.compiler.pool import JobFailure, Progress, compile_jobs
from kdbforge.errors import DatabaseError, InputError
from kdbforge.kdb.prune import mentions_kernel_file
from kdbforge.kdb.record import Record
from kdbforge.kdb.source import Row, Source, check_records, open_source
from kdbforge.model.device import Gpu
from kdbforge.model.plan import Plan
from kdbforge.model.policy import POLICIES
from kdbforge.model.problem import Problem
from kdbforge.model.target import TargetId
from kdbforge.model.toolchain import Toolchain
from kdbforge.planner.derive import Derivation, Derived, Key, Way, fitting_gpus
from kdbforge.planner.plan import make_plan
from kdbforge.store.store import Store

__all__ = [
    "RebuildObserver",
    "RebuildOptions",
    "RebuildReport",
    "Rebuilt",
    "Verdict",
    "rebuild_database",
]

#: Problems that are planned before looking whether all keys have been seen.
_CHUNK = 48


class Verdict(Enum):
    """What became of one record; the first two speak for it."""

    IDENTICAL = "identical"
    SAME_CODE = "same code, other notes"
    DIFFERENT_CODE = "different code"
    STALE = "stale"
    NOT_REPRODUCIBLE = "not reproducible"
    NOT_DERIVED = "cannot be derived"
    DAMAGED = "damaged"

    @property
    def reproduced(self) -> bool:
        """Whether the toolchain makes this code of this key."""
        return self in (Verdict.IDENTICAL, Verdict.SAME_CODE)


@dataclass(frozen=True, slots=True)
class RebuildOptions:
    """How to rebuild; field comments name the command line's flag."""

    workers: int = field(default_factory=lambda: os.cpu_count() or 1)  # -j
    kernels: tuple[str, ...] = ()  # --kernel: globs of kernel files; none: all
    gpu: Gpu | None = None  # --gpu: whose CU count to plan for; None: that of the file's name
    timeout_s: float = 600.0  # --timeout: wall seconds that one job may take
    memory_bytes: int | None = None  # --memory: what one job may allocate
    max_diffs: int = 20  # records whose code is disassembled where it differs


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """One record, and what came of compiling its key."""

    number: int  # its id
    kernel_name: str
    kernel_args: str
    target: str  # target ID of its code object; empty where it cannot be read
    verdict: Verdict
    reasons: tuple[str, ...] = ()
    way: Way | None = None  # how its job was found
    job: str = ""  # the job's key
    diffs: tuple[CodeDiff, ...] = ()


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """All records, in the order of their keys."""

    path: Path
    toolchain: str
    records: tuple[Rebuilt, ...]

    @property
    def counts(self) -> Mapping[Verdict, int]:
        """Number of records for every verdict."""
        found = Counter(record.verdict for record in self.records)
        return {verdict: found[verdict] for verdict in Verdict}

    @property
    def reproduced(self) -> bool:
        """Whether every record holds what this toolchain makes of its key."""
        return all(record.verdict.reproduced for record in self.records)


class RebuildObserver:
    """Is told how far a rebuild is; this one does nothing."""

    def deriving(self, found: int, total: int) -> None:
        """Records whose compile job is known."""

    def trying(self, progress: Progress) -> None:
        """A job that was found by analogy started or ended."""

    def compiling(self, progress: Progress) -> None:
        """A job started or ended."""

    def comparing(self, done: int, total: int) -> None:
        """Records compared."""


@dataclass(frozen=True, slots=True)
class _Item:
    row: Row
    target: TargetId


@dataclass(slots=True)
class _Group:
    """The records whose objects are for one target."""

    derivation: Derivation
    rows: dict[Key, list[Row]]
    reasons: dict[Key, str] = field(default_factory=dict)  # why a key is not looked for
    guesses: dict[Key, str] = field(default_factory=dict)  # what came of those in vain


def rebuild_database(
    toolchain: Toolchain,
    path: Path,
    problems: Sequence[Problem],
    plans: Sequence[Plan],
    store: Store,
    work: Path,
    options: RebuildOptions,
    observer: RebuildObserver | None = None,
) -> RebuildReport:
    """Compile the key of every record with the toolchain, and compare.

    Parameters
    ----------
    problems
        What to ask libMIOpen about until all keys have been seen.
    plans
        Plans of this toolchain whose jobs are used first. They are believed: who made them
        decides what is compiled.
    work
        An existing folder for temporary files; what is made in it is removed again.

    Raises
    ------
    InputError
        If no record has a kernel file that was asked for.
    DatabaseError
        If the file is no kernel database, or damaged as a whole.
    KdbforgeError
        As `make_plan` and `compile_jobs` do.
    """
    with open_source(path) as source:
        run = _Rebuild(toolchain, source, store, work, options, observer or RebuildObserver())
        return run.run(problems, plans)


class _Rebuild:
    def __init__(
        self,
        toolchain: Toolchain,
        source: Source,
        store: Store,
        work: Path,
        options: RebuildOptions,
        observer: RebuildObserver,
    ):
        self._toolchain = toolchain
        self._source = source
        self._store = store
        self._work = work
        self._options = options
        self._observer = observer
        self._damaged: list[Rebuilt] = []
        self._failures: dict[str, JobFailure] = {}
        self._known_files: dict[str, str] = {}
        self._diffs_left = options.max_diffs

    def run(self, problems: Sequence[Problem], plans: Sequence[Plan]) -> RebuildReport:
        items = self._read()
        groups = self._group(items)
        for group in groups.values():
            for plan in plans:
                group.derivation.take(plan, Way.PLAN)
        self._note(groups)
        for group in groups.values():
            if group.derivation.open:
                self._search(group, groups, problems)
        jobs = [derived for group in groups.values() for derived in group.derivation.found.values()]
        self._compile(jobs, groups.values(), self._observer.compiling)
        records = [*self._damaged]
        for number, item in enumerate(items):
            self._observer.comparing(number, len(items))
            records.append(self._judge(item, groups[item.target]))
        records.sort(key=lambda record: (record.kernel_name, record.kernel_args, record.number))
        return RebuildReport(self._source.path, self._toolchain.name, tuple(records))

    # Reading.

    def _read(self) -> list[_Item]:
        """The sound records that are wanted; the damaged ones are noted."""
        items = []
        for row, _, target in check_records(self._wanted()):
            if isinstance(target, DatabaseError):
                self._note_damage(row.number, *row.key, target.message)
            else:
                items.append(_Item(row, target))
        noted = {record.number for record in self._damaged}
        for bad in self._source.rejected.values():
            if bad.number not in noted and not self._options.kernels:
                self._note_damage(bad.number, bad.kernel_name, "", bad.reason)
        if self._options.kernels and not items and not self._damaged:
            globs = ", ".join(f"`{glob}`" for glob in self._options.kernels)
            raise InputError(
                f"No kernel file of `{self._source.path}` fits {globs}",
                hint=f"kdbforge kdb ls {self._source.path}",
            )
        return items

    def _wanted(self) -> Iterator[tuple[Row, Record]]:
        for row in self._source.rows():
            if not self._is_wanted(row.kernel_name):
                continue
            record = self._source.record(row)
            if record is None:
                reason = self._source.rejected[row.number].reason
                self._note_damage(row.number, *row.key, reason)
            else:
                yield row, record

    def _is_wanted(self, kernel_name: str) -> bool:
        names = (kernel_name, kernel_name.removesuffix(".o"))
        globs = self._options.kernels
        return not globs or any(fnmatchcase(name, glob) for name in names for glob in globs)

    def _note_damage(self, number: int, name: str, args: str, reason: str) -> None:
        self._damaged.append(Rebuilt(number, name, args, "", Verdict.DAMAGED, (reason,)))

    # Finding jobs.

    def _group(self, items: Sequence[_Item]) -> dict[TargetId, _Group]:
        """Records by target, those of the most exact one first: its device may have made all."""
        rows: dict[TargetId, dict[Key, list[Row]]] = {}
        for item in items:
            rows.setdefault(item.target, {}).setdefault(item.row.key, []).append(item.row)
        groups = {}
        for target in sorted(rows, key=lambda target: (-len(str(target)), str(target))):
            reasons = {key: why for key in rows[target] if (why := self._hopeless(key))}
            keys = rows[target].keys() - reasons.keys()
            derivation = Derivation(target, keys, self._toolchain.fingerprint)
            groups[target] = _Group(derivation, rows[target], reasons)
        return groups

    def _hopeless(self, key: Key) -> str:
        """Why libMIOpen cannot ask for a key; empty: it may."""
        file = key[0].removesuffix(".o")
        if file not in self._known_files:
            reason = ""
            if not mentions_kernel_file(self._toolchain.libmiopen, file):
                reason = f"The library does not know `{file}`"
            elif file.endswith(".s") and not self._toolchain.asm_kernels:
                reason = "The sources of assembly kernels were removed from the library"
            self._known_files[file] = reason
        return self._known_files[file]

    def _search(
        self, group: _Group, groups: Mapping[TargetId, _Group], problems: Sequence[Problem]
    ) -> None:
        """Ask libMIOpen about problems, in more and more ways, until every key has a job."""
        basename = self._source.path.name.partition(".")[0]
        target = group.derivation.target
        try:
            gpus = fitting_gpus(self._toolchain, target, basename, self._options.gpu)
        except InputError as error:
            group.reasons.update(dict.fromkeys(group.derivation.open, error.message))
            return
        # All ways of asking about few problems show most kernel files, and so most analogies.
        starts = range(0, len(problems), _CHUNK)
        for start, gpu, policy in product(starts, gpus, POLICIES.values()):
            plan = make_plan(
                self._toolchain, [gpu], problems[start : start + _CHUNK], policy, self._work,
                workers=self._options.workers,
            )  # fmt: skip
            for other in groups.values():
                other.derivation.take(plan, Way.LIBRARY)
            self._guess(group)
            self._note(groups)
            if not group.derivation.open:
                return

    def _guess(self, group: _Group) -> None:
        """Try jobs by analogy for keys that no problem asked for; equal results settle them."""
        guessed = group.derivation.by_analogy()
        if not guessed:
            return
        self._compile(list(guessed.values()), [group], self._observer.trying)
        for key, derived in guessed.items():
            try:
                outcomes = [self._compare(row, derived) for row in group.rows[key]]
            except DatabaseError as error:
                group.guesses[key] = error.message
                continue
            likely = [found for found in outcomes if found is not None]
            if any(found.likeness is not Likeness.OTHER_CODE for found in likely):
                group.derivation.settle(key, derived)
            elif likely:
                what = "; ".join(likely[0].differences)
                group.guesses[key] = f"Compiled like another key of this kernel file: {what}"
            else:
                group.guesses[key] = "Options like these do not compile with this kernel file"

    def _note(self, groups: Mapping[TargetId, _Group]) -> None:
        total = sum(len(group.rows) for group in groups.values())
        found = sum(len(group.derivation.found) for group in groups.values())
        self._observer.deriving(found, total)

    # Compiling and comparing.

    def _compile(
        self,
        wanted: Sequence[Derived],
        groups: Iterable[_Group],
        progress: Callable[[Progress], None],
    ) -> None:
        blobs = {
            digest: blob for group in groups for digest, blob in group.derivation.blobs.items()
        }
        report = compile_jobs(
            self._toolchain,
            {derived.key: derived.job for derived in wanted},
            blobs,
            self._store,
            workers=self._options.workers,
            timeout_s=self._options.timeout_s,
            memory_bytes=self._options.memory_bytes,
            work_dir=self._work,
            progress=progress,
        )
        self._failures.update({failure.key: failure for failure in report.failures})

    def _recorded(self, row: Row) -> bytes:
        """The code object of a row, which was sound when it was read first.

        Raises
        ------
        DatabaseError
            If it is not any more.
        """
        record = self._source.record(row)
        if record is None:
            raise DatabaseError(self._source.rejected[row.number].reason)
        return record.unpack()

    def _rebuilt(self, derived: Derived) -> bytes | None:
        entry = self._store.get(derived.key)
        if entry is None:
            return None
        return Record(
            "rebuilt", "", entry.blob, entry.kernel_hash, entry.uncompressed_size
        ).unpack()

    def _compare(self, row: Row, derived: Derived) -> Comparison | None:
        """Compare a row with its rebuilt object; None if there is none."""
        rebuilt = self._rebuilt(derived)
        return None if rebuilt is None else compare_objects(self._recorded(row), rebuilt)

    def _judge(self, item: _Item, group: _Group) -> Rebuilt:
        derived = group.derivation.found.get(item.row.key)
        if derived is None:
            return self._result(item, Verdict.NOT_DERIVED, _why_open(item.row.key, group), None)
        try:
            found = self._compare(item.row, derived)
            if found is None:
                verdict, reasons = Verdict.NOT_REPRODUCIBLE, self._why_failed(derived)
                return self._result(item, verdict, reasons, derived)
            diffs = self._diff(item.row, derived, found.functions)
        except DatabaseError as error:
            return self._result(item, Verdict.DAMAGED, (error.message,), derived)
        return self._result(
            item, _verdict(found), (*found.differences, *found.notes), derived, diffs
        )

    def _diff(self, row: Row, derived: Derived, functions: tuple[str, ...]) -> tuple[CodeDiff, ...]:
        """How the named functions differ; nothing where enough has been disassembled."""
        rebuilt = self._rebuilt(derived)
        if not functions or rebuilt is None or self._diffs_left <= 0:
            return ()
        self._diffs_left -= 1
        return diff_code(self._toolchain, self._recorded(row), rebuilt, functions)

    def _why_failed(self, derived: Derived) -> tuple[str, ...]:
        failure = self._failures.get(derived.key)
        if failure is None:
            return ("The store has lost the compiled object; it is too small for this database",)
        lines = failure.log.strip().splitlines()
        return (f"The compiler fails: {failure.reason}", *lines[-3:])

    def _result(
        self,
        item: _Item,
        verdict: Verdict,
        reasons: tuple[str, ...],
        derived: Derived | None,
        diffs: tuple[CodeDiff, ...] = (),
    ) -> Rebuilt:
        return Rebuilt(
            item.row.number, *item.row.key, str(item.target), verdict, reasons,
            derived.way if derived else None, derived.key if derived else "", diffs,
        )  # fmt: skip


def _verdict(found: Comparison) -> Verdict:
    if found.likeness is Likeness.IDENTICAL:
        return Verdict.IDENTICAL
    if found.likeness is Likeness.SAME_CODE:
        return Verdict.SAME_CODE
    return Verdict.STALE if found.other_source else Verdict.DIFFERENT_CODE


def _why_open(key: Key, group: _Group) -> tuple[str, ...]:
    reason = group.reasons.get(key, "No problem is known that asks for this key")
    return (reason, group.guesses[key]) if key in group.guesses else (reason,)
