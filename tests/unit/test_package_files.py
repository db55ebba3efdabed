"""Packages and tarballs: what is in them, read back with other tools, and the same bytes twice."""

from __future__ import annotations

import os
import subprocess
import tarfile
import zlib
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest
from click.testing import CliRunner
from packages import LIBRARY, built

from kdbforge.cli.package import package
from kdbforge.errors import DatabaseError, HostError, InputError, ToolchainError
from kdbforge.package.bundle import (
    DEFAULT_EPOCH,
    Bundle,
    collect_bundles,
    installed_folder,
    source_date_epoch,
)
from kdbforge.package.deb import DebOptions, build_deb
from kdbforge.package.sign import generate_key, sign_manifest
from kdbforge.package.tar import build_tar

ME = "Jo Doe <jo@example.org>"
OPTIONS = DebOptions(ME, architecture="amd64")
DEB = "miopen-kdb-gfx1030_7.2.4+dfsg-1+kdb1_amd64.deb"


@pytest.fixture(autouse=True)
def no_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    for num_cu in (36, 40):
        built(tmp_path / "out", num_cu=num_cu)
    return tmp_path / "out"


@pytest.fixture
def bundle(out: Path) -> Bundle:
    (bundle,) = collect_bundles(out)
    return bundle


def dpkg_deb(*args: str | Path) -> str:
    command = ["dpkg-deb", *map(str, args)]
    environment = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_control_file(bundle: Bundle, tmp_path: Path) -> None:
    deb = build_deb(bundle, tmp_path / "new" / "packages", OPTIONS)
    assert deb == tmp_path / "new" / "packages" / DEB
    assert os.listdir(deb.parent) == [DEB]
    assert deb.stat().st_mode & 0o777 == 0o644
    size = dpkg_deb("--field", deb, "Installed-Size").strip()
    assert (
        dpkg_deb("--field", deb)
        == f"""\
Package: miopen-kdb-gfx1030
Version: 7.2.4+dfsg-1+kdb1
Architecture: amd64
Maintainer: {ME}
Installed-Size: {size}
Depends: libmiopen1 (= 7.2.4+dfsg-1)
Section: libs
Priority: optional
Description: MIOpen kernel databases for gfx1030 GPUs
 Compiled kernels for MIOpen on gfx1030. With them, programs need not compile
 these kernels when they first use them.
 .
 For libMIOpen 3.5.1 of 7.2.4+dfsg-1 only, with build ID
 3ea5ad9c.
 .
 Databases:
   gfx1030_36.kdb: 2 records, policy default,
     0 problems, proven
     GPUs: gfx1030 with 36 CUs
   gfx1030_40.kdb: 2 records, policy default,
     0 problems, proven
     GPUs: gfx1030 with 40 CUs
 .
 They are found only by programs that run with this environment:
   MIOPEN_DEBUG_GCN_ASM_KERNELS=0
"""
    )
    assert " new Debian package, version 2.0." in dpkg_deb("--info", deb)


def test_files_of_a_package(bundle: Bundle, out: Path, tmp_path: Path) -> None:
    sign_manifest(out / "gfx1030_40.manifest.json", generate_key("me"))
    deb = build_deb(bundle, tmp_path, OPTIONS)
    listed = [line.split() for line in dpkg_deb("--contents", deb).splitlines()]
    assert {(fields[1], *fields[3:5]) for fields in listed} == {
        ("root/root", "2020-01-01", "00:00")
    }
    assert {fields[0] for fields in listed} == {"drwxr-xr-x", "-rw-r--r--"}
    assert [fields[5] for fields in listed if not fields[5].endswith("/")] == [
        "./usr/share/doc/miopen-kdb-gfx1030/README.Debian",
        "./usr/share/doc/miopen-kdb-gfx1030/changelog.Debian.gz",
        "./usr/share/doc/miopen-kdb-gfx1030/copyright",
        "./usr/share/miopen/db/gfx1030_36.kdb",
        "./usr/share/miopen/db/gfx1030_36.manifest.json",
        "./usr/share/miopen/db/gfx1030_40.kdb",
        "./usr/share/miopen/db/gfx1030_40.manifest.json",
        "./usr/share/miopen/db/gfx1030_40.manifest.json.sig",
    ]
    dpkg_deb("-R", deb, tmp_path / "tree")
    check = ["md5sum", "--check", "--strict", "--quiet", "DEBIAN/md5sums"]
    subprocess.run(check, cwd=tmp_path / "tree", check=True)
    for path in out.iterdir():
        copy = tmp_path / "tree/usr/share/miopen/db" / path.name
        assert copy.read_bytes() == path.read_bytes()


