"""Blobs that are remembered: nothing is mixed up, and memory stays bounded."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kdbforge.kdb import memo
from kdbforge.kdb.memo import BlobMemo


def answering(answers: list[str]) -> Callable[[], str]:
    return lambda: answers.pop(0)


def test_equal_blobs_are_found_out_about_once() -> None:
    known, find_out = BlobMemo[str](), answering(["first"])
    assert [known.get(b"blob", b"md5", 4, find_out) for _ in range(3)] == ["first"] * 3


@pytest.mark.parametrize(
    "other",
    [(b"blub", b"md5", 4), (b"blob", b"md4", 4), (b"blob", b"md5", 0), (b"5blob", b"md", 4)],
)
def test_anything_else_is_another_question(other: tuple[bytes, bytes, int]) -> None:
    known, find_out = BlobMemo[str](), answering(["first", "second"])
    assert known.get(b"blob", b"md5", 4, find_out) == "first"
    assert known.get(*other, find_out) == "second"


def test_errors_are_not_remembered() -> None:
    known = BlobMemo[str]()

    def fail() -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        known.get(b"blob", b"md5", 4, fail)
    assert known.get(b"blob", b"md5", 4, lambda: "found") == "found"


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memo, "_MAX_REMEMBERED", 4)
    known = BlobMemo[int]()
    for number in range(100):
        assert known.get(b"%d" % number, b"", 0, lambda number=number: number) == number  # type: ignore[misc]
        assert len(known._known) <= 4
