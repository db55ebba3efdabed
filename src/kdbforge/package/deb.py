"""Debian packages of databases, written by `dpkg-deb`: the same bytes on every run.

They install beside libmiopen1 and depend on the exact version that they were built for.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path, PurePosixPath

from kdbforge.errors import HostError, InputError
from kdbforge.package.bundle import (
    DEBIAN_FOLDER,
    Bundle,
    contents,
    publish,
    readme,
    source_date_epoch,
    summary,
)
from kdbforge.package.licence import copyright_text

__all__ = ["DebOptions", "build_deb"]

# Debian policy 5.6.12 (with a revision, which every version of a library in Debian has),
# 5.6.7 and 5.6.2.
_VERSION = re.compile(r"([0-9]+:)?[0-9][A-Za-z0-9.+~-]*-[A-Za-z0-9.+~]+")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9.+-]+")
_MAINTAINER = re.compile(r"[^<>\n]*[^<>\s] <[^<>\s]+@[^<>\s]+>")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64el"}
# Databases are compressed already: the least effort of xz costs as little as gzip and serves the
# documents. The environment fixes the number of threads, which older versions do not know.
_COMPRESSION = ("-Zxz", "-z1")


@dataclass(frozen=True, slots=True)
class DebOptions:
    """What a package says of itself; field comments name the command line's flag."""

    maintainer: str  # --maintainer: `Name <mail>`
    library: str = "libmiopen1"  # --library: the package that it depends on
    library_version: str | None = None  # --library-version; None: that of the manifest's toolchain
    revision: int = 1  # --revision: of packages for the same version of the library
    architecture: str | None = None  # --architecture; None: this machine's
    folder: PurePosixPath = DEBIAN_FOLDER  # --folder: where the library looks


def build_deb(bundle: Bundle, output: Path, options: DebOptions) -> Path:
    """Write `NAME_VERSION_ARCHITECTURE.deb` into `output`.

    Everything in it belongs to root and is as old as SOURCE_DATE_EPOCH says. Equal input gives
    equal bytes with the same dpkg-deb.

    Raises
    ------
    InputError
        If an option cannot be used, or the manifests know no Debian version of the library.
    HostError
        If dpkg-deb is missing or fails, or the file cannot be written.
    """
    epoch = source_date_epoch()
    library_version = _library_version(bundle, options)
    _check(options)
    version = f"{library_version}+kdb{options.revision}"
    architecture = options.architecture or _own_architecture()
    texts = {
        "README.Debian": readme(bundle),
        "changelog.Debian.gz": _changelog(bundle, version, library_version, options, epoch),
        "copyright": copyright_text(bundle, f"{options.library} {library_version}", options.folder),
    }
    files = contents(bundle, options.folder, texts)
    # An epoch (`1:`) is part of the version, and never of the file's name.
    name = f"{bundle.name}_{version.rpartition(':')[2]}_{architecture}.deb"
    with publish(output, name) as work:
        root = work / "root"
        sums = _copy(files, root)
        size = _installed_size(files, root)
        _write(root / "DEBIAN" / "md5sums", "".join(sums).encode())
        control = _control(bundle, version, library_version, architecture, size, options)
        _write(root / "DEBIAN" / "control", control.encode())
        _make_plain(root, epoch)
        _run_dpkg_deb(root, work / name, epoch)
    return output / name


def _check(options: DebOptions) -> None:
    if not _MAINTAINER.fullmatch(options.maintainer):
        raise InputError(
            f"`{options.maintainer}` cannot be a package's maintainer",
            hint="write it like `Jo Doe <jo@example.org>`",
        )
    if not _PACKAGE.fullmatch(options.library):
        raise InputError(f"`{options.library}` cannot be the name of a Debian package")


def _library_version(bundle: Bundle, options: DebOptions) -> str:
    """The version of the library's package: what is given, else the toolchain's if it is one."""
    version = options.library_version or bundle.toolchain.version
    if _VERSION.fullmatch(version):
        return version
    ask = f"--library-version \"$(dpkg-query -W -f '${{Version}}' {options.library})\""
    if options.library_version is not None:
        raise InputError(
            f"`{version}` is not the version of a Debian package, which ends in a revision",
            hint=f"give it as dpkg has it: {ask}",
        )
    raise InputError(
        f"The manifests know version `{version}` of the library, not that of its Debian package",
        hint=f"give it: {ask}",
    )


