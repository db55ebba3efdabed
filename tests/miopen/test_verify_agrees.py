"""What `kdb verify` says of a damaged database, against what the real libMIOpen does with it."""

from __future__ import annotations

import bz2
import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from namespaces import isolated
from small import SMALL

from kdbforge import Toolchain, build, find_gpu
from kdbforge.kdb.reader import read_kdb
from kdbforge.kdb.record import Record
from kdbforge.kdb.verify import VerifyOptions, verify_kdb
from kdbforge.kdb.verify_device import Device, device_of_name
from kdbforge.kdb.verify_report import Fate, record_fate
from kdbforge.miopen.replay import ReplayOptions, replay
from kdbforge.miopen.systemdb import link_system_db
from kdbforge.problems import ProblemList, load
from kdbforge.vgpu.process import CompileMode

NAME = "gfx906_60"
GFX1030, XNACK_ON, XNACK_OFF = 0x36, 0x72F, 0x62F  # e_flags


@dataclass(frozen=True)
class Sample:
    """A database of one record that the library finds, and a place to damage a copy of it."""

    path: Path
    record: Record
    code: bytes  # its object

    def sql(self, *statements: str) -> None:
        with closing(sqlite3.connect(self.path)) as db:
            for statement in statements:
                db.execute(statement)
            db.commit()

    def store(self, **fields: object) -> None:
        columns = ", ".join(f"{name} = ?" for name in fields)
        with closing(sqlite3.connect(self.path)) as db:
            db.execute(f"UPDATE kern_db SET {columns}", list(fields.values()))
            db.commit()

    def store_object(self, data: bytes) -> None:
        digest = hashlib.md5(data).hexdigest()
        blob = bz2.compress(data)
        self.store(kernel_blob=blob, kernel_hash=digest, uncompressed_size=len(data))

    def set_flags(self, flags: int) -> None:
        self.store_object(self.code[:48] + flags.to_bytes(4, "little") + self.code[52:])

    def side_file(self, suffix: str, content: bytes) -> None:
        self.path.with_name(self.path.name + suffix).write_bytes(content)

    def leave_log(self) -> None:
        """Leave what a process leaves that is killed while it has the database open."""
        code = (
            "import sqlite3, os, sys; db = sqlite3.connect(sys.argv[1], isolation_level=None);"
            " db.execute('PRAGMA journal_mode=WAL'); db.execute('PRAGMA user_version=7');"
            " os._exit(0)"
        )
        subprocess.run([sys.executable, "-c", code, self.path], check=True)


@pytest.fixture(scope="module")
def problems(tmp_path_factory: pytest.TempPathFactory) -> ProblemList:
    path = tmp_path_factory.mktemp("problem") / "one.txt"
    path.write_text(SMALL.splitlines()[0])
    return load([str(path)])


