"""What compiling a plan will take, from what the store has seen of the same kernel files."""

from __future__ import annotations

from dataclasses import dataclass

from kdbforge.model.plan import Plan
from kdbforge.store.store import Store

__all__ = ["Estimate", "estimate"]

#: For kernel files that the store has not seen: means over MIOpen's convolution kernels.
_SECONDS, _BLOB_BYTES = 1.5, 12_000.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """Jobs of a plan, those in the store, and the expected cost of the others."""

    jobs: int
    in_store: int
    seconds: float  # CPU time
    blob_bytes: float  # as packed in a database
    seen: bool  # whether any of the numbers comes from the store


def estimate(plan: Plan, store: Store) -> Estimate:
    """Count and weigh what is left to compile."""
    history = store.history()
    left = [job for key, job in plan.jobs.items() if store.get(key) is None]
    known = [history[job.kernel_file] for job in left if job.kernel_file in history]
    unknown = len(left) - len(known)
    return Estimate(
        len(plan.jobs),
        len(plan.jobs) - len(left),
        sum(seen.seconds for seen in known) + unknown * _SECONDS,
        sum(seen.blob_bytes for seen in known) + unknown * _BLOB_BYTES,
        bool(known),
    )
