"""Problems that crash or hang libMIOpen: each costs itself and nothing else.

The crash happens in the process of the real library: a library of ours stands before it and
raises a signal for a certain group count.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
from pathlib import Path

import pytest
from small import SMALL, Run

from kdbforge import Plan, Toolchain, find_gpu, plan
from kdbforge.errors import VirtualGpuError
from kdbforge.miopen.replay import ReplayOptions, replay
from kdbforge.problems import load
from kdbforge.vgpu.process import CompileMode

SOURCE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>
int miopenSetConvolutionGroupCount(void *descriptor, int groups) {
    int (*real)(void *, int) = (int (*)(void *, int))dlsym(RTLD_NEXT, __func__);
    if (groups == 2) { HARM; }
    return real(descriptor, groups);
}
"""
#: A fusion that MIOpen has no solver for on gfx12.
REFUSED = "MIOpenDriver CBAInfer -n 1 -c 8 -k 8 -J 0\n"
GROUPED = "MIOpenDriver conv -n 1 -c 16 -H 14 -W 14 -k 16 -y 3 -x 3 -p 1 -q 1 -g 2 -F 1\n"


def harmed(toolchain: Toolchain, folder: Path, harm: str) -> Toolchain:
    """The toolchain with a libMIOpen that does `harm` when a problem has two groups."""
    source, library = folder / "harm.c", folder / "libharm.so"
    source.write_text(SOURCE)
    subprocess.run(
        [
            "cc", "-shared", "-fPIC", f"-DHARM={harm}", "-o", library, source,
            "-Wl,--no-as-needed", toolchain.libmiopen,
        ],
        check=True,
    )  # fmt: skip
    return dataclasses.replace(toolchain, libmiopen=library)


def written(folder: Path, text: str) -> str:
    path = folder / "problems.txt"
    path.write_text(text)
    return str(path)


@pytest.fixture
def undisturbed(toolchain: Toolchain, small: Path) -> Plan:
    return plan([str(small)], ["gfx906_60"], toolchain=toolchain, policy="normal")


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        ("raise(SIGSEGV)", "The process died: SIGSEGV"),
        ("raise(SIGABRT)", "The process died: SIGABRT"),
        ("kill(getpid(), SIGKILL)", "The process died: SIGKILL"),
        ("_exit(3)", "The process died: exit code 3"),
    ],
)
def test_a_crash_costs_its_problem_alone(
    toolchain: Toolchain, tmp_path: Path, undisturbed: Plan, harm: str, reason: str
) -> None:
    lines = SMALL.splitlines(keepends=True)
    source = written(tmp_path, lines[0] + GROUPED + "".join(lines[1:]))
    made = plan(
        [source],
        ["gfx906_60"],
        toolchain=harmed(toolchain, tmp_path, harm),
        policy="normal",
        work_dir=tmp_path / "work",
    )
    (gpu,) = made.gpus
    (lost,) = gpu.unplanned
    assert (lost.problem, lost.call, lost.reason) == (1, "find-normal", reason)
    assert gpu.records == undisturbed.gpus[0].records
    assert [needs for i, needs in enumerate(gpu.needs) if i != 1] == [*undisturbed.gpus[0].needs]
    assert gpu.needs[1] == ()


@pytest.mark.parametrize("place", [0, 3])
def test_the_first_and_the_last_problem_may_crash_too(
    toolchain: Toolchain, tmp_path: Path, undisturbed: Plan, place: int
) -> None:
    lines = SMALL.splitlines(keepends=True)
    source = written(tmp_path, "".join([*lines[:place], GROUPED, *lines[place:]]))
    made = plan(
        [source], ["gfx906_60"], toolchain=harmed(toolchain, tmp_path, "raise(SIGSEGV)"),
        policy="normal",
    )  # fmt: skip
    assert [lost.problem for lost in made.gpus[0].unplanned] == [place]
    assert made.gpus[0].records == undisturbed.gpus[0].records


