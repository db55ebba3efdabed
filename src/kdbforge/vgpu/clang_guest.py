"""Runs the toolchain's clang as a libMIOpen without COMGR would, on any host.

Standard library only: the toolchain's own Python runs this file. It knows nothing of kdbforge.

    clang_guest.py SETTINGS FOLDER SOURCE PROGRAM ARGUMENT...

SETTINGS is a JSON object: `launcher` (words that start a program on the toolchain's libraries),
`clang` (path), `options` (further options of clang), `environment` (all of it). SOURCE, in FOLDER,
is compiled to SOURCE.o there. What clang would run as children, this file runs: a clang of a newer
C library could not start its own.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1  # linux/prctl.h
#: A word of a command as `clang -###` prints it (Command::Print in LLVM's Job.cpp).
WORD = re.compile(r' "((?:[^"\\]|\\.)*)"')
ESCAPED = re.compile(r"\\(.)")
#: clang-offload-bundler wants to see a llvm-objcopy in PATH (ClangOffloadBundler.cpp), which it
#: runs for objects of the host only; MIOpen has none.
STAND_IN = "#!/bin/sh\necho 'llvm-objcopy has no business here' >&2\nexit 1\n"


class CommandError(Exception):
    """A step failed; `log` is what it said."""

    def __init__(self, text: str, log: bytes):
        super().__init__(text)
        self.text = text
        self.log = log


class Clang:
    """The toolchain's clang, its linker and its bundler."""

    def __init__(self, settings: dict[str, Any]):
        self._launcher = [str(word) for word in settings["launcher"]]
        self._clang = Path(settings["clang"])
        self._options = [str(word) for word in settings["options"]]
        self._environment = {str(k): str(v) for k, v in settings["environment"].items()}
        self._prctl = ctypes.CDLL(None).prctl

    def compile(self, folder: Path, source: str, program: str, arguments: Sequence[str]) -> bytes:
        """Compile `source` in `folder` to `source`.o there; returns the log.

        The object depends on the files of the folder and the arguments, not on the folder's name.

        Raises
        ------
        CommandError
            If a step fails.
        """
        scratch = Path(tempfile.mkdtemp(prefix="clang-"))
        try:
            objcopy = scratch / "llvm-objcopy"
            objcopy.write_text(STAND_IN, encoding="ascii")
            objcopy.chmod(0o755)
            words = self._words(folder, source, program, arguments)
            log = b""
            for step in self._steps(folder, scratch, words):
                log += self._run(step, folder, scratch)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return log

    def _words(
        self, folder: Path, source: str, program: str, arguments: Sequence[str]
    ) -> list[str]:
        # As a program it is told apart by its name, and finds its parts beside it.
        mode = "g++" if "++" in program else "gcc"
        words = [str(self._clang), f"--driver-mode={mode}", "-no-canonical-prefixes"]
        words += ["--no-default-config", *self._options, *arguments]
        if "--cuda-device-only" in arguments:
            # clang takes the path of the source, unlike in every run, into a symbol's name.
            words.append(f"-cuid={content_id(folder, source, program, arguments)}")
        return [*words, source, "-o", f"{source}.o"]

    def _steps(self, folder: Path, scratch: Path, words: list[str]) -> list[list[str]]:
        """What clang would run for these words."""
        text = self._run([*words, "-###"], folder, scratch).decode("utf-8", "surrogateescape")
        lines = [line for line in text.splitlines() if line.startswith(' "')]
        steps = [[ESCAPED.sub(r"\1", word) for word in WORD.findall(line)] for line in lines]
        if not steps:
            raise CommandError(
                "clang does not say what it would run", text.encode(errors="replace")
            )
        for step in steps:
            if Path(step[0]).parent != self._clang.parent or not Path(step[0]).is_file():
                name = Path(step[0]).name
                raise CommandError(
                    f"clang needs `{name}`, and `{self._clang.parent}` has none", b""
                )
        return steps

    def _run(self, words: list[str], folder: Path, scratch: Path) -> bytes:
        done = subprocess.run(
            [*self._launcher, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**self._environment, "TMPDIR": str(scratch), "PATH": str(scratch)},
            preexec_fn=self._die_with_parent,
            check=False,
        )
        log = done.stdout.replace(os.fsencode(f"{scratch}/"), b"")
        if done.returncode:
            how = f"signal {-done.returncode}" if done.returncode < 0 else "exit status"
            how += "" if done.returncode < 0 else f" {done.returncode}"
            raise CommandError(f"`{Path(words[0]).name}` failed: {how}", log)
        return log

    def _die_with_parent(self) -> None:
        self._prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def content_id(folder: Path, source: str, program: str, arguments: Sequence[str]) -> str:
    """16 hexadecimal digits, as long as those of clang itself, of all that goes into an object."""
    total = hashlib.sha256()

    def add(data: bytes) -> None:
        total.update(len(data).to_bytes(8, "little") + data)

    for word in (source, program, *arguments):
        add(os.fsencode(word))
    for path in sorted(folder.iterdir()):
        if path.name != f"{source}.o":
            add(os.fsencode(path.name))
            add(path.read_bytes())
    return total.hexdigest()[:16]


def main(write: Callable[[bytes], object] = sys.stderr.buffer.write) -> int:
    settings, folder, source, program, *arguments = sys.argv[1:]
    try:
        write(Clang(json.loads(settings)).compile(Path(folder), source, program, arguments))
    except CommandError as error:
        write(error.log + os.fsencode(error.text) + b"\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
