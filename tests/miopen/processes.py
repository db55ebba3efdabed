"""Processes of tests: started in a session of their own, watched, killed, looked for."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["guests", "processes_that_mention", "started", "wait_until"]


@contextmanager
def started(*args: str | Path, store: Path) -> Iterator[subprocess.Popen[str]]:
    """A running `kdbforge`, the leader of its process group as in a shell."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kdbforge", "--store", str(store), *map(str, args)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def wait_until(condition: Callable[[], Any], process: subprocess.Popen[str] | None = None) -> None:
    """Wait for something that must come; fails when `process` ends first, or after a minute."""
    give_up = time.monotonic() + 60
    while not condition():
        assert process is None or process.poll() is None, process.stderr.read()  # type: ignore[union-attr]
        assert time.monotonic() < give_up, "it did not happen within a minute"
        time.sleep(0.01)


def guests(pid: int | str = "self") -> list[int]:
    """Direct children that run on a toolchain's libraries.

    Other children are none of the tests' business: Python's own resource tracker, for example,
    stays until the process ends.
    """
    tasks = Path(f"/proc/{pid}/task").iterdir()
    found = [word for task in tasks for word in (task / "children").read_text().split()]
    return [int(word) for word in found if b"guest" in _arguments(word)]


def _arguments(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has just ended
        return b""


def processes_that_mention(folder: Path) -> list[int]:
    """Living processes whose arguments or environment name a folder; this one is left out."""
    needle, found = str(folder).encode(), []
    for path in Path("/proc").iterdir():
        if not path.name.isdigit() or int(path.name) == os.getpid():
            continue
        try:
            words = (path / "cmdline").read_bytes() + (path / "environ").read_bytes()
        except OSError:  # it has just ended, or is another user's
            continue
        if needle in words:
            found.append(int(path.name))
    return found
