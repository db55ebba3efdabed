"""A folder in memory, where there is one, for targets that read files."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

__all__ = ["empty_folder"]


@functools.cache
def _root() -> Path:
    memory = Path("/dev/shm")
    folder = tempfile.mkdtemp(prefix="kdbforge-fuzz-", dir=memory if memory.is_dir() else None)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def empty_folder() -> Path:
    """The folder of this process, without what the last input left there."""
    folder = _root()
    for path in folder.iterdir():
        path.unlink()
    return folder
