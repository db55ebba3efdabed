"""`kdbforge kdb verify` as a person or a script calls it."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from packages import LIBRARY, built

from kdbforge.cli.main import cli
from kdbforge.errors import InputError
from kdbforge.kdb.record import Record
from kdbforge.kdb.writer import write_kdb
from kdbforge.model.job import Action, ActionOutput, FileInput, Job
from kdbforge.model.plan import GpuPlan, Plan, PlannedRecord
from kdbforge.package.manifest import manifest_path
from kdbforge.planner.planfile import write_plan

DATA = Path(__file__).parent / "data"
NAVI = (DATA / "scale_gfx1030.co").read_bytes()
CDNA = (DATA / "scale_gfx90a_xnack+.co").read_bytes()
Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    def call(*args: object) -> Result:
        return CliRunner().invoke(
            cli, ["kdb", "verify", *map(str, args)], standalone_mode=False, catch_exceptions=False
        )

    return call


@pytest.fixture
def kdb(tmp_path: Path) -> Path:
    write_kdb(tmp_path / "gfx1030_40.kdb", [Record.pack("s.cl.o", " -mcpu=gfx1030", NAVI)])
    return tmp_path / "gfx1030_40.kdb"


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute(statement)
        db.commit()


def test_a_good_file(run: Run, kdb: Path) -> None:
    done = run(kdb)
    assert done.return_value == 0
    assert done.stdout == (
        f"{kdb}: a kernel database. MIOpen looks kernels up in it\n"
        "  1 record, 1 can be found and loaded\n"
    )
    assert run("-q", kdb).stdout == ""
    assert "  journal    ok     delete\n" in run("-v", kdb).stdout


def test_findings_are_listed_by_level(run: Run, kdb: Path) -> None:
    change(kdb, "UPDATE kern_db SET kernel_hash = 'x', kernel_name = '\x1b[31m'")
    done = run(kdb)
    assert done.return_value == 1
    lines = done.stdout.splitlines()[1:]
    assert [line.split(": ")[0].strip() for line in lines] == [
        "fatal to MIOpen", "never hits", "1 record, 0 can be found and loaded",
    ]  # fmt: skip
    assert lines[0].endswith("and kernel_hash says `x` [md5]")
    assert "\x1b" not in done.stdout


def test_long_lists_are_cut(run: Run, tmp_path: Path) -> None:
    kdb = tmp_path / "gfx1030.kdb"
    write_kdb(kdb, [Record.pack(f"s{n:03}.cl.o", " -mcpu=gfx1031", NAVI) for n in range(250)])
    lines = run("-j1", kdb).stdout.splitlines()
    assert sum("[mcpu]" in line for line in lines) == 6
    assert "  never hits: [mcpu] 245 more of these" in lines
    lines = run("-j1", "-v", kdb).stdout.splitlines()
    assert "  never hits: [mcpu] 50 more of these" in lines


def test_strict(run: Run, kdb: Path) -> None:
    change(kdb, "ALTER TABLE kern_db ADD COLUMN extra")
    assert run(kdb).return_value == 0
    assert run(kdb, "--strict").return_value == 1


def test_several_files_and_an_unreadable_one(run: Run, kdb: Path, tmp_path: Path) -> None:
    pointer = tmp_path / "gfx90a68.kdb"
    pointer.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
    done = run(kdb, pointer, "--json")
    assert done.return_value == 1
    good, bad = json.loads(done.stdout)
    assert (good["ok"], good["miopen"], good["records"], good["sound"]) == (True, "hit", 1, 1)
    assert (bad["ok"], bad["miopen"]) == (False, "miss")
    assert bad["kind"].startswith("a Git LFS pointer")
    assert bad["counts"] == [{"level": "never-hits", "check": "size", "count": 1}]
    assert bad["steps"][-1]["name"] == "size"
    assert run(kdb, pointer, tmp_path / "none.kdb").return_value == 2


def test_for_another_gpu(run: Run, tmp_path: Path) -> None:
    kdb = tmp_path / "my.kdb"
    write_kdb(kdb, [Record.pack("s.cl.o", " -mcpu=gfx90a", CDNA)])
    assert "[file-name]" in run(kdb).stdout
    assert run(kdb, "--gpu", "gfx90a:xnack+/104").return_value == 0
    for gpu in ("gfx90a:xnack-/104", "gfx90a68", "gfx1030_40"):
        assert run(kdb, "--gpu", gpu).return_value == 1


def test_manifest(run: Run, tmp_path: Path) -> None:
    kdb = built(tmp_path).with_name("gfx1030_40.kdb")
    assert "[manifest]" not in run(kdb, "--manifest").stdout
    with kdb.open("ab") as file:
        file.write(b"x")
    done = run(kdb, "--manifest", "--json")
    assert "has changed since its manifest was written" in done.stdout
    (report,) = json.loads(done.stdout)
    assert {"level": "suspicious", "check": "manifest", "count": 1} in report["counts"]
    manifest_path(kdb).unlink()
    assert "There is no manifest" in run(kdb, "--manifest").stdout


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('"records": 2,\n   "sha', '"records": 3,\n   "sha', "says 3 records; it has 2"),
        ('"name": "gfx1030_40.kdb"', '"name": "gfx1030.kdb"', "does not speak of it"),
        ('"schema": 1', '"schema": 9', "is not a manifest of kdbforge"),
    ],
)
def test_manifests_that_are_wrong(run: Run, tmp_path: Path, old: str, new: str, text: str) -> None:
    manifest = built(tmp_path)
    content = manifest.read_text()
    assert old in content
    manifest.write_text(content.replace(old, new))
    done = run(tmp_path / "gfx1030_40.kdb", "--manifest")
    assert text in done.stdout
    assert done.return_value == 1


def test_a_missing_manifest_fails_only_where_it_was_asked_for(run: Run, kdb: Path) -> None:
    assert run(kdb, "--manifest").return_value == 1
    assert run(kdb).return_value == 0


def plan_of(path: Path, *names: str) -> Path:
    source = hashlib.sha256(b"").hexdigest()
    action = Action(2, 2, "gfx1030", (), "", False, (FileInput(1, "s.cl", source),))
    job = Job((action,), ActionOutput(0, 8, 0))
    key = job.key(LIBRARY.fingerprint)
    records = tuple(PlannedRecord(name, " -mcpu=gfx1030", key) for name in names)
    gpu = GpuPlan("gfx1030_40", "gfx1030", 40, "gfx1030_40", records, (), (), ())
    write_plan(Plan(LIBRARY, "default", {}, (), (gpu,), {key: job}, {source: b""}), path)
    return path


def test_plan(run: Run, kdb: Path, tmp_path: Path) -> None:
    assert run(kdb, "--plan", plan_of(tmp_path / "one", "s.cl.o")).return_value == 0
    done = run(kdb, "--plan", plan_of(tmp_path / "two", "s.cl.o", "t.cl.o"))
    assert done.return_value == 1
    assert "Missing of the plan: `t.cl.o`" in done.stdout
    generic = kdb.with_name("gfx1030.kdb")
    kdb.rename(generic)
    assert run(generic, "--plan", tmp_path / "one").return_value == 0
    other = kdb.with_name("gfx90a68.kdb")
    generic.rename(other)
    with pytest.raises(InputError, match=r"has nothing for .*; it is for gfx1030_40"):
        run(other, "--plan", tmp_path / "one")
