"""MIOpen's environment variables that builder and user may agree on."""

from __future__ import annotations

import mmap
import re
from collections.abc import Mapping

from kdbforge.errors import InputError, UnknownNameError
from kdbforge.files import host_errors
from kdbforge.model.toolchain import Toolchain

__all__ = ["check_variables"]

_NAME = re.compile(rb"(?<=\0)MIOPEN_[A-Z0-9_]+(?=\0)")
_FOLDERS = "kdbforge gives MIOpen folders of its own"
#: Those that are not the user's to set here, and why.
_OURS = {
    "MIOPEN_CUSTOM_CACHE_DIR": _FOLDERS,
    "MIOPEN_SYSTEM_DB_PATH": _FOLDERS,
    "MIOPEN_USER_DB_PATH": _FOLDERS,
    "MIOPEN_DISABLE_CACHE": "no database is read with it",
    "MIOPEN_DEBUG_COMPILE_ONLY": "problems are run to their end",
    "MIOPEN_FIND_MODE": "`--policy` says in which modes MIOpen is asked",
    "MIOPEN_FIND_ENFORCE": "tuning needs the hardware",
}


def check_variables(toolchain: Toolchain, variables: Mapping[str, str]) -> None:
    """Check that libMIOpen knows these variables; it takes no notice of others.

    Raises
    ------
    UnknownNameError
        If its file does not have the name.
    InputError
        If a variable is one that kdbforge sets.
    """
    for name, why in _OURS.items():
        if name in variables:
            raise InputError(f"{name} cannot be set for a build: {why}")
    if not variables:
        return
    with (
        host_errors(f"read `{toolchain.libmiopen}`"),
        toolchain.libmiopen.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        known = {found.group().decode() for found in _NAME.finditer(content)}
    for name in variables:
        if name not in known:
            what = f"variable of MIOpen {toolchain.miopen_version}"
            raise UnknownNameError(what, name, sorted(known))
