"""How the toolchain's clang is started, and what it would run: read from its own words."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from kdbforge.errors import ToolchainError
from kdbforge.model.toolchain import Toolchain
from kdbforge.vgpu.clang import clang_settings, write_script
from kdbforge.vgpu.clang_guest import ESCAPED, WORD, content_id


def toolchain(folder: Path) -> Toolchain:
    return Toolchain(
        "test", "installed", "1", "1", "00", "f" * 64, folder / "libMIOpen.so.1", (folder / "lib",),
        None, folder / "python3", None, None, (folder / "include",), (folder / "c++",), (), False,
        clang=folder / "llvm/bin/clang",
    )  # fmt: skip


def test_an_installed_clang_finds_headers_by_itself(tmp_path: Path) -> None:
    assert json.loads(clang_settings(toolchain(tmp_path))) == {
        "launcher": [],
        "clang": str(tmp_path / "llvm/bin/clang"),
        "options": [],
        "environment": {"LC_ALL": "C", "LD_LIBRARY_PATH": str(tmp_path / "lib")},
    }


def test_a_fetched_clang_is_started_by_its_own_loader(tmp_path: Path) -> None:
    fetched = replace(toolchain(tmp_path), loader=tmp_path / "ld.so", sysroot=tmp_path / "root")
    assert json.loads(clang_settings(fetched)) == {
        "launcher": [
            str(tmp_path / "ld.so"), "--inhibit-cache", "--library-path", str(tmp_path / "lib"),
        ],
        "clang": str(tmp_path / "llvm/bin/clang"),
        "options": [f"--sysroot={tmp_path / 'root'}"],
        "environment": {"LC_ALL": "C"},
    }  # fmt: skip


def test_a_toolchain_without_one(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="without a child process"):
        clang_settings(replace(toolchain(tmp_path), clang=None))


def test_the_script_hands_its_arguments_on(tmp_path: Path) -> None:
    known = toolchain(tmp_path)
    known.python.write_text('#!/bin/sh\nprintf "%s\\n" "$@" "$TMPDIR" "${HOME-none}"\n')
    known.python.chmod(0o755)
    write_script(known, tmp_path / "compiler")
    done = subprocess.run(
        [tmp_path / "compiler", "/t/folder", "a b.cpp"],
        env={"TMPDIR": "/t/tmp", "HOME": "/h"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    *_, guest, settings, folder, source, temporary, home = done.stdout.splitlines()
    assert guest.endswith("clang_guest.py")
    assert settings == clang_settings(known)
    assert (folder, source, temporary, home) == ("/t/folder", "a b.cpp", "/t/tmp", "none")


def test_words_as_clang_prints_them() -> None:
    line = r' "/usr/bin/clang" "-D" "A=\"x\\y\"" "-o" "/tmp/a \$b.o" "" "-x"'
    words = [ESCAPED.sub(r"\1", word) for word in WORD.findall(line)]
    assert words == ["/usr/bin/clang", "-D", 'A="x\\y"', "-o", "/tmp/a $b.o", "", "-x"]


def test_an_id_is_of_contents_and_not_of_places(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.cpp").write_text("source")
        (tmp_path / name / "a.hpp").write_text("header")
    given = ("a.cpp", "clang++-21", ["-O3"])
    one = content_id(tmp_path / "one", *given)
    assert len(bytes.fromhex(one)) == 8
    assert content_id(tmp_path / "two", *given) == one
    (tmp_path / "two" / "a.cpp.o").write_text("an object of a run before")
    assert content_id(tmp_path / "two", *given) == one
    (tmp_path / "two" / "a.hpp").write_text("header 2")
    assert content_id(tmp_path / "two", *given) != one
    assert content_id(tmp_path / "one", "a.cpp", "clang++-21", ["-O2"]) != one
    assert content_id(tmp_path / "one", "a.cpp", "clang++-22", ["-O3"]) != one
