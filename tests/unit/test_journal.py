"""The reader of the capture journal, on bytes written here after the format's table."""

from __future__ import annotations

import hashlib
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdbforge.errors import VirtualGpuError
from kdbforge.model.job import ActionOutput, FileInput
from kdbforge.vgpu.journal import Capture, read_journal

NONCE = "00112233aabbccdd"


def entry(kind: int, *fields: str | bytes) -> bytes:
    data = [field.encode() if isinstance(field, str) else field for field in fields]
    payload = b"".join(struct.pack("<Q", len(field)) + field for field in data)
    return struct.pack("<IIQII", 0x314A464B, kind, len(payload), zlib.crc32(payload), 0) + payload


SOURCE, HEADER = b"kernel void k() {}", b"#define A 1"
COMPILE = entry(
    3, NONCE, "1", "2", "2", "amdgcn-amd-amdhsa--gfx1030", "", "1", "0",
    "2", "-O3", "-DX=1",
    "2", "1", "k.cl", "blob:1", "2", "a.h", "blob:2",
)  # fmt: skip
LINK = entry(
    3, NONCE, "2", "9", "0", "amdgcn-amd-amdhsa--gfx1030", "", "1", "0",
    "0", "1", "4", "", "action:1:4:0",
)  # fmt: skip
JOURNAL = [
    entry(1, NONCE, "42", "capture", "gfx1030"),
    entry(2, NONCE, "1", SOURCE),
    entry(2, NONCE, "2", HEADER),
    COMPILE,
    LINK,
    entry(4, NONCE, "problem 0 find"),
    entry(5, NONCE, "capture", f"kdbforge-capture:{NONCE}:2:8:0\n"),
    entry(6, NONCE, "2", "2", "gfx1030", "k.cl", "1", "-O3"),
    entry(7, NONCE, "hipGraphLaunch"),
]


def read(tmp_path: Path, data: bytes) -> Capture:
    path = tmp_path / "journal"
    path.write_bytes(data)
    return read_journal([path])


def test_job_holds_the_whole_chain_of_actions(tmp_path: Path) -> None:
    capture = read(tmp_path, b"".join(JOURNAL))
    job = capture.job(f"kdbforge-capture:{NONCE}:2:8:0\n")
    source, header = (hashlib.sha256(data).hexdigest() for data in (SOURCE, HEADER))
    first, second = job.actions
    assert first.inputs == (FileInput(1, "k.cl", source), FileInput(2, "a.h", header))
    assert first.options == ("-O3", "-DX=1")
    assert second.inputs == (ActionOutput(0, 4, 0),)
    assert job.output == ActionOutput(1, 8, 0)
    assert job.kernel_file == "k.cl"
    assert capture.blobs == {source: SOURCE, header: HEADER}


def test_unsupported_calls_of_all_processes_are_summed(tmp_path: Path) -> None:
    first, last = entry(7, NONCE, "hipA"), entry(7, NONCE, "hipA", "4")
    other = entry(7, NONCE[::-1], "hipA") + entry(7, NONCE[::-1], "hipB")  # it crashed
    assert read(tmp_path, first + other + last).unsupported == {"hipA": 5, "hipB": 1}


def test_events_carry_the_mark_before_them(tmp_path: Path) -> None:
    capture = read(tmp_path, b"".join(JOURNAL))
    assert [(load.mark, load.marker) for load in capture.loads] == [
        ("problem 0 find", f"kdbforge-capture:{NONCE}:2:8:0")
    ]
    assert capture.forbidden[0].kernel_file == "k.cl"
    assert capture.forbidden[0].mark == "problem 0 find"
    assert capture.forbidden[0].options == ("-O3",)
    assert capture.unsupported == {"hipGraphLaunch": 1}
    assert capture.processes == 1


@given(st.integers(min_value=0, max_value=len(b"".join(JOURNAL))))
def test_a_cut_off_tail_is_ignored(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    capture = read(tmp_path_factory.mktemp("journal"), b"".join(JOURNAL)[:cut])
    whole, size = 0, 0
    for part in JOURNAL:
        size += len(part)
        whole += size <= cut
    assert len(capture.unsupported) == (whole == len(JOURNAL))
    assert len(capture.loads) == (whole >= 7)


def test_a_damaged_entry_ends_the_reading(tmp_path: Path) -> None:
    data = bytearray(b"".join(JOURNAL))
    data[len(b"".join(JOURNAL[:5])) + 30] ^= 1
    capture = read(tmp_path, bytes(data))
    assert not capture.loads


def test_a_missing_journal_is_an_empty_one(tmp_path: Path) -> None:
    assert read_journal([tmp_path / "none"]).processes == 0


@pytest.mark.parametrize("marker", ["kdbforge-capture:x", f"kdbforge-capture:{NONCE}:9:8:0"])
def test_an_unknown_marker_is_refused(tmp_path: Path, marker: str) -> None:
    with pytest.raises(VirtualGpuError):
        read(tmp_path, b"".join(JOURNAL)).job(marker)


def test_an_input_that_was_never_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VirtualGpuError, match="type 3"):
        read(tmp_path, JOURNAL[0] + COMPILE)
