"""Asks a libMIOpen which kernel databases it opens, by running it on a virtual GPU.

It runs with an empty home of its own, so nothing is written where its answers point to.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kdbforge.errors import HostError, KdbforgeError
from kdbforge.files import host_errors
from kdbforge.miopen.replay import ReplayOptions, replay
from kdbforge.model.device import Gpu
from kdbforge.model.toolchain import Toolchain
from kdbforge.package.libraries import Library
from kdbforge.vgpu.process import CompileMode

__all__ = ["Lookup", "ask", "is_off", "is_on", "read_log", "system_folder", "user_home"]

# MIOpen src/env.hpp: the words that it takes for true and false.
_ON = ("1", "enable", "enabled", "yes", "on", "true")
_OFF = ("0", "disable", "disabled", "no", "off", "false")
#: What changes the file names, and is handed on to the run.
_NAMING = ("MIOPEN_DISABLE_CACHE", "MIOPEN_DEVICE_CU", "MIOPEN_DEBUG_ENFORCE_DEVICE")
_OPENED = re.compile(r'\[SQLiteBase\] Initializing (system|user) database file "?([^"\n]*)"?')
#: What MIOPEN_THROW prints, without the place in its source.
_SAID = re.compile(r"^MIOpen Error: (?:\S+:\d+: )?(.+)$", re.MULTILINE)
#: With this the user folder is as it would be without any setting of the user's.
_DEFAULT_CACHE = {"MIOPEN_CUSTOM_CACHE_DIR": ""}


@dataclass(frozen=True, slots=True)
class Lookup:
    """Which files a library opens for one GPU."""

    system: Path | None  # the system kdb; None: it found none, or does not look
    user: Path | None  # the user kdb; None: it does not look
    reads_files: bool  # False: it opened no database at all
    error: str = ""  # why the library failed; the rest is what it had opened until then

    @property
    def basename(self) -> str | None:
        """The db basename, from the library itself."""
        return None if self.user is None else self.user.stem


def is_on(value: str | None) -> bool:
    """Whether MIOpen takes the value of a variable for true."""
    return value is not None and value.lower() in _ON


def is_off(value: str | None) -> bool:
    """Whether MIOpen takes the value of a variable for false."""
    return value is not None and value.lower() in _OFF


def read_log(text: str) -> tuple[str | None, str | None]:
    """The system and the user file named in a log of level 6; None for one not looked for."""
    found: dict[str, str] = {}
    for kind, path in _OPENED.findall(text):
        found.setdefault(kind, path)
    return found.get("system"), found.get("user")


def system_folder(library: Library, environment: Mapping[str, str]) -> Path | None:
    """The folder in which a library looks for system databases, absolute."""
    text = environment.get("MIOPEN_SYSTEM_DB_PATH")
    return Path(text).absolute() if text else library.system_folder


def user_home(environment: Mapping[str, str]) -> Path:
    """The home folder, as MIOpen takes it from the environment.

    Raises
    ------
    HostError
        If HOME is not set.
    """
    if not environment.get("HOME"):
        raise HostError("HOME is not set, so libMIOpen has no user folder", hint="set HOME")
    return Path(environment["HOME"])


def ask(
    library: Library, gpu: Gpu, environment: Mapping[str, str], *, folder: Path | None = None
) -> Lookup:
    """Run the library on a virtual GPU and see which databases it opens.

    Parameters
    ----------
    environment
        That of the user's programs; only what matters to the look-up is handed on.
    folder
        The system folder; None: that of the environment or the library's own.

    Raises
    ------
    InputError
        If the library cannot be run here.
    HostError
        If there is no room for temporary files.
    """
    if library.toolchain is None:
        raise HostError(f"`{library.path}` cannot be run here", context=[library.reason])
    folder = folder or system_folder(library, environment)
    variables = {name: environment[name] for name in _NAMING if name in environment}
    if folder is not None:
        variables["MIOPEN_SYSTEM_DB_PATH"] = str(folder)
    custom = environment.get("MIOPEN_CUSTOM_CACHE_DIR")
    if not custom:
        variables |= _DEFAULT_CACHE
    with host_errors("make a temporary folder"):
        temporary = tempfile.TemporaryDirectory(prefix="kdbforge-ask-")
    with temporary as name:
        text, error = _run(library.toolchain, gpu, variables, Path(name) / "run")
        system, user = read_log(text)
        return Lookup(
            Path(system) if system else None,
            _at_home(user, Path(name) / "run", environment, custom) if user else None,
            (system, user) != (None, None),
            error,
        )


def _run(
    toolchain: Toolchain, gpu: Gpu, variables: Mapping[str, str], folder: Path
) -> tuple[str, str]:
    """The library's log, and its error if it failed."""
    options = ReplayOptions(
        CompileMode.CAPTURE, ("find",), None, {"MIOPEN_LOG_LEVEL": "6", **variables},
        name_only=True,
    )  # fmt: skip
    error = ""
    try:
        replay(toolchain, gpu, [], options, folder)
    except HostError:
        raise
    except KdbforgeError as failure:
        error = failure.message
    log = folder / "log"
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    said = _SAID.findall(text)
    return text, (said[-1] if said else error) if error else ""


def _at_home(
    user: str, run: Path, environment: Mapping[str, str], custom: str | None
) -> Path | None:
    """Where the file of the run's own home or cache would be for the user."""
    path = Path(user)
    if custom:
        base, place = run / "cache", Path(custom).expanduser().absolute()
    else:
        base, place = run / "home", user_home(environment)
    return place / path.relative_to(base) if path.is_relative_to(base) else path
