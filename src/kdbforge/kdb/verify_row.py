"""Checks one record: the key, the packing, the code object; predicts what MIOpen does with it.

From MIOpen src/include/miopen/kern_db.hpp (FindRecordUnsafe), src/bz2.cpp (decompress) and
src/hip/handlehip.cpp (LoadProgram), and from runs of the real library with damaged files.
"""

from __future__ import annotations

import bz2
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kdbforge.codeobject.bundle import device_objects
from kdbforge.codeobject.checks import check_details
from kdbforge.codeobject.details import read_details
from kdbforge.codeobject.elf import MAX_OBJECT_BYTES, Setting
from kdbforge.errors import DatabaseError, HostError
from kdbforge.kdb.memo import BlobMemo
from kdbforge.kdb.record import MAX_KEY_BYTES
from kdbforge.kdb.verify_device import Device, loading
from kdbforge.kdb.verify_report import Finding, Level

__all__ = ["Checked", "Row", "RowChecker"]

_ELF = b"\x7fELF"
_SHOWN = 120
#: Level, check, and what is to be said.
_Words = tuple[Level, str, str]


@dataclass(frozen=True, slots=True)
class Row:
    """A row as it is stored: SQLite keeps any type in any column; text comes as bytes."""

    id: int
    kernel_name: object
    kernel_args: object
    kernel_blob: object
    kernel_hash: object
    uncompressed_size: object
    types: tuple[str, ...]  # of the five columns, by SQLite's typeof


@dataclass(frozen=True, slots=True)
class Checked:
    """What is found out about a row."""

    findings: tuple[Finding, ...]
    key: bytes  # digest of name and args
    object: bytes  # digest of the code object; empty where it could not be unpacked


@dataclass(frozen=True, slots=True)
class _Said:
    """What is said of a code object, whatever record it is in."""

    arch: str
    sramecc: Setting
    xnack: Setting
    findings: tuple[tuple[Level, str, str], ...]


@dataclass(frozen=True, slots=True)
class _Content:
    """What is said of a blob with its MD5 and size, whatever record they are in."""

    said: tuple[_Words, ...]
    digest: bytes  # of the code object, as in Checked
    objects: tuple[_Said, ...]  # none: there was no reading it, and `said` has why


@dataclass(slots=True)
class RowChecker:
    """Checks rows one after another; no blob is unpacked twice."""

    device: Device | None
    _known: BlobMemo[_Content] = field(default_factory=BlobMemo)

    def check(self, row: Row) -> Checked:
        """Check a row; never makes more than 64 MiB of its blob."""
        raw_name, raw_args = _raw(row.kernel_name), _raw(row.kernel_args)
        name, args = raw_name.decode(errors="replace"), raw_args.decode(errors="replace")
        mcpu = _mcpu(args)
        said = [
            *_check_text("kernel_name", raw_name, name, row.types[0]),
            *_check_text("kernel_args", raw_args, args, row.types[1]),
        ]
        if not name.endswith(".o"):
            said.append((Level.NEVER_HITS, "name", "kernel_name does not end in `.o`"))
        if not name.endswith(".mlir.o"):
            said += _check_mcpu(args, mcpu, self.device)
        content = self._content(row)
        said += content.said
        if content.objects:
            said += _check_target(content.objects, mcpu, self.device)
        kernel = name[:_SHOWN]
        return Checked(
            tuple([Finding(level, check, text, row.id, kernel) for level, check, text in said]),
            key_digest(raw_name, raw_args),
            content.digest,
        )

    def _content(self, row: Row) -> _Content:
        blob, digest, size = row.kernel_blob, row.kernel_hash, row.uncompressed_size
        if isinstance(blob, bytes) and isinstance(digest, bytes) and isinstance(size, int):
            return self._known.get(blob, digest, size, lambda: _examine(blob, digest, size))
        kinds = ", ".join(row.types[2:])
        text = f"kernel_blob, kernel_hash and uncompressed_size are {kinds}"
        return _Content(((Level.FATAL, "type", text),), b"", ())


@dataclass(frozen=True, slots=True)
class _Unpacked:
    data: bytes
    said: tuple[_Words, ...] = ()


