"""libMIOpen builds that run clang as a child process: found whole, or refused by what lacks."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from kdbforge.errors import InputError, ToolchainError
from kdbforge.model.job import ActionOutput, Command, FileInput, Job
from kdbforge.model.plan import GpuPlan, Plan, PlannedRecord, ToolchainId
from kdbforge.model.problem import Convolution
from kdbforge.planner.planfile import read_plan, write_plan
from kdbforge.toolchain import add, find, probe
from kdbforge.toolchain.childbuild import compiler_packages, is_unneeded, runs_children
from kdbforge.toolchain.description import load
from kdbforge.toolchain.fetch import FetchOptions, _fits, compiles_in_process

MIOPEN = """\
const char version[] = ", MIOpen version 9.8.7.";
const char kernel[] = "__kernel void f(){}";
const char hip[] = "COMPILER";
"""
PROGRAM = "int main(void) { return 0; }"


def cc(source: str, output: Path, *options: str) -> Path:
    output.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["gcc", "-Wl,--build-id", "-o", output, "-x", "c", "-", *options],
        input=source, text=True, check=True,
    )  # fmt: skip
    return output


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """A prefix like Debian's /usr, whose libMIOpen runs `/usr/bin/clang++-21`."""
    root = tmp_path / "usr"
    library = MIOPEN.replace("COMPILER", "/usr/bin/clang++-21")
    cc(library, root / "lib/libMIOpen.so.1", "-shared", "-fPIC", "-Wl,-soname,libMIOpen.so.1")
    llvm = root / "lib/llvm-21"
    for name in ("clang", "lld", "clang-offload-bundler"):
        cc(PROGRAM, llvm / "bin" / name)
    (llvm / "bin/ld.lld").symlink_to("lld")
    (llvm / "bin/clang++").symlink_to("clang")
    (root / "bin").mkdir()
    (root / "bin/clang++-21").symlink_to("../lib/llvm-21/bin/clang++")
    bitcode = llvm / "lib/clang/21/amdgcn/bitcode"
    bitcode.mkdir(parents=True)
    (bitcode / "ocml.bc").write_text("bitcode")
    return tmp_path


def test_the_compiler_is_found_below_the_prefix(prefix: Path) -> None:
    found = probe(prefix, name="x")
    clang = prefix / "usr/lib/llvm-21/bin/clang"
    assert found.toolchain.clang == clang
    # The host's own C library: its clang finds the host's headers by itself.
    assert (found.toolchain.loader, found.toolchain.sysroot) == (None, None)
    programs = {"clang", "lld", "ld.lld", "clang-offload-bundler"}
    assert programs <= {library.soname for library in found.libraries}
    assert all(".so" not in folder.name for folder in found.toolchain.library_path)
    assert found.toolchain.library_path == (prefix / "usr/lib",)


