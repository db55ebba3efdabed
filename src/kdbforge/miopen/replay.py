"""Runs a list of problems through the real libMIOpen on a virtual GPU, in child processes.

A crash or a hang costs the problem that caused it: the child is started again behind it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from kdbforge.errors import HostError, VirtualGpuError
from kdbforge.files import host_errors
from kdbforge.model.device import Gpu
from kdbforge.model.problem import Convolution, Problem
from kdbforge.model.toolchain import Toolchain
from kdbforge.vgpu.hostgpu import HostGpu
from kdbforge.vgpu.journal import Capture, read_journal
from kdbforge.vgpu.process import CompileMode, VirtualGpu

__all__ = ["Outcome", "Replay", "ReplayOptions", "library_environment", "replay"]

_GUEST = Path(__file__).parent / "guest" / "__main__.py"
#: The one way of running a problem that is no convolution.
EXECUTE = "execute"
#: Seconds without any event after which a child counts as hanging.
HANG_SECONDS = 600.0
#: How often a silent child is looked at, whether it must be stopped.
_TICK_SECONDS = 0.1
#: What must be free in the end for the disk not to count as full: more than any single write.
_SPACE_BYTES = 256 << 10
#: Give up when this many children in a row died before they told anything.
MAX_SILENT_DEATHS = 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one problem went in one of MIOpen's ways of running it."""

    problem: int
    call: str
    solutions: int  # how many solutions were run (immediate) or found
    error: str = ""  # empty: success
    log: str = ""  # MIOpen's own messages, when there was an error
    seconds: float = 0.0  # in MIOpen's calls; 0 where the process died
    absent: str = ""  # the function that this version of libMIOpen does not have
    status: int = 0  # miopenStatus_t of the call that failed


@dataclass(frozen=True, slots=True)
class Replay:
    """What a run of problems left behind."""

    outcomes: tuple[Outcome, ...]
    databases: tuple[Path, ...]  # user kernel databases that libMIOpen wrote
    capture: Capture
    seconds: float  # wall time of the children


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How to run the problems; `environment` holds MIOpen's own variables."""

    mode: CompileMode
    # Of convolutions; other problems have one way to be run.
    calls: tuple[str, ...]  # of "immediate", "immediate-all", "find", "find-fast", "find-normal"
    system_db: Path | None = None  # folder that MIOpen takes for its system databases
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    name_only: bool = False  # compile one small kernel first, to learn the database's name
    hang_seconds: float = HANG_SECONDS
    # One handle for all problems, as a program has it: each kernel is loaded once, and its load
    # is put down to the problem that came first.
    one_handle: bool = False


def library_environment(toolchain: Toolchain) -> dict[str, str]:
    """Variables that builder and user must set alike for this library.

    A library whose assembly sources were removed still prefers assembly solvers and then fails
    to load their source, unless they are switched off. One that runs its compiler as a child
    process has them off by itself, for want of an assembler.
    """
    sound = toolchain.asm_kernels or toolchain.clang is not None
    return {} if sound else {"MIOPEN_DEBUG_GCN_ASM_KERNELS": "0"}


def replay(
    toolchain: Toolchain,
    gpu: Gpu | None,
    problems: Sequence[Problem],
    options: ReplayOptions,
    folder: Path,
    *,
    progress: Callable[[int], None] | None = None,
    stop: Event | None = None,
) -> Replay:
    """Run every problem in every way asked for, on a fresh virtual GPU in `folder`.

    Parameters
    ----------
    gpu
        None: the machine's own GPU, on which everything is compiled and executed.
    folder
        New or empty; holds the virtual GPU, MIOpen's databases and temporary files.
    progress
        Called with the number of problems finished so far.
    stop
        Once it is set, the child is killed and `VirtualGpuError` raised.

    Raises
    ------
    HostError
        If the folder cannot be written, or its disk is full.
    VirtualGpuError
        If the child does not start, or does not run on the virtual GPU.
    """
    return _Replayer(toolchain, gpu, problems, options, folder, progress, stop or Event()).run()


