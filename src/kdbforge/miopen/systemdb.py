"""The folder that MIOpen takes for its system databases, put together for one run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kdbforge.files import host_errors
from kdbforge.model.toolchain import Toolchain

__all__ = ["link_system_db"]


def link_system_db(toolchain: Toolchain, folder: Path, kdbs: Iterable[Path] = ()) -> Path:
    """Link the toolchain's find-db, perf-db and models, and the given kdbs, into `folder`.

    The toolchain's own kernel databases are left out: a record that is found in one of them is
    neither captured nor proven.

    Raises
    ------
    HostError
        If the folder cannot be written.
    """
    with host_errors(f"write to the work folder `{folder}`"):
        folder.mkdir(parents=True)
        if toolchain.system_db is not None:
            for path in toolchain.system_db.iterdir():
                if path.suffix != ".kdb":
                    (folder / path.name).symlink_to(path)
        for kdb in kdbs:
            (folder / kdb.name).symlink_to(kdb.resolve())
    return folder
