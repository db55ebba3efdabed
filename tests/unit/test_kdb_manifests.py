"""Databases that are made from databases say what of, and install as far as that is known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from databases import record, wal_database
from installing import BUILD_ID, digest, library

from kdbforge.cli.main import cli
from kdbforge.errors import InputError
from kdbforge.kdb.record import Record
from kdbforge.kdb.writer import write_kdb
from kdbforge.package.bundle import collect_bundles
from kdbforge.package.checked import check_kdb
from kdbforge.package.derived import check_place
from kdbforge.package.manifest import manifest_path, read_manifest

ASM = {"MIOPEN_DEBUG_GCN_ASM_KERNELS": "0"}
ONE, TWO, THREE = (record("a.cl", number) for number in (1, 2, 3))


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, ["kdb", *map(str, words)])


def described(path: Path, records: Sequence[Record], **changes: Any) -> Path:
    """A database with the manifest that a build writes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_kdb(path, records)
    arch, _, num_cu = path.stem.partition("_")
    gpu = {"requested": path.stem, "target": arch, "num_cu": int(num_cu or 40),
           "basename": f"{arch}_{num_cu or 40}", "records": 1, "unplanned": [],
           "unstable": []}  # fmt: skip
    content = {
        "schema": 1,
        "toolchain": {"name": "t", "version": "7.2.4", "miopen_version": "3.5.1",
                      "build_id": BUILD_ID, "fingerprint": "cd" * 32},
        "policy": "default",
        "problems": {"count": 5, "sha256": "0" * 64},
        "environment": ASM,
        "files": [{"name": path.name, "records": len(records), "sha256": digest(path),
                   "size": path.stat().st_size}],
        "gpus": [gpu],
        "proofs": [{"gpu": "g", "problems": 5, "hits": 1, "misses": 0, "errors": 0}],
        "missing": [],
        **changes,
    }  # fmt: skip
    manifest_path(path).write_text(json.dumps(content))
    return path


def toolchain(**changes: str) -> dict[str, Any]:
    values = {"name": "t", "version": "7.2.4", "miopen_version": "3.5.1", "build_id": BUILD_ID,
              "fingerprint": "cd" * 32}  # fmt: skip
    return {"toolchain": {**values, **changes}}


def test_merged_databases_of_one_toolchain_install_without_force(tmp_path: Path) -> None:
    first = described(tmp_path / "1/gfx1030_36.kdb", [ONE, TWO])
    second = described(tmp_path / "2/gfx1030_40.kdb", [TWO, THREE], **toolchain(name="other"))
    out = tmp_path / "gfx1030.kdb"
    done = run("merge", out, first, second)
    assert (done.exit_code, done.stderr) == (0, "")
    checked = check_kdb(out, library(tmp_path))
    assert (checked.records, checked.generic, checked.warnings) == (3, True, ())
    assert checked.environment == ASM
    assert sorted(gpu.num_cu for gpu in checked.gpus) == [36, 40]
    content = json.loads(manifest_path(out).read_text())
    assert content["derived"] == {
        "by": "merge",
        "inputs": [
            {"name": path.name, "sha256": digest(path), "size": path.stat().st_size}
            for path in (first, second)
        ],
        "doubts": [],
    }
    assert content["problems"] == {"count": 5, "sha256": "0" * 64}
    assert content["proofs"] == []
    assert str(tmp_path) not in manifest_path(out).read_text()
    # In the other order, with the same bytes; and so does the manifest of the result.
    again = tmp_path / "3/gfx1030.kdb"
    again.parent.mkdir()
    run("merge", again, second, first)
    assert manifest_path(again).read_bytes() == manifest_path(out).read_bytes()
    (bundle,) = collect_bundles(again.parent)
    assert bundle.environment == ASM


