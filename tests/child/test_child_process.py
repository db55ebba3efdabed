"""The real 6.4.3-like libMIOpen on the virtual GPU, and its real clang."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from namespace import in_a_root_of_its_own

from driver_keys import check_driver_keys
from kdbforge import BuildOptions, Toolchain, build, find_gpu, prove
from kdbforge.codeobject.bundle import device_objects, is_bundle
from kdbforge.compiler.pool import compile_jobs
from kdbforge.kdb.reader import read_kdb, read_ukdb_rows
from kdbforge.kdb.record import Record
from kdbforge.miopen.replay import ReplayOptions, replay
from kdbforge.miopen.systemdb import link_system_db
from kdbforge.model.job import ActionOutput, Command, FileInput, Job
from kdbforge.model.policy import find_policy
from kdbforge.problems import ProblemList, load
from kdbforge.store import Store
from kdbforge.toolchain import probe
from kdbforge.vgpu.process import CompileMode, VirtualGpu

GPUS = ("gfx1030_40", "gfx906_60")
NORMAL = find_policy("normal")


@dataclass(frozen=True)
class Built:
    """Databases of both GPUs, and what they were built for."""

    folder: Path
    problem_text: str
    problems: ProblemList

    def records(self, gpu: str) -> list[Record]:
        return list(read_kdb(self.folder / f"{gpu}.kdb"))


@pytest.fixture(scope="module")
def built(
    toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory, problem_text: str
) -> Built:
    folder = tmp_path_factory.mktemp("built")
    (folder / "problems.txt").write_text(problem_text)
    problems = load([str(folder / "problems.txt")])
    report = build(
        problems, GPUS, folder / "out",
        toolchain=toolchain, store=folder / "store", options=BuildOptions(NORMAL),
    )  # fmt: skip
    assert report.complete
    for proof in report.proofs:
        assert (proof.misses, proof.errors, proof.unplannable) == ((), (), 0)
        assert proof.hits >= 5
    return Built(folder / "out", problem_text, problems)


def by_libmiopen(
    toolchain: Toolchain, gpu: str, problems: ProblemList, folder: Path
) -> list[Record]:
    """Records that libMIOpen makes where compiling is allowed."""
    system_db = link_system_db(toolchain, folder / "system-db")
    options = ReplayOptions(CompileMode.PASS, NORMAL.calls, system_db, NORMAL.environment)
    result = replay(toolchain, find_gpu(gpu), problems.problems, options, folder / "run")
    assert not [outcome for outcome in result.outcomes if outcome.error]
    (database,) = result.databases
    assert database.stem == gpu
    return sorted(read_ukdb_rows(database), key=lambda record: record.key)


# -- databases ------------------------------------------------------------------------------------


def test_kernels_that_clang_cannot_link_are_switched_off_by_variables(
    toolchain: Toolchain, tmp_path: Path
) -> None:
    """gfx9 in NORMAL mode: docs/child-process.md gives the variables."""
    source = tmp_path / "problems.txt"
    source.write_text("MIOpenDriver conv -n 1 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -p 1 -q 1 -F 1\n")
    kernel = "static_kernel_gridwise_convolution_implicit_gemm_v4r4_nchw_kcyx_nkhw.cpp"
    switched_off = {"MIOPEN_DEBUG_CONV_IMPLICIT_GEMM_HIP_FWD_V4R4": "0"}
    for variables in ({}, switched_off):
        report = build(
            [str(source)], ["gfx906_60"], tmp_path / "out",
            toolchain=toolchain, store=tmp_path / "store",
            options=BuildOptions(NORMAL.with_variables(variables)),
        )  # fmt: skip
        manifest = json.loads((tmp_path / "out" / "gfx906_60.manifest.json").read_text())
        assert manifest["environment"] == variables
        failed = {failure.kernel_file for failure in report.compile.failures}
        assert failed == (set() if variables else {kernel})
        assert report.complete is bool(variables)


def test_attention_has_8_bit_floats(toolchain: Toolchain, tmp_path: Path) -> None:
    """In MIOpen 3.4, with the wider kind for the gradient of the output."""
    source = tmp_path / "problems.txt"
    source.write_text("mhafp8 -n 2 -F 1\nmhafp8 -n 2 -F 2\n")
    report = build(
        [str(source)], ["gfx942130"], tmp_path / "out",
        toolchain=toolchain, store=tmp_path / "store", options=BuildOptions(NORMAL),
    )  # fmt: skip
    assert report.complete
    options = {r.kernel_args for r in read_kdb(tmp_path / "out" / "gfx942130.kdb")}
    assert any("-DOUT_TYPE=float8 -DdO_TYPE=bfloat8" in text for text in options)


@pytest.mark.parametrize(
    "command",
    [
        "rnn -n 4,3,2 -k 3 -m lstm -q 1",
        "rnn_seq -n 4 -k 10 -K 7,10,9,9 -I 2 -m gru -b 1 -l 2",
        "rnn_seq -n 3 -k 5 -K 1,2,3 -I 3 -m lstm -r 1",
        "rnn_seqfp16 -n 4 -k 8 -K 8,7,7,7 -m relu",
    ],
)
def test_all_that_miopens_driver_asks_for_is_planned(
    toolchain: Toolchain, tmp_path: Path, command: str
) -> None:
    """Recurrent networks: MIOpenDriver of 3.5 stops before it runs one."""
    check_driver_keys(toolchain, "gfx1030_36", command, tmp_path)


def test_both_languages_are_there(built: Built) -> None:
    names = [record.kernel_name for record in built.records("gfx1030_40")]
    assert names.count("naive_conv.cpp.o") == 1
    assert sum(name.endswith(".cl.o") for name in names) >= 5
    for record in built.records("gfx1030_40"):
        assert is_bundle(record.unpack()) is record.kernel_name.endswith(".cpp.o")
    assert all(r.kernel_name.endswith(".cl.o") for r in built.records("gfx906_60"))


def test_nothing_is_to_be_set_by_the_user(built: Built) -> None:
    manifest = json.loads((built.folder / "gfx1030_40.manifest.json").read_text())
    assert manifest["environment"] == {}
    assert manifest["toolchain"]["miopen_version"] == "3.4.0"


@pytest.mark.parametrize("gpu", GPUS)
def test_records_are_those_of_libmiopen(
    toolchain: Toolchain, built: Built, tmp_path: Path, gpu: str
) -> None:
    assert built.records(gpu) == by_libmiopen(toolchain, gpu, built.problems, tmp_path)


def test_without_the_database_every_kernel_is_a_miss(
    toolchain: Toolchain, built: Built, tmp_path: Path
) -> None:
    other = built.folder / "gfx906_60.kdb"  # which is not looked into
    (proof,) = prove(
        [other], built.problems, ["gfx1030_40"],
        toolchain=toolchain, policy="normal", work_dir=tmp_path,
    )  # fmt: skip
    assert proof.hits == 0
    # The first kernel that cannot be compiled ends a Find.
    assert {miss.call for miss in proof.misses} == {"find-normal"}
    assert "MIOpenConvDirUni.cl" in {miss.kernel_file for miss in proof.misses}
    assert any("-mcpu=gfx1030" in miss.options for miss in proof.misses)


def test_another_cu_count_and_the_default_policy_are_served(
    toolchain: Toolchain, built: Built, tmp_path: Path
) -> None:
    (tmp_path / "gfx1030.kdb").symlink_to(built.folder / "gfx1030_40.kdb")
    (proof,) = prove(
        [tmp_path / "gfx1030.kdb"], built.problems, ["gfx1030_36"],
        toolchain=toolchain, policy="default", work_dir=tmp_path,
    )  # fmt: skip
    assert (proof.misses, proof.errors) == ((), ())
    assert proof.hits > 0


def test_equal_bytes_whatever_the_folders(
    toolchain: Toolchain, built: Built, tmp_path: Path
) -> None:
    build(
        built.problems, ["gfx906_60"], tmp_path / "another" / "out",
        toolchain=toolchain, store=tmp_path / "store",
        options=BuildOptions(NORMAL, workers=1, prove=False),
    )  # fmt: skip
    again = tmp_path / "another" / "out" / "gfx906_60.kdb"
    assert again.read_bytes() == (built.folder / "gfx906_60.kdb").read_bytes()


# -- against a libMIOpen that knows nothing of us -------------------------------------------------


def parts_apart_from_names(code_object: bytes) -> dict[str, bytes]:
    """Sections of a code object in which no symbol's name, nor its place among others, stands."""
    elf = ELFFile(io.BytesIO(code_object))
    named = {".dynsym", ".gnu.hash", ".hash", ".dynstr", ".symtab", ".strtab"}
    return {s.name: s.data() for s in elf.iter_sections() if s.name not in named}


