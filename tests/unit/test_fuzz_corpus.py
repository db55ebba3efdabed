"""Every fuzz target on its corpus and on all inputs that once failed; needs no fuzzer."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from fuzz import targets

FUZZ = Path(__file__).parents[1] / "fuzz"
#: Largest that what one input makes of itself may be; objects may have 64 MiB, and are copied.
MAX_BYTES = 300 << 20


def inputs(kind: str, name: str) -> list[Path]:
    return sorted((FUZZ / kind / name).glob("*"))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", targets.NAMES)
def test_corpus(name: str) -> None:
    target = targets.load(name).target
    corpus = inputs("corpus", name)
    assert corpus
    for path in corpus:
        target(path.read_bytes())


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "path",
    [path for name in targets.NAMES for path in inputs("regressions", name)],
    ids=lambda path: f"{path.parent.name}-{path.name}",
)
def test_former_failure(path: Path) -> None:
    target = targets.load(path.parent.name).target
    tracemalloc.start()
    try:
        target(path.read_bytes())
        assert tracemalloc.get_traced_memory()[1] < MAX_BYTES
    finally:
        tracemalloc.stop()


def test_corpus_is_small() -> None:
    """A checkout stays small; `keep.py` takes over only what reaches more."""
    files = [path for path in FUZZ.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert sum(path.stat().st_size for path in files) < 1_500_000
