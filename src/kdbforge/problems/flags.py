"""The flags of MIOpenDriver's convolution commands: names, defaults, and reading of values."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from kdbforge.errors import InputError
from kdbforge.problems.commands import shown
from kdbforge.problems.limits import MAX_SIZE

__all__ = ["FLAGS", "Flag", "Take", "Values", "read_flags"]


class Take(Enum):
    """What a flag takes as its value."""

    SIZE = "a whole number from 1"
    PAD = "a whole number from 0"
    NUMBER = "a whole number"
    TEXT = "any text"


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag; `default` is the driver's own."""

    short: str
    long: str
    take: Take
    default: str
    upper: bool = False  # the driver turns the value of the long spelling into capitals

    def __str__(self) -> str:
        return f"-{self.short}/--{self.long}"


#: All flags of `conv` (driver/conv_driver.hpp, AddCmdLineArgs; `&`, `N`, `~` came with MIOpen 3.5).
_TABLE = (
    Flag("I", "in_layout", Take.TEXT, "", upper=True),
    Flag("O", "out_layout", Take.TEXT, "", upper=True),
    Flag("f", "fil_layout", Take.TEXT, "", upper=True),
    Flag("_", "spatial_dim", Take.NUMBER, "2"),
    Flag("F", "forw", Take.NUMBER, "0"),
    Flag("n", "batchsize", Take.SIZE, "100"),
    Flag("c", "in_channels", Take.SIZE, "3"),
    Flag("!", "in_d", Take.SIZE, "32"),
    Flag("H", "in_h", Take.SIZE, "32"),
    Flag("W", "in_w", Take.SIZE, "32"),
    Flag("k", "out_channels", Take.SIZE, "32"),
    Flag("@", "fil_d", Take.SIZE, "3"),
    Flag("y", "fil_h", Take.SIZE, "3"),
    Flag("x", "fil_w", Take.SIZE, "3"),
    Flag("#", "conv_stride_d", Take.SIZE, "1"),
    Flag("u", "conv_stride_h", Take.SIZE, "1"),
    Flag("v", "conv_stride_w", Take.SIZE, "1"),
    Flag("$", "pad_d", Take.PAD, "0"),
    Flag("p", "pad_h", Take.PAD, "0"),
    Flag("q", "pad_w", Take.PAD, "0"),
    Flag("r", "pad_val", Take.NUMBER, "0"),
    Flag("%", "trans_output_pad_d", Take.PAD, "0"),
    Flag("Y", "trans_output_pad_h", Take.PAD, "0"),
    Flag("X", "trans_output_pad_w", Take.PAD, "0"),
    Flag("i", "iter", Take.SIZE, "10"),
    Flag("V", "verify", Take.NUMBER, "1"),
    Flag("C", "verification_cache", Take.TEXT, ""),
    Flag("t", "time", Take.NUMBER, "0"),
    Flag("w", "wall", Take.NUMBER, "0"),
    Flag("s", "search", Take.NUMBER, "0"),
    Flag("P", "printconv", Take.NUMBER, "1"),
    Flag("o", "dump_output", Take.NUMBER, "0"),
    Flag("d", "in_data", Take.TEXT, ""),
    Flag("e", "weights", Take.TEXT, ""),
    Flag("b", "bias", Take.NUMBER, "0"),
    Flag("m", "mode", Take.TEXT, "conv"),
    Flag("z", "pad_mode", Take.TEXT, "default"),
    Flag("Z", "tensor_vect", Take.NUMBER, "0"),
    Flag("L", "vector_length", Take.NUMBER, "1"),
    Flag("^", "dilation_d", Take.SIZE, "1"),
    Flag("l", "dilation_h", Take.SIZE, "1"),
    Flag("j", "dilation_w", Take.SIZE, "1"),
    Flag("a", "in_bias", Take.TEXT, ""),
    Flag("g", "group_count", Take.PAD, "1"),  # 0 means 1 (GetWeightTensorLengthsFromCmdLine)
    Flag("D", "dout_data", Take.TEXT, ""),
    Flag("S", "solution", Take.TEXT, "-1"),
    Flag("G", "gpualloc", Take.NUMBER, "0"),
    Flag("U", "in_cast_type", Take.TEXT, "-1"),
    Flag("T", "out_cast_type", Take.TEXT, "-1"),
    Flag("R", "wei_cast_type", Take.TEXT, "-1"),
    Flag("&", "tuning_policy", Take.NUMBER, "0"),
    Flag("N", "init_output_nan", Take.NUMBER, "0"),
    Flag("~", "gpubuffer_check", Take.NUMBER, "0"),
)
FLAGS: Mapping[str, Flag] = {flag.long: flag for flag in _TABLE}
_BY_SHORT = {flag.short: flag for flag in _TABLE}
_NUMBER = re.compile(r"[+-]?[0-9]+")


