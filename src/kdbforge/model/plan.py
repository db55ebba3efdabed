"""Plans: unique compile jobs, the records that they fill, and the problems that need them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kdbforge.model.job import Job
from kdbforge.model.problem import Problem
from kdbforge.model.toolchain import Toolchain

__all__ = ["GpuPlan", "Plan", "PlannedRecord", "ToolchainId", "Unplanned", "UnstableKey"]


@dataclass(frozen=True, slots=True)
class ToolchainId:
    """Which exact toolchain a plan or a database was made with."""

    name: str
    version: str
    miopen_version: str
    build_id: str
    fingerprint: str

    @classmethod
    def of(cls, toolchain: Toolchain) -> ToolchainId:
        return cls(
            toolchain.name,
            toolchain.version,
            toolchain.miopen_version,
            toolchain.build_id,
            toolchain.fingerprint,
        )


@dataclass(frozen=True, slots=True, order=True)
class PlannedRecord:
    """A record of a kernel database to be: MIOpen's key, and the key of the job that fills it."""

    kernel_name: str
    kernel_args: str
    job: str


@dataclass(frozen=True, slots=True, order=True)
class UnstableKey:
    """A key that came out differently when the same problem was planned again."""

    kernel_name: str
    kernel_args: str


@dataclass(frozen=True, slots=True)
class Unplanned:
    """A problem that MIOpen could not run in one of its ways, and MIOpen's own message."""

    problem: int  # index into Plan.problems
    call: str
    reason: str
    log: str
    absent: str = ""  # the function that this version of libMIOpen does not have
    unsupported: bool = False  # MIOpen says that it has no solution for it on this GPU


@dataclass(frozen=True, slots=True)
class GpuPlan:
    """What one GPU needs; records are sorted by key."""

    requested: str  # the user's words
    target: str
    num_cu: int
    basename: str  # of the database, as the library named it
    records: tuple[PlannedRecord, ...]
    needs: tuple[tuple[str, ...], ...]  # for each problem, the sorted keys of its jobs
    unplanned: tuple[Unplanned, ...]
    unstable: tuple[UnstableKey, ...]

    @property
    def failures(self) -> tuple[Unplanned, ...]:
        """What should have been planned: no database can help with the rest.

        Where MIOpen has no solution for any problem at all, something is wrong with the GPU or
        with the problems.
        """
        refused = {entry.problem for entry in self.unplanned if not entry.absent}
        all_refused = len(refused) == len(self.needs) and not any(self.needs)
        return tuple(
            entry
            for entry in self.unplanned
            if not entry.absent and (all_refused or not entry.unsupported)
        )

    @property
    def db_id(self) -> str:
        """The basename without its CU count: the name of a database for every CU count.

        The two spellings are MIOpen's (handle.hpp: GetDbBasename).
        """
        for suffix in (f"_{self.num_cu}", f"{self.num_cu:x}"):
            if self.basename.endswith(suffix):
                return self.basename.removesuffix(suffix)
        return self.basename


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that compiling and assembling need; `blobs` are job inputs by SHA-256."""

    toolchain: ToolchainId
    policy: str
    environment: Mapping[str, str]  # that builder and user must set alike
    problems: tuple[Problem, ...]
    gpus: tuple[GpuPlan, ...]
    jobs: Mapping[str, Job]
    blobs: Mapping[str, bytes]
