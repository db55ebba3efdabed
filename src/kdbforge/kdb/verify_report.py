"""What verifying a kernel database comes to: findings, their levels, and MIOpen's reaction.

Values only; `diagnose`, `verify_row` and `verify` fill them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from pathlib import Path

__all__ = ["Fate", "Finding", "Level", "Report", "Step", "record_fate"]

#: Findings that say that something could not be checked, or is not as was asked for.
_ALWAYS_FAIL = frozenset({"not-checked", "manifest", "plan"})


class Level(IntEnum):
    """How bad a finding is for who uses the database with MIOpen."""

    NOTE = 0
    SUSPICIOUS = 1  # MIOpen does not mind, and yet it is not what MIOpen writes
    NEVER_HITS = 2  # MIOpen does not find it, and compiles
    FATAL = 3  # MIOpen finds it and fails


class Fate(Enum):
    """What MIOpen makes of a file or record when it asks for a kernel."""

    HIT = "hit"
    MISS = "miss"
    FATAL = "fatal"


@dataclass(frozen=True, slots=True)
class Step:
    """One step of opening the file, in MIOpen's order; those behind a failed one are not taken."""

    name: str
    passed: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is to be said of the file (`record` is None) or of one record."""

    level: Level
    check: str  # kebab-case name of what was checked
    message: str
    record: int | None = None
    kernel: str = ""  # kernel file of the record

    def failing(self, *, strict: bool = False) -> bool:
        """Whether the database is not to be used; with `strict` suspicions count."""
        lowest = Level.SUSPICIOUS if strict else Level.NEVER_HITS
        return self.level >= lowest or self.check in _ALWAYS_FAIL


@dataclass(frozen=True, slots=True)
class Report:
    """All that was found in one file."""

    path: Path
    kind: str  # what the file is, in words
    fate: Fate  # HIT: this user's MIOpen, here and now, looks kernels up in the file
    readable: bool  # False: this process could not read it
    steps: tuple[Step, ...]
    records: int
    sound: int  # records that MIOpen can find and load
    findings: tuple[Finding, ...]  # no more than some for each check
    counts: Mapping[tuple[Level, str], int]  # of all findings, by level and check

    def failing(self, *, strict: bool = False) -> bool:
        return any(Finding(level, check, "").failing(strict=strict) for level, check in self.counts)


def record_fate(findings: Iterable[Finding]) -> Fate:
    """What MIOpen makes of a record with these findings."""
    levels = {finding.level for finding in findings}
    # What is never looked up does no harm.
    if Level.NEVER_HITS in levels:
        return Fate.MISS
    return Fate.FATAL if Level.FATAL in levels else Fate.HIT