def test_merging_with_an_unknown_database_says_why_it_needs_force(tmp_path: Path) -> None:
    first = described(tmp_path / "1/gfx1030_40.kdb", [ONE])
    user = tmp_path / "gfx1030_40.ukdb"
    out = tmp_path / "gfx1030.kdb"
    connection = wal_database(user, [TWO])
    done = run("merge", out, first, user)
    assert done.exit_code == 0
    assert "`gfx1030_40.ukdb` has no manifest" in done.stderr
    assert "will want --force" in done.stderr
    with pytest.raises(InputError, match="has no manifest") as caught:
        check_kdb(out, library(tmp_path))
    assert "`gfx1030_40.ukdb`" in caught.value.message
    assert "--manifest-from" in str(caught.value.hint)
    assert "FORCED" in check_kdb(out, library(tmp_path), force=True).warnings[0]
    with pytest.raises(InputError, match="not known for which libMIOpen"):
        collect_bundles(tmp_path)
    # What is unknown stays so, however often it is merged.
    more = tmp_path / "more.kdb"
    assert "`gfx1030_40.ukdb` has no manifest" in run("merge", more, out, first).stderr
    assert read_manifest(manifest_path(more)).toolchain is None
    # The user may know better.
    done = run("merge", out, first, user, "--force", "--manifest-from", first)
    assert (done.exit_code, done.stderr) == (0, "")
    assert check_kdb(out, library(tmp_path)).records == 2
    manifest = run("merge", out, user, "--force", "--manifest-from", manifest_path(first))
    assert manifest.stderr == ""
    assert check_kdb(out, library(tmp_path)).environment == ASM
    assert isinstance(
        run("merge", out, first, "--force", "--manifest-from", more).exception, InputError
    )
    connection.close()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (toolchain(build_id="ef" * 20), "different toolchains"),
        (toolchain(fingerprint="ef" * 32), "different toolchains"),
        ({"environment": {"MIOPEN_DEBUG_GCN_ASM_KERNELS": "1"}}, "different values of MIOPEN_"),
        ({"files": []}, "`gfx1030_40.kdb` has no manifest"),
        (
            {"files": [{"name": "gfx1030_40.kdb", "records": 1, "sha256": "0" * 64, "size": 1}]},
            "is not the file that its manifest describes",
        ),
        ({"schema": 9}, "is not a manifest of kdbforge that can be read"),
    ],
)
def test_a_toolchain_is_only_named_if_all_inputs_agree(
    tmp_path: Path, changes: dict[str, Any], text: str
) -> None:
    first = described(tmp_path / "1/gfx1030_36.kdb", [ONE])
    second = described(tmp_path / "2/gfx1030_40.kdb", [TWO], **changes)
    out = tmp_path / "gfx1030.kdb"
    done = run("merge", out, first, second)
    assert done.exit_code == 0
    found = read_manifest(manifest_path(out))
    assert found.toolchain is None
    assert text in " ".join(found.doubts)
    with pytest.raises(InputError, match="not known for which libMIOpen"):
        check_kdb(out, library(tmp_path))


def test_an_input_that_was_left_out_is_not_in_the_manifest(tmp_path: Path) -> None:
    first = described(tmp_path / "1/gfx1030_36.kdb", [ONE])
    (tmp_path / "bad.kdb").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    assert run("merge", tmp_path / "out.kdb", first, tmp_path / "bad.kdb").exit_code == 1
    content = json.loads(manifest_path(tmp_path / "out.kdb").read_text())
    assert [entry["name"] for entry in content["derived"]["inputs"]] == ["gfx1030_36.kdb"]
    assert content["toolchain"]["build_id"] == BUILD_ID


def test_what_one_input_lacks_another_may_have(tmp_path: Path) -> None:
    lacks = [{"kernel_name": r.kernel_name, "kernel_args": r.kernel_args} for r in (TWO, THREE)]
    first = described(tmp_path / "1/gfx1030_36.kdb", [ONE], missing=lacks)
    second = described(tmp_path / "2/gfx1030_40.kdb", [TWO])
    run("merge", tmp_path / "gfx1030.kdb", first, second)
    content = json.loads(manifest_path(tmp_path / "gfx1030.kdb").read_text())
    assert content["missing"] == lacks[1:]


