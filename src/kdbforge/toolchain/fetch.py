"""Fetch Debian's libMIOpen and what it needs into a folder, whole or not at all.

Needs neither root nor an installed ROCm; a run that was cut off goes on where it stopped.
"""

from __future__ import annotations

import dataclasses
import fcntl
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cmp_to_key
from pathlib import Path
from typing import Protocol

from kdbforge.errors import BusyError, HostError, KdbforgeError, ToolchainError
from kdbforge.files import sync_folder
from kdbforge.model.toolchain import Toolchain
from kdbforge.toolchain import unpack
from kdbforge.toolchain.apt import DEFAULT_MIRROR, Apt, Package, host_keyrings, host_mirror
from kdbforge.toolchain.childbuild import compiler_packages, is_unneeded, runs_children
from kdbforge.toolchain.description import Description, save
from kdbforge.toolchain.probe import REPLACED, probe
from kdbforge.toolchain.registry import (
    check_description,
    folder_of,
    load_named,
    names,
    toolchains_folder,
)

__all__ = ["SKIPPED", "SUITES", "Bar", "FetchOptions", "FetchResult", "fetch"]

SUITES = ("sid", "experimental")
_STATE = ".fetch"
_LOCK = ".lock"

# Packages that are left out although something depends on them, and why. apt is told that they
# are installed, so that what only they need is left out as well.
SKIPPED: tuple[tuple[str, str], ...] = (
    (
        r"librocblas\d+",
        "matrix products are in no kernel database; the virtual GPU has a stub",
    ),
    (r"librocrand\d+", "the virtual GPU has a stub; kernels need the headers only"),
    (r"libamdhip64-\d+", "the virtual GPU is the HIP runtime"),
    (r"libhsa-runtime64-\d+", "only the real HIP runtime needs it"),
    (r"python3|python3\.\d+", "tools of a full Python; the interpreter is in python3.N-minimal"),
    (r"debconf|debconf-2\.0|perl|perl-base", "installers and their scripts"),
    (r"tzdata.*|media-types|mime-support|netbase", "data of Python modules that are not used"),
    (r"libssl\w+|libcrypto\w+|openssl.*", "Python's ssl; hashlib has its own SHA-256 and MD5"),
    (r"libreadline\w+|readline-common|libncursesw?\d+|libdb5\.3\w*", "Python's terminal and dbm"),
    (r"libc-gconv-modules-extra|libc-dev-bin|libc-bin|rpcsvc-proto", "character sets and tools"),
    (r"gcc-\d+-base|libgcc-\d+-dev|libgcc-\d+-base", "gcc's own headers; clang has others"),
    (r"lib(a|l|t|ub|hwa)san\d+|libgomp\d+|libitm\d+|libatomic\d+|libquadmath\d+", "gcc's runtimes"),
)

_PACKAGE = "libmiopen1"
_WANTED = (
    "libamdhip64-dev",  # hip/*.h for pooling kernels
    "librocrand-dev",  # rocrand/*.h for dropout kernels
    "libmiopen1-tests",  # MIOpenDriver, miopen_gtest
    "python3-minimal",
    "libpython3-stdlib",  # ctypes, sqlite3
)


class Bar(Protocol):
    """A progress bar as `kdbforge.cli.console.progress_bar` yields one."""

    def advance(self, n: int, /) -> None: ...

    def describe(self, text: str, /) -> None: ...


BarFactory = Callable[[str, int], AbstractContextManager[Bar]]  # description, total bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOptions:
    """What to fetch from where."""

    mirror: str | None = None  # --mirror; None: the host's own Debian mirror, else deb.debian.org
    suites: tuple[str, ...] = SUITES  # --suite; the newest libMIOpen with COMGR and HIPRTC wins
    keyrings: tuple[Path, ...] = ()  # --keyring; empty: the host's debian-archive-* files
    # --miopen: this release, also if it runs clang as a child process; None: the newest other one
    miopen: str | None = None
    name: str | None = None  # --name; None: debian-VERSION
    replace: bool = False  # --replace: an older one of the same name gives way
    if_missing: bool = False  # --if-missing: a sound fetched one is enough, without network
    keep_packages: bool = False  # --keep-packages: leave the .deb files in the data folder