@pytest.fixture(scope="module")
def good(
    toolchain: Toolchain,
    shared_store: Path,
    problems: ProblemList,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    out = tmp_path_factory.mktemp("good")
    report = build(problems, [NAME], out, toolchain=toolchain, store=shared_store)
    return report.databases[0].path


@pytest.fixture
def sample(good: Path, tmp_path: Path) -> Sample:
    (tmp_path / "kdb").mkdir()
    path = tmp_path / "kdb" / good.name
    shutil.copyfile(good, path)
    (record,) = read_kdb(path)
    return Sample(path, record, record.unpack())


def predicted(path: Path, device: Device | None) -> Fate:
    """What the report on a file with at most one record says of that record."""
    report = verify_kdb(path, VerifyOptions(device))
    if report.fate is not Fate.HIT:
        return report.fate
    if not report.readable or (report.counts and not report.records):
        return Fate.MISS
    return record_fate(finding for finding in report.findings if finding.record is not None)


def observed(toolchain: Toolchain, problems: ProblemList, path: Path, folder: Path) -> Fate:
    """What the library does when it looks for that record, and may not compile it instead."""
    system_db = link_system_db(toolchain, folder / "db", [path])
    options = ReplayOptions(CompileMode.FORBID, ("immediate",), system_db)
    result = replay(toolchain, find_gpu(NAME), problems.problems, options, folder / "run")
    if result.capture.forbidden:
        return Fate.MISS
    return Fate.FATAL if any(outcome.error for outcome in result.outcomes) else Fate.HIT


def no_column(name: str) -> tuple[str, str]:
    return "DROP INDEX idx_kern_db", f"ALTER TABLE kern_db DROP COLUMN {name}"


DAMAGES: dict[str, tuple[Callable[[Sample], object], Fate]] = {
    "none": (lambda s: None, Fate.HIT),
    "wrong MD5": (lambda s: s.store(kernel_hash="0" * 32), Fate.FATAL),
    "MD5 in upper case": (lambda s: s.store(kernel_hash=s.record.kernel_hash.upper()), Fate.FATAL),
    "size too small": (lambda s: s.store(uncompressed_size=len(s.code) - 1), Fate.FATAL),
    "size too large": (lambda s: s.store(uncompressed_size=len(s.code) + 1), Fate.HIT),
    "truncated blob": (lambda s: s.store(kernel_blob=s.record.kernel_blob[:-100]), Fate.FATAL),
    "blob with a tail": (lambda s: s.store(kernel_blob=s.record.kernel_blob + b"x"), Fate.HIT),
    "raw blob, size 0": (lambda s: s.store(kernel_blob=s.code, uncompressed_size=0), Fate.HIT),
    "packed blob, size 0": (lambda s: s.store(uncompressed_size=0), Fate.FATAL),
    "empty object": (
        lambda s: s.store(
            kernel_blob=b"", uncompressed_size=0, kernel_hash=hashlib.md5(b"").hexdigest()
        ),
        Fate.MISS,
    ),
    "no ELF": (lambda s: s.store_object(b"hello" * 100), Fate.FATAL),
    "missing key column": (lambda s: s.sql(*no_column("kernel_args")), Fate.FATAL),
    "missing hash column": (lambda s: s.sql(*no_column("kernel_hash")), Fate.FATAL),
    "extra column": (lambda s: s.sql("ALTER TABLE kern_db ADD COLUMN extra TEXT"), Fate.HIT),
    "no index": (lambda s: s.sql("DROP INDEX idx_kern_db"), Fate.HIT),
    "perf-db": (lambda s: s.sql("DROP TABLE kern_db", "CREATE TABLE perf_db(a)"), Fate.FATAL),
    "empty table": (lambda s: s.sql("DELETE FROM kern_db"), Fate.MISS),
    "WAL header": (lambda s: s.sql("PRAGMA journal_mode=WAL"), Fate.HIT),
    "hot journal": (lambda s: s.side_file("-journal", b"x" * 600), Fate.FATAL),
    "finished journal": (lambda s: s.side_file("-journal", bytes(600)), Fate.HIT),
    "under 512 bytes": (lambda s: s.path.write_bytes(s.path.read_bytes()[:500]), Fate.MISS),
    "web page": (lambda s: s.path.write_bytes(b"<!doctype html>".ljust(900)), Fate.FATAL),
    "cut off": (lambda s: s.path.write_bytes(s.path.read_bytes()[:-4096]), Fate.FATAL),
    "object of another gfx": (lambda s: s.set_flags(GFX1030), Fate.FATAL),
    "xnack+ object": (lambda s: s.set_flags(XNACK_ON), Fate.FATAL),
    "quote in name": (lambda s: s.store(kernel_name=f"'{s.record.kernel_name}"), Fate.MISS),
    "quote in args": (lambda s: s.store(kernel_args=f"'{s.record.kernel_args}"), Fate.MISS),
    "name of blob type": (
        lambda s: s.store(kernel_name=s.record.kernel_name.encode()), Fate.MISS
    ),
    "args with features": (
        lambda s: s.store(kernel_args=f"{s.record.kernel_args}:xnack-"), Fate.MISS
    ),
    "renamed symbol": (
        lambda s: s.store_object(s.code.replace(b"_v2.kd\0", b"_v3.kd\0")), Fate.FATAL
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGES)
def test_the_library_does_what_was_predicted(
    toolchain: Toolchain, problems: ProblemList, sample: Sample, tmp_path: Path, name: str
) -> None:
    damage, expected = DAMAGES[name]
    damage(sample)
    device = device_of_name(NAME, ["gfx906"])
    assert device is not None
    told = predicted(sample.path, device)
    assert (told, observed(toolchain, problems, sample.path, tmp_path)) == (expected, expected)


def test_xnack_off_on_a_device_that_names_no_xnack(
    toolchain: Toolchain, problems: ProblemList, sample: Sample, tmp_path: Path
) -> None:
    """The virtual gfx906 names no feature; for it, other than for the file's name, it is fatal."""
    sample.set_flags(XNACK_OFF)
    device = Device(find_gpu(NAME).target, exact=True)
    assert predicted(sample.path, device) is Fate.FATAL
    assert observed(toolchain, problems, sample.path, tmp_path) is Fate.FATAL
    by_name = replace(device, target=replace(device.target, xnack=False), exact=False)
    assert predicted(sample.path, by_name) is Fate.HIT


def only_log(sample: Sample) -> None:
    sample.leave_log()
    sample.path.with_name(sample.path.name + "-shm").unlink()


READ_ONLY: dict[str, tuple[Callable[[Sample], object], Fate]] = {
    "WAL header": (lambda s: s.sql("PRAGMA journal_mode=WAL"), Fate.FATAL),
    "WAL side files": (lambda s: s.leave_log(), Fate.HIT),
    "only the log": (only_log, Fate.FATAL),
    "someone else's log": (lambda s: s.side_file("-wal", b"x" * 5000), Fate.FATAL),
}


@pytest.mark.parametrize("name", READ_ONLY)
def test_in_a_folder_that_may_not_be_written(
    toolchain: Toolchain, problems: ProblemList, sample: Sample, tmp_path: Path, name: str
) -> None:
    damage, expected = READ_ONLY[name]
    damage(sample)
    # This module again, where the folder is mounted read-only.
    script = 'mount --bind "$1" "$1"; mount -o remount,ro,bind "$1"; shift; exec "$@"'
    source = tmp_path / "one.txt"
    source.write_text(SMALL.splitlines()[0])
    done = isolated(
        script, sample.path.parent, sys.executable, __file__, sample.path, source, tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [expected.value, expected.value]


def main(path: Path, source: Path, folder: Path) -> None:
    """Print what is predicted and what happens."""
    from kdbforge import find_toolchain

    told = predicted(path, device_of_name(NAME, ["gfx906"]))
    seen = observed(find_toolchain(), load([str(source)]), path, folder)
    print(json.dumps([told.value, seen.value]))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
