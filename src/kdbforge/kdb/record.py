"""One row of a kernel database, packed and unpacked as MIOpen does; no I/O.

Fields as in MIOpen src/include/miopen/kern_db.hpp and src/bz2.cpp:

| field             | type | meaning                                                              |
|-------------------|------|----------------------------------------------------------------------|
| kernel_name       | TEXT | kernel file and `.o`                                                 |
| kernel_args       | TEXT | build options, verbatim, and ` -mcpu=ARCH`                           |
| kernel_blob       | BLOB | the code object: bzip2, level 9, or plain where that would be larger |
| kernel_hash       | TEXT | MD5 of the code object as it is loaded, 32 lower-case hex digits     |
| uncompressed_size | INT  | bytes of the code object; 0: kernel_blob is plain                    |
"""

from __future__ import annotations

import bz2
import hashlib
import re
from dataclasses import dataclass

from kdbforge.codeobject.elf import MAX_OBJECT_BYTES
from kdbforge.errors import DatabaseError

__all__ = ["MAX_KEY_BYTES", "Record"]

#: Longest kernel_name or kernel_args that is accepted; MIOpen's are below 10 kilobytes.
MAX_KEY_BYTES = 1 << 20
_HASH = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Record:
    """A row; nothing is checked before `check` or `unpack` is called."""

    kernel_name: str
    kernel_args: str
    kernel_blob: bytes
    kernel_hash: str
    uncompressed_size: int

    @classmethod
    def pack(cls, kernel_name: str, kernel_args: str, code_object: bytes) -> Record:
        """Pack a code object; the same bytes as MIOpen's own for the same libbz2 format.

        Raises
        ------
        DatabaseError
            If the object is empty or too large.
        """
        size = len(code_object)
        if not 0 < size <= MAX_OBJECT_BYTES:
            raise DatabaseError(
                f"Code object has {size} bytes; 1 to {MAX_OBJECT_BYTES} can be stored",
                context=(f"kernel: {kernel_name}",),
            )
        packed = bz2.compress(code_object, 9)
        digest = _md5(code_object)
        # bz2.cpp: the output buffer is as long as the input, so an equal length still fits.
        if len(packed) > size:
            return cls(kernel_name, kernel_args, code_object, digest, 0)
        return cls(kernel_name, kernel_args, packed, digest, size)

    @property
    def key(self) -> tuple[str, str]:
        """What MIOpen looks a record up by."""
        return self.kernel_name, self.kernel_args

    def unpack(self) -> bytes:
        """The code object.

        Never makes more than the declared size plus one byte, and at most 64 MiB.

        Raises
        ------
        DatabaseError
            If size or MD5 are not those of the code object, or the blob is damaged.
        """
        self.check()
        data = self._decompress() if self.uncompressed_size else self.kernel_blob
        if _md5(data) != self.kernel_hash:
            raise self._error(f"MD5 is {_md5(data)}, and kernel_hash says {self.kernel_hash}")
        return data

    def check(self) -> None:
        """Check all that can be told without decompressing.

        Raises
        ------
        DatabaseError
            If a field is out of range, or the key is one that MIOpen could never look up.
        """
        for field, text in (("kernel_name", self.kernel_name), ("kernel_args", self.kernel_args)):
            # kern_db.hpp, KernelConfig::Where pastes both into SQL text without quoting.
            if "'" in text or "\0" in text:
                raise self._error(
                    f"{field} has a quote or a zero byte, which MIOpen cannot look up"
                )
            if len(_utf8(text)) > MAX_KEY_BYTES:
                raise self._error(f"{field} is longer than {MAX_KEY_BYTES} bytes")
        if not self.kernel_name:
            raise self._error("kernel_name is empty")
        if not _HASH.fullmatch(self.kernel_hash):
            raise self._error(f"kernel_hash is no MD5: `{self.kernel_hash[:40]}`")
        if not 0 <= self.uncompressed_size <= MAX_OBJECT_BYTES:
            raise self._error(f"uncompressed_size is {self.uncompressed_size}")
        if not 0 < len(self.kernel_blob) <= MAX_OBJECT_BYTES:
            raise self._error(f"kernel_blob has {len(self.kernel_blob)} bytes")

    def _decompress(self) -> bytes:
        engine = bz2.BZ2Decompressor()
        try:
            data = engine.decompress(self.kernel_blob, max_length=self.uncompressed_size + 1)
        except (OSError, ValueError) as error:
            raise self._error(f"kernel_blob is not bzip2 data ({error})") from None
        if len(data) > self.uncompressed_size:
            raise self._error(f"kernel_blob unpacks to more than {self.uncompressed_size} bytes")
        if len(data) < self.uncompressed_size or not engine.eof:
            raise self._error(f"kernel_blob is cut off at {len(data)} bytes")
        if engine.unused_data:
            raise self._error("kernel_blob goes on behind its end")
        return data

    def _error(self, what: str) -> DatabaseError:
        context = (f"kernel: {self.kernel_name[:200]}", f"options: {self.kernel_args[:2000]}")
        return DatabaseError(f"Damaged record: {what}", context=context)


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise DatabaseError("Damaged record: its key is not valid Unicode") from None