@dataclass(frozen=True, slots=True)
class Values:
    """The values that a command line gives, by long name; the driver's defaults for the rest."""

    given: Mapping[str, str]

    def text(self, name: str) -> str:
        return self.given.get(name, FLAGS[name].default)

    def number(self, name: str) -> int:
        """Return a value that `read_flags` has accepted as a number."""
        return int(self.text(name))

    def numbers(self, names: Sequence[str]) -> tuple[int, ...]:
        return tuple(self.number(name) for name in names)


def read_flags(words: Sequence[str]) -> Values:
    """Read flags and values as the driver does: each flag takes the next word, the last one wins.

    Unlike the driver, which reads `-n 3x` as 3, `-n x` as 0 and `-nx 3` as `-n 3`, nothing is
    taken for what it does not say.

    Raises
    ------
    InputError
        Names the flag: unknown, without a value, or with one that is not of its kind.
    """
    given: dict[str, str] = {}
    for index in range(0, len(words), 2):
        flag = _find_flag(words[index])
        if index + 1 == len(words):
            raise InputError(f"Flag `{flag}` has no value")
        value = words[index + 1]
        if flag.upper and words[index].startswith("--"):
            value = value.upper()
        _check_value(flag, value)
        given[flag.long] = value
    return Values(given)


def _find_flag(word: str) -> Flag:
    if not word.startswith("-") or word == "-":
        raise InputError(
            f"`{shown(word)}` stands where a flag is expected",
            hint="each flag takes one value, and a line holds one command",
        )
    long = word.startswith("--")
    flag = FLAGS.get(word[2:]) if long else _BY_SHORT.get(word[1:])
    if flag is not None:
        return flag
    raise InputError(f"Unknown flag `{shown(word)}`", hint=_flag_hint(word))


def _flag_hint(word: str) -> str | None:
    """Guess which flag was meant: `--batchsize=1`, `-batchsize`, `-n1`, `--batch_size`."""
    name, equals, _ = word.lstrip("-").partition("=")
    if name in FLAGS:
        return f"write it like `--{name} VALUE`" if equals else f"did you mean `--{name}`?"
    if not word.startswith("--") and name[:1] in _BY_SHORT:
        return f"write it like `-{name[:1]} VALUE`"
    near = difflib.get_close_matches(name, FLAGS, n=3, cutoff=0.6)
    return "did you mean " + ", ".join(f"`--{n}`" for n in near) + "?" if near else None


def _check_value(flag: Flag, value: str) -> None:
    if flag.take is Take.TEXT:
        return
    if not _NUMBER.fullmatch(value):
        if value.startswith("-"):
            raise InputError(f"Flag `{flag}` has no value: `{shown(value)}` follows")
        raise InputError(f"`{shown(value)}` of flag `{flag}` is not {flag.take.value}")
    # The driver reads C ints; the length comes first since Python refuses huge ones.
    if len(value) > 20 or abs(int(value)) > MAX_SIZE:
        raise InputError(f"`{shown(value)}` of flag `{flag}` is larger than {MAX_SIZE}")
    least = {Take.SIZE: 1, Take.PAD: 0}.get(flag.take)
    if least is not None and int(value) < least:
        raise InputError(f"`{value}` of flag `{flag}` is not {flag.take.value}")
