"""Digest of everything in a toolchain that can change what its compiler puts out.

Content and relative names only: the same files in another place give the same fingerprint.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from kdbforge.errors import ToolchainError

__all__ = ["affects_output", "combine", "file_digest", "header_digests"]

_SCHEMA = b"kdbforge toolchain fingerprint 1"

# Left out: the loader and libraries that only give a process its memory, threads and stack.
# libm and libstdc++ stay in: LLVM folds constant mathematics with the one, sorts with the other.
_PROCESS_ONLY = re.compile(r"(ld-linux|ld64|libc|libdl|libpthread|librt|libgcc_s)\b.*")

# What a kernel can reach in a folder like /usr/include, where the headers of any other package
# lie as well: ROCm's own, the C library's, the Linux kernel's.
_C_TREES = ("hip", "hsa", "hiprand", "rocrand", "asm", "asm-generic", "bits", "gnu", "linux", "sys")


def affects_output(soname: str) -> bool:
    """Tell whether a library that the compiler needs can change what the compiler puts out."""
    return _PROCESS_ONLY.fullmatch(soname) is None


def file_digest(path: Path) -> str:
    """Compute the SHA-256 of one file.

    Raises
    ------
    ToolchainError
        If the file cannot be read.
    """
    try:
        with path.open("rb") as data:
            return hashlib.file_digest(data, "sha256").hexdigest()
    except OSError as error:
        raise ToolchainError(f"Cannot read `{path}`: {error.strerror}") from error


def header_digests(folders: Iterable[Path], *, shared: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Yield (label, digest) of each folder of headers, in the order the compiler searches them.

    One that is `shared` with unrelated packages counts with its own files and the sub-folders
    that kernels can reach, any other counts whole.
    """
    apart = {folder.resolve() for folder in shared}
    for number, folder in enumerate(folders):
        yield f"headers {number}", _tree_digest(folder, whole=folder.resolve() not in apart)


def _tree_digest(folder: Path, *, whole: bool) -> str:
    total = hashlib.sha256()
    for path in sorted(_files(folder, whole=whole), key=lambda p: p.as_posix()):
        _add(total, path.relative_to(folder).as_posix(), file_digest(path))
    return total.hexdigest()


def _files(folder: Path, *, whole: bool) -> Iterator[Path]:
    for root, folders, names in os.walk(folder, followlinks=True):
        here = Path(root)
        if not whole and here == folder:
            folders[:] = [name for name in folders if name in _C_TREES]
        for name in names:
            path = here / name
            if path.is_file():  # not a dangling link
                yield path


def combine(parts: Iterable[tuple[str, str]]) -> str:
    """Join labelled digests to one, in the order given."""
    total = hashlib.sha256(_SCHEMA)
    for label, digest in parts:
        _add(total, label, digest)
    return total.hexdigest()


def _add(total: hashlib._Hash, label: str, digest: str) -> None:
    for field in (label.encode(), digest.encode()):
        total.update(len(field).to_bytes(8, "little") + field)
