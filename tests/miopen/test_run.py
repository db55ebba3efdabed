"""Programs on virtual GPUs: MIOpen's own driver, crashes, signals, and what is collected."""

from __future__ import annotations

import importlib.resources
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import processes_that_mention, started, wait_until
from small import Run

from driver_keys import check_driver_keys
from kdbforge import Toolchain, find_gpu
from kdbforge.errors import InputError
from kdbforge.planner.planfile import read_plan
from kdbforge.runner.program import find_program
from kdbforge.runner.run import RunOptions, run_program
from kdbforge.vgpu.process import CompileMode

CONV = "conv -n 2 -c 3 -H 16 -W 16 -k 8 -y 3 -x 3 -V 0 -i 1 -F 1"
SOFTMAX = "softmax -n 2 -c 3 -H 16 -W 16 -V 0 -i 1 -F 1"
DRIVER = ("--", "MIOpenDriver", *CONV.split())
GPU = ("--gpu", "gfx1030_40")
#: Something that has MIOpen's log line on its stderr, its own words, and no regular end.
CRASH = """
echo before >&2
echo 'MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver conv -n 1 -c 1' >&2
printf 'no line end' >&2
kill -SEGV $$
"""


def test_driver_with_problems_and_jobs(kdbforge: Run, tmp_path: Path) -> None:
    problems, plan = tmp_path / "problems.txt", tmp_path / "run.kdbplan"
    done = kdbforge("run", *GPU, "--collect-problems", problems, "--capture", plan, *DRIVER)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"MIOpenDriver {CONV}\n")
    assert "MIOpen(HIP): Command" not in done.stderr
    assert "1 driver lines of 2 MIOpen calls" in done.stderr
    listed = kdbforge("problems", problems)
    assert listed.returncode == 0, listed.stderr
    assert listed.stdout.startswith("MIOpenDriver conv -n 2 -c 3 -H 16 -W 16 -k 8")
    read = read_plan(plan)
    assert [gpu.basename for gpu in read.gpus] == ["gfx1030_40"]
    assert 0 < len(read.gpus[0].records) == len(read.jobs)


@pytest.mark.parametrize(
    "words",
    [
        "pool -M 0 --input 2x3x16x16 -V 0 -i 1",
        "bnorm -n 2 -c 3 -H 16 -W 16 -V 0 -i 1 --forw 1",
        "softmax -n 2 -c 3 -H 16 -W 16 -V 0 -i 1",
        "activ -n 2 -c 3 -H 16 -W 16 -V 0 -i 1",
        "lrn -n 2 -c 3 -H 16 -W 16 -V 0 -i 1",
    ],
)
def test_every_command_is_collected(kdbforge: Run, tmp_path: Path, words: str) -> None:
    problems = tmp_path / "problems.txt"
    done = kdbforge(
        "run", *GPU, "--collect-problems", problems, "--", "MIOpenDriver", *words.split()
    )
    assert done.returncode == 0, done.stderr + done.stdout
    assert "not supported by the virtual GPU" not in done.stderr
    lines = problems.read_text().splitlines()
    name = words.partition(" ")[0]
    assert lines[1].startswith(f"MIOpenDriver {name} ")


@pytest.mark.parametrize(
    "command",
    [
        "bnormfp16 -n 8 -c 16 -H 8 -W 8 -m 1 -F 2 -r 1 -L NHWC",  # its parameters are in fp32
        "bnormbfp16 -n 8 -c 16 -H 8 -W 8 -m 0 -F 1 -s 1 -r 1",
        "bnormfp16 -n 8 -c 16 -H 8 -W 8 -m 0 -F 0 -b 1 -s 1",
        "pool -W 1x4x8x8x8,NDHWC -I miopenIndexUint32",
        "CBAInfer -c 8 -k 8 -n 1",
        "reducefp16 -D 4,8,8 -R 1 -O 5",
    ],
)
def test_all_that_miopens_driver_asks_for_is_planned(
    toolchain: Toolchain, tmp_path: Path, command: str
) -> None:
    check_driver_keys(toolchain, "gfx1030_36", command, tmp_path)


def test_forbidden_then_with_the_database_that_was_built(
    kdbforge: Run, tmp_path: Path, shared_store: Path
) -> None:
    forbidden = ("run", *GPU, "--compile", "forbid")
    done = kdbforge(*forbidden, *DRIVER)
    assert done.returncode == 7
    assert "compilations were refused" in done.stderr
    problems, out = tmp_path / "problems.txt", tmp_path / "out"
    problems.write_text(f"MIOpenDriver {CONV}\n")
    built = kdbforge("build", problems, *GPU, "-o", out, "--no-prove", "--store", shared_store)
    assert built.returncode == 0, built.stderr
    done = kdbforge(*forbidden, "--kdb", out, *DRIVER)
    assert done.returncode == 0, done.stderr
    assert "refused" not in done.stderr


