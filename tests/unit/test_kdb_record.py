"""Records: packed as MIOpen packs them, and unpacked without trust."""

from __future__ import annotations

import bz2
import hashlib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdbforge.codeobject.elf import MAX_OBJECT_BYTES
from kdbforge.errors import DatabaseError
from kdbforge.kdb.record import Record

PLAIN = b"".join(hashlib.sha256(bytes([n])).digest() for n in range(8))
TEXT = b"s_endpgm\n" * 1000


@settings(deadline=None)
@given(
    st.binary(min_size=1, max_size=3000) | st.binary(min_size=1, max_size=5).map(lambda b: b * 400)
)
def test_round_trip(data: bytes) -> None:
    record = Record.pack("a.cpp.o", " -O3", data)
    assert record.unpack() == data
    assert len(record.kernel_blob) <= len(data)
    assert record.kernel_hash == hashlib.md5(data).hexdigest()


def test_what_shrinks_is_bzip2_of_level_9() -> None:
    record = Record.pack("a.cpp.o", "", TEXT)
    assert record.kernel_blob == bz2.compress(TEXT, 9)
    assert record.kernel_blob.startswith(b"BZh9")
    assert record.uncompressed_size == len(TEXT)


def test_what_does_not_shrink_stays_plain() -> None:
    record = Record.pack("a.cpp.o", "", PLAIN)
    assert (record.kernel_blob, record.uncompressed_size) == (PLAIN, 0)


def test_equal_length_counts_as_shrunk() -> None:
    # libbz2 fails only when its output does not fit into a buffer as long as the input.
    data = next(
        data
        for n in range(1, 2000)
        if len(bz2.compress(data := PLAIN[: n % 97] + b"z" * (n // 20), 9)) == len(data)
    )
    assert Record.pack("a.cpp.o", "", data).uncompressed_size == len(data)


@pytest.mark.parametrize("data", [b"", bytes(MAX_OBJECT_BYTES + 1)], ids=["empty", "huge"])
def test_pack_refuses(data: bytes) -> None:
    with pytest.raises(DatabaseError, match="can be stored"):
        Record.pack("a.cpp.o", "", data)


GOOD = Record.pack("a.cpp.o", " -O3", TEXT)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (replace(GOOD, kernel_hash="0" * 32), "MD5 is"),
        (replace(GOOD, kernel_hash=GOOD.kernel_hash.upper()), "no MD5"),
        (replace(GOOD, kernel_hash=""), "no MD5"),
        (replace(GOOD, uncompressed_size=len(TEXT) - 1), "unpacks to more than"),
        (replace(GOOD, uncompressed_size=len(TEXT) + 1), "cut off"),
        (replace(GOOD, uncompressed_size=0), "MD5 is"),
        (replace(GOOD, uncompressed_size=-1), "uncompressed_size is -1"),
        (replace(GOOD, uncompressed_size=1 << 40), "uncompressed_size is"),
        (replace(GOOD, kernel_blob=b""), "has 0 bytes"),
        (replace(GOOD, kernel_blob=GOOD.kernel_blob[:-1]), "cut off"),
        (replace(GOOD, kernel_blob=GOOD.kernel_blob[1:]), "not bzip2"),
        (replace(GOOD, kernel_blob=GOOD.kernel_blob + b"x"), "goes on behind its end"),
        (replace(GOOD, kernel_blob=GOOD.kernel_blob * 2), "goes on behind its end"),
        (replace(GOOD, kernel_name=""), "kernel_name is empty"),
        (replace(GOOD, kernel_name="a'.cpp.o"), "quote"),
        (replace(GOOD, kernel_args="-DX='1'"), "quote"),
        (replace(GOOD, kernel_args="-DX=\0"), "zero byte"),
        (replace(GOOD, kernel_args="\ud800"), "Unicode"),
        (replace(GOOD, kernel_args="x" * (2 << 20)), "longer than"),
    ],
)
def test_unpack_refuses(record: Record, message: str) -> None:
    with pytest.raises(DatabaseError, match=message):
        record.unpack()


def test_bomb_is_not_unpacked() -> None:
    # 48 MiB of zeros in a few dozen bytes, declared as 100.
    bomb = bz2.compress(bytes(48 << 20), 9)
    assert len(bomb) < 200
    with pytest.raises(DatabaseError, match="more than 100 bytes"):
        replace(GOOD, kernel_blob=bomb, uncompressed_size=100).unpack()


@settings(deadline=None)
@given(st.binary(max_size=200), st.integers(-5, 300))
def test_any_blob_gives_our_error(blob: bytes, size: int) -> None:
    with pytest.raises(DatabaseError):
        replace(GOOD, kernel_blob=blob, uncompressed_size=size).unpack()