def key_digest(name: bytes, args: bytes) -> bytes:
    """Short digest of a record's key, for comparing keys without keeping them."""
    return hashlib.sha256(b"%d:%b%b" % (len(name), name, args)).digest()[:16]


def _check_text(column: str, raw: bytes, text: str, kind: str) -> Iterator[_Words]:
    never = Level.NEVER_HITS
    if kind != "text":
        yield never, "type", f"{column} is {kind}, not text"
        return
    # KernelConfig::Where pastes both into SQL text without quoting; a key with a quote ends
    # in a syntax error before any record is looked at.
    if b"'" in raw or b"\0" in raw:
        what = "a quote" if b"'" in raw else "a zero byte"
        yield never, "quote", f"{column} has {what}, which MIOpen cannot look up"
    if "\ufffd" in text and not _is_utf8(raw):
        yield never, "text", f"{column} is not UTF-8"
    if len(raw) > MAX_KEY_BYTES:
        yield never, "text", f"{column} has {len(raw)} bytes"


def _check_mcpu(args: str, mcpu: str, device: Device | None) -> Iterator[_Words]:
    """handlehip.cpp: MIOpen asks for its options, then ` -mcpu=` and the name without features."""
    never = Level.NEVER_HITS
    if not mcpu:
        yield never, "mcpu", "kernel_args has no `-mcpu=`"
    elif ":" in mcpu:
        shown = mcpu[:_SHOWN]
        yield never, "mcpu", f"kernel_args has `-mcpu={shown}`; MIOpen asks without features"
    elif not args.endswith(f" -mcpu={mcpu}"):
        yield never, "mcpu", "kernel_args does not end in ` -mcpu=` and a name"
    elif device is not None and mcpu != device.target.arch:
        yield (
            never, "mcpu",
            f"kernel_args is for {mcpu[:_SHOWN]}; who opens this file asks for "
            f"{device.target.arch}",
        )  # fmt: skip


def _examine(blob: bytes, digest: bytes, size: int) -> _Content:
    unpacked = _unpack(blob, digest, size)
    if not unpacked.data:
        return _Content(unpacked.said, b"", ())
    found = hashlib.sha256(unpacked.data).digest()[:16]
    said = _objects(unpacked.data)
    if isinstance(said[0], Level):
        return _Content((*unpacked.said, said), found, ())
    return _Content(unpacked.said, found, said)


def _unpack(blob: bytes, digest: bytes, size: int) -> _Unpacked:
    """Unpack as MIOpen does, and compare the MD5."""
    if len(blob) > MAX_OBJECT_BYTES:
        return _Unpacked(b"", ((Level.SUSPICIOUS, "not-checked", _too_large(len(blob))),))
    if size == 0:
        return _compare(_Unpacked(blob), digest, packed=blob.startswith(b"BZh"))
    unpacked = _decompress(blob, size)
    if any(lv is Level.FATAL or check == "not-checked" for lv, check, _ in unpacked.said):
        return unpacked
    return _compare(unpacked, digest, packed=False)


def _compare(unpacked: _Unpacked, digest: bytes, *, packed: bool) -> _Unpacked:
    found = hashlib.md5(unpacked.data, usedforsecurity=False).hexdigest().encode()
    if found != digest:
        if packed:
            return _fatal("size", "kernel_blob is packed, and uncompressed_size says it is not")
        told = digest[:32].decode(errors="replace")
        return _fatal("md5", f"MD5 is {found.decode()}, and kernel_hash says `{told}`")
    if not unpacked.data:
        # handlehip.cpp takes an empty object for none.
        return _Unpacked(b"", ((Level.NEVER_HITS, "empty", "Its code object is empty"),))
    return unpacked


