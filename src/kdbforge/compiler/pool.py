"""Runs compile jobs in local worker processes and puts each result into the store at once.

The decisions are `schedule.py`'s; here are the processes, the clock and the files.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import selectors
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from kdbforge.compiler.content import content_base, content_key
from kdbforge.compiler.expect import Expectation
from kdbforge.compiler.message import Reply, answer_frame, job_frame
from kdbforge.compiler.report import CompileReport, JobFailure, Progress
from kdbforge.compiler.schedule import Loss, Schedule, Verdict, Work
from kdbforge.compiler.worker import Worker, compiler_arguments, tail
from kdbforge.errors import InputError
from kdbforge.files import host_errors
from kdbforge.model.job import Job
from kdbforge.model.toolchain import Toolchain
from kdbforge.store import Store, StoreEntry

__all__ = ["CompileReport", "JobFailure", "Progress", "compile_jobs"]

#: AMD_COMGR_STATUS_ERROR_OUT_OF_RESOURCES (amd_comgr.h).
_OUT_OF_RESOURCES = 3
#: How often progress is reported while nothing happens.
_TICK_SECONDS = 1.0
_LAST_WORDS_SECONDS = 5.0
#: Loading LLVM from a cold disk takes its time; that is not the first job's fault.
_START_SECONDS = 120.0
#: Give up when this many workers in a row died before they were ready.
_MAX_START_FAILURES = 3
_BLOBS = "blobs"


def compile_jobs(
    toolchain: Toolchain,
    jobs: Mapping[str, Job],
    blobs: Mapping[str, bytes],
    store: Store,
    *,
    workers: int,
    work_dir: Path,
    timeout_s: float = 1800.0,
    memory_bytes: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> CompileReport:
    """Compile the jobs that the store lacks; afterwards it has all but the failed ones.

    The objects do not depend on `workers`. Each is in the store as soon as it is finished, so
    an interrupted run loses the running jobs only; no child outlives this process.

    Parameters
    ----------
    jobs
        By job key under the toolchain's fingerprint.
    blobs
        Contents of the jobs' files by SHA-256.
    workers
        Number of child processes; each runs one job at a time.
    work_dir
        Folder for temporary files; left as it was found.
    timeout_s
        Wall time that one job may take.
    memory_bytes
        What one child may allocate; None: no bound.
    progress
        Called whenever a job starts or ends, and once a second.

    Raises
    ------
    InputError
        If a key is not that of its job, or a file of a job is missing or is not what its
        digest says.
    HostError
        If the store or the work folder cannot be written to.
    ToolchainError, WorkerError
        If workers cannot be started at all.
    """
    if workers < 1:
        raise InputError(f"The number of workers is `{workers}`", hint="use 1 or more")
    started = time.monotonic()
    missing = {key: job for key, job in sorted(jobs.items()) if store.get(key) is None}
    _check(missing, blobs, toolchain.fingerprint)
    bases = {key: content_base(job, toolchain.fingerprint) for key, job in missing.items()}
    pool = _Pool(
        missing,
        bases,
        store,
        Schedule(_works(missing, bases, blobs, store)),
        size=min(workers, len(missing)),
        timeout_s=timeout_s,
        notify=_notifier(progress, len(jobs), len(missing)),
    )
    pool.report()
    if missing:
        compiler = compiler_arguments(toolchain)
        with _scratch(work_dir, missing, blobs) as folder:
            names = (folder / f"worker-{number}" for number in itertools.count())
            pool.run(
                lambda: Worker(toolchain, compiler, folder / _BLOBS, next(names), memory_bytes)
            )
    return CompileReport(
        found=len(jobs) - len(missing),
        compiled=len(pool.schedule.compiled),
        deduplicated=len(pool.schedule.deduplicated),
        failures=tuple(sorted(pool.failures, key=lambda failure: failure.key)),
        wall_seconds=time.monotonic() - started,
        cpu_seconds=pool.cpu_seconds,
    )


class _Pool:
    """The workers of one run and what they are doing."""

    def __init__(
        self,
        jobs: Mapping[str, Job],
        bases: Mapping[str, str | None],
        store: Store,
        schedule: Schedule,
        *,
        size: int,
        timeout_s: float,
        notify: Callable[[_Pool], None] | None,
    ):
        self.jobs = jobs
        self.schedule = schedule
        self.size = size
        self.failures: list[JobFailure] = []
        self._bases = bases
        self._store = store
        self._timeout_s = timeout_s
        self._notify = notify
        self._contents: dict[str, str] = {}  # content keys of jobs that were asked for theirs
        self._selector = selectors.DefaultSelector()
        self._workers: dict[Worker, str | None] = {}  # with the key of the running job
        self._ready: set[Worker] = set()
        self._deadlines: dict[Worker, float] = {}  # none for those that are idle
        self._ended_cpu = 0.0
        self._start_failures = 0  # in a row

    @property
    def cpu_seconds(self) -> float:
        return self._ended_cpu + sum(worker.cpu_seconds for worker in self._workers)

    def run(self, start_worker: Callable[[], Worker]) -> None:
        """Run all jobs; whatever happens, no worker is left."""
        try:
            while self.schedule.unfinished:
                self._employ(start_worker)
                self._wait()
        finally:
            for worker in list(self._workers):
                self._end(worker)
            self._selector.close()
        self.report()

    def _employ(self, start_worker: Callable[[], Worker]) -> None:
        """Give pending jobs to idle workers, and start workers if there are too few."""
        for worker in self._ready - self._deadlines.keys():
            self._next(worker)
        starting = len(self._workers) - len(self._ready)
        for _ in range(min(self.size - len(self._workers), self.schedule.pending - starting)):
            worker = start_worker()
            self._workers[worker] = None
            self._deadlines[worker] = time.monotonic() + _START_SECONDS
            self._selector.register(worker, selectors.EVENT_READ, worker)

    def _wait(self) -> None:
        patience = max(0.0, min(self._deadlines.values()) - time.monotonic())
        if self._notify is not None:
            patience = min(patience, _TICK_SECONDS)
        events = self._selector.select(patience)
        for event, _ in events:
            self._read(event.data)
        now = time.monotonic()
        for worker in [w for w, deadline in self._deadlines.items() if deadline <= now]:
            self._lose(worker, "timeout")
        if not events:
            self.report()

    def _read(self, worker: Worker) -> None:
        replies = worker.receive()
        if replies is None:
            self._lose(worker, None)
            return
        handlers = {
            "ready": self._on_ready,
            "content": self._on_content,
            "skipped": self._on_skipped,
            "done": self._on_done,
            "error": self._on_error,
        }
        for reply in replies:
            handlers[reply.kind](worker, reply)

    # One method for each kind of reply.

    def _on_ready(self, worker: Worker, _reply: Reply) -> None:
        self._start_failures = 0
        self._ready.add(worker)
        self._next(worker)

    def _on_skipped(self, worker: Worker, _reply: Reply) -> None:
        self._next(worker)

    def _on_content(self, worker: Worker, reply: Reply) -> None:
        key = self._key(worker)
        base, digest = self._bases[key], str(reply.header["digest"])
        content = content_key(base, digest) if digest and base is not None else None
        entry = None
        if content is not None:
            self._contents[key] = content
            twin = self._store.alias(content)
            entry = None if twin is None else self._store.get(twin)
        if entry is not None:
            self._store.put(key, entry)
            self.schedule.served(key)
        compile_it = entry is None and self.schedule.content(key, content) is Verdict.COMPILE
        if not compile_it:
            self._workers[worker] = None
        worker.send(answer_frame(compile_it=compile_it))

    def _on_done(self, worker: Worker, reply: Reply) -> None:
        key, header = self._key(worker), reply.header
        entry = StoreEntry(
            blob=reply.payload,
            kernel_hash=str(header["kernel_hash"]),
            uncompressed_size=int(header["uncompressed_size"]),
            seconds=float(header["seconds"]),
            kernel_file=self.jobs[key].kernel_file,
        )
        self._next(worker)  # first, so that it does not wait for the disk
        self._store.put(key, entry)
        for twin in self.schedule.finished(key, entry.seconds):
            self._store.put(twin, entry)
        if key in self._contents:
            self._store.put_alias(self._contents[key], key)
        if header["log"]:
            self._store.put_log(key, str(header["log"]))
        else:
            self._store.drop_log(key)  # of an earlier run that failed
        self.report()

    def _on_error(self, worker: Worker, reply: Reply) -> None:
        if reply.header["status"] == _OUT_OF_RESOURCES:
            self._lose(worker, "out of memory")
            return
        key = self._key(worker)
        log = reply.payload.decode("utf-8", "replace") or worker.stderr_tail()
        self.schedule.rejected(key)
        self._next(worker)
        self._fail(key, "compiler error", f"{reply.header['text']}\n{log}")

    # Workers.

    def _next(self, worker: Worker) -> None:
        work = self.schedule.start()
        if work is None:
            self._workers[worker] = None
            self._deadlines.pop(worker, None)
            return
        self._workers[worker] = work.key
        self._deadlines[worker] = time.monotonic() + self._timeout_s
        worker.forget_stderr()
        worker.send(job_frame(self.jobs[work.key], ask=self.schedule.worth_asking(work.key)))
        self.report()

    def _lose(self, worker: Worker, reason: str | None) -> None:
        """A worker has died or must; its job is tried again or has failed."""
        key, was_ready = self._workers[worker], worker in self._ready
        # One that has closed its pipe is about to end, and how it ends is worth knowing.
        self._end(worker, patience=_LAST_WORDS_SECONDS if reason is None else 0.0)
        log = worker.stderr_tail()
        reason = reason or worker.cause_of_death()
        if not was_ready:
            self._start_failures += 1
            if self._start_failures >= _MAX_START_FAILURES:
                raise worker.start_error()
        worker.remove_folder()
        if key is not None and self.schedule.lost(key) is Loss.FAILED:
            self._fail(key, reason, log)

    def _end(self, worker: Worker, *, patience: float = 0.0) -> None:
        self._selector.unregister(worker)
        worker.end(patience=patience)
        self._ended_cpu += worker.cpu_seconds
        del self._workers[worker]
        self._ready.discard(worker)
        self._deadlines.pop(worker, None)

    def _fail(self, key: str, reason: str, log: str) -> None:
        self._store.put_log(key, f"{reason}\n{log}")
        self.failures.append(JobFailure(key, self.jobs[key].kernel_file, reason, tail(log)))
        self.report()

    def _key(self, worker: Worker) -> str:
        key = self._workers[worker]
        assert key is not None
        return key

    def report(self) -> None:
        """Say how far it is, if anybody wants to know."""
        if self._notify is not None:
            self._notify(self)


def _check(jobs: Mapping[str, Job], blobs: Mapping[str, bytes], fingerprint: str) -> None:
    """Refuse what would put a wrong result into the store."""
    for key, job in jobs.items():
        if job.key(fingerprint) != key:
            raise InputError(
                f"The key `{key}` is not that of its job under this toolchain",
                context=(f"kernel file: {job.kernel_file}",),
                hint="plan again with the toolchain that is to compile",
            )
    for digest in _digests(jobs):
        if digest not in blobs:
            raise InputError(f"The file `{digest}`, which a compile job needs, is missing")
        if hashlib.sha256(blobs[digest]).hexdigest() != digest:
            raise InputError(f"The file `{digest}` of a compile job does not have this SHA-256")


def _digests(jobs: Mapping[str, Job]) -> list[str]:
    return sorted({digest for job in jobs.values() for digest in job.digests()})


def _works(
    jobs: Mapping[str, Job],
    bases: Mapping[str, str | None],
    blobs: Mapping[str, bytes],
    store: Store,
) -> list[Work]:
    expectation = Expectation(store.history() if jobs else {}, blobs)
    family = Counter(bases.values())
    works = []
    for key, job in jobs.items():
        base = bases[key]
        ask = base is not None and expectation.worth_asking(job, family[base] - 1)
        works.append(Work(key, expectation.seconds(job), job.kernel_file if ask else ""))
    return works


def _notifier(
    progress: Callable[[Progress], None] | None, total: int, missing: int
) -> Callable[[_Pool], None] | None:
    if progress is None:
        return None

    def notify(pool: _Pool) -> None:
        schedule = pool.schedule
        progress(
            Progress(
                total=total,
                in_store=total - missing,
                done=len(schedule.compiled) + len(schedule.deduplicated),
                failed=len(schedule.failed),
                running=tuple(sorted(pool.jobs[key].kernel_file for key in schedule.running)),
                eta_seconds=schedule.eta_seconds(pool.size),
                cpu_seconds=pool.cpu_seconds,
            )
        )

    return notify


@contextlib.contextmanager
def _scratch(work_dir: Path, jobs: Mapping[str, Job], blobs: Mapping[str, bytes]) -> Iterator[Path]:
    """A folder with the jobs' files, each named by its digest; removed at the end."""
    with host_errors(f"write to the work folder `{work_dir}`"):
        work_dir.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="compile-", dir=work_dir)).absolute()
    try:
        with host_errors(f"write to the work folder `{folder}`"):
            (folder / _BLOBS).mkdir()
            for digest in _digests(jobs):
                (folder / _BLOBS / digest).write_bytes(blobs[digest])
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
