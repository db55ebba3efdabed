"""Compile jobs on the real libamd_comgr: the objects, and every way in which a job can go wrong."""

from __future__ import annotations

import bz2
import hashlib
import itertools
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from processes import guests

from kdbforge.compiler import CompileReport, Progress, compile_jobs
from kdbforge.errors import HostError, WorkerError
from kdbforge.kdb.record import Record
from kdbforge.model.job import Action, ActionOutput, FileInput, Job
from kdbforge.model.toolchain import Toolchain
from kdbforge.store import Store

BLOBS: dict[str, bytes] = {}
HIP_KERNEL = b'extern "C" __attribute__((global)) void k(float* x) { *x = N; }\n'
CL_KERNEL = b"kernel void k(global float* x) { x[get_global_id(0)] = sin(x[0]) * N; }\n"

#: Takes minutes, in little memory.
SLOW = b"""
constexpr unsigned f() { unsigned s = 0; for (unsigned i = 0; i < ~0u; ++i) s += i; return s; }
static_assert(f() != 3);
"""
SLOW_OPTIONS = ("-std=c++17", "-fconstexpr-steps=4294967295")
#: A macro that expands to two hundred million tokens.
GREEDY = (
    b"#define A0 1,1,1,1,1,1,1,1,1,1,1,1,\n"
    + b"".join(b"#define A%d A%d A%d A%d A%d\n" % (i, *[i - 1] * 4) for i in range(1, 13))
    + b"constexpr int x[] = {A12};\n"
)


def blob(content: bytes) -> str:
    digest = hashlib.sha256(content).hexdigest()
    BLOBS[digest] = content
    return digest


def hip_job(
    source: bytes,
    *options: str,
    name: str = "k.cpp",
    arch: str = "gfx1030",
    includes: tuple[tuple[str, bytes], ...] = (),
) -> Job:
    """The chain that hiprtc runs."""
    isa = f"amdgcn-amd-amdhsa--{arch}"
    inputs = [FileInput(1, name, blob(source))]
    inputs += [FileInput(2, include, blob(content)) for include, content in includes]
    common = ("-O3", "-nogpuinc", f"--offload-arch={arch}", *options)
    first = Action(0xD, 3, isa, common, "", False, tuple(inputs))
    last = Action(7, 3, isa, (), "", False, (ActionOutput(0, 7, 0),))
    return Job((first, last), ActionOutput(1, 8, 0))


def cl_job(source: bytes, *options: str, name: str = "k.cl", arch: str = "gfx1030") -> Job:
    """The chain that MIOpen runs for OpenCL (comgr.cpp)."""
    isa = f"amdgcn-amd-amdhsa--{arch}"
    compiled = Action(0xC, 1, isa, options, "", False, (FileInput(1, name, blob(source)),))
    code = Action(4, 1, isa, ("-O3",), "", False, (ActionOutput(0, 6, 0),))
    linked = Action(7, 1, isa, (), "", False, (ActionOutput(1, 7, 0),))
    return Job((compiled, code, linked), ActionOutput(2, 8, 0))


