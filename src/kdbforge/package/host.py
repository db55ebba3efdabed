"""What of the machine and of the environment decides whether MIOpen finds its databases.

Each check takes a `Host`, so that it can be asked about another user or another root.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kdbforge.errors import KdbforgeError
from kdbforge.model.device import Gpu
from kdbforge.package.lookup import is_on
from kdbforge.vgpu.profiles import load_profiles, resolve

__all__ = [
    "Finding",
    "Host",
    "effective_gpu",
    "folder_findings",
    "host_findings",
    "may_use",
    "override_arch",
    "real_gpus",
]

_NETWORK = ("nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "beegfs", "ceph", "fuse.sshfs", "afs")
_GROUPS = "add the user to the group that owns it (render or video), or run the container with "


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found: how bad it is, what, why, and one way out."""

    level: str  # "error": programs fail; "warning": kernels are not found; "note"
    what: str
    why: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Host:
    """One user on one machine."""

    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    uid: int = field(default_factory=os.getuid)
    gids: frozenset[int] = field(default_factory=lambda: frozenset((os.getgid(), *os.getgroups())))
    dev: Path = Path("/dev")
    topology: Path = Path("/sys/class/kfd/kfd/topology/nodes")
    mountinfo: Path = Path("/proc/self/mountinfo")
    cwd: Path = field(default_factory=Path.cwd)
    tmp: Path = field(default_factory=lambda: Path(tempfile.gettempdir()))


def may_use(path: Path, host: Host, want: int = os.R_OK | os.W_OK) -> bool:
    """Whether the user may read and write (or whatever is wanted) an existing file or folder."""
    try:
        status = path.stat()
        read_only = bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False
    if want & os.W_OK and read_only and not stat.S_ISCHR(status.st_mode):
        return False
    if host.uid == 0:
        return True
    if status.st_uid == host.uid:
        shift = 6
    elif status.st_gid in host.gids:
        shift = 3
    else:
        shift = 0
    return (status.st_mode >> shift) & want == want


def folder_findings(folder: Path, host: Host, purpose: str, variable: str) -> Iterator[Finding]:
    """Whether libMIOpen can use, or make, a folder that it writes to."""
    existing = next(p for p in (folder, *folder.parents) if p.exists())
    if not may_use(existing, host, os.W_OK | os.X_OK):
        action = "write to it" if existing == folder else f"make it in `{existing}`"
        yield Finding(
            "error",
            f"`{folder}` for {purpose} cannot be used: the user may not {action}",
            "libMIOpen fails there with a permission error, `disk I/O error` or `attempt to write "
            "a readonly database`, instead of going on without",
            f"set {variable} to a folder of the user's own",
        )
        return
    owner = existing.stat().st_uid
    if folder.is_relative_to(host.tmp) and folder.exists() and owner != host.uid:
        yield Finding(
            "warning",
            f"`{folder}` for {purpose} belongs to another user (uid {owner})",
            "files that one user makes there cannot be written by the others",
            f"set {variable} to a folder of the user's own",
        )
    kind = _file_system(folder, host)
    if kind in _NETWORK and variable not in host.environment:
        yield Finding(
            "warning",
            f"`{folder}` is on a network file system ({kind})",
            f"libMIOpen uses the temporary folder `{host.tmp}` in its place, which is lost with "
            "every container and node",
            f"set {variable}, which is taken as it is, or install a system database",
        )


def _file_system(folder: Path, host: Host) -> str:
    """Type of the file system that holds a folder, from the longest mount point above it."""
    try:
        lines = host.mountinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    best = ("", "")
    for line in lines:
        before, _, after = line.partition(" - ")
        words = before.split(" ")
        if len(words) > 4 and after and folder.is_relative_to(words[4]):
            best = max(best, (words[4], after.split(" ")[0]), key=lambda item: len(item[0]))
    return best[1]


# The GPU


