"""Takes over what fuzzing found into the corpus: python tests/fuzz/keep.py [TARGET...]

Of the inputs in build/fuzz/TARGET, the smallest first, those that reach lines, or go from line to
line, as no input before them does. An input that fails is no part of a corpus, and ends this.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

import kdbforge  # noqa: E402
from fuzz import targets  # noqa: E402

PACKAGE = str(Path(kdbforge.__file__).parent)
#: By file: the line before, and the line.
Step = tuple[str, int, int]


def main() -> None:
    parser = argparse.ArgumentParser(description="Take over what adds to the corpus")
    parser.add_argument("target", nargs="*", help="all by default")
    parser.add_argument("--build", type=Path, default=HERE.parents[1] / "build" / "fuzz")
    options = parser.parse_args()
    for name in options.target or targets.NAMES:
        kept = keep(name, options.build / name)
        print(f"{name}: {kept} inputs added")


def keep(name: str, found: Path) -> int:
    target, corpus = targets.load(name).target, HERE / "corpus" / name
    seen: set[Step] = set()
    for path in sorted(corpus.iterdir()):
        seen |= steps(target, path.read_bytes())
    kept = 0
    for path in sorted(found.glob("*"), key=lambda path: (path.stat().st_size, path.name)):
        data = path.read_bytes()
        new = steps(target, data) - seen
        if new:
            seen |= new
            kept += 1
            (corpus / hashlib.sha256(data).hexdigest()[:12]).write_bytes(data)
    return kept


def steps(target: Callable[[bytes], None], data: bytes) -> set[Step]:
    """What one input reaches in kdbforge."""
    reached: set[Step] = set()
    last: dict[FrameType, int] = {}

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith(PACKAGE):
            return None
        if event == "line":
            reached.add((name, last.get(frame, 0), frame.f_lineno))
            last[frame] = frame.f_lineno
        elif event == "return":
            last.pop(frame, None)
        return trace

    sys.settrace(trace)
    try:
        target(data)
    finally:
        sys.settrace(None)
    return reached


if __name__ == "__main__":
    main()
