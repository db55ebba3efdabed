"""One measured figure: its value, the goal, and how both are shown.

A figure without a goal is for information and neither passes nor fails.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Figure", "at_least", "at_most", "exactly", "for_information"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A line of the report."""

    name: str
    value: str
    goal: str  # empty: none
    passed: bool | None  # None: no goal
    note: str  # what was measured, in words

    @property
    def verdict(self) -> str:
        return {True: "PASS", False: "FAIL", None: "-"}[self.passed]

    def line(self) -> str:
        """Name, value, goal and verdict in columns, and what was measured."""
        return f"{self.name:34} {self.value:>14}  {self.goal or '-':12} {self.verdict:4}  {self.note}"

    def as_json(self) -> str:
        return json.dumps(
            {
                "name": self.name,
                "value": self.value,
                "goal": self.goal,
                "verdict": self.verdict,
                "note": self.note,
            }
        )


def at_most(name: str, value: float, goal: float, note: str) -> Figure:
    """A number that must not exceed its goal."""
    return Figure(name, f"{value:.2f}", f"<= {goal:.2f}", value <= goal, note)


def at_least(name: str, value: float, goal: float, note: str) -> Figure:
    """A number that must reach its goal."""
    return Figure(name, f"{value:.1f}", f">= {goal:g}", value >= goal, note)


def exactly(name: str, value: int, goal: int, note: str) -> Figure:
    """A count that must be met."""
    return Figure(name, str(value), f"= {goal}", value == goal, note)


def for_information(name: str, value: str, note: str) -> Figure:
    """A figure without a goal."""
    return Figure(name, value, "", None, note)


def any_failed(figures: Sequence[Figure]) -> bool:
    """Whether a goal was missed."""
    return any(figure.passed is False for figure in figures)
