"""A text in blocks of whole lines, in constant memory. What the lines say is read elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, TextIO

from kdbforge.errors import InputError
from kdbforge.problems.line import shown

__all__ = ["MAX_LINE_BYTES", "Block", "read_blocks", "unreadable"]

#: What is longer is no line to read, so that a file without line ends cannot fill the memory.
MAX_LINE_BYTES = 2**20
_READ_BYTES = 1 << 14
_BOM = b"\xef\xbb\xbf"
#: Colours and cursor movements of a terminal (ECMA-48, control sequences).
_ESCAPES = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")
#: First bytes of what is often taken for a text, its name, and what makes a text of it.
_OTHER_FORMATS = (
    (b"\x1f\x8b", "compressed with gzip", "gunzip -c"),
    (b"\x28\xb5\x2f\xfd", "compressed with Zstandard", "zstd -dc"),
    (b"\xfd7zXZ\0", "compressed with xz", "xz -dc"),
    (b"BZh", "compressed with bzip2", "bunzip2 -c"),
    (b"\xff\xfe", "UTF-16 text", "iconv -f UTF-16"),
    (b"\xfe\xff", "UTF-16 text", "iconv -f UTF-16"),
)


@dataclass(frozen=True, slots=True)
class Block:
    """Lines that follow one another, without their ends, colours and byte order mark."""

    first: int  # number of the first line
    text: bytes
    lines: list[bytes]
    ended: bool = True  # the last line has an end
    suspect: bool = False  # some line may be one that `damage` refuses

    def damage(self, line: bytes) -> str | None:
        """Say what makes a line none of a text; None for a good line."""
        if len(line) > MAX_LINE_BYTES:
            return f"Line of more than {MAX_LINE_BYTES} bytes"
        if b"\0" in line:
            return "it holds a zero byte"
        try:
            line.decode()
        except UnicodeDecodeError as error:
            return f"Byte 0x{line[error.start]:02x} is not UTF-8 text"
        return None


def read_blocks(name: str, stream: BinaryIO | TextIO) -> Iterator[Block]:
    """Yield all lines. Of an overlong one, which is suspect, only the beginning.

    Raises
    ------
    InputError
        If the stream cannot be read, or begins as a compressed file or UTF-16 text does.
    """
    data = _read(name, stream)
    _refuse_other_formats(name, data)
    data = data.removeprefix(_BOM)
    number, pending, skipping = 1, b"", False
    while data:
        *lines, rest = data.split(b"\n")
        if lines and skipping:
            del lines[0]
            skipping, number = False, number + 1
        elif lines:
            lines[0] = pending + lines[0]
        else:
            rest = b"" if skipping else pending + rest
        pending = rest
        if lines:
            yield _block(number, lines)
            number += len(lines)
        if len(pending) > MAX_LINE_BYTES and not skipping:
            yield Block(number, pending, [pending], ended=False, suspect=True)
            skipping, pending = True, b""
        data = _read(name, stream)
    if pending and not skipping:
        yield _block(number, [pending], ended=False)


def _block(first: int, lines: list[bytes], *, ended: bool = True) -> Block:
    text = b"\n".join(lines)
    if b"\x1b" in text:
        text = _ESCAPES.sub(b"", text)
        lines = text.split(b"\n")
    suspect = b"\0" in text or not _is_utf8(text) or len(lines[0]) > MAX_LINE_BYTES
    return Block(first, text, lines, ended, suspect)


def _is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _refuse_other_formats(name: str, data: bytes) -> None:
    for magic, what, tool in _OTHER_FORMATS:
        if data.startswith(magic):
            raise InputError(
                f"`{shown(name)}` is {what}", hint=f"{tool} {shown(name)} | kdbforge problems -"
            )


def _read(name: str, stream: BinaryIO | TextIO) -> bytes:
    try:
        data = stream.read(_READ_BYTES)
    except UnicodeDecodeError as error:
        raise unreadable(name, str(error)) from None
    except OSError as error:
        raise unreadable(name, error.strerror) from error
    return data if isinstance(data, bytes) else data.encode(errors="surrogatepass")


def unreadable(name: str, reason: str | None, *, hint: str | None = None) -> InputError:
    """Return the error for a file that cannot be read."""
    return InputError(f"Cannot read `{shown(name)}`: {reason}", hint=hint)