class _Replayer:
    def __init__(
        self,
        toolchain: Toolchain,
        gpu: Gpu | None,
        problems: Sequence[Problem],
        options: ReplayOptions,
        folder: Path,
        progress: Callable[[int], None] | None,
        stop: Event,
    ):
        self._toolchain = toolchain
        self._problems = problems
        self._options = options
        self._folder = folder
        self._progress = progress
        self._stop = stop
        self._outcomes: list[Outcome] = []
        self._running: tuple[int, str] | None = None  # problem and call under way
        self._seconds = 0.0
        self._ended = False
        try:
            for name in ("cache", "userdb", "home", "tmp"):
                (folder / name).mkdir(parents=True)
            self._gpu = _set_up(toolchain, gpu, options.mode, folder / "vgpu")
        except OSError as error:
            raise HostError(f"Cannot use `{folder}` as work folder: {error.strerror}") from error

    def run(self) -> Replay:
        first, silent = 0, 0
        while not self._ended:
            told = len(self._outcomes)
            self._run_child(first)
            if self._ended:
                break
            silent = 0 if len(self._outcomes) > told else silent + 1
            if silent >= MAX_SILENT_DEATHS:
                self._fail("The planning child died before it ran any problem")
            if self._outcomes:
                first = self._outcomes[-1].problem + 1
            if first >= len(self._problems) > 0:
                break  # it was the last one that died
        self._check_space()
        return Replay(
            tuple(self._outcomes),
            tuple(sorted((self._folder / "cache").rglob("*.ukdb"))),
            read_journal([self._gpu.journal]),
            self._seconds,
        )

    def _run_child(self, first: int) -> None:
        """Run one child from problem `first` on, until it ends, dies or hangs."""
        started = time.monotonic()
        with self._start_child(first) as child:
            try:
                hung = not self._follow(child)
            finally:
                child.kill()
        self._seconds += time.monotonic() - started
        if not self._ended:
            self._note_death(child.returncode, hung)

    def _start_child(self, first: int) -> subprocess.Popen[bytes]:
        argv, environment = self._gpu.command(_GUEST, [str(self._request(first))])
        with host_errors("start a process on the virtual GPU"), self._log_path.open("ab") as log:
            return subprocess.Popen(
                argv,
                env={**environment, **self._environment()},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self._folder / "tmp",
                start_new_session=True,  # Ctrl-C is the parent's to handle
            )

    def _environment(self) -> dict[str, str]:
        folder = self._folder
        environment = {
            "HOME": str(folder / "home"),
            "TMPDIR": str(folder / "tmp"),
            "MIOPEN_CUSTOM_CACHE_DIR": str(folder / "cache"),
            "MIOPEN_USER_DB_PATH": str(folder / "userdb"),
            "AMD_COMGR_CACHE": "0",
            **library_environment(self._toolchain),
            **self._options.environment,
        }
        if self._options.system_db is not None:
            environment["MIOPEN_SYSTEM_DB_PATH"] = str(self._options.system_db)
        return environment

    @property
    def _log_path(self) -> Path:
        return self._folder / "log"

    def _request(self, first: int) -> Path:
        path = self._folder / "request.json"
        request = {
            "parent": os.getpid(),
            "libmiopen": str(self._toolchain.libmiopen),
            "virtual": isinstance(self._gpu, VirtualGpu),
            "libamdhip": str(self._gpu.hip_library),
            "log": str(self._log_path),
            "problems": [
                {**_request_of(problem), "calls": self._calls(i)}
                for i, problem in enumerate(self._problems)
            ],
            "first": first,
            "name_only": self._options.name_only,
            "one_handle": self._options.one_handle,
            # Only a plan: the other modes show what a user's own run is like.
            "relax_databases": self._options.mode is CompileMode.CAPTURE,
        }
        with host_errors(f"write `{path}`"):
            path.write_text(json.dumps(request), encoding="utf-8")
        return path

    def _follow(self, child: subprocess.Popen[bytes]) -> bool:
        """Take in the child's events; False when it said nothing for too long."""
        for line in _lines(child, self._options.hang_seconds, self._stop):
            if line is None:
                return False
            self._event(json.loads(line))
        return True

    def _event(self, event: dict[str, object]) -> None:
        if event["event"] == "start":
            self._running = (_int(event["problem"]), str(event["call"]))
        elif event["event"] == "done":
            self._running = None
            self._outcomes.append(
                Outcome(
                    _int(event["problem"]),
                    str(event["call"]),
                    _int(event["solutions"]),
                    str(event.get("error", "")),
                    str(event.get("log", "")),
                    float(str(event["seconds"])),
                    str(event.get("absent", "")),
                    _int(event.get("status", 0)),
                )
            )
            if self._progress and event["call"] == self._calls(_int(event["problem"]))[-1]:
                self._progress(_int(event["problem"]) + 1)
        else:
            self._ended = True
            if not event["hip_calls"] and isinstance(self._gpu, VirtualGpu):
                self._fail("libMIOpen did not use the virtual GPU")

    def _note_death(self, returncode: int, hung: bool) -> None:
        """Put the death down to the problem that was under way."""
        under_way = self._running or self._left_out()
        self._running = None
        if under_way is None:
            return
        problem, call = under_way
        reason = (
            f"No answer for {self._options.hang_seconds:.0f} s"
            if hung
            else f"The process died: {_describe_exit(returncode)}"
        )
        self._outcomes.append(Outcome(problem, call, 0, reason, self._log_tail()))
        if self._progress:
            self._progress(problem + 1)

    def _left_out(self) -> tuple[int, str] | None:
        """The call that was to come next for the last problem, which is not run again."""
        if not self._outcomes:
            return None
        last = self._outcomes[-1]
        calls = self._calls(last.problem)
        if last.call == calls[-1]:
            return None
        return last.problem, calls[calls.index(last.call) + 1]

    def _calls(self, problem: int) -> tuple[str, ...]:
        """The ways in which a problem is run."""
        convolution = isinstance(self._problems[problem], Convolution)
        return self._options.calls if convolution else (EXECUTE,)

    def _log_tail(self, lines: int = 20) -> str:
        if not self._log_path.exists():
            return ""
        with self._log_path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 8000))
            return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])

    def _check_space(self) -> None:
        """Refuse results from a full disk: libMIOpen goes on without what it could not write."""
        probe = self._folder / "space"
        with host_errors(f"write to the work folder `{self._folder}`"):
            probe.write_bytes(bytes(_SPACE_BYTES))
            probe.unlink()

    def _fail(self, message: str) -> None:
        self._check_space()
        raise VirtualGpuError(message, context=self._log_tail().splitlines())


