"""The fetch as a transaction: whole or not at all, resumed, one at a time.

Here `apt-get` and `apt-cache` are small programs that serve packages from a folder, so that a run
can be stopped where a test wants it; dpkg-deb, tar, the probe and the fetch itself are real.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kdbforge.errors import BusyError, HostError, KdbforgeError, ToolchainError
from kdbforge.toolchain import FetchOptions, add, describe, fetch, find, names, verify

APT = """\
#!{python}
import hashlib, os, re, shutil, sys, time
from pathlib import Path

repo, state = Path("{repo}"), Path(os.environ["APT_CONFIG"]).parent
command = [Path(sys.argv[0]).name, *sys.argv[1:]]
stanzas = [s for s in (repo / "Packages").read_text().split("\\n\\n") if s.strip()]
field = lambda s, key: re.search(f"^{{key}}: (.*)$", s, re.M)[1]
name_of = lambda s: field(s, "Package")
files = {{name_of(s): next(repo.glob(name_of(s) + "_*.deb")) for s in stanzas}}
if (repo / "complaint").exists():
    sys.exit((repo / "complaint").read_text())
if command[:2] == ["apt-cache", "show"]:
    wanted = {{c.split("=")[0] for c in command[2:]}}
    print("\\n\\n".join(s for s in stanzas if name_of(s) in wanted))
elif command[:2] == ["apt-cache", "madison"]:
    for s in stanzas:
        if name_of(s) == command[2]:
            where = "http://d experimental/main amd64 Packages"
            print(f" {{command[2]}} | {{field(s, 'Version')}} | {{where}}")
elif "install" in command:
    there = (state / "status").read_text()
    for name, path in files.items():
        if f"Package: {{name}}\\n" in there:
            continue
        target = state / "cache/archives" / path.name
        if "--print-uris" in command:
            print(f"'http://d/{{path.name}}' {{path.name}} {{path.stat().st_size}} MD5Sum:0")
        elif not target.exists():
            with (repo / "served").open("a") as log:
                log.write(path.name + "\\n")
            while (repo / "stall").exists() and (repo / "stall").read_text() == name:
                time.sleep(0.01)
            shutil.copy(path, target.parent / "partial")
            (target.parent / "partial" / path.name).rename(target)
"""


class Repository:
    """A folder of packages that the stand-in apt serves."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "Packages").touch()

    def put(
        self, name: str, files: dict[str, Path | bytes], *, version: str = "1-1", depends: str = ""
    ) -> None:
        tree = self.folder.parent / f"tree-{name}"
        for path, content in files.items():
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, Path):
                shutil.copy(content, tree / path)
            else:
                (tree / path).write_bytes(content)
        control = f"Package: {name}\nVersion: {version}\nArchitecture: amd64\nMaintainer: x <x@x>\n"
        control += (f"Depends: {depends}\n" if depends else "") + "Description: x\n"
        (tree / "DEBIAN").mkdir(parents=True)
        (tree / "DEBIAN/control").write_text(control)
        deb = self.folder / f"{name}_{version}_amd64.deb"
        subprocess.run(["dpkg-deb", "-Znone", "--root-owner-group", "-b", tree, deb],
                       check=True, capture_output=True)  # fmt: skip
        shutil.rmtree(tree)
        self.index(deb, control)

    def index(self, deb: Path, control: str) -> None:
        name = control.partition("\n")[0]
        packages = self.folder / "Packages"
        old = [s for s in packages.read_text().split("\n\n") if s.strip() and f"{name}\n" not in s]
        digest = hashlib.sha256(deb.read_bytes()).hexdigest()
        size = deb.stat().st_size
        old.append(f"{control}Size: {size}\nSHA256: {digest}\nInstalled-Size: 100")
        packages.write_text("\n\n".join(old) + "\n\n")

    @property
    def served(self) -> list[str]:
        path = self.folder / "served"
        return path.read_text().split() if path.exists() else []


def library(folder: Path, soname: str, source: str, *needed: Path) -> Path:
    subprocess.run(
        [
            "gcc", "-shared", "-fPIC", "-nostdlib", "-Wl,--build-id", f"-Wl,-soname,{soname}",
            "-Wl,--no-as-needed", f"-Wl,-rpath-link,{folder}", "-o", folder / soname,
            "-x", "c", "-", "-x", "none", *needed,
        ],
        input=source, text=True, check=True,
    )  # fmt: skip
    return folder / soname


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("libraries")
    comgr = library(folder, "libamd_comgr.so.3", "int comgr;")
    hiprtc = library(folder, "libhiprtc.so.7", "int hiprtc;")
    blas = library(folder, "librocblas.so.5", "int blas;")
    text = 'const char a[] = "MIOpen version 9.8.7"; const char k[] = "__kernel void f()";'
    miopen = library(folder, "libMIOpen.so.1", text, comgr, hiprtc, blas)
    return {path.name: path for path in (comgr, hiprtc, blas, miopen)}