def symbols(code_object: bytes) -> set[tuple[str, int, int]]:
    table = ELFFile(io.BytesIO(code_object)).get_section_by_name(".dynsym")
    found = ((s.name, s["st_value"], s["st_size"]) for s in table.iter_symbols())
    return {(re.sub("__hip_cuid_[0-9a-f]{16}", "__hip_cuid", n), v, s) for n, v, s in found}


def test_objects_are_those_of_an_unattended_run(
    toolchain: Toolchain, built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libMIOpen calls libc's popen, and that runs /usr/bin/clang++-21, in a root of its own.

    OpenCL objects are equal in every byte. HIP objects are but for one name: clang makes that of
    the path of the source, which lies in a folder with a random name.
    """
    monkeypatch.setattr(VirtualGpu, "command", in_a_root_of_its_own(toolchain, tmp_path / "root"))
    path = tmp_path / "first.txt"
    path.write_text(built.problem_text.splitlines()[0])
    theirs = by_libmiopen(toolchain, "gfx1030_40", load([str(path)]), tmp_path)
    ours = {record.key: record.unpack() for record in built.records("gfx1030_40")}
    assert {record.kernel_name[-5:] for record in theirs} == {".cl.o", "cpp.o"}
    for record in theirs:
        mine, other = ours[record.key], record.unpack()
        if not is_bundle(other):
            assert mine == other
            continue
        assert len(mine) == len(other)
        ((mine,), (other,)) = device_objects(mine), device_objects(other)
        assert mine != other
        assert parts_apart_from_names(mine) == parts_apart_from_names(other)
        assert symbols(mine) == symbols(other)


# -- jobs that fail -------------------------------------------------------------------------------


def job_of(name: str, text: str, arguments: Sequence[str]) -> tuple[Job, dict[str, bytes]]:
    data = text.encode()
    digest = hashlib.sha256(data).hexdigest()
    program = "clang++-21" if name.endswith(".cpp") else "clang-21"
    command = Command(program, tuple(arguments), (FileInput(1, name, digest),))
    return Job((command,), ActionOutput(0, 0, 0)), {digest: data}


HIP = ("-x", "hip", "--cuda-gpu-arch=gfx1030", "--cuda-device-only", "-c", "--std=c++17")
OPENCL = ("-mcpu=gfx1030", "-target", "amdgcn-amd-amdhsa", "-x", "cl", "-O3")


def run(
    toolchain: Toolchain, folder: Path, job: Job, blobs: dict[str, bytes], timeout_s: float = 300
) -> tuple[str, str]:
    """The reason of a failure, and the whole log."""
    store = Store(folder / "store")
    key = job.key(toolchain.fingerprint)
    report = compile_jobs(
        toolchain, {key: job}, blobs, store,
        workers=1, work_dir=folder / "work", timeout_s=timeout_s,
    )  # fmt: skip
    (failure,) = report.failures
    return failure.reason, store.log(key) or ""


@pytest.mark.parametrize(("name", "arguments"), [("bad.cpp", HIP), ("bad.cl", OPENCL)])
def test_a_compiler_error_is_reported_with_its_log(
    toolchain: Toolchain, tmp_path: Path, name: str, arguments: tuple[str, ...]
) -> None:
    reason, log = run(toolchain, tmp_path, *job_of(name, "int f() { return g; }\n", arguments))
    assert reason == "compiler error"
    assert "undeclared identifier 'g'" in log
    assert f"{name}:1:18: error" in log
    assert "`clang` failed: exit status 1" in log
    assert str(tmp_path) not in log


def test_an_error_of_the_linker_is_one_of_the_job(toolchain: Toolchain, tmp_path: Path) -> None:
    text = "int g(int);\n__kernel void f(__global int *p) { *p = g(*p); }\n"
    reason, log = run(toolchain, tmp_path, *job_of("link.cl", text, OPENCL))
    assert reason == "compiler error"
    assert "`ld.lld` failed" in log
    assert str(tmp_path) not in log


def test_a_job_that_hangs_leaves_no_process(toolchain: Toolchain, tmp_path: Path) -> None:
    text = """\
    constexpr long f() { long s = 0; for (long i = 0; i < 1L << 40; i++) s += i; return s; }
    constexpr long value = f();
    """
    arguments = (*HIP, "-fconstexpr-steps=4294967295", "-nogpuinc")
    reason, _ = run(toolchain, tmp_path, *job_of("hang.cpp", text, arguments), timeout_s=4)
    assert reason == "timeout"
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert os.fsencode(tmp_path) not in process.read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue


def test_headers_are_those_of_the_toolchain(toolchain: Toolchain, tmp_path: Path) -> None:
    names = ("type_traits", "new", "hip/hip_runtime.h", "rocrand/rocrand_xorwow.h", "no_such.h")
    text = "".join(f"#include <{name}>\n" for name in names)
    _, log = run(toolchain, tmp_path, *job_of("host.cpp", text, (*HIP, "-v")))
    assert "'no_such.h' file not found" in log
    assert log.count("error:") == 1
    listed = log.partition("search starts here:\n")[2].partition("End of search list")[0]
    folders = re.findall("^ (/.*)$", listed, re.M)
    assert len(folders) >= 4
    assert all(Path(folder).is_relative_to(str(toolchain.sysroot)) for folder in folders)
    # clang's own <new> for device code stands before that of the C++ library.
    assert folders[0].endswith("cuda_wrappers")


# -- the toolchain --------------------------------------------------------------------------------


def test_it_is_usable_where_it_was_moved_to(toolchain: Toolchain, tmp_path: Path) -> None:
    root = toolchain.libmiopen.parents[3]
    assert toolchain.sysroot == root
    (tmp_path / "moved").symlink_to(root)
    moved = probe(tmp_path / "moved", name="moved").toolchain
    assert moved.fingerprint == toolchain.fingerprint
    assert moved.sysroot == tmp_path / "moved"
