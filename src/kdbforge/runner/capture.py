"""What a program would have compiled, as a plan: the jobs, and the records that they fill.

The program ran once, so that unstable keys are not told from others; `kdbforge plan` does that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from kdbforge.errors import VirtualGpuError
from kdbforge.kdb.reader import read_ukdb_rows
from kdbforge.miopen.replay import library_environment
from kdbforge.model.device import Gpu
from kdbforge.model.job import Job
from kdbforge.model.plan import GpuPlan, Plan, PlannedRecord, ToolchainId
from kdbforge.model.toolchain import Toolchain
from kdbforge.vgpu.journal import MARKER_PREFIX, Capture
from kdbforge.vgpu.profiles import expected_basename

__all__ = ["captured_plan"]


def captured_plan(
    toolchain: Toolchain, gpus: Sequence[Gpu], capture: Capture, databases: Iterable[Path]
) -> Plan:
    """Make a plan without problems out of a program's journal and MIOpen's user databases.

    A kernel that the program compiled and loaded past MIOpen is a job without a record.

    Raises
    ------
    VirtualGpuError
        If MIOpen wrote a database for another GPU, or a kernel that was not captured.
    """
    jobs: dict[str, Job] = {}
    records: dict[str, list[PlannedRecord]] = {expected_basename(gpu): [] for gpu in gpus}

    def key_of(marker: str) -> str:
        job = capture.job(marker)
        key = job.key(toolchain.fingerprint)
        jobs[key] = job
        return key

    for path in databases:
        if path.stem not in records:
            raise VirtualGpuError(f"MIOpen wrote `{path.name}`, and no GPU has that name")
        for record in read_ukdb_rows(path):
            content = record.unpack()
            if not content.startswith(MARKER_PREFIX):
                raise VirtualGpuError(
                    f"`{record.kernel_name}` was compiled although compiling was captured"
                )
            key = key_of(content.decode())
            records[path.stem].append(PlannedRecord(record.kernel_name, record.kernel_args, key))
    for load in capture.loads:
        if load.marker:
            key_of(load.marker)
    plans = (_gpu_plan(gpu, records[expected_basename(gpu)]) for gpu in gpus)
    digests = sorted({digest for job in jobs.values() for digest in job.digests()})
    return Plan(
        ToolchainId.of(toolchain),
        "default",
        library_environment(toolchain),
        (),
        tuple(plans),
        dict(sorted(jobs.items())),
        {digest: capture.blobs[digest] for digest in digests},
    )


def _gpu_plan(gpu: Gpu, records: Sequence[PlannedRecord]) -> GpuPlan:
    return GpuPlan(
        gpu.requested, str(gpu.target), gpu.num_cu, expected_basename(gpu),
        tuple(sorted(set(records))), (), (), (),
    )  # fmt: skip