def test_documents_of_a_package(bundle: Bundle, tmp_path: Path) -> None:
    dpkg_deb("-x", build_deb(bundle, tmp_path, OPTIONS), tmp_path / "tree")
    documents = tmp_path / "tree/usr/share/doc/miopen-kdb-gfx1030"
    changelog = zlib.decompress((documents / "changelog.Debian.gz").read_bytes(), 31).decode()
    assert (
        changelog
        == f"""\
miopen-kdb-gfx1030 (7.2.4+dfsg-1+kdb1) unstable; urgency=medium

  * Built for libmiopen1 7.2.4+dfsg-1.
  * gfx1030_36.kdb: 2 records.
  * gfx1030_40.kdb: 2 records.

 -- {ME}  Wed, 01 Jan 2020 00:00:00 +0000
"""
    )
    paragraphs = (documents / "copyright").read_text().split("\n\n")
    assert paragraphs[0].startswith(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
    )
    used = {p.split("License: ")[1] for p in paragraphs if p.startswith("Files:")}
    assert used == {"Expat", "Expat and NCSA"}
    defined = {p.split("\n")[0] for p in paragraphs if p.startswith("License:")}
    assert defined == {"License: Expat", "License: NCSA"}
    for line in "".join(paragraphs).splitlines():
        assert line.strip() or line == ""
        assert "\t" not in line


def test_packages_are_reproducible(
    bundle: Bundle, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build_deb(bundle, tmp_path / "a", OPTIONS).read_bytes()
    tars = [build_tar(bundle, tmp_path / "a", compression=c).read_bytes() for c in ("gz", "xz")]
    for path in out.iterdir():
        os.utime(path, (5, 5))
        path.chmod(0o600)
    old = os.umask(0o077)
    try:
        monkeypatch.setenv("DPKG_DEB_COMPRESSOR_TYPE", "gzip")
        monkeypatch.setenv("TZ", "Asia/Tokyo")
        assert build_deb(bundle, tmp_path / "b", OPTIONS).read_bytes() == first
        for compression, data in zip(("gz", "xz"), tars, strict=True):
            again = build_tar(bundle, tmp_path / "b", compression=compression)
            assert again.read_bytes() == data
    finally:
        os.umask(old)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(DEFAULT_EPOCH))
    assert build_deb(bundle, tmp_path / "c", OPTIONS).read_bytes() == first
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    deb = build_deb(bundle, tmp_path / "c", OPTIONS)
    assert {line.split()[3] for line in dpkg_deb("--contents", deb).splitlines()} == {"2023-11-14"}


@pytest.mark.parametrize("text", ["soon", "-1", "1.5", "9" * 12])
def test_bad_dates(text: str) -> None:
    with pytest.raises(InputError, match="not a number of seconds"):
        source_date_epoch({"SOURCE_DATE_EPOCH": text})


@pytest.mark.parametrize("compression", ["gz", "xz"])
def test_tarballs(bundle: Bundle, tmp_path: Path, compression: str) -> None:
    folder = PurePosixPath("/opt/rocm/share/miopen/db")
    path = build_tar(bundle, tmp_path / "p", folder=folder, compression=compression)
    assert path.name == f"miopen-kdb-gfx1030_7.2.4+dfsg-1.tar.{compression}"
    with tarfile.open(path) as archive:
        members = archive.getmembers()
    names = [member.name for member in members]
    assert names == sorted(names, key=PurePosixPath)
    assert not any(name.startswith(("/", "./")) for name in names)
    assert {(m.mtime, m.uid, m.gid, m.uname, m.gname) for m in members} == {
        (DEFAULT_EPOCH, 0, 0, "root", "root")
    }
    assert {m.mode for m in members if m.isfile()} == {0o644}
    assert {name for name in names if name.startswith("opt/rocm/share/doc/")} == {
        f"opt/rocm/share/doc/miopen-kdb-gfx1030{name}" for name in ("", "/README", "/copyright")
    }
    subprocess.run(["tar", "-xf", path, "-C", tmp_path], check=True)
    for file in bundle.files:
        assert (tmp_path / folder.relative_to("/") / file.name).read_bytes() == file.read_bytes()


def test_one_package_per_architecture(out: Path) -> None:
    built(out, "gfx90a", 104)
    bundles = collect_bundles(out)
    assert [bundle.name for bundle in bundles] == ["miopen-kdb-gfx1030", "miopen-kdb-gfx90a"]
    assert [len(bundle.files) for bundle in bundles] == [4, 2]


