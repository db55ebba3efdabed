"""Metadata notes of code objects: msgpack from anybody."""

from __future__ import annotations

import random
from typing import Any

import msgpack

from fuzz.trees import change
from kdbforge.codeobject.metadata import Argument, KernelMetadata, Metadata, decode_metadata
from kdbforge.errors import DatabaseError

TOKENS = (
    *(b"amdhsa.version", b"amdhsa.target", b"amdhsa.kernels", b"amdgcn-amd-amdhsa--gfx1030"),
    *(b".name", b".symbol", b".args", b".kernarg_segment_size", b".wavefront_size", b".offset"),
    *(b".reqd_workgroup_size", b".size", b".value_kind", b".access", b".actual_access"),
)
_TEXTS = ("name", "symbol")
_NUMBERS = {
    "kernarg_bytes": ".kernarg_segment_size",
    "lds_bytes": ".group_segment_fixed_size",
    "scratch_bytes": ".private_segment_fixed_size",
    "wave_size": ".wavefront_size",
    "vgprs": ".vgpr_count",
    "sgprs": ".sgpr_count",
    "agprs": ".agpr_count",
    "vgpr_spills": ".vgpr_spill_count",
    "sgpr_spills": ".sgpr_spill_count",
    "max_workgroup": ".max_flat_workgroup_size",
}
_VALUES: tuple[Any, ...] = (
    *(None, True, 0, 1, -1, 64, (1 << 63) - 1, (1 << 64) - 1, 0.5, float("nan"), "", "x" * 300),
    *([], {}, [1, 2, 3], [1, 2, 3, 4], b"\xff", [{}], {"a": 1}, msgpack.ExtType(5, b"")),
)


def target(data: bytes) -> None:
    try:
        metadata = decode_metadata(data)
    except DatabaseError:
        return
    assert decode_metadata(encode(metadata)) == metadata
    hash(metadata)  # nothing mutable is in it


def encode(metadata: Metadata) -> bytes:
    """What the compiler would have written, in our words."""
    root = {
        "amdhsa.version": metadata.version,
        # A reader takes the triple off once.
        "amdhsa.target": f"amdgcn-amd-amdhsa--{metadata.target}",
        "amdhsa.kernels": [_kernel(kernel) for kernel in metadata.kernels],
    }
    return msgpack.packb(root)


def _kernel(kernel: KernelMetadata) -> dict[str, Any]:
    fields: dict[str, Any] = {f".{name}": getattr(kernel, name) for name in _TEXTS}
    fields[".args"] = [_argument(argument) for argument in kernel.arguments]
    fields[".reqd_workgroup_size"] = kernel.required_workgroup
    for name, key in _NUMBERS.items():
        if getattr(kernel, name) is not None:
            fields[key] = getattr(kernel, name)
    return fields


def _argument(argument: Argument) -> dict[str, Any]:
    return {
        ".name": argument.name,
        ".type_name": argument.type_name,
        ".offset": argument.offset,
        ".size": argument.size,
        ".value_kind": argument.value_kind,
        ".address_space": argument.address_space,
        ".access": argument.access,
    }


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Put another value somewhere into the tree, or take one away."""
    root = msgpack.unpackb(data, strict_map_key=False)
    for _ in range(rng.randint(1, 3)):
        change(root, rng, _VALUES)
    packed: bytes = msgpack.packb(root)
    return packed
