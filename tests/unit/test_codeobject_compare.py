"""Comparing code objects: what may differ, what must not, on real objects made wrong."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdbforge.codeobject.compare import Comparison, Likeness, compare_objects
from kdbforge.codeobject.details import read_details
from kdbforge.codeobject.image import read_image
from kdbforge.errors import DatabaseError

DATA = Path(__file__).parent / "data"
NAVI = (DATA / "scale_gfx1030.co").read_bytes()
CDNA = (DATA / "scale_gfx90a_xnack+.co").read_bytes()
CUID = b"__hip_cuid_f228b97af881501d"
PT_LOAD, GNU_STACK, SHT_RELA = 1, 0x6474E551, 4
#: What is loaded and run of the object: descriptor and code, from `readelf -lS`.
RODATA, TEXT = range(0x580, 0x5C0), range(0x600, 0x700)
NOTE = range(0x238, 0x474)
COMMENT = range(0x770, 0x7AB)


def patched(offset: int, content: bytes, data: bytes = NAVI) -> bytes:
    return data[:offset] + content + data[offset + len(content) :]


def swapped(old: bytes, new: bytes, data: bytes = NAVI) -> bytes:
    """The object with one text replaced by another as long, wherever it stands."""
    assert len(old) == len(new)
    assert old in data
    return data.replace(old, new)


def in_note(old: bytes, new: bytes) -> bytes:
    """The same in the metadata alone; the first place counts."""
    at = NAVI.index(old, NOTE.start, NOTE.stop)
    return patched(at, new)


def program_header(kind: int) -> int:
    """Offset of the first of that kind."""
    count, start = struct.unpack_from("<H", NAVI, 56)[0], 64
    return next(
        start + 56 * index
        for index in range(count)
        if struct.unpack_from("<I", NAVI, start + 56 * index)[0] == kind
    )


def section_header(index: int) -> int:
    return int(struct.unpack_from("<Q", NAVI, 40)[0]) + 64 * index


def overlapping() -> bytes:
    """Another segment over the code, which a loader would let win."""
    header = struct.pack("<IIQQQQQQ", PT_LOAD, 4, 0, 0x1600, 0x1600, 56, 56, 0x1000)
    return patched(program_header(GNU_STACK), header)


def compare(data: bytes) -> Comparison:
    return compare_objects(data, NAVI)


def test_identical() -> None:
    assert compare(NAVI) == Comparison(Likeness.IDENTICAL)


@pytest.mark.parametrize(
    ("data", "note"),
    [
        (swapped(b"clang version 22", b"clang version 21"), "Compiled by `Debian clang version 21"),
        (swapped(CUID, b"__hip_cuid_0000000000000000"), "The digests of the source's text differ"),
        (in_note(b".vgpr_spill_count\x00", b".vgpr_spill_count\x01"), "The metadata differs"),
        (in_note(b"OpenCL C", b"OpenCL D"), "The metadata differs"),
        (NAVI + b"behind the end", None),
        (patched(COMMENT.start, bytes(len(COMMENT))), "a compiler that does not say its name"),
    ],
    ids=["comment", "cuid", "spills", "language", "tail", "no comment"],
)
def test_the_same_code(data: bytes, note: str | None) -> None:
    found = compare(data)
    assert (found.likeness, found.differences, found.other_source) == (
        Likeness.SAME_CODE, (), False,
    )  # fmt: skip
    assert not note or any(note in line for line in found.notes)
    assert compare_objects(NAVI, data).likeness is Likeness.SAME_CODE


@pytest.mark.parametrize(
    ("data", "difference"),
    [
        (patched(TEXT.start, b"\0\0\x81\xbf"), "The code is another for function `kf_scale`"),
        (patched(TEXT.stop - 4, b"\0\0\x81\xbf"), "The executable segments differ"),
        (patched(RODATA.start, b"\1"), "The descriptor is another for kernel `kf_scale`"),
        (patched(RODATA.start + 16, b"\1"), "The descriptor is another for kernel `kf_scale`"),
        (patched(48, b"\x37"), "The target is another: `gfx1031`"),
        (patched(8, b"\x03"), "Code object version 5, rebuilt 6"),
        (in_note(b".offset\x08", b".offset\x04"), "The arguments are others for kernel"),
        (in_note(b".size\x04", b".size\x08"), "The arguments are others for kernel `kf_scale`"),
        (in_note(b".name\xa8kf_scale", b".name\xa8kf_scalf"), "The metadata says something else"),
        (in_note(b"_segment_size\x0c", b"_segment_size\x0d"), "The metadata says something else"),
        (overlapping(), "Its segments overlap"),
        (patched(0x478 + 72, NAVI[0x478 + 48 : 0x478 + 52]), "It exports a symbol twice"),
        (patched(section_header(12) + 4, bytes([SHT_RELA])), "The relocations differ"),
        (swapped(b"kf_scale", b"kf_scalf"), "Only the record has kernel `kf_scalf`"),
    ],
)  # fmt: skip
def test_other_code(data: bytes, difference: str) -> None:
    found = compare(data)
    assert found.likeness is Likeness.OTHER_CODE
    assert any(difference in line for line in found.differences), found


def test_which_functions_differ() -> None:
    found = compare(patched(TEXT.start + 4, b"\1"))
    assert (found.functions, found.other_source) == (("kf_scale",), False)


def test_another_source_is_told_from_another_option() -> None:
    """One compiler derives `__hip_cuid_*` from the text alone."""
    other = patched(TEXT.start, b"\0\0\x81\xbf")
    assert not compare(other).other_source
    text = swapped(CUID, b"__hip_cuid_0000000000000000", other)
    assert compare(text).other_source
    # Another compiler derives another digest: that says nothing.
    assert not compare(swapped(b"clang version 22", b"clang version 21", text)).other_source
    # Other arguments say something then.
    arguments = in_note(b".size\x04", b".size\x08")
    changed = swapped(b"clang version 22", b"clang version 21", arguments)
    assert not compare(changed).other_source  # with the same code they are a lie
    assert compare(patched(TEXT.start, b"\0\0\x81\xbf", changed)).other_source
    assert not compare(patched(TEXT.start, b"\0\0\x81\xbf", arguments)).other_source


def test_another_processor() -> None:
    found = compare_objects(CDNA, NAVI)
    assert found.likeness is Likeness.OTHER_CODE
    assert found.differences[0].startswith("The target is another: `gfx90a:xnack+`")


def bundle(*objects: bytes) -> bytes:
    names = [b"hipv4-amdgcn-amd-amdhsa--gfx1030"] * len(objects)
    head = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(objects))
    offset = len(head) + sum(24 + len(name) for name in names)
    for name, data in zip(names, objects, strict=True):
        head += struct.pack("<QQQ", offset, len(data), len(name)) + name
        offset += len(data)
    return head + b"".join(objects)


def test_bundles() -> None:
    assert compare(bundle(NAVI)) == Comparison(
        Likeness.SAME_CODE, notes=("The recorded one is a bundle",)
    )
    assert compare(bundle(patched(TEXT.start, b"\xff"))).likeness is Likeness.OTHER_CODE
    two = compare(bundle(NAVI, NAVI))
    assert two.differences == ("The record holds 2 code objects; rebuilt are 1",)


def test_what_is_no_code_object() -> None:
    for data in (b"", b"hello" * 100, NAVI[:300]):
        with pytest.raises(DatabaseError):
            compare(data)


def test_the_ranges_are_those_of_the_object() -> None:
    (kernel,) = read_details(NAVI).kernels
    assert (kernel.address, kernel.entry) == (RODATA.start, TEXT.start + 0x1000)
    assert read_image(NAVI).at(0x1600, 4) == NAVI[TEXT.start : TEXT.start + 4]


@settings(max_examples=100, deadline=None)
@given(st.sampled_from([*RODATA, *TEXT]), st.integers(1, 255))
def test_no_byte_that_runs_goes_unnoticed(offset: int, change: int) -> None:
    found = compare(patched(offset, bytes([NAVI[offset] ^ change])))
    assert found.likeness is Likeness.OTHER_CODE


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(NAVI) - 1), st.integers(1, 255))
def test_any_byte_gives_an_answer(offset: int, change: int) -> None:
    data = patched(offset, bytes([NAVI[offset] ^ change]))
    for one, other in ((data, NAVI), (NAVI, data)):
        try:
            found = compare_objects(one, other)
        except DatabaseError:
            continue
        assert found.likeness is not Likeness.IDENTICAL
