"""What the figures are made from: builds and runs of the real libMIOpen, each made once."""

from __future__ import annotations

import dataclasses
import functools
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from kdbforge import BuildOptions, BuildReport, Gpu, Toolchain, find_gpu, find_toolchain
from kdbforge.build import build_databases
from kdbforge.kdb.reader import read_kdb, read_ukdb_rows
from kdbforge.kdb.record import Record
from kdbforge.miopen.replay import Replay, ReplayOptions, replay
from kdbforge.miopen.systemdb import link_system_db
from kdbforge.model.policy import find_policy
from kdbforge.problems import ProblemList, load
from kdbforge.store import Store
from kdbforge.vgpu.process import CompileMode

__all__ = ["WORKERS", "Build", "Lab", "Log"]

#: The figures are stated for two cores.
WORKERS = 2


@dataclasses.dataclass(frozen=True, slots=True)
class Build:
    """A build, and the wall time that it took."""

    report: BuildReport
    seconds: float

    def records(self, name: str) -> dict[tuple[str, str], Record]:
        """Records of the database `<name>.kdb`, by key."""
        path = next(d.path for d in self.report.databases if d.path.stem == name)
        return {record.key: record for record in read_kdb(path)}


@dataclasses.dataclass(frozen=True, slots=True)
class Log:
    """A log of libMIOpen with so many different problems in it."""

    path: Path
    lines: int
    problems: int


class Lab:
    """Makes builds and runs in a folder of its own, and remembers them."""

    def __init__(self, folder: Path, suite: str):
        self.folder = folder
        self.toolchain: Toolchain = find_toolchain()
        self.problems: ProblemList = load([suite])
        self._count = 0

    def fresh(self) -> Path:
        """A folder that does not exist yet."""
        self._count += 1
        return self.folder / str(self._count)

    def clear(self) -> None:
        """Take all files away."""
        shutil.rmtree(self.folder, ignore_errors=True)

    @functools.cached_property
    def shared_store(self) -> Store:
        """For builds whose time does not matter."""
        return Store(self.fresh())

    def build(
        self,
        gpus: Sequence[str],
        policy: str,
        *,
        store: Store | None = None,
        workers: int = WORKERS,
        per_arch: bool = False,
    ) -> Build:
        """Build from an empty store, unless one is given."""
        say(f"build {' '.join(gpus)} --policy {policy} -j {workers}")
        options = BuildOptions(find_policy(policy), workers=workers, per_arch=per_arch)
        started = time.monotonic()
        report = build_databases(
            self.toolchain,
            [find_gpu(name) for name in gpus],
            self.problems,
            store or Store(self.fresh()),
            self.fresh(),
            options,
        )
        return Build(report, time.monotonic() - started)

    @functools.cache  # noqa: B019  one Lab per run
    def timed_build(self) -> Build:
        """The build whose time is compared: two CU counts of one architecture."""
        return self.build(("gfx1030_36", "gfx1030_40"), "normal")

    @functools.cache  # noqa: B019
    def by_itself(self, gpu: str, policy: str) -> Replay:
        """The same problems run by libMIOpen alone, compiling for itself, with empty caches."""
        say(f"libMIOpen by itself: {gpu}, {policy}")
        return self.run(find_gpu(gpu), policy, CompileMode.PASS, ())

    def run(self, gpu: Gpu, policy: str, mode: CompileMode, kdbs: Sequence[Path]) -> Replay:
        """Run all problems on one handle, as a user's program does, with databases installed."""
        folder, used = self.fresh(), find_policy(policy)
        system_db = link_system_db(self.toolchain, folder / "db", kdbs)
        options = ReplayOptions(mode, used.calls, system_db, used.environment, one_handle=True)
        return replay(self.toolchain, gpu, self.problems.problems, options, folder / "run")

    def own_records(self, gpu: str, policy: str) -> dict[tuple[str, str], Record]:
        """The records that libMIOpen wrote when it compiled for itself, by key."""
        (database,) = self.by_itself(gpu, policy).databases
        return {record.key: record for record in read_ukdb_rows(database)}

    def long_log(self, lines: int) -> Log:
        """A log of the network's first problems, level 6 and with commands, again and again."""
        problems = self.problems.problems[:30]
        environment = {"MIOPEN_LOG_LEVEL": "6", "MIOPEN_ENABLE_LOGGING_CMD": "1"}
        calls = ("immediate", "find")
        options = ReplayOptions(CompileMode.CAPTURE, calls, environment=environment)
        folder = self.fresh()
        replay(self.toolchain, find_gpu("gfx1030_36"), problems, options, folder)
        once = (folder / "log").read_bytes()
        times = -(-lines // once.count(b"\n"))
        path = folder / "long.log"
        with path.open("wb") as file:
            file.writelines(once for _ in range(times))
        return Log(path, times * once.count(b"\n"), len(problems))


def say(text: str) -> None:
    """Progress, on stderr."""
    sys.stderr.write(f"  {text}\n")
