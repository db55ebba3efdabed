"""Databases with their manifests, as a build leaves them, for tests of what is made of them."""

from __future__ import annotations

from pathlib import Path

from kdbforge.kdb.record import Record
from kdbforge.kdb.writer import write_kdb
from kdbforge.model.plan import GpuPlan, Plan, PlannedRecord, ToolchainId
from kdbforge.model.proof import Miss, Proof
from kdbforge.package.assemble import Assembly
from kdbforge.package.manifest import write_manifest

__all__ = ["LIBRARY", "built"]

LIBRARY = ToolchainId("debian-7.2.4", "7.2.4+dfsg-1", "3.5.1", "3ea5ad9c", "a6c1cb12")
_ENVIRONMENT = {"MIOPEN_DEBUG_GCN_ASM_KERNELS": "0"}


def built(
    folder: Path,
    arch: str = "gfx1030",
    num_cu: int = 40,
    *,
    toolchain: ToolchainId = LIBRARY,
    environment: dict[str, str] = _ENVIRONMENT,
    missing: int = 0,
    misses: int = 0,
) -> Path:
    """Write a database of two records with its manifest; return the manifest."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{arch}_{num_cu}"
    kdb = folder / f"{name}.kdb"
    write_kdb(kdb, [Record.pack(f"k{n}.cpp.o", f" -mcpu={arch}", b"\x7fELF" * n) for n in (9, 99)])
    gpu = GpuPlan(name, arch, num_cu, name, (), (), (), ())
    plan = Plan(toolchain, "default", environment, (), (gpu,), {}, {})
    lacking = tuple(PlannedRecord(f"m{n}.cpp.o", "", "0" * 64) for n in range(missing))
    lost = tuple(Miss("k.cpp", "", "conv", "find") for _ in range(misses))
    proof = Proof(f"{arch}/{num_cu}", "default", 1, 2, lost, (), 0, 0.0)
    return write_manifest(plan, "0" * 64, Assembly(kdb, (gpu,), 2, lacking), [proof])
