"""Bad input to the commands: the exact words, exit code 2, and nothing written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from running import Command

GOOD = "MIOpenDriver conv -n 1 -c 16 -H 14 -W 14 -k 16 -y 3 -x 3 -p 1 -q 1 -F 1\n"

#: Content of the problem file `in.txt`, what stderr says about it.
FILES = [
    pytest.param(b"", "error: `in.txt` is empty\n", id="empty"),
    pytest.param(b"# nothing\n\n", "error: No problem found in `in.txt`\n", id="comments only"),
    pytest.param(
        GOOD.encode() + b"\0\n",
        "error: `in.txt` is a binary file\n  in.txt:2: it holds a zero byte\n",
        id="zero byte",
    ),
    pytest.param(
        b"\x7fELF\xff\xfe\n", "error: Byte 0xff is not UTF-8 text\n  in.txt:1\n", id="binary"
    ),
    pytest.param(
        GOOD.encode() + b"MIOpenDriver conv -n 1 --frobnicate 3\n",
        "error: Unknown flag `--frobnicate`\n  in.txt:2\n  MIOpenDriver conv -n 1 --frobnicate 3\n",
        id="flag",
    ),
    pytest.param(
        b"MIOpenDriver gemm -n 1\n",
        "error: The MIOpenDriver command `gemm` is not supported: "
        "rocBLAS runs it, with kernels of its own\n"
        "  in.txt:1\n  MIOpenDriver gemm -n 1\n\n"
        "hint: `kdbforge problems --commands` lists those that are\n",
        id="primitive",
    ),
    pytest.param(
        b"MIOpenDriver conv -n -1 -c 16\n",
        "error: `-1` of flag `-n/--batchsize` is not a whole number from 1\n"
        "  in.txt:1\n  MIOpenDriver conv -n -1 -c 16\n",
        id="negative",
    ),
]


def left_behind(folder: Path) -> list[str]:
    return sorted(set(os.listdir(folder)) - {"in.txt"})


@pytest.mark.parametrize(("content", "said"), FILES)
def test_problem_files(run: Command, tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "in.txt").write_bytes(content)
    done = run("problems", "in.txt")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "reason"), [("missing.txt", "No such file or directory"), (".", "Is a directory")]
)
def test_unreadable_problem_files(run: Command, tmp_path: Path, name: str, reason: str) -> None:
    done = run("problems", name)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: Cannot read `{name}`: {reason}\n"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (
            ("gpu", "show", "gfx1031x_40"),
            "error: Unknown GPU `gfx1031x_40`\n\nhint: did you mean `gfx1031_20`, ",
        ),
        (("gpu", "show", "rx-6900"), "error: Unknown GPU `rx-6900`\n\nhint: did you mean `rx-69"),
        (
            ("gpu", "show", "gfx1030_0"),
            "error: The CU count of `gfx1030_0` is 0; allowed are 1 to 1024\n",
        ),
        (
            ("problems", "suite:resnet51"),
            "error: Unknown suite `resnet51`\n\nhint: did you mean `resnet50`, ",
        ),
        (("compile", "no"), "error: Cannot read plan `no`: No such file or directory\n"),
        (
            ("compile", "in.txt"),
            "error: `in.txt` is not a whole kdbforge plan\n  BadZipFile: File is not a zip file\n\n"
            "hint: make it again with `kdbforge plan`\n",
        ),
        (
            ("prove", "in.txt", "--gpu", "gfx1030_40"),
            "error: No database (*.kdb) among the arguments\n\nhint: see `kdbforge prove --help`\n",
        ),
        (
            ("prove", "a.kdb", "--gpu", "gfx1030_40"),
            "error: No source of problems among the arguments\n\n"
            "hint: see `kdbforge prove --help`\n",
        ),
    ],
)  # fmt: skip
def test_names_and_files(run: Command, tmp_path: Path, args: tuple[str, ...], said: str) -> None:
    (tmp_path / "in.txt").write_text(GOOD)
    done = run(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(said)
    assert done.stderr == said or not said.endswith("\n")
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("job", ["zz", "", "'", "00" * 32, "../../etc"])
def test_a_job_that_the_store_has_not(run: Command, tmp_path: Path, job: str) -> None:
    done = run("log", job)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: `{job}` names no job in the store `{tmp_path / 'store'}`\n"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("bulid",), "Error: No such command 'bulid'."),
        (("--bogus",), "Error: No such option"),
        (("plan",), "Error: Missing argument 'SRC...'."),
        (("plan", "in.txt"), "Error: Missing option '--gpu'."),
        (("build", "in.txt", "--gpu", "gfx1030_40"), "Error: Missing option '-o' / '--output'."),
        (
            ("plan", "in.txt", "--gpu", "gfx1030_40", "--policy", "nomal"),
            "Error: Invalid value for '--policy': 'nomal' is not one of 'default', 'normal', ",
        ),
        (
            ("plan", "in.txt", "--gpu", "gfx1030_40", "-j", "0"),
            "Error: Invalid value for '-j' / '--jobs': 0 is not in the range 1<=x<=4096.",
        ),
    ],
)
def test_usage(run: Command, tmp_path: Path, args: tuple[str, ...], said: str) -> None:
    done = run(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("command", ["plan", "build"])
def test_without_a_toolchain(run: Command, tmp_path: Path, command: str) -> None:
    (tmp_path / "in.txt").write_text(GOOD)
    done = run(command, "in.txt", "--gpu", "gfx1030_40", "-o", tmp_path / "out")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: No toolchain in `{tmp_path / 'data'}`\n\n"
        "hint: run `kdbforge toolchain fetch`, or `kdbforge toolchain add PATH` for a ROCm here\n"
    )
    assert left_behind(tmp_path) == []


def test_bad_input_comes_before_a_missing_toolchain(run: Command, tmp_path: Path) -> None:
    done = run("plan", "missing.txt", "--gpu", "gfx1030_40")
    assert done.stderr == "error: Cannot read `missing.txt`: No such file or directory\n"
