"""`kdbforge problems`, and the options that every command with problem sources has."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
from rich.markup import escape

from kdbforge.cli.console import console, emit_json
from kdbforge.errors import InputError
from kdbforge.model.problem import DIRECTIONS, Convolution, Problem
from kdbforge.problems import (
    CONSUMERS,
    SUITES,
    ModelOptions,
    ModelReport,
    ProblemList,
    command_titles,
    driver_line,
    load,
)
from kdbforge.problems.suites import PREFIX, Suite

__all__ = ["Asked", "load_problems", "problem_options", "problems", "suite_options"]

#: How much of what a network lacks the commands of the flow list.
_LIST_LIMIT = 20
Command = TypeVar("Command", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """The words of the options of suites and networks, as they were given."""

    batch: str | None = None
    dtype: str | None = None
    direction: str | None = None
    dims: tuple[str, ...] = ()
    consumer: str | None = None


def problem_options(command: Command) -> Command:
    """Add SRC... and the options of suites and networks among them, for `load_problems`."""
    return click.argument("sources", metavar="SRC...", nargs=-1, required=True)(
        suite_options(command)
    )


def suite_options(command: Command) -> Command:
    """Add the options of suites and networks; the command gets them as `asked`."""

    @functools.wraps(command)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        words = {field.name: kwargs.pop(field.name) for field in dataclasses.fields(Asked)}
        return command(*args, asked=Asked(**words), **kwargs)

    decorators = (
        click.option(
            "--batch", metavar="N,...",
            help="Batch sizes of suites (default: 1) and networks (default: as in the file).",
        ),
        click.option(
            "--dtype", metavar="TYPE,...",
            help="Of fp32, fp16, bf16, int8 (default: fp32,fp16 for suites, the file's own types "
            "for networks).",
        ),
        click.option(
            "--direction", metavar="DIR,...",
            help="Of fwd, bwd, wrw, for suites (default: all three).",
        ),
        click.option(
            "--dim", "dims", metavar="NAME=N", multiple=True,
            help="Size of a dimension of a network's inputs, by its name or as INPUT.AXIS. May be "
            "repeated.",
        ),
        click.option(
            "--consumer", type=click.Choice(CONSUMERS),
            help=f"Who runs the networks (default: {CONSUMERS[0]}).",
        ),
    )  # fmt: skip
    for decorator in reversed(decorators):
        wrapper = decorator(wrapper)
    return wrapper  # type: ignore[return-value]


def load_problems(sources: Sequence[str], asked: Asked) -> ProblemList:
    """Load the problems that the words of `problem_options` ask for.

    Says on stderr what of a network could not be made a problem.

    Raises
    ------
    InputError
        As `kdbforge.problems.load`, or if a size is not a number.
    """
    found = _load(sources, asked)
    _print_notes(found)
    for model in found.models:
        _print_left_out(model, limit=_LIST_LIMIT)
    return found


def _print_notes(found: ProblemList) -> None:
    """What of a log was left out, and what there is to say of a script."""
    for note in found.notes:
        console.print(f"[yellow]note:[/] {escape(note.text)}")
    for remark in found.remarks:
        console.print(escape(remark))


def _load(sources: Sequence[str], asked: Asked) -> ProblemList:
    batch, dtype, direction = asked.batch, asked.dtype, asked.direction
    models = None
    if asked.dims or asked.consumer:
        models = ModelOptions(_dims(asked.dims), asked.consumer or CONSUMERS[0])
    return load(
        sources,
        batch=None if batch is None else [_batch_size(word, batch) for word in _listed(batch)],
        dtypes=None if dtype is None else _listed(dtype),
        directions=None if direction is None else _listed(direction),
        models=models,
    )


def _dims(words: tuple[str, ...]) -> dict[str, int]:
    dims: dict[str, int] = {}
    for word in words:
        name, equals, size = word.rpartition("=")
        if not (name and equals):
            raise InputError(f"`--dim {word}` is not of the form NAME=N")
        if not _is_number(size):
            raise InputError(f"`{size}` in `--dim {word}` is not a whole number from 1")
        if dims.setdefault(name, int(size)) != int(size):
            raise InputError(f"`--dim {name}` is given twice, as {dims[name]} and {size}")
    return dims


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) < 20


def _listed(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _batch_size(word: str, text: str) -> int:
    if not _is_number(word):
        raise InputError(f"`{word}` in `--batch {text}` is not a whole number from 1")
    return int(word)


def _print_commands(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    """Print every command that a problem line can have, and leave."""
    if not wanted or context.resilient_parsing:
        return
    for command, title in command_titles():
        click.echo(f"{command:<44}{title}")
    context.exit()


@click.command(short_help="List the problems in driver lines, logs, networks and suites.")
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
def problems(sources: tuple[str, ...], asked: Asked, *, as_json: bool) -> int:
    """List the problems found in SRC..., each once, as MIOpenDriver command lines.

    SRC is a file of MIOpenDriver command lines, a log of a program that ran with
    MIOPEN_ENABLE_LOGGING_CMD=1 or MIOPEN_LOG_LEVEL=6 (or 5, where it called Find), `-` for
    standard input, a network (`.onnx`), `script.py:FUNCTION` for a PyTorch program (the function
    takes no arguments; it runs a step, or returns a function that does; nothing is computed), or
    `suite:NAME` for a network that comes with kdbforge; `suite:` lists these. What a log holds that
    is damaged or not supported is left out, and said so.

    Exit code: 0 all listed, 1 a network has nodes for MIOpen that no problem stands for.

    \b
    Example:
      kdbforge problems suite:resnet50 --batch 1,8 --direction fwd > resnet50.txt
      kdbforge problems resnet50.txt program.log
      kdbforge problems detector.onnx --batch 1,8 --dim height=640 --dim width=640 --dtype fp16
      kdbforge problems train.py:make_step > train.txt
    """
    if sources == (PREFIX,):
        _print_suites(as_json=as_json)
        return 0
    found = _load(sources, asked)
    if as_json:
        emit_json(_as_json(found))
    else:
        for problem in found:
            click.echo(driver_line(problem))
    _print_notes(found)
    for model in found.models:
        _print_model(model)
        _print_left_out(model)
    console.print(_counts(found))
    return 0 if found.complete else 1


def _print_model(model: ModelReport) -> None:
    """Where the nodes of a network go."""
    console.print(
        escape(f"{model.path}: {model.nodes} nodes, opset {model.opset}, run by {model.consumer}")
    )
    for use in model.operators:
        console.print(escape(f"  {use.count:>5} {use.operator:<28} {use.goes}"))


def _print_left_out(model: ModelReport, limit: int | None = None) -> None:
    """What of a network no problem stands for, each reason once."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for entry in model.left_out:
        what = f"{entry.reason}: {entry.command}" if entry.command else entry.reason
        reasons.setdefault((entry.operator, what), []).append(entry.node)
    for (operator, what), nodes in list(reasons.items())[:limit]:
        more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
        place = escape(f" {model.path}:{nodes[0]}{more} ({operator}): {what}")
        console.print(f"[yellow]left out:[/]{place}")
    if limit is not None and len(reasons) > limit:
        console.print(f"and {len(reasons) - limit} more; `kdbforge problems` lists all")


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
        "remarks": list(found.remarks),
        "problems": [
            {
                "line": driver_line(problem),
                "count": count,
                "origin": origin,
                **_fields(problem),
            }
            for problem, count, origin in rows
        ],
        "models": [dataclasses.asdict(model) for model in found.models],
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
