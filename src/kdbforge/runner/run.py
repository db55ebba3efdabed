"""Starts a program on virtual GPUs, waits for it, and reads what it left behind.

The program has the caller's terminal, environment and process group; only the GPU is ours.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO

from kdbforge.errors import InputError
from kdbforge.files import host_errors, write_whole
from kdbforge.miopen.replay import library_environment
from kdbforge.miopen.systemdb import link_system_db
from kdbforge.model.device import Gpu
from kdbforge.model.plan import Plan
from kdbforge.model.toolchain import Toolchain
from kdbforge.planner.planfile import write_plan
from kdbforge.runner.capture import captured_plan
from kdbforge.runner.collect import Collector, collected_text
from kdbforge.runner.program import Program, find_program
from kdbforge.vgpu.journal import Capture, read_journal
from kdbforge.vgpu.launch import compiler_environment
from kdbforge.vgpu.process import CompileMode, MemoryMode, VirtualGpu

__all__ = ["RunOptions", "RunReport", "needed_sonames", "run_program"]

_LOGGING = "MIOPEN_ENABLE_LOGGING_CMD"
_HIPRTC = "libhiprtc.so."
_CHUNK = 1 << 16
#: How often a program is looked at that has closed nothing, or whose children hold its stderr.
_TICK_SECONDS = 0.1
#: Passed on to the program; Ctrl-C reaches it by itself, as it is in the same process group.
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How to run a program; every path is the user's."""

    mode: CompileMode = CompileMode.CAPTURE  # --compile
    memory: MemoryMode = MemoryMode.BACKED  # --memory
    problems: Path | None = None  # --collect-problems: where the driver lines go
    capture: Path | None = None  # --capture: where the plan of the captured jobs goes
    kdb: Path | None = None  # --kdb: folder with kernel databases that MIOpen finds
    cache: Path | None = None  # --keep-cache: folder for MIOpen's own databases; None: removed
    library_path: tuple[Path, ...] = ()  # --library-path: where more of its libraries are


@dataclass(frozen=True, slots=True)
class RunReport:
    """How a program ended, and what it asked for."""

    exit_code: int  # as a shell tells it: 128 and the number of the signal that ended it
    journal: Capture
    calls: Mapping[str, int] = field(default_factory=dict)  # driver commands, with their counts
    plan: Plan | None = None


def run_program(
    toolchain: Toolchain,
    gpus: Sequence[Gpu],
    argv: Sequence[str],
    options: RunOptions,
    folder: Path,
) -> RunReport:
    """Run a program on virtual GPUs; HIP numbers them in the order given.

    What was collected and captured is written whole when the program has ended, however it did.

    Parameters
    ----------
    folder
        An empty folder for the virtual GPUs and MIOpen's temporary files.

    Raises
    ------
    InputError
        If there is no such program, an option does not fit another, or `kdb` holds no database.
    HostError
        If a file or folder cannot be written.
    """
    _check(options)
    folders = tuple(path.absolute() for path in options.library_path)
    program = find_program(argv[0], toolchain, folders)
    kdbs = _databases(options.kdb)
    vgpu = VirtualGpu.set_up(
        toolchain, gpus[0], options.mode, folder / "vgpu",
        memory=options.memory, more_gpus=gpus[1:], sonames=needed_sonames(program, toolchain),
    )  # fmt: skip
    own = _library_variables(toolchain, folder, options.cache or folder, kdbs)
    collector = None
    if options.problems is not None:
        collector = Collector(keep_commands=os.environ.get(_LOGGING, "0") not in ("", "0"))
        own[_LOGGING] = "1"
    if not program.by_host:
        _alias_hiprtc(program, toolchain, folders, folder / "vgpu" / "lib")
    command, needed = vgpu.program_command(
        [str(program.path), *argv[1:]], library_path=folders, by_host=program.by_host
    )
    environment = _environment(toolchain, program, {**own, **needed})
    with host_errors(f"run `{argv[0]}`"):
        code = _run(command, environment, collector)
    report = RunReport(code, read_journal([vgpu.journal]), collector.counts if collector else {})
    return _write(report, toolchain, gpus, argv, options, folder)


def _check(options: RunOptions) -> None:
    if options.capture is not None and options.mode is not CompileMode.CAPTURE:
        raise InputError("Nothing is captured unless compiling is: `--compile capture`")
    if options.cache is not None and options.mode is CompileMode.CAPTURE:
        raise InputError(
            "What MIOpen keeps while compiling is captured are no kernels, so it is not kept",
            hint="keep the cache with `--compile pass` or `--compile forbid`",
        )
    for folder in options.library_path:
        if not folder.is_dir():
            raise InputError(f"There is no folder `{folder}` with libraries")
    for path in (options.problems, options.capture):
        if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
            raise InputError(f"Cannot write `{path}`: it is a folder, or its folder is missing")


