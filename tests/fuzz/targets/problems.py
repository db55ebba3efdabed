"""Driver lines, problem lists and logs: what is read can be written and read again."""

from __future__ import annotations

import io
import random

from kdbforge.errors import InputError
from kdbforge.model.problem import Convolution
from kdbforge.problems.commands import NAMES
from kdbforge.problems.convolution import FLAGS
from kdbforge.problems.driver import driver_line, parse
from kdbforge.problems.primitives import PRIMITIVES
from kdbforge.problems.sources import load

_WORDS = (
    *(f"-{flag.short}" for flag in FLAGS.values()),
    *(f"--{flag.long}" for flag in FLAGS.values()),
    *sorted(NAMES),
    *sorted({f"--{long}" for primitive in PRIMITIVES.values() for long in primitive.flags}),
    *("4x8x6", "1x8x16x16,NHWC", "4,8,6", "0.5", "max", "lstm"),
    *("0", "1", "2", "3", "-1", "7", "2147483647", "2147483648", "9" * 5000, "x", "trans"),
    *("NCHW", "NHWC", "NCDHW", "NDHWC", "CHWN", "same", "valid", "#", "'", '"', "\\", "A=1", "\0"),
    *("MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver", "time", "/x/MIOpenDriver"),
    *("\u2028", "\x85", "\ufeff", "\x1b[31m", "\u0661", "MIOpenDriver", "\n"),
)
TOKENS = tuple(word[:60].encode() for word in _WORDS)


def target(data: bytes) -> None:
    try:
        found = load(["-"], stdin=io.TextIOWrapper(io.BytesIO(data)))
    except InputError as error:
        for text in (error.message, *error.context, error.hint or ""):
            _check_clean(text)
        return
    assert len(found) == len(set(found.problems)) == len(found.counts) == len(found.origins)
    assert found.total >= len(found)
    lines = [driver_line(problem) for problem in found]
    for line, problem in zip(lines, found, strict=True):
        assert parse(line) == [problem]
        assert not isinstance(problem, Convolution) or min(problem.out_size) >= 1
    again = load(["-"], stdin=io.TextIOWrapper(io.BytesIO("\n".join(lines).encode())))
    assert again.problems == found.problems
    assert again.digest == found.digest


def _check_clean(text: str) -> None:
    assert "\x1b" not in text, "an error carries a terminal's control sequence"


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Another word somewhere."""
    words = data.decode(errors="replace").split(" ")
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(words))
        what = rng.randrange(4)
        if what == 0 and len(words) > 1:
            words.pop(at)
        elif what == 1:
            words.insert(at, rng.choice(_WORDS))
        else:
            words[at] = rng.choice(_WORDS) if rng.random() < 0.7 else rng.choice(words)
    return " ".join(words).encode()
