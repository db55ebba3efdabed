"""Sources of problems: files and standard input with driver lines or MIOpen logs, and suites."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TextIO

from kdbforge.errors import InputError, UnknownNameError
from kdbforge.model.job import digest_fields
from kdbforge.model.problem import DIRECTIONS, DTYPES, Convolution, Problem
from kdbforge.problems.blocks import unreadable
from kdbforge.problems.driver import driver_line
from kdbforge.problems.limits import MAX_SIZE, check
from kdbforge.problems.logs import Note
from kdbforge.problems.suites import PREFIX, SUITES, find_suite
from kdbforge.problems.texts import TextProblems

__all__ = ["ProblemList", "load"]

STDIN = "-"


@dataclass(frozen=True, slots=True)
class ProblemList:
    """Unique problems in the order in which they first appeared."""

    problems: tuple[Problem, ...]
    counts: tuple[int, ...]  # how often each appeared
    origins: tuple[str, ...]  # where each first appeared: `file:line` or `suite:NAME:layer`
    notes: tuple[Note, ...] = ()  # what was left out of logs

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
        Paths, `-` for standard input, `suite:NAME`.
    batch, dtypes, directions
        For the suites among the sources, which list layers but not these. None means a batch
        of 1, fp32 and fp16, all directions; for int8, `fwd` is all there is.
    stdin
        What to read for `-`; None means `sys.stdin`.

    Raises
    ------
    InputError
        If a source cannot be read, holds no problem or, unless it is a log, a line that is not
        understood (with `file:line` and the line in the context), or an option is wrong or has
        nothing to act on.
    """
    suites = [source for source in sources if source.startswith(PREFIX)]
    _check_options(suites, {"batch": batch, "dtype": dtypes, "direction": directions})
    if not sources:
        raise InputError("No source of problems is given")
    if sources.count(STDIN) > 1:
        raise InputError("Standard input `-` is given more than once")
    found: dict[Problem, tuple[int, str]] = {}
    notes: list[Note] = []
    for source in sources:
        if source.startswith(PREFIX):
            problems = _suite_problems(source, batch, dtypes, directions)
        else:
            text = _text(source, stdin)
            problems = text.problems()
            notes += text.notes()
        for problem, times, origin in problems:
            count, first = found.get(problem, (0, origin))
            found[problem] = (count + times, first)
    counts, origins = zip(*found.values(), strict=True)
    return ProblemList(tuple(found), counts, origins, tuple(notes))


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


def _check_layer(problem: Convolution, origin: str) -> None:
    try:
        check(problem)  # a batch can make its tensors too large
    except InputError as error:
        error.context = (origin, driver_line(problem))
        raise


def _text(source: str, stdin: TextIO | None) -> TextProblems:
    if source == STDIN:
        stream = stdin or sys.stdin
        text = TextProblems("<stdin>")
        text.read(getattr(stream, "buffer", stream))
        return text
    text = TextProblems(source)
    with _open(source) as file:
        text.read(file)
    return text


def _open(source: str) -> BinaryIO:
    try:
        return Path(source).open("rb")
    except OSError as error:
        raise unreadable(source, error.strerror, hint=_suite_hint(source)) from error
    except ValueError as error:  # a zero byte in the name
        raise unreadable(source, str(error)) from error


def _suite_hint(source: str) -> str | None:
    return f"did you mean `{PREFIX}{source}`?" if source in SUITES else None
