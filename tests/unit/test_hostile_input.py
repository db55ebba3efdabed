"""Small files that would be read as gigabytes, or for ever: made here, since they pack well."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fuzz.targets import bundle as bundles
from fuzz.targets import journal as journals
from kdbforge.codeobject.bundle import read_bundle
from kdbforge.codeobject.details import read_details
from kdbforge.errors import DatabaseError, InputError, KdbforgeError, VirtualGpuError
from kdbforge.planner.planfile import read_plan
from kdbforge.vgpu.journal import MARKER_PREFIX, read_journal


@contextmanager
def refused(kind: type[KdbforgeError], message: str, most: int) -> Iterator[None]:
    """The block is refused, and takes no more than `most` bytes until then."""
    tracemalloc.start()
    try:
        with pytest.raises(kind, match=message):
            yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def test_bundle_entries_that_overlap() -> None:
    """256 entries that are each nearly all of 4 MiB would take a gigabyte."""
    size = 4 << 20
    head = bundles.MAGIC + struct.pack("<Q", 256)
    head += (struct.pack("<QQQ", 1, size - 1, 4) + b"host") * 256
    data = bundles.compressed(head.ljust(size, b"\0"), 3, 0)
    assert len(data) < 20_000
    with refused(DatabaseError, "entries are larger", 200 << 20):
        read_bundle(data)


def code_object(symbols: bytes, strings: bytes, *, tables: int = 1, notes: int = 0) -> bytes:
    """An ELF file in which all symbol tables, and all note segments, are the same bytes."""
    count = 1 + notes, tables + 2
    symbols_at = 64 + 56 * count[0] + 64 * count[1]
    strings_at = symbols_at + len(symbols)
    end = strings_at + len(strings)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01\x40\x03", 3, 224, 1, 0, 64, 64 + 56 * count[0],
        0x36, 64, 56, count[0], 64, count[1], 0,
    )  # fmt: skip
    load = struct.pack("<IIQQQQQQ", 1, 4, 0, 0, 0, end, end, 4096)
    note = struct.pack("<IIQQQQQQ", 4, 4, *[symbols_at] * 3, *[len(symbols)] * 2, 4)
    table = struct.pack(
        "<IIQQQQIIQQ", 0, 11, 2, *[symbols_at] * 2, len(symbols), count[1] - 1, 1, 8, 24
    )
    text = struct.pack("<IIQQQQIIQQ", 0, 3, 2, *[strings_at] * 2, len(strings), 0, 0, 1, 0)
    return header + load + note * notes + bytes(64) + table * tables + text + symbols + strings


def symbol(name: int) -> bytes:
    return struct.pack("<IBBHQQ", name, 0x11, 0, 1, 0, 64)


def test_symbol_names_that_overlap() -> None:
    """Every name is the end of the one before it."""
    strings = b"\0" + b"a" * 16000 + b".kd\0"
    data = code_object(b"".join(symbol(1 + n % 16000) for n in range(48_000)), strings)
    with refused(DatabaseError, "names overlap", 80 << 20):
        read_details(data)


def test_one_symbol_table_many_times() -> None:
    data = code_object(symbol(1) * 1000, b"\0k.kd\0", tables=4000)
    with refused(DatabaseError, "4000 symbol tables", 16 << 20):
        read_details(data)


def test_one_note_segment_many_times() -> None:
    note = struct.pack("<III", 7, 240_000, 32) + b"AMDGPU\0\0" + b"\xc0" * 240_000
    data = code_object(note, b"\0", tables=0, notes=120)
    with refused(DatabaseError, "notes overlap", 16 << 20):
        read_details(data)


def test_plan_member_that_is_larger_than_it_says(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("plan.json", bytes(100 << 20))
    data = bytearray(out.getvalue())
    struct.pack_into("<I", data, data.index(b"PK\x01\x02") + 24, 10)
    (tmp_path / "plan").write_bytes(data)
    with refused(InputError, "not a whole kdbforge plan", 16 << 20):
        read_plan(tmp_path / "plan")


@pytest.mark.parametrize("last", ["action:1:1:0", "action:9999:1:0"])
def test_journal_with_a_chain_of_actions_that_has_no_end(tmp_path: Path, last: str) -> None:
    fields = [b"00", b"", b"2", b"2", b"x", b"", b"1", b"0", b"0", b"1", b"1", b"k"]
    entries = [
        (3, [fields[0], b"%d" % n, *fields[2:], b"action:%d:1:0" % (n + 1)]) for n in range(2000)
    ]
    entries.append((3, [fields[0], b"2000", *fields[2:], last.encode()]))
    (tmp_path / "journal").write_bytes(journals.join(entries))
    capture = read_journal([tmp_path / "journal"])
    with pytest.raises(VirtualGpuError, match="has no end"):
        capture.job(f"{MARKER_PREFIX.decode()}00:1:8:0")
