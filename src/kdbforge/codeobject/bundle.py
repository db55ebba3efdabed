"""Opens clang offload bundles, plain and compressed: code objects of several targets in one file.

Never allocates more than the header of a file within the limits has announced.

Plain (LLVM, "Clang Offload Bundler"), little endian:

| bytes | field                                                     |
|-------|-----------------------------------------------------------|
| 24    | magic `__CLANG_OFFLOAD_BUNDLE__`                          |
| 8     | number of entries                                         |
| 24+n  | each: offset, size, length of its ID, then the ID         |

Compressed (clang's OffloadBundler.cpp):

| bytes   | field                                                   |
|---------|---------------------------------------------------------|
| 4, 2, 2 | magic `CCOB`, version 1 to 3, method: 0 zlib, 1 zstd    |
| 0, 4, 8 | size of this file, by version                           |
| 4, 4, 8 | size of the plain bundle, by version                    |
| 8       | digest of the plain bundle; its function depends on clang, so it is not checked |
"""

from __future__ import annotations

import ctypes
import struct
import zlib
from dataclasses import dataclass

from kdbforge.codeobject.image import MAX_OBJECT_BYTES
from kdbforge.errors import DatabaseError, HostError, InputError
from kdbforge.model.target import TargetId

__all__ = ["BundleEntry", "device_objects", "is_bundle", "read_bundle"]

_PLAIN = b"__CLANG_OFFLOAD_BUNDLE__"
_COMPRESSED = b"CCOB"
_SIZES = {1: struct.Struct("<IQ"), 2: struct.Struct("<IIQ"), 3: struct.Struct("<QQQ")}
_ZLIB, _ZSTD = 0, 1
_ENTRY = struct.Struct("<QQQ")
#: RFC 8878: a block makes at most 128 KiB, and takes at least 4 bytes.
_MOST_FROM_ZSTD_BYTE = 32768
_MAX_ENTRIES = 256
_MAX_ID = 1024
#: A plain bundle may have an object for every target; MIOpen's have one, and an empty host part.
_MAX_BUNDLE_BYTES = 2 * MAX_OBJECT_BYTES
_ARCH = "gfx"


@dataclass(frozen=True, slots=True)
class BundleEntry:
    """One part of a bundle; `target` is None for the host's."""

    name: str  # kind, triple and target ID, e.g. `hipv4-amdgcn-amd-amdhsa--gfx1030`
    target: TargetId | None
    data: bytes


def is_bundle(data: bytes) -> bool:
    """Whether the bytes begin like an offload bundle."""
    return data.startswith((_PLAIN, _COMPRESSED))


def device_objects(data: bytes) -> tuple[bytes, ...]:
    """The code objects in `data`: those of a bundle for AMD GPUs, else `data` itself.

    Raises
    ------
    DatabaseError
        If it is a bundle and damaged, too large, or has nothing for AMD GPUs.
    HostError
        If it is compressed with zstd and this machine has no libzstd.
    """
    if not is_bundle(data):
        return (data,)
    found = tuple(entry.data for entry in read_bundle(data) if entry.target is not None)
    if not found:
        raise DatabaseError("Offload bundle has no code object for AMD GPUs")
    return found


def read_bundle(data: bytes) -> tuple[BundleEntry, ...]:
    """Entries of an offload bundle in their order.

    Raises
    ------
    DatabaseError
        If it is damaged or too large.
    HostError
        If it is compressed with zstd and this machine has no libzstd.
    """
    if data.startswith(_COMPRESSED):
        data = _decompress(data)
    if not data.startswith(_PLAIN) or len(data) > _MAX_BUNDLE_BYTES:
        raise DatabaseError(
            f"Not an offload bundle: {len(data)} bytes that start with `{data[:8].hex()}`"
        )
    at = len(_PLAIN) + 8
    (count,) = struct.unpack("<Q", _slice(data, len(_PLAIN), 8))
    if count > _MAX_ENTRIES:
        raise DatabaseError(f"Offload bundle is damaged: it has {count} entries")
    entries = []
    room = _MAX_BUNDLE_BYTES
    for _ in range(count):
        offset, size, id_size = _ENTRY.unpack(_slice(data, at, _ENTRY.size))
        if id_size > _MAX_ID:
            raise DatabaseError(f"Offload bundle is damaged: an ID of {id_size} bytes")
        name = _slice(data, at + _ENTRY.size, id_size).decode("utf-8", "replace")
        at += _ENTRY.size + id_size
        part = _slice(data, offset, size)
        # Entries that overlap could make a small file into gigabytes.
        room -= size
        if room < 0:
            raise DatabaseError("Offload bundle is damaged: its entries are larger than it may be")
        entries.append(BundleEntry(name, _target(name), part))
    return tuple(entries)


