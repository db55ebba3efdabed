"""Takes numbers, choices and bytes from the input of a fuzzer; the end of the input reads as zeros.

Independent of any fuzzer, so that an input means the same in a test without one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

__all__ = ["Fields"]

T = TypeVar("T")


class Fields:
    """A cursor over the input."""

    def __init__(self, data: bytes):
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return max(len(self._data) - self._at, 0)

    def bytes(self, count: int) -> bytes:
        part = self._data[self._at : self._at + count]
        self._at += count
        return part

    def byte(self) -> int:
        return int.from_bytes(self.bytes(1), "little")

    def int64(self) -> int:
        return int.from_bytes(self.bytes(8).ljust(8, b"\0"), "little", signed=True)

    def choice(self, options: Sequence[T]) -> T:
        return options[self.byte() % len(options)]

    def blob(self) -> bytes:
        """Up to 255 bytes, their number first."""
        return self.bytes(self.byte())

    def text(self) -> str:
        return self.blob().decode(errors="replace")
