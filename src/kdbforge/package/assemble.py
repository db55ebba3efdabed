"""Assembles kernel databases from a plan and the store, each checked and written whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kdbforge.codeobject.bundle import device_objects
from kdbforge.codeobject.elf import check_object
from kdbforge.errors import DatabaseError
from kdbforge.kdb.record import Record
from kdbforge.kdb.writer import write_kdb
from kdbforge.model.plan import GpuPlan, Plan, PlannedRecord
from kdbforge.model.target import TargetId
from kdbforge.store.store import Store

__all__ = ["Assembly", "assemble", "group_gpus"]


@dataclass(frozen=True, slots=True)
class Assembly:
    """One database that was written."""

    path: Path
    gpus: tuple[GpuPlan, ...]
    records: int
    missing: tuple[PlannedRecord, ...]  # whose job has no result in the store


def group_gpus(plan: Plan, *, per_arch: bool) -> dict[str, tuple[GpuPlan, ...]]:
    """The GPUs of each database to write, by its name without suffix.

    Two requests that MIOpen names alike (`rx-6900-xt` and `gfx1030_40`) share a database.
    """
    groups: dict[str, list[GpuPlan]] = {}
    for gpu in plan.gpus:
        groups.setdefault(gpu.db_id if per_arch else gpu.basename, []).append(gpu)
    return {name: tuple(gpus) for name, gpus in sorted(groups.items())}


def assemble(name: str, gpus: tuple[GpuPlan, ...], store: Store, folder: Path) -> Assembly:
    """Write `<name>.kdb` into `folder` from the union of the GPUs' records.

    Raises
    ------
    DatabaseError
        If a key stands for different jobs, or an object would not load on its GPU.
    HostError
        If the file cannot be written.
    """
    records, missing = [], []
    for key, target in _union(name, gpus).items():
        entry = store.get(key.job)
        if entry is None:
            missing.append(key)
            continue
        record = Record(
            key.kernel_name,
            key.kernel_args,
            entry.blob,
            entry.kernel_hash,
            entry.uncompressed_size,
        )
        for code_object in device_objects(record.unpack()):
            check_object(code_object, TargetId.parse(target))
        records.append(record)
    path = folder / f"{name}.kdb"
    write_kdb(path, records)
    return Assembly(path, gpus, len(records), tuple(missing))


def _union(name: str, gpus: Iterable[GpuPlan]) -> Mapping[PlannedRecord, str]:
    """Planned records of all GPUs, with the target that asked for each."""
    union: dict[PlannedRecord, str] = {}
    jobs: dict[tuple[str, str], str] = {}
    for gpu in gpus:
        for record in gpu.records:
            key = (record.kernel_name, record.kernel_args)
            if jobs.setdefault(key, record.job) != record.job:
                raise DatabaseError(
                    f"`{record.kernel_name}` has different code on the GPUs of `{name}.kdb`",
                    context=(f"options: {record.kernel_args}",),
                    hint="build one database per CU count, without --per-arch",
                )
            union[record] = gpu.target
    return union
