"""Full disks, at each of the places where a build writes: one clear error, nothing half-written."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from namespaces import Result, isolated
from small import Run

from kdbforge import open_store

#: A file system of $1 bytes over the folder $2; what it holds in the end is listed on stdout.
SMALL_DISK = """
size=$1 folder=$2; shift 2
mkdir -p "$folder"
mount -t tmpfs -o size="$size" tmpfs "$folder"
code=0; "$@" || code=$?
find "$folder" -mindepth 1 -type f -printf '%P\\n'
exit $code
"""
GPU = ("--gpu", "gfx906_60", "--policy", "normal")


def build_on(disk: Path, size: str, *args: str | Path) -> Result:
    return isolated(
        SMALL_DISK, size, disk, sys.executable, "-B", "-m", "kdbforge", "build", *args, *GPU
    )


def check_error(done: Result) -> None:
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("error: ") == 1
    assert "No space left on device" in done.stderr or "disk full" in done.stderr, done.stderr
    assert "\nhint: " in done.stderr


@pytest.mark.parametrize("size", ["16k", "256k", "1m"])
def test_full_output(tmp_path: Path, small: Path, shared_store: Path, size: str) -> None:
    output = tmp_path / "out"
    done = build_on(output, size, small, "-o", output, "--store", shared_store)
    check_error(done)
    assert done.stdout == ""


def test_full_output_with_another_work_folder(
    kdbforge: Run, tmp_path: Path, small: Path, shared_store: Path
) -> None:
    output = tmp_path / "out"
    done = build_on(
        output, "40k", small, "-o", output, "--store", shared_store, "--work-dir", tmp_path / "tmp"
    )
    check_error(done)
    assert done.stdout == ""
    assert os.listdir(tmp_path / "tmp") == []


@pytest.mark.parametrize("size", ["4k", "24k"])
def test_full_store(tmp_path: Path, small: Path, size: str) -> None:
    store, output = tmp_path / "store", tmp_path / "out"
    done = build_on(store, size, small, "-o", output, "--store", store)
    check_error(done)
    assert f"Cannot write to the store `{store}`" in done.stderr
    assert not [name for name in done.stdout.splitlines() if name.startswith("tmp/")]
    assert os.listdir(output) == []


def test_a_database_there_already_survives(
    kdbforge: Run, tmp_path: Path, small: Path, shared_store: Path
) -> None:
    output = tmp_path / "out"
    first = kdbforge("build", small, *GPU, "-o", output, "--store", shared_store)
    assert first.returncode == 0, first.stderr
    before = {path.name: path.read_bytes() for path in output.iterdir()}
    # The limit on one file's size stands in for a disk that fills up behind the first build.
    done = kdbforge(
        "build", small, *GPU, "-o", output, "--store", shared_store,
        "--work-dir", tmp_path / "tmp",
        preexec_fn=limit_file_size,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert {path.name: path.read_bytes() for path in output.iterdir()} == before


def limit_file_size() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 10, 8 << 10))


def test_read_only_folders(tmp_path: Path, small: Path, shared_store: Path) -> None:
    """Root is stopped by a read-only file system alone."""
    read_only = 'mkdir "$1"; mount -t tmpfs -o ro tmpfs "$1"; shift; exec "$@"'
    folder = tmp_path / "read-only"
    command = (sys.executable, "-B", "-m", "kdbforge", "build", small, *GPU)
    done = isolated(
        read_only, folder, *command, "-o", folder / "out", "--store", shared_store
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == (
        f"error: Cannot use folder `{folder / 'out'}`: Read-only file system\n\n"
        "hint: give a folder that this user may write to\n"
    )
    folder.rmdir()
    done = isolated(
        read_only, folder, *command, "-o", tmp_path / "out", "--store", folder / "store"
    )
    assert done.returncode == 2
    assert f"error: Cannot write to the store `{folder / 'store'}`" in done.stderr
    assert os.listdir(tmp_path / "out") == []
    assert open_store(folder / "store").stats().entries == 0