def _own_architecture() -> str:
    """Debian's name of this machine: the library that the databases are for runs on it."""
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        raise InputError(
            f"Debian's name of `{machine}` is not known",
            hint='give it: --architecture "$(dpkg --print-architecture)"',
        )
    return _ARCHITECTURES[machine]


def _control(
    bundle: Bundle,
    version: str,
    library_version: str,
    architecture: str,
    size: int,
    options: DebOptions,
) -> str:
    lines = [
        f"Package: {bundle.name}",
        f"Version: {version}",
        f"Architecture: {architecture}",
        f"Maintainer: {options.maintainer}",
        f"Installed-Size: {size}",
        f"Depends: {options.library} (= {library_version})",
        "Section: libs",
        "Priority: optional",
        f"Description: MIOpen kernel databases for {bundle.arch} GPUs",
        *_description(bundle),
    ]
    return "\n".join(lines) + "\n"


def _description(bundle: Bundle) -> list[str]:
    """The summary in the form of a control file: a space before lines, ` .` between paragraphs."""
    found: list[str] = []
    for number, paragraph in enumerate(summary(bundle)):
        found += [" ."] * bool(number) + [f" {line}" for line in paragraph]
    return found


def _changelog(
    bundle: Bundle, version: str, library_version: str, options: DebOptions, epoch: int
) -> str:
    date = format_datetime(datetime.fromtimestamp(epoch, UTC))
    built = [f"  * Built for {options.library} {library_version}."]
    for entry in (entry for manifest in bundle.manifests for entry in manifest.files):
        built.append(f"  * {entry.name}: {entry.records} records.")
    head = f"{bundle.name} ({version}) unstable; urgency=medium"
    return "\n".join([head, "", *built, "", f" -- {options.maintainer}  {date}", ""])


def _copy(files: Mapping[PurePosixPath, Path | bytes], root: Path) -> list[str]:
    """Copy the files below `root`; return the lines of `md5sums`."""
    lines = []
    for path, content in files.items():
        relative = path.relative_to("/")
        target = root / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            target.write_bytes(content)
        else:
            shutil.copyfile(content, target)
        with target.open("rb") as file:
            # dpkg's format asks for MD5; it detects accidents, the manifests hold SHA-256.
            digest = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False))
        lines.append(f"{digest.hexdigest()}  {relative}\n")
    return lines


def _installed_size(files: Mapping[PurePosixPath, Path | bytes], root: Path) -> int:
    """KiB as dpkg-gencontrol counts them: files rounded up, and one for everything else."""
    sizes = [(root / path.relative_to("/")).stat().st_size for path in files]
    folders = {parent for path in files for parent in path.parents}
    return sum(-(-size // 1024) for size in sizes) + len(folders)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _make_plain(root: Path, epoch: int) -> None:
    """Give everything the same date, and rights that no umask or bit of the folder changes."""
    for path in (root, *root.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    for path in (root, *root.rglob("*")):
        os.utime(path, (epoch, epoch))


def _run_dpkg_deb(root: Path, deb: Path, epoch: int) -> None:
    command = ["dpkg-deb", "--root-owner-group", *_COMPRESSION, "--build", str(root), str(deb)]
    environment = {
        **os.environ,
        "SOURCE_DATE_EPOCH": str(epoch),
        "DPKG_DEB_THREADS_MAX": "1",
        "LC_ALL": "C",
    }
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, errors="replace", check=False
        )
    except FileNotFoundError as error:
        raise HostError(
            "`dpkg-deb` is not installed",
            hint="install the package `dpkg`, or make a tarball: `kdbforge package tar`",
        ) from error
    if done.returncode:
        raise HostError(
            f"dpkg-deb failed with exit code {done.returncode}",
            context=done.stderr.splitlines()[-20:],
        )
