"""Prepares the folder and the environment in which a process sees a virtual GPU.

Which libraries are replaced follows from the compilation mode; nothing of the host leaks in.
"""

from __future__ import annotations

import importlib.resources
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from kdbforge.errors import ToolchainError, VirtualGpuError
from kdbforge.model.device import Gpu
from kdbforge.model.toolchain import Toolchain
from kdbforge.vgpu.clang import write_script
from kdbforge.vgpu.launch import command, program_command
from kdbforge.vgpu.profiles import profile_text

__all__ = ["CompileMode", "MemoryMode", "VirtualGpu"]

#: Libraries that are replaced whatever the mode, by the start of their SONAME.
_ALWAYS = ("libamdhip64.so", "librocblas.so", "librocrand.so", "libhipblaslt.so")
_COMPILER = "libamd_comgr.so"
#: Takes the calls by which a libMIOpen without COMGR runs its compiler.
_POPEN = "libkdbforge_popen.so"


class CompileMode(Enum):
    """What becomes of a compilation that the process asks for."""

    CAPTURE = "capture"  # noted in the journal, answered with a marker
    PASS = "pass"  # noqa: S105  done by the real compiler
    FORBID = "forbid"  # fails, and is counted in the journal


class MemoryMode(Enum):
    """What stands behind device memory."""

    RESERVE = "reserve"  # address space only
    BACKED = "backed"  # host memory


@dataclass(frozen=True, slots=True)
class VirtualGpu:
    """A virtual GPU set up in a folder; each process on it is started by `command`."""

    toolchain: Toolchain
    folder: Path
    mode: CompileMode
    environment: Mapping[str, str]
    libraries: tuple[Path, ...]  # to preload: the replacements of what libMIOpen needs

    @classmethod
    def set_up(
        cls,
        toolchain: Toolchain,
        gpu: Gpu,
        mode: CompileMode,
        folder: Path,
        *,
        memory: MemoryMode = MemoryMode.RESERVE,
        more_gpus: Sequence[Gpu] = (),
        sonames: Sequence[str] = (),
    ) -> VirtualGpu:
        """Write the profile and link the replacement libraries into `folder`.

        HIP numbers the devices from 0: `gpu`, then `more_gpus`. `sonames` are the libraries that
        the process needs, by default those of libMIOpen; the first version of each is taken.

        Raises
        ------
        ToolchainError
            If there is no replacement of the version that the process needs.
        """
        folder.mkdir(parents=True, exist_ok=True)
        profile = folder / "profile"
        devices = "\n".join(map(profile_text, (gpu, *more_gpus)))
        profile.write_text(devices, encoding="utf-8")
        environment = {
            "KDBFORGE_VGPU_PROFILE": str(profile),
            "KDBFORGE_VGPU_JOURNAL": str(folder / "journal"),
            "KDBFORGE_VGPU_COMPILE": mode.value,
            "KDBFORGE_VGPU_LAUNCH": "skip",
            "KDBFORGE_VGPU_MEMORY": memory.value,
        }
        replaced = (*_ALWAYS, *(() if mode is CompileMode.PASS else (_COMPILER,)))
        families = _families(sonames or toolchain.sonames, replaced)
        libraries = _link_libraries(families, folder / "lib", toolchain.libmiopen)
        if toolchain.clang is not None:
            libraries = (*libraries, _link(_packaged() / _POPEN, folder / "lib" / _POPEN))
            write_script(toolchain, folder / "compiler")
            environment["KDBFORGE_VGPU_COMPILER"] = str(folder / "compiler")
        return cls(toolchain, folder, mode, environment, libraries)

    @property
    def journal(self) -> Path:
        return self.folder / "journal"

    @property
    def hip_library(self) -> Path:
        return next(path for path in self.libraries if path.name.startswith(_ALWAYS[0]))

    def command(self, script: Path, args: list[str]) -> tuple[list[str], dict[str, str]]:
        """Argument list and whole environment of a Python script run on this GPU."""
        argv, environment = command(
            self.toolchain,
            script,
            args,
            preload=self.libraries,
            extra_library_path=(self.folder / "lib",),
        )
        return argv, {**environment, **self.environment}

    def program_command(
        self, argv: Sequence[str], *, library_path: Sequence[Path] = (), by_host: bool = False
    ) -> tuple[list[str], dict[str, str]]:
        """Argument list that runs any program on this GPU, and what its environment must hold.

        `library_path` is searched before the toolchain's own.
        """
        command_line, environment = program_command(
            self.toolchain,
            argv,
            preload=self.libraries,
            extra_library_path=(self.folder / "lib", *library_path),
            by_host=by_host,
        )
        return command_line, {**environment, **self.environment}


def _packaged() -> Path:
    return Path(str(importlib.resources.files("kdbforge.vgpu"))) / "lib"


def _families(sonames: Sequence[str], replaced: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The versions of each library that is replaced, by its name without one."""
    found: dict[str, dict[str, None]] = {}
    for soname in sonames:
        if soname.startswith(replaced):
            found.setdefault(soname.partition(".so")[0], {})[soname] = None
    return {name: tuple(versions) for name, versions in found.items()}


def _link_libraries(
    families: Mapping[str, tuple[str, ...]], folder: Path, libmiopen: Path
) -> tuple[Path, ...]:
    """Link each replacement under the names that are asked for; return one link of each.

    All versions of a library are one file, which the loader loads only once: a process whose
    parts were built for ROCm 6 and 7 must not hold two virtual GPUs. COMGR is another matter, as
    its two versions number their actions differently; each has its own state in any case.
    """
    folder.mkdir(exist_ok=True)
    packaged = _packaged()
    links = []
    for name, versions in families.items():
        source = packaged / versions[0]
        if not source.exists():
            raise ToolchainError(
                f"There is no virtual `{versions[0]}`, which the program or `{libmiopen}` needs",
                hint=f"known are: {', '.join(sorted(p.name for p in packaged.glob('lib*')))}",
            )
        for soname in versions:
            own = packaged / soname if soname.startswith(_COMPILER) else source
            link = _link(own, folder / soname)
            if soname == versions[0]:
                links.append(link)
        # hiprtc opens HIP under its unversioned name (dlopen of libamdhip64.so).
        _link(source, folder / f"{name}.so")
    if not any(link.name.startswith(_ALWAYS[0]) for link in links):
        raise VirtualGpuError(f"`{libmiopen}` does not use libamdhip64")
    return tuple(links)


def _link(source: Path, link: Path) -> Path:
    link.unlink(missing_ok=True)
    link.symlink_to(source)
    return link
