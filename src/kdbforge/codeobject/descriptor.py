"""Decodes kernel descriptors: the 64 bytes at `NAME.kd` from which the hardware is set up.

Fields as in the LLVM AMDGPU usage guide, "Kernel Descriptor":

| offset | bytes | field                                                          |
|--------|-------|----------------------------------------------------------------|
| 0      | 4     | GROUP_SEGMENT_FIXED_SIZE: LDS                                  |
| 4      | 4     | PRIVATE_SEGMENT_FIXED_SIZE: scratch of a work-item             |
| 8      | 4     | KERNARG_SIZE                                                   |
| 12     | 4     | reserved                                                       |
| 16     | 8     | KERNEL_CODE_ENTRY_BYTE_OFFSET, from the descriptor itself      |
| 24     | 20    | reserved                                                       |
| 44     | 12    | COMPUTE_PGM_RSRC3, 1, 2                                        |
| 56     | 2     | kernel code properties: user SGPRs, bit 10: wave size 32       |
| 58     | 2     | preloaded kernarg: length (7 bits), offset (9 bits)            |
| 60     | 4     | reserved                                                       |
"""

from __future__ import annotations

import functools
import struct
from dataclasses import dataclass

__all__ = [
    "DESCRIPTOR_BYTES",
    "Descriptor",
    "Family",
    "Registers",
    "decode_descriptor",
    "family",
    "registers",
]

DESCRIPTOR_BYTES = 64
_LAYOUT = struct.Struct("<III4sq20sIIIHH4s")
# User SGPRs that each bit of the kernel code properties asks for, from bit 0: scratch buffer,
# dispatch pointer, queue pointer, kernarg pointer, dispatch ID, flat scratch, scratch size.
_USER_SGPRS = (4, 2, 2, 2, 2, 2, 1)
_IMPLIED = tuple(
    sum(count for bit, count in enumerate(_USER_SGPRS) if properties >> bit & 1)
    for properties in range(128)
)
_RESERVED_PROPERTIES = 0xF380


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A decoded descriptor; what its register counts mean depends on the processor."""

    lds_bytes: int
    scratch_bytes: int
    kernarg_bytes: int
    entry_offset: int
    granulated_vgprs: int
    granulated_sgprs: int
    user_sgprs: int
    implied_user_sgprs: int  # those that the properties and the preloaded kernarg ask for
    accum_offset: int  # gfx90a and gfx94x: first accumulation VGPR
    wave32: bool
    dynamic_stack: bool
    reserved_zero: bool  # whether all reserved bytes and properties are zero


@dataclass(frozen=True, slots=True)
class Family:
    """What a processor's descriptors mean, and how much it has."""

    vgpr_granule: tuple[int, int]  # with waves of 64, of 32
    sgpr_granule: int  # 0: every wave has all of them
    max_vgprs: int
    max_sgprs: int
    waves: tuple[int, ...]  # wave sizes that it has
    lds_bytes: int
    unified_agprs: bool  # accumulation VGPRs are counted among the VGPRs
    simd_vgprs: int  # VGPRs of one lane of a SIMD; 0: not checked


@dataclass(frozen=True, slots=True)
class Registers:
    """What each wave is given."""

    vgprs: int
    sgprs: int | None  # None: all that the processor has
    first_agpr: int | None


_GFX6 = Family((4, 4), 8, 256, 104, (64,), 64 << 10, False, 0)
_GFX9 = Family((4, 4), 16, 256, 112, (64,), 64 << 10, False, 256)
_GFX90A = Family((8, 8), 16, 512, 112, (64,), 64 << 10, True, 512)
_GFX950 = Family((8, 8), 16, 512, 112, (64,), 160 << 10, True, 512)
_GFX10 = Family((4, 8), 0, 256, 106, (32, 64), 64 << 10, False, 0)
_GFX125 = Family((8, 16), 0, 1024, 106, (32,), 320 << 10, False, 0)
_FAMILIES = (
    ("gfx125", _GFX125),
    ("gfx10", _GFX10),
    ("gfx11", _GFX10),
    ("gfx12", _GFX10),
    ("gfx950", _GFX950),
    ("gfx90a", _GFX90A),
    ("gfx94", _GFX90A),
    ("gfx9", _GFX9),
    ("gfx6", _GFX6),
    ("gfx7", _GFX6),
    ("gfx8", _GFX6),
)


@functools.cache
def family(arch: str) -> Family | None:
    """The family of a processor; None if it is not known."""
    return next((found for prefix, found in _FAMILIES if arch.startswith(prefix)), None)


def decode_descriptor(data: bytes) -> Descriptor:
    """Decode the 64 bytes of a kernel descriptor; every one is accepted."""
    lds, scratch, kernarg, zero1, entry, zero2, rsrc3, rsrc1, rsrc2, properties, preload, zero3 = (
        _LAYOUT.unpack(data)
    )
    return Descriptor(
        lds_bytes=lds,
        scratch_bytes=scratch,
        kernarg_bytes=kernarg,
        entry_offset=entry,
        granulated_vgprs=rsrc1 & 63,
        granulated_sgprs=rsrc1 >> 6 & 15,
        user_sgprs=rsrc2 >> 1 & 31,
        implied_user_sgprs=_IMPLIED[properties & 127] + (preload & 127),
        accum_offset=((rsrc3 & 63) + 1) * 4,
        wave32=bool(properties >> 10 & 1),
        dynamic_stack=bool(properties >> 11 & 1),
        reserved_zero=not any(zero1 + zero2 + zero3) and not properties & _RESERVED_PROPERTIES,
    )


def registers(descriptor: Descriptor, found: Family) -> Registers:
    """Registers that each wave of a kernel is given."""
    vgprs = (descriptor.granulated_vgprs + 1) * found.vgpr_granule[descriptor.wave32]
    sgprs = None
    if found.sgpr_granule == 16:  # gfx9 counts pairs of granules of 8
        sgprs = (descriptor.granulated_sgprs // 2 + 1) * 16
    elif found.sgpr_granule:
        sgprs = (descriptor.granulated_sgprs + 1) * found.sgpr_granule
    return Registers(vgprs, sgprs, descriptor.accum_offset if found.unified_agprs else None)