def real_gpus(host: Host) -> tuple[Gpu, ...]:
    """The GPUs in this machine as HIP reports them, HSA_OVERRIDE_GFX_VERSION included.

    One whose architecture is not known to kdbforge is left out.
    """
    found = []
    for path in sorted(host.topology.glob("*/properties")):
        values = dict(re.findall(r"^(\w+) (\d+)$", _text(path), re.MULTILINE))
        version, simds = int(values.get("gfx_target_version", 0)), int(values.get("simd_count", 0))
        if not version or not simds:
            continue  # a CPU
        arch = override_arch(host) or _arch(version // 10000, version // 100 % 100, version % 100)
        profile = load_profiles().get(arch)
        if profile is None:
            continue
        count = simds // max(1, int(values.get("simd_per_cu", 1)))
        # HIP counts workgroup processors where the GPU has them; KFD counts their halves.
        found.append(resolve(f"{arch}/{count // 2 if profile.wgp else count}"))
    return tuple(found)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _arch(major: int, minor: int, step: int) -> str:
    return f"gfx{major}{minor:x}{step:x}"


def override_arch(host: Host) -> str | None:
    """The architecture that HSA_OVERRIDE_GFX_VERSION gives every GPU."""
    match = re.fullmatch(
        r"(\d+)\.(\d+)\.(\d+)", host.environment.get("HSA_OVERRIDE_GFX_VERSION", "")
    )
    return _arch(*map(int, match.groups())) if match else None


def effective_gpu(gpu: Gpu, host: Host) -> tuple[Gpu, list[Finding]]:
    """The GPU that MIOpen sees in place of this one."""
    text = host.environment.get("HSA_OVERRIDE_GFX_VERSION")
    if not text:
        return gpu, []
    arch = override_arch(host)
    setting = f"HSA_OVERRIDE_GFX_VERSION={text}"
    if arch is None:
        return gpu, [
            Finding("error", f"{setting} is no version", "it is MAJOR.MINOR.STEPPING", "10.3.0")
        ]
    if arch == gpu.target.arch:
        return gpu, [Finding("note", f"{setting}: MIOpen sees {arch}", "every GPU is taken for it")]
    try:
        effective = resolve(f"{arch}/{gpu.num_cu}")
    except KdbforgeError as error:
        return gpu, [Finding("error", f"{setting} means {arch}: {error.message}", "see `gpu list`")]
    return effective, [
        Finding(
            "warning",
            f"{setting}: MIOpen sees {arch} in place of {gpu.target.arch}",
            f"it looks for databases of {arch}, and one of {gpu.target.arch} is never opened",
            f"build for what it sees: --gpu {arch}_{gpu.num_cu}",
        )
    ]


# Findings that hold for every library


def host_findings(host: Host, *, gpu_is_here: bool = True) -> list[Finding]:
    """Everything that does not depend on the library.

    A driver that is missing matters less when the question is about another machine's GPU.
    """
    return [*_devices(host, gpu_is_here=gpu_is_here), *_settings(host), *_other_folders(host)]


def _devices(host: Host, *, gpu_is_here: bool) -> Iterator[Finding]:
    kfd = host.dev / "kfd"
    if not kfd.exists():
        yield Finding(
            "warning" if gpu_is_here else "note",
            f"There is no `{kfd}`",
            "without it no program sees an AMD GPU: the driver is not loaded, or this is a "
            "container that was started without it",
            "load amdgpu, or start the container with --device /dev/kfd --device /dev/dri",
        )
        return
    nodes = sorted((host.dev / "dri").glob("renderD*"))
    if not may_use(kfd, host):
        yield Finding(
            "error", f"No permission on `{kfd}`", "no program of the user's sees an AMD GPU",
            f"{_GROUPS}--group-add {kfd.stat().st_gid}",
        )  # fmt: skip
    if not nodes:
        yield Finding(
            "error", f"There is no render node in `{host.dev / 'dri'}`",
            "a container that has `/dev/kfd` needs `/dev/dri` too", "--device /dev/dri",
        )  # fmt: skip
    for node in nodes:
        if not may_use(node, host):
            yield Finding(
                "error", f"No permission on `{node}`", "its GPU is not seen by the user's programs",
                f"{_GROUPS}--group-add {node.stat().st_gid}",
            )  # fmt: skip


def _settings(host: Host) -> Iterator[Finding]:
    environment = host.environment
    if is_on(environment.get("MIOPEN_DISABLE_CACHE")):
        yield Finding(
            "error",
            f"MIOPEN_DISABLE_CACHE={environment['MIOPEN_DISABLE_CACHE']} is set",
            "libMIOpen reads and writes no kernel database at all, and compiles every time",
            "unset MIOPEN_DISABLE_CACHE",
        )
    if text := environment.get("MIOPEN_SYSTEM_DB_PATH"):
        yield Finding(
            "note",
            f"MIOPEN_SYSTEM_DB_PATH={text} is set",
            "every libMIOpen looks there for kdb, find-db, perf-db and models, and not in the "
            "folder that it was installed with",
        )
    for name in ("MIOPEN_DEVICE_ARCH", "MIOPEN_DEVICE_CU", "MIOPEN_DEBUG_ENFORCE_DEVICE"):
        if environment.get(name):
            yield Finding(
                "warning", f"{name}={environment[name]} is set",
                "it changes the GPU that MIOpen looks for databases for", f"unset {name}",
            )  # fmt: skip
    if not environment.get("HOME") and not environment.get("MIOPEN_CUSTOM_CACHE_DIR"):
        yield Finding(
            "error", "HOME is not set", "libMIOpen has no folder for its user databases",
            "set HOME, or MIOPEN_CUSTOM_CACHE_DIR and MIOPEN_USER_DB_PATH",
        )  # fmt: skip


def _other_folders(host: Host) -> Iterator[Finding]:
    locks = host.tmp / "miopen-lockfiles"
    if locks.exists() and not may_use(locks, host, os.W_OK | os.X_OK):
        yield Finding(
            "error",
            f"`{locks}` belongs to another user (uid {locks.stat().st_uid})",
            "libMIOpen fails there with `Db lock has failed to lock`",
            "set TMPDIR to a folder of the user's own, or remove that folder",
        )
    text = host.environment.get("MIOPEN_USER_DB_PATH")
    home = host.environment.get("HOME")
    if text or home:
        folder = Path(text).expanduser() if text else Path(str(home), ".config/miopen")
        yield from folder_findings(
            host.cwd / folder, host, "find-db and perf-db", "MIOPEN_USER_DB_PATH"
        )