@pytest.fixture
def repository(
    libraries: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Repository:
    repo = Repository(tmp_path / "repo")
    lib = "usr/lib/x86_64-linux-gnu"
    repo.put("libamd-comgr3", {f"{lib}/libamd_comgr.so.3": libraries["libamd_comgr.so.3"]})
    repo.put("libhiprtc7", {f"{lib}/libhiprtc.so.7": libraries["libhiprtc.so.7"]})
    repo.put("librocblas5", {f"{lib}/librocblas.so.5": libraries["librocblas.so.5"]})
    repo.put(
        "libmiopen1",
        {f"{lib}/libMIOpen.so.1": libraries["libMIOpen.so.1"], "usr/share/man/man1/x.1": b"x"},
        version="9.8.7+dfsg-1",
        depends="libamd-comgr3 (>= 5), libhiprtc7, librocblas5",
    )
    repo.put("libstdc++6", {"usr/share/doc/libstdc++6/copyright": b"x"}, version="16.2.0-4")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("apt-get", "apt-cache"):
        (programs / name).write_text(APT.format(python=sys.executable, repo=repo.folder))
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return repo


@pytest.fixture
def options(tmp_path: Path) -> FetchOptions:
    (tmp_path / "key.gpg").touch()
    return FetchOptions(mirror="http://d/debian", keyrings=(tmp_path / "key.gpg",))


PROGRAM = """
import sys
from pathlib import Path
from kdbforge.toolchain import FetchOptions, fetch
fetch(Path(sys.argv[1]), FetchOptions(mirror="http://d/debian", keyrings=(Path(sys.argv[2]),)))
"""


@pytest.fixture
def running(tmp_path: Path, options: FetchOptions) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Fetches in processes of their own; killed at the end."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


def start(data: Path, options: FetchOptions, running: list[subprocess.Popen[bytes]]) -> None:
    command = [sys.executable, "-c", PROGRAM, str(data), str(options.keyrings[0])]
    running.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))


def wait_until(condition: object) -> None:
    assert callable(condition)
    while not condition():
        time.sleep(0.01)


def test_a_fetch(repository: Repository, options: FetchOptions, tmp_path: Path) -> None:
    steps: list[str] = []
    done = fetch(tmp_path / "data", options, step=steps.append)
    known = done.toolchain
    assert (known.name, known.origin, known.version) == ("debian-9.8.7", "fetched", "9.8.7+dfsg-1")
    assert (done.packages, done.already_there, done.note) == (4, False, None)
    assert done.fetched_bytes == done.download_bytes > 0
    assert steps[0].startswith("Reading package lists of sid, experimental (http://d/debian)")
    assert "librocblas5_1-1_amd64.deb" not in repository.served
    home = tmp_path / "data/toolchains/debian-9.8.7"
    assert not (home / "root/usr/share/man").exists()
    assert not list(home.rglob("librocblas*"))
    assert sorted(p.name for p in home.parent.iterdir()) == [".fetch", ".lock", "debian-9.8.7"]
    assert not list((home.parent / ".fetch").rglob("*.deb"))
    verify(describe("debian-9.8.7", tmp_path / "data"))
    source = describe(None, tmp_path / "data").source
    assert [p["name"] for p in source["packages"]] == [
        "libamd-comgr3", "libhiprtc7", "libmiopen1", "libstdc++6",
    ]  # fmt: skip


def test_a_second_fetch_changes_nothing(
    repository: Repository, options: FetchOptions, tmp_path: Path
) -> None:
    first = fetch(tmp_path, options)
    before = len(repository.served)
    again = fetch(tmp_path, options)
    assert again.already_there
    assert again.toolchain == first.toolchain
    assert len(repository.served) == before


