"""Proofs: what the real library still wanted to compile with a database installed."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Miss", "Proof"]


@dataclass(frozen=True, slots=True, order=True)
class Miss:
    """A compilation that was asked for in spite of the database."""

    kernel_file: str
    options: str
    problem: str  # driver line of the problem that asked
    call: str


@dataclass(frozen=True, slots=True)
class Proof:
    """The outcome of replaying a plan's problems on one GPU with the compiler forbidden."""

    gpu: str
    policy: str
    problems: int
    hits: int  # code objects loaded
    misses: tuple[Miss, ...]
    errors: tuple[str, ...]  # problems that failed for another reason, with MIOpen's message
    unplannable: int  # failures that the library has with the compiler allowed, too
    seconds: float
    unstable: tuple[Miss, ...] = ()  # compilations whose key is another one in every process

    @property
    def proven(self) -> bool:
        """Whether nothing was left to compile that a database can hold, and nothing failed.

        What has an unstable key is in no database: MIOpen compiles it in every process.
        """
        return not self.misses and not self.errors