@dataclass(frozen=True, slots=True)
class FetchResult:
    """What a fetch did."""

    toolchain: Toolchain
    packages: int
    download_bytes: int  # size of all packages
    fetched_bytes: int  # of these, brought over the network by this run
    unpacked_bytes: int
    seconds: float
    already_there: bool
    note: str | None


def fetch(
    data_dir: Path,
    options: FetchOptions | None = None,
    *,
    bar: BarFactory | None = None,
    step: Callable[[str], None] | None = None,
) -> FetchResult:
    """Fetch the newest libMIOpen that compiles through COMGR and HIPRTC, with all it needs.

    `options.miopen` asks for another release.

    The new toolchain appears in `data_dir` when it is complete and has been probed, never before.
    `step` is told what happens now; `bar` makes progress bars.

    Raises
    ------
    BusyError
        If another process is fetching into the same folder.
    HostError
        If this machine stands in the way: no apt, no network, no space, folder not writable.
    ToolchainError
        If signatures do not fit, or the suites have no usable libMIOpen.
    """
    options = options or FetchOptions()
    begin = time.monotonic()
    home = toolchains_folder(data_dir.absolute())
    known = _sound_one(home, options) if options.if_missing else None
    if known is not None:
        return _result(known, 0, begin, already_there=True)
    with _locked(home):
        _sweep(home)
        return _Fetch(home, options, bar or _no_bar, step or _no_step).run(begin)


class _NoBar:
    def advance(self, _n: int) -> None:
        pass

    def describe(self, _text: str) -> None:
        pass


def _no_bar(_text: str, _total: int) -> AbstractContextManager[Bar]:
    return nullcontext(_NoBar())


def _no_step(_text: str) -> None:
    pass


