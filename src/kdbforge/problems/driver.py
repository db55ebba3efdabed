"""MIOpenDriver command lines: text to problems, and a problem to its one line."""

from __future__ import annotations

from collections.abc import Iterable

from kdbforge.errors import InputError, UnknownNameError, UnsupportedError
from kdbforge.model.problem import Convolution, Problem
from kdbforge.problems import convolution, primitives
from kdbforge.problems.commands import CONV_DTYPES, NAMES, REFUSED, not_a_command, read_line
from kdbforge.problems.line import Kind, Line, shown

__all__ = ["command_titles", "driver_line", "parse", "problems_of"]


def parse(line: str) -> list[Problem]:
    """Read one command line: one problem per direction that it asks for.

    A blank line or a comment gives none. What the line does not say is what MIOpenDriver takes
    by default. Flags that ask for no other problem (`-t`, `-V`, `-i` ...) are ignored.

    Raises
    ------
    InputError
        If the line is no driver command, or MIOpenDriver would not run it, or would take it for
        something that it does not say; the line is in the context.
    UnsupportedError
        If the command or one of its flags is MIOpenDriver's but not kdbforge's.
    """
    try:
        read = read_line(line)
        if read.kind is Kind.TEXT:
            raise not_a_command(line)
        return problems_of(read) if read.kind is Kind.COMMAND else []
    except InputError as error:
        error.context = (shown(line), *error.context)
        raise


def problems_of(line: Line) -> list[Problem]:
    """Read a line that is a command; as `parse`, but without context."""
    command = line.words[0]
    if command in CONV_DTYPES:
        return [*convolution.convolutions_of(line)]
    if command in primitives.COMMANDS:
        return [*primitives.operations_of(line)]
    if command in REFUSED:
        raise UnsupportedError(
            f"The MIOpenDriver command `{command}` is not supported: {REFUSED[command]}",
            hint="`kdbforge problems --commands` lists those that are",
        )
    raise UnknownNameError("MIOpenDriver command", shown(command), sorted(NAMES))


def command_titles() -> list[tuple[str, str]]:
    """Every command with its suffixes in brackets, and what it asks for."""
    suffixes = [command.removeprefix("conv") for command in CONV_DTYPES]
    rows = [(_with_suffixes("conv", suffixes), "convolution")]
    for name, primitive in sorted(primitives.PRIMITIVES.items()):
        own = ", kdbforge's own command" if primitive.own else ""
        rows.append((_with_suffixes(name, primitive.suffixes), primitive.title + own))
    return rows


def _with_suffixes(name: str, suffixes: Iterable[str]) -> str:
    given = "|".join(suffix for suffix in suffixes if suffix)
    return f"{name}[{given}]" if given else name


def driver_line(problem: Problem) -> str:
    """Return the one line for a problem: `parse` gives just this problem back."""
    words = (
        convolution.words_of(problem)
        if isinstance(problem, Convolution)
        else primitives.words_of(problem)
    )
    return " ".join(("MIOpenDriver", *words))
