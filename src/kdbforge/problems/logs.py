"""libMIOpen's own lines in a log: which of them name problems, or kernels that it had to build.

A line is taken apart here and understood elsewhere: commands.py, keys.py.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

__all__ = [
    "KINDS",
    "MENTION",
    "Note",
    "Record",
    "lines_to_read",
    "missed_kernel",
    "other_key",
    "problem_keys",
    "records",
]

#: In all lines of libMIOpen and in all commands of MIOpenDriver.
MENTION = b"MIOpen"
#: MIOpen's log prefix (src/logger.cpp, LoggingPrefix), which ends with a time where it is asked.
_MARK = b"MIOpen("
_PREFIX = re.compile(rb"MIOpen\((?:HIP|OpenCL)\) *[0-9.]*: ")
#: All lines worth a closer look hold a driver command, a layout's name, as the keys of
#: convolutions do, or a part of one of the two messages below.
_WORDS = (b"HW", b"MIOpenDriver", b"Unable to load binary for: ", b" and solver ")
#: A find-db key, a network config or what looks like them.
_KEY = re.compile(rb"[0-9]+[-x][0-9][0-9A-Za-z_-]*")
_MAX_KEY_BYTES = 400
#: What follows a line that Docker keeps in its own logs, as a text in JSON.
_JSON_END = b'\\n",'
#: src/binary_cache.cpp, LoadBinary.
_MISSED = re.compile(rb'Unable to load binary for: \\?"([^"\\]+)\\?"; args: ')
#: src/invoker_cache.cpp, Register: once for each problem and solver.
_REGISTERED = b"Invoker registered for algorithm "
_SOLVER = b" and solver "


#: Kinds of notes, and how to say one and many of them.
KINDS = {
    "damaged-lines": ("1 damaged line skipped", "damaged lines skipped"),
    "missed-kernels": (
        "1 kernel was in no kernel database; the log does not say for which problem",
        "kernels were in no kernel database; the log does not say for which problems",
    ),
    "not-supported": ("1 problem left out as not supported", "problems left out as not supported"),
    "output-pads": (
        "1 transposed convolution may have output pads, which only `MIOPEN_LOG_LEVEL=6` shows",
        "transposed convolutions may have output pads, which only `MIOPEN_LOG_LEVEL=6` shows",
    ),
}


class Record(NamedTuple):  # a million of them: twice as fast to make as a dataclass
    """One message of libMIOpen, from the word behind its prefix on."""

    text: bytes
    whole: bool  # neither cut off nor run into by another process' line


@dataclass(frozen=True, slots=True)
class Note:
    """What a log held besides its problems, for the user to know."""

    kind: str  # of KINDS
    source: str
    count: int
    first: str  # `file:line`
    examples: tuple[str, ...]  # reasons, kernel files, or commands, solvers and keys; the first

    @property
    def text(self) -> str:
        """The note in one sentence."""
        one, many = KINDS[self.kind]
        what = one if self.count == 1 else f"{self.count:,} {many}"
        # The line that is named has the first of the reasons; a driver line is a long example.
        few = self.kind in ("damaged-lines", "output-pads")
        return f"{what}, first at {self.first}: {', '.join(self.examples[: 1 if few else None])}"


def lines_to_read(text: bytes, lines: Sequence[bytes]) -> list[int]:
    """Return the indexes of the lines of a log that may hold anything; `text` is all of them.

    Most lines of libMIOpen do not. Looking for words in many lines at once is much faster.
    """
    found = {index for index, line in enumerate(lines) if MENTION not in line}
    for word in _WORDS:
        start = index = 0
        while (at := text.find(word, start)) >= 0:
            index += text.count(b"\n", start, at)
            found.add(index)
            start = text.find(b"\n", at)
            if start < 0:
                break
    return sorted(found)


def records(line: bytes, *, ended: bool = True) -> list[Record]:
    """Return the messages in a line: several where processes wrote at once, none in other text."""
    if _JSON_END in line:
        line, ended = line[: line.find(_JSON_END)], True
    start = line.find(_MARK)
    if line.find(_MARK, start + 1) < 0:  # by far the most
        prefix = _PREFIX.match(line, start) if start >= 0 else None
        return [Record(line[prefix.end() :], ended)] if prefix is not None else []
    marks = [match.span() for match in _PREFIX.finditer(line)]
    texts = [line[start:end] for (_, start), (end, _) in itertools.pairwise(marks)]
    found = [Record(text, whole=False) for text in texts]
    if marks:
        found.append(Record(line[marks[-1][1] :], ended))
    return found


def problem_keys(record: Record) -> Iterator[tuple[bytes, bool]]:
    """Yield what looks like a convolution's key, and whether it is known to be whole.

    All such keys hold the name of a layout, and stand behind a blank.
    """
    text = record.text
    layout = text.find(b"HW")
    while layout >= 0:
        blank = text.rfind(b" ", max(0, layout - _MAX_KEY_BYTES), layout)
        match = _KEY.match(text, blank + 1) if blank >= 0 else None
        end = layout + 1
        if match is not None and match.end() > layout:
            end = match.end()
            yield match[0], record.whole or end < len(text)
        layout = text.find(b"HW", end)


def missed_kernel(record: Record) -> str | None:
    """Return the file name of the kernel that was looked for in vain, if it is about one."""
    match = _MISSED.search(record.text)
    return match[1].decode() if match is not None else None


def other_key(record: Record) -> tuple[bytes, str] | None:
    """Return key and solver, if it is about an invoker; the key may be of any primitive."""
    _, found, rest = record.text.partition(_REGISTERED)
    key, _, solver = rest.rpartition(_SOLVER)
    return (key, solver.decode()) if found and key else None
