"""User databases that libMIOpen wrote become one system database in which it finds everything."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from small import SMALL

from kdbforge import Toolchain, find_gpu, prove
from kdbforge.kdb.diff import diff_kdbs
from kdbforge.kdb.merge import MergeInput, merge_kdbs
from kdbforge.kdb.prune import PruneRules, prune_kdb
from kdbforge.kdb.reader import read_kdb
from kdbforge.kdb.record import Record
from kdbforge.kdb.split import split_kdb
from kdbforge.kdb.writer import write_kdb
from kdbforge.miopen.replay import ReplayOptions, replay
from kdbforge.miopen.systemdb import link_system_db
from kdbforge.model.policy import find_policy
from kdbforge.problems import ProblemList, load
from kdbforge.vgpu.process import CompileMode

GPU = "gfx906_60"  # compiles fastest


def one_problem(number: int, folder: Path) -> ProblemList:
    folder.mkdir()
    path = folder / "problem.txt"
    path.write_text(SMALL.splitlines()[number] + "\n")
    return load([str(path)])


@pytest.fixture(scope="module")
def machines(
    toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory
) -> tuple[tuple[Path, ProblemList], ...]:
    """The caches of two machines, on each of which MIOpen compiled for one problem itself."""
    policy, found = find_policy("default"), []
    for number in (0, 1):
        folder = tmp_path_factory.mktemp("machine")
        problems = one_problem(number, folder / "in")
        options = ReplayOptions(
            CompileMode.PASS, policy.calls, link_system_db(toolchain, folder / "db"),
            policy.environment,
        )  # fmt: skip
        result = replay(toolchain, find_gpu(GPU), problems.problems, options, folder / "run")
        assert not [outcome for outcome in result.outcomes if outcome.error]
        (database,) = result.databases
        found.append((database, problems))
    return tuple(found)


@pytest.fixture(scope="module")
def merged(
    machines: tuple[tuple[Path, ProblemList], ...], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    paths = [path for path, _ in machines]
    before = [hashlib.sha256(path.read_bytes()).digest() for path in paths]
    out = tmp_path_factory.mktemp("merged") / f"{paths[0].stem}.kdb"
    report = merge_kdbs(out, [MergeInput(path) for path in paths])
    assert report.complete
    assert report.rows_in == report.rows_out + report.same
    assert [hashlib.sha256(path.read_bytes()).digest() for path in paths] == before
    return out


def test_libmiopen_finds_everything(
    toolchain: Toolchain,
    machines: tuple[tuple[Path, ProblemList], ...],
    merged: Path,
    tmp_path: Path,
) -> None:
    """ROCm/MIOpen#3322, #186: what users compiled can be shared."""
    for _, problems in machines:
        (proof,) = prove([merged], problems, [GPU], toolchain=toolchain)
        assert (proof.misses, proof.errors) == ((), ())
        assert proof.hits
    # It is the other machine's records that make the difference.
    alone = tmp_path / merged.name
    merge_kdbs(alone, [MergeInput(machines[0][0])])
    (proof,) = prove([alone], machines[1][1], [GPU], toolchain=toolchain)
    assert proof.misses


def test_parts_of_real_databases(
    machines: tuple[tuple[Path, ProblemList], ...], merged: Path, tmp_path: Path
) -> None:
    (part,) = split_kdb(merged, tmp_path).parts
    assert part.path.name == "gfx906.kdb"
    assert part.path.read_bytes() == merged.read_bytes()
    for path, _ in machines:
        found = diff_kdbs(path, merged)
        assert (found.lost, found.changed) == ((), ())


def test_stale_by_the_real_library(toolchain: Toolchain, merged: Path, tmp_path: Path) -> None:
    """MIOpen PR #2293: the library's own records stay, those of kernels it dropped go."""
    records = list(read_kdb(merged))
    dropped = Record.pack("MIOpenNoSuchKernel.mlir.o", " --x", records[0].unpack())
    write_kdb(tmp_path / "old.kdb", [*records, dropped])
    report = prune_kdb(
        tmp_path / "old.kdb", PruneRules(library=toolchain.libmiopen), tmp_path / "new.kdb"
    )
    assert [entry.kernel_name for entry in report.removed] == [dropped.kernel_name]
    assert (tmp_path / "new.kdb").read_bytes() == merged.read_bytes()
