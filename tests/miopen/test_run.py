"""Programs on virtual GPUs: MIOpen's own driver, crashes, signals, and what is collected."""

from __future__ import annotations

import importlib.resources
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from processes import processes_that_mention, started, wait_until
from small import Run

from kdbforge import Toolchain
from kdbforge.planner.planfile import read_plan

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


def test_forbidden_then_with_the_database_that_was_built(
    kdbforge: Run, tmp_path: Path, shared_store: Path
) -> None:
    forbidden = ("run", *GPU, "--compile", "forbid")
    done = kdbforge(*forbidden, *DRIVER)
    assert done.returncode == 7
    assert "compilations were refused" in done.stderr
    problems, out = tmp_path / "problems.txt", tmp_path / "out"
    kdbforge("run", *GPU, "--collect-problems", problems, *DRIVER)
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


def test_bad_programs(kdbforge: Run, tmp_path: Path, toolchain: Toolchain) -> None:
    static = tmp_path / "static"
    header = bytearray((toolchain.loader or Path("/bin/true")).read_bytes())
    static.write_bytes(header)
    static.chmod(0o755)
    notes = tmp_path / "notes"
    notes.write_text("no program")
    for name, said in (
        ("MIOpenDrivr", "did you mean `MIOpenDriver`"),
        ("/no/such/file", "There is no program `/no/such/file`"),
        (str(notes), "is not an executable file"),
        (str(tmp_path), "is not an executable file"),
        (str(static), "linked statically"),
    ):
        done = kdbforge("run", *GPU, "--", name)
        assert done.returncode == 2
        assert said in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--capture", "x", "--compile", "pass"), "Nothing is captured"),
        (("--keep-cache", "x"), "is not kept"),
        (("--kdb", "/nowhere"), "no kernel database"),
        (("--collect-problems", "/nowhere/file"), "folder is missing"),
        (("--collect-problems", "/tmp"), "it is a folder"),
    ],
)
def test_bad_options(kdbforge: Run, options: tuple[str, ...], said: str) -> None:
    done = kdbforge("run", *GPU, *options, "--", "true")
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