def _decompress(blob: bytes, size: int) -> _Unpacked:
    room = size & 0xFFFFFFFF  # bz2.cpp: it is an unsigned int there
    engine = bz2.BZ2Decompressor()
    try:
        data = engine.decompress(blob, max_length=min(room, MAX_OBJECT_BYTES) + 1)
    except (OSError, ValueError) as error:
        return _fatal("bzip2", f"kernel_blob is not bzip2 data ({error})")
    if len(data) > room:
        return _fatal("size", f"Its code object is larger than uncompressed_size, {size}")
    if len(data) > MAX_OBJECT_BYTES:
        return _Unpacked(b"", ((Level.SUSPICIOUS, "not-checked", _too_large(len(data))),))
    if not engine.eof:
        return _fatal("bzip2", f"kernel_blob is cut off: it unpacks to {len(data)} bytes")
    said = []
    if len(data) != size:
        more = f", and MIOpen reserves {room} for it" if room > MAX_OBJECT_BYTES else ""
        text = f"Its code object has {len(data)} bytes, uncompressed_size says {size}{more}"
        said.append((Level.SUSPICIOUS, "size", text))
    if engine.unused_data:
        text = f"kernel_blob goes on for {len(engine.unused_data)} bytes behind its end"
        said.append((Level.SUSPICIOUS, "bzip2", text))
    return _Unpacked(data, tuple(said))


def _fatal(check: str, text: str) -> _Unpacked:
    return _Unpacked(b"", ((Level.FATAL, check, text),))


def _too_large(size: int) -> str:
    return f"It is not checked: {size} bytes or more; at most {MAX_OBJECT_BYTES} are"


def _objects(data: bytes) -> tuple[_Said, ...] | _Words:
    """All code objects of a bundle, or the one; else why they cannot be read."""
    try:
        return tuple(_examine_one(part) for part in device_objects(data))
    except HostError as error:  # no libzstd for a compressed bundle
        return Level.SUSPICIOUS, "not-checked", error.message
    except DatabaseError as error:
        if _unsupported(data):
            return Level.SUSPICIOUS, "not-checked", error.message
        return Level.FATAL, "code-object", error.message


def _examine_one(data: bytes) -> _Said:
    details = read_details(data)
    kernels = {kernel.name for kernel in details.kernels}
    described = details.metadata.kernels if details.metadata else ()
    lost = sorted({kernel.symbol.removesuffix(".kd") for kernel in described} - kernels)
    said: list[_Words] = [
        (Level.FATAL, "symbol", f"Kernel `{name[:_SHOWN]}` has no symbol `{name[:_SHOWN]}.kd`")
        for name in lost[:8]
    ]
    if not kernels:
        said.append((Level.FATAL, "symbol", "Its code object has no kernel"))
    # Of the static checks: what MIOpen and HIP may not notice.
    for finding in check_details(details):
        if finding.message != "It has no kernel" and finding.kernel not in lost:
            where = f"Kernel `{finding.kernel[:_SHOWN]}`: " if finding.kernel else ""
            said.append((Level.SUSPICIOUS, "static", f"{where}{finding.message}"))
    found = details.object
    return _Said(found.arch, found.sramecc, found.xnack, tuple(said[:16]))


def _check_target(said: tuple[_Said, ...], mcpu: str, device: Device | None) -> Iterable[_Words]:
    """What is said of the one object, or of that of a bundle which fits best."""
    results = [tuple(_check_one(one, mcpu, device)) for one in said]
    if len(results) == 1:
        return results[0]
    return min(results, key=lambda words: max((level for level, _, _ in words), default=-1))


def _check_one(said: _Said, mcpu: str, device: Device | None) -> Iterator[_Words]:
    wanted = mcpu.partition(":")[0] or (device.target.arch if device else "")
    if wanted and said.arch != wanted:
        text = f"Its code object is for {said.arch}, not for {wanted[:_SHOWN]}"
        yield Level.FATAL, "target", text
    elif device is not None and said.arch == device.target.arch:
        yield from loading(said.sramecc, said.xnack, device)
    yield from said.findings


def _unsupported(data: bytes) -> bool:
    """Whether it is a code object of version 2 or 3, which ROCm loads and kdbforge cannot read."""
    return data.startswith(_ELF) and data[7:8] == b"\x40" and data[8:9] in (b"\0", b"\1")


def _mcpu(args: str) -> str:
    _, found, rest = args.rpartition(" -mcpu=")
    return (rest.split() or [""])[0] if found else ""


def _raw(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
