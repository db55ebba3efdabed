"""Proofs on the real library: nothing left to compile, and every way in which one must fail."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from small import Run

from kdbforge import BuildOptions, Toolchain, build, find_gpu, prove
from kdbforge.kdb.reader import read_kdb
from kdbforge.model.policy import POLICIES, find_policy
from kdbforge.vgpu.profiles import expected_basename


@pytest.mark.parametrize("policy", POLICIES)
def test_a_database_per_architecture_serves_every_cu_count(
    toolchain: Toolchain, shared_store: Path, tmp_path: Path, small: Path, policy: str
) -> None:
    options = BuildOptions(find_policy(policy), per_arch=True)
    report = build(
        [str(small)],
        ["gfx906_60"],
        tmp_path / "out",
        toolchain=toolchain,
        store=shared_store,
        options=options,
    )
    assert [database.path.name for database in report.databases] == ["gfx906.kdb"]
    assert {"gfx906/60", "gfx906/64"} < {proof.gpu for proof in report.proofs}
    assert report.complete
    kdb = report.databases[0].path
    # 60 is what was asked for, 64 has a find-db as well, and of 17 nobody has heard.
    proofs = prove(
        [kdb],
        [str(small)],
        ["gfx906_60", "gfx906_64", "gfx906_17"],
        toolchain=toolchain,
        policy=policy,
        work_dir=tmp_path,
    )
    assert [proof.gpu for proof in proofs] == ["gfx906/60", "gfx906/64", "gfx906/17"]
    for proof in proofs:
        assert (proof.misses, proof.errors) == ((), ())
        assert proof.hits > 0
        assert proof.policy == policy
    manifest = json.loads(kdb.with_suffix(".manifest.json").read_text())
    assert [entry["num_cu"] for entry in manifest["gpus"]][:2] == [60, 64]
    assert all(not entry["misses"] and not entry["errors"] for entry in manifest["proofs"])


@pytest.fixture
def kdb(toolchain: Toolchain, shared_store: Path, tmp_path: Path, small: Path) -> Path:
    """A database for gfx906_60 that can be proven."""
    report = build(
        [str(small)], ["gfx906_60"], tmp_path / "out", toolchain=toolchain, store=shared_store
    )
    assert report.complete
    return report.databases[0].path


@pytest.fixture
def proof_of(kdbforge: Run, kdb: Path, small: Path) -> Callable[..., tuple[int, dict[str, object]]]:
    """Exit code and JSON of `kdbforge prove` on gfx906_60."""

    def run(*args: str) -> tuple[int, dict[str, object]]:
        done = kdbforge("prove", kdb, small, "--gpu", "gfx906_60", "--json", *args)
        (proof,) = json.loads(done.stdout)
        return done.returncode, proof

    return run


Prove = Callable[..., tuple[int, dict[str, object]]]


def change(kdb: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(kdb)) as database, database:
        assert database.execute(statement, values).rowcount == 1


def test_the_whole_database_is_proven(kdb: Path, proof_of: Prove) -> None:
    code, proof = proof_of()
    assert (code, proof["misses"], proof["errors"]) == (0, [], [])


def test_a_missing_record_is_a_miss_that_names_its_kernel(kdb: Path, proof_of: Prove) -> None:
    change(kdb, "DELETE FROM kern_db WHERE kernel_name = 'MIOpenCol2Im2d.cpp.o'")
    code, proof = proof_of()
    assert code == 1
    assert proof["errors"] == []
    misses = proof["misses"]
    assert isinstance(misses, list)
    assert {miss["kernel_file"] for miss in misses} == {"MIOpenCol2Im2d.cpp"}
    # The second problem is the only one that needs it.
    assert {miss["problem"].split()[1] for miss in misses} == {"convfp16"}


def test_a_record_of_other_options_is_a_miss(kdb: Path, proof_of: Prove) -> None:
    change(
        kdb,
        "UPDATE kern_db SET kernel_args = kernel_args || ' ' WHERE kernel_name = ?",
        "MIOpenSubTensorOpWithScalarKernel.cl.o",
    )
    code, proof = proof_of()
    assert code == 1
    misses = proof["misses"]
    assert isinstance(misses, list)
    assert {m["kernel_file"] for m in misses} == {"MIOpenSubTensorOpWithScalarKernel.cl"}


def test_a_wrong_md5_is_an_error(kdb: Path, proof_of: Prove) -> None:
    change(
        kdb,
        "UPDATE kern_db SET kernel_hash = ? WHERE kernel_name = 'MIOpenCol2Im2d.cpp.o'",
        "0" * 32,
    )
    code, proof = proof_of()
    assert code == 1
    errors = proof["errors"]
    assert isinstance(errors, list)
    assert errors
    assert all("convfp16" in error for error in errors)


def test_the_object_of_another_architecture_is_an_error(
    toolchain: Toolchain,
    shared_store: Path,
    tmp_path: Path,
    small: Path,
    kdb: Path,
    proof_of: Prove,
) -> None:
    other = build(
        [str(small)], ["gfx1030_36"], tmp_path / "other", toolchain=toolchain, store=shared_store
    )
    foreign = {record.kernel_name: record for record in read_kdb(other.databases[0].path)}
    record = foreign["MIOpenCol2Im2d.cpp.o"]
    change(
        kdb,
        "UPDATE kern_db SET kernel_blob = ?, kernel_hash = ?, uncompressed_size = ?"
        " WHERE kernel_name = ?",
        record.kernel_blob,
        record.kernel_hash,
        record.uncompressed_size,
        record.kernel_name,
    )
    code, proof = proof_of()
    assert code == 1
    errors = proof["errors"]
    assert isinstance(errors, list)
    assert errors
    assert all("convfp16" in error for error in errors)


def test_a_database_under_another_name_is_not_found(
    kdbforge: Run, kdb: Path, small: Path, tmp_path: Path
) -> None:
    misnamed = tmp_path / "gfx906_64.kdb"
    shutil.copy(kdb, misnamed)
    done = kdbforge("prove", misnamed, small, "--gpu", "gfx906_60", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)[0]["hits"] == 0
    assert "not proven" in done.stderr


def test_a_git_lfs_pointer_was_only_many_misses(kdbforge: Run, small: Path, tmp_path: Path) -> None:
    pointer = tmp_path / "gfx906_60.kdb"
    pointer.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    done = kdbforge("prove", pointer, small, "--gpu", "gfx906_60")
    assert done.returncode == 1
    assert f"`{pointer}` is a Git LFS pointer" in done.stderr
    missing = kdbforge("prove", tmp_path / "none.kdb", small, "--gpu", "gfx906_60")
    assert missing.returncode == 2
    assert "No such file" in missing.stderr


def test_the_library_has_the_last_word_on_names(kdb: Path) -> None:
    assert kdb.stem == expected_basename(find_gpu("gfx906_60"))
