"""The native parsers of strangers' bytes, on the fuzzers' corpus and on seeded changes of it.

With clang, `make fuzz-native` runs the same targets under libFuzzer.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FUZZ = ROOT / "tests" / "fuzz"
SOURCES = ROOT / "src" / "kdbforge"
NATIVE = SOURCES / "vgpu" / "native"
#: By target: further sources, folders of the corpus, and changes of each file that are tried.
TARGETS = {
    "code_object": (
        ("hip/code_object.c", "hip/probe.c", "common/marker.c"),
        ("elf", "native_code_object"),
        500,
    ),
    "profile": ((), ("native_profile",), 10_000),
}


def files(folders: tuple[str, ...]) -> list[Path]:
    """The corpus and the former crashes of some targets."""
    return sorted(
        path
        for kind in ("corpus", "regressions")
        for folder in folders
        for path in (FUZZ / kind / folder).glob("*")
    )


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", TARGETS)
def test_native_target(name: str, tmp_path: Path) -> None:
    sources, folders, changes = TARGETS[name]
    program = tmp_path / name
    compiler = shutil.which("cc", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert compiler is not None, "the native tests need `cc`"
    built = subprocess.run(
        [
            *(compiler, "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-pthread"),
            *("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-I", SOURCES),
            *("-o", program, FUZZ / "native" / f"{name}.c", FUZZ / "native" / "replay.c"),
            *(NATIVE / source for source in sources),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr[-4000:]
    corpus = files(folders)
    done = subprocess.run(
        [program, str(changes), *corpus], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.startswith(f"{len(corpus)} files, ")
