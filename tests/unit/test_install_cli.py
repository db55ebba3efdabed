"""`install`, `uninstall` and `doctor` on the command line, for a library that cannot be run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from installing import make_kdb

from kdbforge.toolchain.elf import read_elf

Run = Callable[..., "subprocess.CompletedProcess[str]"]

SOURCE = 'const char folder[] = "share/miopen/db", version[] = "HIP.3_5_1_";'


@pytest.fixture(scope="module")
def rocm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("cli") / "rocm"
    (root / "lib").mkdir(parents=True)
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-Wl,--build-id", "-o", root / "lib/libMIOpen.so.1", "-x", "c",
         "-"],
        input=SOURCE, text=True, check=True,
    )  # fmt: skip
    return root


@pytest.fixture
def kdb(tmp_path: Path, rocm: Path) -> Path:
    build_id = read_elf(rocm / "lib/libMIOpen.so.1").build_id
    wanted = {"MIOPEN_DEBUG_GCN_ASM_KERNELS": "0"}
    path = tmp_path / "out/gfx1030_40.kdb"
    return make_kdb(path, "gfx1030", build_id=build_id, environment=wanted)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MIOPEN_", "HSA_"))}

    def start(*args: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "kdbforge", *map(str, args)],
            env={**clean, "KDBFORGE_DATA": str(tmp_path / "data"), "HOME": str(tmp_path)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    return start


def test_install_and_uninstall(run: Run, kdb: Path, rocm: Path) -> None:
    folder = rocm / "share/miopen/db"
    done = run("install", kdb, "--toolchain", rocm)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        f"installed: {folder}/gfx1030_40.kdb",
        f"installed: {folder}/gfx1030_40.manifest.json",
    ]
    assert "must have MIOPEN_DEBUG_GCN_ASM_KERNELS=0" in done.stderr
    assert "Not confirmed: the library cannot be run here" in done.stderr
    gone = run("uninstall", "gfx1030_40.kdb", "--toolchain", rocm, "--json")
    assert [file["state"] for file in json.loads(gone.stdout)] == ["removed", "removed"]
    assert list(folder.iterdir()) == []


def test_a_package_tree(run: Run, kdb: Path, rocm: Path, tmp_path: Path) -> None:
    done = run("install", kdb, "--toolchain", rocm, "--root", tmp_path / "tree", "--json")
    report = json.loads(done.stdout)
    assert report["folder"] == f"{tmp_path}/tree{rocm}/share/miopen/db"
    assert report["environment"] == {"MIOPEN_DEBUG_GCN_ASM_KERNELS": "0"}
    assert report["warnings"] == []


def test_forcing_is_loud(run: Run, kdb: Path, rocm: Path, tmp_path: Path) -> None:
    kdb.with_suffix(".manifest.json").unlink()
    args = ("install", kdb, "--toolchain", rocm, "--to", tmp_path / "db")
    refused = run(*args)
    assert refused.returncode == 2
    assert "--force" in refused.stderr
    assert not (tmp_path / "db").exists()
    forced = run(*args, "--force")
    assert forced.returncode == 0
    assert "warning: FORCED: " in forced.stderr


@pytest.mark.parametrize(
    "args",
    [
        ("install", "x.kdb", "--user", "--to", "d"), ("install", "x.kdb", "--user", "--root", "d"),
        ("install", "x.kdb", "--to", "d", "--root", "d", "--toolchain", "ROCM"),
        ("uninstall",), ("uninstall", "x.kdb", "--all"), ("uninstall", "--user", "--all"),
        ("install",), ("install", "x.kdb", "--toolchain", "/none"),
        ("uninstall", "x.kdb", "--to", "/none"), ("doctor", "--gpu", "gfx1030_36kbk"),
    ],
)  # fmt: skip
def test_bad_usage(run: Run, rocm: Path, args: tuple[str, ...]) -> None:
    done = run(*(str(rocm) if word == "ROCM" else word for word in args))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.lower().count("error") >= 1
    assert "Traceback" not in done.stderr


def test_the_doctor(run: Run, kdb: Path, rocm: Path) -> None:
    done = run("doctor", rocm, "--gpu", "gfx1030_40")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0] == (
        "GPU as MIOpen sees it: gfx1030/40; its system database is gfx1030_40.kdb and then "
        "gfx1030.kdb"
    )
    assert f"  system databases: {rocm}/share/miopen/db" in lines
    assert "  opens: no system database" in lines
    assert any(line.startswith("  warning: There is no system database") for line in lines)
    run("install", kdb, "--toolchain", rocm)
    healthy = run("doctor", rocm, "--gpu", "gfx1030_40", "--json")
    found = json.loads(healthy.stdout)
    assert found["libraries"][0]["opens"] == f"{rocm}/share/miopen/db/gfx1030_40.kdb"
    assert [f for f in found["libraries"][0]["findings"] if f["level"] != "note"] == []
    run("uninstall", "--all", "--toolchain", rocm)


def test_the_doctor_of_a_gpu_with_a_mistake_in_its_name(run: Run) -> None:
    """The nearest known names are given (#1996)."""
    done = run("doctor", "--gpu", "gfx1030_36kbk")
    assert "did you mean" in done.stderr
    assert "gfx1030_36" in done.stderr
