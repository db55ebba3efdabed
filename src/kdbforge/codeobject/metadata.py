"""Decodes NT_AMDGPU_METADATA: what the compiler wrote down about each kernel.

Fields as in the LLVM AMDGPU usage guide, "Code Object V4 Metadata" and later:

| key             | value                                                                    |
|-----------------|--------------------------------------------------------------------------|
| amdhsa.version  | major, minor: 1.1, 1.2 (v5) or 1.2 and later                             |
| amdhsa.target   | `amdgcn-amd-amdhsa--` and the target ID                                  |
| amdhsa.kernels  | a map for each kernel: .name, .symbol, .args, .vgpr_count and so on      |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, overload

import msgpack

from kdbforge.codeobject.image import Image
from kdbforge.errors import DatabaseError

__all__ = ["Argument", "KernelMetadata", "Metadata", "decode_metadata", "read_metadata"]

_OWNER = b"AMDGPU"
_NT_AMDGPU_METADATA = 32
_TRIPLE = "amdgcn-amd-amdhsa--"
# A kernel of MIOpen has 20 arguments and a file of them 40 kernels; a byte can become 70 in memory.
_MAX_BYTES = 2 << 20
_MAX_ITEMS = 100_000
_MAX_TEXT = 1 << 16
_MAX_NUMBER = 1 << 63
T = TypeVar("T", int, str)


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
    found = [
        note.content
        for note in image.notes()
        if note.owner == _OWNER and note.kind == _NT_AMDGPU_METADATA
    ]
    if len(found) > 1:
        raise DatabaseError(f"Code object has {len(found)} metadata notes")
    return decode_metadata(found[0]) if found else None


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
        root = msgpack.unpackb(
            content,
            max_str_len=_MAX_TEXT,
            max_bin_len=_MAX_TEXT,
            max_array_len=_MAX_ITEMS,
            max_map_len=_MAX_ITEMS,
            max_ext_len=0,
        )
    # msgpack raises ValueError and, for what nests too deep, its own StackError (a ValueError);
    # its pure Python twin runs into a RecursionError there. A map can be a key in no dict.
    except (ValueError, TypeError, RecursionError) as error:
        raise _damaged(str(error) or type(error).__name__) from None
    if not isinstance(root, dict):
        raise _damaged("it is no map")
    target = _get(root, "amdhsa.target", "")
    return Metadata(
        version=_numbers(root, "amdhsa.version"),
        target=target.removeprefix(_TRIPLE),
        kernels=tuple(_kernel(kernel) for kernel in _maps(root, "amdhsa.kernels")),
    )


def _kernel(fields: Mapping[str, Any]) -> KernelMetadata:
    return KernelMetadata(
        name=_get(fields, ".name", ""),
        symbol=_get(fields, ".symbol", ""),
        arguments=tuple(_argument(argument) for argument in _maps(fields, ".args")),
        kernarg_bytes=_get(fields, ".kernarg_segment_size", None),
        lds_bytes=_get(fields, ".group_segment_fixed_size", None),
        scratch_bytes=_get(fields, ".private_segment_fixed_size", None),
        wave_size=_get(fields, ".wavefront_size", None),
        vgprs=_get(fields, ".vgpr_count", None),
        sgprs=_get(fields, ".sgpr_count", None),
        agprs=_get(fields, ".agpr_count", None),
        vgpr_spills=_get(fields, ".vgpr_spill_count", None),
        sgpr_spills=_get(fields, ".sgpr_spill_count", None),
        max_workgroup=_get(fields, ".max_flat_workgroup_size", None),
        required_workgroup=_numbers(fields, ".reqd_workgroup_size"),
    )


def _argument(fields: Mapping[str, Any]) -> Argument:
    # Spelled out, since most of the time that checking a whole database takes is spent here.
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


@overload
def _get(fields: Mapping[str, Any], key: str, default: T) -> T: ...
@overload
def _get(fields: Mapping[str, Any], key: str, default: None) -> int | None: ...
def _get(fields: Mapping[str, Any], key: str, default: Any) -> Any:
    """A text or a number, of the type of `default`; None stands for a number that may be absent."""
    if key not in fields:
        return default
    value = fields[key]
    if isinstance(default, str):
        if isinstance(value, str):
            return value
    elif _is_number(value):
        return value
    raise _damaged(f"`{key}` is a {type(value).__name__}")


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MAX_NUMBER


def _numbers(fields: Mapping[str, Any], key: str) -> tuple[int, ...]:
    value = fields.get(key, [])
    if not isinstance(value, list) or len(value) > 3 or not all(map(_is_number, value)):
        raise _damaged(f"`{key}` is no list of up to three numbers")
    return tuple(value)


def _maps(fields: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    value = fields.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise _damaged(f"`{key}` is no list of maps")
    return value


def _damaged(what: str) -> DatabaseError:
    return DatabaseError(f"Metadata note is damaged: {what}")