def test_it_is_kept_and_read_back(prefix: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    added = add(prefix, "child", data_dir=data)
    assert find("child", data) == added
    assert added.clang == probe(prefix, name="x").toolchain.clang
    os.truncate(prefix / "usr/lib/llvm-21/bin/lld", 10)
    with pytest.raises(ToolchainError, match="lld"):
        find("child", data)


def test_a_description_from_before_is_read(prefix: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    add(prefix, "child", data_dir=data)
    folder = data / "toolchains/child"
    text = (folder / "toolchain.json").read_text()
    lines = [line for line in text.splitlines() if '"clang":' not in line]
    lines = [line for line in lines if '"sysroot":' not in line]
    assert len(lines) == len(text.splitlines()) - 2
    (folder / "toolchain.json").write_text("\n".join(lines))
    assert load(folder).toolchain.clang is None


@pytest.mark.parametrize(
    ("lost", "told"),
    [
        ("bin/clang++-21", "runs `/usr/bin/clang++-21`, which is missing"),
        ("lib/llvm-21/bin/clang", "runs `/usr/bin/clang++-21`, which is missing"),
        ("lib/llvm-21/bin/lld", "needs `lld`"),
        ("lib/llvm-21/bin/clang-offload-bundler", "needs `clang-offload-bundler`"),
    ],
)
def test_what_lacks_is_named(prefix: Path, lost: str, told: str) -> None:
    (prefix / "usr" / lost).unlink()
    with pytest.raises(ToolchainError) as caught:
        probe(prefix, name="x")
    assert told in caught.value.message
    assert "apt install clang-21 lld-21 clang-tools-21" in str(caught.value.hint)


def test_without_device_libraries(prefix: Path) -> None:
    (prefix / "usr/lib/llvm-21/lib/clang/21/amdgcn").rename(prefix / "gone")
    with pytest.raises(ToolchainError, match="has no device libraries"):
        probe(prefix, name="x")


@pytest.mark.parametrize("part", ["bin/lld", "bin/clang", "lib/clang/21/amdgcn/bitcode/ocml.bc"])
def test_every_part_counts_for_the_fingerprint(prefix: Path, part: str) -> None:
    before = probe(prefix, name="x").toolchain.fingerprint
    path = prefix / "usr/lib/llvm-21" / part
    path.write_bytes(path.read_bytes() + b"changed")
    assert probe(prefix, name="x").toolchain.fingerprint != before


# -- Debian ---------------------------------------------------------------------------------------


def test_depends_tell_the_compiler() -> None:
    sid = "libamdhip64-6 (>= 6.1.5), libc6 (>= 2.38), libhiprtc-builtins6, libclang-common-21-dev"
    assert runs_children(sid) == 21
    assert not compiles_in_process(sid)
    assert runs_children("libclang-common-22-dev (>= 1:22), libc6") == 22
    assert runs_children("libc6, libclang-common-dev") is None
    assert "clang-tools-21" in compiler_packages(21)


def test_what_is_left_out() -> None:
    for name in ("binutils-x86-64-linux-gnu", "libobjc-16-dev", "libamd-comgr3", "libclang1-21"):
        assert is_unneeded(name, otherwise=False)
    for name in ("libllvm21", "libclang-cpp21", "libclang-common-21-dev", "rocm-device-libs-21"):
        assert not is_unneeded(name, otherwise=False)
    # By its start-up files clang finds libstdc++; beside other libraries it is left out.
    assert not is_unneeded("libgcc-16-dev", otherwise=True)


def test_one_that_is_there_must_be_the_one_that_is_wanted(prefix: Path) -> None:
    child = probe(prefix, name="x", version="6.4.3+dfsg-1").toolchain
    assert _fits(child, FetchOptions(miopen="6.4.3"))
    assert not _fits(child, FetchOptions(miopen="7.2.4"))
    assert not _fits(child, FetchOptions())
    assert _fits(child, FetchOptions(name="x"))


# -- jobs -----------------------------------------------------------------------------------------

SOURCE = FileInput(1, "a.cpp", "0" * 64)


@pytest.mark.parametrize(
    ("program", "arguments", "inputs"),
    [
        ("gcc", (), (SOURCE,)),
        ("/usr/bin/clang", (), (SOURCE,)),
        ("clang-21", ("-I/etc",), (SOURCE,)),
        ("clang-21", ("-o", "x"), (SOURCE,)),
        ("clang-21", ("@list",), (SOURCE,)),
        ("clang-21", ("-fplugin=evil.so",), (SOURCE,)),
        ("clang-21", ("-fpass-plugin=evil.so",), (SOURCE,)),
        ("clang-21", ("-Xclang", "-load", "-Xclang", "evil.so"), (SOURCE,)),
        ("clang-21", ("-B.",), (SOURCE,)),
        ("clang-21", ("--config=evil",), (SOURCE,)),
        ("clang-21", (), (FileInput(1, "../a.cpp", "0" * 64),)),
        ("clang-21", (), (FileInput(1, "..", "0" * 64),)),
        ("clang-21", (), ()),
        ("clang-21", (), (SOURCE, FileInput(1, "b.cpp", "0" * 64))),
    ],
)
def test_a_command_that_reaches_out_is_none(
    program: str, arguments: tuple[str, ...], inputs: tuple[FileInput, ...]
) -> None:
    with pytest.raises(ValueError, match=r"clang|file in a folder|argument|source"):
        Command(program, arguments, inputs)


def test_what_a_job_key_depends_on() -> None:
    include = FileInput(2, "b.hpp", "1" * 64)
    swapped, other = FileInput(2, "a.cpp", "0" * 64), FileInput(1, "b.hpp", "1" * 64)
    commands = [
        Command("clang++-21", ("-DA=1", "-O3"), (SOURCE, include)),
        Command("clang-21", ("-DA=1", "-O3"), (SOURCE, include)),
        Command("clang++-21", ("-DA=1-O3",), (SOURCE, include)),
        Command("clang++-21", ("-O3", "-DA=1"), (SOURCE, include)),
        Command("clang++-21", ("-DA=1", "-O3"), (SOURCE,)),
        Command(
            "clang++-21",
            ("-DA=1", "-O3"),
            (swapped, other),
        ),
    ]
    jobs = [Job((command,), ActionOutput(0, 0, 0)) for command in commands]
    assert len({job.key("f") for job in jobs}) == len(jobs)
    assert jobs[0].key("f") != jobs[0].key("g")
    assert list(jobs[0].digests()) == ["0" * 64, "1" * 64]


DATA = b"kernel"
COMMAND = Command(
    "clang++-21", ("-DA=1", "-O3"), (FileInput(1, "a.cpp", hashlib.sha256(DATA).hexdigest()),)
)


def plan_with(job: Job) -> Plan:
    key = job.key("f" * 64)
    gpu = GpuPlan(
        "g", "gfx1030", 40, "gfx1030_40", (PlannedRecord("a.cpp.o", " -O3", key),),
        ((key,),), (), (),
    )  # fmt: skip
    return Plan(
        ToolchainId("debian-6", "6", "3.4.0", "ab", "f" * 64), "default", {},
        (Convolution("fp32", "fwd", "NCHW", 1, 3, 8, (8, 8), (3, 3), (1, 1), (1, 1), (1, 1)),),
        (gpu,), {key: job}, dict.fromkeys(job.digests(), DATA),
    )  # fmt: skip


def test_a_plan_with_commands_is_read_back(tmp_path: Path) -> None:
    plan = plan_with(Job((COMMAND,), ActionOutput(0, 0, 0)))
    write_plan(plan, tmp_path / "plan")
    assert read_plan(tmp_path / "plan") == plan


def test_a_plan_whose_command_reaches_out_is_refused(tmp_path: Path) -> None:
    """Its author has computed all keys; only the argument is wrong."""
    job = Job((COMMAND,), ActionOutput(0, 0, 0))
    evil = copy.deepcopy(COMMAND)
    object.__setattr__(evil, "arguments", ("-fplugin=evil.so", "-O3"))
    write_plan(plan_with(dataclasses.replace(job, actions=(evil,))), tmp_path / "plan")
    with pytest.raises(InputError, match="not a whole kdbforge plan") as caught:
        read_plan(tmp_path / "plan")
    assert "-fplugin=evil.so" in caught.value.context[0]
