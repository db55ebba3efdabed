"""apt with private state: what Debian offers, its closure, and verified downloads.

Reads and writes one folder only. The host's packages, lists and hooks are never touched.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO
from urllib.parse import unquote

from kdbforge.errors import BusyError, HostError, KdbforgeError, ToolchainError

__all__ = [
    "DEFAULT_MIRROR",
    "Apt",
    "Package",
    "host_keyrings",
    "host_mirror",
    "parse_stanzas",
    "parse_uris",
]

DEFAULT_MIRROR = "http://deb.debian.org/debian"
_SOURCES = Path("/etc/apt")
_KEYRINGS = Path("/usr/share/keyrings")
_TAIL = 12  # lines of apt's output that an error shows

# Where an error text of apt points to; the first match decides.
_NO_SPACE = re.compile(r"no space left|write error|disk quota", re.I)
_UNSIGNED = re.compile(
    r"NO_PUBKEY|not signed|signatures? (couldn't|could not) be verified|invalid signature|"
    r"EXPKEYSIG|BADSIG|hash sum mismatch|sub-process .*(gpgv|sqv)",
    re.I,
)
_NO_SUITE = re.compile(r"InRelease\s+4\d\d|does not have a Release file", re.I)
_NO_NETWORK = re.compile(
    r"could not resolve|temporary failure resolving|could not connect|unable to connect|"
    r"connection (failed|refused|timed out)|network is unreachable|failed to fetch",
    re.I,
)

# Parts of the host's apt configuration that reach the private one: how to get through to a
# mirror. Everything else (hooks, folders, pins, trust) stays out.
_HOST_OPTION = re.compile(
    r'Acquire::((https?|ftp|tor)(::\S+)?|Retries|ForceIPv[46]|Check-Valid-Until|Check-Date) "'
)
_TRUST_OPTION = re.compile(r"Verify-|Allow", re.I)


@dataclass(frozen=True, slots=True)
class Package:
    """One package file that apt would download."""

    name: str
    version: str
    uri: str
    file_name: str
    size: int
    sha256: str = ""
    installed_size: int = 0


def parse_uris(text: str) -> list[Package]:
    """Read the lines of `apt-get install --print-uris`.

    Raises
    ------
    ToolchainError
        If a line that names a file has another form than apt's.
    """
    packages = []
    for line in text.splitlines():
        if not line.startswith("'"):
            continue
        match = re.fullmatch(r"'(\S+)' (\S+)_(\S+)_[^_]+\.deb (\d+)(?: \S+)?", line.strip())
        if match is None:
            raise ToolchainError(f"Cannot read apt's answer `{line}`")
        uri, name, version, size = match.groups()
        file_name = line.split()[1]
        packages.append(Package(name, unquote(version), uri, file_name, int(size)))
    return packages


def parse_stanzas(text: str) -> Iterator[dict[str, str]]:
    """Yield the stanzas of a Packages file or of `apt-cache show`."""
    for block in re.split(r"\n\s*\n", text):
        fields: dict[str, str] = {}
        key = ""
        for line in block.splitlines():
            if line[:1].isspace() and key:
                fields[key] += "\n" + line.strip()
            elif ":" in line:
                key, _, value = line.partition(":")
                fields[key] = value.strip()
        if fields:
            yield fields


def host_keyrings(folder: Path = _KEYRINGS) -> tuple[Path, ...]:
    """Find the keyrings that Debian's archive is checked with, without its retired keys.

    Several are named since an older host may hold the newest keys in one of them only.
    """
    names = sorted(folder.glob("debian-archive-*"))
    found = [p for p in names if p.suffix in (".gpg", ".pgp") and "removed" not in p.name]
    unique: dict[Path, Path] = {}
    for path in found:
        unique.setdefault(path.resolve(), path)
    return tuple(unique.values())


def host_mirror(folder: Path = _SOURCES) -> str | None:
    """Name the Debian mirror that the host itself uses, if it uses one."""
    for path in (folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))):
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        for uri in _mirror_uris(text, deb822=path.suffix == ".sources"):
            if re.fullmatch(r"https?://\S+/debian/?", uri):
                return uri.rstrip("/")
    return None


def _mirror_uris(text: str, *, deb822: bool) -> Iterator[str]:
    if deb822:
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        for stanza in parse_stanzas("\n".join(lines)):
            if "deb" in stanza.get("Types", "").split() and stanza.get("Enabled", "yes") != "no":
                yield from stanza.get("URIs", "").split()
        return
    for match in re.finditer(r"^\s*deb\s+(?:\[[^\]]*\]\s*)?(\S+)", text, re.M):
        yield match[1]


class Apt:
    """An apt whose every file lies below `state`.

    Parameters
    ----------
    state
        Folder for lists, downloads and configuration; made when missing. No two processes may use
        it at once: the caller holds a lock.
    mirror, suites
        Where packages come from. The last suite is no better than the first: see `prefer`.
    keyrings
        Files with the keys that the suites must be signed with.
    """

    def __init__(
        self, state: Path, *, mirror: str, suites: Sequence[str], keyrings: Sequence[Path]
    ) -> None:
        self.state = state
        self.mirror = mirror
        self.suites = tuple(suites)
        self.keyrings = tuple(keyrings)
        self.archives = state / "cache" / "archives"
        self._conf = state / "apt.conf"
        self._require_tools()
        self._write_state()

    # -- set-up -------------------------------------------------------------------------------

    def _require_tools(self) -> None:
        missing = [n for n in ("apt-get", "apt-cache", "dpkg", "dpkg-deb") if not shutil.which(n)]
        if missing:
            raise HostError(
                f"This host has no `{missing[0]}`, so Debian's packages cannot be fetched on it",
                hint="install MIOpen in another way, then run `kdbforge toolchain add PATH`",
            )
        if not self.keyrings:
            raise HostError(
                f"No Debian archive keyring in `{_KEYRINGS}`, so signatures cannot be checked",
                hint="apt install debian-archive-keyring, or give `--keyring FILE`",
            )

    def _write_state(self) -> None:
        for path, forbidden in (*((k, r'[\s,"\]]') for k in self.keyrings), (self.state, r'["\n]')):
            match = re.search(forbidden, str(path))
            if match:
                raise HostError(f"apt cannot use the path `{path}`: it holds `{match[0]}`")
        for folder in (
            "lists/partial",
            "cache/archives/partial",
            "cache/nothing/partial",
            "etc/parts",
        ):
            (self.state / folder).mkdir(parents=True, exist_ok=True)
        keys = ",".join(str(p) for p in self.keyrings)
        lines = [f"deb [signed-by={keys}] {self.mirror} {s} main\n" for s in self.suites]
        (self.state / "etc" / "sources.list").write_text("".join(lines), encoding="utf-8")
        self.pretend_installed(())
        # The first configuration keeps the host's out (APT_CONFIG is read before Dir::Etc::main
        # and Dir::Etc::parts, apt.conf(5)), so that none of the host's hooks runs.
        self._conf.write_text(self._configuration(), encoding="utf-8")

    def _configuration(self) -> str:
        state = self.state
        options = {
            "Dir::Etc::main": "/dev/null",
            "Dir::Etc::parts": f"{state}/etc/parts",
            "Dir::Etc::SourceList": f"{state}/etc/sources.list",
            "Dir::Etc::SourceParts": f"{state}/etc/parts",
            "Dir::Etc::Preferences": f"{state}/etc/preferences",
            "Dir::Etc::PreferencesParts": f"{state}/etc/parts",
            "Dir::Etc::Trusted": "/dev/null",
            "Dir::Etc::TrustedParts": f"{state}/etc/parts",
            "Dir::State": f"{state}",
            "Dir::State::Lists": f"{state}/lists",
            "Dir::State::status": f"{state}/status",
            "Dir::State::extended_states": f"{state}/extended_states",
            "Dir::Cache": f"{state}/cache",
            "Dir::Log": f"{state}/log",
            "Acquire::Languages": "none",
            "Acquire::PDiffs": "false",
            "Acquire::AllowInsecureRepositories": "false",
            "Acquire::AllowWeakRepositories": "false",
            "Acquire::AllowDowngradeToInsecureRepositories": "false",
            "APT::Get::AllowUnauthenticated": "false",
            "APT::Install-Recommends": "false",
            "APT::Keep-Downloaded-Packages": "true",
            "APT::Sandbox::User": "root",  # `_apt` could not write into the caller's folder
            "APT::Update::Error-Mode": "any",
            "APT::Default-Release": self.suites[0],
        }
        text = "".join(f'{key} "{value}";\n' for key, value in options.items())
        return text + "".join(f"{line}\n" for line in _host_options())

    def prefer(self, suite: str) -> None:
        """Let packages of `suite` win over all others from now on."""
        with self._conf.open("a", encoding="utf-8") as out:
            out.write(f'APT::Default-Release "{suite}";\n')

    def pretend_installed(self, packages: Sequence[Mapping[str, str]]) -> None:
        """Tell apt that these (records as `show` gives them) are there and need nothing.

        The pins keep apt from replacing them by themselves, which it does when another package
        depends on exactly their version.
        """
        status, pins = [], []
        for fields in packages:
            provides = f"Provides: {fields['Provides']}\n" if fields.get("Provides") else ""
            status.append(
                f"Package: {fields['Package']}\nStatus: install ok installed\n"
                f"Maintainer: none\nArchitecture: {fields['Architecture']}\n"
                f"Multi-Arch: {fields.get('Multi-Arch', 'no')}\n"
                f"Version: {fields['Version']}\n{provides}Description: not needed\n\n"
            )
            pins.append(f"Package: {fields['Package']}\nPin: release c=main\nPin-Priority: -10\n\n")
        (self.state / "status").write_text("".join(status), encoding="utf-8")
        (self.state / "etc" / "preferences").write_text("".join(pins), encoding="utf-8")

    # -- questions ----------------------------------------------------------------------------

    def wait_for_orphan(self, *, seconds: float = 600) -> bool:
        """Wait for an apt that outlived a killed kdbforge; tell whether there was one.

        It finishes its download, which is of use, and holds the folder's locks until then.
        """
        deadline = time.monotonic() + seconds
        waited = False
        for folder in (self.state / "lists", self.archives):
            while not _is_free(folder / "lock"):
                waited = True
                if time.monotonic() > deadline:
                    raise BusyError(f"An apt is still using `{folder}`", hint="end it, or wait")
                time.sleep(0.2)
        return waited

    def update(self) -> None:
        """Bring the lists of the suites; signatures are checked.

        Raises
        ------
        HostError
            If the network or the disk stands in the way.
        ToolchainError
            If a suite is missing, or not signed by one of the keys.
        """
        self._run("apt-get", "update", "-q")

    def versions(self, package: str) -> list[dict[str, str]]:
        """List what the suites offer of one package, newest first; empty when nothing."""
        text = self._run("apt-cache", "show", "--all-versions", package, ok=100)
        return [s for s in parse_stanzas(text) if s.get("Package") == package]

    def suite_of(self, package: str, version: str) -> str:
        """Name the suite that holds this version of the package."""
        for line in self._run("apt-cache", "madison", package).splitlines():
            columns = [c.strip() for c in line.split("|")]
            if len(columns) == 3 and columns[1] == version and " Packages" in columns[2]:
                return columns[2].split()[1].split("/")[0]
        raise ToolchainError(f"apt does not say where `{package}` {version} comes from")

    def show(self, packages: Sequence[Package]) -> list[dict[str, str]]:
        """Give the full record of each package, in the order asked."""
        if not packages:
            return []
        text = self._run("apt-cache", "show", *(f"{p.name}={p.version}" for p in packages))
        known = {(s.get("Package"), s.get("Version")): s for s in parse_stanzas(text)}
        missing = [p for p in packages if (p.name, p.version) not in known]
        if missing:
            raise ToolchainError(f"apt does not describe `{missing[0].name}` {missing[0].version}")
        return [known[p.name, p.version] for p in packages]

    def complete(self, packages: Sequence[Package]) -> list[Package]:
        """Fill in digest and installed size from the signed lists."""
        filled = []
        for package, fields in zip(packages, self.show(packages), strict=True):
            if not fields.get("SHA256") or fields.get("Size") != str(package.size):
                raise ToolchainError(f"apt gives no SHA-256 for `{package.file_name}`")
            kibibytes = int(fields.get("Installed-Size", "0"))
            filled.append(
                replace(package, sha256=fields["SHA256"], installed_size=kibibytes * 1024)
            )
        return filled

    def compare(self, one: str, other: str) -> int:
        """Order two Debian versions: -1, 0 or 1."""
        if one == other:
            return 0
        command = ["dpkg", "--compare-versions", one, "lt", other]
        return -1 if subprocess.run(command, check=False).returncode == 0 else 1

    def closure(self, wanted: Sequence[str]) -> list[Package]:
        """Resolve packages and everything they depend on that is not pretended to be there."""
        # apt names only files that it has not downloaded yet: let it look into an empty folder.
        nothing = f"Dir::Cache::archives={self.state}/cache/nothing"
        text = self._run("apt-get", "install", "--print-uris", "-qq", "-y", "-o", nothing, *wanted)
        return parse_uris(text)

    # -- downloads ----------------------------------------------------------------------------

    def have(self, package: Package) -> bool:
        """Tell whether the package lies in the archive folder, whole and of the right digest."""
        path = self.archives / package.file_name
        try:
            if path.stat().st_size != package.size:
                return False
            with path.open("rb") as data:
                return hashlib.file_digest(data, "sha256").hexdigest() == package.sha256
        except FileNotFoundError:
            return False

    def download(
        self, wanted: Sequence[str], packages: Sequence[Package], seen: Callable[[int], None]
    ) -> None:
        """Download what is missing, resuming partial files; `seen` gets bytes present so far.

        Guarantees that every package is whole and has the digest of the signed lists.
        """
        for package in packages:
            if not self.have(package):
                (self.archives / package.file_name).unlink(missing_ok=True)
        command = ("apt-get", "install", "--download-only", "-qq", "-y", *wanted)
        log = self.state / "download.log"  # a pipe that nobody empties could stop apt
        with log.open("w", encoding="utf-8") as out, self._start(*command, output=out) as process:
            try:
                while process.poll() is None:
                    seen(self._bytes_present(packages))
                    time.sleep(0.1)
            finally:
                if process.poll() is None:
                    process.terminate()
        if process.returncode != 0:
            text = log.read_text(encoding="utf-8", errors="replace")
            raise _explain("apt-get install --download-only", text)
        seen(self._bytes_present(packages))
        for package in packages:
            if not self.have(package):
                raise ToolchainError(
                    f"`{package.file_name}` is not what the signed package list says",
                    hint="run the same command again",
                )

    def _bytes_present(self, packages: Sequence[Package]) -> int:
        total = 0
        for package in packages:
            for folder in (self.archives, self.archives / "partial"):
                try:
                    total += min(package.size, (folder / package.file_name).stat().st_size)
                    break
                except FileNotFoundError:
                    continue
        return total

    def _start(self, *command: str, output: IO[str] | None = None) -> subprocess.Popen[str]:
        environment = dict(os.environ, APT_CONFIG=str(self._conf), LC_ALL="C.UTF-8")
        environment["DEBIAN_FRONTEND"] = "noninteractive"
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if output is None else output,
            stderr=subprocess.PIPE if output is None else subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment,
            cwd=self.state,
        )

    def _run(self, *command: str, ok: int = 0) -> str:
        process = self._start(*command)
        try:
            output, errors = process.communicate()
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
        if process.returncode not in (0, ok):
            raise _explain(" ".join(command[:2]), output + errors)
        return output


def _is_free(lock: Path) -> bool:
    try:
        with lock.open("r+b") as handle:  # apt's own lock: fcntl(F_SETLK) on the whole file
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except (BlockingIOError, PermissionError):
        return False
    return True


def _host_options() -> list[str]:
    """Read proxies, time-outs and the like from the host's apt, never its trust settings."""
    answer = subprocess.run(
        ["apt-config", "dump"], capture_output=True, text=True, errors="replace", check=False
    )
    lines = answer.stdout.splitlines()
    return [n for n in lines if _HOST_OPTION.match(n) and not _TRUST_OPTION.search(n)]


def _explain(command: str, text: str) -> KdbforgeError:
    lines = [line for line in text.splitlines() if line.strip()]
    marked = [line for line in lines if line.startswith(("E:", "W:", "Err:"))] or lines
    context = marked[-_TAIL:]
    joined = "\n".join(context)
    if _NO_SPACE.search(joined):
        return HostError(f"`{command}` found no space left on the disk", context=context)
    if _NO_SUITE.search(joined):
        return ToolchainError(
            f"`{command}` finds no such suite at the mirror",
            context=context,
            hint="check `--mirror` and `--suite`",
        )
    # A broken signature also says "Failed to fetch": look for it before the network.
    if _UNSIGNED.search(joined):
        return ToolchainError(
            f"`{command}` cannot trust the mirror: signature or digest is not as it must be",
            context=context,
            hint="update the package debian-archive-keyring, or give `--keyring` or `--mirror`",
        )
    if _NO_NETWORK.search(joined):
        return HostError(
            f"`{command}` cannot reach the mirror",
            context=context,
            hint="check the network and proxy, then run the same command again: it resumes",
        )
    return ToolchainError(f"`{command}` failed", context=context)
