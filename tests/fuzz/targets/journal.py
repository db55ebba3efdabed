"""Capture journals: entries, the actions in them, and the compile jobs that markers stand for."""

from __future__ import annotations

import random
import struct
import zlib

from fuzz.scratch import empty_folder
from kdbforge.errors import VirtualGpuError
from kdbforge.vgpu.journal import MARKER_PREFIX, Capture, read_journal

MAGIC = 0x314A464B
TOKENS = (b"KFJ1", b"kdbforge-capture:", b"capture", b"blob:1", b"action:1:4:0", b"0", b"1", b"2")
_HEADER = struct.Struct("<IIQII")
_TEXTS = (
    *(b"", b"0", b"1", b"2", b"3", b"-1", b"999", b"1" * 30, b"1" * 5000, b"x", b"\xff", b"1_0"),
    *(b"blob:1", b"blob:9", b"action:1:4:0", b"action:2:4:0", b"action:3:4:0", b"action:1", b":"),
)
Entry = tuple[int, list[bytes]]


def target(data: bytes) -> None:
    found = _read(data)
    # A journal ends where its process died: what was whole before stays as it is.
    cut = _read(data[: len(data) * 2 // 3])
    if found is None:
        return
    assert cut is not None
    assert found.loads[: len(cut.loads)] == cut.loads
    assert found.forbidden[: len(cut.forbidden)] == cut.forbidden
    assert cut.blobs.keys() <= found.blobs.keys()
    markers = [load.marker for load in found.loads]
    markers += [
        f"{MARKER_PREFIX.decode()}{fields[0].decode()}:{fields[1].decode()}:8:0"
        for kind, fields in split(data)
        if kind == 3
    ]
    for marker in markers:
        try:
            job = found.job(marker)
        except VirtualGpuError:
            continue
        assert set(job.digests()) <= found.blobs.keys()
        assert 0 <= job.output.action < len(job.actions)
        assert job.key("") == found.job(marker).key("")


def _read(data: bytes) -> Capture | None:
    path = empty_folder() / "journal"
    path.write_bytes(data)
    try:
        return read_journal([path])
    except VirtualGpuError:
        return None


def join(entries: list[Entry]) -> bytes:
    """Entries as the libraries of the virtual GPU write them."""
    data = b""
    for kind, fields in entries:
        payload = b"".join(struct.pack("<Q", len(field)) + field for field in fields)
        data += _HEADER.pack(MAGIC, kind, len(payload), zlib.crc32(payload), 0) + payload
    return data


def split(data: bytes) -> list[Entry]:
    """Entries of a journal up to the first that is not whole."""
    entries, at = [], 0
    while at + _HEADER.size <= len(data):
        magic, kind, length, crc, zero = _HEADER.unpack_from(data, at)
        payload = data[at + _HEADER.size : at + _HEADER.size + length]
        if magic != MAGIC or zero or len(payload) != length or zlib.crc32(payload) != crc:
            break
        fields, place = [], 0
        while place + 8 <= length:
            (size,) = struct.unpack_from("<Q", payload, place)
            fields.append(payload[place + 8 : place + 8 + size])
            place += 8 + size
        if place != length:
            break
        entries.append((kind, fields))
        at += _HEADER.size + length
    return entries


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Change fields and their order, with checksums that hold."""
    entries = split(data)
    if not entries:
        return data
    for _ in range(rng.randint(1, 3)):
        kind, fields = entries[rng.randrange(len(entries))]
        what = rng.randrange(6)
        if what == 0:
            entries.insert(rng.randrange(len(entries) + 1), (kind, list(fields)))
        elif what == 1 and len(entries) > 1:
            entries.pop(rng.randrange(len(entries)))
        elif what == 2 and fields:
            fields.pop(rng.randrange(len(fields)))
        elif what == 3:
            fields.insert(rng.randint(0, len(fields)), rng.choice(_TEXTS))
        elif fields:
            others = [field for _, others in entries for field in others]
            fields[rng.randrange(len(fields))] = rng.choice((*_TEXTS, *others))
    return join(entries)
