"""How long a job will take: what the store has seen of its kernel file, else its size.

Estimates order the work and fill the progress display; no result depends on them.
"""

from __future__ import annotations

from collections.abc import Mapping

from kdbforge.model.job import DATA_KIND_SOURCE, FileInput, Job
from kdbforge.store import Seen

__all__ = ["Expectation"]

# Measured on one core of 2026: start-up of a compilation with its headers, source bytes compiled
# in a second, and what preprocessing costs.
_HIP = (0.4, 12_000.0, 0.12)
_OTHER = (0.1, 40_000.0, 0.01)
#: Preprocessing to find a twin may cost this part of the compilation that it may save.
_ASKING_SHARE = 0.05


class Expectation:
    """Expected CPU seconds of jobs."""

    def __init__(self, history: Mapping[str, Seen], blobs: Mapping[str, bytes]):
        self._history = history
        self._blobs = blobs

    def seconds(self, job: Job) -> float:
        seen = self._history.get(job.kernel_file)
        if seen is not None:
            return seen.seconds
        start, speed, _ = _costs(job)
        return start + self._source_bytes(job) / speed

    def worth_asking(self, job: Job, twins: int) -> bool:
        """Whether to preprocess first; `twins`: jobs of this run that differ in macros alone."""
        _, _, preprocessing = _costs(job)
        return twins > 0 or preprocessing <= _ASKING_SHARE * self.seconds(job)

    def _source_bytes(self, job: Job) -> int:
        files = (item for action in job.actions for item in action.inputs)
        return sum(
            len(self._blobs.get(item.digest, b""))
            for item in files
            if isinstance(item, FileInput) and item.kind == DATA_KIND_SOURCE
        )


def _costs(job: Job) -> tuple[float, float, float]:
    return _HIP if job.is_hip else _OTHER
