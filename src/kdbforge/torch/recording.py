"""What was recorded of a PyTorch program: MIOpenDriver command lines, and what is not MIOpen's.

Needs no PyTorch: the command line reads here what a child process recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from kdbforge.errors import UnsupportedError
from kdbforge.model.problem import Problem
from kdbforge.problems.driver import parse
from kdbforge.problems.sources import ProblemList

__all__ = ["Call", "Recording"]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of MIOpen: a driver line of one direction, and the module that makes it."""

    line: str
    origin: str


@dataclass(slots=True)
class Recording:
    """The calls in their order; while the `with` block runs, it grows."""

    calls: list[Call] = field(default_factory=list)
    #: Operations for which PyTorch has kernels of its own, by name and reason.
    native: Counter[str] = field(default_factory=Counter)
    #: Whether a convolution was called with `torch.backends.cudnn.benchmark` on.
    benchmark: bool = False

    def __iter__(self) -> Iterator[Problem]:
        return iter(self.problem_list())

    def __len__(self) -> int:
        return len(self.problem_list())

    @property
    def lines(self) -> tuple[str, ...]:
        """Each driver line once, in the order in which they came."""
        return tuple(dict.fromkeys(call.line for call in self.calls))

    @property
    def policy(self) -> str:
        """The name of the policy that covers how this program asks for kernels."""
        return "normal" if self.benchmark else "default"

    @property
    def unsupported(self) -> tuple[str, ...]:
        """Lines of primitives that kdbforge cannot build for (yet)."""
        return tuple(line for line in self.lines if not _problems(line))

    def problem_list(self) -> ProblemList:
        """Return the problems as `kdbforge.plan` and `kdbforge.build` take them."""
        found: dict[Problem, tuple[int, str]] = {}
        parsed = {line: _problems(line) for line in self.lines}
        for call in self.calls:
            for problem in parsed[call.line]:
                count, origin = found.get(problem, (0, call.origin))
                found[problem] = (count + 1, origin)
        return ProblemList(
            tuple(found),
            tuple(count for count, _ in found.values()),
            tuple(origin for _, origin in found.values()),
        )


def _problems(line: str) -> list[Problem]:
    try:
        return parse(line)
    except UnsupportedError:
        return []