def test_a_library_that_always_crashes_is_given_up(toolchain: Toolchain, tmp_path: Path) -> None:
    source = written(tmp_path, SMALL)
    broken = harmed(toolchain, tmp_path, "")
    (tmp_path / "harm.c").write_text(
        "__attribute__((constructor)) static void die(void) { __builtin_trap(); }"
    )
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", broken.libmiopen, tmp_path / "harm.c"], check=True
    )
    with pytest.raises(VirtualGpuError, match="died before it ran any problem"):
        plan([source], ["gfx906_60"], toolchain=broken, work_dir=tmp_path / "work")
    assert list((tmp_path / "work").iterdir()) == []


def test_a_hang_costs_its_problem_alone(toolchain: Toolchain, tmp_path: Path) -> None:
    problems = load([written(tmp_path, GROUPED + SMALL)])
    options = ReplayOptions(CompileMode.CAPTURE, ("find-normal",), hang_seconds=5)
    result = replay(
        harmed(toolchain, tmp_path, "for (;;) pause()"),
        find_gpu("gfx906_60"),
        problems.problems,
        options,
        tmp_path / "run",
    )
    assert [outcome.error for outcome in result.outcomes] == ["No answer for 5 s", "", "", ""]


def test_a_problem_that_miopen_cannot_run_is_named(
    kdbforge: Run, tmp_path: Path, shared_store: Path
) -> None:
    """Its tensors do not fit into this GPU's memory."""
    large = "MIOpenDriver conv -n 512 -c 256 -H 400 -W 400 -k 16 -y 3 -x 3 -p 1 -q 1 -F 1\n"
    source = written(tmp_path, large + SMALL)
    done = kdbforge("plan", source, "--gpu", "gfx906_60", "--policy", "normal")
    assert done.returncode == 1
    said = done.stderr.splitlines()
    assert "gfx906_60: 7 records for 4 problems" in said
    (place,) = (n for n, line in enumerate(said) if line.startswith("not planned on gfx906_60, "))
    assert said[place].split(", ")[1].startswith("find-normal: MIOpenDriver conv -n 512 -c 256 ")
    assert said[place + 1] == "  hipMalloc of 83886080000 bytes returned status 2"
    built = kdbforge(
        "--store", shared_store, "build", source, "--gpu", "gfx906_60", "-o", tmp_path / "out"
    )
    assert "gfx906/60 proven: 4 problems" in built.stderr
    manifest = json.loads((tmp_path / "out" / "gfx906_60.manifest.json").read_text())
    (gpu,) = manifest["gpus"]
    calls = [entry["call"] for entry in gpu["unplanned"]]
    assert calls == ["immediate", "find-fast", "find"]


def test_a_problem_without_a_solution_does_not_fail_a_build(
    kdbforge: Run, tmp_path: Path, shared_store: Path
) -> None:
    """MIOpen itself says that it has none on this GPU: no database could help."""
    source = written(tmp_path, REFUSED + SMALL)
    done = kdbforge(
        "--store", shared_store, "build", source, "--gpu", "gfx1201_32", "-o", tmp_path / "out",
        "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "no solution on gfx1201_32, execute: MIOpenDriver CBAInfer " in done.stderr
    assert "miopenCompileFusionPlan returned status 8" in done.stderr
    (entry,) = json.loads(done.stdout)["plan"]["gpus"][0]["unplanned"]
    assert (entry["problem"], entry["unsupported"]) == (0, True)


def test_finding_no_solution_is_having_none(kdbforge: Run, tmp_path: Path) -> None:
    """Find 2.0 says it with a count of 0 and no error; here of 8-bit attention in MIOpen 3.5."""
    source = written(tmp_path, "MIOpenDriver mhafp8 -n 2\n" + SMALL)
    done = kdbforge("plan", source, "--gpu", "gfx942130")
    assert done.returncode == 0, done.stderr
    assert "no solution on gfx942130, execute: MIOpenDriver mhafp8 " in done.stderr
    assert "miopenFindSolutions found no solution" in done.stderr


def test_no_solution_for_anything_fails(kdbforge: Run, tmp_path: Path) -> None:
    done = kdbforge("plan", written(tmp_path, REFUSED), "--gpu", "gfx1201_32")
    assert done.returncode == 1
    assert "not planned on gfx1201_32, execute: MIOpenDriver CBAInfer " in done.stderr