def _target(name: str) -> TargetId | None:
    """The target ID that ends a bundle entry's ID; None if that is not for an AMD GPU."""
    if "amdgcn" not in name:
        return None
    start = name.rfind("-") + 1
    # A setting such as `xnack-` ends in a dash too.
    while not name.startswith(_ARCH, start):
        start = name.rfind("-", 0, start - 1) + 1 if start > 0 else 0
        if start == 0:
            return None
    try:
        return TargetId.parse(name[start:])
    except InputError:
        return None


def _decompress(data: bytes) -> bytes:
    version, method = struct.unpack("<HH", _slice(data, 4, 4))
    layout = _SIZES.get(version)
    if layout is None:
        raise DatabaseError(f"Compressed offload bundle has unknown version {version}")
    *file_size, size, _ = layout.unpack(_slice(data, 8, layout.size))
    if file_size and file_size[0] != len(data):
        raise DatabaseError(
            f"Compressed offload bundle has {len(data)} bytes, and says {file_size[0]}"
        )
    if not 0 < size <= _MAX_BUNDLE_BYTES:
        raise DatabaseError(
            f"Compressed offload bundle says that it unpacks to {size} bytes; "
            f"at most {_MAX_BUNDLE_BYTES} are read"
        )
    packed = data[8 + layout.size :]
    if method == _ZLIB:
        return _unzip(packed, size)
    if method == _ZSTD:
        return _unzstd(packed, size)
    raise DatabaseError(f"Compressed offload bundle has unknown method {method}")


def _unzip(packed: bytes, size: int) -> bytes:
    engine = zlib.decompressobj()
    try:
        data = engine.decompress(packed, size + 1)
    except zlib.error as error:
        raise DatabaseError(f"Compressed offload bundle is damaged: {error}") from None
    if len(data) != size or not engine.eof:
        raise DatabaseError(f"Compressed offload bundle does not unpack to {size} bytes")
    return data


def _unzstd(packed: bytes, size: int) -> bytes:
    if size > len(packed) * _MOST_FROM_ZSTD_BYTE:
        raise DatabaseError(
            f"Compressed offload bundle is cut off: {len(packed)} bytes never unpack to {size}"
        )
    # Python has zstd from 3.14 only; the library is on every Linux that has dpkg, rpm or systemd.
    try:
        library = ctypes.CDLL("libzstd.so.1")
    except OSError as error:
        raise HostError(
            "Cannot unpack an offload bundle that is compressed with zstd: no libzstd.so.1",
            hint="install it: apt install libzstd1",
        ) from error
    library.ZSTD_decompress.restype = ctypes.c_size_t
    library.ZSTD_decompress.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t,
    ]  # fmt: skip
    library.ZSTD_isError.argtypes = [ctypes.c_size_t]
    buffer = ctypes.create_string_buffer(size)
    written = library.ZSTD_decompress(buffer, size, packed, len(packed))
    if library.ZSTD_isError(written) or written != size:
        raise DatabaseError(f"Compressed offload bundle does not unpack to {size} bytes")
    return buffer.raw


def _slice(data: bytes, offset: int, size: int) -> bytes:
    if offset + size > len(data):
        raise DatabaseError(f"Offload bundle is cut off: {size} bytes at {offset}")
    return data[offset : offset + size]
