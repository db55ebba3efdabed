"""The compiler's command lines: read, captured, refused and passed on, under the sanitizers."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from kdbforge.model.job import Command
from kdbforge.vgpu.journal import read_journal

HERE = Path(__file__).parent
NATIVE = HERE.parent.parent / "src" / "kdbforge" / "vgpu" / "native"
FLAGS = [
    "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", "-fPIC", "-pthread",
    "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
]  # fmt: skip
PROFILE = """\
gcn_arch_name=gfx1030
product_name=Test GPU
num_cu=40
wave_size=32
lds_bytes=65536
memory_bytes=17163091968
max_grid_dim_x=2147483647
cooperative_launch=1
clock_khz=2500000
memory_clock_khz=1000000
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, something of libMIOpen's name, and a program that uses both."""
    folder = tmp_path_factory.mktemp("popen")
    sources = [*sorted(NATIVE.glob("exec/*.c")), *sorted(NATIVE.glob("common/*.c"))]
    hidden = ["-fvisibility=hidden", '-DKDBFORGE_VGPU_VERSION="test"']
    library, miopen = folder / "libkdbforge_popen.so", folder / "libMIOpen.so.1"
    for command in (
        ["-shared", *hidden, "-o", library, *sources],
        ["-shared", "-o", miopen, HERE / "popen/library.c"],
        ["-o", folder / "program", HERE / "popen/program.c", library, miopen],
    ):
        subprocess.run(["cc", *FLAGS, *map(str, command)], check=True)
    return folder


class Guest:
    """A temporary folder of libMIOpen's, and a process that compiles in it."""

    def __init__(self, built: Path, folder: Path):
        self.built = built
        self.folder = folder
        self.inputs = folder / "miopen-BwdWrW1x1_PAD_read4.cl-1a2b-ABCXYZ_%@,+=:"
        self.inputs.mkdir()
        (self.inputs / "naive_conv.cpp").write_text("kernel\n")
        (self.inputs / "stride_array.hpp").write_text("header\n")
        (self.inputs / "empty.hpp").touch()
        (folder / "profile").write_text(PROFILE)

    def line(self, *arguments: str, source: str = "naive_conv.cpp") -> str:
        words = ["/usr/bin/clang++-21", *arguments, source, "-o", f"{self.inputs}/{source}.o"]
        return f"cd {self.inputs}; {' '.join(words)}"

    def run(
        self, *arguments: str, mode: str = "capture", compiler: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": os.environ["PATH"],
            "LD_LIBRARY_PATH": str(self.built),
            "KDBFORGE_VGPU_PROFILE": str(self.folder / "profile"),
            "KDBFORGE_VGPU_JOURNAL": str(self.journal),
            "KDBFORGE_VGPU_COMPILE": mode,
            "KDBFORGE_VGPU_LAUNCH": "skip",
            "KDBFORGE_VGPU_MEMORY": "reserve",
        }
        if compiler is not None:
            environment["KDBFORGE_VGPU_COMPILER"] = str(compiler)
        return subprocess.run(
            [self.built / "program", *arguments],
            env=environment, capture_output=True, text=True, check=True, timeout=100,
        )  # fmt: skip

    @property
    def journal(self) -> Path:
        return self.folder / "journal"

    @property
    def output(self) -> Path:
        return self.inputs / "naive_conv.cpp.o"


@pytest.fixture
def guest(built: Path, tmp_path: Path) -> Guest:
    return Guest(built, tmp_path)


def test_capture(guest: Guest) -> None:
    line = guest.line("-DA=1", " -isystem", "/usr/include", "-x", "hip", "-I.")
    assert guest.run("w", line).stdout == "0\n"
    capture = read_journal([guest.journal])
    job = capture.job(guest.output.read_text())
    (command,) = job.actions
    assert isinstance(command, Command)
    assert (command.program, command.source) == ("clang++-21", "naive_conv.cpp")
    assert command.arguments == ("-DA=1", "-x", "hip", "-I.")
    found = {item.name: (item.kind, capture.blobs[item.digest]) for item in command.inputs}
    assert found == {
        "empty.hpp": (2, b""),
        "naive_conv.cpp": (1, b"kernel\n"),
        "stride_array.hpp": (2, b"header\n"),
    }
    assert (job.kernel_file, job.is_hip) == ("naive_conv.cpp", True)


