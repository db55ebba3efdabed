"""What was seen of MIOpen's own tests on a virtual GPU, and the document about it.

Runs nothing.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["GOALS", "CpuRun", "Suite", "document", "unexplained"]

#: How many of its CPU tests a version must pass at least.
GOALS = {"3.5.1": 6680}
#: Failures that do not come from the virtual GPU: in which version, name of the test, cause.
CAUSES = (
    (
        "",
        re.compile(r"CPU_Dump_NAN_"),
        "needs numbers: a kernel on the GPU is to find a NaN",
    ),
    (
        "",
        re.compile(r"CPU_UnitTestImplicitGemmCKUtil_NONE\.TestParsing/[05]$"),
        "Composable Kernel is not in this build of the library",
    ),
    (
        "",
        re.compile(r"CPU_DBSync_NONE\."),
        "looks for `gfx90a.kdb` or a perf-db, which this package does not ship",
    ),
    (
        "3.4.0",
        re.compile(r"CPU_kernel_inliner_NONE\.InlinerTest$"),
        "runs the program `addkernels`, which this package does not ship",
    ),
    (
        "3.4.0",
        re.compile(r"/CPU_UnitTestConvSolver\w+DevApplicability"),
        "asks MIOpen's mock devices, not the GPU; this build knows of no assembler",
    ),
)

#: Calls that are refused for a reason.
REFUSED = {
    "popen": "some tests start a program of MIOpen's build folder, which no package has, through a "
    "libMIOpen without COMGR, and that may start nothing but its compiler"
}
#: Why only the tests ask for a kernel file: by the start of its name.
REASONS = (
    ("MIOpenVecAdd", "a kernel of the tests"),
    ("MIOpenBatchNormActivInferHIP", "the test starts the kernel itself, past MIOpen's solvers"),
    ("batched_transpose", "the tests call MIOpen's internal transposer themselves"),
    ("general_tensor_reorder", "the tests call MIOpen's internal transposer themselves"),
    ("convolution_forward_implicit_gemm_v6r1", "the tests switch its solver on"),
    (
        "static_kernel_gridwise",
        "the tests run a solver that MIOpen does not choose here",
    ),
)


@dataclass(frozen=True, slots=True)
class CpuRun:
    """The suites that need no GPU."""

    toolchain: str  # its name
    version: str  # MIOpen's own, e.g. "3.5.1"
    passed: int
    skipped: list[str]
    failed: list[str]
    signal: int  # that ended the process; 0: none
    unsupported: dict[str, int]  # calls of HIP functions that the virtual GPU has not


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite for GPUs."""

    passed: int
    failed: int
    skipped: int
    signal: int  # SIGXCPU: its time was up; 0: it ran to its end
    kernels: list[str]  # files that MIOpen would have compiled
    unsupported: dict[str, int]
    seconds: float  # of CPU time


def cause(test: str, version: str) -> str:
    """Say why a test of the CPU suites fails; empty if it may be the virtual GPU's fault."""
    known = (why for of, pattern, why in CAUSES if of in ("", version) and pattern.search(test))
    return next(known, "")


def unexplained(cpu: CpuRun) -> list[str]:
    """Name what is held against the virtual GPU."""
    found = [test for test in cpu.failed if not cause(test, cpu.version)]
    if cpu.signal:
        found.append(f"ended by {signal.Signals(cpu.signal).name}")
    return found + sorted(cpu.unsupported.keys() - REFUSED.keys())


def document(
    gpu: str,
    limit: int,
    cpus: Sequence[CpuRun],
    suites: Sequence[str],
    done: Mapping[str, Suite],
    planned: Mapping[str, Collection[str]],
    embedded: Collection[str],
) -> str:
    """Write all of docs/gtests.md."""
    parts = (
        _head(gpu),
        *(line for cpu in cpus for line in _cpu_part(cpu)),
        *_gpu_part(cpus[0].toolchain, suites, done, limit),
        *_kernel_part(done, planned, embedded),
        *_suite_table(done),
    )
    return "\n".join(parts) + "\n"


def _head(gpu: str) -> str:
    return (
        "# MIOpen's own tests on a virtual GPU\n\n"
        f"Written by `bench/gtest.py` from runs of MIOpen's `miopen_gtest` on a virtual `{gpu}`.\n"
        "How a distribution runs them in its package tests: [packaging.md](packaging.md).\n"
    )


