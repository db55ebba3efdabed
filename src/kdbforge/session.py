"""MIOpen's own workflow by hand: problem, solutions, kernels, run.

Each step runs the real libMIOpen in a process of its own on the session's GPU.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from kdbforge.api import find_gpu, find_toolchain
from kdbforge.codeobject.details import Details, read_details
from kdbforge.errors import InputError, SessionError
from kdbforge.files import host_errors
from kdbforge.kdb.reader import read_ukdb_rows
from kdbforge.kdb.record import Record
from kdbforge.miopen.replay import ReplayOptions, library_environment, replay
from kdbforge.miopen.runlog import (
    LOG_ENVIRONMENT,
    FindResult,
    Launch,
    RunLog,
    read_run_log,
)
from kdbforge.miopen.systemdb import link_system_db
from kdbforge.model.device import Gpu
from kdbforge.model.problem import Convolution, Problem
from kdbforge.model.toolchain import Toolchain
from kdbforge.problems import driver_line, parse
from kdbforge.vgpu.process import CompileMode

__all__ = [
    "CompiledKernel",
    "Found",
    "KernelKey",
    "Rejected",
    "Run",
    "Session",
    "Solution",
    "Solutions",
]

_LANGUAGES = {".cl": "OpenCL", ".cpp": "HIP", ".s": "assembly", ".mlir": "MLIR"}
_NON_DYNAMIC = "Skipped (non-dynamic)"


@dataclass(frozen=True, slots=True, order=True)
class KernelKey:
    """A kernel as MIOpen looks it up: its file and the options that it is built with."""

    kernel_name: str  # with `.o`, as in a kernel database
    kernel_args: str

    @property
    def file(self) -> str:
        return self.kernel_name.removesuffix(".o")

    @property
    def language(self) -> str:
        """`OpenCL`, `HIP`, `assembly` or `MLIR`; empty if the file's name does not tell."""
        return _LANGUAGES.get(Path(self.file).suffix, "")


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """A kernel with its code object."""

    key: KernelKey
    code: bytes

    @property
    def details(self) -> Details:
        """Target, metadata and kernels of the code object.

        Raises
        ------
        DatabaseError
            If it is no AMDGPU code object.
        """
        return read_details(self.code)


@dataclass(frozen=True, slots=True)
class Rejected:
    """A solver that does not apply, in the library's words."""

    solver: str
    reason: str


@dataclass(frozen=True, slots=True)
class Run:
    """What executing a solution did."""

    launches: tuple[Launch, ...]
    executed: bool  # False: on a virtual GPU launches are skipped, and no numbers come out


@dataclass(frozen=True, slots=True)
class Solution:
    """One way in which MIOpen can solve a problem on this GPU."""

    problem: Problem
    solver: str  # empty where a primitive is made of several
    algorithm: str
    workspace: int  # bytes
    dynamic: bool | None  # Find in its default mode tries only dynamic ones; None: not a matter
    kernels: tuple[KernelKey, ...]
    _session: Session = field(repr=False, compare=False)

    def compile(self) -> tuple[CompiledKernel, ...]:
        """Compile the kernels with the real compiler, as MIOpen itself does.

        Raises
        ------
        SessionError
            If MIOpen cannot; its message is in the context.
        """
        return self._session.compile_solution(self)

    def run(self) -> Run:
        """Execute the solution with the kernels that were compiled.

        Raises
        ------
        SessionError
            If a kernel was not compiled before, or MIOpen fails.
        """
        return self._session.run_solution(self)


@dataclass(frozen=True, slots=True)
class Solutions(Sequence[Solution]):
    """All solutions of a problem, and the solvers that were passed over."""

    solutions: tuple[Solution, ...]
    rejected: tuple[Rejected, ...]

    def __len__(self) -> int:
        return len(self.solutions)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        return self.solutions[index]


@dataclass(frozen=True, slots=True)
class Found:
    """What Find, in the mode that a program gets by default, leaves the user with."""

    results: tuple[FindResult, ...]
    chosen: str  # solver; empty if the find-db or Find's result does not name one
    kernels: tuple[KernelKey, ...]


