"""Decodes NT_AMDGPU_METADATA: what the compiler wrote down about each kernel.

Fields as in the LLVM AMDGPU usage guide, "Code Object V4 Metadata" and later:

| key             | value                                                                    |
|-----------------|--------------------------------------------------------------------------|
| amdhsa.version  | major, minor: 1.1, 1.2 (v5) or 1.2 and later                             |
| amdhsa.target   | `amdgcn-amd-amdhsa--` and the target ID                                  |
| amdhsa.kernels  | a map for each kernel: .name, .symbol, .args, .vgpr_count and so on      |
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgpack

from kdbforge.codeobject.image import Image
from kdbforge.errors import DatabaseError

__all__ = [
    "Argument",
    "KernelMetadata",
    "Metadata",
    "decode_metadata",
    "metadata_fields",
    "read_metadata",
]

_OWNER = b"AMDGPU"
_NT_AMDGPU_METADATA = 32
_TRIPLE = "amdgcn-amd-amdhsa--"
# A kernel of MIOpen has 20 arguments and a file of them 40 kernels; a byte can become 70 in memory.
_MAX_BYTES = 2 << 20
_MAX_ITEMS = 100_000
_MAX_TEXT = 1 << 16
_MAX_NUMBER = 1 << 63
_LIMITS = {
    "max_str_len": _MAX_TEXT,
    "max_bin_len": _MAX_TEXT,
    "max_array_len": _MAX_ITEMS,
    "max_map_len": _MAX_ITEMS,
    "max_ext_len": 0,
}
_KERNELS, _ARGUMENTS = "amdhsa.kernels", ".args"
_NUMBERS = (
    ".kernarg_segment_size", ".group_segment_fixed_size", ".private_segment_fixed_size",
    ".wavefront_size", ".vgpr_count", ".sgpr_count", ".agpr_count", ".vgpr_spill_count",
    ".sgpr_spill_count", ".max_flat_workgroup_size",
)  # fmt: skip
_NO_ARGUMENTS = b"\x90"  # an empty list
#: Longest packed arguments of one kernel that are remembered; MIOpen's have about a kilobyte.
_MAX_REMEMBERED = 16 << 10


@dataclass(frozen=True, slots=True)
class Argument:
    """One kernel argument; those that the runtime adds have a `value_kind` of `hidden_...`."""

    name: str
    type_name: str
    offset: int
    size: int
    value_kind: str
    address_space: str
    access: str


@dataclass(frozen=True, slots=True)
class KernelMetadata:
    """What the compiler says of one kernel; a number that it did not give is None."""

    name: str
    symbol: str
    arguments: tuple[Argument, ...]
    kernarg_bytes: int | None
    lds_bytes: int | None
    scratch_bytes: int | None
    wave_size: int | None
    vgprs: int | None
    sgprs: int | None
    agprs: int | None
    vgpr_spills: int | None
    sgpr_spills: int | None
    max_workgroup: int | None
    required_workgroup: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Metadata:
    """All of the note."""

    version: tuple[int, ...]
    target: str  # target ID; "" where the compiler gave none
    kernels: tuple[KernelMetadata, ...]


def read_metadata(image: Image) -> Metadata | None:
    """Metadata of a code object; None if it has none.

    Raises
    ------
    DatabaseError
        If it is damaged, or there are two.
    """
    content = _note(image)
    return None if content is None else decode_metadata(content)


def metadata_fields(image: Image) -> Mapping[str, Any] | None:
    """Metadata as it was written, with what `read_metadata` has no place for.

    Raises
    ------
    DatabaseError
        As `read_metadata` does: its values have the types that are known of them.
    """
    content = _note(image)
    if content is None:
        return None
    decode_metadata(content)
    fields: dict[str, Any] = msgpack.unpackb(content, **_LIMITS)  # a map: it was just decoded
    return fields


def _note(image: Image) -> bytes | None:
    found = [
        note.content
        for note in image.notes()
        if note.owner == _OWNER and note.kind == _NT_AMDGPU_METADATA
    ]
    if len(found) > 1:
        raise DatabaseError(f"Code object has {len(found)} metadata notes")
    return found[0] if found else None


def decode_metadata(content: bytes) -> Metadata:
    """Decode the content of a metadata note.

    Raises
    ------
    DatabaseError
        If it is not msgpack, larger than 2 MiB, or a value has the wrong type.
    """
    if len(content) > _MAX_BYTES:
        raise DatabaseError(
            f"Metadata note has {len(content)} bytes; at most {_MAX_BYTES} are read"
        )
    try:
        root, kernels = _walk(content)
    except msgpack.OutOfData:
        raise _damaged("it is cut off") from None
    # msgpack raises ValueError and, for what nests too deep, its own StackError (a ValueError);
    # its pure Python twin runs into a RecursionError there. A map can be a key in no dict.
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        raise _damaged(str(error) or type(error).__name__) from None
    target = _get(root, "amdhsa.target", "")
    return Metadata(
        version=_numbers(root, "amdhsa.version"),
        target=target.removeprefix(_TRIPLE),
        kernels=tuple(_kernel(fields, arguments) for fields, arguments in kernels),
    )


def _walk(content: bytes) -> tuple[dict[Any, Any], list[tuple[dict[Any, Any], bytes]]]:
    """The note without its kernels, and these without their arguments, which are still packed.

    Unpacking the arguments would take most of the time, and the kernels of a source file have
    the same ones in every object that is made of it.
    """
    unpacker = msgpack.Unpacker(None, max_buffer_size=len(content) or 1, **_LIMITS)
    unpacker.feed(content)
    root: dict[Any, Any] = {}
    kernels: list[tuple[dict[Any, Any], bytes]] = []
    for _ in range(_count(unpacker.read_map_header, "it is no map")):
        key = unpacker.unpack()
        if type(key) is not str:  # as msgpack refuses them within
            raise _damaged(f"a key is a {type(key).__name__}")
        if key == _KERNELS:
            wrong = f"`{_KERNELS}` is no list of maps"
            count = _count(unpacker.read_array_header, wrong)
            kernels = [_walk_kernel(unpacker, content, wrong) for _ in range(count)]
        else:
            root[key] = unpacker.unpack()
    if unpacker.tell() != len(content):
        raise _damaged(f"it goes on for {len(content) - unpacker.tell()} bytes behind its end")
    return root, kernels


def _walk_kernel(unpacker: Any, content: bytes, wrong: str) -> tuple[dict[Any, Any], bytes]:
    fields: dict[Any, Any] = {}
    arguments = _NO_ARGUMENTS
    unpack = unpacker.unpack
    for _ in range(_count(unpacker.read_map_header, wrong)):
        key = unpack()
        if type(key) is not str:
            raise _damaged(f"a key is a {type(key).__name__}")
        if key == _ARGUMENTS:
            start = unpacker.tell()
            unpacker.skip()
            arguments = content[start : unpacker.tell()]
        else:
            fields[key] = unpack()
    return fields, arguments


def _count(read: Callable[[], int], wrong: str) -> int:
    """The length of the list or map that begins here."""
    try:
        count = read()
    except ValueError:
        raise _damaged(wrong) from None
    if count > _MAX_ITEMS:
        raise _damaged(f"it has a list or map of {count} items")
    return count


def _arguments(packed: bytes) -> tuple[Argument, ...]:
    # A stranger's long lists shall not fill the memory.
    return (_known_arguments if len(packed) <= _MAX_REMEMBERED else _unpack_arguments)(packed)


def _unpack_arguments(packed: bytes) -> tuple[Argument, ...]:
    try:
        values = msgpack.unpackb(packed, **_LIMITS)
    except (ValueError, TypeError, RecursionError) as error:
        raise _damaged(str(error) or type(error).__name__) from None
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise _damaged(f"`{_ARGUMENTS}` is no list of maps")
    return tuple(map(_argument, values))


_known_arguments = functools.lru_cache(256)(_unpack_arguments)


def _kernel(fields: Mapping[str, Any], arguments: bytes) -> KernelMetadata:
    get = fields.get
    for key in _NUMBERS:
        value = get(key)
        if value is None and key not in fields:
            continue
        if type(value) is not int or not 0 <= value < _MAX_NUMBER:
            raise _damaged(f"`{key}` is a {type(value).__name__}")
    return KernelMetadata(
        name=_get(fields, ".name", ""),
        symbol=_get(fields, ".symbol", ""),
        arguments=_arguments(arguments),
        kernarg_bytes=get(".kernarg_segment_size"),
        lds_bytes=get(".group_segment_fixed_size"),
        scratch_bytes=get(".private_segment_fixed_size"),
        wave_size=get(".wavefront_size"),
        vgprs=get(".vgpr_count"),
        sgprs=get(".sgpr_count"),
        agprs=get(".agpr_count"),
        vgpr_spills=get(".vgpr_spill_count"),
        sgpr_spills=get(".sgpr_spill_count"),
        max_workgroup=get(".max_flat_workgroup_size"),
        required_workgroup=_numbers(fields, ".reqd_workgroup_size"),
    )


def _argument(fields: Mapping[str, Any]) -> Argument:
    get = fields.get
    texts = name, type_name, kind, space, access = (
        get(".name", ""), get(".type_name", ""), get(".value_kind", ""),
        get(".address_space", ""), get(".access") or get(".actual_access", ""),
    )  # fmt: skip
    offset, size = get(".offset", 0), get(".size", 0)
    if type(offset) is not int or type(size) is not int or offset < 0 or size < 0:
        raise _damaged("offset or size of an argument is no number")
    for text in texts:
        if type(text) is not str:
            raise _damaged(f"an argument's text is a {type(text).__name__}")
    return Argument(name, type_name, offset, size, kind, space, access)


def _get(fields: Mapping[str, Any], key: str, default: str) -> str:
    value = fields.get(key, default)
    if type(value) is not str:
        raise _damaged(f"`{key}` is a {type(value).__name__}")
    return value


def _numbers(fields: Mapping[str, Any], key: str) -> tuple[int, ...]:
    if key not in fields:
        return ()
    value = fields[key]
    if not isinstance(value, list) or len(value) > 3 or not all(map(_is_number, value)):
        raise _damaged(f"`{key}` is no list of up to three numbers")
    return tuple(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MAX_NUMBER


def _damaged(what: str) -> DatabaseError:
    return DatabaseError(f"Metadata note is damaged: {what}")
