"""What a command of a primitive is made of: its flags, its directions, and its data types.

Flags, defaults and choices are those of MIOpenDriver of MIOpen 3.5 (`MIOpenDriver NAME -h` and
driver/*_driver.hpp), of libMIOpen's logs where these write more (src/*_api.cpp), or kdbforge's
own where MIOpenDriver has no command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kdbforge.errors import InputError
from kdbforge.problems.flags import Flag, FlagTable, Take, Values

__all__ = [
    "FLOATS",
    "Primitive",
    "axes",
    "choice",
    "forward_only",
    "number",
    "pad",
    "real",
    "sequence",
    "size",
    "sizes",
    "split_by_forw",
    "tensor",
    "text",
]

#: Suffixes of commands and the data types that they stand for. libMIOpen writes `fp32`, too.
FLOATS: Mapping[str, str] = {"": "fp32", "fp16": "fp16", "bfp16": "bf16", "fp32": "fp32"}

#: Steps of a sequence; more are a typing mistake.
MAX_STEPS = 65536

Split = Callable[[Values], Sequence[Values]]


def _one(values: Values) -> Sequence[Values]:
    return (values,)


@dataclass(frozen=True, slots=True)
class Primitive:
    """One command; `split` divides a line that asks for several directions into problems."""

    name: str
    title: str
    flags: FlagTable
    split: Split = _one
    suffixes: Mapping[str, str] = None  # type: ignore[assignment]  # set below: FLOATS
    own: bool = False  # not a command of MIOpenDriver
    required: tuple[str, ...] = ()  # flags without a usable default
    logged: Split = _one  # all that a line can mean as libMIOpen writes it

    def __post_init__(self) -> None:
        if self.suffixes is None:
            object.__setattr__(self, "suffixes", FLOATS)


def size(short: str, long: str, default: int) -> Flag:
    return Flag(short, long, Take.SIZE, str(default))


def pad(short: str, long: str, default: int = 0) -> Flag:
    return Flag(short, long, Take.PAD, str(default))


def number(short: str, long: str, default: int) -> Flag:
    return Flag(short, long, Take.NUMBER, str(default))


def real(short: str, long: str, default: float) -> Flag:
    return Flag(short, long, Take.REAL, repr(float(default)))


def choice(short: str, long: str, default: str | int, *choices: str | int) -> Flag:
    return Flag(short, long, Take.TEXT, str(default), choices=tuple(str(c) for c in choices))


def tensor(short: str, long: str, default: str = "") -> Flag:
    return Flag(short, long, Take.TENSOR, default)


def sizes(short: str, long: str, default: str = "") -> Flag:
    return Flag(short, long, Take.SIZES, default)


def sequence(short: str, long: str, default: str) -> Flag:
    """Lengths of a batch's samples or of a sequence's steps."""
    return Flag(short, long, Take.SIZES, default, most=MAX_STEPS)


def axes(short: str, long: str, default: str = "") -> Flag:
    return Flag(short, long, Take.AXES, default)


def text(short: str, long: str, default: str = "") -> Flag:
    return Flag(short, long, Take.TEXT, default)


def ignored(short: str, long: str) -> Flag:
    """A flag that asks for no other problem, with any value."""
    return Flag(short, long, Take.TEXT, "", ignored=True)


def driver_flags(*flags: Flag) -> FlagTable:
    """A table with the flags that nearly all commands have and that ask for no other problem."""
    common = (("i", "iter"), ("V", "verify"), ("t", "time"), ("w", "wall"))
    taken = {flag.short for flag in flags} | {flag.long for flag in flags}
    more = [ignored(*pair) for pair in common if not taken.intersection(pair)]
    return FlagTable(*flags, *more)


def split_by_forw(*bits: int) -> Split:
    """Divide a line by its `-F`: a sum of these bits, and 0 for all of them.

    MIOpenDriver's own `activ`, `softmax`, `lrn` and `pool` run forward only for any other value
    than 0; libMIOpen writes 2 for a backward call into its logs, and so it is read here.
    """

    def split(values: Values) -> Sequence[Values]:
        mask = values.number("forw")
        if not 0 <= mask <= sum(bits):
            raise InputError(
                f"`{mask}` of flag `{values.flags['forw']}` is not between 0 and {sum(bits)}"
            )
        return [values.replaced(forw=str(bit)) for bit in bits if mask == 0 or mask & bit]

    return split


def forward_only(values: Values) -> Sequence[Values]:
    """Take a line of a command that has a forward direction only."""
    if values.number("forw") not in (0, 1):
        raise InputError(f"`{values.number('forw')}` of flag `{values.flags['forw']}` is not 1")
    return (values.replaced(forw="1"),)
