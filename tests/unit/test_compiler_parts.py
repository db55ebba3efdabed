"""The small parts: frames, expectations, what is refused before a worker starts, arguments."""

from __future__ import annotations

import hashlib
import itertools
import json
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdbforge.compiler import compile_jobs
from kdbforge.compiler.expect import Expectation
from kdbforge.compiler.message import ReplyReader, answer_frame, job_frame
from kdbforge.compiler.worker import comgr_library, tail
from kdbforge.errors import HostError, InputError, ToolchainError, WorkerError
from kdbforge.model.job import Action, ActionOutput, FileInput, Job
from kdbforge.model.toolchain import Toolchain
from kdbforge.store import Seen, Store, StoreEntry
from kdbforge.vgpu.launch import command

SOURCE = b"kernel void k(global float* x) { *x = 1; }"
DIGEST = hashlib.sha256(SOURCE).hexdigest()
FINGERPRINT = "f" * 64
JOB = Job(
    (Action(0xC, 1, "isa", ("-DX=\udcff",), "", False, (FileInput(1, "k.cl", DIGEST),)),),
    ActionOutput(0, 6, 0),
)


def toolchain(folder: Path, **changes: object) -> Toolchain:
    made = Toolchain(
        name="test",
        origin="installed",
        version="1",
        miopen_version="1",
        build_id="00",
        fingerprint=FINGERPRINT,
        libmiopen=folder / "libMIOpen.so.1",
        library_path=(folder / "lib",),
        loader=None,
        python=folder / "bin/python3",
        python_home=None,
        system_db=None,
        include_path=(),
        cxx_include_path=(),
        sonames=("libamdhip64.so.7", "libamd_comgr.so.3"),
        asm_kernels=False,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def frame(header: dict[str, object], payload: bytes) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<IQ", len(text), len(payload)) + text + payload


@given(
    payloads=st.lists(st.binary(max_size=40), max_size=4),
    cuts=st.lists(st.integers(0, 400), max_size=6),
)
def test_replies_are_cut_out_of_any_pieces(payloads: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(frame({"type": "done"}, payload) for payload in payloads)
    reader = ReplyReader()
    replies = []
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    for begin, end in itertools.pairwise(edges):
        replies += list(reader.feed(stream[begin:end]))
    assert [reply.payload for reply in replies] == payloads


def test_a_frame_that_is_none_is_a_worker_error() -> None:
    with pytest.raises(WorkerError):
        list(ReplyReader().feed(b"Hello, this is no frame at all"))


def test_requests_are_plain_ascii_json() -> None:
    data = job_frame(JOB, ask=True)
    assert struct.unpack("<I", data[:4]) == (len(data) - 4,)
    message = json.loads(data[4:].decode("ascii"))
    assert message["ask"] is True
    assert message["actions"][0]["options"] == ["-DX=\udcff"]
    assert json.loads(answer_frame(compile_it=False)[4:]) == {"compile": False}


def test_expectations_come_from_the_store_before_the_size() -> None:
    seen = Expectation({"k.cl": Seen(3, 7.5, 100.0)}, {DIGEST: SOURCE})
    assert seen.seconds(JOB) == 7.5
    small = Expectation({}, {DIGEST: SOURCE}).seconds(JOB)
    large = Expectation({}, {DIGEST: SOURCE * 1000}).seconds(JOB)
    assert 0 < small < large


def test_only_what_may_save_more_than_it_costs_is_preprocessed() -> None:
    slow, quick = (
        Expectation({"k.cl": Seen(1, seconds, 1.0)}, {DIGEST: SOURCE}) for seconds in (2.0, 0.01)
    )
    assert slow.worth_asking(JOB, twins=0)
    assert not quick.worth_asking(JOB, twins=0)
    assert quick.worth_asking(JOB, twins=1)


def test_jobs_in_the_store_need_no_worker(tmp_path: Path) -> None:
    store, key = Store(tmp_path / "store"), JOB.key(FINGERPRINT)
    store.put(key, StoreEntry(b"x", "0" * 32, 0, 1.0, "k.cl"))
    seen = []
    report = compile_jobs(
        toolchain(tmp_path), {key: JOB}, {}, store,
        workers=2, work_dir=tmp_path / "work", progress=seen.append,
    )  # fmt: skip
    assert (report.found, report.compiled, report.failures) == (1, 0, ())
    assert not (tmp_path / "work").exists()
    assert [(progress.total, progress.in_store) for progress in seen] == [(1, 1)]


@pytest.mark.parametrize(
    ("key", "blobs", "message"),
    [
        ("0" * 64, {DIGEST: SOURCE}, "is not that of its job under this toolchain"),
        (JOB.key(FINGERPRINT), {}, f"`{DIGEST}`, which a compile job needs, is missing"),
        (JOB.key(FINGERPRINT), {DIGEST: SOURCE + b" "}, "does not have this SHA-256"),
    ],
)
def test_jobs_that_would_poison_the_store_are_refused(
    tmp_path: Path, key: str, blobs: dict[str, bytes], message: str
) -> None:
    store = Store(tmp_path / "store")
    with pytest.raises(InputError, match=message):
        compile_jobs(toolchain(tmp_path), {key: JOB}, blobs, store, workers=1, work_dir=tmp_path)


def test_no_workers_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`0`"):
        compile_jobs(toolchain(tmp_path), {}, {}, Store(tmp_path), workers=0, work_dir=tmp_path)


def test_a_work_folder_that_cannot_be_made_is_a_host_error(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libamd_comgr.so.3").touch()
    (tmp_path / "file").touch()
    with pytest.raises(HostError, match=f"{tmp_path}/file/work"):
        compile_jobs(
            toolchain(tmp_path), {JOB.key(FINGERPRINT): JOB}, {DIGEST: SOURCE},
            Store(tmp_path / "store"), workers=1, work_dir=tmp_path / "file/work",
        )  # fmt: skip


def test_a_python_that_is_not_there_is_a_host_error(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libamd_comgr.so.3").touch()
    work = tmp_path / "work"
    with pytest.raises(HostError, match="Cannot start a compile worker"):
        compile_jobs(
            toolchain(tmp_path), {JOB.key(FINGERPRINT): JOB}, {DIGEST: SOURCE},
            Store(tmp_path / "store"), workers=1, work_dir=work,
        )  # fmt: skip
    assert list(work.iterdir()) == []


def test_the_compiler_library_is_the_one_that_libmiopen_needs(tmp_path: Path) -> None:
    lib = tmp_path / "lib"
    with pytest.raises(ToolchainError, match=r"has no libamd_comgr\.so\.3"):
        comgr_library(toolchain(tmp_path))
    lib.mkdir()
    for name in ("libamd_comgr.so.2", "libamd_comgr.so.3"):
        (lib / name).touch()
    assert comgr_library(toolchain(tmp_path)) == lib / "libamd_comgr.so.3"
    assert comgr_library(toolchain(tmp_path, sonames=())) == lib / "libamd_comgr.so.2"


def test_a_tail_is_twenty_lines() -> None:
    assert tail("\n".join(map(str, range(30))) + "\n\n") == "\n".join(map(str, range(10, 30)))


def test_an_installed_toolchain_runs_on_the_host_s_loader(tmp_path: Path) -> None:
    argv, environment = command(
        toolchain(tmp_path), Path("/g.py"), ["a"],
        preload=(Path("/x/a.so"), Path("/x/b.so")), extra_library_path=(Path("/x"),),
    )  # fmt: skip
    assert argv == [f"{tmp_path}/bin/python3", "-s", "-P", "-B", "/g.py", "a"]
    assert environment == {
        "LC_ALL": "C",
        "LD_LIBRARY_PATH": f"/x:{tmp_path}/lib",
        "LD_PRELOAD": "/x/a.so:/x/b.so",
    }


def test_a_fetched_toolchain_brings_its_loader_and_headers(tmp_path: Path) -> None:
    fetched = toolchain(
        tmp_path,
        loader=Path("/t/ld.so"),
        python_home=Path("/t/usr"),
        include_path=(Path("/t/include"),),
        cxx_include_path=(Path("/t/c++"),),
    )
    argv, environment = command(fetched, Path("/g.py"), [], preload=(Path("/x/a.so"),))
    assert argv[:6] == [
        "/t/ld.so", "--inhibit-cache", "--library-path", f"{tmp_path}/lib", "--preload", "/x/a.so",
    ]  # fmt: skip
    assert argv[6:] == [f"{tmp_path}/bin/python3", "-s", "-P", "-B", "/g.py"]
    assert environment == {
        "LC_ALL": "C",
        "PYTHONHOME": "/t/usr",
        "CPATH": "/t/include",
        "CPLUS_INCLUDE_PATH": "/t/c++:/t/include",
    }


@pytest.mark.parametrize("name", ["a:b", "a;b"])
def test_names_that_the_loader_would_split_are_refused(tmp_path: Path, name: str) -> None:
    odd = toolchain(tmp_path, library_path=(tmp_path / name,))
    with pytest.raises(HostError, match=name):
        command(odd, Path("/g.py"), [])
