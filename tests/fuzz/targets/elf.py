"""AMDGPU ELF files: headers, symbols, notes, kernel descriptors, and the static checks."""

from __future__ import annotations

import random
import struct

from kdbforge.codeobject.checks import check_static
from kdbforge.codeobject.details import functions, read_details
from kdbforge.codeobject.elf import check_object, read_object
from kdbforge.errors import DatabaseError

TOKENS = (b"\x7fELF\x02\x01\x01\x40\x02", b"\xe0\0", b"AMDGPU\0", b".kd\0", b"amdhsa.kernels")
#: Offset and size of the fields of an ELF header that say where the rest is.
_HEADER = ((8, 1), (32, 8), (40, 8), (48, 4), (54, 2), (56, 2), (58, 2), (60, 2))
_NUMBERS = (0, 1, 63, 64, 255, 4095, 4096, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 63, (1 << 64) - 1)


def target(data: bytes) -> None:
    findings = check_static(data)
    try:
        described = read_object(data)
    except DatabaseError:
        assert findings, "nothing is found in an object that cannot be read"
        return
    assert described.kernels == tuple(sorted(set(described.kernels)))
    assert check_object(data, described.target) == described
    try:
        details = read_details(data)
    except DatabaseError:
        assert findings, "nothing is found in an object whose details cannot be read"
        return
    assert details.object == described
    assert tuple(kernel.name for kernel in details.kernels) == described.kernels
    assert sum(len(note.content) for note in details.image.notes()) <= len(data) * 8
    try:
        found = functions(details.image)
    except DatabaseError:
        return
    assert sum(len(function.code) for function in found) <= len(data)
    assert all(function.code in data for function in found)


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Change a field of the header, or of one of the headers that it leads to."""
    out = bytearray(data)
    if len(out) < 64:
        return data
    places = list(_HEADER)
    for offset_at, size_at, count_at, width in ((32, 54, 56, 56), (40, 58, 60, 64)):
        (offset,) = struct.unpack_from("<Q", out, offset_at)
        (size,) = struct.unpack_from("<H", out, size_at)
        (count,) = struct.unpack_from("<H", out, count_at)
        for index in range(min(count, 40)):
            start = offset + index * size
            places += [(start + at, 4) for at in (0, 4, 40)]
            places += [(start + at, 8) for at in range(8, width, 8)]
    for _ in range(rng.randint(1, 3)):
        at, size = rng.choice(places)
        if at + size > len(out):
            continue
        old = int.from_bytes(out[at : at + size], "little")
        new = rng.choice((rng.choice(_NUMBERS), old + rng.choice((-64, -1, 1, 8, 64)), old ^ 1))
        out[at : at + size] = (new % (1 << 8 * size)).to_bytes(size, "little")
    return bytes(out)
