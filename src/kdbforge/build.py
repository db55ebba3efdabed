"""The whole flow as one call: plan, compile, assemble, prove."""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event

from kdbforge.compiler.pool import CompileReport, Progress, compile_jobs
from kdbforge.files import host_errors, lock_folder, sync_folder
from kdbforge.miopen.parallel import side_by_side
from kdbforge.model.device import Gpu
from kdbforge.model.plan import GpuPlan, Plan
from kdbforge.model.policy import Policy
from kdbforge.model.proof import Proof
from kdbforge.model.toolchain import Toolchain
from kdbforge.package.assemble import Assembly, assemble, group_gpus
from kdbforge.package.manifest import manifest_path, write_manifest
from kdbforge.planner.counts import every_cu_count
from kdbforge.planner.plan import make_plan
from kdbforge.problems import ProblemList
from kdbforge.prover.prove import Known, prove_kdbs
from kdbforge.store.store import Store

__all__ = [
    "BuildOptions",
    "BuildReport",
    "Observer",
    "build_databases",
    "compile_plan",
    "work_folder",
]

#: How temporary folders are named.
_PREFIX = ".kdbforge-"


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """How to build; field comments name the command line's flag."""

    policy: Policy  # --policy
    workers: int = field(default_factory=lambda: os.cpu_count() or 1)  # -j
    per_arch: bool = False  # --per-arch: one database per architecture, for every CU count
    prove: bool = True  # --no-prove
    timeout_s: float = 600.0  # --timeout: wall seconds that one job may take
    memory_bytes: int | None = None  # --memory: what one job may allocate
    work_dir: Path | None = None  # --work-dir; None: within the output folder


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build did; `databases` are at their final place."""

    plan: Plan
    compile: CompileReport
    databases: tuple[Assembly, ...]
    proofs: tuple[Proof, ...]

    @property
    def complete(self) -> bool:
        """Whether every problem was planned, every record built, and every proof succeeded.

        What a version of libMIOpen does not have, what it has no solution for, and what has an
        unstable key, no database can hold: none of them makes a build incomplete.
        """
        return not (
            any(gpu.failures for gpu in self.plan.gpus)
            or any(database.missing for database in self.databases)
            or not all(proof.proven for proof in self.proofs)
        )


class Observer:
    """Is told how far a build is; this one does nothing."""

    def planning(self, done: int, total: int) -> None:
        """Problems planned, over all GPUs."""

    def planned(self, plan: Plan) -> None:
        """The plan is made."""

    def compiling(self, progress: Progress) -> None:
        """A job started or ended."""

    def proving(self, plan: Plan) -> None:
        """The databases are written, and are about to be proven."""


def build_databases(
    toolchain: Toolchain,
    gpus: Sequence[Gpu],
    problems: ProblemList,
    store: Store,
    output: Path,
    options: BuildOptions,
    observer: Observer | None = None,
) -> BuildReport:
    """Build, and prove, a database for every GPU in the folder `output`.

    Databases and manifests appear in `output` when all of them are done; an interrupted build
    leaves nothing there, and finished jobs in the store.

    Raises
    ------
    BusyError
        If another build is writing into `output`.
    HostError
        If a folder cannot be written or the disk is full.
    KdbforgeError
        As `make_plan`, `compile_jobs`, `assemble` and `prove_kdbs` do.
    """
    observer = observer or Observer()
    if options.per_arch:
        gpus = every_cu_count(toolchain, gpus)
    with lock_folder(output), _staging_folder(output) as staging:
        with work_folder(options.work_dir or staging) as work:
            plan = make_plan(
                toolchain, gpus, problems.problems, options.policy, work,
                workers=options.workers, progress=observer.planning,
            )  # fmt: skip
            observer.planned(plan)
            compiled = compile_plan(toolchain, plan, store, work, options, observer)
            databases = tuple(
                assemble(name, group, store, staging)
                for name, group in group_gpus(plan, per_arch=options.per_arch).items()
            )
            proofs: tuple[Proof, ...] = ()
            if options.prove:
                observer.proving(plan)
                proofs = _prove(toolchain, gpus, plan, databases, work, options)
        for database in databases:
            own = {f"{gpu.target}/{gpu.num_cu}" for gpu in database.gpus}
            write_manifest(plan, problems.digest, database, [p for p in proofs if p.gpu in own])
        published = tuple(_publish(database, output) for database in databases)
    return BuildReport(plan, compiled, published, proofs)


def compile_plan(
    toolchain: Toolchain,
    plan: Plan,
    store: Store,
    work: Path,
    options: BuildOptions,
    observer: Observer,
) -> CompileReport:
    """Run what the store lacks of a plan's jobs."""
    return compile_jobs(
        toolchain,
        plan.jobs,
        plan.blobs,
        store,
        workers=options.workers,
        timeout_s=options.timeout_s,
        memory_bytes=options.memory_bytes,
        work_dir=work,
        progress=observer.compiling,
    )


@contextmanager
def _staging_folder(output: Path) -> Iterator[Path]:
    """A folder within the output for files that are not published yet.

    The caller holds the output's lock, so that those of killed builds can be cleared away.
    """
    for leftover in output.glob(f"{_PREFIX}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    with work_folder(output) as folder:
        yield folder


@contextmanager
def work_folder(parent: Path) -> Iterator[Path]:
    """A private folder for temporary files, removed whatever happens.

    Raises
    ------
    HostError
        If it cannot be made.
    """
    with host_errors(f"use work folder `{parent}`"):
        parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent)).resolve()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _prove(
    toolchain: Toolchain,
    gpus: Sequence[Gpu],
    plan: Plan,
    databases: Sequence[Assembly],
    work: Path,
    options: BuildOptions,
) -> tuple[Proof, ...]:
    """Prove every planned GPU against the database that holds its records."""
    home = {gpu_plan: database.path for database in databases for gpu_plan in database.gpus}

    def prove(gpu: Gpu, gpu_plan: GpuPlan, stop: Event) -> Proof:
        return prove_kdbs(
            toolchain, gpu, [home[gpu_plan]], plan.problems, options.policy, work,
            known=Known(
                frozenset((entry.problem, entry.call) for entry in gpu_plan.unplanned),
                frozenset(gpu_plan.unstable),
            ),
            stop=stop,
        )  # fmt: skip

    pairs = zip(gpus, plan.gpus, strict=True)
    return tuple(side_by_side([partial(prove, *pair) for pair in pairs], options.workers))


def _publish(database: Assembly, output: Path) -> Assembly:
    """Move a database and its manifest to their final place.

    The old manifest goes first: a manifest that is there always speaks of the database beside it.
    """
    target = output / database.path.name
    with host_errors(f"write `{target}`"):
        manifest_path(target).unlink(missing_ok=True)
        database.path.replace(target)
        manifest_path(database.path).replace(manifest_path(target))
        sync_folder(output)
    return dataclasses.replace(database, path=target)
