"""What libMIOpen's own log at level 6 tells of a run: solvers, kernels, launches, results.

The C API gives solutions as numbers; their names, and why other solvers were passed over, are in
the log alone (src/include/miopen/find_solution.hpp and src/conv/solver_finders.cpp).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["LOG_ENVIRONMENT", "FindResult", "Launch", "RunLog", "read_run_log"]

#: What makes libMIOpen write such a log.
LOG_ENVIRONMENT = {"MIOPEN_LOG_LEVEL": "6"}
_VERDICT = re.compile(r"\[SearchFor(?:All)?Solutions\] (\S+): (.+)$")
_ALGORITHM = re.compile(r"\[Find\] Starting find for (\w+)$")
_RESULT = re.compile(
    r"\[SetValues\] .*, content inserted: (?P<solver>[^:]+):"
    r"(?P<time>[^,]+),(?P<workspace>\d+),(?P<algorithm>\w+)$"
)
_FALLBACK = re.compile(
    r"\[GetSolutionsFallback\] id: \d+, algo: \d+, time: (?P<time>[^,]+), ws: (?P<workspace>\d+), "
    r"name: (?P<solver>\S+)$"
)
_CHOSEN = re.compile(r"Chosen Algorithm: (\S+) ,")
_LOAD = re.compile(r'\[LoadBinary\] Loading binary for: "([^"]+)"; args: (.*)$')
_LAUNCH = re.compile(
    r"\[run\] kernel_name = (\S+), global_work_dim = \{ ([^}]+) \}, local_work_dim = \{ ([^}]+) \}"
)
#: The call that executes what Find has chosen; the launches before it were Find's own.
_EXECUTE = re.compile(r"\[Convolution\w+\] algo = ")
SUCCESS = "Success."


@dataclass(frozen=True, slots=True)
class FindResult:
    """A solution that Find has timed or that immediate mode offers."""

    solver: str
    algorithm: str  # empty in immediate mode
    workspace: int  # bytes
    milliseconds: float  # of the device, which on a virtual GPU means nothing


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a kernel; sizes in work-items."""

    kernel: str
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RunLog:
    """One run, in the order in which things happened."""

    verdicts: tuple[tuple[str, str], ...]  # solver, and what the library says of it
    algorithms: tuple[tuple[str, str], ...]  # solver, and the algorithm that it was tried for
    results: tuple[FindResult, ...]
    chosen: str  # solver; empty if nothing was chosen
    loads: tuple[tuple[str, str], ...]  # kernel_name and kernel_args that were looked up
    launches: tuple[Launch, ...]  # of the execution; of a convolution none of Find's

    @property
    def applicable(self) -> tuple[str, ...]:
        """The solvers that apply."""
        return tuple(solver for solver, verdict in self.verdicts if verdict == SUCCESS)


def read_run_log(lines: Iterable[str]) -> RunLog:
    """Read a log; lines of other kinds are passed over."""
    verdicts: dict[str, str] = {}
    algorithms: dict[str, str] = {}
    results: dict[str, FindResult] = {}
    loads: dict[tuple[str, str], None] = {}
    launches: list[Launch] = []
    algorithm = chosen = ""
    for line in map(str.rstrip, lines):
        if found := _VERDICT.search(line):
            verdicts[found[1]] = found[2]
            algorithms[found[1]] = algorithm
        elif found := _ALGORITHM.search(line):
            algorithm = found[1]
        elif found := _RESULT.search(line) or _FALLBACK.search(line):
            results[found["solver"]] = _result(found.groupdict())
        elif found := _LOAD.search(line):
            loads[found[1], found[2]] = None
        elif found := _LAUNCH.search(line):
            launches.append(Launch(found[1], _sizes(found[2]), _sizes(found[3])))
        elif _EXECUTE.search(line):
            launches.clear()
        elif found := _CHOSEN.search(line):
            chosen = found[1]
    return RunLog(
        tuple(verdicts.items()), tuple(algorithms.items()), tuple(results.values()), chosen,
        tuple(loads), tuple(launches),
    )  # fmt: skip


def _result(found: dict[str, str]) -> FindResult:
    workspace, milliseconds = int(found["workspace"]), float(found["time"])
    return FindResult(found["solver"], found.get("algorithm", ""), workspace, milliseconds)


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(","))
