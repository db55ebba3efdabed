"""Code objects: real ones from a compiler, and every way in which bytes can lie."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdbforge.codeobject.details import functions
from kdbforge.codeobject.elf import MAX_OBJECT_BYTES, CodeObject, Setting, check_object, read_object
from kdbforge.codeobject.image import read_image
from kdbforge.errors import DatabaseError
from kdbforge.model.target import TargetId

DATA = Path(__file__).parent / "data"
NAVI = (DATA / "scale_gfx1030.co").read_bytes()
CDNA = (DATA / "scale_gfx90a_xnack+.co").read_bytes()


def _flags(data: bytes, flags: int) -> bytes:
    return data[:48] + flags.to_bytes(4, "little") + data[52:]


def _byte(data: bytes, offset: int, value: int) -> bytes:
    return data[:offset] + bytes([value]) + data[offset + 1 :]


def test_real_objects() -> None:
    none = Setting.UNSUPPORTED
    assert read_object(NAVI) == CodeObject("gfx1030", none, none, 6, ("kf_scale",))
    assert read_object(CDNA) == CodeObject("gfx90a", Setting.ANY, Setting.ON, 6, ("kf_scale",))


# e_flags that hiprtc 7.2 wrote for these target IDs.
@pytest.mark.parametrize(
    ("flags", "target"),
    [
        (0x2A, "gfx803"),
        (0x12C, "gfx900"),
        (0x32C, "gfx900:xnack+"),
        (0x52F, "gfx906"),
        (0xB2F, "gfx906:sramecc-:xnack+"),
        (0x53F, "gfx90a"),
        (0x93F, "gfx90a:sramecc-"),
        (0xE3F, "gfx90a:sramecc+:xnack-"),
        (0xE4C, "gfx942:sramecc+:xnack-"),
        (0x74F, "gfx950:xnack+"),
        (0x332, "gfx90c:xnack+"),
        (0x233, "gfx1010:xnack-"),
        (0x41, "gfx1100"),
        (0x58, "gfx1153"),
        (0x4E, "gfx1201"),
    ],
)
def test_target_in_flags(flags: int, target: str) -> None:
    assert str(read_object(_flags(NAVI, flags)).target) == target


@pytest.mark.parametrize(("abi", "version"), [(2, 4), (3, 5), (4, 6)])
def test_code_object_version(abi: int, version: int) -> None:
    assert read_object(_byte(NAVI, 8, abi)).version == version


@pytest.mark.parametrize(
    ("flags", "target"),
    [
        (0x53F, "gfx90a"),
        (0x53F, "gfx90a:xnack-"),
        (0x53F, "gfx90a:sramecc+:xnack+"),
        (0xE3F, "gfx90a:sramecc+:xnack-"),
        (0x36, "gfx1030"),
    ],
)
def test_loads(flags: int, target: str) -> None:
    check_object(_flags(NAVI, flags), TargetId.parse(target))


@pytest.mark.parametrize(
    ("flags", "target", "message"),
    [
        (0x36, "gfx1031", "is for `gfx1030`, not for `gfx1031`"),
        (0x73F, "gfx90a:xnack-", "xnack is on"),
        (0x63F, "gfx90a:sramecc+:xnack+", "xnack is off"),
        (0x93F, "gfx90a:sramecc+:xnack+", "sramecc is off"),
        (0x73F, "gfx90a", "`gfx90a:xnack\\+`, and would not load on `gfx90a`"),
        (0x03F, "gfx90a:xnack+", "xnack is unsupported"),
    ],
)
def test_does_not_load(flags: int, target: str, message: str) -> None:
    with pytest.raises(DatabaseError, match=message):
        check_object(_flags(NAVI, flags), TargetId.parse(target))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not an ELF file"),
        (b"\x7fELF", "not an ELF file"),
        (b"kdbforge-capture:0123:0:1:0\n" * 3, "not an ELF file"),
        (b"__CLANG_OFFLOAD_BUNDLE__" + bytes(200), "offload bundle"),
        (_byte(NAVI, 18, 62), "e_machine is 62"),
        (_byte(NAVI, 4, 1), "not for AMD GPUs"),
        (_byte(NAVI, 7, 0), "OS ABI 0"),
        (_byte(NAVI, 8, 1), "ABI version 1"),
        (_byte(NAVI, 8, 9), "ABI version 9"),
        (_flags(NAVI, 0xFF), "unknown processor: e_flags 0xff"),
        (_flags(NAVI, 0x51), "unknown processor: e_flags 0x51"),
        (NAVI[:-1], "cut off|damaged"),
        (NAVI[:2000], "cut off|damaged"),
        (NAVI[:64], "cut off|damaged"),
        (NAVI[:56] + b"\0\0" + NAVI[58:], "nothing to load"),
        (NAVI[:56] + b"\xff\xff" + NAVI[58:], "65535 program headers"),
        (NAVI[:58] + b"\x01\0" + NAVI[60:], "section headers of 1 bytes"),
    ],
)
def test_refused(data: bytes, message: str) -> None:
    with pytest.raises(DatabaseError, match=message):
        read_object(data)


def test_too_large() -> None:
    with pytest.raises(DatabaseError, match="at most"):
        read_object(NAVI + bytes(MAX_OBJECT_BYTES))


def _sections(data: bytes, change: Callable[[int, list[int]], None]) -> bytes:
    """The object with each section header changed; its number and fields are handed over."""
    changed = bytearray(data)
    offset, count = int.from_bytes(data[40:48], "little"), int.from_bytes(data[60:62], "little")
    for number in range(count):
        fields = list(struct.unpack_from("<IIQQQQIIQQ", data, offset + 64 * number))
        change(number, fields)
        struct.pack_into("<IIQQQQIIQQ", changed, offset + 64 * number, *fields)
    return bytes(changed)


def test_sections_in_a_cycle_are_not_followed() -> None:
    def link_to_itself(number: int, fields: list[int]) -> None:
        fields[6] = number

    def link_to_the_next(number: int, fields: list[int]) -> None:
        fields[6] = number + 1 if number < 5 else 0

    def be_the_headers(number: int, fields: list[int]) -> None:
        fields[1], fields[4], fields[5] = 11, 0, 24 * 3

    for change in (link_to_itself, link_to_the_next, be_the_headers):
        with contextlib.suppress(DatabaseError):  # which of both does not matter
            read_object(_sections(NAVI, change))


def _with_sections(headers: bytes, data: bytes) -> bytes:
    """The object with other section headers, and data behind it."""
    changed = bytearray(NAVI + headers + data)
    struct.pack_into("<Q", changed, 40, len(NAVI))
    struct.pack_into("<HH", changed, 58, 64, len(headers) // 64)
    return bytes(changed)


def test_thousands_of_sections_that_are_one_symbol_table_took_minutes() -> None:
    table = struct.pack("<IBBHQQ", 0, 1, 0, 1, 0, 0) * 50_000
    offset = len(NAVI) + 64 * 4096
    header = struct.pack("<IIQQQQIIQQ", 0, 11, 0, 0, offset, len(table), 0, 0, 0, 24)
    data = _with_sections(header * 4096, table)
    with pytest.raises(DatabaseError, match="symbol tables"):
        read_object(data)
    with pytest.raises(DatabaseError, match="symbol tables"):
        read_image(data).entry_points()


def test_names_that_overlap_filled_the_memory() -> None:
    names = b"x" * 16_000 + b".kd\0"
    symbols = b"".join(struct.pack("<IBBHQQ", n, 1, 0, 1, 0, 64) for n in range(16_000))
    offset = len(NAVI) + 64 * 2
    headers = struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, offset, len(names), 0, 0, 0, 0)
    headers += struct.pack(
        "<IIQQQQIIQQ", 0, 11, 0, 0, offset + len(names), len(symbols), 0, 0, 0, 24
    )
    with pytest.raises(DatabaseError, match="names overlap"):
        read_object(_with_sections(headers, names + symbols))


def test_thousands_of_segments_that_are_one_note_took_minutes() -> None:
    offset = len(NAVI)
    count = 4000
    note = struct.pack("<III", 4, 1 << 20, 7) + b"AMD\0" + bytes(1 << 20)
    loaded = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 64, 64, 0)
    header = struct.pack("<IIQQQQQQ", 4, 4, offset + 56 * (count + 1), 0, 0, len(note), 0, 0)
    data = bytearray(NAVI + loaded + header * count + note)
    struct.pack_into("<Q", data, 32, offset)
    struct.pack_into("<HH", data, 54, 56, count + 1)
    with pytest.raises(DatabaseError, match="4001 program headers"):
        list(read_image(bytes(data)).notes())


def test_functions_that_are_all_the_same_megabyte_filled_the_memory() -> None:
    # A thousand functions of four megabytes each: refused before any is copied.
    symbols = b"".join(
        struct.pack("<IBBHQQ", 0, 2, 0, 1, 0x10000 + n, 4 << 20) for n in range(1000)
    )
    offset = len(NAVI) + 64 * 2
    headers = struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, offset, 64, 0, 0, 0, 0)
    headers += struct.pack("<IIQQQQIIQQ", 0, 11, 0, 0, offset + 64, len(symbols), 0, 0, 0, 24)
    data = bytearray(_with_sections(headers, bytes(64) + symbols + bytes(5 << 20)))
    struct.pack_into("<IIQQQQQQ", data, 64, 1, 5, 0, 0x10000, 0, len(data), len(data), 0)
    struct.pack_into("<H", data, 56, 1)
    with pytest.raises(DatabaseError, match="functions overlap"):
        functions(read_image(bytes(data)))


def test_symbol_name_that_never_ends() -> None:
    # The string table of .dynsym is made to reach into a megabyte without a zero byte.
    data = bytearray(NAVI + b"x" * (1 << 20))
    offset = int.from_bytes(NAVI[40:48], "little")
    count = int.from_bytes(NAVI[60:62], "little")
    for index in range(count):
        at = offset + 64 * index
        if data[at + 4] == 3:  # SHT_STRTAB
            struct.pack_into("<QQ", data, at + 24, len(NAVI), 1 << 20)
    with pytest.raises(DatabaseError, match="name does not end"):
        read_object(bytes(data))


@settings(deadline=None)
@given(st.data())
def test_any_damage_gives_a_reading_or_our_error(data: st.DataObject) -> None:
    damaged = bytearray(data.draw(st.sampled_from([NAVI, CDNA])))
    for _ in range(data.draw(st.integers(1, 8))):
        # Headers are hit more often than code.
        end = data.draw(st.sampled_from([64, 600, len(damaged)]))
        damaged[data.draw(st.integers(0, end - 1))] = data.draw(st.integers(0, 255))
    del damaged[data.draw(st.integers(len(damaged) // 2, len(damaged))) :]
    try:
        found = read_object(bytes(damaged))
    except DatabaseError:
        return
    assert found.version in (4, 5, 6)
