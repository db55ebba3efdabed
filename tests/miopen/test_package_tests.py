"""MIOpen's own tests in package builds: the recipes' scripts as a packager runs them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from kdbforge import Toolchain

RECIPES = Path(__file__).parents[2] / "docs" / "packaging" / "tests"
SCRIPT = RECIPES / "miopen-tests"
#: A test for each sort: writes to the GPU, switches between two of them, is left out, asks for it.
FILTER = (
    "CPU_Dump_*FP32*:*CPU_HandleHipDevice*:*CPU_UnitTestImplicitGemmCKUtil*:*CPU_DBSync*:"
    "*GPU_Conv3DKernelTuning_FP32.*:GPU_TestMhaFind20_FP32.*"
)

Start = Callable[..., subprocess.CompletedProcess[str]]
#: What ebuilds find in Portage, and phases in nixpkgs' setup.sh.
PORTAGE = 'die() { echo "$*" >&2; exit 1; }; check_amdgpu() { die "no GPU is here"; }\n'
STDENV = 'set -eu; runHook() { echo "hook $1"; }\n'


@pytest.fixture
def start(tmp_path: Path, toolchain: Toolchain) -> Start:
    """Run a script with `kdbforge` in PATH, the fetched library for the system's, and few tests."""
    program = tmp_path / "bin" / "kdbforge"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kdbforge "$@"\n')
    program.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "KDBFORGE_STORE": str(tmp_path / "store"),
        "MIOPEN_TOOLCHAIN": toolchain.name,
        "MIOPEN_TESTS_FILTER": FILTER,
        "MIOPEN_TESTS_COMMANDS": "",
    }

    def run(*command: str | Path, **more: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*map(str, command)],
            cwd=tmp_path,
            env={**environment, **{name: str(value) for name, value in more.items()}},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.fixture
def build_tree(tmp_path: Path, toolchain: Toolchain) -> Path:
    """MIOpen's test programs where its own build leaves them."""
    programs = toolchain.libmiopen.parents[2] / "libexec" / "rocm" / "libmiopen1-tests"
    tree = tmp_path / "build"
    (tree / "bin").mkdir(parents=True)
    for name in ("miopen_gtest", "MIOpenDriver"):
        (tree / "bin" / name).symlink_to(programs / name)
    return tree


def test_files_name_each_other() -> None:
    control = (RECIPES / "control").read_text()
    assert re.findall(r"^Tests: (.*)$", control, re.MULTILINE) == [SCRIPT.name]
    assert os.access(SCRIPT, os.X_OK)
    named = set(re.findall(r"\./([\w.-]+)", (RECIPES / "miopen.nix").read_text()))
    assert named == {"miopen-tests", "check-phase.bash"}
    packaging = (RECIPES.parents[1] / "packaging.md").read_text()
    linked = set(re.findall(r"\(packaging/tests/([\w.-]+)\)", packaging))
    assert linked == {path.name for path in RECIPES.iterdir()}


def passed(output: str) -> int:
    found = re.search(r"^\[  PASSED  \] (\d+) tests?\.$", output, re.MULTILINE)
    assert found is not None, output
    return int(found[1])


def test_debian(start: Start, tmp_path: Path) -> None:
    """With artifacts, as autopkgtest calls it, and a driver command that really compiles."""
    folders = {"AUTOPKGTEST_TMP": tmp_path / "tmp", "AUTOPKGTEST_ARTIFACTS": tmp_path / "artifacts"}
    for folder in folders.values():
        folder.mkdir()
    done = start(SCRIPT, MIOPEN_TESTS_COMMANDS="softmax", **folders)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("miopen-tests: all passed on a virtual gfx90a68\n")
    assert "MIOpenDriver softmax -V 0 -i 1" in done.stdout
    (report,) = folders["AUTOPKGTEST_ARTIFACTS"].glob("*.xml")
    cases = [case.attrib for case in ET.parse(report).getroot().iter("testcase")]
    tests = [case for case in cases if case["status"] == "run"]  # others are disabled in MIOpen
    assert len(tests) == passed(done.stdout)
    assert {case["result"] for case in tests} == {"completed"}
    # All that are left out are known failures, and no more.
    names = {f"{case['classname']}.{case['name']}" for case in tests}
    assert "CPU_Dump_FP32.testDump" in names
    assert "Smoke/CPU_UnitTestImplicitGemmCKUtil_NONE.TestParsing/1" in names
    assert not [name for name in names if "NAN" in name or "DBSync" in name]
    assert not list(folders["AUTOPKGTEST_TMP"].iterdir())


def test_failures_fail(start: Start) -> None:
    """A test that needs numbers, and a command that the driver does not have."""
    done = start(
        SCRIPT, MIOPEN_TESTS_FILTER="GPU_SoftmaxFind20_FP32.*", MIOPEN_TESTS_COMMANDS="softmx"
    )
    assert done.returncode == 1
    said = re.findall(r"^miopen-tests: FAILED with [1-9].*$", done.stdout, re.MULTILINE)
    assert len(said) == 2, done.stdout
    assert "miopen_gtest" in said[0]
    assert "MIOpenDriver softmx" in said[1]
    assert "all passed" not in done.stdout


def test_no_test_is_a_failure(start: Start) -> None:
    done = start(SCRIPT, MIOPEN_TESTS_FILTER="CPU_Nothing*")
    assert done.returncode == 1
    assert done.stdout.endswith("FAILED: no test of miopen_gtest is in CPU_Nothing*\n")


def test_further_known_failures(start: Start) -> None:
    done = start(
        SCRIPT,
        MIOPEN_TESTS_FILTER="GPU_SoftmaxFind20_FP32.*:CPU_Dump_FP32.*",
        MIOPEN_TESTS_KNOWN_FAILURES="*SoftmaxFind20*",
    )
    assert (done.returncode, passed(done.stdout)) == (0, 1), done.stdout


def test_no_toolchain(start: Start) -> None:
    done = start(SCRIPT, MIOPEN_TOOLCHAIN="/nowhere")
    assert done.returncode == 2
    assert "/nowhere" in done.stderr


def test_gentoo(start: Start, build_tree: Path) -> None:
    script = f"{PORTAGE}source {RECIPES}/src_test.bash; src_test; echo reached"
    files = {"FILESDIR": RECIPES, "BUILD_DIR": build_tree}
    done = start("bash", "-c", script, **files)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("all passed on a virtual gfx90a68\nreached\n")
    failing = {"MIOPEN_TESTS_FILTER": "GPU_SoftmaxFind20_FP32.*"}
    done = start("bash", "-c", script, **files, **failing)
    assert done.returncode == 1
    assert done.stderr.endswith("MIOpen's tests failed on a virtual GPU\n")
    assert "reached" not in done.stdout


def test_nix(start: Start, build_tree: Path) -> None:
    script = f"{STDENV}cd {build_tree}; source {RECIPES}/check-phase.bash"
    done = start("bash", "-c", script, miopenTests=SCRIPT)
    assert done.returncode == 0, done.stdout + done.stderr
    first, *_, last = done.stdout.splitlines()
    assert (first, last) == ("hook preCheck", "hook postCheck")
    assert passed(done.stdout)
