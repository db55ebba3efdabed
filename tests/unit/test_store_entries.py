"""What the store gives back: all of what was put, or nothing."""

from __future__ import annotations

import hashlib
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdbforge.errors import HostError, StoreError
from kdbforge.store import Seen, Store, StoreEntry, StoreStats

KEY = hashlib.sha256(b"one").hexdigest()
OTHER = hashlib.sha256(b"other").hexdigest()
ENTRY = StoreEntry(b"BZh9 blob", "d41d8cd98f00b204e9800998ecf8427e", 1234, 2.5, "k.cpp")


def file_of(store: Store, key: str, kind: str = "entries") -> Path:
    return store.root / kind / key[:2] / key[2:]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def test_an_entry_comes_back_as_it_was_put(store: Store) -> None:
    assert store.get(KEY) is None
    store.put(KEY, ENTRY)
    assert store.get(KEY) == ENTRY
    assert Store(store.root).get(KEY) == ENTRY
    assert store.get(OTHER) is None


def test_reading_makes_no_folder(store: Store) -> None:
    assert (store.get(KEY), store.log(KEY), store.alias(KEY), store.evict()) == (
        None,
        None,
        None,
        0,
    )
    assert not store.root.exists()


@given(
    blob=st.binary(max_size=2000),
    size=st.integers(0, 1 << 40),
    name=st.text(max_size=60).filter(lambda text: text.isprintable()),
)
def test_any_entry_survives_its_file(blob: bytes, size: int, name: str) -> None:
    entry = StoreEntry(blob, "0" * 32, size, 0.125, name)
    assert StoreEntry.from_bytes(KEY, entry.to_bytes(KEY)) == entry


def test_every_flipped_bit_is_a_miss_and_the_file_goes(store: Store) -> None:
    store.put(KEY, ENTRY)
    path = file_of(store, KEY)
    good = path.read_bytes()
    for position in range(len(good) * 8):
        bad = bytearray(good)
        bad[position // 8] ^= 1 << position % 8
        path.write_bytes(bad)
        assert store.get(KEY) is None, f"bit {position}"
        assert not path.exists(), f"bit {position}"
    path.write_bytes(good)
    assert store.get(KEY) == ENTRY


def test_every_truncation_and_an_added_byte_is_a_miss(store: Store) -> None:
    store.put(KEY, ENTRY)
    path = file_of(store, KEY)
    good = path.read_bytes()
    for data in [*(good[:length] for length in range(len(good))), good + b"\0"]:
        path.write_bytes(data)
        assert store.get(KEY) is None, f"{len(data)} of {len(good)} bytes"


def test_an_entry_of_another_key_is_a_miss(store: Store) -> None:
    store.put(KEY, ENTRY)
    file_of(store, OTHER).parent.mkdir(parents=True)
    file_of(store, KEY).rename(file_of(store, OTHER))
    assert store.get(OTHER) is None


def test_another_schema_version_is_a_miss(store: Store) -> None:
    store.put(KEY, ENTRY)
    path = file_of(store, KEY)
    path.write_bytes(path.read_bytes().replace(b"kdbforge-store 1", b"kdbforge-store 2"))
    assert store.get(KEY) is None


def test_a_folder_in_place_of_an_entry_is_a_miss(store: Store) -> None:
    file_of(store, KEY).mkdir(parents=True)
    assert store.get(KEY) is None


def test_damaged_logs_and_aliases_are_misses(store: Store) -> None:
    store.put_log(KEY, "warning: é\n")
    store.put_alias(OTHER, KEY)
    assert (store.log(KEY), store.alias(OTHER)) == ("warning: é\n", KEY)
    for key, kind in ((KEY, "logs"), (OTHER, "aliases")):
        path = file_of(store, key, kind)
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
    assert (store.log(KEY), store.alias(OTHER)) == (None, None)


def test_a_dropped_log_is_gone(store: Store) -> None:
    store.drop_log(KEY)
    store.put_log(KEY, "text")
    store.drop_log(KEY)
    assert store.log(KEY) is None


@pytest.mark.parametrize("key", ["", "abc", "../../etc/passwd", KEY.upper(), KEY + "\n", KEY[:-1]])
def test_what_is_no_key_is_refused(store: Store, key: str) -> None:
    for call in (store.get, store.log, store.alias):
        with pytest.raises(StoreError, match="is not a store key"):
            call(key)
    with pytest.raises(StoreError, match="is not a store key"):
        store.put_alias(KEY, key)


def test_stats_history_and_find_count_what_is_there(store: Store) -> None:
    store.put(KEY, ENTRY)
    store.put(OTHER, StoreEntry(b"", "0" * 32, 0, 3.5, "k.cpp"))
    store.put_log(KEY, "text")
    store.put_alias(OTHER, KEY)
    files = [path for path in store.root.rglob("*") if path.is_file()]
    assert store.stats() == StoreStats(2, 1, 1, sum(path.stat().st_size for path in files))
    sizes = [file_of(store, key).stat().st_size for key in (KEY, OTHER)]
    assert store.history() == {"k.cpp": Seen(2, 3.0, sum(sizes) / 2)}
    assert store.find("") == tuple(sorted((KEY, OTHER)))
    assert store.find(KEY[:6]) == (KEY,)
    assert store.find("zz") == ()


def test_damaged_entries_do_not_disturb_the_history(store: Store) -> None:
    store.put(KEY, ENTRY)
    store.put(OTHER, ENTRY)
    path = file_of(store, OTHER)
    for data in (b"", b"kdbforge-store 1", path.read_bytes()[:60], b"\xff" * 300):
        path.write_bytes(data)
        assert store.history()["k.cpp"].count == 1


def test_a_store_that_cannot_be_written_is_a_host_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = Store(tmp_path / "file" / "store")
    assert store.get(KEY) is None
    for write in (
        lambda: store.put(KEY, ENTRY),
        lambda: store.put_log(KEY, "text"),
        lambda: store.put_alias(OTHER, KEY),
    ):
        with pytest.raises(HostError, match=f"write to the store `{store.root}`"):
            write()


def test_a_full_disk_is_a_host_error_and_leaves_nothing(store: Store) -> None:
    store.put(KEY, ENTRY)
    big = StoreEntry(b"x" * 100_000, "0" * 32, 0, 1.0, "k.cpp")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(HostError, match=f"write to the store `{store.root}`"):
            store.put(OTHER, big)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list((store.root / "tmp").iterdir()) == []
    assert (store.get(KEY), store.get(OTHER)) == (ENTRY, None)


WRITER = """
import sys
from pathlib import Path
from kdbforge.store.entry import StoreEntry
from kdbforge.store.store import Store

store, key = Store(Path(sys.argv[1]), 20_000), sys.argv[2]
for number in range(200):
    blob = bytes([number]) * 3000
    store.put(key, StoreEntry(blob, "0" * 32, 3000, 1.0, f"{number}.cpp"))
    found = store.get(key)
    assert found is None or found.blob == bytes([int(found.kernel_file[:-4])]) * 3000
"""


def test_processes_that_write_one_key_at_once_leave_a_whole_entry(store: Store) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(store.root), KEY]) for _ in range(4)
    ]
    assert [writer.wait() for writer in writers] == [0, 0, 0, 0]
    entry = store.get(KEY)
    assert entry is not None
    assert entry.blob == bytes([199]) * 3000
    assert list((store.root / "tmp").iterdir()) == []
