"""The flags of MIOpenDriver's commands: names, defaults, and strict reading of their values."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate
from operator import mul

from kdbforge.errors import InputError
from kdbforge.problems.limits import MAX_SIZE
from kdbforge.problems.line import shown

__all__ = ["Flag", "FlagTable", "Take", "Values"]


#: More axes than any tensor of MIOpen has.
MAX_AXES = 8


class Take(Enum):
    """What a flag takes as its value."""

    SIZE = "a whole number from 1"
    PAD = "a whole number from 0"
    NUMBER = "a whole number"
    REAL = "a number"
    TEXT = "any text"
    SIZES = "whole numbers from 1, such as `4,25` or `4x25`"
    AXES = "whole numbers from 0, such as `0,2`"
    TENSOR = "a tensor, such as `16x3x32x32` or `16x3x32x32,NHWC`"


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag; `default` is the driver's own."""

    short: str
    long: str
    take: Take
    default: str
    upper: bool = False  # the driver turns the value of the long spelling into capitals
    choices: tuple[str, ...] = ()  # all that the driver knows; empty: whatever `take` allows
    most: int = MAX_AXES  # numbers in a list
    ignored: bool = False  # asks for no other problem: how often to run, what to print

    def __str__(self) -> str:
        return f"-{self.short}/--{self.long}"


_NUMBER = re.compile(r"[+-]?[0-9]+")
_SEPARATOR = re.compile("[x,]")
_LAYOUT = re.compile(r"[A-Z]{2,5}")
_DEFAULT_LAYOUTS = ("NC", "NCW", "NCHW", "NCDHW")
_CHANNELS_LAST = {4: "NHWC", 5: "NDHWC"}


class FlagTable(Mapping[str, Flag]):
    """All flags of one command, by long name, in the order in which a line shows them."""

    def __init__(self, *flags: Flag):
        self._by_long = {flag.long: flag for flag in flags}
        self._by_short = {flag.short: flag for flag in flags}

    def __getitem__(self, long: str) -> Flag:
        return self._by_long[long]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_long)

    def __len__(self) -> int:
        return len(self._by_long)

    def read(self, words: Sequence[str]) -> Values:
        """Read as the driver does: each flag takes the next word, and the last one wins.

        Unlike the driver, which reads `-n 3x` as 3, `-n x` as 0 and `-nx 3` as `-n 3`, nothing is
        taken for what it does not say.

        Raises
        ------
        InputError
            Names the flag: unknown, without a value, or with one that is not of its kind.
        """
        given: dict[str, str] = {}
        for index in range(0, len(words), 2):
            flag = self._find(words[index])
            if index + 1 == len(words):
                raise InputError(f"Flag `{flag}` has no value")
            value = words[index + 1]
            if flag.upper and words[index].startswith("--"):
                value = value.upper()
            given[flag.long] = _checked(flag, value)
        return Values(self, given)

    def _find(self, word: str) -> Flag:
        if not word.startswith("-") or word == "-":
            raise InputError(
                f"`{shown(word)}` stands where a flag is expected",
                hint="each flag takes one value, and a line holds one command",
            )
        long = word.startswith("--")
        flag = self._by_long.get(word[2:]) if long else self._by_short.get(word[1:])
        if flag is not None:
            return flag
        raise InputError(f"Unknown flag `{shown(word)}`", hint=self._hint(word))

    def _hint(self, word: str) -> str | None:
        """Guess which flag was meant: `--batchsize=1`, `-batchsize`, `-n1`, `--batch_size`."""
        name, equals, _ = word.lstrip("-").partition("=")
        if name in self._by_long:
            return f"write it like `--{name} VALUE`" if equals else f"did you mean `--{name}`?"
        if not word.startswith("--") and name[:1] in self._by_short:
            return f"write it like `-{name[:1]} VALUE`"
        near = difflib.get_close_matches(name, self._by_long, n=3, cutoff=0.6)
        return "did you mean " + ", ".join(f"`--{n}`" for n in near) + "?" if near else None


