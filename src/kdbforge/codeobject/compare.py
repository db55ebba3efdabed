"""Compares two code objects: whether a GPU would run the same, and what differs if not.

The second object is one that we compiled and is trusted; nothing in the first one is.

What may differ between objects of the same code (ELF, and LLVM AMDGPU usage guide, "ELF Code
Object"), everything else being compared:

| part                              | why it may differ                                        |
|-----------------------------------|----------------------------------------------------------|
| .comment, .symtab, debug sections | not loaded                                               |
| ELF header but e_flags, ABI       | where things are in the file                             |
| .note                             | what is in it is compared, without names and spills      |
| .dynsym and its hashes, .dynamic  | the exported symbols are compared                        |
| `__hip_cuid_*`                    | a digest of the source's text, which no code reads       |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from kdbforge.codeobject.bundle import device_objects, is_bundle
from kdbforge.codeobject.descriptor import DESCRIPTOR_BYTES
from kdbforge.codeobject.details import functions
from kdbforge.codeobject.elf import describe_image
from kdbforge.codeobject.image import (
    MAX_OBJECT_BYTES,
    STT_OBJECT,
    Image,
    Section,
    Segment,
    Symbol,
    read_image,
)
from kdbforge.codeobject.metadata import metadata_fields

__all__ = ["Comparison", "Likeness", "compare_objects"]

# Section types and flags (ELF gABI; GNU_HASH from the LSB).
_RELOCATIONS = (4, 9)  # SHT_RELA, SHT_REL
_TABLES = (3, 5, 6, 7, 11, 0x6FFFFFF6)  # STRTAB, HASH, DYNAMIC, NOTE, DYNSYM, GNU_HASH
_PROGBITS, _DYNAMIC, _NOBITS = 1, 6, 8
_ALLOC, _EXECUTABLE, _STRINGS = 2, 4, 0x20
_CUID = "__hip_cuid_"
#: The entry's offset from the descriptor, which depends on where the linker puts both.
_ENTRY = slice(16, 24)
#: Metadata by which neither the runtime nor the hardware is set up.
_WORDS = frozenset({
    ".name", ".type_name", ".language", ".language_version", ".vgpr_spill_count",
    ".sgpr_spill_count", ".access", ".actual_access", ".is_const", ".is_restrict",
    ".is_volatile", ".is_pipe",
})  # fmt: skip
_MAX_COMMENT = 1 << 12
_LISTED = 5


class Likeness(Enum):
    """How much alike two code objects are."""

    IDENTICAL = "identical"  # the same bytes
    SAME_CODE = "same code"  # what is loaded and run is the same
    OTHER_CODE = "other code"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What comparing a record's object with a rebuilt one came to."""

    likeness: Likeness
    differences: tuple[str, ...] = ()  # that count
    notes: tuple[str, ...] = ()  # differences that do not, and who compiled what
    functions: tuple[str, ...] = ()  # that both have, with other code
    other_source: bool = False  # as far as an object tells; whoever made it may have lied


@dataclass(frozen=True, slots=True)
class _Side:
    """One object, with what is compared of it."""

    image: Image
    exported: tuple[Symbol, ...]
    code: tuple[Segment, ...]  # executable segments
    descriptors: Mapping[str, Symbol]
    functions: Mapping[str, bytes]
    metadata: Mapping[str, Any] | None
    producers: tuple[str, ...]
    cuid: str

    @classmethod
    def read(cls, data: bytes) -> _Side:
        image = read_image(data)
        exported = tuple(image.symbols())
        return cls(
            image,
            exported,
            tuple(segment for segment in image.segments if segment.loaded and segment.executable),
            {
                symbol.name.removesuffix(".kd"): symbol
                for symbol in exported
                if symbol.kind == STT_OBJECT and symbol.name.endswith(".kd")
            },
            {function.name: function.code for function in functions(image)},
            metadata_fields(image),
            tuple(_producers(image)),
            next((symbol.name for symbol in exported if symbol.name.startswith(_CUID)), ""),
        )

    @property
    def base(self) -> int:
        """Address that the others are counted from; that of its code."""
        return self.code[0].address if self.code else 0

    def descriptor(self, name: str) -> tuple[int, bytes]:
        """Entry relative to the code, and the descriptor without it."""
        symbol = self.descriptors[name]
        content = self.image.at(symbol.address, DESCRIPTOR_BYTES) or b""
        offset = int.from_bytes(content[_ENTRY], "little", signed=True)
        rest = content[: _ENTRY.start] + content[_ENTRY.stop :]
        return symbol.address + offset - self.base, rest

    def exports(self) -> set[tuple[str, int]]:
        """Name and kind of all that is exported, but for the digest of the source."""
        return {
            (symbol.name, symbol.kind)
            for symbol in self.exported
            if not symbol.name.startswith(_CUID)
        }


