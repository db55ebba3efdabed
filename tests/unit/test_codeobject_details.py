"""Metadata, kernel descriptors and static checks, on real objects and on ones made wrong."""

from __future__ import annotations

import re
import struct
from contextlib import suppress
from pathlib import Path

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdbforge.codeobject.checks import Level, check_static
from kdbforge.codeobject.descriptor import Registers, decode_descriptor, family, registers
from kdbforge.codeobject.details import functions, read_details
from kdbforge.codeobject.image import STT_OBJECT, read_image
from kdbforge.codeobject.metadata import decode_metadata
from kdbforge.errors import DatabaseError

DATA = Path(__file__).parent / "data"
NAVI = (DATA / "scale_gfx1030.co").read_bytes()
CDNA = (DATA / "scale_gfx90a_xnack+.co").read_bytes()
#: A descriptor's fields by offset and layout.
LDS, SCRATCH, KERNARG, ENTRY = (0, "<I"), (4, "<I"), (8, "<I"), (16, "<q")
RSRC1, RSRC2, PROPERTIES, RESERVED = (48, "<I"), (52, "<I"), (56, "<H"), (60, "<I")


def at_descriptor(data: bytes, field: tuple[int, str], value: int) -> bytes:
    """The object with one field of its only descriptor changed."""
    image = read_image(data)
    (symbol,) = [s for s in image.symbols() if s.kind == STT_OBJECT and s.name.endswith(".kd")]
    segment = image.segment_at(symbol.address)
    assert segment is not None
    changed = bytearray(data)
    offset = segment.offset + symbol.address - segment.address + field[0]
    struct.pack_into(field[1], changed, offset, value)
    return bytes(changed)


def descriptor_field(data: bytes, field: tuple[int, str]) -> int:
    content = bytearray(64)
    image = read_image(data)
    address = read_details(data).kernels[0].address
    content[:] = image.at(address, 64) or b""
    return int(struct.unpack_from(field[1], content, field[0])[0])


def swap(data: bytes, old: bytes, new: bytes) -> bytes:
    """The object with one text of its metadata replaced by another as long."""
    assert data.count(old) == 1
    assert len(old) == len(new)
    return data.replace(old, new)


def test_details_of_real_objects() -> None:
    details = read_details(NAVI)
    assert details.metadata is not None
    assert details.metadata.target == "gfx1030"
    (kernel,) = details.kernels
    assert (kernel.name, kernel.wave_size) == ("kf_scale", 32)
    assert kernel.registers == Registers(vgprs=8, sgprs=None, first_agpr=None)
    known = kernel.metadata
    assert known is not None
    assert (known.vgprs, known.wave_size, known.max_workgroup) == (2, 32, 1024)
    assert (known.lds_bytes, known.scratch_bytes) == (0, 0)
    assert known.kernarg_bytes == kernel.descriptor.kernarg_bytes
    pointer, factor = known.arguments[:2]
    assert (pointer.offset, pointer.size, pointer.value_kind) == (0, 8, "global_buffer")
    assert (factor.offset, factor.size, factor.value_kind) == (8, 4, "by_value")
    (function,) = functions(details.image)
    assert (function.name, function.address) == ("kf_scale", kernel.entry)
    assert function.code.endswith(b"\x00\x00\x81\xbf")  # s_endpgm


def test_cdna_has_accumulation_registers() -> None:
    (kernel,) = read_details(CDNA).kernels
    assert kernel.wave_size == 64
    assert kernel.registers is not None
    assert kernel.registers.first_agpr == 4
    assert kernel.registers.sgprs is not None


@pytest.mark.parametrize(
    ("arch", "wave32", "vgprs", "sgprs", "expected"),
    [
        ("gfx803", False, 3, 2, Registers(16, 24, None)),
        ("gfx900", False, 63, 12, Registers(256, 112, None)),
        ("gfx908", False, 0, 1, Registers(4, 16, None)),
        ("gfx90a", False, 63, 12, Registers(512, 112, 4)),
        ("gfx942", False, 1, 0, Registers(16, 16, 4)),
        ("gfx1030", True, 3, 0, Registers(32, None, None)),
        ("gfx1030", False, 3, 0, Registers(16, None, None)),
        ("gfx1201", True, 31, 0, Registers(256, None, None)),
        ("gfx1250", True, 63, 0, Registers(1024, None, None)),
    ],
)
def test_registers(arch: str, wave32: bool, vgprs: int, sgprs: int, expected: Registers) -> None:
    data = bytearray(64)
    struct.pack_into("<I", data, 48, vgprs | sgprs << 6)
    struct.pack_into("<H", data, 56, wave32 << 10)
    found = family(arch)
    assert found is not None
    assert registers(decode_descriptor(bytes(data)), found) == expected


