"""Proves databases: the real libMIOpen, with the compiler forbidden, must find everything."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from threading import Event

from kdbforge.errors import InputError
from kdbforge.miopen.replay import Outcome, ReplayOptions, replay
from kdbforge.miopen.systemdb import link_system_db
from kdbforge.model.device import Gpu
from kdbforge.model.policy import Policy
from kdbforge.model.problem import Problem
from kdbforge.model.proof import Miss, Proof
from kdbforge.model.toolchain import Toolchain
from kdbforge.problems import driver_line
from kdbforge.vgpu.journal import Capture
from kdbforge.vgpu.process import CompileMode

__all__ = ["prove_kdbs"]


def prove_kdbs(
    toolchain: Toolchain,
    gpu: Gpu,
    kdbs: Sequence[Path],
    problems: Sequence[Problem],
    policy: Policy,
    work_dir: Path,
    *,
    known_failures: Collection[tuple[int, str]] | None = None,
    progress: Callable[[int], None] | None = None,
    stop: Event | None = None,
) -> Proof:
    """Replay the problems with only these databases in the system folder and an empty home.

    Parameters
    ----------
    known_failures
        (problem, call) pairs that failed while planning; None: find out by planning those that
        fail here.
    progress, stop
        As for `replay`.

    Raises
    ------
    InputError
        If a database is missing, or there is no problem.
    """
    if not problems:
        raise InputError("Nothing to prove: no problem")
    for kdb in kdbs:
        if not kdb.is_file():
            raise InputError(f"There is no database `{kdb}`")
    folder = work_dir / f"prove-{gpu.target.arch}-{gpu.num_cu}"
    try:
        prover = _Prover(toolchain, gpu, problems, policy, folder, stop)
        return prover.prove(kdbs, known_failures, progress)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Prover:
    def __init__(
        self,
        toolchain: Toolchain,
        gpu: Gpu,
        problems: Sequence[Problem],
        policy: Policy,
        folder: Path,
        stop: Event | None,
    ):
        self._toolchain = toolchain
        self._gpu = gpu
        self._problems = problems
        self._policy = policy
        self._folder = folder
        self._stop = stop

    def prove(
        self,
        kdbs: Sequence[Path],
        known_failures: Collection[tuple[int, str]] | None,
        progress: Callable[[int], None] | None,
    ) -> Proof:
        system_db = link_system_db(self._toolchain, self._folder / "db", kdbs)
        options = self._options(CompileMode.FORBID, system_db)
        result = replay(
            self._toolchain, self._gpu, self._problems, options, self._folder / "run",
            progress=progress, stop=self._stop,
        )  # fmt: skip
        misses = self._misses(result.capture)
        missed = {refused.mark for refused in result.capture.forbidden}
        failed = [o for o in result.outcomes if o.error and _mark(o) not in missed]
        if known_failures is None:
            known_failures = self._fail_anyway(failed)
        errors = [o for o in failed if (o.problem, o.call) not in known_failures]
        return Proof(
            str(self._gpu),
            self._policy.name,
            len(self._problems),
            len(result.capture.loads),
            misses,
            tuple(self._describe(outcome) for outcome in errors),
            len(failed) - len(errors),
            result.seconds,
        )

    def _options(self, mode: CompileMode, system_db: Path | None) -> ReplayOptions:
        return ReplayOptions(mode, self._policy.calls, system_db, self._policy.environment)

    def _misses(self, capture: Capture) -> tuple[Miss, ...]:
        misses = set()
        for refused in capture.forbidden:
            _, index, call = refused.mark.split()
            line = driver_line(self._problems[int(index)])
            misses.add(Miss(refused.kernel_file, " ".join(refused.options), line, call))
        return tuple(sorted(misses))

    def _fail_anyway(self, failed: Sequence[Outcome]) -> set[tuple[int, str]]:
        """Those of the failures that the library has with compiling allowed, too."""
        indexes = sorted({outcome.problem for outcome in failed})
        if not indexes:
            return set()
        system_db = link_system_db(self._toolchain, self._folder / "plan-db")
        result = replay(
            self._toolchain,
            self._gpu,
            [self._problems[i] for i in indexes],
            self._options(CompileMode.CAPTURE, system_db),
            self._folder / "plan",
            stop=self._stop,
        )
        return {(indexes[o.problem], o.call) for o in result.outcomes if o.error}

    def _describe(self, outcome: Outcome) -> str:
        line = driver_line(self._problems[outcome.problem])
        return f"{line} ({outcome.call}): {outcome.error}\n{outcome.log}".strip()


def _mark(outcome: Outcome) -> str:
    return f"problem {outcome.problem} {outcome.call}"
