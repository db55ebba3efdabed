"""All that a code object says of itself and its kernels, put together.

Nothing is judged here; `checks` does that.
"""

from __future__ import annotations

from dataclasses import dataclass

from kdbforge.codeobject.descriptor import (
    DESCRIPTOR_BYTES,
    Descriptor,
    Registers,
    decode_descriptor,
    family,
    registers,
)
from kdbforge.codeobject.elf import CodeObject, describe_image, descriptor_symbols
from kdbforge.codeobject.image import STT_FUNC, Image, Symbol, read_image
from kdbforge.codeobject.metadata import KernelMetadata, Metadata, read_metadata
from kdbforge.errors import DatabaseError

__all__ = ["Details", "Function", "Kernel", "functions", "read_details"]


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel: its descriptor, what that means here, and the compiler's own words on it."""

    name: str
    address: int  # of the descriptor
    descriptor: Descriptor
    registers: Registers | None  # None: the processor's family is not known
    metadata: KernelMetadata | None

    @property
    def entry(self) -> int:
        """Address of its first instruction."""
        return self.address + self.descriptor.entry_offset

    @property
    def wave_size(self) -> int:
        return 32 if self.descriptor.wave32 else 64


@dataclass(frozen=True, slots=True)
class Function:
    """A piece of code that has a name."""

    name: str
    address: int
    code: bytes


@dataclass(frozen=True, slots=True)
class Details:
    """A code object with its metadata and kernels, the latter sorted by name."""

    object: CodeObject
    image: Image
    metadata: Metadata | None
    kernels: tuple[Kernel, ...]


def read_details(data: bytes) -> Details:
    """Read a code object with all its kernels.

    Raises
    ------
    DatabaseError
        If it is no code object, or a part of it is damaged.
    """
    image = read_image(data)
    descriptors = descriptor_symbols(image)
    described = describe_image(image, descriptors)
    metadata = read_metadata(image)
    known = {kernel.symbol: kernel for kernel in metadata.kernels} if metadata else {}
    kernels = tuple(
        _kernel(image, symbol, described.arch, known.get(name))
        for name, symbol in sorted(descriptors.items())
    )
    return Details(described, image, metadata, kernels)


def functions(image: Image) -> tuple[Function, ...]:
    """Named code in the order of its addresses; the kernels, and the functions they call.

    Raises
    ------
    DatabaseError
        If a symbol points to where no code is, or there is more code than the file has bytes.
    """
    symbols = {
        (symbol.address, symbol.name): symbol
        for symbol in image.symbols(local=True)
        if symbol.kind == STT_FUNC and symbol.size
    }
    # Before their code is copied: a hundred thousand symbols may stand for the same megabytes.
    if sum(symbol.size for symbol in symbols.values()) > len(image.data):
        raise DatabaseError("Code object is damaged: its functions overlap")
    return tuple(_function(image, symbols[key]) for key in sorted(symbols))


def _function(image: Image, symbol: Symbol) -> Function:
    code = image.at(symbol.address, symbol.size)
    if code is None:
        raise DatabaseError(f"Code object is damaged: no code for `{symbol.name[:200]}`")
    return Function(symbol.name, symbol.address, code)


def _kernel(image: Image, symbol: Symbol, arch: str, known: KernelMetadata | None) -> Kernel:
    content = image.at(symbol.address, DESCRIPTOR_BYTES)
    if content is None or symbol.size != DESCRIPTOR_BYTES:
        raise DatabaseError(
            f"Code object is damaged: `{symbol.name[:200]}` is no kernel descriptor "
            f"({symbol.size} bytes at {symbol.address:#x})"
        )
    descriptor = decode_descriptor(content)
    found = family(arch)
    return Kernel(
        name=symbol.name.removesuffix(".kd"),
        address=symbol.address,
        descriptor=descriptor,
        registers=registers(descriptor, found) if found else None,
        metadata=known,
    )
