"""Measures the figures that the README gives; exits 1 if one misses its goal.

Everything runs on the real libMIOpen and compiler. Nothing else should run on the machine.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
from pathlib import Path

from figures import FIGURES, Figure
from lab import Lab


def main() -> int:
    """Print a line per figure: name, value, goal, PASS or FAIL."""
    options = _parse()
    if options.list:
        for name, measure in FIGURES.items():
            print(f"{name:20} {measure.__doc__}")
        return 0
    build = Path("build")
    build.mkdir(exist_ok=True)
    lab = Lab(Path(tempfile.mkdtemp(prefix="bench-", dir=build)).resolve(), options.suite)
    found: list[Figure] = []
    try:
        for name in options.only or FIGURES:
            for figure in FIGURES[name](lab):
                found.append(figure)
                if not options.json:
                    print(_line(figure), flush=True)
    finally:
        lab.clear()
    if options.json:
        print(json.dumps([dataclasses.asdict(figure) for figure in found], indent=2))
    return 0 if all(figure.passed for figure in found) else 1


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=FIGURES, help="may be repeated")
    parser.add_argument("--list", action="store_true", help="name the figures")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--suite", default="suite:resnet50", help="problems to measure with")
    return parser.parse_args()


def _line(figure: Figure) -> str:
    verdict = ("PASS" if figure.passed else "FAIL") if figure.goal else ""
    return f"{figure.name:62} {figure.value:8.2f} {figure.unit:11} {figure.goal:8} {verdict}"


if __name__ == "__main__":
    sys.exit(main())
