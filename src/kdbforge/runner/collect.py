"""Takes MIOpen's logged driver commands out of what a program writes to stderr.

Knows nothing of what the commands mean; the rest of the output is given back unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

__all__ = ["Collector", "collected_text"]

# MIOPEN_LOG_DRIVER_COMMAND (src/include/miopen/logger.hpp) writes, in one piece and with a line
# end, "MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver conv ...". A process number
# and a time stand in front with MIOPEN_ENABLE_LOGGING_MPMT and _ELAPSED_TIME (src/logger.cpp).
_LOGGED = re.compile(rb"MIOpen\((?:HIP|OpenCL)\): Command \[[^][]*\] \S*MIOpenDriver (.+)")
_NUMBERS = re.compile(rb"[\d. ]*")
_WORD = b"MIOpen("
#: Text without a line end that is longer is given on at once: it is no command.
_MAX_LINE = 1 << 20


class Collector:
    """Splits a stream of bytes; `counts` tells how often each command came, in order."""

    def __init__(self, *, keep_commands: bool = False):
        self._counts: dict[str, int] = {}
        self._kept = keep_commands  # the commands stay in the output, too
        self._held = b""  # may become a command
        self._in_line = False  # the beginning of the current line was given on

    @property
    def counts(self) -> Mapping[str, int]:
        return MappingProxyType(self._counts)

    def feed(self, data: bytes) -> bytes:
        """Take in more of the stream and return what is the program's own.

        Text without a line end is held back only while it may be a command.
        """
        lines = (self._held + data).split(b"\n")
        output = b"".join(self._line(line + b"\n") for line in lines[:-1])
        rest = lines[-1]
        held = self._command_start(rest) if len(rest) <= _MAX_LINE else len(rest)
        self._held = rest[held:]
        self._in_line = self._in_line or held > 0
        return output + rest[:held]

    def end(self) -> bytes:
        """Return what is still held back; a command that lacks its end is not counted."""
        rest, self._held = self._held, b""
        return rest

    def _line(self, line: bytes) -> bytes:
        found = _LOGGED.search(line)
        start = self._with_numbers(line, found.start()) if found is not None else 0
        self._in_line = found is not None and not self._kept and (self._in_line or start > 0)
        if found is None:
            return line
        command = found[1].decode(errors="replace").strip()
        self._counts[command] = self._counts.get(command, 0) + 1
        return line if self._kept else line[:start]

    def _command_start(self, text: bytes) -> int:
        """Where a command may begin in a line that has not ended: at its word, or part of it."""
        at = text.find(_WORD)
        if at < 0:
            most = min(len(_WORD) - 1, len(text))
            parts = [n for n in range(most, 0, -1) if text.endswith(_WORD[:n])]
            at = len(text) - parts[0] if parts else len(text)
        return self._with_numbers(text, at)

    def _with_numbers(self, text: bytes, at: int) -> int:
        """Take in the numbers in front, which are MIOpen's where a line begins with them."""
        return 0 if not self._in_line and _NUMBERS.fullmatch(text, 0, at) else at


def collected_text(counts: Mapping[str, int], words: Sequence[str]) -> str:
    """A file of driver lines, each once, with the number of calls as a comment."""
    clean = "".join(c if c.isprintable() else "?" for c in " ".join(words))
    lines = [f"# What `{clean}` asked of MIOpen: {sum(counts.values())} calls"]
    lines += [f"MIOpenDriver {command} # {count}" for command, count in counts.items()]
    return "\n".join(lines) + "\n"
