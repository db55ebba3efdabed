"""Files are written whole or not at all, and a folder has one writer at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from kdbforge.errors import BusyError, HostError

__all__ = ["host_errors", "lock_folder", "scratch_folder", "sync_folder", "write_whole"]


@contextmanager
def host_errors(what: str) -> Iterator[None]:
    """Turn an OSError into a HostError: "Cannot `what`: reason".

    Raises
    ------
    HostError
        For every OSError of the block.
    """
    try:
        yield
    except OSError as error:
        hint = None
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            hint = "free some space and run the same command again; finished work is kept"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            hint = "give a folder that this user may write to"
        raise HostError(f"Cannot {what}: {error.strerror or error}", hint=hint) from error


@contextmanager
def write_whole(
    path: Path, *, temporary: Path | None = None, what: str | None = None
) -> Iterator[IO[bytes]]:
    """Open a temporary file that becomes `path` when the block ends well.

    The data is on the disk before the name is. Nothing is left behind when the block fails; what
    a killed process leaves is in the folder `temporary`, by default that of `path`. An error
    says that kdbforge cannot do `what`, by default write the file.

    Raises
    ------
    HostError
        If the file cannot be written.
    """
    with host_errors(what or f"write `{path}`"):
        descriptor, name = tempfile.mkstemp(dir=temporary or path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
                file.flush()
                os.fchmod(file.fileno(), 0o644)
                os.fsync(file.fileno())
            Path(name).replace(path)
        except BaseException:
            with suppress(FileNotFoundError):
                Path(name).unlink()
            raise
        sync_folder(path.parent)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for temporary files, gone when the block ends.

    Raises
    ------
    HostError
        If none can be made.
    """
    try:
        folder = tempfile.TemporaryDirectory(prefix="kdbforge-")
    except OSError as error:
        raise HostError(
            f"Cannot make a folder for temporary files: {error.strerror or error}",
            hint="set TMPDIR to a folder that this user may write to",
        ) from error
    with folder as name:
        yield Path(name)


def sync_folder(folder: Path) -> None:
    """Make renames within a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold a folder against other kdbforge processes; the lock dies with the process.

    Raises
    ------
    BusyError
        If another process holds it.
    HostError
        If the folder cannot be made or opened.
    """
    with host_errors(f"use folder `{folder}`"):
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise BusyError(
            f"Another kdbforge process is writing into `{folder}`",
            hint="wait for it, or give another folder",
        ) from error
    try:
        yield
    finally:
        os.close(descriptor)
