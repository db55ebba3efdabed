"""What leaves the store when it gets too large, and what must not."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

from kdbforge.store import Store, StoreEntry

KEYS = [hashlib.sha256(bytes([number])).hexdigest() for number in range(10)]
ENTRY = StoreEntry(b"x" * 1000, "0" * 32, 0, 1.0, "k.cpp")
SIZE = len(ENTRY.to_bytes(KEYS[0]))


def path_of(store: Store, key: str) -> Path:
    return store.root / "entries" / key[:2] / key[2:]


def filled(root: Path) -> None:
    """Ten entries, the first used longest ago."""
    store = Store(root)
    for age, key in zip(range(10, 0, -1), KEYS, strict=True):
        store.put(key, ENTRY)
        path = path_of(store, key)
        now = time.time_ns()
        os.utime(path, ns=(now - age * 10**10, path.stat().st_mtime_ns))


def left(root: Path) -> list[int]:
    return [number for number, key in enumerate(KEYS) if path_of(Store(root), key).exists()]


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    filled(tmp_path)
    store = Store(tmp_path)
    assert store.evict(SIZE * 4) == SIZE * 6
    assert left(tmp_path) == [6, 7, 8, 9]
    assert store.evict(SIZE * 4) == 0
    assert store.evict(0) == SIZE * 4
    assert left(tmp_path) == []


def test_reading_counts_as_use(tmp_path: Path) -> None:
    filled(tmp_path)
    Store(tmp_path).get(KEYS[0])
    Store(tmp_path).evict(SIZE * 3)
    assert left(tmp_path) == [0, 8, 9]


def test_the_cap_holds_while_entries_are_put(tmp_path: Path) -> None:
    filled(tmp_path)
    store = Store(tmp_path, SIZE * 10)
    new = hashlib.sha256(b"new").hexdigest()
    store.put(new, ENTRY)
    assert left(tmp_path) == [2, 3, 4, 5, 6, 7, 8, 9]
    assert store.get(new) == ENTRY


def test_a_build_keeps_its_own_results_whatever_the_cap(tmp_path: Path) -> None:
    filled(tmp_path)
    store = Store(tmp_path, SIZE * 2)
    assert store.get(KEYS[0]) == ENTRY
    for key in KEYS[4:8]:
        store.put(key, ENTRY)
    assert left(tmp_path) == [0, 4, 5, 6, 7]


def test_without_a_cap_nothing_goes(tmp_path: Path) -> None:
    filled(tmp_path)
    assert Store(tmp_path).evict() == 0
    assert left(tmp_path) == list(range(10))


def test_logs_and_aliases_go_as_well(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put_log(KEYS[0], "text")
    store.put_alias(KEYS[1], KEYS[0])
    Store(tmp_path).evict(0)
    assert Store(tmp_path).stats().bytes == 0


def test_a_file_that_was_replaced_meanwhile_stays(tmp_path: Path) -> None:
    filled(tmp_path)
    store = Store(tmp_path)
    seen = list(store._files("entries"))
    for key in KEYS:
        Store(tmp_path).put(key, ENTRY)
    assert [file.remove() for file in seen] == [False] * 10
    assert left(tmp_path) == list(range(10))


def test_stale_temporary_files_are_swept_and_fresh_ones_stay(tmp_path: Path) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    (folder / "stale").write_bytes(b"x")
    (folder / "fresh").write_bytes(b"x")
    os.utime(folder / "stale", (time.time() - 4000, time.time() - 4000))
    Store(tmp_path).put(KEYS[0], ENTRY)
    assert [path.name for path in folder.iterdir()] == ["fresh"]