@dataclass(frozen=True, slots=True)
class Values:
    """The values that a command line gives, by long name; the driver's defaults for the rest."""

    flags: FlagTable
    given: Mapping[str, str]

    def text(self, name: str) -> str:
        return self.given.get(name, self.flags[name].default)

    def number(self, name: str) -> int:
        """Return a value that `FlagTable.read` has accepted as a number."""
        return int(self.text(name))

    def numbers(self, names: Sequence[str]) -> tuple[int, ...]:
        return tuple(self.number(name) for name in names)

    def lengths(self, name: str) -> tuple[int, ...]:
        """Return the lengths of a list or tensor; none if it is empty."""
        text = self.text(name).partition(",")[0] if self._is_tensor(name) else self.text(name)
        return tuple(int(word) for word in _SEPARATOR.split(text)) if text else ()

    def choice(self, name: str, allowed: Sequence[str]) -> str:
        """Return a value of those allowed.

        Raises
        ------
        InputError
            If it is another one.
        """
        return _checked_choice(self.flags[name], self.text(name), allowed)

    def replaced(self, **given: str) -> Values:
        return Values(self.flags, {**self.given, **given})

    def arguments(self) -> tuple[tuple[str, str], ...]:
        """All that tells problems apart, in the table's order; empty values are left out."""
        pairs = ((flag.long, self.text(flag.long)) for flag in self.flags.values())
        return tuple(
            (long, value) for long, value in pairs if value and not self.flags[long].ignored
        )

    def _is_tensor(self, name: str) -> bool:
        return self.flags[name].take is Take.TENSOR


def _checked(flag: Flag, value: str) -> str:
    """The value in its one spelling."""
    if flag.choices:
        return _checked_choice(flag, value, flag.choices)
    if flag.take is Take.TEXT:
        return value
    if flag.take is Take.REAL:
        return _checked_real(flag, value)
    if flag.take is Take.TENSOR:
        return _checked_tensor(flag, value)
    if flag.take in (Take.SIZES, Take.AXES):
        least = Take.SIZE if flag.take is Take.SIZES else Take.PAD
        return ",".join(_checked_list(flag, value, _SEPARATOR.split(value), least))
    return _checked_number(flag, value, value, flag.take)


def _checked_choice(flag: Flag, value: str, allowed: Sequence[str]) -> str:
    if value not in allowed:
        listed = ", ".join(f"`{a}`" for a in allowed)
        raise InputError(f"`{shown(value)}` of flag `{flag}` is not one of {listed}")
    return value


def _checked_number(flag: Flag, value: str, word: str, take: Take) -> str:
    if not _NUMBER.fullmatch(word):
        if value.startswith("-"):
            raise InputError(f"Flag `{flag}` has no value: `{shown(value)}` follows")
        raise InputError(f"`{shown(value)}` of flag `{flag}` is not {flag.take.value}")
    # The driver reads C ints; the length comes first since Python refuses huge ones.
    if len(word) > 20 or abs(int(word)) > MAX_SIZE:
        raise InputError(f"`{shown(value)}` of flag `{flag}` is larger than {MAX_SIZE}")
    least = {Take.SIZE: 1, Take.PAD: 0}.get(take)
    if least is not None and int(word) < least:
        raise InputError(f"`{shown(value)}` of flag `{flag}` is not {flag.take.value}")
    return str(int(word))


def _checked_real(flag: Flag, value: str) -> str:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"`{shown(value)}` of flag `{flag}` is not {flag.take.value}")
    return repr(number)


def _checked_list(flag: Flag, value: str, words: Sequence[str], take: Take) -> list[str]:
    if len(words) > flag.most:
        raise InputError(f"`{shown(value)}` of flag `{flag}` has more than {flag.most} numbers")
    return [_checked_number(flag, value, word, take) for word in words]


def _checked_tensor(flag: Flag, value: str) -> str:
    """Lengths joined by `x`, and after a comma a layout or strides (driver/InputFlags.cpp)."""
    lengths, comma, rest = value.partition(",")
    words = _checked_list(flag, value, lengths.split("x"), Take.SIZE)
    if not comma:
        return "x".join(words)
    if rest[:1].isdigit():
        strides = _checked_list(flag, value, rest.split("x"), Take.PAD)
        if len(strides) != len(words):
            raise InputError(f"`{shown(value)}` of flag `{flag}` has not a stride for each length")
        if strides == _packed(words):
            return "x".join(words)
        if strides == _channels_last(words):
            return "x".join(words) + "," + _CHANNELS_LAST[len(words)]
        return "x".join(words) + "," + "x".join(strides)
    if not _LAYOUT.fullmatch(rest) or len(rest) != len(words):
        raise InputError(f"`{shown(rest)}` in flag `{flag}` is no layout of {len(words)} axes")
    return "x".join(words) if rest in _DEFAULT_LAYOUTS else "x".join(words) + "," + rest


def _channels_last(lengths: Sequence[str]) -> list[str] | None:
    """Strides of a tensor without gaps whose second axis runs fastest, where that has a name."""
    if len(lengths) not in _CHANNELS_LAST:
        return None
    batch, channels, *image = lengths
    first, *others, last = _packed([batch, *image, channels])
    return [first, last, *others]


def _packed(lengths: Sequence[str]) -> list[str]:
    """Strides of a tensor without gaps, the last axis running fastest."""
    steps = accumulate((int(length) for length in reversed(lengths[1:])), mul, initial=1)
    return [str(step) for step in steps][::-1]
