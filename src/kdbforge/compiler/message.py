"""The frames between the pool and a guest; `guest.py` has their layout.

Bytes in, bytes out: reading and writing is the worker's.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from kdbforge.errors import WorkerError
from kdbforge.model.job import Job

__all__ = ["Reply", "ReplyReader", "answer_frame", "job_frame"]

_PREFIX = struct.Struct("<IQ")
#: No header and no object comes near; more than this is a broken stream.
_MAX_BYTES = 1 << 31


@dataclass(frozen=True, slots=True)
class Reply:
    """One frame of a guest."""

    kind: str  # ready, content, done, error, skipped
    header: dict[str, Any]
    payload: bytes


def job_frame(job: Job, *, ask: bool) -> bytes:
    """Request to run a job; with `ask` the guest first offers the digest of its content."""
    return _frame({**asdict(job), "ask": ask})


def answer_frame(*, compile_it: bool) -> bytes:
    """Answer to an offered content."""
    return _frame({"compile": compile_it})


class ReplyReader:
    """Cuts a guest's byte stream into replies."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Reply]:
        """Replies that are whole with this data.

        Raises
        ------
        WorkerError
            If the stream is not what a guest writes.
        """
        self._buffer += data
        while len(self._buffer) >= _PREFIX.size:
            header_size, payload_size = _PREFIX.unpack_from(self._buffer)
            payload_at = _PREFIX.size + header_size
            end = payload_at + payload_size
            if end > _MAX_BYTES:
                raise WorkerError("A compile worker sent a frame that is none")
            if len(self._buffer) < end:
                return
            header = json.loads(self._buffer[_PREFIX.size : payload_at])
            payload = bytes(self._buffer[payload_at:end])
            del self._buffer[:end]
            yield Reply(header["type"], header, payload)


def _frame(message: dict[str, Any]) -> bytes:
    text = json.dumps(message).encode("ascii")
    return struct.pack("<I", len(text)) + text