def _cpu_part(cpu: CpuRun) -> Iterator[str]:
    yield f"## Suites that need no GPU: {cpu.toolchain} (MIOpen {cpu.version})\n"
    yield (
        f"`--gtest_filter='*CPU_*'`, two virtual GPUs, `MIOPEN_DEBUG_GCN_ASM_KERNELS=1`: "
        f"{cpu.passed} tests\npassed, {len(cpu.skipped)} skipped themselves, "
        f"{len(cpu.failed)} failed.\n"
    )
    if cpu.failed:
        yield "| failure | cause |\n|---|---|"
        for test in cpu.failed:
            why = cause(test, cpu.version) or "**the virtual GPU**, or not known"
            yield f"| `{test}` | {why} |"
        yield ""
    held = unexplained(cpu)
    yield (f"Held against the virtual GPU: {', '.join(f'`{one}`' for one in held) or 'nothing'}.\n")


def _gpu_part(
    toolchain: str, suites: Sequence[str], done: Mapping[str, Suite], limit: int
) -> Iterator[str]:
    whole = [suite for suite in done.values() if not suite.signal]
    cut = [suite for suite in done.values() if suite.signal == signal.SIGXCPU]
    crashed = {
        name: suite
        for name, suite in done.items()
        if suite.signal and suite.signal != signal.SIGXCPU
    }
    yield f"## Suites for GPUs: {toolchain}\n"
    yield (
        "Each suite ran in a process of its own, with compilations captured and no kernel run.\n"
        "What compares numbers fails, as it must; the run is for what MIOpen wants compiled.\n"
    )
    left = len(suites) - len(done)
    yield f"- {len(suites)} suites in all; {len(done)} were started, {left} were not."
    nothing = [suite for suite in whole if not suite.passed + suite.failed]
    skipped = sum(1 for suite in nothing if suite.skipped)
    yield (
        f"- {len(whole)} ran to their end; {skipped} of them skip all of their tests on this GPU\n"
        f"  or in this build, and {len(nothing) - skipped} have none that MIOpen has not disabled."
    )
    yield (
        f"- {len(cut)} were cut after {limit} s of CPU time, which MIOpen's references on the CPU\n"
        "  can use up alone: what they would ask for later is not known."
    )
    yield f"- {len(crashed)} ended by a signal" + (
        ": "
        + ", ".join(f"`{n}` ({signal.Signals(s.signal).name})" for n, s in crashed.items())
        if crashed
        else ""
    ) + "."  # fmt: skip
    called = {name for suite in done.values() for name in suite.unsupported}
    calls = sorted(called - REFUSED.keys())
    yield (
        "- HIP functions that the virtual GPU does not have: "
        + (", ".join(f"`{name}`" for name in calls) or "none was called")
        + "."
    )
    for name in sorted(called & REFUSED.keys()):
        yield f"- `{name}` was refused: {REFUSED[name]}."
    good = sorted(
        f"`{name}`" for name, s in done.items() if s.passed and not s.failed and not s.signal
    )  # fmt: skip
    yield f"- {len(good)} passed as a whole, without any number from a GPU: {', '.join(good)}.\n"


def _kernel_part(
    done: Mapping[str, Suite], planned: Mapping[str, Collection[str]], embedded: Collection[str]
) -> Iterator[str]:
    asked = {file for suite in done.values() for file in suite.kernels}
    yield "## Kernel files\n"
    yield (
        f"The suites asked for {len(asked)} kernel files"
        f" ({len(asked & set(embedded))} of the {len(embedded)} in the library).\n"
    )
    if not planned:
        return
    records = set(planned["records"])
    yield (
        "kdbforge's own problems (`bench/kernels.txt`, policy `all`) ask for"
        f" {len(records)} on the\nsame GPU, {len(records - asked)} of which these suites did"
        " not ask for. Only MIOpen's tests ask for:\n"
    )
    yield "| kernel file | why | suites |\n|---|---|---|"
    for file in sorted(asked - records):
        users = sorted(name for name, suite in done.items() if file in suite.kernels)
        more = f" and {len(users) - 2} more" if len(users) > 2 else ""
        names = ", ".join(f"`{user}`" for user in users[:2]) + more
        yield f"| `{file}` | {_why_only(file, planned['unstable'])} | {names} |"
    yield ""


def _why_only(file: str, unstable: Collection[str]) -> str:
    if file in unstable:
        return "planned, but its keys are unstable"
    return next((why for start, why in REASONS if file.startswith(start)), "not known")


def _suite_table(done: Mapping[str, Suite]) -> Iterator[str]:
    yield "## Each suite that was started\n"
    yield "| suite | passed | failed | skipped | ended | kernel files |\n|---|---|---|---|---|---|"
    for name, suite in sorted(done.items()):
        how = "yes" if not suite.signal else "cut" if suite.signal == signal.SIGXCPU else "signal"
        files = ", ".join(f"`{file}`" for file in suite.kernels) or "-"
        yield f"| `{name}` | {suite.passed} | {suite.failed} | {suite.skipped} | {how} | {files} |"