@contextmanager
def _locked(home: Path) -> Iterator[None]:
    """Hold the folder's lock; the kernel drops it when the process dies, however it dies."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        handle = os.open(home / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise HostError(
            f"Cannot write to `{home}`: {error.strerror}", hint="set KDBFORGE_DATA to a folder"
        ) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BusyError(
                f"Another kdbforge is fetching a toolchain into `{home}`",
                hint="wait for it to end, then run the same command again",
            ) from None
        yield
    finally:
        os.close(handle)


def _sweep(home: Path) -> None:
    """Remove what runs that were cut off left behind; called under the lock."""
    for path in home.iterdir():
        if ".partial-" in path.name or ".old-" in path.name:
            shutil.rmtree(path, ignore_errors=True)


class _Fetch:
    """One fetch under the lock: resolve, download, unpack, probe, put in place."""

    def __init__(
        self, home: Path, options: FetchOptions, bar: BarFactory, step: Callable[[str], None]
    ) -> None:
        self.home = home
        self.options = options
        self.bar = bar
        self.step = step
        self.apt = Apt(
            home / _STATE,
            mirror=options.mirror or host_mirror() or DEFAULT_MIRROR,
            suites=options.suites,
            keyrings=options.keyrings or host_keyrings(),
        )

    def run(self, begin: float) -> FetchResult:
        if self.apt.wait_for_orphan():
            self.step("Waited for the apt of a run that was killed")
        self.step(f"Reading package lists of {', '.join(self.apt.suites)} ({self.apt.mirror})")
        self.apt.update()
        record = self._choose()
        version = record["Version"]
        wanted, packages = self._resolve(record)
        name = self.options.name or f"debian-{upstream_version(version)}"
        source = self._source(version, packages)
        old = self._existing(name)
        if old is not None and not self._must_replace(old, source):
            note = None if _same(old, source) else self._outdated_note(name)
            return _result(old, 0, begin, note=note, already_there=True)
        fetched = self._download(wanted, packages)
        description = self._unpack(name, version, packages, source)
        if not self.options.keep_packages:
            shutil.rmtree(self.apt.archives, ignore_errors=True)
        return _result(description, fetched, begin)

    # -- what to fetch ------------------------------------------------------------------------

    def _choose(self) -> Mapping[str, str]:
        """Find the record of the libMIOpen to fetch, and let its suite win."""
        offered = self.apt.versions(_PACKAGE)
        usable = {s["Version"]: s for s in offered if self._is_usable(s)}
        if not usable:
            seen = ", ".join(s["Version"] for s in offered) or "none"
            kind = self.options.miopen or "with COMGR and HIPRTC"
            raise ToolchainError(
                f"No `{_PACKAGE}` {kind} in {', '.join(self.apt.suites)}",
                context=[f"versions there: {seen}"],
                hint="name other suites with `--suite`, such as sid or experimental",
            )
        version = max(usable, key=cmp_to_key(self.apt.compare))
        self.apt.prefer(self.apt.suite_of(_PACKAGE, version))
        return usable[version]

    def _is_usable(self, record: Mapping[str, str]) -> bool:
        depends = record.get("Depends", "")
        if self.options.miopen is None:
            return compiles_in_process(depends)
        if upstream_version(record["Version"]) != self.options.miopen:
            return False
        return compiles_in_process(depends) or runs_children(depends) is not None

    def _resolve(self, record: Mapping[str, str]) -> tuple[list[str], list[Package]]:
        """Compute the closure without the skipped packages; every record has its digest."""
        libstdcxx = self.apt.closure(["libstdc++6"])
        major = next(p.version for p in libstdcxx if p.name == "libstdc++6").split(".")[0]
        wanted = [f"{_PACKAGE}={record['Version']}", *_WANTED, f"libstdc++-{major}-dev"]
        depends = record.get("Depends", "")
        clang = None if compiles_in_process(depends) else runs_children(depends)
        wanted += () if clang is None else compiler_packages(clang)

        def skipped(name: str) -> bool:
            plainly = is_skipped(name)
            return plainly if clang is None else is_unneeded(name, otherwise=plainly)

        everything = self.apt.closure(wanted)
        self.apt.pretend_installed(self.apt.show([p for p in everything if skipped(p.name)]))
        packages = [p for p in self.apt.closure(wanted) if not skipped(p.name)]
        return wanted, self.apt.complete(packages)

    def _source(self, version: str, packages: Sequence[Package]) -> dict[str, object]:
        return {
            "package": _PACKAGE,
            "version": version,
            "mirror": self.apt.mirror,
            "suites": list(self.apt.suites),
            "packages": [
                {"name": p.name, "version": p.version, "size": p.size, "sha256": p.sha256}
                for p in sorted(packages, key=lambda p: p.name)
            ],
        }

    # -- one that is there already ------------------------------------------------------------

    def _existing(self, name: str) -> Description | None:
        folder = folder_of(self.home, name)
        if not folder.exists():
            return None
        try:
            description = load_named(self.home, name)
            check_description(description)
        except KdbforgeError:
            return None  # damaged: this fetch mends it
        if description.toolchain.origin != "fetched":
            raise ToolchainError(
                f"The name `{name}` is taken by an installed toolchain",
                hint="give another with `--name`",
            )
        return description

    def _must_replace(self, old: Description, source: Mapping[str, object]) -> bool:
        return self.options.replace and not _same(old, source)

    def _outdated_note(self, name: str) -> str:
        return f"`{name}` stays as it was; newer packages exist, `--replace` brings them"

    # -- bytes --------------------------------------------------------------------------------

    def _download(self, wanted: Sequence[str], packages: Sequence[Package]) -> int:
        total = sum(p.size for p in packages)
        present = sum(p.size for p in packages if self.apt.have(p))
        self._require_space(total - present + sum(p.installed_size for p in packages))
        self.step(f"Downloading {len(packages)} packages, {_mb(total)}")
        seen = [0]
        with self.bar("Downloading", total) as bar:

            def report(now: int) -> None:
                bar.advance(max(0, now - seen[0]))
                seen[0] = max(seen[0], now)

            self.apt.download(wanted, packages, report)
        return total - present

    def _require_space(self, needed: int) -> None:
        free = shutil.disk_usage(self.home).free
        if free < needed:
            raise HostError(
                f"Not enough space in `{self.home}`: {_mb(needed)} are needed, {_mb(free)} free",
                hint="free some, or set KDBFORGE_DATA to a folder on another disk",
            )

    def _unpack(
        self, name: str, version: str, packages: Sequence[Package], source: Mapping[str, object]
    ) -> Description:
        folder = folder_of(self.home, name)
        partial = self.home / f"{name}.partial-{os.getpid()}"
        total = sum(p.size for p in packages)
        self.step(f"Unpacking {len(packages)} packages")
        try:
            with self.bar("Unpacking", total) as bar:
                for package in packages:
                    bar.describe(f"Unpacking {package.name}")
                    unpack.unpack(self.apt.archives / package.file_name, partial / "root")
                    bar.advance(package.size)
            unpack.tidy(partial / "root", replaced=REPLACED)
            self.step("Probing")
            found = probe(partial / "root", name=name, origin="fetched", version=version)
            unpack.compile_modules(found.toolchain)
            found = dataclasses.replace(found, source=source)
            save(found, partial)
            os.sync()  # the data before the name that says it is complete
            _put_in_place(partial, folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return load_named(self.home, name)


def _result(
    description: Description,
    fetched: int,
    begin: float,
    *,
    note: str | None = None,
    already_there: bool = False,
) -> FetchResult:
    packages = description.source.get("packages", [])
    tree = description.folder
    return FetchResult(
        toolchain=description.toolchain,
        packages=len(packages),
        download_bytes=sum(p["size"] for p in packages),
        fetched_bytes=fetched,
        unpacked_bytes=unpack.tree_size(tree) if tree else 0,
        seconds=time.monotonic() - begin,
        already_there=already_there,
        note=note,
    )


def _sound_one(home: Path, options: FetchOptions) -> Description | None:
    """Find a fetched toolchain that passes its check and is as the options want it."""
    for found in [options.name] if options.name else names(home.parent):
        try:
            description = load_named(home, found)
            check_description(description)
        except KdbforgeError:
            continue
        if description.toolchain.origin == "fetched" and _fits(description.toolchain, options):
            return description
    return None


def _fits(toolchain: Toolchain, options: FetchOptions) -> bool:
    if options.miopen is None:
        return options.name is not None or toolchain.clang is None
    return upstream_version(toolchain.version) == options.miopen


def _put_in_place(partial: Path, folder: Path) -> None:
    old = folder.with_name(f"{folder.name}.old-{os.getpid()}")
    if folder.exists():  # a folder cannot be replaced by a rename unless it is empty
        folder.rename(old)
    partial.rename(folder)
    sync_folder(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def _same(old: Description, source: Mapping[str, object]) -> bool:
    return old.source.get("packages") == source["packages"]


def _mb(size: int) -> str:
    return f"{size / 1e6:.0f} MB"


def is_skipped(package: str) -> bool:
    """Tell whether a package is left out, see `SKIPPED`."""
    return any(re.fullmatch(pattern, package) for pattern, _ in SKIPPED)


def compiles_in_process(depends: str) -> bool:
    """Tell from a Depends line whether libMIOpen uses COMGR and HIPRTC, not child processes."""
    names = {re.split(r"[\s(:]", part.strip())[0] for part in re.split(r"[,|]", depends)}
    return all(
        any(re.fullmatch(pattern, name) for name in names)
        for pattern in (r"libamd-comgr\d+", r"libhiprtc\d+")
    )


def upstream_version(version: str) -> str:
    """Shorten a Debian version to the release: `7.2.4+dfsg-1` is 7.2.4."""
    match = re.match(r"(?:\d+:)?(\d+(?:\.\d+)*)", version)
    return match[1] if match else version
