"""What a store file holds: a compiled, packed code object, sealed against damage.

A file is, in this order:

| bytes | what |
|---|---|
| 16 | magic and schema version, `kdbforge-store 1` |
| 32 | SHA-256 over key, newline, and all that follows |
| 4 | length of the header, little endian |
| header | JSON object |
| rest | the body |
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass
from typing import Any

__all__ = ["StoreEntry", "peek", "seal", "unseal"]

_MAGIC = b"kdbforge-store 1"
_DIGEST_SIZE = 32
_LENGTH = struct.Struct("<I")
_HEADER_AT = len(_MAGIC) + _DIGEST_SIZE + _LENGTH.size


@dataclass(frozen=True, slots=True)
class StoreEntry:
    """A code object as MIOpen's kern_db table wants it (kern_db.hpp, bz2.cpp)."""

    blob: bytes  # bzip2, level 9; the plain object where that is smaller
    kernel_hash: str  # MD5 of the plain object, hex
    uncompressed_size: int  # bytes of the plain object; 0: the blob is the plain object
    seconds: float  # CPU seconds that the job took
    kernel_file: str

    def to_bytes(self, key: str) -> bytes:
        """The file of this entry under `key`."""
        header = {
            "kernel_file": self.kernel_file,
            "kernel_hash": self.kernel_hash,
            "seconds": round(self.seconds, 3),
            "uncompressed_size": self.uncompressed_size,
        }
        return seal(key, header, self.blob)

    @classmethod
    def from_bytes(cls, key: str, data: bytes) -> StoreEntry | None:
        """Read a file that was made for `key`; None if it is damaged or of another schema."""
        opened = unseal(key, data)
        if opened is None:
            return None
        header, blob = opened
        try:
            return cls(
                blob=blob,
                kernel_hash=str(header["kernel_hash"]),
                uncompressed_size=int(header["uncompressed_size"]),
                seconds=float(header["seconds"]),
                kernel_file=str(header["kernel_file"]),
            )
        except (KeyError, TypeError, ValueError):
            return None


def seal(key: str, header: dict[str, Any], body: bytes) -> bytes:
    """Put header and body into a file that is valid under `key` alone."""
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    rest = _LENGTH.pack(len(text)) + text + body
    return _MAGIC + _digest(key, rest) + rest


def unseal(key: str, data: bytes) -> tuple[dict[str, Any], bytes] | None:
    """Header and body of a sealed file; None if a bit of it is not as it was written."""
    sealed = data[len(_MAGIC) : len(_MAGIC) + _DIGEST_SIZE]
    rest = data[len(_MAGIC) + _DIGEST_SIZE :]
    if not data.startswith(_MAGIC) or sealed != _digest(key, rest):
        return None
    header = peek(data)
    if header is None:
        return None
    (length,) = _LENGTH.unpack_from(rest)
    return header, rest[_LENGTH.size + length :]


def peek(data: bytes) -> dict[str, Any] | None:
    """The header of a sealed file from its first bytes, unchecked; None if it cannot be read."""
    if not data.startswith(_MAGIC) or len(data) < _HEADER_AT:
        return None
    (length,) = _LENGTH.unpack_from(data, _HEADER_AT - _LENGTH.size)
    try:
        header = json.loads(data[_HEADER_AT : _HEADER_AT + length])
    except ValueError:
        return None
    return header if isinstance(header, dict) else None


def _digest(key: str, rest: bytes) -> bytes:
    digest = hashlib.sha256(key.encode() + b"\n")
    digest.update(rest)
    return digest.digest()
