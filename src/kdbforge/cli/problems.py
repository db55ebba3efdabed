"""`kdbforge problems`, and the options that every command with problem sources has."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
from rich.markup import escape

from kdbforge.cli.console import console, emit_json
from kdbforge.errors import InputError
from kdbforge.model.problem import DIRECTIONS, Convolution, Problem
from kdbforge.problems import SUITES, ProblemList, command_titles, driver_line, load
from kdbforge.problems.suites import PREFIX, Suite

__all__ = ["load_problems", "problem_options", "problems", "suite_options"]

Command = TypeVar("Command", bound=Callable[..., Any])


def problem_options(command: Command) -> Command:
    """Add SRC... and the options of the suites among them, for `load_problems`."""
    return click.argument("sources", metavar="SRC...", nargs=-1, required=True)(
        suite_options(command)
    )


def suite_options(command: Command) -> Command:
    """Add --batch, --dtype and --direction."""
    decorators = (
        click.option("--batch", metavar="N,...", help="Batch sizes of the suites (default: 1)."),
        click.option(
            "--dtype", metavar="TYPE,...", help="Of fp32, fp16, bf16, int8 (default: fp32,fp16)."
        ),
        click.option(
            "--direction", metavar="DIR,...", help="Of fwd, bwd, wrw (default: all three)."
        ),
    )
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


def load_problems(
    sources: Sequence[str], batch: str | None, dtype: str | None, direction: str | None
) -> ProblemList:
    """Load the problems that the words of `problem_options` ask for; tell of what logs lack.

    Raises
    ------
    InputError
        As `kdbforge.problems.load`, or if a batch size is not a number.
    """
    found = load(
        sources,
        batch=None if batch is None else [_batch_size(word, batch) for word in _listed(batch)],
        dtypes=None if dtype is None else _listed(dtype),
        directions=None if direction is None else _listed(direction),
    )
    for note in found.notes:
        console.print(f"[yellow]note:[/] {escape(note.text)}")
    return found


def _listed(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _batch_size(word: str, text: str) -> int:
    if not (word.isascii() and word.isdigit() and len(word) < 20):
        raise InputError(f"`{word}` in `--batch {text}` is not a whole number from 1")
    return int(word)


def _print_commands(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    """Print every command that a problem line can have, and leave."""
    if not wanted or context.resilient_parsing:
        return
    for command, title in command_titles():
        click.echo(f"{command:<44}{title}")
    context.exit()


@click.command(short_help="List the problems in driver lines, logs and suites.")
@problem_options
@click.option(
    "--commands",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_commands,
    help="List the commands that problem lines can have.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def problems(
    sources: tuple[str, ...],
    batch: str | None,
    dtype: str | None,
    direction: str | None,
    *,
    as_json: bool,
) -> None:
    """List the problems found in SRC..., each once, as MIOpenDriver command lines.

    SRC is a file of MIOpenDriver command lines, a log of a program that ran with
    MIOPEN_ENABLE_LOGGING_CMD=1 or MIOPEN_LOG_LEVEL=6 (or 5, where it called Find), `-` for
    standard input, or `suite:NAME` for a network that comes with kdbforge; `suite:` lists these.
    --batch, --dtype and --direction are for suites. What a log holds that is damaged or not
    supported is left out, and said so.

    \b
    Example:
      kdbforge problems suite:resnet50 --batch 1,8 --direction fwd > resnet50.txt
      kdbforge problems resnet50.txt program.log
    """
    if sources == (PREFIX,):
        _print_suites(as_json=as_json)
        return
    found = load_problems(sources, batch, dtype, direction)
    if as_json:
        emit_json(_as_json(found))
    else:
        for problem in found:
            click.echo(driver_line(problem))
    console.print(_counts(found))


def _counts(found: ProblemList) -> str:
    kinds = Counter(map(_kind, found))
    parts = [f"{kinds.pop(direction, 0)} {direction}" for direction in DIRECTIONS]
    parts += [f"{count} {name}" for name, count in sorted(kinds.items())]
    return f"{len(found)} problems ({', '.join(parts)}) in {found.total} found"


def _kind(problem: Problem) -> str:
    """A convolution's direction, or the name of another primitive."""
    return problem.direction if isinstance(problem, Convolution) else problem.primitive


def _as_json(found: ProblemList) -> dict[str, Any]:
    rows = zip(found.problems, found.counts, found.origins, strict=True)
    return {
        "digest": found.digest,
        "found": found.total,
        "notes": [dataclasses.asdict(note) for note in found.notes],
        "problems": [
            {
                "line": driver_line(problem),
                "count": count,
                "origin": origin,
                **_fields(problem),
            }
            for problem, count, origin in rows
        ],
    }


def _fields(problem: Problem) -> dict[str, Any]:
    if isinstance(problem, Convolution):
        return {"primitive": "conv", **dataclasses.asdict(problem)}
    return {
        "primitive": problem.primitive,
        "dtype": problem.dtype,
        "arguments": dict(problem.arguments),
    }


def _print_suites(*, as_json: bool) -> None:
    rows = [(suite, load([PREFIX + suite.name])) for suite in SUITES.values()]
    if as_json:
        emit_json([_suite_json(suite, found) for suite, found in rows])
        return
    for suite, found in rows:
        click.echo(f"{PREFIX + suite.name:<20}{suite.title}")
        click.echo(f"{'':<20}{len(suite.layers)} convolutions, {len(found)} problems")
        click.echo(f"{'':<20}{suite.source}")


def _suite_json(suite: Suite, found: ProblemList) -> dict[str, Any]:
    return {
        "name": PREFIX + suite.name,
        "title": suite.title,
        "source": suite.source,
        "convolutions": len(suite.layers),
        "weights": suite.weights,
        "multiply_adds": suite.multiply_adds,
        "batch": list(suite.batch),
        "dtypes": list(suite.dtypes),
        "problems": len(found),
    }