def test_what_is_refused(out: Path, tmp_path: Path) -> None:
    def refused(error: type[Exception], folder: Path) -> str:
        with pytest.raises(error) as caught:
            collect_bundles(folder)
        return str(caught.value)

    assert "There is no folder" in refused(InputError, tmp_path / "none")
    assert "holds no manifest" in refused(InputError, tmp_path)
    for name, kind, fault in (
        ("missing", {"missing": 3}, "says that 3 records are missing"),
        ("misses", {"misses": 1}, "says that its proof failed"),
    ):
        built(tmp_path / name, **kind)  # type: ignore[arg-type]
        assert fault in refused(DatabaseError, tmp_path / name)
        assert len(collect_bundles(tmp_path / name, incomplete=True)) == 1
    (out / "stray.kdb").touch()
    assert "`stray.kdb` has no manifest" in refused(InputError, out).replace(f"{out}/", "")
    (out / "stray.kdb").unlink()
    built(out, num_cu=18, environment={})
    assert "another environment each" in refused(InputError, out)
    built(out, num_cu=18, toolchain=replace(LIBRARY, build_id="ffff"))
    assert "another toolchain each" in refused(InputError, out)
    (out / "gfx1030_18.kdb").write_bytes(b"x")
    assert "has changed" in refused(DatabaseError, out)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (DebOptions("Jo"), "`Jo` cannot be a package's maintainer"),
        (DebOptions(f"{ME}\nX: y"), "cannot be a package's maintainer"),
        (DebOptions(ME, library="lib miopen"), "`lib miopen` cannot be the name"),
        (DebOptions(ME, library_version="7.2.4"), "`7.2.4` is not the version of a Debian"),
        (DebOptions(ME, folder=PurePosixPath("/opt/db")), "it is not below `share`"),
        (DebOptions(ME, folder=PurePosixPath("share/db")), "it is not below `share`"),
    ],
)
def test_bad_options(bundle: Bundle, tmp_path: Path, options: DebOptions, message: str) -> None:
    with pytest.raises(InputError) as caught:
        build_deb(bundle, tmp_path / "packages", options)
    assert message in caught.value.message
    assert not (tmp_path / "packages").exists()


def test_a_library_that_is_not_debians(tmp_path: Path) -> None:
    built(tmp_path / "out", toolchain=replace(LIBRARY, version="3.5.1"))
    (bundle,) = collect_bundles(tmp_path / "out")
    with pytest.raises(InputError, match=r"know version `3\.5\.1`") as caught:
        build_deb(bundle, tmp_path, OPTIONS)
    assert caught.value.hint is not None
    assert "dpkg-query -W -f '${Version}' libmiopen1" in caught.value.hint
    deb = build_deb(bundle, tmp_path, replace(OPTIONS, library_version="1:7.2.4-3", revision=2))
    assert deb.name == "miopen-kdb-gfx1030_7.2.4-3+kdb2_amd64.deb"
    fields = dpkg_deb("--field", deb, "Version", "Depends")
    assert fields == "Version: 1:7.2.4-3+kdb2\nDepends: libmiopen1 (= 1:7.2.4-3)\n"


def test_a_missing_dpkg(bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostError) as caught:
        build_deb(bundle, tmp_path / "p", OPTIONS)
    assert caught.value.message == "`dpkg-deb` is not installed"
    assert "install the package `dpkg`" in (caught.value.hint or "")
    assert os.listdir(tmp_path / "p") == []


def test_a_failing_dpkg(bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "dpkg-deb"
    program.write_text("#!/bin/sh\necho no space >&2\nexit 2\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(HostError, match="exit code 2") as caught:
        build_deb(bundle, tmp_path / "p", OPTIONS)
    assert caught.value.context == ("no space",)
    assert os.listdir(tmp_path / "p") == []


def test_commands(out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = CliRunner(catch_exceptions=True).invoke
    for name in ("DEBFULLNAME", "DEBEMAIL"):
        monkeypatch.delenv(name, raising=False)
    where = ["-o", str(tmp_path / "p")]
    assert isinstance(run(package, ["deb", str(out), *where]).exception, InputError)
    monkeypatch.setenv("DEBFULLNAME", "Jo Doe")
    monkeypatch.setenv("DEBEMAIL", "jo@example.org")
    done = run(package, ["deb", str(out), *where, "--architecture", "amd64"])
    assert done.stdout == f"{tmp_path}/p/{DEB}\n"
    assert dpkg_deb("--field", tmp_path / "p" / DEB, "Maintainer") == f"{ME}\n"
    done = run(package, ["tar", str(out), *where])
    assert done.stdout == f"{tmp_path}/p/miopen-kdb-gfx1030_7.2.4+dfsg-1.tar.gz\n"


def test_folder_of_an_installed_toolchain(bundle: Bundle, tmp_path: Path) -> None:
    from test_toolchain_probe import make

    from kdbforge.toolchain import probe

    make(tmp_path / "rocm")
    found = probe(tmp_path / "rocm", name="rocm")
    toolchain = replace(found.toolchain, system_db=tmp_path / "rocm/share/miopen/db")
    with pytest.raises(ToolchainError, match="are not for toolchain"):
        installed_folder(replace(found, toolchain=toolchain), [bundle])
    toolchain = replace(toolchain, build_id=bundle.toolchain.build_id)
    found = replace(found, toolchain=toolchain)
    assert installed_folder(found, [bundle]) == PurePosixPath(tmp_path / "rocm/share/miopen/db")
    fetched = replace(toolchain, system_db=tmp_path / "f/root/usr/share/miopen/db")
    found = replace(found, toolchain=fetched, folder=tmp_path / "f")
    assert installed_folder(found, [bundle]) == PurePosixPath("/usr/share/miopen/db")
    found = replace(found, toolchain=replace(toolchain, system_db=None))
    with pytest.raises(ToolchainError, match="has no folder for system databases"):
        installed_folder(found, [bundle])