def test_unknown_family() -> None:
    assert family("gfx1310") is None


@pytest.mark.parametrize("data", [NAVI, CDNA])
def test_nothing_is_wrong_with_real_objects(data: bytes) -> None:
    assert check_static(data) == ()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (at_descriptor(NAVI, RESERVED, 1), "Reserved bits"),
        (at_descriptor(NAVI, (24, "<I"), 1), "Reserved bits"),
        (at_descriptor(NAVI, (12, "<I"), 1), "Reserved bits"),
        (at_descriptor(NAVI, LDS, 512), "LDS is 512 bytes in its descriptor, and 0 in"),
        (at_descriptor(NAVI, SCRATCH, 16), "Scratch is 16 bytes in its descriptor"),
        (at_descriptor(NAVI, KERNARG, 4), "Kernarg segment is 4 bytes in its descriptor"),
        (at_descriptor(NAVI, ENTRY, 1 << 40), "where no code is"),
        (at_descriptor(NAVI, ENTRY, -(1 << 62)), "where no code is"),
        (at_descriptor(NAVI, ENTRY, 0), "where no code is"),
        (at_descriptor(NAVI, ENTRY, descriptor_field(NAVI, ENTRY) + 4), "no function begins"),
        (at_descriptor(NAVI, ENTRY, descriptor_field(NAVI, ENTRY) + 4), "not at a multiple of 256"),
        (at_descriptor(NAVI, LDS, 1 << 20), "LDS is 1048576 bytes; the processor has 65536"),
        (at_descriptor(NAVI, RSRC2, 0), "It is given 0 user SGPRs, and asks for"),
        (at_descriptor(NAVI, RSRC1, 63), "It is given 512 VGPRs; the processor has 256"),
        (at_descriptor(NAVI, PROPERTIES, 8), "Wave size is 64 in its descriptor, and 32 in its"),
        (at_descriptor(CDNA, PROPERTIES, 8 | 1 << 10), "Wave size is 32, which the processor"),
        (swap(NAVI, b".vgpr_count\x02", b".vgpr_count\x7f"), "given 8 VGPRs, .* says 127"),
        (swap(NAVI, b".wavefront_size ", b".wavefront_size@"), "Wave size is 32 .* and 64 in"),
    ],
)
def test_wrong_descriptors(data: bytes, message: str) -> None:
    findings = [f for f in check_static(data) if f.level is Level.DESCRIPTOR]
    assert {finding.kernel for finding in findings} == {"kf_scale"}
    assert any(re.search(message, finding.message) for finding in findings), findings


#: Offset and size in the section header of `.symtab`.
SYMTAB = struct.pack("<QQ", 0x7B0, 0xF0)


def _flags(data: bytes, flags: int) -> bytes:
    return data[:48] + flags.to_bytes(4, "little") + data[52:]


@pytest.mark.parametrize(
    ("data", "level", "message"),
    [
        (_flags(NAVI, 0x37), Level.METADATA, "Metadata is for `gfx1030`, e_flags `gfx1031`"),
        (_flags(CDNA, 0x63F), Level.METADATA, "`gfx90a:xnack\\+`, e_flags `gfx90a:xnack-`"),
        (
            swap(NAVI, b".symbol\xabkf_scale.kd", b".symbol\xabkf_other.kd"),
            Level.METADATA,
            "metadata and no kernel descriptor",
        ),
        (swap(NAVI, b"amdhsa.target", b"amdhsa.tarxet"), None, ""),
        (swap(NAVI, b".vgpr_count\x02", b".vgpr_count\xc0"), Level.METADATA, "is a NoneType"),
        (swap(NAVI, b".vgpr_count\x02", b".vgpr_count\xc1"), Level.METADATA, "damaged"),
        (swap(NAVI, b"AMDGPU\0", b"AMDGPX\0"), Level.METADATA, "no metadata note"),
        (NAVI[:100], Level.ELF, "cut off"),
        # Found by fuzzing: a section header of the full symbol table.
        (NAVI.replace(SYMTAB, SYMTAB[:-1] + b"\x0b"), Level.ELF, "symbol table at"),
        (b"junk", Level.ELF, "not an ELF file"),
    ],
)
def test_wrong_objects(data: bytes, level: Level | None, message: str) -> None:
    findings = check_static(data)
    if level is None:
        assert findings == ()
        return
    assert any(f.level is level and re.search(message, f.message) for f in findings), findings