def test_if_missing_asks_nobody(
    repository: Repository, options: FetchOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch(tmp_path, options)
    shutil.rmtree(tmp_path / "toolchains/.fetch")
    monkeypatch.setenv("PATH", "/nowhere")
    assert fetch(tmp_path, dataclasses.replace(options, if_missing=True)).already_there


def test_newer_packages_need_replace(
    repository: Repository, options: FetchOptions, tmp_path: Path
) -> None:
    first = fetch(tmp_path, options).toolchain
    (repository.folder / "libhiprtc7_1-1_amd64.deb").unlink()
    hiprtc = first.library_path[0] / "libhiprtc.so.7"
    repository.put("libhiprtc7", {"usr/lib/x86_64-linux-gnu/libhiprtc.so.7": hiprtc}, version="2-1")
    stays = fetch(tmp_path, options)
    assert stays.already_there
    assert "--replace" in str(stays.note)
    new = fetch(tmp_path, dataclasses.replace(options, replace=True))
    assert not new.already_there
    versions = {p["name"]: p["version"] for p in describe(None, tmp_path).source["packages"]}
    assert versions["libhiprtc7"] == "2-1"
    assert names(tmp_path) == ("debian-9.8.7",)


def test_a_damaged_one_is_brought_again(
    repository: Repository, options: FetchOptions, tmp_path: Path
) -> None:
    first = fetch(tmp_path, options).toolchain
    (first.library_path[0] / "libamd_comgr.so.3").unlink()
    with pytest.raises(ToolchainError, match="lost"):
        find(None, tmp_path)
    mended = fetch(tmp_path, options)
    assert not mended.already_there
    assert find(None, tmp_path).fingerprint == first.fingerprint


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT])
def test_stopped_in_the_download(
    repository: Repository, options: FetchOptions, tmp_path: Path,
    running: list[subprocess.Popen[bytes]], stop: int,
) -> None:  # fmt: skip
    (repository.folder / "stall").write_text("libmiopen1")
    start(tmp_path, options, running)
    wait_until(lambda: "libmiopen1_9.8.7+dfsg-1_amd64.deb" in repository.served)
    running[0].send_signal(stop)
    assert running[0].wait() != 0
    assert names(tmp_path) == ()
    assert not list(tmp_path.glob("toolchains/debian*"))
    (repository.folder / "stall").unlink()
    fetch(tmp_path, options)
    find(None, tmp_path)
    # What had come before the stop was not brought a second time.
    assert repository.served.count("libamd-comgr3_1-1_amd64.deb") == 1


def test_two_at_once(
    repository: Repository, options: FetchOptions, tmp_path: Path,
    running: list[subprocess.Popen[bytes]],
) -> None:  # fmt: skip
    (repository.folder / "stall").write_text("libmiopen1")
    start(tmp_path, options, running)
    wait_until(lambda: "libmiopen1_9.8.7+dfsg-1_amd64.deb" in repository.served)
    with pytest.raises(BusyError, match="Another kdbforge"):
        fetch(tmp_path, options)
    (repository.folder / "stall").unlink()
    assert running[0].wait() == 0
    assert names(tmp_path) == ("debian-9.8.7",)


def test_a_damaged_download_is_brought_again(
    repository: Repository, options: FetchOptions, tmp_path: Path
) -> None:
    archives = tmp_path / "toolchains/.fetch/cache/archives"
    archives.mkdir(parents=True)
    deb = "libmiopen1_9.8.7+dfsg-1_amd64.deb"
    size = (repository.folder / deb).stat().st_size
    (archives / deb).write_bytes(b"x" * size)
    fetch(tmp_path, options)
    assert deb in repository.served


def test_a_package_that_is_not_what_the_list_says(
    repository: Repository, options: FetchOptions, tmp_path: Path
) -> None:
    deb = repository.folder / "libhiprtc7_1-1_amd64.deb"
    data = bytearray(deb.read_bytes())
    data[-1] ^= 1
    deb.write_bytes(data)
    with pytest.raises(ToolchainError, match=r"libhiprtc7_1-1_amd64\.deb` is not what"):
        fetch(tmp_path, options)
    assert names(tmp_path) == ()


def test_a_package_that_cannot_be_unpacked(
    repository: Repository, options: FetchOptions, tmp_path: Path
) -> None:
    deb = repository.folder / "libhiprtc7_1-1_amd64.deb"
    control = "Package: libhiprtc7\nVersion: 1-1\nArchitecture: amd64\n"
    deb.write_bytes(b"!<arch>\nnot a package")
    repository.index(deb, control)
    with pytest.raises(ToolchainError, match="Cannot unpack `libhiprtc7"):
        fetch(tmp_path, options)
    assert [p.name for p in (tmp_path / "toolchains").iterdir() if "debian" in p.name] == []


def test_only_child_process_builds(
    repository: Repository, options: FetchOptions, tmp_path: Path
) -> None:
    (repository.folder / "libmiopen1_9.8.7+dfsg-1_amd64.deb").unlink()
    repository.put(
        "libmiopen1", {}, version="6.4.3-1", depends="libamdhip64-6, libhiprtc-builtins6"
    )
    with pytest.raises(ToolchainError, match="No `libmiopen1` with COMGR and HIPRTC") as caught:
        fetch(tmp_path, options)
    assert caught.value.context == ("versions there: 6.4.3-1",)