def compare_objects(recorded: bytes, rebuilt: bytes) -> Comparison:
    """Compare what a record holds with what was compiled from its key.

    "Same code" is said only where the code, the descriptors, the data, the exported symbols, the
    target and the metadata that a launch depends on are the same; in doubt it is other code.

    Raises
    ------
    DatabaseError
        If one of them cannot be read.
    """
    if recorded == rebuilt:
        return Comparison(Likeness.IDENTICAL)
    theirs, ours = device_objects(recorded), device_objects(rebuilt)
    if len(theirs) != 1 or len(ours) != 1:
        text = f"The record holds {len(theirs)} code objects; rebuilt are {len(ours)}"
        return Comparison(Likeness.OTHER_CODE, (text,))
    packing: tuple[str, ...] = ()
    if is_bundle(recorded) is not is_bundle(rebuilt):
        packing = (f"The {'recorded' if is_bundle(recorded) else 'rebuilt'} one is a bundle",)
    if theirs == ours:
        return Comparison(Likeness.SAME_CODE, notes=packing or ("The bundles differ",))
    return _compare(_Side.read(theirs[0]), _Side.read(ours[0]), packing)


def _compare(their: _Side, our: _Side, packing: tuple[str, ...]) -> Comparison:
    interface = tuple(_interface(their, our))
    differing = tuple(
        name
        for name in sorted(their.functions.keys() & our.functions.keys())
        if their.functions[name] != our.functions[name]
    )
    differences = (*interface, *_others(their, our, differing))
    notes = (*packing, *_notes(their, our))
    if not differences:
        return Comparison(Likeness.SAME_CODE, notes=notes)
    # Code that is the same can have other names, but not other arguments.
    renamed = their.descriptors.keys() != our.descriptors.keys()
    other_code = renamed or not _same_code(their, our)
    other_source = other_code and _other_source(their, our, interface)
    return Comparison(Likeness.OTHER_CODE, differences, notes, differing, other_source)


def _other_source(their: _Side, our: _Side, interface: tuple[str, ...]) -> bool:
    """Whether code that differs comes from other text, rather than from other options.

    One compiler makes `__hip_cuid_*` from the text of all inputs, and from nothing else. Where
    that does not help, kernels and arguments are taken for the source's. Macros may decide over
    them, too, so that this is a guess.
    """
    if their.cuid and our.cuid and their.producers == our.producers:
        return their.cuid != our.cuid
    return bool(interface)


def _interface(their: _Side, our: _Side) -> Iterator[str]:
    """Kernels and arguments that only one of the two has."""
    for label, names in (
        ("Only the record has", their.descriptors.keys() - our.descriptors.keys()),
        ("Only the rebuilt one has", our.descriptors.keys() - their.descriptors.keys()),
    ):
        if names:
            yield f"{label} {_listed('kernel', names)}"
    theirs, ours = _arguments(their), _arguments(our)
    if others := [name for name in theirs.keys() & ours.keys() if theirs[name] != ours[name]]:
        yield f"The arguments are others for {_listed('kernel', others)}"


def _others(their: _Side, our: _Side, differing: tuple[str, ...]) -> Iterator[str]:
    """All other differences that count."""
    yield from _header(their.image, our.image)
    if len({symbol.name for symbol in their.exported}) != len(their.exported):
        yield "It exports a symbol twice"
    if differing:
        yield f"The code is another for {_listed('function', differing)}"
    elif not _same_code(their, our):
        yield "The executable segments differ"
    both = their.descriptors.keys() & our.descriptors.keys()
    if others := [name for name in both if their.descriptor(name) != our.descriptor(name)]:
        yield f"The descriptor is another for {_listed('kernel', others)}"
    if not _same_data(their, our):
        yield "The constants differ"
    if _relocations(their.image) != _relocations(our.image):
        yield "The relocations differ"
    if _significant(their.metadata) != _significant(our.metadata):
        yield "The metadata says something else of the kernels"
    if names := {name for name, *_ in their.exports() ^ our.exports()}:
        yield f"The exported symbols differ: {_listed('symbol', names)}"


def _header(their: Image, our: Image) -> Iterator[str]:
    if their.flags != our.flags:
        yield (
            f"The target is another: `{describe_image(their).target}` (e_flags {their.flags:#x}), "
            f"rebuilt `{describe_image(our).target}` ({our.flags:#x})"
        )
    if their.version != our.version:
        yield f"Code object version {their.version}, rebuilt {our.version}"
    if _overlap(their):
        yield "Its segments overlap"


def _same_code(their: _Side, our: _Side) -> bool:
    """Whether the executable segments hold the same, at the same distances."""
    return _placed(their) == _placed(our)


def _placed(side: _Side) -> list[tuple[int, int, bytes]]:
    return [
        (segment.address - side.base, segment.memory_size, _content(side.image, segment))
        for segment in side.code
    ]


def _same_data(their: _Side, our: _Side) -> bool:
    """Whether everything else that is loaded for our code is there for theirs.

    The code is the same where this matters, so it reads theirs at the same distances. What is
    zero in ours must not be anything else; memory that is not there at all faults, and gives no
    other result.
    """
    shift = their.base - our.base
    for address, content in _data(our):
        if any(content):
            if their.image.at(address + shift, len(content)) != content:
                return False
        elif any(_loaded(their.image, address + shift, len(content))):
            return False
    return True


