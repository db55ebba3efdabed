"""Sources of problems: files and standard input with driver lines or MIOpen logs, and suites."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TextIO

from kdbforge.errors import InputError, KdbforgeError, UnknownNameError
from kdbforge.model.job import digest_fields
from kdbforge.model.problem import DIRECTIONS, DTYPES, Problem
from kdbforge.problems.commands import Kind, not_a_command, read_line, shown
from kdbforge.problems.driver import driver_line, problems_of
from kdbforge.problems.limits import MAX_SIZE, check
from kdbforge.problems.script import is_script, script_problems
from kdbforge.problems.suites import PREFIX, SUITES, find_suite

__all__ = ["MAX_LINE_BYTES", "ProblemList", "load"]

#: Longer lines are refused, so that a file without line ends cannot fill the memory.
MAX_LINE_BYTES = 2**20
STDIN = "-"


@dataclass(frozen=True, slots=True)
class ProblemList:
    """Unique problems in the order in which they first appeared."""

    problems: tuple[Problem, ...]
    counts: tuple[int, ...]  # how often each appeared
    origins: tuple[str, ...]  # where each first appeared: `file:line` or `suite:NAME:layer`
    remarks: tuple[str, ...] = ()  # on scripts, a sentence each

    def __len__(self) -> int:
        return len(self.problems)

    def __iter__(self) -> Iterator[Problem]:
        return iter(self.problems)

    @property
    def total(self) -> int:
        """Number of problems before duplicates were merged."""
        return sum(self.counts)

    @property
    def digest(self) -> str:
        """SHA-256 (hex) over the set of problems; neither order nor counts change it."""
        lines = sorted(driver_line(problem) for problem in self.problems)
        return digest_fields("problems", (("problem", line) for line in lines))


def load(
    sources: Sequence[str],
    *,
    batch: Sequence[int] | None = None,
    dtypes: Sequence[str] | None = None,
    directions: Sequence[str] | None = None,
    stdin: TextIO | None = None,
) -> ProblemList:
    """Read all problems of all sources; equal ones are merged.

    Memory is taken for the unique problems only, however long a log is.

    Parameters
    ----------
    sources
        Paths, `-` for standard input, `suite:NAME`, `script.py:callable` (see `script_problems`).
    batch, dtypes, directions
        For the suites among the sources, which list layers but not these. None means a batch
        of 1, fp32 and fp16, all directions; for int8, `fwd` is all there is.
    stdin
        What to read for `-`; None means `sys.stdin`.

    Raises
    ------
    InputError
        If a source cannot be read, holds no problem or a line that is not understood (with
        `file:line` and the line in the context), or an option is wrong or has nothing to act on.
    """
    suites = [source for source in sources if source.startswith(PREFIX)]
    _check_options(suites, {"batch": batch, "dtype": dtypes, "direction": directions})
    if not sources:
        raise InputError("No source of problems is given")
    if sources.count(STDIN) > 1:
        raise InputError("Standard input `-` is given more than once")
    found: dict[Problem, tuple[int, str]] = {}
    remarks: list[str] = []
    for source in sources:
        if source.startswith(PREFIX):
            problems = _suite_problems(source, batch, dtypes, directions)
        elif is_script(source):
            problems = script_problems(source, remarks)
        else:
            problems = _text_problems(source, stdin)
        for problem, times, origin in problems:
            count, first = found.get(problem, (0, origin))
            found[problem] = (count + times, first)
    counts, origins = zip(*found.values(), strict=True)
    return ProblemList(tuple(found), counts, origins, tuple(remarks))


def _check_options(suites: list[str], options: dict[str, Sequence[object] | None]) -> None:
    for name, values in options.items():
        if values is None:
            continue
        if not suites:
            raise InputError(
                f"Option `--{name}` is for suites, and no source is one",
                hint="driver lines say themselves which batch, dtype and direction they mean",
            )
        if not values:
            raise InputError(f"Option `--{name}` names no value")
    for size in options["batch"] or ():
        if not isinstance(size, int) or not 1 <= size <= MAX_SIZE:
            raise InputError(f"Batch `{size}` is not between 1 and {MAX_SIZE}")
    for name, allowed in (("dtype", DTYPES), ("direction", DIRECTIONS)):
        for value in options[name] or ():
            if value not in allowed:
                listed = ", ".join(f"`{a}`" for a in allowed)
                raise UnknownNameError(name, str(value), allowed, hint=f"one of {listed}")


def _suite_problems(
    source: str,
    batch: Sequence[int] | None,
    dtypes: Sequence[str] | None,
    directions: Sequence[str] | None,
) -> Iterator[tuple[Problem, int, str]]:
    suite = find_suite(source.removeprefix(PREFIX))
    for dtype in dtypes or suite.dtypes:
        wanted = directions or DIRECTIONS
        if dtype == "int8":
            if "fwd" not in wanted:
                raise InputError(f"MIOpen has no int8 convolution in direction `{wanted[0]}`")
            wanted = ("fwd",)
        for size in batch or suite.batch:
            for layer in suite.layers:
                for direction in wanted:
                    origin = f"{source}:{layer.name}"
                    problem = layer.problem(dtype=dtype, direction=direction, batch=size)
                    _check_layer(problem, origin)
                    yield problem, 1, origin


def _check_layer(problem: Problem, origin: str) -> None:
    try:
        check(problem)  # a batch can make its tensors too large
    except InputError as error:
        error.context = (origin, driver_line(problem))
        raise


def _text_problems(source: str, stdin: TextIO | None) -> Iterator[tuple[Problem, int, str]]:
    if source == STDIN:
        stream = stdin or sys.stdin
        yield from _problems("<stdin>", _lines("<stdin>", getattr(stream, "buffer", stream)))
        return
    with _open(source) as file:
        yield from _problems(source, _lines(source, file))


def _open(source: str) -> BinaryIO:
    try:
        return Path(source).open("rb")
    except OSError as error:
        raise _unreadable(source, error.strerror, hint=_suite_hint(source)) from error
    except ValueError as error:  # a zero byte in the name
        raise _unreadable(source, str(error)) from error


def _unreadable(name: str, reason: str | None, *, hint: str | None = None) -> InputError:
    return InputError(f"Cannot read `{shown(name)}`: {reason}", hint=hint)


def _suite_hint(source: str) -> str | None:
    return f"did you mean `{PREFIX}{source}`?" if source in SUITES else None


def _problems(name: str, lines: Iterable[tuple[int, str]]) -> Iterator[tuple[Problem, int, str]]:
    """Yield the problems of one text, and refuse it if it is neither a list nor a log.

    Other text than commands is ignored in a log, and only its end tells that it is none: so the
    first such line is kept as an error until then.
    """
    log = found = False
    unread: KdbforgeError | None = None
    number = 0
    for number, text in lines:
        origin = f"{name}:{number}"
        try:
            line = read_line(text)
            problems = problems_of(line) if line.kind is Kind.COMMAND else []
        except InputError as error:
            raise _placed(error, origin, text) from None
        log = log or line.log
        if line.kind is Kind.TEXT and unread is None:
            unread = _placed(not_a_command(text), origin, text)
        found = found or bool(problems)
        for problem in problems:
            yield problem, 1, origin
    if number == 0:
        raise InputError(f"`{name}` is empty")
    if unread is not None and not log:
        raise unread
    if not found:
        raise InputError(
            f"No problem found in `{name}`",
            hint="log a program's problems with `MIOPEN_ENABLE_LOGGING_CMD=1`" if log else None,
        )


def _placed(error: KdbforgeError, origin: str, text: str) -> KdbforgeError:
    error.context = (origin, shown(text), *error.context)
    return error


def _lines(name: str, stream: BinaryIO | TextIO) -> Iterator[tuple[int, str]]:
    """Yield numbered lines; refuse what is no UTF-8 text."""
    number = 0
    while line := _read_line(stream, f"{name}:{number + 1}"):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise InputError(
                f"Line of more than {MAX_LINE_BYTES} bytes", context=(f"{name}:{number}",)
            )
        if "\0" in line:
            raise InputError(
                f"`{name}` is a binary file", context=(f"{name}:{number}: it holds a zero byte",)
            )
        yield number, line.removeprefix("\ufeff") if number == 1 else line


def _read_line(stream: BinaryIO | TextIO, origin: str) -> str:
    try:
        line = stream.readline(MAX_LINE_BYTES + 1)
        return line if isinstance(line, str) else line.decode()
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise InputError(f"Byte 0x{byte:02x} is not UTF-8 text", context=(origin,)) from None
    except OSError as error:
        raise _unreadable(origin, error.strerror) from error
