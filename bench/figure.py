"""One measured value, and what it is held against."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Figure", "at_least", "at_most"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value; `goal` is empty where it is for information."""

    name: str
    value: float
    unit: str
    goal: str = ""
    passed: bool = True


def at_most(name: str, value: float, goal: float, unit: str = "") -> Figure:
    return Figure(name, value, unit, f"<= {goal:g}", value <= goal)


def at_least(name: str, value: float, goal: float, unit: str = "") -> Figure:
    return Figure(name, value, unit, f">= {goal:g}", value >= goal)
