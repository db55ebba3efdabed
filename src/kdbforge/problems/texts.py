"""The problems of one text: a list of driver commands, or a log with commands and keys in it.

Only the end of a text tells that it is no log, so errors are kept until then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, TextIO

from kdbforge.errors import InputError, KdbforgeError, UnknownNameError, UnsupportedError
from kdbforge.model.problem import Convolution, Problem
from kdbforge.problems import logs
from kdbforge.problems.blocks import MAX_LINE_BYTES, Block, read_blocks
from kdbforge.problems.commands import CONV_DTYPES, not_a_command, read_line
from kdbforge.problems.driver import driver_line, problems_of
from kdbforge.problems.keys import read_key
from kdbforge.problems.line import Kind, Line, shown
from kdbforge.problems.transposed import as_logged, untransposed

__all__ = ["Found", "TextProblems"]

#: After a line that no text has, a log must show itself within so many lines.
_PATIENCE_LINES = 20_000
#: A line that may be a command without the program's name (commands.py has the last word).
_MAY_BE_COMMAND = re.compile(rb"\s*(?:[A-Za-z_]\w*=\S*\s+)*[A-Za-z]\w*\s+[\"'\\]?-\S")
_MAX_EXAMPLES = 5


@dataclass(slots=True)
class Found:
    """Problems that one piece of text names, and how often it came."""

    problems: tuple[Problem, ...]
    first: int  # line
    is_key: bool = False
    logged: bool = False  # a command, written by libMIOpen itself
    bare: bool = False  # a command without the program's name
    count: int = 1


@dataclass(slots=True)
class _Tally:
    """How often something came, where first, and what it was the first few times."""

    count: int = 0
    first: int = 0
    examples: dict[str, None] = field(default_factory=dict)  # in order

    def add(self, number: int, example: str) -> None:
        self.count += 1
        self.first = self.first or number
        if len(self.examples) < _MAX_EXAMPLES:
            self.examples[example] = None


class TextProblems:
    """Reads one text. Memory is taken for what is new in it only, however long it is."""

    def __init__(self, name: str):
        self._name = name
        self._log = False
        self._lines = 0
        self._binary_line = 0  # the first line that no text has
        self._error: KdbforgeError | None = None  # the first, for a text that is no log
        self._found: dict[bytes, Found] = {}
        self._missed: set[int] = set()  # hashes of messages
        self._unsupported: set[bytes] = set()  # keys
        self._tallies = {
            kind: _Tally() for kind in ("damaged-lines", "missed-kernels", "not-supported")
        }
        self._by_solver = _Tally()  # keys of other primitives, which do not say the problem

    def read(self, stream: BinaryIO | TextIO) -> None:
        """Take in a stream to its end.

        In a log, which is told by libMIOpen's lines, a line that is damaged or not supported is
        noted; in any other text the first line that is no command, comment or blank is an error.

        Raises
        ------
        InputError
            With `file:line` and the line in the context; if there is no problem in the text; if
            it is binary, compressed or cannot be read.
        """
        for block in read_blocks(self._name, stream):
            self._block(block)
        if self._log:
            self._drop_bare_commands()
        if self._error is not None and not self._log:
            raise self._error
        if self._lines == 0:
            raise InputError(f"`{self._name}` is empty")
        if not any(found.problems for found in self._found.values()):
            raise InputError(
                f"No problem found in `{self._name}`",
                context=[note.text for note in self.notes()],
                hint="log a program's problems with `MIOPEN_ENABLE_LOGGING_CMD=1`"
                if self._log
                else None,
            )

    def _drop_bare_commands(self) -> None:
        """Leave out what may be the rest of a command that another process broke into two.

        `conv -g 1 -F 1 -t 1` is what follows the flag `-m` in all commands that libMIOpen logs.
        """
        for text in [text for text, found in self._found.items() if found.bare]:
            found = self._found.pop(text)
            reason = "In a log, a command without `MIOpenDriver` may be the rest of another line"
            self._refuse(found.first, InputError(reason))

    def problems(self) -> Iterator[tuple[Problem, int, str]]:
        """Yield problems, each with a count and its first origin; a problem may come again."""
        meant: dict[Problem, Convolution] = {}
        if self._log:
            meant = {**as_logged(self._named(by_key=False), self._named(by_key=True))}
        for found in self._found.values():
            for problem in found.problems:
                yield meant.get(problem, problem), found.count, self._origin(found.first)

    def _named(self, *, by_key: bool) -> dict[Convolution, None]:
        named = (found for found in self._found.values() if found.is_key is by_key)
        problems = (problem for found in named for problem in found.problems)
        return {problem: None for problem in problems if isinstance(problem, Convolution)}

    def notes(self) -> Iterator[logs.Note]:
        """Yield what else there was to say of a log."""
        if not self._log:
            return
        tallies = [*self._tallies.items(), ("output-pads", self._unsure_pads())]
        if not any(found.logged for found in self._found.values()):
            tallies.append(("not-supported", self._by_solver))  # no commands that would say more
        for kind, tally in tallies:
            if tally.count:
                first = self._origin(tally.first)
                yield logs.Note(kind, self._name, tally.count, first, tuple(tally.examples))

    def _unsure_pads(self) -> _Tally:
        """Count the transposed convolutions whose output pads no key tells."""
        keyed = self._named(by_key=True)
        meant = as_logged(self._named(by_key=False), keyed)
        unsure: dict[Convolution, int] = {}
        for found in self._found.values():
            for problem in found.problems if found.logged else ():
                if not isinstance(problem, Convolution):
                    continue
                told = problem in meant or untransposed(problem) in keyed
                if problem.transposed and not told and max(problem.strides) > 1:
                    unsure.setdefault(problem, found.first)
        tally = _Tally()
        for problem, first in unsure.items():
            tally.add(first, driver_line(problem))
        return tally

    def _origin(self, number: int) -> str:
        return f"{self._name}:{number}"

    def _block(self, block: Block) -> None:
        quick = self._log and not block.suspect
        last = len(block.lines) - 1
        for index in logs.lines_to_read(block.text, block.lines) if quick else range(last + 1):
            number, line = block.first + index, block.lines[index]
            if block.suspect and (reason := block.damage(line)) is not None:
                self._refuse_bytes(number, line, reason)
            elif logs.MENTION in line:
                self._mention(number, line, ended=block.ended or index < last)
            elif not self._log or _MAY_BE_COMMAND.match(line):
                self._line(number, line)
        self._lines = block.first + last
        if self._binary_line and not self._log:
            self._lose_patience()

    def _lose_patience(self) -> None:
        if self._error is not None and self._lines - self._binary_line > _PATIENCE_LINES:
            raise self._error

    def _mention(self, number: int, line: bytes, *, ended: bool) -> None:
        if line.endswith(b"\r"):
            line = line.rstrip(b"\r")
        records = logs.records(line, ended=ended)
        if not records:
            self._line(number, line)
            return
        self._log = True
        errors = []
        for record in records:
            try:
                self._record(number, record)
            except InputError as error:
                errors.append(error)
        if errors:
            self._refuse(number, errors[0])

    def _record(self, number: int, record: logs.Record) -> None:
        """Take in a message of libMIOpen; what is known already is not read again."""
        text = record.text
        if b"MIOpenDriver" in text:
            if not (record.whole and self._seen(text)):
                self._command(number, record)
            return
        if b"HW" in text:
            for key, whole in logs.problem_keys(record):
                if not whole:
                    raise InputError("The line is cut off")
                if not self._seen(key):
                    self._key(number, key)
        if b" and solver " in text:
            self._other_key(number, record)
        elif b"Unable to load binary for: " in text:
            kernel = logs.missed_kernel(record)
            if kernel is not None and hash(text) not in self._missed:
                self._missed.add(hash(text))
                self._tallies["missed-kernels"].add(number, kernel)

    def _seen(self, text: bytes) -> bool:
        found = self._found.get(text)
        if found is None:
            return False
        found.count += 1
        return True

    def _command(self, number: int, record: logs.Record) -> None:
        line = read_line(record.text.decode())
        if line.kind is not Kind.COMMAND:
            return
        if not record.whole:
            raise InputError("The line is cut off")
        problems = self._supported(number, line)
        self._found[record.text] = Found(problems, number, logged=line.logged)

    def _key(self, number: int, key: bytes) -> None:
        problems: tuple[Problem, ...] = ()
        try:
            problem = read_key(key.decode())
            problems = () if problem is None else (problem,)
        except UnsupportedError:
            self._left_out(number, key, key.decode(), self._tallies["not-supported"])
        self._found[key] = Found(problems, number, is_key=True)

    def _other_key(self, number: int, record: logs.Record) -> None:
        """Note a key of another primitive by its solver."""
        registered = logs.other_key(record)
        if registered is None:
            return
        key, solver = registered
        found = self._found.get(key)
        if found is None or not found.problems:
            self._left_out(number, key, solver, self._by_solver)

    def _left_out(self, number: int, key: bytes, example: str, tally: _Tally) -> None:
        if key not in self._unsupported:
            self._unsupported.add(key)
            tally.add(number, example)

    def _supported(self, number: int, line: Line) -> tuple[Problem, ...]:
        """Problems of a command in a log; none, and a note, if it is not one of ours."""
        if line.logged and line.words[0] in CONV_DTYPES and "-t" not in line.words:
            # libMIOpen always ends with `-t 1` (src/driver_arguments.cpp).
            raise InputError("The command in the log is cut off")
        try:
            return tuple(problems_of(line))
        except (UnsupportedError, UnknownNameError):
            self._tallies["not-supported"].add(number, shown(line.words[0]))
            return ()

    def _line(self, number: int, raw: bytes) -> None:
        """Take in a line that is not libMIOpen's own."""
        if self._seen(raw):
            return
        text = raw.decode()
        try:
            line = read_line(text)
            self._log = self._log or line.log
            if line.kind is Kind.COMMAND:
                bare = b"MIOpenDriver" not in raw
                self._found[raw] = Found(tuple(problems_of(line)), number, bare=bare)
            elif line.kind is Kind.TEXT and self._error is None and not self._log:
                self._keep(number, not_a_command(text), text)
        except (UnsupportedError, UnknownNameError) as error:
            self._keep(number, error, text)
            self._tallies["not-supported"].add(number, shown(text))
        except InputError as error:
            self._keep(number, error, text)
            self._refuse(number, error)

    def _refuse_bytes(self, number: int, line: bytes, reason: str) -> None:
        origin = self._origin(number)
        error = InputError(reason, context=(origin,))
        if b"\0" in line:
            error = InputError(f"`{self._name}` is a binary file", context=(f"{origin}: {reason}",))
        if len(line) > MAX_LINE_BYTES and not self._log:
            raise error  # its rest may have no end
        self._error = self._error or error
        self._binary_line = self._binary_line or number
        self._refuse(number, InputError(reason))

    def _refuse(self, number: int, error: KdbforgeError) -> None:
        self._tallies["damaged-lines"].add(number, error.message)

    def _keep(self, number: int, error: KdbforgeError, text: str) -> None:
        if self._error is None:
            error.context = (self._origin(number), shown(text), *error.context)
            self._error = error
