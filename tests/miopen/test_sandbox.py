"""A build in what packagers build in: no root, home, network or GPU, and one writable folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from namespaces import as_nobody, foreign_folder, isolated
from small import SMALL

import kdbforge
from kdbforge import Toolchain

#: Everything but the folder $1 becomes read-only, and /dev gets as few devices as can be.
SANDBOX = """
work=$1; shift
mkdir "$work/dev"
for name in null zero full random urandom; do
    touch "$work/dev/$name"
    mount --bind "/dev/$name" "$work/dev/$name"
done
mount --rbind "$work/dev" /dev
mount -o remount,bind,ro /
if mountpoint -q /tmp; then mount -o remount,bind,ro /tmp; fi
mount --bind "$work" "$work"
mount -o remount,bind,rw "$work"
cd /
! touch /tmp/writable 2>/dev/null
! test -e /dev/kfd
exec "$@"
"""


def package_folder() -> Path:
    return Path(kdbforge.__file__).parent


def toolchain_folders(toolchain: Toolchain) -> tuple[Path, ...]:
    return (toolchain.libmiopen.parent, toolchain.python.parent)


def listing(*folders: Path) -> dict[str, tuple[int, int]]:
    """Size and time of change of every file and folder below."""
    found = {}
    for top in folders:
        for folder, _, names in os.walk(top):
            for path in (folder, *(os.path.join(folder, name) for name in names)):
                status = os.lstat(path)
                found[path] = (status.st_size, status.st_mtime_ns)
    return found


def test_without_root_home_network_and_gpu(toolchain: Toolchain) -> None:
    python = (Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable))
    readable = (package_folder(), *python, *toolchain_folders(toolchain))
    with foreign_folder() as work:
        (work / "small.txt").write_text(SMALL)
        done = isolated(
            SANDBOX, work,
            *as_nobody(readable),
            "env", "-u", "HOME", "-u", "XDG_CACHE_HOME", "-u", "XDG_DATA_HOME", f"TMPDIR={work}",
            sys.executable, "-B", "-m", "kdbforge", "--store", work / "store",
            "build", work / "small.txt", "--gpu", "gfx906_60", "-o", work / "out",
            "--work-dir", work / "tmp", "-j2",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "proven: 3 problems" in done.stderr
        assert sorted(os.listdir(work / "out")) == ["gfx906_60.kdb", "gfx906_60.manifest.json"]
        assert os.listdir(work / "tmp") == []
        assert sorted(os.listdir(work)) == ["dev", "out", "small.txt", "store", "tmp"]
        if os.getuid() == 0:
            assert {path.stat().st_uid for path in (work / "out").iterdir()} == {65534}


def test_the_sandbox_of_these_tests_has_no_network() -> None:
    connect = "import socket; socket.create_connection(('192.0.2.1', 80), 1)"
    done = isolated('exec "$@"', sys.executable, "-c", connect)
    assert "Network is unreachable" in done.stderr


@pytest.mark.parametrize("work_dir", [True, False])
def test_nothing_is_written_outside_the_given_folders(
    toolchain: Toolchain, tmp_path: Path, small: Path, shared_store: Path, *, work_dir: bool
) -> None:
    outside = [tmp_path / name for name in ("home", "cwd", "tmp")]
    for folder in outside:
        folder.mkdir()
    watched = (*outside, *toolchain_folders(toolchain), package_folder())
    before = listing(*watched)
    (tmp_path / "cwd").chmod(0o555)
    subprocess.run(
        [
            sys.executable, "-B", "-m", "kdbforge", "--store", shared_store, "build", small,
            "--gpu", "gfx906_60", "-o", tmp_path / "out",
            *(["--work-dir", tmp_path / "work"] if work_dir else []),
        ],
        env={**os.environ, "HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "tmp")},
        cwd=tmp_path / "cwd",
        check=True,
    )  # fmt: skip
    assert listing(*watched) == before
    given = {"home", "cwd", "tmp", "out", "small.txt", *(["work"] if work_dir else [])}
    assert set(os.listdir(tmp_path)) == given
    assert not work_dir or os.listdir(tmp_path / "work") == []


def test_planning_and_proving_write_nothing_but_temporary_files(
    toolchain: Toolchain, tmp_path: Path, small: Path, shared_store: Path
) -> None:
    folders = {name: tmp_path / name for name in ("home", "tmp", "out")}
    for folder in folders.values():
        folder.mkdir()

    def run(*args: str | Path) -> None:
        subprocess.run(
            [sys.executable, "-m", "kdbforge", "--store", shared_store, *args],
            env={**os.environ, "HOME": str(folders["home"]), "TMPDIR": str(folders["tmp"])},
            check=True,
        )

    gpu = ("--gpu", "gfx906_60")
    run("plan", small, *gpu)
    run("build", small, *gpu, "-o", folders["out"], "--no-prove")
    before = listing(folders["out"])
    run("prove", folders["out"] / "gfx906_60.kdb", small, *gpu)
    assert listing(folders["out"]) == before
    assert os.listdir(folders["home"]) == []
    assert os.listdir(folders["tmp"]) == []


def test_without_home_a_store_must_be_given() -> None:
    bare = {
        key: value
        for key, value in os.environ.items()
        if key not in ("HOME", "XDG_CACHE_HOME", "KDBFORGE_STORE")
    }
    done = subprocess.run(
        [sys.executable, "-m", "kdbforge", "log", "00"],
        env=bare, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == (
        "error: There is no folder for the store: neither KDBFORGE_STORE nor HOME is set\n\n"
        "hint: give one with `--store DIR`\n"
    )
