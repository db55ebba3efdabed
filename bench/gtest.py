"""Runs MIOpen's own tests, `miopen_gtest`, on virtual GPUs, and writes docs/gtests.md of it.

No kernel runs, so a test that compares numbers fails; what it asks MIOpen to compile counts.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gtest_report import GOALS, CpuRun, Suite, document, unexplained
from kdbforge import Toolchain, find_gpu, find_toolchain, plan
from kdbforge.files import write_whole
from kdbforge.miopen.replay import library_environment
from kdbforge.miopen.systemdb import link_system_db
from kdbforge.runner.program import find_program
from kdbforge.runner.run import needed_sonames
from kdbforge.vgpu.journal import read_journal
from kdbforge.vgpu.launch import compiler_environment
from kdbforge.vgpu.process import CompileMode, MemoryMode, VirtualGpu

PROGRAM = "miopen_gtest"
#: The wall time that a suite may take for each second of its CPU time; a test may also wait.
_PATIENCE = 60
_ENDED = re.compile(r"^\[ +(OK|FAILED|SKIPPED) +\] ([^\s,]+)(?:, where .*)? \(\d+ ms\)$", re.M)
_EMBEDDED = re.compile(rb"(?<=\0)[A-Za-z0-9_]+\.(?:cl|cpp)(?=\0)")


@dataclasses.dataclass(frozen=True, slots=True)
class Done:
    """What one process of the tests did."""

    ended: Sequence[tuple[str, str]]  # verdict and name of each test
    signal: int
    kernels: tuple[str, ...]
    unsupported: Mapping[str, int]


def main() -> int:
    """Run what is not in the results yet, and write the document."""
    options = _parse()
    toolchains = [find_toolchain(name) for name in options.toolchain or [None]]
    toolchain = toolchains[0]
    results = _read(options, toolchain)
    give_up = time.monotonic() + options.seconds
    for one in toolchains:
        if options.cpu or one.name not in results["cpu"]:
            results["cpu"][one.name] = dataclasses.asdict(_cpu(one, options.gpu))
            _write(options.results, results)
    suites = [name for name in _suites(toolchain, options.gpu) if "GPU_" in name]
    done = results["suites"]
    for name in _one_of_each_first(suites):
        if time.monotonic() > give_up:
            break
        if name not in done:
            done[name] = dataclasses.asdict(
                _suite(toolchain, options.gpu, name, options.limit, give_up)
            )
            _write(options.results, results)
    if options.problems is not None and "planned" not in results:
        results["planned"] = _planned(toolchain, options.problems, options.gpu)
        _write(options.results, results)
    cpus = [CpuRun(**results["cpu"][one.name]) for one in toolchains]
    with write_whole(options.output) as file:
        file.write(
            document(
                options.gpu, options.limit, cpus, suites,
                {name: Suite(**one) for name, one in done.items()},
                results.get("planned", {}), _embedded(toolchain),
            ).encode()
        )  # fmt: skip
    good = (cpu.passed >= GOALS.get(cpu.version, 1) and not unexplained(cpu) for cpu in cpus)
    return 0 if all(good) else 1


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    here = Path(__file__).parent
    parser.add_argument(
        "--toolchain", action="append",
        help="may be repeated; the suites for GPUs are those of the first",
    )  # fmt: skip
    parser.add_argument("--gpu", default="gfx90a68", help="MIOpen's tests know few GPUs")
    parser.add_argument("--limit", type=int, default=3, help="CPU seconds of a GPU suite")
    parser.add_argument("--seconds", type=float, default=900, help="for all GPU suites")
    parser.add_argument("--cpu", action="store_true", help="run the CPU suites again")
    parser.add_argument("--problems", type=Path, help="compare with a plan of these problems")
    parser.add_argument(
        "--results", type=Path, default=Path("build/gtest.json"),
        help="what was run so far; another run goes on from there",
    )  # fmt: skip
    parser.add_argument("--output", type=Path, default=here.parent / "docs" / "gtests.md")
    return parser.parse_args()


def _read(options: argparse.Namespace, toolchain: Toolchain) -> dict[str, Any]:
    """Read what was run so far, if it was run in the same way."""
    how = {"library": toolchain.build_id, "gpu": options.gpu, "limit": options.limit}
    if not options.results.exists():
        return {"how": how, "cpu": {}, "suites": {}}
    results: dict[str, Any] = json.loads(options.results.read_text())
    if results["how"] != how:
        sys.exit(f"{options.results}: these are results of {results['how']}, not of {how}")
    return results


def _write(path: Path, results: Mapping[str, object]) -> None:
    path.parent.mkdir(exist_ok=True)
    with write_whole(path) as file:
        file.write(json.dumps(results, indent=1).encode())


def _cpu(toolchain: Toolchain, gpu: str) -> CpuRun:
    """Run the suites that need no GPU, with two: one test switches between devices."""
    # Tests of what is applicable to a GPU expect that assembly kernels are.
    done = _run(toolchain, (gpu, gpu), "*CPU_*", {"MIOPEN_DEBUG_GCN_ASM_KERNELS": "1"}, None)
    names: dict[str, list[str]] = {"OK": [], "FAILED": [], "SKIPPED": []}
    for verdict, name in done.ended:
        names[verdict].append(name)
    return CpuRun(
        toolchain.name, toolchain.miopen_version, len(names["OK"]), names["SKIPPED"],
        names["FAILED"], done.signal, dict(done.unsupported),
    )  # fmt: skip


def _suites(toolchain: Toolchain, gpu: str) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        argv, environment = _command(toolchain, (gpu,), Path(folder), ["--gtest_list_tests"])[1:]
        listed = subprocess.run(
            argv, env=environment, stdout=subprocess.PIPE, text=True, check=True
        ).stdout
    return re.findall(r"^([\w/]+)\.(?:\s|$)", listed, re.M)


def _one_of_each_first(suites: Sequence[str]) -> list[str]:
    """Order suites so that those that differ in data type only are far apart."""
    seen: dict[str, int] = {}
    order: list[tuple[int, int, str]] = []
    for name in suites:
        family = re.sub(r"_(FP|BFP|I|U)\d+(_FP\d+)?$", "", name.rpartition("/")[2])
        seen[family] = seen.get(family, 0) + 1
        order.append((seen[family], len(order), name))
    return [name for *_, name in sorted(order)]


def _suite(toolchain: Toolchain, gpu: str, name: str, limit: int, give_up: float) -> Suite:
    started = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = _run(toolchain, (gpu,), f"{name}.*", {}, limit, give_up)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    verdicts = [verdict for verdict, _ in done.ended]
    return Suite(
        verdicts.count("OK"), verdicts.count("FAILED"), verdicts.count("SKIPPED"), done.signal,
        list(done.kernels), dict(done.unsupported),
        round(ended.ru_utime + ended.ru_stime - started.ru_utime - started.ru_stime, 2),
    )  # fmt: skip


def _run(
    toolchain: Toolchain,
    gpus: Sequence[str],
    tests: str,
    variables: Mapping[str, str],
    limit: int | None,
    give_up: float = float("inf"),
) -> Done:
    """Run some tests in a process of their own, with empty user databases."""
    with tempfile.TemporaryDirectory() as folder:
        args = [f"--gtest_filter={tests}"]
        if limit is not None:
            # A suite that is cut short has then at least seen all sorts of its tests. Some of
            # those that need no GPU change global state that others read: they stay in order.
            args += ["--gtest_shuffle", "--gtest_random_seed=1"]
        vgpu, argv, environment = _command(toolchain, gpus, Path(folder), args)
        output = Path(folder, "output")
        with output.open("wb") as file:
            process = subprocess.Popen(
                argv, env={**environment, **variables}, cwd=folder, stdin=subprocess.DEVNULL,
                stdout=file, stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        try:
            if limit is not None:
                resource.prlimit(process.pid, resource.RLIMIT_CPU, (limit, limit))
            patience = min(give_up - time.monotonic(), limit * _PATIENCE) if limit else None
            code = process.wait(patience)
        except subprocess.TimeoutExpired:
            code = -signal.SIGXCPU
        finally:
            process.kill()
            process.wait()
        capture = read_journal([vgpu.journal])
        kernels = {capture.job(load.marker).kernel_file for load in capture.loads if load.marker}
        ended = _ENDED.findall(output.read_text(errors="replace"))
    # At its hard limit the kernel does not ask any more.
    ending = -code if code < 0 else 0
    cut = ending in (signal.SIGXCPU, signal.SIGKILL) and limit is not None
    return Done(
        ended, signal.SIGXCPU if cut else ending, tuple(sorted(kernels)), capture.unsupported
    )


def _command(
    toolchain: Toolchain, gpus: Sequence[str], folder: Path, args: Sequence[str]
) -> tuple[VirtualGpu, list[str], dict[str, str]]:
    """As `kdbforge run --compile capture` starts a program, but for a time limit around it."""
    program = find_program(PROGRAM, toolchain)
    first, *more = (find_gpu(name) for name in gpus)
    vgpu = VirtualGpu.set_up(
        toolchain, first, CompileMode.CAPTURE, folder / "vgpu",
        memory=MemoryMode.BACKED, more_gpus=more, sonames=needed_sonames(program, toolchain),
    )  # fmt: skip
    argv, needed = vgpu.program_command([str(program.path), *args], by_host=program.by_host)
    environment = {
        **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        "TMPDIR": str(folder),
        "MIOPEN_CUSTOM_CACHE_DIR": str(folder / "cache"),
        "MIOPEN_USER_DB_PATH": str(folder / "userdb"),
        "MIOPEN_SYSTEM_DB_PATH": str(link_system_db(toolchain, folder / "system-db", ())),
        "AMD_COMGR_CACHE": "0",
        "MIOPEN_LOG_LEVEL": "1",
        "OMP_NUM_THREADS": "1",
        **library_environment(toolchain),
        **compiler_environment(toolchain),
        **needed,
    }
    return vgpu, argv, environment


def _planned(toolchain: Toolchain, problems: Path, gpu: str) -> dict[str, list[str]]:
    """Name the kernel files of a plan's records, and those of keys that differ each time."""
    (made,) = plan([str(problems)], [gpu], toolchain=toolchain, policy="all").gpus
    return {
        "records": sorted({one.kernel_name.removesuffix(".o") for one in made.records}),
        "unstable": sorted({one.kernel_name.removesuffix(".o") for one in made.unstable}),
    }


def _embedded(toolchain: Toolchain) -> list[str]:
    return sorted({name.decode() for name in _EMBEDDED.findall(toolchain.libmiopen.read_bytes())})


if __name__ == "__main__":
    sys.exit(main())
