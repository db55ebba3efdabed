"""Which job runs next, which waits for its twin, which is tried again: a state machine.

No processes, no clock, no files: events come in as calls, decisions go out as return values.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

__all__ = ["Loss", "Schedule", "Verdict", "Work"]

#: A job that was lost with its worker is run once more.
_ATTEMPTS = 2
#: After so many jobs of a family without a twin, no more is spent on finding one.
_MISSES = 3


@dataclass(frozen=True, slots=True)
class Work:
    """A job as the scheduler sees it."""

    key: str
    expected_seconds: float
    family: str = ""  # jobs among which twins are likely; empty: not worth looking for one


class Verdict(Enum):
    """What to do with a running job whose content is now known."""

    COMPILE = "compile"
    WAIT = "wait"  # a running job compiles the same; leave this one


class Loss(Enum):
    """What becomes of a job that was lost with its worker."""

    RETRY = "retry"
    FAILED = "failed"


class Schedule:
    """The jobs of one run, longest expected first.

    Every job ends in exactly one of `compiled`, `deduplicated`, `failed`. The order in which
    jobs start depends on their keys and expected times alone.
    """

    def __init__(self, works: Iterable[Work]):
        self._works = {work.key: work for work in works}
        self._queue = [(-work.expected_seconds, key) for key, work in self._works.items()]
        heapq.heapify(self._queue)
        self._attempts: dict[str, int] = {}
        self._running: dict[str, str | None] = {}  # key -> content, once known
        self._owner: dict[str, str] = {}  # content -> running key that compiles it
        self._waiting: dict[str, list[str]] = {}  # content -> keys that wait for its owner
        self._misses: Counter[str] = Counter()  # by family
        self._hits: Counter[str] = Counter()
        self.compiled: set[str] = set()
        self.deduplicated: set[str] = set()
        self.failed: set[str] = set()
        self._expected_done = 0.0
        self._actual_done = 0.0

    @property
    def unfinished(self) -> bool:
        """Whether a job is still to be run, running or waiting."""
        return bool(self._queue or self._running)

    @property
    def pending(self) -> int:
        """How many jobs `start` would give."""
        return len(self._queue)

    @property
    def running(self) -> tuple[str, ...]:
        return tuple(sorted(self._running))

    def start(self) -> Work | None:
        """Take the next job; None if there is none to start now."""
        if not self._queue:
            return None
        _, key = heapq.heappop(self._queue)
        self._running[key] = None
        self._attempts[key] = self._attempts.get(key, 0) + 1
        return self._works[key]

    def worth_asking(self, key: str) -> bool:
        """Whether to find out a job's content before compiling it."""
        family = self._works[key].family
        return bool(family) and (self._hits[family] > 0 or self._misses[family] < _MISSES)

    def content(self, key: str, content: str | None) -> Verdict:
        """A running job's content became known; None: it has none to compare."""
        family = self._works[key].family
        if content is not None and content in self._owner:
            self._hits[family] += 1
            del self._running[key]
            self._waiting.setdefault(content, []).append(key)
            return Verdict.WAIT
        self._misses[family] += 1
        if content is not None:
            self._owner[content] = key
        self._running[key] = content
        return Verdict.COMPILE

    def served(self, key: str) -> None:
        """A running job turned out to have its result in the store."""
        self._hits[self._works[key].family] += 1
        self._leave(key)
        self.deduplicated.add(key)

    def finished(self, key: str, seconds: float) -> tuple[str, ...]:
        """A running job gave its object; returns the waiting jobs that have the same one."""
        twins = tuple(self._leave(key))
        self.compiled.add(key)
        self.deduplicated.update(twins)
        self._expected_done += self._works[key].expected_seconds
        self._actual_done += seconds
        return twins

    def rejected(self, key: str) -> None:
        """The compiler refused a running job, and would do so again."""
        self._give_up(key)

    def lost(self, key: str) -> Loss:
        """A running job's worker crashed, hung or ran out of memory."""
        if self._attempts[key] >= _ATTEMPTS:
            self._give_up(key)
            return Loss.FAILED
        for again in (key, *self._leave(key)):
            self._enqueue(again)
        return Loss.RETRY

    def eta_seconds(self, workers: int) -> float:
        """Expected wall time until all is done; running jobs count half."""
        open_seconds = -sum(item[0] for item in self._queue)
        running = [self._works[key].expected_seconds for key in self._running]
        remaining = open_seconds + sum(running) / 2
        # Once something is done, this machine's own speed is known.
        speed = self._actual_done / self._expected_done if self._expected_done else 1.0
        longest = max((*running, *(-item[0] for item in self._queue[:1])), default=0.0) / 2
        return speed * max(remaining / max(workers, 1), longest)

    def _give_up(self, key: str) -> None:
        # Those that waited are tried by themselves: a crash need not be theirs as well.
        for waiting in self._leave(key):
            self._enqueue(waiting)
        self.failed.add(key)

    def _leave(self, key: str) -> list[str]:
        """Take a job out of the running ones; returns those that waited for it."""
        content = self._running.pop(key)
        if content is None:
            return []
        del self._owner[content]
        return self._waiting.pop(content, [])

    def _enqueue(self, key: str) -> None:
        heapq.heappush(self._queue, (-self._works[key].expected_seconds, key))
