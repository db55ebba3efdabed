"""Records that kdbforge assembles, against those that libMIOpen writes when it compiles itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdbforge import BuildOptions, Toolchain, build, find_gpu
from kdbforge.kdb.reader import read_kdb, read_ukdb_rows
from kdbforge.kdb.record import Record
from kdbforge.miopen.replay import ReplayOptions, replay
from kdbforge.miopen.systemdb import link_system_db
from kdbforge.model.policy import Policy, find_policy
from kdbforge.problems import ProblemList, load
from kdbforge.vgpu.process import CompileMode

#: GPU, name that the library gives to its database, problems of the small file to run.
GPUS = [
    ("gfx1030_36", "gfx1030_36", (0, 1, 2)),
    ("gfx906_60", "gfx906_60", (0, 1, 2)),
    ("gfx90a_104", "gfx90a68", (1,)),  # the others take it half a minute
]


def some_lines(source: Path, numbers: tuple[int, ...]) -> ProblemList:
    lines = source.read_text().splitlines()
    part = source.with_name("part.txt")
    part.write_text("".join(f"{lines[number]}\n" for number in numbers))
    return load([str(part)])


def written_by_libmiopen(
    toolchain: Toolchain, gpu: str, problems: ProblemList, policy: Policy, folder: Path
) -> tuple[str, list[Record]]:
    """Name of the user database and its records, compiled within the library."""
    system_db = link_system_db(toolchain, folder / "system-db")
    options = ReplayOptions(CompileMode.PASS, policy.calls, system_db, policy.environment)
    result = replay(toolchain, find_gpu(gpu), problems.problems, options, folder / "run")
    assert not [outcome for outcome in result.outcomes if outcome.error]
    (database,) = result.databases
    return database.stem, sorted(read_ukdb_rows(database), key=lambda record: record.key)


@pytest.mark.parametrize("policy", ["default", "normal"])
@pytest.mark.parametrize(("gpu", "basename", "numbers"), GPUS)
def test_records_are_equal_in_every_column(
    toolchain: Toolchain,
    shared_store: Path,
    tmp_path: Path,
    small: Path,
    gpu: str,
    basename: str,
    numbers: tuple[int, ...],
    policy: str,
) -> None:
    problems, used = some_lines(small, numbers), find_policy(policy)
    name, theirs = written_by_libmiopen(toolchain, gpu, problems, used, tmp_path / "theirs")
    report = build(
        problems,
        [gpu],
        tmp_path / "out",
        toolchain=toolchain,
        store=shared_store,
        options=BuildOptions(used),
    )
    (database,) = report.databases
    assert database.path.name == f"{basename}.kdb" == f"{name}.kdb"
    assert len(theirs) >= 2
    assert list(read_kdb(database.path)) == theirs
    (proof,) = report.proofs
    assert (proof.misses, proof.errors, proof.unplannable) == ((), (), 0)
    assert proof.hits >= len(theirs)
