"""Removing records: by plan, by name, stale and damaged ones; the original is never half-gone."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from databases import digest, edit, plain_database, record, records_of, wal_database

from kdbforge.cli.main import cli
from kdbforge.errors import DatabaseError, InputError, KdbforgeError
from kdbforge.kdb.prune import PruneReport, PruneRules, prune_kdb
from kdbforge.kdb.record import Record
from kdbforge.kdb.writer import write_kdb
from kdbforge.model.job import DATA_KIND_SOURCE, Action, ActionOutput, FileInput, Job
from kdbforge.model.plan import GpuPlan, Plan, PlannedRecord, ToolchainId
from kdbforge.planner.planfile import write_plan

A, B, C = record("a.cl"), record("b.cpp"), record("c.mlir")
ALL = [A, B, C]


@pytest.fixture
def kdb(tmp_path: Path) -> Path:
    write_kdb(tmp_path / "gfx1030.kdb", ALL)
    return tmp_path / "gfx1030.kdb"


def prune(
    path: Path, rules: PruneRules, output: Path | None = None, **options: bool
) -> PruneReport:
    report = prune_kdb(path, rules, output, **options)
    assert report.rows_in == report.rows_out + len(report.removed)
    return report


def run(*args: object) -> Result:
    return CliRunner().invoke(cli, ["kdb", "prune", *map(str, args)])


def plan_for(path: Path, *records: Record) -> Path:
    source = b"kernel"
    digest_ = hashlib.sha256(source).hexdigest()
    action = Action(
        1, 1, "amdgcn-amd-amdhsa--gfx1030", (), "", False,
        (FileInput(DATA_KIND_SOURCE, "a.cl", digest_),),
    )  # fmt: skip
    job = Job((action,), ActionOutput(0, 1, 0))
    key = job.key("f")
    planned = tuple(PlannedRecord(*one.key, key) for one in records)
    gpu = GpuPlan("gfx1030_40", "gfx1030", 40, "gfx1030_40", planned, (), (), ())
    toolchain = ToolchainId("t", "1", "3.5.1", "b", "f")
    write_plan(Plan(toolchain, "default", {}, (), (gpu,), {key: job}, {digest_: source}), path)
    return path


def test_nothing_is_written_unless_asked_for(kdb: Path, tmp_path: Path) -> None:
    before = digest(tmp_path)
    report = prune(kdb, PruneRules(kernels=("*.mlir",)))
    assert (report.rows_out, report.output) == (2, None)
    assert report.stored_in - report.stored_out == len(C.kernel_blob)
    assert digest(tmp_path) == before


@pytest.mark.parametrize(
    ("globs", "kept"),
    [((), ALL), (("*.mlir",), [A, B]), (("c.mlir.o",), [A, B]), (("a*", "b*"), [C])],
)
def test_by_kernel(kdb: Path, tmp_path: Path, globs: tuple[str, ...], kept: list[Record]) -> None:
    out = tmp_path / "out.kdb"
    before = digest(tmp_path)
    prune(kdb, PruneRules(kernels=globs), out)
    assert records_of(out) == kept
    assert digest(tmp_path)["gfx1030.kdb"] == before["gfx1030.kdb"]


def test_by_plan(kdb: Path, tmp_path: Path) -> None:
    """ROCm/TheRock#1848: only what is wanted gets shipped."""
    report = prune(kdb, PruneRules(keep=frozenset([B.key])), tmp_path / "o.kdb")
    assert records_of(tmp_path / "o.kdb") == [B]
    assert [entry.rule for entry in report.removed] == ["plan", "plan"]


def test_stale(kdb: Path, tmp_path: Path) -> None:
    """MIOpen PR #2293: .mlir.o rows that the library does not know any more."""
    library = tmp_path / "libMIOpen.so"
    library.write_bytes(b"\x7fELF\0a.cl\0b.cpp\0")
    report = prune(kdb, PruneRules(library=library), tmp_path / "o.kdb")
    assert records_of(tmp_path / "o.kdb") == [A, B]
    (removed,) = report.removed
    assert (removed.rule, removed.kernel_name) == ("stale", "c.mlir.o")


def test_in_place(kdb: Path, tmp_path: Path) -> None:
    prune(kdb, PruneRules(kernels=("a.cl",)), kdb)
    assert records_of(kdb) == [B, C]
    assert [path.name for path in tmp_path.iterdir()] == [kdb.name]


def test_failure_leaves_the_original(kdb: Path, tmp_path: Path) -> None:
    before = digest(tmp_path)
    with pytest.raises(DatabaseError, match=r"Nothing of .* would be left"):
        prune_kdb(kdb, PruneRules(kernels=("*",)), kdb)
    assert digest(tmp_path) == before


