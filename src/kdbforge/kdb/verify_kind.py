"""Recognises what people have in place of a kernel database, by the first bytes of the file."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["WAL", "FileKind", "file_kind"]

#: Read and write version in an SQLite header (offsets 19 and 18) that stand for WAL mode.
WAL = 2
_MAGIC = b"SQLite format 3\0"
_STARTS = (
    (b"version https://git-lfs", "a Git LFS pointer (`git lfs pull` fetches the file itself)"),
    (b"BZh", "packed with bzip2 (unpack it with `bunzip2`)"),
    (b"\x1f\x8b", "packed with gzip (unpack it with `gunzip`)"),
    (b"\x28\xb5\x2f\xfd", "packed with zstd (unpack it with `unzstd`)"),
    (b"\xfd7zXZ\0", "packed with xz (unpack it with `unxz`)"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"!<arch>\n", "a Debian package or an archive of `ar`"),
    (b"\x7fELF", "an ELF file"),
    (b"__CLANG_OFFLOAD_BUNDLE__", "an offload bundle"),
)
# Keys as MIOpen writes them: 64-56-56-3x3-64-...-NCHW-FP32-F in a find-db (network config), and
# 2x32x28x28x1x3x3x...xNCHWxFP32xF in a perf-db; `=`, then solvers.
_FIND_DB = re.compile(rb"\d+(?:-[0-9A-Za-z]+(?:x\d+)*){8,}=")
_PERF_DB = re.compile(rb"\d+(?:x[0-9A-Za-z]+){8,}=")


@dataclass(frozen=True, slots=True)
class FileKind:
    """What a file is, in words that follow "It is"."""

    words: str
    database: bool = False  # an SQLite file
    known: bool = False  # something that is not just unknown bytes


def file_kind(start: bytes, size: int) -> FileKind:
    """What a file of this size is that starts like this; `start` are up to 4096 bytes."""
    if not size:
        return FileKind("empty")
    if start.startswith(_MAGIC) and len(start) >= 100:
        return FileKind("an SQLite file", database=True, known=True)
    words = next((words for magic, words in _STARTS if start.startswith(magic)), None)
    if words is None and start.lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        words = "a web page: a download went wrong"
    if words is None and _FIND_DB.match(start):
        words = "a find-db (text)"
    if words is None and _PERF_DB.match(start):
        words = "a performance database (text)"
    if words is not None:
        return FileKind(words, known=True)
    return FileKind(f"of an unknown kind, beginning with `{start[:16].hex()}`")