def test_the_folder_is_not_part_of_a_job(guest: Guest, tmp_path: Path, built: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Guest(built, tmp_path / "other")
    keys = set()
    for each in (guest, other):
        each.run("w", each.line("-DA=1"))
        keys.add(read_journal([each.journal]).job(each.output.read_text()).key("f"))
    assert len(keys) == 1


def test_a_file_is_written_down_once(guest: Guest) -> None:
    (guest.inputs / "stride_array.hpp").write_text("header\n" * 1000)
    guest.run("w", guest.line())
    once = guest.journal.stat().st_size
    guest.journal.unlink()
    guest.output.unlink()
    (guest.inputs / "b.cpp").write_text("other\n")
    guest.run("w", guest.line(), guest.line(source="b.cpp"))
    # The second time the first output is one of its inputs; both markers together are small.
    assert once < guest.journal.stat().st_size < once + 2000


def test_forbid(guest: Guest) -> None:
    line = guest.line("--cuda-gpu-arch=gfx1030", "-O3")
    assert guest.run("w", line, line, mode="forbid").stdout == "256\n256\n"
    assert not guest.output.exists()
    first, second = read_journal([guest.journal]).forbidden
    assert first == second
    assert (first.kernel_file, first.isa) == ("naive_conv.cpp", "gfx1030")
    assert first.options == ("--cuda-gpu-arch=gfx1030", "-O3")


def test_threads(guest: Guest) -> None:
    guest.run("threads", guest.line(), mode="forbid")
    assert len(read_journal([guest.journal]).forbidden) == 80


def test_pass(guest: Guest) -> None:
    script = guest.folder / "compiler"
    script.write_text(f'#!/bin/sh\necho "$@" "$LD_PRELOAD" >{guest.folder}/said\nexit 3\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    line = guest.line("-x", "hip", "-isystem", "/usr/include")
    assert guest.run("w", line, mode="pass", compiler=script).stdout == f"{3 << 8}\n"
    said = (guest.folder / "said").read_text().split()
    assert said == [str(guest.inputs), "naive_conv.cpp", "clang++-21", "-x", "hip"]


def test_pass_without_a_compiler(guest: Guest) -> None:
    done = guest.run("w", guest.line(), mode="pass")
    assert done.stdout.startswith("none ")
    assert "KDBFORGE_VGPU_COMPILER is not set" in done.stderr
    done = guest.run("w", guest.line(), mode="pass", compiler=guest.folder / "gone")
    assert "No such file" in done.stderr


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("cd ", "pushd "), "does not begin with `cd`"),
        (("; ", " && "), "does not begin with `cd`"),
        (("cd /", "cd /a b/"), "the folder"),
        (("cd /", "cd /$HOME/"), "the folder"),
        (("/usr/bin/clang++-21", "/usr/bin/gcc"), "`/usr/bin/gcc` is no path of clang"),
        (("/usr/bin/clang++-21", "clang"), "`clang` is no path of clang"),
        (("/usr/bin/clang++-21", "/usr/bin/clang-x"), "is no path of clang"),
        (("-DA=1", "-DA=$HOME"), "the character `$`"),
        (("-DA=1", "-DA='1'"), "the character `'`"),
        (("-DA=1", "; rm x"), "the character `;`"),
        (("-DA=1", "1>/dev/null"), "the character `>`"),
        (("-DA=1", "-I/opt/rocm/include"), "`-I/opt/rocm/include` names a file"),
        (("-DA=1", "-isystem /opt/rocm/include"), "names a file"),
        (("-DA=1", "@list"), "`@list` names a file"),
        (("-DA=1", "-o x"), "names a file"),
        ((" -o ", " "), "does not end with a source"),
        (("naive_conv.cpp -o", "../x.cpp -o"), "is no source"),
        (("naive_conv.cpp -o", "other.cpp -o"), "is not that of `other.cpp`"),
        (("naive_conv.cpp.o", "naive_conv.cpp.o2"), "is not that of"),
    ],
)
@pytest.mark.parametrize("mode", ["capture", "forbid"])
def test_another_form_is_refused(
    guest: Guest, mode: str, change: tuple[str, str], told: str
) -> None:
    line = guest.line("-DA=1").replace(*change)
    done = guest.run("w", line, mode=mode)
    assert done.stdout == "none Operation not supported\n"
    assert told in done.stderr
    assert line in done.stderr
    capture = read_journal([guest.journal])
    assert (capture.unsupported, capture.forbidden) == ({"popen": 1}, [])


def test_reading_from_a_command_is_refused(guest: Guest) -> None:
    assert "none" in guest.run("r", guest.line()).stdout


def test_what_cannot_be_captured_fails(guest: Guest) -> None:
    done = guest.run("w", guest.line(source="gone.cpp"))
    assert done.stdout == "256\n"
    assert "has no `gone.cpp`" in done.stderr
    (guest.inputs / "folder").mkdir()
    done = guest.run("w", guest.line())
    assert done.stdout == "256\n"
    assert "Is a directory" in done.stderr


def test_calls_of_others_go_on(guest: Guest) -> None:
    assert guest.run("own", "exit 7", "true").stdout == f"{7 << 8}\n0\n"
