"""Proves databases: the real libMIOpen, with the compiler forbidden, must find everything."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from kdbforge.errors import InputError
from kdbforge.kdb.reader import read_ukdb_rows
from kdbforge.miopen.replay import Outcome, Replay, ReplayOptions, replay
from kdbforge.miopen.systemdb import link_system_db
from kdbforge.miopen.variables import check_variables
from kdbforge.model.device import Gpu
from kdbforge.model.plan import UnstableKey
from kdbforge.model.policy import Policy
from kdbforge.model.problem import Problem
from kdbforge.model.proof import Miss, Proof
from kdbforge.model.toolchain import Toolchain
from kdbforge.problems import driver_line
from kdbforge.vgpu.journal import Capture
from kdbforge.vgpu.process import CompileMode

__all__ = ["Known", "prove_kdbs"]


def prove_kdbs(
    toolchain: Toolchain,
    gpu: Gpu,
    kdbs: Sequence[Path],
    problems: Sequence[Problem],
    policy: Policy,
    work_dir: Path,
    *,
    known: Known | None = None,
    progress: Callable[[int], None] | None = None,
    stop: Event | None = None,
) -> Proof:
    """Replay the problems with only these databases in the system folder and an empty home.

    Parameters
    ----------
    known
        What planning has shown; None: find out by planning the problems that fail here.
    progress, stop
        As for `replay`.

    Raises
    ------
    InputError
        If a database is missing, there is no problem, or a variable cannot be set.
    """
    if not problems:
        raise InputError("Nothing to prove: no problem")
    for kdb in kdbs:
        if not kdb.is_file():
            raise InputError(f"There is no database `{kdb}`")
    check_variables(toolchain, policy.shared)
    folder = work_dir / f"prove-{gpu.target.arch}-{gpu.num_cu}"
    try:
        prover = _Prover(toolchain, gpu, problems, policy, folder, stop)
        return prover.prove(kdbs, known, progress)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Known:
    """What no database can help with: failures of the library's own, and unstable keys."""

    failures: frozenset[tuple[int, str]]  # (problem, call)
    unstable: frozenset[UnstableKey]


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
        known: Known | None,
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
        if known is None:
            known = self._find_out(failed, result.capture)
        errors = [o for o in failed if (o.problem, o.call) not in known.failures]
        unstable = tuple(miss for miss in misses if _is_unstable(miss, known.unstable))
        return Proof(
            str(self._gpu),
            self._policy.name,
            len(self._problems),
            len(result.capture.loads),
            tuple(miss for miss in misses if miss not in unstable),
            tuple(self._describe(outcome) for outcome in errors),
            len(failed) - len(errors),
            result.seconds,
            unstable,
        )

    def _options(self, mode: CompileMode, system_db: Path | None) -> ReplayOptions:
        return ReplayOptions(mode, self._policy.calls, system_db, self._policy.variables)

    def _misses(self, capture: Capture) -> tuple[Miss, ...]:
        misses = set()
        for refused in capture.forbidden:
            _, index, call = refused.mark.split()
            line = driver_line(self._problems[int(index)])
            misses.add(Miss(refused.kernel_file, " ".join(refused.options), line, call))
        return tuple(sorted(misses))

    def _find_out(self, failed: Sequence[Outcome], capture: Capture) -> Known:
        """Which failures the library has with compiling allowed, too, and which keys differ."""
        missed = {int(refused.mark.split()[1]) for refused in capture.forbidden}
        indexes = sorted(missed.union(outcome.problem for outcome in failed))
        if not indexes:
            return Known(frozenset(), frozenset())
        system_db = link_system_db(self._toolchain, self._folder / "plan-db")
        result = replay(
            self._toolchain,
            self._gpu,
            [self._problems[i] for i in indexes],
            self._options(CompileMode.CAPTURE, system_db),
            self._folder / "plan",
            stop=self._stop,
        )
        failures = frozenset((indexes[o.problem], o.call) for o in result.outcomes if o.error)
        asked = {(refused.kernel_file, refused.options) for refused in capture.forbidden}
        return Known(failures, _keys_unlike(result, asked))

    def _describe(self, outcome: Outcome) -> str:
        line = driver_line(self._problems[outcome.problem])
        return f"{line} ({outcome.call}): {outcome.error}\n{outcome.log}".strip()


def _keys_unlike(
    result: Replay, asked: Collection[tuple[str, tuple[str, ...]]]
) -> frozenset[UnstableKey]:
    """The keys of a run that are none of those that another run asked to have compiled."""
    keys = {
        (record.kernel_name, record.kernel_args)
        for path in result.databases
        for record in read_ukdb_rows(path)
    }
    again = {
        (name, args)
        for name, args in keys
        for file, options in asked
        if name == f"{file}.o" and {*_own_options(args)} <= {*options}
    }
    return frozenset(UnstableKey(name, args) for name, args in keys - again)


def _is_unstable(miss: Miss, keys: Collection[UnstableKey]) -> bool:
    """Whether a miss equals an unstable key but for the numbers in it."""
    options = {_without_numbers(word) for word in miss.options.split()}
    return any(
        key.kernel_name == f"{miss.kernel_file}.o"
        and {_without_numbers(word) for word in _own_options(key.kernel_args)} <= options
        for key in keys
    )


def _own_options(kernel_args: str) -> list[str]:
    """The options of a key that reach the compiler as they are: all but the target."""
    return [word for word in kernel_args.split() if not word.startswith("-mcpu=")]


def _without_numbers(word: str) -> str:
    return re.sub(r"-?[0-9]+", "N", word)


def _mark(outcome: Outcome) -> str:
    return f"problem {outcome.problem} {outcome.call}"
