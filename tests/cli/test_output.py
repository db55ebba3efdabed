"""What goes where: data to stdout, the rest to stderr, and options on both sides of a command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from running import Command


@pytest.mark.parametrize(
    "args",
    [
        ("gpu", "list"),
        ("gpu", "show", "rx-6900-xt"),
        ("problems", "suite:resnet18"),
        ("problems", "suite:"),
        ("toolchain", "list"),
    ],
)
def test_json_is_all_of_stdout(run: Command, args: tuple[str, ...]) -> None:
    done = run(*args, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) is not None


def test_warnings_do_not_mix_with_data(run: Command) -> None:
    done = run("gpu", "show", "gfx1010_40", "--json")
    assert json.loads(done.stdout)["num_cu"] == 40
    assert done.stderr.startswith("warning: ")
    assert "20" in done.stderr


def test_counts_go_to_stderr_and_problems_to_stdout(run: Command, tmp_path: Path) -> None:
    first = run("problems", "suite:resnet18", "--dtype", "fp16", "--direction", "fwd")
    assert all(line.startswith("MIOpenDriver convfp16 ") for line in first.stdout.splitlines())
    count = len(first.stdout.splitlines())
    assert first.stderr.startswith(f"{count} problems ({count} fwd, 0 bwd, 0 wrw) in ")
    # What is printed is read again as the same problems.
    (tmp_path / "again.txt").write_text(first.stdout)
    assert run("problems", "again.txt").stdout == first.stdout


@pytest.mark.parametrize("place", ["before", "behind"])
def test_global_options_on_both_sides(run: Command, tmp_path: Path, place: str) -> None:
    option = ("--store", str(tmp_path / "elsewhere"))
    words = [*option, "log", "ab"] if place == "before" else ["log", *option, "ab"]
    done = run(*words)
    assert done.stderr == f"error: `ab` names no job in the store `{tmp_path / 'elsewhere'}`\n"


def test_the_option_behind_wins(run: Command, tmp_path: Path) -> None:
    done = run("--store", "one", "log", "ab", "--store", "two")
    assert done.stderr == "error: `ab` names no job in the store `two`\n"


def test_quiet_does_not_hide_errors(run: Command) -> None:
    for words in (("-q", "log", "ab"), ("log", "-q", "ab")):
        assert run(*words).stderr.startswith("error: `ab` names no job")


def test_a_reader_that_goes_away(tmp_path: Path) -> None:
    """`kdbforge gpu list | true` ends without a traceback."""
    with subprocess.Popen(
        [sys.executable, "-m", "kdbforge", "problems", "suite:unet-sd", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert "Traceback" not in process.stderr.read()
        assert process.wait() == 1


def test_no_colours_without_a_terminal(run: Command) -> None:
    done = run("gpu", "show", "gfx1010_40")
    assert "\x1b" not in done.stdout + done.stderr
