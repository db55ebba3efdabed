"""One child process that runs compile jobs: its pipes, its death, what it cost.

It decides nothing; the pool does.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from kdbforge.compiler.message import Reply, ReplyReader
from kdbforge.errors import HostError, ToolchainError, WorkerError
from kdbforge.model.toolchain import Toolchain
from kdbforge.vgpu.clang import GUEST as CLANG_GUEST
from kdbforge.vgpu.clang import clang_settings
from kdbforge.vgpu.launch import command

__all__ = ["Worker", "comgr_library", "compiler_arguments"]

_GUEST = Path(__file__).with_name("guest.py")
_SONAME = "libamd_comgr.so"
_READ_SIZE = 1 << 20
_LOG_LINES = 20
_LOG_BYTES = 1 << 16
_POLL_SECONDS = 0.01
#: How libc, libstdc++, LLVM and Python put it; a bound on memory is met in any of them.
_NO_MEMORY = (
    "out of memory",
    "bad_alloc",
    "MemoryError",
    "Cannot allocate memory",
    "failed to map segment",
)


def comgr_library(toolchain: Toolchain) -> Path:
    """The toolchain's libamd_comgr.

    Raises
    ------
    ToolchainError
        If none of its library folders has one.
    """
    needed = [name for name in toolchain.sonames if name.startswith(_SONAME)]
    for folder in toolchain.library_path:
        for name in needed or sorted(path.name for path in folder.glob(f"{_SONAME}.*")):
            if (folder / name).exists():
                return folder / name
    searched = ", ".join(f"`{folder}`" for folder in toolchain.library_path)
    raise ToolchainError(
        f"Toolchain `{toolchain.name}` has no {needed[0] if needed else _SONAME}",
        context=(f"searched: {searched or 'no folder'}",),
        hint="kdbforge toolchain list",
    )


def compiler_arguments(toolchain: Toolchain) -> tuple[str, ...]:
    """What tells a guest its compiler: first and last of its arguments.

    Raises
    ------
    ToolchainError
        As `comgr_library`.
    """
    if toolchain.clang is None:
        return (str(comgr_library(toolchain)),)
    return str(CLANG_GUEST), clang_settings(toolchain)


class Worker:
    """A running guest; `fileno` is readable when it has something to say or has ended."""

    def __init__(
        self,
        toolchain: Toolchain,
        compiler: tuple[str, ...],
        blobs: Path,
        folder: Path,
        memory: int | None,
    ):
        self._folder = folder
        self._reader = ReplyReader()
        self._reported_cpu = 0.0
        self.returncode: int | None = None
        args = [compiler[0], str(blobs), str(os.getpid()), str(memory or 0), *compiler[1:]]
        argv, environment = command(toolchain, _GUEST, args)
        try:
            folder.mkdir(parents=True)
            with (folder / "stderr").open("ab") as stderr:
                self._process = subprocess.Popen(
                    argv,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    cwd="/",  # clang writes the working folder down when it makes debug data
                    env={**environment, "TMPDIR": str(folder), "AMD_COMGR_CACHE": "0"},
                    start_new_session=True,  # Ctrl-C is the parent's to handle
                )
        except OSError as error:
            raise HostError(
                f"Cannot start a compile worker: {error.strerror}",
                context=(f"{error.filename or argv[0]}",),
            ) from error
        os.set_blocking(self.fileno(), False)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def cpu_seconds(self) -> float:
        """CPU time so far: as it last said, and exact once it has ended."""
        return self._reported_cpu

    def fileno(self) -> int:
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def send(self, frame: bytes) -> None:
        """Send a request; a guest that is dead already shows when it is read from."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(frame)
            self._process.stdin.flush()

    def receive(self) -> Iterable[Reply] | None:
        """Replies that have arrived; None once the guest has closed its end.

        Raises
        ------
        WorkerError
            If the guest does not keep to the protocol.
        """
        try:
            data = os.read(self.fileno(), _READ_SIZE)
        except BlockingIOError:
            return ()
        if not data:
            return None
        replies = tuple(self._reader.feed(data))
        for reply in replies:
            self._reported_cpu = float(reply.header["cpu"])
        return replies

    def forget_stderr(self) -> None:
        """Begin the error output anew, for the next job."""
        os.truncate(self._folder / "stderr", 0)

    def stderr_tail(self) -> str:
        """Last lines of what the guest and the libraries in it wrote to standard error."""
        with (self._folder / "stderr").open("rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - _LOG_BYTES))
            return tail(stream.read().decode("utf-8", "replace"))

    def end(self, *, patience: float = 0.0) -> None:
        """Have the process ended, note what it cost; kill it if it is alive after `patience`."""
        if self.returncode is not None:
            return
        give_up = time.monotonic() + patience
        pid = 0
        while not pid and time.monotonic() < give_up:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if not pid:
                time.sleep(_POLL_SECONDS)
        if not pid:
            os.kill(self.pid, signal.SIGKILL)
            _, status, usage = os.wait4(self.pid, 0)
        self.returncode = self._process.returncode = os.waitstatus_to_exitcode(status)
        self._reported_cpu = usage.ru_utime + usage.ru_stime
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def remove_folder(self) -> None:
        """Remove what the guest and the compiler left behind."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def cause_of_death(self) -> str:
        """Why it ended, in words; after `end`."""
        text = self.stderr_tail()
        if any(words in text for words in _NO_MEMORY):
            return "out of memory"
        assert self.returncode is not None
        if self.returncode < 0:
            return f"crash: signal {-self.returncode}"
        return f"crash: exit status {self.returncode}"

    def start_error(self) -> WorkerError:
        """The error that says that it never got ready; after `end`."""
        return WorkerError(
            f"A compile worker did not start: {self.cause_of_death()}",
            context=tuple(self.stderr_tail().splitlines()),
            hint="kdbforge toolchain show",
        )


def tail(text: str) -> str:
    """The last lines of a log."""
    return "\n".join(text.rstrip().splitlines()[-_LOG_LINES:])
