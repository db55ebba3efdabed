"""Remembers what is in blobs: databases, and caches to be merged still more, repeat them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["BlobMemo"]

T = TypeVar("T")
_MAX_REMEMBERED = 8192


class BlobMemo(Generic[T]):
    """What was found out about a blob together with the MD5 and the size that a record gives it.

    Blobs are told apart by SHA-256, since those of a hostile file may have equal MD5s. What is
    raised is not remembered. Memory stays bounded; threads may share one.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, T] = {}

    def get(self, blob: bytes, md5: bytes, size: int, find_out: Callable[[], T]) -> T:
        """What `find_out` returned for the same blob, MD5 and size, or returns now."""
        digest = hashlib.sha256(b"%d %d %b" % (size, len(md5), md5))
        digest.update(blob)
        key = digest.digest()
        try:
            return self._known[key]
        except KeyError:
            found = find_out()
        if len(self._known) >= _MAX_REMEMBERED:
            self._known.clear()
        self._known[key] = found
        return found