def _set_up(
    toolchain: Toolchain, gpu: Gpu | None, mode: CompileMode, folder: Path
) -> VirtualGpu | HostGpu:
    if gpu is None:
        return HostGpu(toolchain, folder)
    return VirtualGpu.set_up(toolchain, gpu, mode, folder)


def _request_of(problem: Problem) -> dict[str, object]:
    if isinstance(problem, Convolution):
        return {"primitive": "conv", **dataclasses.asdict(problem)}
    return {
        "primitive": problem.primitive,
        "dtype": problem.dtype,
        "arguments": dict(problem.arguments),
    }


def _lines(child: subprocess.Popen[bytes], patience: float, stop: Event) -> Iterator[bytes | None]:
    """Whole lines that the child writes; None once when it is silent for `patience` seconds."""
    assert child.stdout is not None
    pending = b""
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        heard = time.monotonic()
        while True:
            if stop.is_set():
                raise VirtualGpuError("The run was stopped")
            if not selector.select(_TICK_SECONDS):
                if time.monotonic() - heard > patience:
                    yield None
                    return
                continue
            heard = time.monotonic()
            data = os.read(child.stdout.fileno(), 1 << 16)
            if not data:
                child.wait()
                return
            *lines, pending = (pending + data).split(b"\n")
            yield from lines


def _describe_exit(returncode: int) -> str:
    if returncode < 0:
        return signal.Signals(-returncode).name
    return f"exit code {returncode}"


def _int(value: object) -> int:
    if not isinstance(value, int):
        raise VirtualGpuError(f"The planning child sent `{value!r}` where a number belongs")
    return value
