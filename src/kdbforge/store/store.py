"""The store: compiled code objects, compiler logs and aliases, each a file named by its key.

Several processes may use one store. Files appear whole; a damaged one is a miss and goes away.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kdbforge.errors import StoreError
from kdbforge.files import host_errors, write_whole
from kdbforge.store.entry import StoreEntry, peek, seal, unseal

__all__ = ["Seen", "Store", "StoreStats"]

_KEY = re.compile(r"[0-9a-f]{64}")
_ENTRIES, _LOGS, _ALIASES = "entries", "logs", "aliases"
#: A temporary file of this age belongs to no process that is still writing it.
_STALE_SECONDS = 3600
#: Eviction goes a bit below the cap, so that not every `put` has to evict.
_LOW_WATER = 0.9
#: Bytes of a file that surely hold its header.
_PEEK = 4096


@dataclass(frozen=True, slots=True)
class StoreStats:
    """What is in a store; bytes count every file of it."""

    entries: int
    logs: int
    aliases: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Seen:
    """Means over the stored objects of one kernel file."""

    count: int
    seconds: float  # CPU seconds of compiling
    blob_bytes: float  # as packed


@dataclass(frozen=True, slots=True)
class _File:
    """A file and the identity that it had when it was looked at."""

    path: Path
    inode: int
    size: int
    mtime_ns: int
    atime_ns: int

    @classmethod
    def of(cls, path: Path, status: os.stat_result) -> _File:
        return cls(path, status.st_ino, status.st_size, status.st_mtime_ns, status.st_atime_ns)

    def remove(self) -> bool:
        """Remove the file unless another process has replaced it; never fails."""
        try:
            now = _File.of(self.path, self.path.stat())
            # Not the access time: it may have been raised by a reader, which is no replacement.
            if (now.inode, now.size, now.mtime_ns) != (self.inode, self.size, self.mtime_ns):
                return False
            self.path.unlink()
        except OSError:
            return False
        return True


class Store:
    """Results by key (64 hex digits), below one folder that is made when first written to.

    **Reads never fail.** A file that is missing, damaged, unreadable or of another schema
    version is None, and a damaged one is removed.

    **Writes are whole.** Readers see a file complete or not at all.

    **The cap is soft.** When files exceed `max_bytes`, those not used for longest go, except
    what this object has itself put or got: a build never loses its own results.
    """

    def __init__(self, root: Path, max_bytes: int | None = None):
        self.root = root
        self.max_bytes = max_bytes
        self._used: set[Path] = set()
        self._bytes: int | None = None  # of all files, as far as known; None: not yet counted
        self._ready = False

    def get(self, key: str) -> StoreEntry | None:
        """The entry of a job key, or None."""
        path = self._path(_ENTRIES, key)
        data = self._read(path)
        if data is None:
            return None
        entry = StoreEntry.from_bytes(key, data[1])
        if entry is None:
            data[0].remove()
            return None
        self._used.add(path)
        return entry

    def put(self, key: str, entry: StoreEntry) -> None:
        """Keep an entry; one that is there already is replaced.

        Raises
        ------
        HostError
            If the file cannot be written.
        """
        self._write(self._path(_ENTRIES, key), entry.to_bytes(key))

    def log(self, key: str) -> str | None:
        """What the compiler said in the last run of a job, if it said anything."""
        body = self._get_sealed(_LOGS, key)
        return None if body is None else body.decode("utf-8", "replace")

    def put_log(self, key: str, text: str) -> None:
        """Keep the compiler's words; raises `HostError` if they cannot be written."""
        self._write(self._path(_LOGS, key), seal(key, {}, text.encode("utf-8", "replace")))

    def drop_log(self, key: str) -> None:
        """Forget what the compiler said; never fails."""
        with contextlib.suppress(OSError):
            self._path(_LOGS, key).unlink()

    def alias(self, content_key: str) -> str | None:
        """The key of a job that compiles the same content, if one was compiled."""
        body = self._get_sealed(_ALIASES, content_key)
        return None if body is None else body.decode("ascii", "replace")

    def put_alias(self, content_key: str, key: str) -> None:
        """Note that `key` compiles this content; raises `HostError` if it cannot be written."""
        self._check(key)
        path = self._path(_ALIASES, content_key)
        self._write(path, seal(content_key, {}, key.encode("ascii")))

    def find(self, prefix: str) -> tuple[str, ...]:
        """Sorted keys of all entries and logs that begin with `prefix`."""
        found = set()
        for kind in (_ENTRIES, _LOGS):
            for file in self._files(kind):
                key = file.path.parent.name + file.path.name
                if key.startswith(prefix):
                    found.add(key)
        return tuple(sorted(found))

    def history(self) -> Mapping[str, Seen]:
        """What compiling each kernel file took so far, by its name.

        Reads the start of every entry, unchecked: good for an estimate, not for a result.
        """
        sums: dict[str, tuple[int, float, float]] = {}
        for file in self._files(_ENTRIES):
            header = _peek_file(file.path)
            if header is None:
                continue
            try:
                name, seconds = str(header["kernel_file"]), float(header["seconds"])
            except (KeyError, TypeError, ValueError):
                continue
            count, total, size = sums.get(name, (0, 0.0, 0.0))
            sums[name] = (count + 1, total + seconds, size + file.size)
        return {
            name: Seen(count, total / count, size / count)
            for name, (count, total, size) in sorted(sums.items())
        }

    def stats(self) -> StoreStats:
        """Count the files of the store."""
        counts, size = {}, 0
        for kind in (_ENTRIES, _LOGS, _ALIASES):
            files = list(self._files(kind))
            counts[kind] = len(files)
            size += sum(file.size for file in files)
        return StoreStats(counts[_ENTRIES], counts[_LOGS], counts[_ALIASES], size)

    def evict(self, max_bytes: int | None = None) -> int:
        """Remove what was not used for longest until `max_bytes` are left; return bytes removed.

        Without an argument, down to nine tenths of the store's own cap.
        """
        if max_bytes is None:
            if self.max_bytes is None:
                return 0
            max_bytes = int(self.max_bytes * _LOW_WATER)
        files = [file for kind in (_ENTRIES, _LOGS, _ALIASES) for file in self._files(kind)]
        size = sum(file.size for file in files)
        removed = 0
        for file in sorted(files, key=lambda file: (file.atime_ns, file.path)):
            if size - removed <= max_bytes:
                break
            if file.path not in self._used and file.remove():
                removed += file.size
        self._bytes = size - removed
        return removed

    def _path(self, kind: str, key: str) -> Path:
        self._check(key)
        return self.root / kind / key[:2] / key[2:]

    @staticmethod
    def _check(key: str) -> None:
        if not _KEY.fullmatch(key):
            raise StoreError(f"`{key}` is not a store key", hint="a key has 64 hex digits")

    def _get_sealed(self, kind: str, key: str) -> bytes | None:
        path = self._path(kind, key)
        data = self._read(path)
        if data is None:
            return None
        opened = unseal(key, data[1])
        if opened is None:
            data[0].remove()
            return None
        self._used.add(path)
        return opened[1]

    def _read(self, path: Path) -> tuple[_File, bytes] | None:
        try:
            with path.open("rb") as stream:
                status = os.fstat(stream.fileno())
                data = stream.read()
                # Mounts with noatime or relatime do not note a read, so it is done here.
                with contextlib.suppress(OSError):
                    os.utime(stream.fileno(), ns=(time.time_ns(), status.st_mtime_ns))
        except OSError:
            return None
        return _File.of(path, status), data

    def _write(self, path: Path, data: bytes) -> None:
        what = f"write to the store `{self.root}`"
        with host_errors(what):
            self._prepare()
            path.parent.mkdir(parents=True, exist_ok=True)
            with write_whole(path, temporary=self.root / "tmp", what=what) as stream:
                stream.write(data)
        self._used.add(path)
        self._account(len(data))

    def _prepare(self) -> None:
        folder = self.root / "tmp"
        folder.mkdir(parents=True, exist_ok=True)
        if self._ready:
            return
        self._ready = True
        limit = time.time() - _STALE_SECONDS
        for path in folder.iterdir():
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < limit:
                    path.unlink()

    def _account(self, size: int) -> None:
        if self.max_bytes is None:
            return
        self._bytes = self.stats().bytes if self._bytes is None else self._bytes + size
        if self._bytes > self.max_bytes:
            self.evict()

    def _files(self, kind: str) -> Iterator[_File]:
        for shard in _scan(self.root / kind):
            for item in _scan(Path(shard.path)):
                try:
                    yield _File.of(Path(item.path), item.stat(follow_symlinks=False))
                except OSError:  # another process has just evicted it
                    continue


def _scan(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as items:
            return sorted(items, key=lambda item: item.name)
    except OSError:
        return []


def _peek_file(path: Path) -> dict[str, Any] | None:
    try:
        with path.open("rb") as stream:
            return peek(stream.read(_PEEK))
    except OSError:
        return None