class Session:
    """A libMIOpen on one GPU, with a kernel cache of its own until the session is closed.

    Parameters
    ----------
    gpu
        A virtual GPU, or its name; None: the GPU in the machine, on which `find` and `solutions`
        compile and time, and `run` computes.
    toolchain
        A toolchain, its name or path; None: the only one that is registered.
    asm, hip, opencl
        Whether solvers with kernels in these languages may be used; None: the library's default,
        which is no assembly where its sources were removed.
    solvers
        The only solvers to be tried, by name.
    environment
        More of MIOpen's own variables.
    work_dir
        Where the session's folder is made; None: the system's folder for temporary files.

    Raises
    ------
    KdbforgeError
        If there is no such GPU or toolchain, or the folder cannot be written.
    """

    def __init__(
        self,
        gpu: Gpu | str | None,
        toolchain: Toolchain | str | Path | None = None,
        *,
        asm: bool | None = None,
        hip: bool = True,
        opencl: bool = True,
        solvers: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        work_dir: Path | None = None,
    ):
        self.gpu = find_gpu(gpu) if isinstance(gpu, str) else gpu
        self.toolchain = (
            toolchain if isinstance(toolchain, Toolchain) else find_toolchain(toolchain)
        )
        self._environment = {
            **library_environment(self.toolchain),
            **_filters(asm, hip, opencl, solvers),
            **(environment or {}),
        }
        with host_errors("make a folder for the session"):
            self._folder = Path(tempfile.mkdtemp(prefix="kdbforge-session-", dir=work_dir))
            self._cache = self._folder / "kernels"
            self._cache.mkdir()
        self._system_db = link_system_db(self.toolchain, self._folder / "system-db")
        self._runs = 0

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove everything that the session has written."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def find(self, problem: Problem | str) -> Found:
        """Ask MIOpen as a program does: Find, or the primitive's own call; nothing is compiled.

        Raises
        ------
        InputError
            If a line names no single problem.
        SessionError
            If MIOpen fails; its message is in the context.
        """
        log = self._step(_single(problem), CompileMode.CAPTURE, "find")
        return Found(log.results, log.chosen or _only(log.applicable), _keys(log))

    def solutions(self, problem: Problem | str) -> Solutions:
        """List every solution that MIOpen has for the problem; nothing is compiled.

        Raises
        ------
        InputError
            If a line names no single problem.
        SessionError
            If MIOpen fails; its message is in the context.
        """
        one = _single(problem)
        if not isinstance(one, Convolution):
            log = self._step(one, CompileMode.CAPTURE, "find")
            solver = _only(log.applicable)
            whole = Solution(one, solver, one.primitive, 0, None, _keys(log), self)
            return Solutions((whole,), _rejected(log))
        no_find_db = {"MIOPEN_DEBUG_DISABLE_FIND_DB": "1"}
        log = self._step(one, CompileMode.CAPTURE, "find-normal", no_find_db)
        default = self._step(one, CompileMode.CAPTURE, "find", no_find_db)
        slow = {solver for solver, verdict in default.verdicts if verdict == _NON_DYNAMIC}
        algorithms = dict(log.algorithms)
        workspaces = {result.solver: result.workspace for result in log.results}
        return Solutions(
            tuple(
                Solution(
                    one, solver, algorithms[solver], workspaces.get(solver, 0),
                    solver not in slow, _keys(self._only_solver(one, CompileMode.CAPTURE, solver)),
                    self,
                )
                for solver in log.applicable
            ),
            _rejected(log),
        )  # fmt: skip

    def compile_solution(self, solution: Solution) -> tuple[CompiledKernel, ...]:
        """As `Solution.compile`."""
        self._only_solver(solution.problem, CompileMode.PASS, solution.solver)
        records = {record.key: record for path in self._databases() for record in _rows(path)}
        return tuple(
            CompiledKernel(key, records[key.kernel_name, key.kernel_args].unpack())
            for key in solution.kernels
            if (key.kernel_name, key.kernel_args) in records
        )

    def run_solution(self, solution: Solution) -> Run:
        """As `Solution.run`."""
        present = {record.key for path in self._databases() for record in _rows(path)}
        for key in solution.kernels:
            if (key.kernel_name, key.kernel_args) not in present:
                raise SessionError(
                    f"The kernel `{key.file}` is not compiled",
                    context=(f"options: {key.kernel_args}",),
                    hint="call `compile()` before `run()`",
                )
        mode = CompileMode.FORBID
        log = self._only_solver(solution.problem, mode, solution.solver)
        return Run(log.launches, executed=self.gpu is None)

    def _only_solver(self, problem: Problem, mode: CompileMode, solver: str) -> RunLog:
        """Run a problem with one solver; other primitives than convolution have no choice."""
        if not isinstance(problem, Convolution):
            return self._step(problem, mode, "find")
        only = {"MIOPEN_DEBUG_FIND_ONLY_SOLVER": solver, "MIOPEN_DEBUG_DISABLE_FIND_DB": "1"}
        return self._step(problem, mode, "find-normal", only)

    def _step(
        self,
        problem: Problem,
        mode: CompileMode,
        call: str,
        environment: Mapping[str, str] | None = None,
    ) -> RunLog:
        """Run a problem once in a new process, and return what its log tells."""
        self._runs += 1
        folder = self._folder / f"run-{self._runs}"
        # A captured kernel is a placeholder: it must not get among the session's own.
        cache = {} if mode is CompileMode.CAPTURE else {"MIOPEN_CUSTOM_CACHE_DIR": str(self._cache)}
        settings = {**self._environment, **(environment or {}), **cache, **LOG_ENVIRONMENT}
        options = ReplayOptions(mode, (call,), self._system_db, settings)
        result = replay(self.toolchain, self.gpu, [problem], options, folder)
        (outcome,) = result.outcomes
        if outcome.error:
            raise SessionError(
                f"MIOpen cannot run `{driver_line(problem)}`: {outcome.error}",
                context=[line for line in outcome.log.splitlines() if "Info" not in line][-20:],
            )
        text = (folder / "log").read_text(encoding="utf-8", errors="replace")
        shutil.rmtree(folder, ignore_errors=True)
        return read_run_log(text.splitlines())

    def _databases(self) -> list[Path]:
        return sorted(self._cache.rglob("*.ukdb"))