def _data(side: _Side) -> Iterator[tuple[int, bytes]]:
    """Pieces of the loaded sections that are neither code, tables of the linker nor descriptors."""
    image = side.image
    known = [(s.address, s.address + DESCRIPTOR_BYTES) for s in side.descriptors.values()]
    for section in image.sections:
        if not section.flags & _ALLOC or section.flags & _EXECUTABLE:
            continue
        if section.kind in (*_TABLES, *_RELOCATIONS) or _is_padding(image, section):
            continue
        for start, end in _gaps(section.address, section.address + section.size, known):
            content = b"" if section.kind == _NOBITS else image.at(start, end - start)
            yield start, content or bytes(min(end - start, MAX_OBJECT_BYTES))


def _is_padding(image: Image, section: Section) -> bool:
    """Whether a section only fills the page behind .dynamic, which is read-only in the end."""
    return section.kind == _NOBITS and any(
        other.kind == _DYNAMIC and other.address + other.size == section.address
        for other in image.sections
    )


def _gaps(start: int, end: int, skip: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """What is left of a range."""
    for first, behind in sorted(skip):
        if first < end and behind > start:
            if start < first:
                yield start, first
            start = max(start, behind)
    if start < end:
        yield start, end


def _loaded(image: Image, address: int, size: int) -> bytes:
    """Those bytes of a range of memory that come from the file."""
    found = bytearray()
    for segment in image.segments:
        first = max(address, segment.address)
        last = min(address + size, segment.address + segment.file_size)
        if segment.loaded and first < last:
            offset = segment.offset + first - segment.address
            found += image.data[offset : offset + last - first]
    return bytes(found)


def _overlap(image: Image) -> bool:
    """Whether two loaded segments claim the same memory, so that the order would decide."""
    end = 0
    for segment in sorted(image.segments, key=lambda segment: segment.address):
        if segment.loaded and segment.memory_size:
            if segment.address < end:
                return True
            end = segment.address + max(segment.memory_size, segment.file_size)
    return False


def _relocations(image: Image) -> list[bytes]:
    """What the loader would write into the code or data; addresses are not adjusted."""
    return [
        image.data[section.offset : section.offset + section.size]
        for section in image.sections
        if section.kind in _RELOCATIONS
    ]


def _content(image: Image, segment: Segment) -> bytes:
    return image.data[segment.offset : segment.offset + segment.file_size]


def _arguments(side: _Side) -> dict[str, object]:
    """For each kernel its arguments, without names and without those that a compiler adds."""
    return {
        kernel.get(".symbol", "").removesuffix(".kd"): [
            _without_words(argument)
            for argument in kernel.get(".args", [])
            if not argument.get(".value_kind", "").startswith("hidden_")
        ]
        for kernel in _kernels(side.metadata or {})
    }


def _significant(metadata: Mapping[str, Any] | None) -> object:
    """Metadata that a launch depends on; the version of its format says nothing by itself."""
    if metadata is None:
        return None
    kept = {key: value for key, value in metadata.items() if key != "amdhsa.version"}
    # By the name of a kernel the runtime finds its symbol: here it is no mere word.
    kernels = {kernel.get(".name"): kernel.get(".symbol") for kernel in _kernels(metadata)}
    return kernels, _without_words(kept)


def _kernels(metadata: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = metadata.get("amdhsa.kernels", [])
    return found


def _without_words(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_words(item) for key, item in value.items() if key not in _WORDS}
    return [_without_words(item) for item in value] if isinstance(value, list) else value


def _notes(their: _Side, our: _Side) -> Iterator[str]:
    if their.producers != our.producers:
        yield f"Compiled by {_quoted(their.producers)}, rebuilt by {_quoted(our.producers)}"
    if their.cuid != our.cuid:
        yield "The digests of the source's text differ (`__hip_cuid_*`)"
    if their.metadata != our.metadata:
        yield "The metadata differs"


def _quoted(producers: tuple[str, ...]) -> str:
    return f"`{', '.join(producers)}`" if producers else "a compiler that does not say its name"


def _producers(image: Image) -> Iterator[str]:
    """Compiler and linker, as they put their names into .comment."""
    for section in image.sections:
        if section.kind == _PROGBITS and section.flags & (_ALLOC | _STRINGS) == _STRINGS:
            size = min(section.size, _MAX_COMMENT)
            text = image.data[section.offset : section.offset + size].decode("utf-8", "replace")
            yield from (
                line.strip() for line in text.split("\0") if "clang" in line or "LLD" in line
            )


def _listed(what: str, names: Iterable[str]) -> str:
    known = sorted(names)
    text = ", ".join(f"`{name[:200]}`" for name in known[:_LISTED])
    more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    return f"{what}{'s' if len(known) > 1 else ''} {text}{more}"
