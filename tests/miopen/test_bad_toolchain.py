"""Toolchains that are damaged or are none: refused before anything is planned."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from small import Run

from kdbforge import Toolchain, compile_jobs_of, plan
from kdbforge.errors import ToolchainError
from kdbforge.planner.planfile import read_plan, write_plan

GPU = ("--gpu", "gfx906_60")


def copied(toolchain: Toolchain, folder: Path) -> Path:
    """A copy of the fetched toolchain, made of links to its files."""
    home = next(p for p in toolchain.libmiopen.parents if (p / "toolchain.json").exists())
    subprocess.run(["cp", "-as", f"{home}/.", folder], check=True)
    (folder / "toolchain.json").unlink()
    shutil.copy(home / "toolchain.json", folder)
    return folder


@pytest.fixture
def refused(kdbforge: Run, tmp_path: Path, small: Path) -> Callable[[Path], str]:
    """The error of a build with the toolchain in that folder; it must have written nothing."""

    def run(toolchain: Path) -> str:
        done = kdbforge(
            "build", small, *GPU, "-o", tmp_path / "out", "--toolchain", toolchain, "-q"
        )
        assert done.returncode == 2
        assert done.stdout == ""
        assert not (tmp_path / "out").exists()
        return str(done.stderr)

    return run


Refused = Callable[[Path], str]


def test_a_copy_elsewhere_works(
    toolchain: Toolchain, kdbforge: Run, tmp_path: Path, small: Path
) -> None:
    folder = copied(toolchain, tmp_path / "copy")
    done = kdbforge("plan", small, *GPU, "--toolchain", folder)
    assert done.returncode == 0, done.stderr


def test_a_lost_library_is_named(toolchain: Toolchain, tmp_path: Path, refused: Refused) -> None:
    folder = copied(toolchain, tmp_path / "copy")
    lost = next(folder.rglob("libamd_comgr.so.*"))
    for path in folder.rglob("libamd_comgr.so*"):
        path.unlink()
    said = refused(folder)
    assert said.startswith("error: Toolchain `copy` has lost `")
    assert lost.name[: len("libamd_comgr.so.3")] in said
    assert "\nhint: " in said


def test_a_lost_miopen_is_named(toolchain: Toolchain, tmp_path: Path, refused: Refused) -> None:
    folder = copied(toolchain, tmp_path / "copy")
    for path in folder.rglob("libMIOpen.so*"):
        path.unlink()
    assert "has lost" in refused(folder)


def test_a_damaged_description_is_named(
    toolchain: Toolchain, tmp_path: Path, refused: Refused
) -> None:
    folder = copied(toolchain, tmp_path / "copy")
    description = folder / "toolchain.json"
    description.write_text(description.read_text()[:1000])
    assert str(description) in refused(folder)


def test_an_elf_of_another_machine(toolchain: Toolchain, tmp_path: Path, refused: Refused) -> None:
    library = tmp_path / "libMIOpen.so.1"
    data = bytearray(toolchain.libmiopen.read_bytes()[:4096])
    data[18:20] = (183).to_bytes(2, "little")  # e_machine: EM_AARCH64
    library.write_bytes(data)
    said = refused(library)
    assert said.startswith(f"error: `{library}` is for ")
    assert "aarch64" in said.lower()


def test_a_miopen_without_kernels(toolchain: Toolchain, tmp_path: Path, refused: Refused) -> None:
    library = tmp_path / "libMIOpen.so.1"
    data = toolchain.libmiopen.read_bytes()
    for words in (b"__kernel", b"__global__"):
        data = data.replace(words, b"x" * len(words))
    library.write_bytes(data)
    said = refused(library)
    assert said.startswith(f"error: `{library}` (MIOpen {toolchain.miopen_version}) has no kernels")


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"not a library at all\n" * 100])
def test_a_miopen_that_is_no_library(tmp_path: Path, refused: Refused, content: bytes) -> None:
    library = tmp_path / "libMIOpen.so.1"
    library.write_bytes(content)
    said = refused(library)
    assert said.startswith("error: ")
    assert str(library) in said


def test_a_prefix_without_miopen(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "prefix" / "lib").mkdir(parents=True)
    assert refused(tmp_path / "prefix").startswith("error: No `libMIOpen.so` below")
    assert "does not exist" in refused(tmp_path / "nowhere")


def test_an_unknown_name_is_met_by_the_known_one(toolchain: Toolchain, kdbforge: Run) -> None:
    done = kdbforge("plan", "suite:resnet18", *GPU, "--toolchain", toolchain.name + "x")
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: Unknown toolchain `{toolchain.name}x`\n")
    assert f"did you mean `{toolchain.name}`?" in done.stderr


def test_the_plan_of_another_toolchain_is_not_compiled(
    toolchain: Toolchain, kdbforge: Run, tmp_path: Path, small: Path
) -> None:
    other = dataclasses.replace(toolchain, name="other", fingerprint="0" * 64)
    made = plan([str(small)], ["gfx906_60"], toolchain=other)
    with pytest.raises(ToolchainError, match="another toolchain: `other`"):
        compile_jobs_of(made, toolchain=toolchain, store=tmp_path / "store")
    write_plan(made, tmp_path / "plan")
    done = kdbforge("compile", tmp_path / "plan")
    assert done.returncode == 2
    assert done.stderr == (
        "error: The plan was made with another toolchain: `other`\n"
        f"  plan:      {other.fingerprint}\n"
        f"  toolchain: {toolchain.fingerprint} (`{toolchain.name}`)\n\n"
        "hint: compile with the same toolchain, or plan again\n"
    )
    assert not (tmp_path / "store").exists()


def test_a_truncated_plan_is_refused(kdbforge: Run, tmp_path: Path, small: Path) -> None:
    path = tmp_path / "small.kdbplan"
    assert kdbforge("plan", small, *GPU, "-o", path).returncode == 0
    read_plan(path)
    data = path.read_bytes()
    for size in (0, 10, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:size])
        done = kdbforge("compile", path)
        assert done.returncode == 2
        assert done.stderr.startswith(f"error: `{path}` is not a whole kdbforge plan\n")
        assert done.stderr.endswith("hint: make it again with `kdbforge plan`\n")
    assert not os.path.exists(tmp_path / "store")