def needed_sonames(program: Program, toolchain: Toolchain) -> tuple[str, ...]:
    """What is replaced: that of the part which decides, libMIOpen where it is the toolchain's."""
    parts = (toolchain.sonames, program.needed)
    first, second = reversed(parts) if program.by_host else parts
    return (*first, *second)


def _alias_hiprtc(
    program: Program, toolchain: Toolchain, folders: Sequence[Path], aliases: Path
) -> None:
    """Give a program that was built for another ROCm the toolchain's HIPRTC, of the same API."""
    own = next((name for name in toolchain.sonames if name.startswith(_HIPRTC)), None)
    path = (
        next((f / own for f in toolchain.library_path if (f / own).exists()), None) if own else None
    )
    for name in program.needed:
        known = any((folder / name).exists() for folder in (*folders, *toolchain.library_path))
        if name.startswith(_HIPRTC) and path is not None and not known:
            (aliases / name).symlink_to(path)


def _databases(folder: Path | None) -> tuple[Path, ...]:
    if folder is None:
        return ()
    found = tuple(sorted(folder.glob("*.kdb"))) if folder.is_dir() else ()
    if not found:
        raise InputError(f"There is no kernel database (*.kdb) in `{folder}`")
    return found


def _library_variables(
    toolchain: Toolchain, folder: Path, kept: Path, kdbs: Sequence[Path]
) -> dict[str, str]:
    """MIOpen's variables: private folders, and the databases that it may find."""
    with host_errors(f"make folders in `{kept}`"):
        (folder / "tmp").mkdir()
        for name in ("cache", "userdb"):
            (kept / name).mkdir(parents=True, exist_ok=True)
    return {
        "TMPDIR": str(folder / "tmp"),
        "MIOPEN_CUSTOM_CACHE_DIR": str(kept.absolute() / "cache"),
        "MIOPEN_USER_DB_PATH": str(kept.absolute() / "userdb"),
        "MIOPEN_SYSTEM_DB_PATH": str(link_system_db(toolchain, folder / "system-db", kdbs)),
        "AMD_COMGR_CACHE": "0",
        # A program may mean to use solvers that this library cannot compile: MIOpen's tests do.
        **{k: v for k, v in library_environment(toolchain).items() if k not in os.environ},
        **compiler_environment(toolchain),
    }


def _environment(
    toolchain: Toolchain, program: Program, changes: Mapping[str, str]
) -> dict[str, str]:
    """The caller's environment with ours over it; the host's own libraries come behind ours."""
    environment = {**os.environ, **changes}
    for name, separator in (("LD_LIBRARY_PATH", ":"), ("LD_PRELOAD", " ")):
        if not program.by_host:
            environment.pop(name, None)  # made for another C library
        elif name in changes and os.environ.get(name):
            environment[name] = changes[name] + separator + os.environ[name]
    if toolchain.python_home is not None and program.path.resolve() == toolchain.python.resolve():
        environment["PYTHONHOME"] = str(toolchain.python_home)
    return environment


def _run(argv: Sequence[str], environment: Mapping[str, str], collector: Collector | None) -> int:
    with ExitStack() as stack:
        errors = subprocess.PIPE if collector is not None else None
        process = stack.enter_context(subprocess.Popen(argv, env=environment, stderr=errors))
        stack.enter_context(_signals_passed_to(process))
        if collector is not None and process.stderr is not None:
            _split(process, process.stderr, collector)
        code = process.wait()
    return code if code >= 0 else 128 - code


@contextmanager
def _signals_passed_to(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Let the program decide what a signal means, and outlive it to tell the tale.

    Only a main thread may handle signals; in others they are left as they are.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, _frame: FrameType | None) -> None:
        if number != signal.SIGINT:
            process.send_signal(number)

    old = {number: signal.signal(number, handle) for number in (signal.SIGINT, *_PASSED_ON)}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _split(process: subprocess.Popen[bytes], stream: IO[bytes], collector: Collector) -> None:
    """Read stderr to its end, or to the program's where a child of it keeps stderr open."""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        ended = False
        while True:
            if not selector.select(_TICK_SECONDS):
                if ended:
                    break
                ended = process.poll() is not None
                continue
            data = os.read(stream.fileno(), _CHUNK)
            if not data:
                break
            _put(collector.feed(data))
    _put(collector.end())


def _put(data: bytes) -> None:
    """Write to our own stderr; one that is closed must not end the program."""
    while data:
        try:
            data = data[os.write(2, data) :]
        except OSError:
            return


def _write(
    report: RunReport,
    toolchain: Toolchain,
    gpus: Sequence[Gpu],
    argv: Sequence[str],
    options: RunOptions,
    folder: Path,
) -> RunReport:
    if options.problems is not None:
        with write_whole(options.problems) as file:
            file.write(collected_text(report.calls, argv).encode())
    if options.capture is None:
        return report
    databases = sorted((folder / "cache").rglob("*.ukdb"))
    plan = captured_plan(toolchain, gpus, report.journal, databases)
    write_plan(plan, options.capture)
    return RunReport(report.exit_code, report.journal, report.calls, plan)
