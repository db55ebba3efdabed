"""Makes a plan: for every GPU, which records MIOpen asks for and which jobs fill them.

Each GPU is planned twice: a key that differs between the two runs can never be found again.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event, Lock

from kdbforge.errors import InputError, VirtualGpuError
from kdbforge.kdb.reader import read_ukdb_rows
from kdbforge.kdb.record import Record
from kdbforge.miopen.parallel import side_by_side
from kdbforge.miopen.replay import Replay, ReplayOptions, library_environment, replay
from kdbforge.miopen.systemdb import link_system_db
from kdbforge.miopen.variables import check_variables
from kdbforge.model.device import Gpu
from kdbforge.model.job import Job
from kdbforge.model.plan import (
    GpuPlan,
    Plan,
    PlannedRecord,
    ToolchainId,
    Unplanned,
    UnstableKey,
)
from kdbforge.model.policy import Policy
from kdbforge.model.problem import Problem
from kdbforge.model.toolchain import Toolchain
from kdbforge.vgpu.journal import MARKER_PREFIX
from kdbforge.vgpu.process import CompileMode

__all__ = ["make_plan"]

#: What glibc fills memory with, in the first and in the second run (MALLOC_PERTURB_, mallopt(3);
#: 0: nothing), so that uninitialised memory in a key shows. Fresh memory is zero where nothing
#: fills it, and zero against non-zero shows an uninitialised flag, too.
_PERTURB = ("0", "170")
#: MIOpen allocates and frees large blocks all the time; memory that goes back to the system each
#: time is memory to fault in and to fill each time.
_MALLOC = {"MALLOC_TRIM_THRESHOLD_": str(1 << 30), "MALLOC_MMAP_THRESHOLD_": str(32 << 20)}

#: miopen.h: miopenStatusNotImplemented (no solver applies), miopenStatusUnsupportedOp (fusions).
_UNSUPPORTED = (6, 8)

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class _Run:
    """One planning run of one GPU."""

    basename: str
    jobs: Mapping[str, Job]  # by job key
    records: Mapping[tuple[str, str], str]  # job keys by kernel_name and kernel_args
    needs: tuple[frozenset[str], ...]  # for each problem, the keys of the jobs that it loaded
    unplanned: tuple[Unplanned, ...]


def make_plan(
    toolchain: Toolchain,
    gpus: Sequence[Gpu],
    problems: Sequence[Problem],
    policy: Policy,
    work_dir: Path,
    *,
    workers: int,
    progress: Progress | None = None,
) -> Plan:
    """Plan all problems for all GPUs.

    Parameters
    ----------
    work_dir
        An existing folder for temporary files; what is made in it is removed again.
    workers
        How many planning processes run at once.
    progress
        Called with problems done and problems in all, over GPUs and runs.

    Raises
    ------
    InputError
        If there is no problem or no GPU, or the policy has variables that cannot be set.
    VirtualGpuError
        If libMIOpen cannot be run on the virtual GPU at all.
    """
    if not problems or not gpus:
        raise InputError("Nothing to plan: no problem" if gpus else "Nothing to plan: no GPU")
    check_variables(toolchain, policy.shared)
    return _Planner(toolchain, gpus, tuple(problems), policy, work_dir, progress).plan(workers)


class _Planner:
    def __init__(
        self,
        toolchain: Toolchain,
        gpus: Sequence[Gpu],
        problems: tuple[Problem, ...],
        policy: Policy,
        work_dir: Path,
        progress: Progress | None,
    ):
        self._toolchain = toolchain
        self._gpus = gpus
        self._problems = problems
        self._policy = policy
        self._work_dir = work_dir
        self._progress = progress
        self._lock = Lock()
        self._done: dict[Path, int] = {}
        self._blobs: dict[str, bytes] = {}

    def plan(self, workers: int) -> Plan:
        system_db = link_system_db(self._toolchain, self._work_dir / "plan-system-db")
        tasks = [
            partial(self._run, gpu, perturb, self._work_dir / f"plan-{i}-{j}", system_db)
            for i, gpu in enumerate(self._gpus)
            for j, perturb in enumerate(_PERTURB)
        ]
        runs = side_by_side(tasks, workers)
        pairs = zip(self._gpus, runs[::2], runs[1::2], strict=True)
        gpu_plans = tuple(_join(gpu, first, second) for gpu, first, second in pairs)
        shutil.rmtree(system_db)
        known = {key: job for run in runs for key, job in run.jobs.items()}
        used = sorted({record.job for gpu_plan in gpu_plans for record in gpu_plan.records})
        jobs = {key: known[key] for key in used}
        needed = {digest for job in jobs.values() for digest in job.digests()}
        return Plan(
            ToolchainId.of(self._toolchain),
            self._policy.name,
            {**library_environment(self._toolchain), **self._policy.shared},
            self._problems,
            gpu_plans,
            jobs,
            {digest: self._blobs[digest] for digest in sorted(needed)},
        )

    def _run(self, gpu: Gpu, perturb: str, folder: Path, system_db: Path, stop: Event) -> _Run:
        options = ReplayOptions(
            CompileMode.CAPTURE,
            self._policy.calls,
            system_db,
            {**self._policy.variables, **_MALLOC, "MALLOC_PERTURB_": perturb},
        )
        try:
            result = replay(
                self._toolchain, gpu, self._problems, options, folder,
                progress=lambda done: self._note(folder, done), stop=stop,
            )  # fmt: skip
            self._blobs.update(result.capture.blobs)
            basename = result.databases[0].stem if result.databases else self._ask_name(gpu, folder)
            run = _read_run(basename, result, len(self._problems), self._toolchain.fingerprint)
            _check_kept(run)
            return run
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _ask_name(self, gpu: Gpu, folder: Path) -> str:
        """The database's name where no problem compiled anything (GEMM alone, for example)."""
        options = ReplayOptions(CompileMode.CAPTURE, ("find",), None, name_only=True)
        result = replay(self._toolchain, gpu, (), options, folder / "name")
        if not result.databases:
            raise VirtualGpuError(f"libMIOpen wrote no kernel database for `{gpu}`")
        return result.databases[0].stem

    def _note(self, folder: Path, done: int) -> None:
        """Tell how far all runs are; comes from their threads, one at a time."""
        with self._lock:
            self._done[folder] = done
            if self._progress:
                total = len(self._problems) * len(self._gpus) * len(_PERTURB)
                self._progress(sum(self._done.values()), total)


