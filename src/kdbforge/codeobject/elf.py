"""Reads AMDGPU ELF files: target, code object version, kernels; trusts nothing in them.

Offload bundles and code objects before version 4 are refused by name.

Fields as in the LLVM AMDGPU usage guide, "ELF Code Object":

| field         | where           | meaning                                         |
|---------------|-----------------|-------------------------------------------------|
| e_machine     | header          | 224, EM_AMDGPU                                  |
| EI_OSABI      | e_ident[7]      | 64, ELFOSABI_AMDGPU_HSA                         |
| EI_ABIVERSION | e_ident[8]      | 2, 3, 4 for code object version 4, 5, 6         |
| processor     | e_flags & 0x0ff | EF_AMDGPU_MACH_AMDGCN_*                         |
| xnack         | e_flags & 0x300 | 0x000 unsupported, 0x100 any, 0x200 off, 0x300 on |
| sramecc       | e_flags & 0xc00 | 0x000 unsupported, 0x400 any, 0x800 off, 0xc00 on |
| kernels       | .dynsym         | data symbols `NAME.kd`: kernel descriptors      |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from kdbforge.codeobject.image import MAX_OBJECT_BYTES, STT_OBJECT, Image, Symbol, read_image
from kdbforge.errors import DatabaseError
from kdbforge.model.target import TargetId

__all__ = [
    "MAX_OBJECT_BYTES",
    "CodeObject",
    "Setting",
    "check_object",
    "describe_image",
    "descriptor_symbols",
    "read_object",
]

#: EF_AMDGPU_MACH_AMDGCN_*: the processors that ROCm's compilers have had since code object v4.
#: All but gfx940 and gfx941 (dropped since) were read off objects that a compiler made.
_MACHS: Mapping[int, str] = {
    0x20: "gfx600",
    0x21: "gfx601",
    0x22: "gfx700",
    0x23: "gfx701",
    0x24: "gfx702",
    0x25: "gfx703",
    0x26: "gfx704",
    0x28: "gfx801",
    0x29: "gfx802",
    0x2A: "gfx803",
    0x2B: "gfx810",
    0x2C: "gfx900",
    0x2D: "gfx902",
    0x2E: "gfx904",
    0x2F: "gfx906",
    0x30: "gfx908",
    0x31: "gfx909",
    0x32: "gfx90c",
    0x33: "gfx1010",
    0x34: "gfx1011",
    0x35: "gfx1012",
    0x36: "gfx1030",
    0x37: "gfx1031",
    0x38: "gfx1032",
    0x39: "gfx1033",
    0x3A: "gfx602",
    0x3B: "gfx705",
    0x3C: "gfx805",
    0x3D: "gfx1035",
    0x3E: "gfx1034",
    0x3F: "gfx90a",
    0x40: "gfx940",
    0x41: "gfx1100",
    0x42: "gfx1013",
    0x43: "gfx1150",
    0x44: "gfx1103",
    0x45: "gfx1036",
    0x46: "gfx1101",
    0x47: "gfx1102",
    0x48: "gfx1200",
    0x49: "gfx1250",
    0x4A: "gfx1151",
    0x4B: "gfx941",
    0x4C: "gfx942",
    0x4E: "gfx1201",
    0x4F: "gfx950",
    0x55: "gfx1152",
    0x58: "gfx1153",
    0x5A: "gfx1251",
}


class Setting(Enum):
    """Setting of xnack or sramecc that an object was compiled for; values as in e_flags."""

    UNSUPPORTED = 0  # the processor has no such feature
    ANY = 1  # the object runs under either setting
    OFF = 2
    ON = 3


@dataclass(frozen=True, slots=True)
class CodeObject:
    """What one code object says of itself."""

    arch: str
    sramecc: Setting
    xnack: Setting
    version: int  # code object version
    kernels: tuple[str, ...]  # names of its kernels, sorted

    @property
    def target(self) -> TargetId:
        """Its target ID; a feature whose setting does not matter is not named."""
        return TargetId(self.arch, _named(self.sramecc), _named(self.xnack))


def read_object(data: bytes) -> CodeObject:
    """Read a code object.

    Raises
    ------
    DatabaseError
        If the bytes are no AMDGPU ELF of code object version 4 to 6, or are cut off or damaged.
    """
    return describe_image(read_image(data))


def descriptor_symbols(image: Image) -> dict[str, Symbol]:
    """Symbols of the kernel descriptors by their names, `NAME.kd`.

    Raises
    ------
    DatabaseError
        If the symbols are damaged.
    """
    return {
        symbol.name: symbol
        for symbol in image.symbols()
        if symbol.kind == STT_OBJECT and symbol.name.endswith(".kd")
    }


def describe_image(image: Image, descriptors: Mapping[str, Symbol] | None = None) -> CodeObject:
    """What an ELF file says of itself; `descriptors` are its own, where they are at hand.

    Raises
    ------
    DatabaseError
        If it is for an unknown processor, or its symbols are damaged.
    """
    arch = _MACHS.get(image.flags & 0xFF)
    if arch is None:
        raise DatabaseError(f"Code object is for an unknown processor: e_flags {image.flags:#x}")
    found = descriptor_symbols(image) if descriptors is None else descriptors
    return CodeObject(
        arch=arch,
        sramecc=Setting(image.flags >> 10 & 3),
        xnack=Setting(image.flags >> 8 & 3),
        version=image.version,
        kernels=tuple(sorted(name.removesuffix(".kd") for name in found)),
    )


def check_object(data: bytes, target: TargetId) -> CodeObject:
    """Read a code object that must load on a GPU of `target`.

    A feature that `target` does not name may be set either way on the GPU, so that an object
    compiled for one setting is refused.

    Raises
    ------
    DatabaseError
        If it would not load, or cannot be read.
    """
    found = read_object(data)
    if found.arch != target.arch:
        raise DatabaseError(f"Code object is for `{found.target}`, not for `{target}`")
    for feature, setting, wanted in (
        ("sramecc", found.sramecc, target.sramecc),
        ("xnack", found.xnack, target.xnack),
    ):
        if not _loads(setting, wanted):
            raise DatabaseError(
                f"Code object is for `{found.target}`, and would not load on `{target}`: "
                f"{feature} is {setting.name.lower()}"
            )
    return found


def _named(setting: Setting) -> bool | None:
    return {Setting.ON: True, Setting.OFF: False}.get(setting)


def _loads(setting: Setting, wanted: bool | None) -> bool:
    if setting is Setting.UNSUPPORTED:
        return wanted is None
    return setting is Setting.ANY or _named(setting) is wanted