def test_database_in_use(tmp_path: Path) -> None:
    db = wal_database(tmp_path / "a.ukdb", ALL)
    try:
        with pytest.raises(InputError, match="may be using it"):
            prune_kdb(tmp_path / "a.ukdb", PruneRules(), tmp_path / "a.ukdb")
        prune(tmp_path / "a.ukdb", PruneRules(kernels=("a*",)), tmp_path / "o.kdb")
    finally:
        db.close()
    assert records_of(tmp_path / "o.kdb") == [B, C]


def test_a_link_is_not_replaced_by_a_file(kdb: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.kdb"
    link.symlink_to(kdb)
    with pytest.raises(InputError, match="is a link"):
        prune_kdb(link, PruneRules(), link)


def test_output_that_exists(kdb: Path, tmp_path: Path) -> None:
    write_kdb(tmp_path / "o.kdb", [A])
    with pytest.raises(InputError, match="exists"):
        prune_kdb(kdb, PruneRules(), tmp_path / "o.kdb")
    prune(kdb, PruneRules(), tmp_path / "o.kdb", force=True)
    assert records_of(tmp_path / "o.kdb") == ALL


def test_damaged_and_repeated_records_go(tmp_path: Path) -> None:
    bad = ("d.o", " -DN=0", A.kernel_blob, "0" * 32, A.uncompressed_size)
    nameless = ("", " -DN=0", A.kernel_blob, A.kernel_hash, A.uncompressed_size)
    keyless = (b"e.o", " -DN=0", A.kernel_blob, A.kernel_hash, A.uncompressed_size)
    path = plain_database(tmp_path / "a.kdb", [A, bad, nameless, keyless, A, B])
    report = prune(path, PruneRules(), tmp_path / "o.kdb")
    assert records_of(tmp_path / "o.kdb") == [A, B]
    rules = sorted((entry.rule, entry.kernel_name) for entry in report.removed)
    assert rules == [
        ("damaged", ""), ("damaged", ""), ("damaged", "d.o"), ("duplicate", "a.cl.o"),
    ]  # fmt: skip
    with pytest.raises(DatabaseError, match="cannot be used"):
        prune_kdb(path, PruneRules(), tmp_path / "p.kdb", strict=True)
    assert not (tmp_path / "p.kdb").exists()


def test_one_key_with_different_code(tmp_path: Path) -> None:
    path = plain_database(tmp_path / "a.kdb", [A, record("a.cl", variant=1)])
    with pytest.raises(DatabaseError, match="one key and different code"):
        prune_kdb(path, PruneRules())


def test_not_a_kernel_database(tmp_path: Path) -> None:
    edit(tmp_path / "perf.kdb", "CREATE TABLE perf_db(id INTEGER)")
    with pytest.raises(DatabaseError, match="performance database"):
        prune_kdb(tmp_path / "perf.kdb", PruneRules())


def test_command(kdb: Path, tmp_path: Path) -> None:
    result = run(kdb, "--kernel", "*.mlir")
    sizes = [len(one.kernel_blob) for one in ALL]
    assert result.exit_code == 0
    assert result.stdout == (
        "kernel     c.mlir.o  -DN=0 -mcpu=gfx1030\n"
        "             its kernel file fits `*.mlir`\n"
        "3 records in = 2 kept + 1 removed (1 kernel); "
        f"{sum(sizes)} -> {sum(sizes[:2])} bytes of code\n"
        "Nothing was written; -o FILE or --in-place does it\n"
    )
    assert records_of(kdb) == ALL
    kdb.with_suffix(".manifest.json").write_text("{}")
    result = run(kdb, "--kernel", "*.mlir", "--in-place")
    assert "`gfx1030.manifest.json` is not a manifest" in result.stderr
    assert records_of(kdb) == [A, B]


def test_command_with_a_plan(kdb: Path, tmp_path: Path) -> None:
    plan, out = plan_for(tmp_path / "p.plan", A, C), tmp_path / "o.kdb"
    found = json.loads(run(kdb, "--keep-plan", plan, "-o", out, "--json").stdout)
    assert records_of(out) == [A, C]
    assert (found["records_in"], found["records_out"], found["output"]) == (3, 2, str(out))
    assert found["removed"][0]["rule"] == "plan"


def test_command_with_both_outputs(kdb: Path, tmp_path: Path) -> None:
    result = run(kdb, "-o", tmp_path / "o.kdb", "--in-place")
    assert isinstance(result.exception, KdbforgeError)
