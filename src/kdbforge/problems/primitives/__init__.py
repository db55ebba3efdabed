"""MIOpenDriver's commands other than convolutions, and kdbforge's own for what it has none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kdbforge.errors import InputError
from kdbforge.model.problem import Operation
from kdbforge.problems.line import Line
from kdbforge.problems.primitives import (
    fusion,
    neuron,
    normalization,
    optimizers,
    pooling,
    recurrent,
    reduction,
    selection,
    tensors,
)
from kdbforge.problems.primitives.limits import check_sizes
from kdbforge.problems.primitives.table import Primitive

__all__ = ["COMMANDS", "PRIMITIVES", "Primitive", "operations_of", "words_of"]

PRIMITIVES: Mapping[str, Primitive] = {
    primitive.name: primitive
    for module in (
        neuron,
        normalization,
        pooling,
        recurrent,
        reduction,
        tensors,
        selection,
        optimizers,
        fusion,
    )
    for primitive in module.PRIMITIVES
}
#: All spellings of all commands, with what they stand for.
COMMANDS: Mapping[str, tuple[Primitive, str]] = {
    primitive.name + suffix: (primitive, dtype)
    for primitive in PRIMITIVES.values()
    for suffix, dtype in primitive.suffixes.items()
}


def operations_of(line: Line) -> Sequence[Operation]:
    """Read a line that is one of `COMMANDS`: one problem per direction that it asks for.

    Raises
    ------
    InputError
        If MIOpenDriver would not run it, or would take it for something that it does not say.
    """
    command, *words = line.words
    primitive, dtype = COMMANDS[command]
    if primitive is pooling.POOL and {"-n", "-c", "--batchsize", "--in_channels"} & {*words[::2]}:
        primitive = pooling.OLD_POOL
    values = primitive.flags.read(words)
    for name in primitive.required:
        if not values.text(name):
            raise InputError(f"`{command}` needs the flag `{primitive.flags[name]}`")
    problems = [
        Operation(primitive.name, dtype, part.arguments())
        for meant in (primitive.logged(values) if line.logged else (values,))
        for part in primitive.split(meant)
    ]
    for problem in problems:
        check_sizes(problem, PRIMITIVES[problem.primitive])
    return problems


def words_of(problem: Operation) -> list[str]:
    """Return the command and all flags that tell it from other problems, in the table's order."""
    primitive = PRIMITIVES[problem.primitive]
    suffix = next(s for s, dtype in primitive.suffixes.items() if dtype == problem.dtype)
    words = [primitive.name + suffix]
    for long, value in problem.arguments:
        words += [f"--{long}", value]
    return words
