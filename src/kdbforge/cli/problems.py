"""`kdbforge problems`, and the options that every command with problem sources has."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from kdbforge.cli.console import console, emit_json
from kdbforge.errors import InputError
from kdbforge.model.problem import DIRECTIONS
from kdbforge.problems import SUITES, ProblemList, driver_line, load
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
    """Load the problems that the words of `problem_options` ask for.

    Raises
    ------
    InputError
        As `kdbforge.problems.load`, or if a batch size is not a number.
    """
    return load(
        sources,
        batch=None if batch is None else [_batch_size(word, batch) for word in _listed(batch)],
        dtypes=None if dtype is None else _listed(dtype),
        directions=None if direction is None else _listed(direction),
    )


def _listed(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _batch_size(word: str, text: str) -> int:
    if not (word.isascii() and word.isdigit() and len(word) < 20):
        raise InputError(f"`{word}` in `--batch {text}` is not a whole number from 1")
    return int(word)


@click.command(short_help="List the problems in driver lines, logs and suites.")
@problem_options
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
    MIOPEN_ENABLE_LOGGING_CMD=1, `-` for standard input, `script.py:FUNCTION` for a PyTorch program
    (the function takes no arguments; it runs a step, or returns a function that does; nothing is
    computed), or `suite:NAME` for a network that comes with kdbforge; `suite:` lists these.
    --batch, --dtype and --direction are for suites.

    \b
    Example:
      kdbforge problems suite:resnet50 --batch 1,8 --direction fwd > resnet50.txt
      kdbforge problems resnet50.txt program.log
      kdbforge problems train.py:make_step > train.txt
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
    for remark in found.remarks:
        console.print(remark)
    console.print(_counts(found))


def _counts(found: ProblemList) -> str:
    by_direction = [
        f"{sum(problem.direction == direction for problem in found)} {direction}"
        for direction in DIRECTIONS
    ]
    return f"{len(found)} problems ({', '.join(by_direction)}) in {found.total} found"


def _as_json(found: ProblemList) -> dict[str, Any]:
    rows = zip(found.problems, found.counts, found.origins, strict=True)
    return {
        "digest": found.digest,
        "found": found.total,
        "remarks": list(found.remarks),
        "problems": [
            {
                "line": driver_line(problem),
                "count": count,
                "origin": origin,
                **dataclasses.asdict(problem),
            }
            for problem, count, origin in rows
        ],
    }


def _print_suites(*, as_json: bool) -> None:
    rows = [(suite, load([PREFIX + suite.name])) for suite in SUITES.values()]
    if as_json:
        emit_json([_suite_json(suite, found) for suite, found in rows])
        return
    for suite, found in rows:
        click.echo(f"{PREFIX + suite.name:<26}{suite.title}")
        click.echo(f"{'':<26}{len(suite.layers)} convolutions, {len(found)} problems")
        click.echo(f"{'':<26}{suite.source}")
        if suite.includes:
            click.echo(f"{'':<26}{' '.join(suite.includes)}")


def _suite_json(suite: Suite, found: ProblemList) -> dict[str, Any]:
    return {
        "name": PREFIX + suite.name,
        "title": suite.title,
        "source": suite.source,
        "convolutions": len(suite.layers),
        "weights": suite.weights,
        "multiply_adds": suite.multiply_adds,
        "parameters": suite.parameters,
        "includes": list(suite.includes),
        "batch": list(suite.batch),
        "dtypes": list(suite.dtypes),
        "problems": len(found),
    }