class Bench:
    """A store and a work folder; `run` compiles jobs given in any order."""

    def __init__(self, toolchain: Toolchain, folder: Path):
        self.toolchain = toolchain
        self.folder = folder
        self.store = Store(folder / "store")

    def run(
        self,
        *jobs: Job,
        workers: int = 2,
        timeout_s: float = 300,
        memory_bytes: int | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> CompileReport:
        return compile_jobs(
            self.toolchain,
            {self.key(job): job for job in jobs},
            BLOBS,
            self.store,
            workers=workers,
            work_dir=self.folder / "work",
            timeout_s=timeout_s,
            memory_bytes=memory_bytes,
            progress=progress,
        )

    def key(self, job: Job) -> str:
        return job.key(self.toolchain.fingerprint)

    def object(self, job: Job) -> bytes:
        entry = self.store.get(self.key(job))
        assert entry is not None
        return bz2.decompress(entry.blob) if entry.uncompressed_size else entry.blob

    def left_behind(self) -> list[Path]:
        return sorted((self.folder / "work").iterdir())


@pytest.fixture
def bench(toolchain: Toolchain, tmp_path: Path) -> Bench:
    return Bench(toolchain, tmp_path)


def kill_workers(signal_number: int, times: int) -> Callable[[Progress], None]:
    """Kill the workers the first `times` times that a job is running."""
    seen: set[int] = set()

    def progress(state: Progress) -> None:
        new = set(guests()) - seen
        if state.running and new and len(seen) < times:
            seen.update(new)
            for pid in new:
                os.kill(pid, signal_number)

    return progress


def test_objects_are_packed_as_miopen_packs_them(bench: Bench) -> None:
    jobs = [hip_job(HIP_KERNEL, "-DN=1"), cl_job(CL_KERNEL, "-DN=2.0f")]
    report = bench.run(*jobs)
    assert (report.compiled, report.found, report.failures) == (2, 0, ())
    assert report.cpu_seconds > 0
    for job in jobs:
        entry, code_object = bench.store.get(bench.key(job)), bench.object(job)
        assert entry is not None
        record = Record.pack("k.o", "", code_object)
        assert entry.blob == record.kernel_blob
        assert entry.kernel_hash == record.kernel_hash
        assert entry.uncompressed_size == record.uncompressed_size
        assert entry.kernel_file == job.kernel_file
        assert code_object[:4] == b"\x7fELF"
        assert b"k.kd" in code_object
    assert bench.left_behind() == []
    assert guests() == []


def mixed_jobs() -> list[Job]:
    jobs = [hip_job(HIP_KERNEL, f"-DN={n}", arch=a) for n in (1, 2) for a in ("gfx906", "gfx1100")]
    jobs += [cl_job(CL_KERNEL, f"-DN={n}", arch=a) for n in (1, 2) for a in ("gfx90a", "gfx1010")]
    # An option of LLVM is a global variable of the library: it must not reach the next job.
    jobs.append(hip_job(HIP_KERNEL, "-DN=1", "-mllvm", "-amdgpu-waitcnt-forcezero=1"))
    return [*jobs, hip_job(HIP_KERNEL, "-DN=1")]


def test_objects_depend_neither_on_workers_nor_on_what_ran_before(
    toolchain: Toolchain, tmp_path: Path
) -> None:
    jobs = mixed_jobs()
    alone = Bench(toolchain, tmp_path / "alone")
    for job in jobs:
        alone.run(job, workers=1)
    expected = [alone.object(job) for job in jobs]
    assert len(set(expected)) == len(jobs)
    for workers in (1, 3):
        together = Bench(toolchain, tmp_path / str(workers))
        together.run(*jobs, workers=workers)
        assert [together.object(job) for job in jobs] == expected


def test_what_is_in_the_store_is_not_compiled_again(bench: Bench) -> None:
    bench.run(hip_job(HIP_KERNEL, "-DN=1"))
    states: list[Progress] = []
    report = bench.run(*mixed_jobs()[-1:], hip_job(HIP_KERNEL, "-DN=3"), progress=states.append)
    assert (report.found, report.compiled) == (1, 1)
    assert {(state.total, state.in_store) for state in states} == {(2, 1)}
    assert (states[-1].done, states[-1].failed, states[-1].running) == (1, 0, ())
    assert ("k.cpp",) in [state.running for state in states]


def test_jobs_that_differ_in_unused_macros_are_compiled_once(
    bench: Bench, toolchain: Toolchain, tmp_path: Path
) -> None:
    jobs = [
        make(source, f"-DN={n}", f"-DUNUSED={u}")
        for make, source in ((hip_job, HIP_KERNEL), (cl_job, CL_KERNEL))
        for n in (1, 2)
        for u in (1, 2, 3)
    ]
    report = bench.run(*jobs)
    assert (report.compiled, report.deduplicated) == (4, 8)
    for job in jobs:  # each by itself, in a store that knows nothing
        alone = Bench(toolchain, tmp_path / bench.key(job))
        assert alone.run(job).compiled == 1
        assert alone.object(job) == bench.object(job)


def test_a_later_run_finds_the_content_of_an_earlier_one(bench: Bench) -> None:
    first = [cl_job(CL_KERNEL, "-DN=1", f"-DUNUSED={u}") for u in (1, 2)]
    later = [cl_job(CL_KERNEL, "-DN=1", f"-DUNUSED={u}") for u in (3, 4)]
    bench.run(*first)
    report = bench.run(*later)
    assert (report.compiled, report.deduplicated) == (0, 2)
    assert len({bench.object(job) for job in (*first, *later)}) == 1


def test_a_macro_in_a_pragma_keeps_jobs_apart(bench: Bench) -> None:
    source = b"""kernel void k(global float* x, int n) {
    #pragma unroll N
    for(int i = 0; i < n; i++) x[i] *= x[i + 3];
    }"""
    jobs = [cl_job(source, f"-DN={n}") for n in (2, 8)]
    report = bench.run(*jobs)
    assert (report.compiled, report.deduplicated) == (2, 0)
    assert bench.object(jobs[0]) != bench.object(jobs[1])


def test_includes_reach_the_compiler_even_empty_ones(bench: Bench) -> None:
    source = b'#include "value.h"\n#include "nothing.h"\n' + HIP_KERNEL
    includes = (("value.h", b"#define N 4\n"), ("nothing.h", b""))
    job = hip_job(source, includes=includes)
    assert bench.run(job).compiled == 1


def test_a_compiler_error_is_reported_with_its_log_and_not_retried(bench: Bench) -> None:
    bad, good = hip_job(b"nonsense\n", name="bad.cpp"), hip_job(HIP_KERNEL, "-DN=1")
    states: list[Progress] = []
    report = bench.run(bad, good, workers=1, progress=states.append)
    (failure,) = report.failures
    assert (failure.key, failure.kernel_file) == (bench.key(bad), "bad.cpp")
    assert failure.reason == "compiler error"
    assert "bad.cpp:1:1: error: unknown type name 'nonsense'" in failure.log
    spans = itertools.groupby("bad.cpp" in state.running for state in states)
    assert [running for running, _ in spans].count(True) == 1
    assert report.compiled == 1
    log = bench.store.log(bench.key(bad))
    assert log is not None
    assert failure.log in log
    assert "/comgr-" not in log


def test_warnings_of_a_good_job_are_kept(bench: Bench) -> None:
    job = hip_job(b'#warning "look at this"\n' + HIP_KERNEL, "-DN=1")
    assert bench.run(job).compiled == 1
    assert "look at this" in (bench.store.log(bench.key(job)) or "")


def test_a_job_that_hangs_costs_one_job(bench: Bench) -> None:
    slow = hip_job(SLOW, *SLOW_OPTIONS, name="slow.cpp")
    others = mixed_jobs()[:4]
    report = bench.run(slow, *others, timeout_s=3)
    assert [(failure.kernel_file, failure.reason) for failure in report.failures] == [
        ("slow.cpp", "timeout")
    ]
    assert report.compiled == len(others)
    assert bench.left_behind() == []


def test_a_job_that_exhausts_memory_costs_one_job(bench: Bench) -> None:
    greedy = hip_job(GREEDY, name="greedy.cpp")
    others = mixed_jobs()[:4]
    report = bench.run(greedy, *others, memory_bytes=400 << 20)
    (failure,) = report.failures
    assert (failure.kernel_file, failure.reason) == ("greedy.cpp", "out of memory")
    assert "out of memory" in failure.log
    assert report.compiled == len(others)


def test_an_option_that_ends_the_process_costs_one_job(bench: Bench) -> None:
    ends = hip_job(HIP_KERNEL, "-DN=1", "-mllvm", "-no-such-option", name="ends.cpp")
    other = hip_job(HIP_KERNEL, "-DN=1")
    report = bench.run(ends, other)
    (failure,) = report.failures
    assert failure.reason == "crash: exit status 1"
    assert "-no-such-option" in failure.log
    assert report.compiled == 1


def test_a_job_whose_worker_crashes_once_is_compiled_all_the_same(bench: Bench) -> None:
    job = hip_job(HIP_KERNEL, "-DN=1")
    report = bench.run(job, workers=1, progress=kill_workers(signal.SIGSEGV, times=1))
    assert (report.compiled, report.failures) == (1, ())


def test_a_job_that_crashes_twice_costs_one_job(bench: Bench) -> None:
    slow = hip_job(SLOW, *SLOW_OPTIONS, name="slow.cpp")
    report = bench.run(slow, workers=1, progress=kill_workers(signal.SIGSEGV, times=2))
    (failure,) = report.failures
    assert (failure.kernel_file, failure.reason) == ("slow.cpp", "crash: signal 11")
    assert bench.store.log(bench.key(slow)) is not None


def test_too_little_memory_to_start_is_a_worker_error(bench: Bench) -> None:
    with pytest.raises(WorkerError, match="did not start: out of memory"):
        bench.run(hip_job(HIP_KERNEL, "-DN=1"), memory_bytes=5 << 20)
    assert guests() == []


def test_an_interruption_kills_the_workers_and_keeps_what_is_done(bench: Bench) -> None:
    slow, quick = hip_job(SLOW, *SLOW_OPTIONS, name="slow.cpp"), hip_job(HIP_KERNEL, "-DN=1")

    def progress(state: Progress) -> None:
        if state.done:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        bench.run(slow, quick, progress=progress)
    assert guests() == []
    assert bench.left_behind() == []
    assert bench.store.get(bench.key(quick)) is not None


def test_a_full_store_stops_the_run_and_leaves_no_worker(bench: Bench) -> None:
    bench.folder.joinpath("store").write_text("a file is in the way")
    with pytest.raises(HostError, match="write to the store"):
        bench.run(*mixed_jobs())
    assert guests() == []
    assert bench.left_behind() == []


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def killed(bench: Bench) -> Callable[[list[Job]], list[int]]:
    """Run jobs in a process that is killed once one of them is done; returns its workers."""

    def run(jobs: list[Job]) -> list[int]:
        done = bench.folder / "done"
        parent = os.fork()
        if not parent:
            bench.run(*jobs, progress=lambda state: done.touch() if state.done else None)
            os._exit(0)
        until(done.exists)
        workers = guests(parent)
        os.kill(parent, signal.SIGKILL)
        os.waitpid(parent, 0)
        return workers

    return run


def test_a_killed_run_leaves_no_orphans_and_loses_the_running_jobs_only(
    bench: Bench, killed: Callable[[list[Job]], list[int]]
) -> None:
    slow = hip_job(SLOW, *SLOW_OPTIONS, name="slow.cpp")
    quick = mixed_jobs()
    workers = killed([slow, *quick])
    assert len(workers) == 2
    until(lambda: not any(map(alive, workers)))
    finished = bench.store.stats().entries
    assert finished >= 1
    report = bench.run(*quick)
    assert (report.found, report.compiled) == (finished, len(quick) - finished)
