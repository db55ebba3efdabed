"""The machine's own GPU in the place of a virtual one: nothing is replaced and nothing captured."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from kdbforge.errors import VirtualGpuError
from kdbforge.model.toolchain import Toolchain
from kdbforge.vgpu.launch import command

__all__ = ["HostGpu"]

_HIP = "libamdhip64.so"
#: Variables with which users choose among their GPUs, and have one pass for another.
_PASSED_ON = (
    "HIP_VISIBLE_DEVICES",
    "HSA_OVERRIDE_GFX_VERSION",
    "ROCR_VISIBLE_DEVICES",
)


@dataclass(frozen=True, slots=True)
class HostGpu:
    """What `VirtualGpu` is to a virtual one; its journal is never written."""

    toolchain: Toolchain
    folder: Path

    @property
    def journal(self) -> Path:
        return self.folder / "journal"

    @property
    def hip_library(self) -> Path:
        """HIP's SONAME, for the dynamic loader to find.

        Raises
        ------
        VirtualGpuError
            If libMIOpen does not use HIP.
        """
        for soname in self.toolchain.sonames:
            if soname.startswith(_HIP):
                return Path(soname)
        raise VirtualGpuError(f"`{self.toolchain.libmiopen}` does not use libamdhip64")

    def command(self, script: Path, args: list[str]) -> tuple[list[str], dict[str, str]]:
        """Argument list and whole environment of a Python script run on this GPU."""
        argv, environment = command(self.toolchain, script, args)
        passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        return argv, {**environment, **passed}
