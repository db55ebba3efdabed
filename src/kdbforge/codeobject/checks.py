"""Static checks of a code object: ELF, metadata, kernel descriptors; needs no disassembler.

They find what is damaged or was put together wrongly, not what computes wrong numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from kdbforge.codeobject.descriptor import Family, family
from kdbforge.codeobject.details import Details, Kernel, read_details
from kdbforge.errors import DatabaseError, InputError
from kdbforge.model.target import TargetId

__all__ = ["Finding", "Level", "check_details", "check_static"]

_CODE_ALIGNMENT = 256
_DESCRIPTOR_ALIGNMENT = 64
_MAX_WORKGROUP = 1024
_SIMDS = 4  # of a compute unit of gfx9


class Level(IntEnum):
    """Which part of a code object a finding is about; each needs those before it to be sound."""

    ELF = 1
    METADATA = 2
    DESCRIPTOR = 3
    CODE = 4  # needs a disassembler: `kdbforge.compiler.disassemble.check_code`


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong with a code object."""

    level: Level
    kernel: str  # "" where it is the object as a whole
    message: str


def check_static(data: bytes) -> tuple[Finding, ...]:
    """Check one code object (not a bundle) on all levels; empty if nothing is wrong."""
    try:
        details = read_details(data)
    except DatabaseError as error:
        level = Level.METADATA if error.message.startswith("Metadata") else Level.ELF
        return (Finding(level, "", error.message),)
    return tuple(check_details(details))


def check_details(details: Details) -> Iterator[Finding]:
    """Check a code object that could be read."""
    yield from _check_metadata(details)
    try:
        entries = details.image.entry_points()
    except DatabaseError as error:  # the full symbol table, which nothing else needs
        yield Finding(Level.ELF, "", error.message)
        return
    for kernel in details.kernels:
        for message in _check_kernel(details, kernel, entries):
            yield Finding(Level.DESCRIPTOR, kernel.name, message)


def _check_metadata(details: Details) -> Iterator[Finding]:
    metadata = details.metadata
    if not details.kernels:
        yield Finding(Level.ELF, "", "It has no kernel")
    if metadata is None:
        yield Finding(Level.METADATA, "", "It has no metadata note")
        return
    if metadata.version[:1] != (1,):
        yield Finding(Level.METADATA, "", f"Metadata version is {metadata.version}, not 1.x")
    if metadata.target and not _same_target(metadata.target, details.object.target):
        message = f"Metadata is for `{metadata.target[:100]}`, e_flags `{details.object.target}`"
        yield Finding(Level.METADATA, "", message)
    descriptors = {kernel.name for kernel in details.kernels}
    described = [kernel.symbol.removesuffix(".kd") for kernel in metadata.kernels]
    for name in sorted(set(described) - descriptors):
        yield Finding(Level.METADATA, name, "It has metadata and no kernel descriptor")
    for name in sorted(descriptors - set(described)):
        yield Finding(Level.METADATA, name, "It has a kernel descriptor and no metadata")
    if len(set(described)) < len(described):
        yield Finding(Level.METADATA, "", "Two kernels of the metadata have the same symbol")


def _same_target(text: str, target: TargetId) -> bool:
    try:
        return TargetId.parse(text) == target
    except InputError:
        return False


def _check_kernel(details: Details, kernel: Kernel, entries: set[int]) -> Iterator[str]:
    yield from _check_place(details, kernel, entries)
    yield from _check_sizes(kernel)
    found = family(details.object.arch)
    if found is None:
        return
    yield from _check_hardware(kernel, found)
    yield from _check_registers(kernel, found)


def _check_place(details: Details, kernel: Kernel, entries: set[int]) -> Iterator[str]:
    if not kernel.descriptor.reserved_zero:
        yield "Reserved bits of its descriptor are set"
    if kernel.address % _DESCRIPTOR_ALIGNMENT:
        yield f"Its descriptor is at {kernel.address:#x}, not at a multiple of 64"
    segment = details.image.segment_at(kernel.entry, 4) if kernel.entry >= 0 else None
    if segment is None or not segment.executable:
        yield f"Its code is at {kernel.entry:#x}, where no code is"
        return
    if kernel.entry % _CODE_ALIGNMENT:
        yield f"Its code is at {kernel.entry:#x}, not at a multiple of 256"
    if kernel.entry not in entries:
        yield f"Its code is at {kernel.entry:#x}, where no function begins"


def _check_sizes(kernel: Kernel) -> Iterator[str]:
    known, descriptor = kernel.metadata, kernel.descriptor
    if known is None:
        return
    for what, told, set_up in (
        ("LDS", known.lds_bytes, descriptor.lds_bytes),
        ("Scratch", known.scratch_bytes, descriptor.scratch_bytes),
        # Assembly sources may leave it away; then the descriptor says 0.
        ("Kernarg segment", known.kernarg_bytes, descriptor.kernarg_bytes or known.kernarg_bytes),
    ):
        if told is not None and told != set_up:
            yield f"{what} is {set_up} bytes in its descriptor, and {told} in its metadata"
    if known.wave_size is not None and known.wave_size != kernel.wave_size:
        yield (
            f"Wave size is {kernel.wave_size} in its descriptor, and {known.wave_size} "
            "in its metadata"
        )
    if known.kernarg_bytes is not None:
        for argument in known.arguments:
            if argument.offset + argument.size > known.kernarg_bytes:
                yield (
                    f"Argument `{argument.name[:100]}` ends at {argument.offset + argument.size}, "
                    f"behind its kernarg segment of {known.kernarg_bytes} bytes"
                )
    if known.max_workgroup is not None and known.max_workgroup > _MAX_WORKGROUP:
        yield f"Workgroup is {known.max_workgroup} work-items; at most {_MAX_WORKGROUP} can run"


def _check_hardware(kernel: Kernel, found: Family) -> Iterator[str]:
    descriptor = kernel.descriptor
    if kernel.wave_size not in found.waves:
        yield f"Wave size is {kernel.wave_size}, which the processor does not have"
    if descriptor.lds_bytes > found.lds_bytes:
        yield f"LDS is {descriptor.lds_bytes} bytes; the processor has {found.lds_bytes}"
    # gfx125x has a wider field for it.
    if found.max_vgprs <= 512 and descriptor.user_sgprs < descriptor.implied_user_sgprs:
        yield (
            f"It is given {descriptor.user_sgprs} user SGPRs, and asks for "
            f"{descriptor.implied_user_sgprs}"
        )


def _check_registers(kernel: Kernel, found: Family) -> Iterator[str]:
    given, known = kernel.registers, kernel.metadata
    assert given is not None
    if given.vgprs > found.max_vgprs:
        yield f"It is given {given.vgprs} VGPRs; the processor has {found.max_vgprs}"
    if known is None:
        return
    if known.vgprs is not None and known.vgprs > given.vgprs:
        yield f"It is given {given.vgprs} VGPRs, and its metadata says {known.vgprs}"
    if known.sgprs is not None and known.sgprs > (given.sgprs or found.max_sgprs + 6):
        yield f"It is given {given.sgprs or found.max_sgprs} SGPRs, and needs {known.sgprs}"
    if found.simd_vgprs and known.max_workgroup and len(known.required_workgroup) == 3:
        work_items = math.prod(known.required_workgroup)
        waves = math.ceil(math.ceil(work_items / kernel.wave_size) / _SIMDS)
        if waves * given.vgprs > found.simd_vgprs:
            yield f"A workgroup of {work_items} with {given.vgprs} VGPRs fits no compute unit"
