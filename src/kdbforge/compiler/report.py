"""What a run of compile jobs says about itself: progress on the way, a report at the end."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CompileReport", "JobFailure", "Progress"]


@dataclass(frozen=True, slots=True)
class Progress:
    """State of a run; `in_store + done + failed` reaches `total`."""

    total: int
    in_store: int  # found in the store at the start
    done: int  # compiled, or served by another job of the same content
    failed: int
    running: tuple[str, ...]  # kernel files in work, sorted
    eta_seconds: float  # wall time to the end, from what the store has seen
    cpu_seconds: float  # of the children, so far


@dataclass(frozen=True, slots=True)
class JobFailure:
    """A job that gave no code object, after its retry."""

    key: str
    kernel_file: str
    reason: str  # "compiler error", "timeout", "out of memory", "crash: signal N"
    log: str  # last lines of what the compiler said


@dataclass(frozen=True, slots=True)
class CompileReport:
    """Sums of a run; `found + compiled + deduplicated + len(failures)` is the number of jobs."""

    found: int  # in the store already
    compiled: int
    deduplicated: int  # served by the object of a job with the same preprocessed source
    failures: tuple[JobFailure, ...]  # sorted by key
    wall_seconds: float
    cpu_seconds: float  # of all children, their start included
