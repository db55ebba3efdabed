"""A line of a problem list or log, and text as it can be shown in an error."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["Kind", "Line", "shown"]


class Kind(Enum):
    """What a line is."""

    BLANK = "blank or comment"
    COMMAND = "driver command"
    TEXT = "anything else"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a problem list or log; `words` are those of a command, its name first."""

    kind: Kind
    words: tuple[str, ...] = ()
    log: bool = False  # shows that the text around it is a log, in which other lines are ignored
    logged: bool = False  # the command was written by libMIOpen itself


def shown(text: str, limit: int = 160) -> str:
    """Return text as it can be printed in an error: one line, no control characters, clipped."""
    clean = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text.strip())
    return clean if len(clean) <= limit else clean[: limit - 3] + "..."
