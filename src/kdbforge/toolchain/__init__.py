"""One libMIOpen with its compiler: find an installed one or fetch one, check it, name it.

Starting a process on a toolchain is `kdbforge.vgpu`'s and `kdbforge.miopen`'s work, not ours.
"""

from __future__ import annotations

from kdbforge.model.toolchain import Toolchain
from kdbforge.toolchain.description import Description
from kdbforge.toolchain.fetch import FetchOptions, FetchResult, fetch
from kdbforge.toolchain.probe import probe
from kdbforge.toolchain.registry import (
    add,
    check,
    data_folder,
    describe,
    find,
    names,
    remove,
    verify,
)

__all__ = [
    "Description",
    "FetchOptions",
    "FetchResult",
    "Toolchain",
    "add",
    "check",
    "data_folder",
    "describe",
    "fetch",
    "find",
    "names",
    "probe",
    "remove",
    "verify",
]
