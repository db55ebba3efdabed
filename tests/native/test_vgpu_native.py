"""The virtual GPU's native part, built with the sanitizers and driven by small C programs.

The journal reader here is written from the format alone, not from the library's own.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
NATIVE = ROOT / "src" / "kdbforge" / "vgpu" / "native"
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g"]

PROFILE = {
    "gcn_arch_name": "gfx90a:sramecc+:xnack-",
    "num_cu": "104",
    "wave_size": "64",
    "lds_bytes": "65536",
    "memory_bytes": "68702699520",
    "max_grid_dim_x": "2147483647",
    "cooperative_launch": "1",
    "clock_khz": "1700000",
    "memory_clock_khz": "1600000",
    "product_name": "Test GPU",
}


def tool(name: str) -> str:
    """Find a program beside the running Python, then in PATH."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = shutil.which(name, path=path)
    assert found is not None, f"the native tests need `{name}`"
    return found


def run(*command: str | Path) -> None:
    parts = [str(part) for part in command]
    done = subprocess.run(parts, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the libraries with the sanitizers; the folder that holds them."""
    build = tmp_path_factory.mktemp("build")
    run(tool("cmake"), "-S", ROOT, "-B", build, "-DKDBFORGE_SANITIZE=ON")
    run(tool("cmake"), "--build", build, "--parallel", "2")
    return build / "lib"


@pytest.fixture(scope="session")
def programs(libraries: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the C test programs; the folder that holds them."""
    folder = tmp_path_factory.mktemp("programs")
    for source in sorted(HERE.glob("*.c")):
        run(
            tool("cc"),
            *("-std=gnu11", "-Wall", "-Wextra", "-Werror", *SANITIZE),
            *("-o", folder / source.stem, source, f"-L{libraries}", "-pthread"),
            *("-l:libamdhip64.so.7", "-l:libamd_comgr.so.3", "-l:librocblas.so.5"),
            "-l:libhipblaslt.so.1",
        )
    return folder


class Guest:
    """Starts test programs on a virtual GPU, and reads the journal that they leave."""

    def __init__(self, folder: Path, libraries: Path, programs: Path):
        self.folder = folder
        self.programs = programs
        self.journal = folder / "journal"
        self.profile = folder / "profile"
        self.environment = {
            "PATH": os.environ["PATH"],
            "LD_LIBRARY_PATH": str(libraries),
            "ASAN_OPTIONS": "detect_leaks=1",
            "KDBFORGE_VGPU_PROFILE": str(self.profile),
            "KDBFORGE_VGPU_JOURNAL": str(self.journal),
            "KDBFORGE_VGPU_COMPILE": "capture",
            "KDBFORGE_VGPU_LAUNCH": "skip",
            "KDBFORGE_VGPU_MEMORY": "reserve",
        }
        self.write_profile({})

    def write_profile(self, changes: Mapping[str, str]) -> None:
        lines = {**PROFILE, **changes}
        self.profile.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))

    def run(
        self, program: str, *arguments: str | Path, **changes: str | None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program; a change of None removes the variable `KDBFORGE_VGPU_<name>`."""
        environment = dict(self.environment)
        for name, value in changes.items():
            environment.pop(f"KDBFORGE_VGPU_{name}", None)
            if value is not None:
                environment[f"KDBFORGE_VGPU_{name}"] = value
        command = [str(self.programs / program), *map(str, arguments)]
        return subprocess.run(
            command,
            check=False,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=300,
        )

    def succeed(self, program: str, *arguments: str | Path, **changes: str | None) -> str:
        done = self.run(program, *arguments, **changes)
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout

    def entries(self) -> list[tuple[int, list[bytes]]]:
        return read_journal(self.journal.read_bytes())

    def of_type(self, kind: int) -> list[list[bytes]]:
        return [fields for number, fields in self.entries() if number == kind]


@pytest.fixture
def guest(tmp_path: Path, libraries: Path, programs: Path) -> Guest:
    return Guest(tmp_path, libraries, programs)


def read_journal(data: bytes) -> list[tuple[int, list[bytes]]]:
    """Read a whole journal; nothing may be left over."""
    entries = []
    at = 0
    while at < len(data):
        magic, kind, length, crc, zero = struct.unpack_from("<4sIQII", data, at)
        payload = data[at + 24 : at + 24 + length]
        assert (magic, zero, len(payload), zlib.crc32(payload)) == (b"KFJ1", 0, length, crc)
        entries.append((kind, read_fields(payload)))
        at += 24 + length
    return entries


def read_fields(payload: bytes) -> list[bytes]:
    fields = []
    at = 0
    while at < len(payload):
        (length,) = struct.unpack_from("<Q", payload, at)
        assert at + 8 + length <= len(payload)
        fields.append(payload[at + 8 : at + 8 + length])
        at += 8 + length
    return fields


def code_object(
    flags: int = 0x53F, machine: int = 224, abi: int = 4, osabi: int = 64, kind: int = 3
) -> bytes:
    """Make a small code object with one kernel, and symbols that only look like kernels."""
    names = [b"kernel_one", b"kernel_one.kd", b"undefined.kd", b"not_an_object.kd"]
    strings = b"\0" + b"\0".join(names) + b"\0"
    infos = {b"kernel_one": (2, 1), b"kernel_one.kd": (1, 1), b"undefined.kd": (1, 0)}
    symbols = bytes(24)
    for name in names:
        type_, section = infos.get(name, (2, 1))
        offset = strings.index(b"\0" + name + b"\0") + 1
        symbols += struct.pack("<IBBHQQ", offset, 0x10 | type_, 0, section, 0, 64)
    symbols_at = 64 + 56
    strings_at = symbols_at + len(symbols)
    sections_at = strings_at + len(strings)
    size = sections_at + 3 * 64
    ident = b"\x7fELF\x02\x01\x01" + bytes([osabi, abi]) + bytes(7)
    header = struct.pack(
        "<HHIQQQIHHHHHH", kind, machine, 1, 0, 64, sections_at, flags, 64, 56, 1, 64, 3, 2
    )
    segment = struct.pack("<IIQQQQQQ", 1, 4, 0, 0, 0, strings_at, strings_at, 4096)
    sections = bytes(64)
    sections += struct.pack("<IIQQQQIIQQ", 0, 11, 2, 0, symbols_at, len(symbols), 2, 1, 8, 24)
    sections += struct.pack("<IIQQQQIIQQ", 0, 3, 2, 0, strings_at, len(strings), 0, 0, 1, 0)
    data = ident + header + segment + symbols + strings + sections
    assert len(data) == size
    return data


# Libraries


EXPORT = re.compile(r"VGPU_SYMBOL\((\S+), (\S+), \w+\)")


@pytest.mark.parametrize(
    ("library", "symbols"),
    [
        ("libamdhip64.so.5", "hip"),
        ("libamdhip64.so.6", "hip"),
        ("libamdhip64.so.7", "hip"),
        ("libamd_comgr.so.2", "comgr"),
        ("libamd_comgr.so.3", "comgr"),
    ],
)
def test_exports_are_the_list(libraries: Path, library: str, symbols: str) -> None:
    listed = EXPORT.findall((NATIVE / symbols / "symbols.def").read_text())
    output = subprocess.check_output(
        [tool("nm"), "-D", "--defined-only", str(libraries / library)], text=True
    )
    exported = [line.split()[-1] for line in output.splitlines() if " A " not in line]
    assert len(listed) > 60
    assert sorted(exported) == sorted(f"{name}@@{node}" for name, node in listed)


def test_files_are_named_by_soname(libraries: Path) -> None:
    files = sorted(libraries.iterdir())
    assert len(files) == 11
    for file in files:
        assert not file.is_symlink()
        dynamic = subprocess.check_output([tool("readelf"), "-d", str(file)], text=True)
        assert f"soname: [{file.name}]" in dynamic


def test_plain_build_needs_only_an_old_libc(tmp_path: Path) -> None:
    run(tool("cmake"), "-S", ROOT, "-B", tmp_path / "build")
    run(tool("cmake"), "--build", tmp_path / "build", "--parallel", "2")
    run(tool("cmake"), "--install", tmp_path / "build", "--prefix", tmp_path / "wheel")
    files = sorted((tmp_path / "wheel" / "kdbforge" / "vgpu" / "lib").iterdir())
    assert len(files) == 11
    for file in files:
        imports = subprocess.check_output(
            [tool("nm"), "-D", "--undefined-only", str(file)], text=True
        )
        versions = [tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([\d.]+)", imports)]
        assert max(versions) <= (2, 17), file.name
        dynamic = subprocess.check_output([tool("readelf"), "-d", str(file)], text=True)
        needed = set(re.findall(r"NEEDED.*\[(.*)\]", dynamic))
        assert needed <= {"libc.so.6", "libpthread.so.0", "ld-linux-x86-64.so.2"}


# HIP


def test_device(guest: Guest) -> None:
    done = guest.run("device")
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stderr.splitlines() if "hipTexRefGetFlags" in line]
    assert [line.partition("GPU")[2] for line in told] == ["", "; calls: 2"]
    assert "attribute 4711" in done.stderr
    process, *rest = guest.entries()
    assert process[0] == 1
    nonce, _pid, mode, arch = process[1]
    assert re.fullmatch(rb"[0-9a-f]{16}", nonce)
    assert (mode, arch) == (b"capture", b"gfx90a:sramecc+:xnack-")
    assert rest == [
        (7, [nonce, b"hipTexRefGetFlags"]),
        (7, [nonce, b"hipApiName"]),
        (4, [nonce, b"a mark"]),
        (7, [nonce, b"hipApiName", b"1"]),
        (7, [nonce, b"hipTexRefGetFlags", b"2"]),
    ]


def test_several_devices(guest: Guest) -> None:
    second = {"gcn_arch_name": "gfx1030", "num_cu": "40", "wave_size": "32", "product_name": "Two"}
    text = guest.profile.read_text()
    guest.write_profile({**second, "memory_bytes": str(1 << 20)})
    guest.profile.write_text(text + "\n" + guest.profile.read_text())
    guest.succeed("devices")


@pytest.mark.parametrize("text", ["{0}\n\n{0}", "{0}\n", "\n{0}", "\n".join(["{0}"] * 17)])
def test_bad_list_of_devices(guest: Guest, text: str) -> None:
    guest.profile.write_text(text.format(guest.profile.read_text()))
    done = guest.run("environment")
    assert done.stdout == "3 1"
    assert ("17" in str(text.count("{0}"))) == ("more than 16 devices" in done.stderr)


@pytest.mark.parametrize("mode", ["reserve", "backed"])
def test_memory(guest: Guest, mode: str) -> None:
    guest.write_profile({"memory_bytes": str(64 << 20)})
    guest.succeed("memory", mode, MEMORY=mode)


def test_graphs(guest: Guest) -> None:
    guest.succeed("graphs")


@pytest.mark.parametrize("mode", ["reserve", "backed"])
def test_copies(guest: Guest, mode: str) -> None:
    guest.succeed("copies", mode, MEMORY=mode)


def test_hipblaslt(guest: Guest) -> None:
    guest.succeed("hipblaslt")


def bundle(entries: Mapping[str, bytes]) -> bytes:
    """Put code objects together as clang-offload-bundler does."""
    names = {b"host-x86_64-unknown-linux-gnu--": b""}
    names |= {f"hipv4-amdgcn-amd-amdhsa--{name}".encode(): data for name, data in entries.items()}
    at = 32 + sum(24 + len(name) for name in names)
    header, body = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(names)), b""
    for name, data in names.items():
        header += struct.pack("<QQQ", at + len(body), len(data), len(name)) + name
        body += data
    return header + body


def test_fat_binary(guest: Guest) -> None:
    file = guest.folder / "bundle"
    fits = code_object(0x53F)
    file.write_bytes(bundle({"gfx1030": code_object(0x36), "gfx90a": fits}))
    guest.succeed("programs", "use", file, MEMORY="backed", COMPILE="forbid")
    loads = [fields[1:] for fields in guest.of_type(5)]
    assert loads == [[b"object", str(len(fits)).encode(), b"gfx90a"]] * 2  # once for all launches


@pytest.mark.parametrize(
    ("data", "error", "told"),
    [
        (bundle({"gfx1030": code_object(0x36)}), 209, "nothing in the offload bundle fits"),
        (bundle({"gfx90a:xnack+": code_object(0x73F)}), 209, "nothing in the offload bundle fits"),
        (bundle({"gfx90a": code_object(0x36)}), 209, "does not fit"),
        (bundle({"gfx90a": b"no code"}), 200, "shorter than an ELF"),
        (
            bundle({"gfx90a": code_object()})[:40],
            209,
            "nothing in the offload bundle fits",
        ),  # zeros follow
        (b"CCOB" + bytes(100), 200, "compressed"),
        (b"__CLANG_OFFLOAD_BUNDLE__" + b"\xff" * 8, 200, "damaged"),
        (b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<QQQQ", 1, 0, 8, 1 << 60), 200, "damaged"),
        (
            b"__CLANG_OFFLOAD_BUNDLE__"
            + struct.pack("<QQQQ", 1, 1 << 29, 8, 21)
            + b"hip-amdgcn-os--gfx90a",
            200,
            "damaged",
        ),
        (b"", 200, ""),
    ],
)
def test_bad_fat_binary(guest: Guest, data: bytes, error: int, told: str) -> None:
    file = guest.folder / "bundle"
    file.write_bytes(data or b"\0")
    done = guest.run("programs", "error", file)
    assert (done.returncode, done.stdout) == (0, f"{error}\n"), done.stderr
    assert told in done.stderr


def test_module(guest: Guest) -> None:
    file = guest.folder / "object"
    file.write_bytes(code_object())
    guest.succeed("modules", "use", file, COMPILE="forbid")
    loads = [fields[1:] for fields in guest.of_type(5)]
    assert loads == [[b"object", str(file.stat().st_size).encode(), b"gfx90a"]] * 2


def test_marker_module(guest: Guest) -> None:
    marker = b"kdbforge-capture:0123456789abcdef:3:8:0\n"
    file = guest.folder / "marker"
    file.write_bytes(marker)
    guest.succeed("modules", "marker", file)
    assert [fields[1:] for fields in guest.of_type(5)] == [[b"capture", marker]] * 2
    for mode in ("pass", "forbid"):
        done = guest.run("modules", "error", file, COMPILE=mode)
        assert done.stdout == "200\n"
        assert f"`{mode}`" in done.stderr


@pytest.mark.parametrize(
    "text",
    [
        b"kdbforge-capture:0123456789abcdeF:3:8:0\n",
        b"kdbforge-capture:0123456789abcdef:3:8\n",
        b"kdbforge-capture:0123456789abcdef:03:8:0\n",
        b"kdbforge-capture:0123456789abcdef:3:8:0",
        b"kdbforge-capture:0123456789abcdef:99999999999999999999:8:0\n",
        b"",
    ],
)
def test_bad_marker(guest: Guest, text: bytes) -> None:
    file = guest.folder / "marker"
    file.write_bytes(text)
    assert guest.succeed("modules", "error", file) == "200\n"


XNACK = {"any": 0x100, "off": 0x200, "on": 0x300}
SRAMECC = {"any": 0x400, "off": 0x800, "on": 0xC00}


@pytest.mark.parametrize(
    ("device", "flags", "error"),
    [
        ("gfx90a:sramecc+:xnack-", 0x3F | XNACK["off"] | SRAMECC["on"], 0),
        ("gfx90a:sramecc+:xnack-", 0x3F | XNACK["any"] | SRAMECC["any"], 0),
        ("gfx90a:sramecc+:xnack-", 0x3F | XNACK["on"] | SRAMECC["on"], 209),
        ("gfx90a:sramecc+:xnack-", 0x3F | XNACK["off"] | SRAMECC["off"], 209),
        ("gfx90a", 0x3F | XNACK["any"] | SRAMECC["any"], 0),
        ("gfx90a", 0x3F | XNACK["off"] | SRAMECC["any"], 209),
        ("gfx90a", 0x30 | XNACK["any"] | SRAMECC["any"], 209),
        ("gfx900:xnack+", 0x2C | XNACK["on"], 0),
        ("gfx803", 0x2A, 0),
        ("gfx1030", 0x36, 0),
        ("gfx1030", 0x37, 209),
        ("gfx1010", 0x133, 0),
        ("gfx1201", 0x4E, 0),
        ("gfx1201", 0xFF, 200),
    ],
)
def test_target(guest: Guest, device: str, flags: int, error: int) -> None:
    guest.write_profile({"gcn_arch_name": device})
    file = guest.folder / "object"
    file.write_bytes(code_object(flags))
    done = guest.run("modules", "error", file, COMPILE="pass")
    assert done.stdout == f"{error}\n", done.stderr
    assert len(guest.of_type(5)) == (error == 0)


@pytest.mark.parametrize(
    "image",
    [
        code_object(machine=62),
        code_object(osabi=0),
        code_object(abi=1),
        code_object(abi=5),
        code_object(kind=1),
        b"MZ" + code_object()[2:],
    ],
    ids=["x86-64", "other ABI", "code object v3", "code object v7", "relocatable", "no ELF"],
)
def test_foreign_image(guest: Guest, image: bytes) -> None:
    file = guest.folder / "object"
    file.write_bytes(image)
    done = guest.run("modules", "error", file, COMPILE="pass")
    assert done.stdout == "200\n"
    assert "module refused" in done.stderr


@pytest.mark.parametrize("how", ["truncate", "flip"])
def test_hostile_image(guest: Guest, how: str) -> None:
    file = guest.folder / "object"
    file.write_bytes(code_object())
    guest.succeed("modules", how, file, COMPILE="forbid")


@pytest.mark.parametrize("length", [0, 1, 63, 64, 119, 120, 240, -64, -1])
def test_truncated_file(guest: Guest, length: int) -> None:
    file = guest.folder / "object"
    file.write_bytes(code_object()[:length])
    assert guest.succeed("modules", "error", file, COMPILE="forbid") == "200\n"


def offload_bundle(image: bytes, target: str = "gfx90a") -> bytes:
    """Make what clang makes for one GPU: an empty part for the host, then that of the GPU."""
    names = [b"host-x86_64-unknown-linux-gnu", f"hipv4-amdgcn-amd-amdhsa--{target}".encode()]
    at = 4096
    data = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(names))
    for name, size in zip(names, (0, len(image)), strict=True):
        data += struct.pack("<QQQ", at, size, len(name)) + name
    return data.ljust(at, b"\0") + image


def test_bundle(guest: Guest) -> None:
    file = guest.folder / "object"
    file.write_bytes(offload_bundle(code_object()))
    guest.succeed("modules", "use", file, COMPILE="forbid")
    assert [fields[3] for fields in guest.of_type(5)] == [b"gfx90a"] * 2


@pytest.mark.parametrize(
    ("image", "error"),
    [
        (offload_bundle(code_object(), "gfx90a:xnack-"), 0),
        (offload_bundle(code_object(), "gfx90a:xnack+"), 209),
        (offload_bundle(code_object(), "gfx1030"), 209),
        (offload_bundle(code_object(0x36)), 209),  # its ID says gfx90a, the object gfx1030
        (offload_bundle(b""), 200),
        (offload_bundle(code_object())[:-1], 200),
        (offload_bundle(code_object())[:40], 200),
        (b"CCOB" + offload_bundle(code_object()), 200),
    ],
)
def test_bundle_for_a_device(guest: Guest, image: bytes, error: int) -> None:
    file = guest.folder / "object"
    file.write_bytes(image)
    assert guest.succeed("modules", "error", file, COMPILE="forbid") == f"{error}\n"


def test_hostile_bundle(guest: Guest) -> None:
    file = guest.folder / "object"
    file.write_bytes(offload_bundle(code_object()))
    guest.succeed("modules", "flip", file, COMPILE="forbid")


# comgr


def test_capture(guest: Guest) -> None:
    marker = guest.succeed("comgr").encode()
    nonce = guest.of_type(3)[0][0]
    assert marker == b"kdbforge-capture:%s:2:8:0\n" % nonce
    blobs = {fields[1]: fields[2] for fields in guest.of_type(2)}
    assert blobs == {
        b"0": b"",
        b"1": b"kernel void one() {}",
        b"2": b"kernel void two() {}",
        b"3": b"#define A",
    }
    common = [b"2", b"amdgcn-amd-amdhsa--gfx90a", b"/some/where"]
    options = [b"1", b"3", b"-O3", b"-DNAME=a b", b""]
    compile_ = [nonce, b"0", b"12", *common, b"1", *options, b"4"]
    compile_ += [b"5", b"comgr.log", b"blob:0", b"1", b"one.cl", b"blob:1"]
    compile_ += [b"1", b"two.cl", b"blob:2", b"2", b"inc.h", b"blob:3"]
    generate = [nonce, b"1", b"4", *common, b"1", *options, b"3", b"5", b"comgr.log", b"blob:0"]
    generate += [b"6", b"", b"action:0:6:0", b"6", b"", b"action:0:6:1"]
    link = [nonce, b"2", b"7", *common, b"0", *options, b"3", b"5", b"comgr.log", b"blob:0"]
    link += [b"7", b"", b"action:1:7:0", b"7", b"", b"action:1:7:1"]
    again = [nonce, b"3", b"6", *common, b"0", *options, b"1", b"7", b"copy.o", b"action:2:8:0"]
    assert guest.of_type(3) == [compile_, generate, link, again]
    name = b"amd_comgr_get_isa_count"
    assert guest.of_type(7) == [[nonce, name], [nonce, name, b"2"]]


def test_blobs_come_before_their_action(guest: Guest) -> None:
    guest.succeed("comgr")
    known: set[bytes] = set()
    for kind, fields in guest.entries():
        if kind == 2:
            known.add(b"blob:" + fields[1])
        if kind == 3:
            assert {field for field in fields if field.startswith(b"blob:")} <= known


def test_forbid(guest: Guest) -> None:
    guest.succeed("comgr", "forbid", COMPILE="forbid")
    assert guest.of_type(2) == guest.of_type(3) == []
    ((_nonce, *fields),) = guest.of_type(6)
    assert fields == [
        *(b"12", b"2", b"amdgcn-amd-amdhsa--gfx90a", b"one.cl"),
        *(b"3", b"-O3", b"-DNAME=a b", b""),
    ]


# Processes


def test_forks_and_threads(guest: Guest) -> None:
    guest.succeed("processes", MEMORY="backed")
    entries = guest.entries()
    processes = [fields for kind, fields in entries if kind == 1]
    by_pid: dict[bytes, set[bytes]] = {}
    for nonce, pid, _mode, _arch in processes:
        by_pid.setdefault(pid, set()).add(nonce)
    assert len(by_pid) == 11
    assert len({nonce for nonces in by_pid.values() for nonce in nonces}) == len(processes)
    children = [fields[0] for kind, fields in entries if kind == 4 and fields[1] == b"child"]
    assert len(set(children)) == 10
    blobs = [(fields[0], fields[2]) for kind, fields in entries if kind == 2]
    assert len(blobs) == len(set(blobs)) == 200 + 10
    assert len([1 for kind, _fields in entries if kind == 3]) == 1 + 8 * 200 + 10


# Environment


@pytest.mark.parametrize("name", ["PROFILE", "JOURNAL", "COMPILE", "LAUNCH", "MEMORY"])
@pytest.mark.parametrize("value", [None, "", "/no/such/thing"])
def test_bad_variable(guest: Guest, name: str, value: str | None) -> None:
    done = guest.run("environment", **{name: value})
    assert done.stdout == "3 1"
    lines = done.stderr.splitlines()
    assert len(lines) == 2  # each of the two libraries tells it once
    for line in lines:
        assert f"KDBFORGE_VGPU_{name}" in line
        assert not value or value in line


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("nonsense", "`nonsense` is not key=value"),
        ("colour=red", "unknown key `colour`"),
        ("num_cu=36", "`num_cu` stands twice"),
    ],
)
def test_bad_profile_line(guest: Guest, line: str, told: str) -> None:
    with guest.profile.open("a") as profile:
        profile.write(line + "\n")
    done = guest.run("environment")
    assert done.stdout == "3 1"
    assert told in done.stderr
    assert not guest.journal.exists()


@pytest.mark.parametrize(
    ("key", "value"),
    [("num_cu", value) for value in ("", "0", "-1", "+1", "1 ", "0x10", "2147483648", "9" * 30)]
    + [("gcn_arch_name", value) for value in ("", "gfx", "gfx9", "gfx90a:", "gfx90a:xnack")]
    + [("gcn_arch_name", value) for value in ("gfx90a:xnack+:xnack-", "gfx90A", "gfx90a:tsan+")]
    + [("cooperative_launch", "2"), ("product_name", ""), ("product_name", "x" * 200)],
)
def test_bad_profile_value(guest: Guest, key: str, value: str) -> None:
    guest.write_profile({key: value})
    done = guest.run("environment")
    assert done.stdout == "3 1"
    assert f"`{value}` of `{key}`" in done.stderr


@pytest.mark.parametrize("key", list(PROFILE))
def test_missing_profile_key(guest: Guest, key: str) -> None:
    lines = [line for line in guest.profile.read_text().splitlines() if not line.startswith(key)]
    guest.profile.write_text("\n".join(lines))
    done = guest.run("environment")
    assert done.stdout == "3 1"
    assert f"key `{key}` is missing" in done.stderr


def test_long_profile_line(guest: Guest) -> None:
    guest.write_profile({"product_name": "x" * 2000})
    assert guest.run("environment").stdout == "3 1"


def test_pass_mode_refuses_the_capturing_comgr(guest: Guest) -> None:
    done = guest.run("environment", COMPILE="pass")
    assert done.stdout == "0 1"
    assert "KDBFORGE_VGPU_COMPILE=pass" in done.stderr


def test_full_disk(guest: Guest) -> None:
    done = guest.run("environment", JOURNAL="/dev/full")
    assert done.stdout == "3 1"
    assert "journal cannot be written" in done.stderr


def test_good_environment(guest: Guest) -> None:
    done = guest.run("environment")
    assert (done.stdout, done.stderr) == ("0 0", "")
