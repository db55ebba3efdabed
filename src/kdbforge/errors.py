"""The one error tree: everything that a user can cause or cure is a `KdbforgeError`.

An error carries what happened (with the value), where, and one way out. Only `cli/` prints.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

__all__ = [
    "BusyError",
    "DatabaseError",
    "HostError",
    "InputError",
    "KdbforgeError",
    "StoreError",
    "ToolchainError",
    "UnknownNameError",
    "UnsupportedError",
    "VirtualGpuError",
    "WorkerError",
]


class KdbforgeError(Exception):
    """Base of all errors that kdbforge raises on purpose.

    Parameters
    ----------
    message
        What happened, with the offending value in backticks; capital letter, no full stop.
    context
        Lines that say where: `file:line`, job key, last lines of a log.
    hint
        One way out, a command where there is one.
    """

    reference = "error"
    exit_code = 2

    def __init__(self, message: str, *, context: Sequence[str] = (), hint: str | None = None):
        super().__init__(message)
        self.message = message
        self.context = tuple(context)
        self.hint = hint


class InputError(KdbforgeError):
    """A file, line or value that the user gave is not acceptable."""

    reference = "bad-input"


class UnsupportedError(InputError):
    """The input is well formed, and kdbforge does not support it (yet)."""

    reference = "not-supported"


class UnknownNameError(InputError):
    """A name is not known; the nearest known ones are suggested."""

    reference = "unknown-name"

    def __init__(self, what: str, name: str, known: Iterable[str], *, hint: str | None = None):
        near = _nearest(name, list(known))
        if near and hint is None:
            hint = "did you mean " + ", ".join(f"`{n}`" for n in near) + "?"
        super().__init__(f"Unknown {what} `{name}`", hint=hint)
        self.name = name


def _nearest(name: str, known: list[str], limit: int = 4) -> list[str]:
    """Known names that contain this one, whatever its punctuation, then those like it."""
    letters = _letters(name)
    containing = [other for other in known if letters and letters in _letters(other)]
    lower = {other.lower(): other for other in known}
    alike = difflib.get_close_matches(name.lower(), lower, n=limit, cutoff=0.5)
    return list(dict.fromkeys((*containing, *(lower[found] for found in alike))))[:limit]


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))


class ToolchainError(KdbforgeError):
    """A libMIOpen or its compiler is missing, damaged, or of a kind that cannot be used."""

    reference = "toolchain"


class VirtualGpuError(KdbforgeError):
    """The virtual GPU could not be started or did something that it must not."""

    reference = "virtual-gpu"


class SessionError(KdbforgeError):
    """MIOpen cannot do a step of a session."""

    reference = "session"


class WorkerError(KdbforgeError):
    """A child process that kdbforge depends on could not do its work at all."""

    reference = "worker"


class StoreError(KdbforgeError):
    """The store of compiled code objects cannot be used."""

    reference = "store"


class DatabaseError(KdbforgeError):
    """A kernel database is not what it should be."""

    reference = "database"


class HostError(KdbforgeError):
    """This machine stands in the way: disk full, folder not writable, tool not installed."""

    reference = "host"


class BusyError(KdbforgeError):
    """Another kdbforge process is using the same folder."""

    reference = "busy"
