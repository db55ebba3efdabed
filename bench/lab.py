"""Runs what the figures are made of, each once: builds, and libMIOpen's own runs.

Everything is made in one temporary folder; nothing that is timed shares the machine with another
run of this program.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kdbforge import BuildOptions, BuildReport, build, find_gpu, find_toolchain
from kdbforge.kdb.reader import read_kdb, read_ukdb_rows
from kdbforge.kdb.record import Record
from kdbforge.miopen.replay import Replay, ReplayOptions, replay
from kdbforge.miopen.systemdb import link_system_db
from kdbforge.model.policy import find_policy
from kdbforge.problems import load
from kdbforge.vgpu.process import CompileMode

__all__ = ["Built", "Lab", "OwnRun"]

#: Two, as the goals are for two cores.
WORKERS = 2


@dataclass(frozen=True, slots=True)
class Built:
    """A build, its wall time from start to end, and where its databases are."""

    report: BuildReport
    seconds: float
    folder: Path

    def records(self, basename: str) -> tuple[Record, ...]:
        return tuple(read_kdb(self.folder / f"{basename}.kdb"))


@dataclass(frozen=True, slots=True)
class OwnRun:
    """A run of libMIOpen over the problems, in a process of its own."""

    basename: str  # of the user kernel database; empty if it wrote none
    records: tuple[Record, ...]  # what it compiled and stored
    process_seconds: float  # wall time of the whole process
    call_seconds: float  # wall time within MIOpen's calls
    refused: int  # compilations that were forbidden
    failed: int  # problems' calls that returned an error


class Lab:
    """All runs; methods without side effects on each other, results kept."""

    def __init__(self, folder: Path, source: str):
        self._folder = folder
        self._count = 0
        self.toolchain = find_toolchain()
        self.source = source
        self.problems = load([source])
        self.build = cache(self._build)
        self.alone = cache(self._alone)
        self.together = cache(self._together)

    def new_folder(self, what: str) -> Path:
        """An unused path within the temporary folder."""
        self._count += 1
        return self._folder / f"{self._count:02}-{what}"

    def _build(
        self,
        gpus: tuple[str, ...],
        policy: str,
        *,
        store: str,
        workers: int = WORKERS,
        per_arch: bool = False,
    ) -> Built:
        """Build and prove; `store` names the store, which is empty when it is used first."""
        output = self.new_folder("build")
        options = BuildOptions(find_policy(policy), workers=workers, per_arch=per_arch)
        say(f"building {' and '.join(gpus)}, policy {policy}, {workers} workers, store {store}")
        started = time.monotonic()
        report = build(
            self.problems, gpus, output,
            toolchain=self.toolchain, store=self._folder / f"store-{store}", options=options,
        )  # fmt: skip
        seconds = time.monotonic() - started
        say(f"  {seconds:.1f} s, of it compiling {report.compile.wall_seconds:.1f} s")
        return Built(report, seconds, output)

    def _alone(self, gpu: str, policy: str) -> OwnRun:
        """LibMIOpen with its own compiler and empty caches."""
        say(f"libMIOpen compiling by itself for {gpu}, policy {policy}")
        return self._run(gpu, policy, CompileMode.PASS, ())

    def _together(self, runs: tuple[tuple[str, str], ...]) -> tuple[tuple[OwnRun, ...], float]:
        """Several such runs at the same time, at most two; with their wall time."""
        said = " and ".join(f"{gpu} ({policy})" for gpu, policy in runs)
        say(f"libMIOpen compiling by itself at the same time for {said}")
        started = time.monotonic()
        with ThreadPoolExecutor(WORKERS) as pool:
            own = tuple(pool.map(lambda run: self._run(*run, CompileMode.PASS, ()), runs))
        return own, time.monotonic() - started

    def with_kdb(self, gpu: str, policy: str, kdbs: Sequence[Path]) -> OwnRun:
        """LibMIOpen with the databases in its system folder and no compiler."""
        return self._run(gpu, policy, CompileMode.FORBID, kdbs)

    def _run(self, gpu: str, policy: str, mode: CompileMode, kdbs: Sequence[Path]) -> OwnRun:
        folder = self.new_folder("run")
        asked = find_policy(policy)
        with link_system_db(self.toolchain, folder / "db", kdbs) as system_db:
            options = ReplayOptions(mode, asked.calls, system_db, asked.environment)
            ran = replay(
                self.toolchain, find_gpu(gpu), self.problems.problems, options, folder / "run"
            )
        say(f"  {gpu}, policy {policy}: {ran.seconds:.1f} s")
        return _own_run(ran)


def _own_run(ran: Replay) -> OwnRun:
    return OwnRun(
        ran.databases[0].stem if ran.databases else "",
        tuple(record for path in ran.databases for record in read_ukdb_rows(path)),
        ran.seconds,
        sum(outcome.seconds for outcome in ran.outcomes),
        len(ran.capture.forbidden),
        sum(1 for outcome in ran.outcomes if outcome.error),
    )


def say(text: str) -> None:
    """Tell on stderr what takes so long."""
    print(text, file=sys.stderr, flush=True)