def test_really_compiled_and_kept(kdbforge: Run, tmp_path: Path) -> None:
    kept = ("--keep-cache", tmp_path / "kept")
    softmax = ("--", "MIOpenDriver", *SOFTMAX.split())
    done = kdbforge("run", *GPU, "--compile", "pass", *kept, *softmax)
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "kept" / "cache").rglob("gfx1030_40.ukdb"))
    done = kdbforge("run", *GPU, "--compile", "forbid", *kept, *softmax)
    assert done.returncode == 0, done.stderr


def test_crash_keeps_what_was_collected(kdbforge: Run, tmp_path: Path) -> None:
    problems = tmp_path / "problems.txt"
    done = kdbforge("run", *GPU, "--collect-problems", problems, "--", "sh", "-c", CRASH)
    assert done.returncode == 128 + signal.SIGSEGV
    assert done.stderr.startswith("before\nno line end")
    assert problems.read_text().endswith("\nMIOpenDriver conv -n 1 -c 1 # 1\n")


def test_stderr_is_the_same_as_without_kdbforge(kdbforge: Run, tmp_path: Path) -> None:
    script = ("sh", "-c", "printf 'one\\ntwo\\t3%%' >&2; echo out; exit 9")
    done = kdbforge("run", *GPU, "-q", "--collect-problems", tmp_path / "p", "--", *script)
    assert (done.returncode, done.stdout, done.stderr) == (9, "out\n", "one\ntwo\t3%")


def test_ctrl_c_reaches_the_program_and_its_code_comes_back(tmp_path: Path) -> None:
    ready, problems = tmp_path / "ready", tmp_path / "problems.txt"
    script = f"trap 'echo caught >&2; exit 5' INT; : > {ready}; while :; do sleep 0.05; done"
    args = (*GPU, "--collect-problems", problems, "--", "sh", "-c", script)
    with started("run", *args, store=tmp_path / "store") as process:
        wait_until(ready.exists, process)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 5
    assert said.startswith("caught\n")
    assert problems.exists()


