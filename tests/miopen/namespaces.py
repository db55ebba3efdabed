"""Linux namespaces for tests: no network, other mounts, another user."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["NOBODY", "Result", "as_nobody", "foreign_folder", "isolated"]

NOBODY = 65534
Result = subprocess.CompletedProcess[str]


def isolated(script: str, *args: str | Path, **options: object) -> Result:
    """Run a shell script that may mount what it likes, and has no network.

    Not root: a user namespace makes the caller root of that script alone.
    """
    flags = "-mn" if os.getuid() == 0 else "-rmn"
    return subprocess.run(
        ["unshare", flags, "sh", "-euc", script, "sh", *map(str, args)],
        check=False,
        **{  # type: ignore[call-overload]
            "capture_output": True, "text": True,
            "stdin": subprocess.DEVNULL, **options,
        },
    )  # fmt: skip


def as_nobody(readable: Iterable[Path]) -> list[str]:
    """The start of a command that runs the rest without root's rights.

    Where a folder above the `readable` ones is closed to others (a checkout in /root), the
    process may read it all the same; it can write no more than any other user.
    """
    if os.getuid() != 0:
        return []
    start = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    start += ["--no-new-privs", "--bounding-set=-all"]
    above = {folder for path in readable for folder in path.resolve().parents}
    if not all(folder.stat().st_mode & stat.S_IXOTH for folder in above):
        right = "dac_read_search"
        start[-1] += f",+{right}"
        start += [f"--inh-caps=+{right}", f"--ambient-caps=+{right}"]
    return start


@contextmanager
def foreign_folder() -> Iterator[Path]:
    """A new folder in /tmp that belongs to the user of `as_nobody`."""
    folder = Path(tempfile.mkdtemp(prefix="kdbforge-test-", dir="/tmp"))
    try:
        if os.getuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
        yield folder
    finally:
        shutil.rmtree(folder)