def _rows(path: Path) -> list[Record]:
    return list(read_ukdb_rows(path))


def _filters(asm: bool | None, hip: bool, opencl: bool, solvers: Sequence[str]) -> dict[str, str]:
    """MIOpen's variables for what may be used (src/execution_context.cpp, DetectRocm)."""
    chosen = {} if asm is None else {"MIOPEN_DEBUG_GCN_ASM_KERNELS": str(int(asm))}
    if not hip:
        chosen["MIOPEN_DEBUG_HIP_KERNELS"] = "0"
    if not opencl:
        chosen["MIOPEN_DEBUG_OPENCL_CONVOLUTIONS"] = "0"
    if solvers:
        chosen["MIOPEN_DEBUG_FIND_ONLY_SOLVER"] = ";".join(solvers)
    return chosen


def _single(problem: Problem | str) -> Problem:
    if not isinstance(problem, str):
        return problem
    found = parse(problem)
    if len(found) != 1:
        raise InputError(
            f"`{problem}` asks for {len(found)} problems, not for one",
            hint="name one direction, for example with `-F 1`",
        )
    return found[0]


def _keys(log: RunLog) -> tuple[KernelKey, ...]:
    return tuple(KernelKey(name, args) for name, args in log.loads)


def _rejected(log: RunLog) -> tuple[Rejected, ...]:
    return tuple(
        Rejected(solver, verdict)
        for solver, verdict in log.verdicts
        if solver not in log.applicable
    )


def _only(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else ""
