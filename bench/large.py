"""Large databases of real objects, made once and kept, and commands that are measured on them."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from kdbforge.kdb.reader import read_kdb
from kdbforge.kdb.record import Record
from kdbforge.kdb.writer import write_sorted

__all__ = ["Cost", "bunzip2_and_md5", "measure", "repeated"]

#: bunzip2 and MD5 of all blobs on all cores, and nothing else.
_BASELINE = """
import bz2, hashlib, os, sqlite3, sys
path, workers = sys.argv[1], int(sys.argv[2])
def work(number):
    db = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    query = "SELECT kernel_blob, uncompressed_size FROM kern_db WHERE id % ? = ?"
    for blob, size in db.execute(query, (workers, number)):
        hashlib.md5(bz2.decompress(blob) if size else blob).hexdigest()
children = []
for number in range(workers):
    if not (child := os.fork()):
        work(number)
        os._exit(0)
    children.append(child)
if any([os.waitpid(child, 0)[1] for child in children]):
    sys.exit("a child failed")
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Cost:
    """What a command took, its children included."""

    cpu_seconds: float
    wall_seconds: float
    peak_bytes: int  # sum over its processes of the most that each had in memory


def repeated(path: Path, records: Sequence[Record], rounds: range, variants: int) -> Path:
    """Write records again and again, under other keys.

    Each object is there in `variants` forms, which differ in bytes behind its end, and each form
    is compressed for itself.
    """
    forms = [
        [Record.pack(r.kernel_name, r.kernel_args, r.unpack() + b"%016d" % number) for r in records]
        for number in range(variants)
    ]
    write_sorted(path, _rounds(forms, rounds))
    return path


def _rounds(forms: Sequence[Sequence[Record]], rounds: range) -> Iterator[Record]:
    """The records of all rounds in the order of their keys."""
    names = sorted({record.kernel_name for record in forms[0]})
    for name in names:
        chosen = [[r for r in form if r.kernel_name == name] for form in forms]
        for number in rounds:
            form = sorted(chosen[number % len(chosen)], key=lambda record: record.kernel_args)
            for record in form:
                args = f" -DROUND={number:09d}{record.kernel_args}"
                yield dataclasses.replace(record, kernel_args=args)


def records_of(path: Path) -> list[Record]:
    return list(read_kdb(path))


def bunzip2_and_md5(path: Path) -> Cost:
    """The least that checking a database takes, on all cores."""
    workers = len(os.sched_getaffinity(0))
    return measure([sys.executable, "-c", _BASELINE, str(path), str(workers)])


def kdbforge(*words: str | Path) -> Cost:
    """A kdbforge command; it must succeed."""
    return measure([sys.executable, "-m", "kdbforge", *map(str, words)])


def measure(command: Sequence[str]) -> Cost:
    """Run a command, and follow how much memory it and its children take."""
    started = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        watch = _Watch(process.pid)
        watch.start()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - started
        process.returncode = os.waitstatus_to_exitcode(status)
    watch.join()
    if process.returncode:
        raise RuntimeError(f"exit code {process.returncode}: {' '.join(command)}")
    # Children are in wait4's times once they are waited for, as all of these are.
    peak = max(sum(watch.peaks.values()), usage.ru_maxrss * 1024)
    return Cost(usage.ru_utime + usage.ru_stime, seconds, peak)


class _Watch(threading.Thread):
    """Reads the high-water marks of a process and its descendants until it is gone."""

    def __init__(self, pid: int):
        super().__init__(daemon=True)
        self._pid = pid
        self.peaks: dict[int, int] = {}

    def run(self) -> None:
        while self._look(self._pid):
            time.sleep(0.05)

    def _look(self, pid: int) -> bool:
        try:
            status = Path(f"/proc/{pid}/status").read_text()
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except OSError:
            return False
        for line in status.splitlines():
            if line.startswith("VmHWM:"):
                self.peaks[pid] = int(line.split()[1]) * 1024
        for child in children:
            self._look(int(child))
        return True