NEST = b"\x91" * 100_000


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "damaged"),
        (b"\xc0", "it is no map"),
        (msgpack.packb([1]), "it is no map"),
        (msgpack.packb({1: 2}), "damaged"),
        (NEST, "damaged"),
        (b"\xdd\xff\xff\xff\xff", "damaged"),
        (b"\xdf\xff\xff\xff\xff", "damaged"),
        (b"\xdb\xff\xff\xff\xff", "damaged"),
        (b"\x80" + bytes(1), "damaged"),
        (bytes(9 << 20), "has 9437184 bytes"),
        (msgpack.packb({"amdhsa.kernels": {}}), "`amdhsa.kernels` is no list of maps"),
        (msgpack.packb({"amdhsa.kernels": [1]}), "`amdhsa.kernels` is no list of maps"),
        (msgpack.packb({"amdhsa.version": [1, "x"]}), "is no list of up to three numbers"),
        (msgpack.packb({"amdhsa.version": [1] * 9}), "is no list of up to three numbers"),
        (msgpack.packb({"amdhsa.kernels": [{".name": 3}]}), "`.name` is a int"),
        (msgpack.packb({"amdhsa.kernels": [{".vgpr_count": -3}]}), "`.vgpr_count` is a int"),
        (msgpack.packb({"amdhsa.kernels": [{".vgpr_count": True}]}), "`.vgpr_count` is a bool"),
        (msgpack.packb({"amdhsa.kernels": [{1: 2}]}), "a key is a int"),
        (msgpack.packb({"amdhsa.kernels": [{".args": {}}]}), "`.args` is no list of maps"),
        (msgpack.packb({"amdhsa.kernels": [{".args": [1]}]}), "`.args` is no list of maps"),
        (msgpack.packb({"amdhsa.kernels": [{".args": [{1: 2}]}]}), "damaged"),
        (msgpack.packb({"a": 1}) + b"xy", "goes on for 2 bytes behind its end"),
        (msgpack.packb({"amdhsa.kernels": [{".args": []}]})[:-1], "it is cut off"),
        (b"\x81\xa1a" + b"\x91" * 2000, "damaged"),
        (msgpack.packb({"amdhsa.kernels": [{".args": [{".size": -1}]}]}), "no number"),
        (msgpack.packb({"amdhsa.kernels": [{".args": [{".name": 1}]}]}), "text is a int"),
    ],
)
def test_metadata_that_is_damaged(content: bytes, message: str) -> None:
    with pytest.raises(DatabaseError, match=message):
        decode_metadata(content)


def test_equal_arguments_are_unpacked_once_and_damaged_ones_refused_each_time() -> None:
    good = msgpack.packb({"amdhsa.kernels": [{".args": [{".name": "a", ".size": 8}]}] * 2})
    one, other = decode_metadata(good).kernels
    assert one.arguments is other.arguments
    assert (one.arguments[0].name, one.arguments[0].size) == ("a", 8)
    bad = msgpack.packb({"amdhsa.kernels": [{".args": [{".size": -8}]}]})
    for _ in range(2):
        with pytest.raises(DatabaseError, match="no number"):
            decode_metadata(bad)
    long = [{".name": "x" * 50_000}]
    one, other = decode_metadata(msgpack.packb({"amdhsa.kernels": [{".args": long}] * 2})).kernels
    assert one.arguments == other.arguments  # too long to be remembered


def test_metadata_that_says_little() -> None:
    found = decode_metadata(msgpack.packb({"amdhsa.kernels": [{}], "unknown": [1]}))
    (kernel,) = found.kernels
    assert (kernel.name, kernel.vgprs, kernel.arguments) == ("", None, ())


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_any_damage_gives_findings_or_none(data: st.DataObject) -> None:
    damaged = bytearray(data.draw(st.sampled_from([NAVI, CDNA])))
    for _ in range(data.draw(st.integers(1, 8))):
        # Headers, note and descriptor stand in the first quarter.
        end = data.draw(st.sampled_from([64, 2048, len(damaged)]))
        damaged[data.draw(st.integers(0, end - 1))] = data.draw(st.integers(0, 255))
    check_static(bytes(damaged))
    with suppress(DatabaseError):
        functions(read_image(bytes(damaged)))
