"""Where problems come from: MIOpenDriver command lines, MIOpen logs, networks, suites."""

from kdbforge.problems.driver import driver_line, parse
from kdbforge.problems.limits import check
from kdbforge.problems.models import CONSUMERS, ModelOptions, ModelReport
from kdbforge.problems.sources import ProblemList, load
from kdbforge.problems.suites import SUITES, Suite, find_suite

__all__ = [
    "CONSUMERS",
    "SUITES",
    "ModelOptions",
    "ModelReport",
    "ProblemList",
    "Suite",
    "check",
    "driver_line",
    "find_suite",
    "load",
    "parse",
]