def put_child_process_build(repository: Repository, folder: Path) -> None:
    """Put a libMIOpen that runs clang in place of the other one, and that clang."""
    text = 'const char a[] = "MIOpen version 9.1.1"; const char k[] = "__kernel void f()";'
    text += 'const char c[] = "/usr/bin/clang++-21";'
    miopen = library(folder, "libMIOpen.so.1", text)
    program = folder / "program"
    subprocess.run(
        ["gcc", "-Wl,--build-id", "-o", program, "-x", "c", "-"],
        input="int main(void) { return 0; }", text=True, check=True,
    )  # fmt: skip
    (repository.folder / "libmiopen1_9.8.7+dfsg-1_amd64.deb").unlink()
    repository.put(
        "libmiopen1",
        {"usr/lib/x86_64-linux-gnu/libMIOpen.so.1": miopen},
        version="6.4.3-1",
        depends="libamdhip64-6 (>= 6.1), libclang-common-21-dev",
    )
    programs = ("clang++-21", "lld", "ld.lld", "clang-offload-bundler")
    repository.put("clang-21", {f"usr/bin/{name}": program for name in programs})
    bitcode = "usr/lib/clang/21/amdgcn/bitcode/ocml.bc"
    repository.put("rocm-device-libs-21", {bitcode: b"bitcode"})
    repository.put("binutils", {"usr/bin/ld": b"linker of the host"})


def test_a_child_process_build_that_is_asked_for(
    repository: Repository, options: FetchOptions, tmp_path: Path
) -> None:
    put_child_process_build(repository, tmp_path)
    wanted = dataclasses.replace(options, miopen="6.4.3")
    result = fetch(tmp_path, wanted)
    assert (result.toolchain.name, result.toolchain.miopen_version) == ("debian-6.4.3", "9.1.1")
    root = tmp_path / "toolchains/debian-6.4.3/root"
    assert result.toolchain.clang == root / "usr/bin/clang++-21"
    assert not (root / "usr/bin/ld").exists()
    assert fetch(tmp_path, dataclasses.replace(wanted, if_missing=True)).already_there
    with pytest.raises(ToolchainError, match="with COMGR and HIPRTC"):
        fetch(tmp_path, dataclasses.replace(options, if_missing=True))


def test_a_release_that_is_not_there(
    repository: Repository, options: FetchOptions, tmp_path: Path
) -> None:
    with pytest.raises(ToolchainError, match=r"No `libmiopen1` 6\.4\.3 in sid") as caught:
        fetch(tmp_path, dataclasses.replace(options, miopen="6.4.3"))
    assert caught.value.context == ("versions there: 9.8.7+dfsg-1",)
    assert fetch(tmp_path, dataclasses.replace(options, miopen="9.8.7")).fetched_bytes > 0


@pytest.mark.parametrize(
    ("complaint", "error"),
    [
        ("E: Failed to fetch http://d  Could not resolve 'd'", HostError),
        ("E: The repository 'http://d sid InRelease' is not signed.", ToolchainError),
        ("E: Write error - write (28: No space left on device)", HostError),
    ],
)
def test_apt_complains(
    repository: Repository, options: FetchOptions, tmp_path: Path, complaint: str, error: type
) -> None:
    (repository.folder / "complaint").write_text(complaint)
    with pytest.raises(KdbforgeError) as caught:
        fetch(tmp_path, options)
    assert type(caught.value) is error
    assert caught.value.context == (complaint,)
    assert caught.value.hint is not None or "space" in caught.value.message
    assert names(tmp_path) == ()


def test_the_name_of_an_installed_one(
    repository: Repository, options: FetchOptions, tmp_path: Path
) -> None:
    there = fetch(tmp_path / "a", options).toolchain
    add(there.libmiopen, "debian-9.8.7", data_dir=tmp_path / "b")
    with pytest.raises(ToolchainError, match="taken by an installed"):
        fetch(tmp_path / "b", options)
    with pytest.raises(KdbforgeError, match="is a fetched toolchain"):
        add(there.libmiopen, "debian-9.8.7", data_dir=tmp_path / "a", replace=True)


def test_nothing_absolute_in_the_description(
    repository: Repository, options: FetchOptions, tmp_path: Path
) -> None:
    known = fetch(tmp_path, options).toolchain
    text = (tmp_path / "toolchains" / known.name / "toolchain.json").read_text()
    assert "root/usr/lib/x86_64-linux-gnu/libMIOpen.so.1" in text
    assert str(tmp_path / "toolchains") not in json.dumps(json.loads(text)["libraries"])
