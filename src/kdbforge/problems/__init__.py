"""Where problems come from: MIOpenDriver command lines, MIOpen logs, suites."""

from kdbforge.problems.driver import command_titles, driver_line, parse
from kdbforge.problems.keys import find_db_key
from kdbforge.problems.limits import check
from kdbforge.problems.logs import Note
from kdbforge.problems.sources import ProblemList, load
from kdbforge.problems.suites import SUITES, Suite, find_suite

__all__ = [
    "SUITES",
    "Note",
    "ProblemList",
    "Suite",
    "check",
    "command_titles",
    "driver_line",
    "find_db_key",
    "find_suite",
    "load",
    "parse",
]
