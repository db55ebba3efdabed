"""Offload bundles: plain and compressed ones, and headers that promise what is not there."""

from __future__ import annotations

import struct
import zlib
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdbforge.codeobject.bundle import device_objects, is_bundle, read_bundle
from kdbforge.codeobject.elf import MAX_OBJECT_BYTES
from kdbforge.errors import DatabaseError

NAVI = (Path(__file__).parent / "data" / "scale_gfx1030.co").read_bytes()
HOST = "host-x86_64-unknown-linux--"
DEVICE = "hipv4-amdgcn-amd-amdhsa--gfx1030"
MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"


def plain(*entries: tuple[str, bytes]) -> bytes:
    """A bundle as clang-offload-bundler writes it: entries at multiples of 4096."""
    header = MAGIC + struct.pack("<Q", len(entries))
    body = b""
    for name, data in entries:
        body += bytes(-len(body) % 4096)
        header += struct.pack("<QQQ", 4096 + len(body), len(data), len(name)) + name.encode()
        body += data
    return header.ljust(4096, b"\0") + body


def zstd(data: bytes) -> bytes:
    """A frame of one raw block (RFC 8878)."""
    assert len(data) < 128 << 10
    block = (len(data) << 3 | 1).to_bytes(3, "little")
    return b"\x28\xb5\x2f\xfd\xa0" + len(data).to_bytes(4, "little") + block + data


def compressed(
    data: bytes, version: int, method: int, *, size: int | None = None, file_size: int | None = None
) -> bytes:
    packed = zlib.compress(data) if method == 0 else zstd(data)
    size = len(data) if size is None else size
    layout = {1: "<IQ", 2: "<IIQ", 3: "<QQQ"}[version]
    total = 8 + struct.calcsize(layout) + len(packed) if file_size is None else file_size
    sizes = (size, 0) if version == 1 else (total, size, 0)
    return b"CCOB" + struct.pack("<HH", version, method) + struct.pack(layout, *sizes) + packed


BUNDLE = plain((HOST, b""), (DEVICE, NAVI))


def test_plain() -> None:
    host, device = read_bundle(BUNDLE)
    assert (host.name, host.target, host.data) == (HOST, None, b"")
    assert (device.name, str(device.target), device.data) == (DEVICE, "gfx1030", NAVI)
    assert is_bundle(BUNDLE)
    assert device_objects(BUNDLE) == (NAVI,)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("method", [0, 1])
def test_compressed(version: int, method: int) -> None:
    data = compressed(BUNDLE, version, method)
    assert is_bundle(data)
    assert device_objects(data) == (NAVI,)


def test_what_is_no_bundle_is_itself() -> None:
    assert device_objects(NAVI) == (NAVI,)
    assert device_objects(b"anything") == (b"anything",)


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("hip-amdgcn-amd-amdhsa-gfx906", "gfx906"),
        ("hipv4-amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-", "gfx90a:sramecc+:xnack-"),
        ("hipv4-amdgcn-amd-amdhsa--gfx90a:sramecc-:xnack+", "gfx90a:sramecc-:xnack+"),
        ("openmp-amdgcn-amd-amdhsa--gfx1100", "gfx1100"),
        ("hipv4-amdgcn-amd-amdhsa--", None),
        ("hipv4-amdgcn", None),
        ("hipv4-amdgcn-amd-amdhsa--gfx9-generic", None),
        ("cuda-nvptx64-nvidia-cuda--sm_70", None),
        ("", None),
    ],
)
def test_target_of_an_entry(name: str, target: str | None) -> None:
    (entry,) = read_bundle(plain((name, b"x")))
    assert (None if entry.target is None else str(entry.target)) == target


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (plain((HOST, b"")), "nothing|no code object for AMD GPUs"),
        (MAGIC, "cut off"),
        (MAGIC + struct.pack("<Q", 1 << 40), "has 1099511627776 entries"),
        (MAGIC + struct.pack("<Q", 1) + struct.pack("<QQQ", 0, 1, 1 << 40), "an ID of"),
        (MAGIC + struct.pack("<Q", 1) + struct.pack("<QQQ", 1 << 62, 1 << 62, 0), "cut off"),
        (BUNDLE[:-1], "cut off"),
        (b"CCOB", "cut off"),
        (b"CCOB" + struct.pack("<HH", 4, 0) + bytes(99), "unknown version 4"),
        (compressed(BUNDLE, 3, 0)[:6] + b"\7\0" + compressed(BUNDLE, 3, 0)[8:], "unknown method 7"),
        (compressed(BUNDLE, 2, 0, file_size=5), "and says 5"),
        (compressed(BUNDLE, 3, 0, size=1 << 40), "unpacks to 1099511627776"),
        (compressed(BUNDLE, 1, 0, size=0), "unpacks to 0"),
        *((compressed(BUNDLE, 3, m, size=len(BUNDLE) - 1), "does not unpack to") for m in (0, 1)),
        *((compressed(BUNDLE, 3, m, size=len(BUNDLE) + 1), "does not unpack to") for m in (0, 1)),
        (compressed(compressed(BUNDLE, 3, 0), 3, 0), "Not an offload bundle"),
        (compressed(b"x" * 500, 3, 1), "Not an offload bundle"),
    ],
)
def test_refused(data: bytes, message: str) -> None:
    with pytest.raises(DatabaseError, match=message):
        device_objects(data)


def test_bomb_by_real_size() -> None:
    bomb = compressed(bytes(8 << 20), 3, 0, size=1000)
    with pytest.raises(DatabaseError, match="does not unpack to 1000 bytes"):
        read_bundle(bomb)


def test_entries_that_overlap_do_not_multiply() -> None:
    size = MAX_OBJECT_BYTES // 16
    entry = struct.pack("<QQQ", 0, size, 0)
    data = (MAGIC + struct.pack("<Q", 64) + 64 * entry).ljust(size, b"\0")
    with pytest.raises(DatabaseError, match="larger than it may be"):
        read_bundle(data)


@settings(deadline=None)
@given(st.sampled_from([BUNDLE, *(compressed(BUNDLE, v, m) for v in (1, 3) for m in (0, 1))]),
       st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=6))  # fmt: skip
def test_any_damage_gives_objects_or_our_error(data: bytes, changes: list[tuple[int, int]]) -> None:
    damaged = bytearray(data)
    for offset, value in changes:
        damaged[offset] = value
    with suppress(DatabaseError):
        device_objects(bytes(damaged))