def test_pruned_in_place(tmp_path: Path) -> None:
    path = described(tmp_path / "gfx1030_40.kdb", [ONE, record("b.cl")])
    before = digest(path)
    manifest_path(path).with_name("gfx1030_40.manifest.json.sig").write_text("x")
    done = run("prune", path, "--kernel", "b.cl", "--in-place")
    assert done.exit_code == 0
    assert "sign it again" in done.stderr
    assert check_kdb(path, library(tmp_path)).records == 1
    found = read_manifest(manifest_path(path))
    assert (found.derived_by, found.proven) == ("prune", None)
    content = json.loads(manifest_path(path).read_text())
    assert content["derived"]["inputs"][0]["sha256"] == before
    assert run("verify", path, "--manifest").exit_code == 0


def test_a_manifest_stays_as_it_is_where_nothing_was_pruned(tmp_path: Path) -> None:
    path = described(tmp_path / "gfx1030_40.kdb", [ONE])
    before = {entry: entry.read_bytes() for entry in tmp_path.iterdir()}
    assert run("prune", path, "--kernel", "b.cl", "--in-place").exit_code == 0
    assert {entry: entry.read_bytes() for entry in tmp_path.iterdir()} == before


def test_nothing_is_written_where_nothing_is_pruned(tmp_path: Path) -> None:
    path = described(tmp_path / "gfx1030_40.kdb", [ONE, record("b.cl")])
    before = {entry: entry.read_bytes() for entry in tmp_path.iterdir()}
    assert run("prune", path, "--kernel", "b.cl").exit_code == 0
    assert {entry: entry.read_bytes() for entry in tmp_path.iterdir()} == before


def test_split_parts_name_the_gpus_that_load_them(tmp_path: Path) -> None:
    gpus = [
        {"requested": t, "target": t, "num_cu": 104, "basename": b, "records": 1}
        for t, b in (("gfx90a:xnack+", "gfx90a_xnack68"), ("gfx90a:xnack-", "gfx90a68"))
    ]
    rows = [record("a.cl", 1, "gfx90a", xnack=True), record("a.cl", 2, "gfx90a", xnack=False)]
    whole = described(tmp_path / "all_1.kdb", rows, gpus=gpus)
    assert run("split", whole, "-o", tmp_path / "parts").exit_code == 0
    for name, target in (("gfx90a_xnack", "gfx90a:xnack+"), ("gfx90a", "gfx90a:xnack-")):
        part = tmp_path / "parts" / f"{name}.kdb"
        assert [gpu.target for gpu in read_manifest(manifest_path(part)).gpus] == [target]
        assert check_kdb(part, library(tmp_path)).records == 1


def test_a_manifest_of_something_else_is_not_overwritten(tmp_path: Path) -> None:
    first = described(tmp_path / "1/gfx1030_36.kdb", [ONE])
    other = manifest_path(tmp_path / "gfx1030.kdb")
    other.write_text("mine")
    assert isinstance(run("merge", tmp_path / "gfx1030.kdb", first).exception, InputError)
    assert not (tmp_path / "gfx1030.kdb").exists()
    assert other.read_text() == "mine"
    check_place(tmp_path / "gfx1030.kdb", force=True)
    check_place(tmp_path / "gfx1030.ukdb")  # gets none
    assert run("merge", tmp_path / "gfx1030.ukdb", first).exit_code == 0
    assert other.read_text() == "mine"


def test_odd_names(tmp_path: Path) -> None:
    write_kdb(tmp_path / "a\nb\x1b.kdb", [ONE])
    assert run("merge", tmp_path / "out.kdb", tmp_path / "a\nb\x1b.kdb").exit_code == 0
    found = read_manifest(manifest_path(tmp_path / "out.kdb"))
    assert found.doubts == ("`a?b?.kdb` has no manifest",)
    assert run("merge", tmp_path / "o\n.kdb", tmp_path / "out.kdb").exit_code == 0
    assert not manifest_path(tmp_path / "o\n.kdb").exists()  # which could not be read
