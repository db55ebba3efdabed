"""Clang offload bundles, plain and compressed with zlib or zstd."""

from __future__ import annotations

import random
import struct
import zlib

from kdbforge.codeobject.bundle import BundleEntry, device_objects, is_bundle, read_bundle
from kdbforge.errors import DatabaseError

MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
TOKENS = (
    *(MAGIC, b"CCOB\x01\0\0\0", b"CCOB\x02\0\0\0", b"CCOB\x03\0\x01\0", b"\x28\xb5\x2f\xfd"),
    *(b"hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-", b"host-x86_64-unknown-linux--"),
)
_LAYOUTS = {1: "<IQ", 2: "<IIQ", 3: "<QQQ"}
_SIZES = (0, 1, 24, 1 << 20, 1 << 31, 1 << 32, 1 << 63, (1 << 64) - 1)


def target(data: bytes) -> None:
    try:
        entries = read_bundle(data)
    except DatabaseError:
        # Whatever is not taken for a bundle is one object.
        assert is_bundle(data) or device_objects(data) == (data,)
        return
    assert is_bundle(data)
    assert sum(len(entry.data) for entry in entries) <= 128 << 20
    if sum(len(entry.data) for entry in entries) > 1 << 20:
        return  # slow, and seen by the assertion above
    if any(len(entry.name.encode()) > 1024 for entry in entries):
        return  # bytes that are no UTF-8 took three each
    again = plain(entries)
    assert read_bundle(again) == entries
    assert read_bundle(compressed(again, 3, 0)) == entries
    wanted = tuple(entry.data for entry in entries if entry.target is not None)
    try:
        assert device_objects(data) == wanted
    except DatabaseError:
        assert not wanted


def plain(entries: tuple[BundleEntry, ...]) -> bytes:
    """A bundle of these entries, one behind the other."""
    names = [entry.name.encode() for entry in entries]
    at = len(MAGIC) + 8 + sum(24 + len(name) for name in names)
    header, body = MAGIC + struct.pack("<Q", len(entries)), b""
    for name, entry in zip(names, entries, strict=True):
        header += struct.pack("<QQQ", at + len(body), len(entry.data), len(name)) + name
        body += entry.data
    return header + body


def zstd(data: bytes) -> bytes:
    """A frame of raw blocks (RFC 8878)."""
    parts = [data[at : at + 65536] for at in range(0, len(data), 65536)] or [b""]
    frame = b"\x28\xb5\x2f\xfd\xa0" + len(data).to_bytes(4, "little")
    for index, part in enumerate(parts):
        frame += (len(part) << 3 | (index == len(parts) - 1)).to_bytes(3, "little") + part
    return frame


def compressed(data: bytes, version: int, method: int) -> bytes:
    packed = zlib.compress(data, 1) if method == 0 else zstd(data)
    total = 8 + struct.calcsize(_LAYOUTS[version]) + len(packed)
    sizes = (len(data), 0) if version == 1 else (total, len(data), 0)
    head = b"CCOB" + struct.pack("<HH", version, method)
    return head + struct.pack(_LAYOUTS[version], *sizes) + packed


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Change an entry's numbers, or pack what was plain, or the other way round."""
    inner = data
    if data.startswith(b"CCOB"):
        inner = _inner(data)
    out = bytearray(inner)
    if out.startswith(MAGIC) and len(out) > 56 and rng.random() < 0.7:
        at = rng.choice((24, 32, 40, 48))
        old = int.from_bytes(out[at : at + 8], "little")
        new = rng.choice((*_SIZES, old + 1, max(old - 1, 0), len(out))) % (1 << 64)
        out[at : at + 8] = new.to_bytes(8, "little")
    elif len(out) > 1:
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    if rng.random() < 0.5:
        return bytes(out)
    return compressed(bytes(out), rng.randint(1, 3), rng.randint(0, 1))


def _inner(data: bytes) -> bytes:
    try:
        entries = read_bundle(data)
    except DatabaseError:
        return data
    return plain(entries) if sum(len(entry.data) for entry in entries) < 1 << 20 else data