def test_terminated_with_the_program(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    script = f": > {ready}; exec sleep 60"
    with started("run", *GPU, "--", "sh", "-c", script, store=tmp_path / "store") as process:
        wait_until(ready.exists, process)
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert processes_that_mention(ready) == []


def test_the_users_environment_gets_through(kdbforge: Run, tmp_path: Path) -> None:
    ours = {**os.environ, "MY_OWN": "mine", "MIOPEN_LOG_LEVEL": "3", "TMPDIR": str(tmp_path)}
    names = "$MY_OWN $MIOPEN_LOG_LEVEL $MIOPEN_CUSTOM_CACHE_DIR"
    done = kdbforge("run", *GPU, "--", "sh", "-c", f"echo {names}", env=ours)
    mine, level, cache = done.stdout.split()
    assert (mine, level) == ("mine", "3")
    assert cache.startswith(str(tmp_path))
    assert not list(tmp_path.iterdir())  # the private folders are gone again


@pytest.fixture(scope="module")
def hip_program(tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain) -> Path:
    """A HIP program with kernels in a fat binary; it needs HIPRTC, which the host does not have."""
    program = tmp_path_factory.mktemp("program") / "hip_program"
    ours = Path(str(importlib.resources.files("kdbforge.vgpu"))) / "lib"
    command = ["cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-o", str(program)]
    command += [str(Path(__file__).with_name("hip_program.c"))]
    command += [f"-L{folder}" for folder in (ours, *toolchain.library_path)]
    command += ["-l:libamdhip64.so.7", "-l:libhiprtc.so.7", "-Wl,--allow-shlib-undefined"]
    subprocess.run(command, check=True)
    return program


@pytest.mark.parametrize("mode", ["capture", "pass"])
def test_fat_binary_on_two_gpus(kdbforge: Run, hip_program: Path, mode: str) -> None:
    two = ("--gpu", "gfx90a68", "--gpu", "gfx1030_40")
    done = kdbforge("run", *two, "--compile", mode, "--", hip_program)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "gfx90a\ngfx1030\ndevice 0: 1\ndevice 1: 1\n"
    assert done.stderr == ""


def test_jobs_of_a_program_without_miopen(
    kdbforge: Run, hip_program: Path, tmp_path: Path, shared_store: Path
) -> None:
    plan = tmp_path / "plan"
    done = kdbforge("run", *GPU, "--capture", plan, "--", hip_program)
    assert "1 jobs for 0 records" in done.stderr
    done = kdbforge("compile", plan, "--store", shared_store)
    assert done.returncode == 0, done.stderr


#: What needs a kernel to run, and what needs Composable Kernel, which Debian's MIOpen has not.
CPU_FAILURES = {
    "CPU_Dump_NAN_FP32.testDump",
    "CPU_Dump_NAN_FP16.testDump",
    "CPU_Dump_NAN_BFP16.testDump",
    "Smoke/CPU_UnitTestImplicitGemmCKUtil_NONE.TestParsing/0",
    "Smoke/CPU_UnitTestImplicitGemmCKUtil_NONE.TestParsing/5",
}


def test_miopens_own_tests(kdbforge: Run) -> None:
    """Those that need no GPU, with two: one test switches between devices."""
    ours = {**os.environ, "MIOPEN_DEBUG_GCN_ASM_KERNELS": "1"}
    done = kdbforge(
        "run", "--gpu", "gfx90a68", "--gpu", "gfx90a68", "--",
        "miopen_gtest", "--gtest_filter=*CPU_*:-*DBSync*", env=ours,
    )  # fmt: skip
    failed = set(re.findall(r"^\[  FAILED  \] ([^ ,\n]+)", done.stdout, re.MULTILINE))
    passed = re.search(r"\[  PASSED  \] (\d+) tests", done.stdout)
    assert failed - {"5"} == CPU_FAILURES
    assert passed is not None
    assert int(passed[1]) >= 6680
    assert "not supported by the virtual GPU" not in done.stderr


#: A program that opens HIP by itself and calls what is not there.
CALLS = """
import ctypes
hip = ctypes.CDLL("libamdhip64.so.7")
count = ctypes.c_int()
assert hip.hipGetDeviceCount(ctypes.byref(count)) == 0
print(count.value, [hip.hipTexRefGetFlags(None, None) for _ in range(3)])
"""


@pytest.mark.parametrize("python", ["python3", sys.executable])
def test_unsupported_calls_are_counted(kdbforge: Run, python: str) -> None:
    """By the toolchain's Python, which its loader starts, and by the host's."""
    done = kdbforge("run", *GPU, *GPU, "--", python, "-c", CALLS)
    assert (done.returncode, done.stdout) == (0, "2 [801, 801, 801]\n"), done.stderr
    told = [line for line in done.stderr.splitlines() if "hipTexRefGetFlags" in line]
    assert len(told) == 2  # at the first call, and at the end of the program
    assert told[1].endswith("`hipTexRefGetFlags` is not supported by the virtual GPU; calls: 3")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("MIOpenDrivr", "Unknown program `MIOpenDrivr`"),
        ("/no/such/file", "There is no program `/no/such/file`"),
        ("./notes", "`./notes` is not an executable file"),
        ("/", "`/` is not an executable file"),
        ("./static", "is linked statically"),
        ("./damaged", "is damaged"),
    ],
)
def test_bad_programs(
    tmp_path: Path, toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    elf = (toolchain.loader or Path("/bin/true")).read_bytes()  # a loader has no interpreter
    files = {"notes": b"no program", "static": elf, "damaged": elf[:600]}
    for file, data in files.items():
        Path(file).write_bytes(data)
        Path(file).chmod(0o644 if file == "notes" else 0o755)
    with pytest.raises(InputError, match=re.escape(said)):
        find_program(name, toolchain)


def test_a_bad_program_name_is_explained(kdbforge: Run) -> None:
    done = kdbforge("run", *GPU, "--", "MIOpenDrivr")
    assert done.returncode == 2
    assert "hint: did you mean `MIOpenDriver`" in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (RunOptions(capture=Path("x"), mode=CompileMode.PASS), "Nothing is captured"),
        (RunOptions(cache=Path("x")), "is not kept"),
        (RunOptions(kdb=Path("/nowhere")), "no kernel database"),
        (RunOptions(problems=Path("/nowhere/file")), "folder is missing"),
        (RunOptions(problems=Path("/tmp")), "it is a folder"),
        (RunOptions(library_path=(Path("/nowhere"),)), "no folder `/nowhere`"),
    ],
)
def test_bad_options(toolchain: Toolchain, tmp_path: Path, options: RunOptions, said: str) -> None:
    with pytest.raises(InputError, match=said):
        run_program(toolchain, [find_gpu("gfx1030_40")], ["true"], options, tmp_path)
    assert not list(tmp_path.iterdir())  # nothing was begun