def _read_run(basename: str, result: Replay, problems: int, fingerprint: str) -> _Run:
    """Turn what a replay left behind into jobs, records, and the jobs that each problem loaded.

    Raises
    ------
    VirtualGpuError
        If a kernel was compiled although compiling was captured.
    """
    jobs: dict[str, Job] = {}
    keys: dict[str, str] = {}  # by marker

    def key_of(marker: str) -> str:
        if marker not in keys:
            job = result.capture.job(marker)
            keys[marker] = job.key(fingerprint)
            jobs[keys[marker]] = job
        return keys[marker]

    needs: list[set[str]] = [set() for _ in range(problems)]
    for load in result.capture.loads:
        word, _, rest = load.mark.partition(" ")
        if word == "problem" and load.marker:
            needs[int(rest.split()[0])].add(key_of(load.marker))
    records = {
        (record.kernel_name, record.kernel_args): key_of(_marker(record))
        for path in result.databases
        for record in read_ukdb_rows(path)
    }
    return _Run(basename, jobs, records, tuple(map(frozenset, needs)), _unplanned(result))


def _marker(record: Record) -> str:
    """The marker that MIOpen stored in place of a code object."""
    content = record.unpack()
    if not content.startswith(MARKER_PREFIX):
        raise VirtualGpuError(
            f"`{record.kernel_name}` was compiled although compiling was captured",
            context=(f"options: {record.kernel_args}",),
        )
    return content.decode().strip()


def _join(gpu: Gpu, first: _Run, second: _Run) -> GpuPlan:
    """Keep what both runs agree on; what only one of them has is an unstable key."""
    stable = {key: job for key, job in first.records.items() if second.records.get(key) == job}
    unstable = (first.records.keys() | second.records.keys()) - stable.keys()
    kept = set(stable.values())
    return GpuPlan(
        gpu.requested,
        str(gpu.target),
        gpu.num_cu,
        first.basename,
        tuple(sorted(PlannedRecord(name, args, job) for (name, args), job in stable.items())),
        tuple(tuple(sorted(jobs & kept)) for jobs in first.needs),
        first.unplanned,
        tuple(sorted(UnstableKey(name, args) for name, args in unstable)),
    )


def _check_kept(run: _Run) -> None:
    """Refuse a run in which libMIOpen loaded kernels that are not in its database.

    It only logs that a write has failed, and goes on.
    """
    failed, kept = {entry.problem for entry in run.unplanned}, set(run.records.values())
    loaded = {job for i, jobs in enumerate(run.needs) if i not in failed for job in jobs}
    if lost := loaded - kept:
        raise VirtualGpuError(
            f"libMIOpen did not write {len(lost)} of {len(loaded)} kernels into `{run.basename}`",
            context=sorted({run.jobs[key].kernel_file for key in lost}),
            hint="see whether the disk of the work folder is full (`--work-dir`)",
        )


def _unplanned(result: Replay) -> tuple[Unplanned, ...]:
    return tuple(
        Unplanned(
            outcome.problem,
            outcome.call,
            outcome.error,
            outcome.log,
            outcome.absent,
            outcome.status in _UNSUPPORTED,
        )
        for outcome in result.outcomes
        if outcome.error
    )
