"""Which CU counts a database for a whole architecture must serve."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from kdbforge.model.device import Gpu
from kdbforge.model.toolchain import Toolchain
from kdbforge.vgpu.profiles import expected_basename

__all__ = ["distinct_cu_counts", "every_cu_count"]


def every_cu_count(toolchain: Toolchain, gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """The GPUs, and others of the same targets that together stand for every CU count.

    MIOpen asks for other kernels where it has a find-db, and it has one for exact CU counts
    only. So the known counts are needed, and one more without a find-db for all others.
    """
    every: dict[str, Gpu] = {}
    for gpu in gpus:
        every[str(gpu)] = gpu
    for gpu in gpus:
        known = [dataclasses.replace(gpu, num_cu=n) for n in gpu.profile.num_cus]
        if all(_has_find_db(toolchain, other) for other in (gpu, *known)):
            known.append(_without_find_db(toolchain, gpu))
        for other in known:
            every.setdefault(
                str(other), dataclasses.replace(other, requested=str(other), warnings=())
            )
    return tuple(every.values())


def distinct_cu_counts(toolchain: Toolchain, gpu: Gpu) -> list[Gpu]:
    """The same GPU with each CU count for which there is a find-db, and with one that has none."""
    gpus = every_cu_count(toolchain, [gpu])
    with_find_db = [other for other in gpus if _has_find_db(toolchain, other)]
    return [*with_find_db, *[other for other in gpus if other not in with_find_db][:1]]


def _has_find_db(toolchain: Toolchain, gpu: Gpu) -> bool:
    if toolchain.system_db is None:
        return False
    return (toolchain.system_db / f"{expected_basename(gpu)}.HIP.fdb.txt").exists()


def _without_find_db(toolchain: Toolchain, gpu: Gpu) -> Gpu:
    """The same GPU with the next larger CU count for which there is no find-db."""
    others: Iterable[Gpu] = (
        dataclasses.replace(gpu, num_cu=n)
        for n in range(max(gpu.profile.num_cus) + 1, max(gpu.profile.num_cus) + 100)
    )
    return next(other for other in others if not _has_find_db(toolchain, other))
