"""The commands of the main flow one after the other, as a user would type them."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

import pytest
from small import SMALL, Run

import kdbforge as kf
from kdbforge.kdb.reader import read_kdb
from kdbforge.planner.planfile import read_plan

GPU = ("--gpu", "gfx906_60")


def test_plan_then_compile_then_build_compiles_once(
    kdbforge: Run, tmp_path: Path, small: Path
) -> None:
    path = tmp_path / "small.kdbplan"
    planned = kdbforge("plan", small, *GPU, "-o", path, "--json")
    assert planned.returncode == 0, planned.stderr
    summary = json.loads(planned.stdout)
    assert (summary["jobs"], summary["estimate"]["in_store"]) == (3, 0)
    assert "3 jobs, 0 of them in the store; about " in planned.stderr
    assert len(read_plan(path).jobs) == 3
    compiled = kdbforge("compile", path, "-j1")
    assert compiled.returncode == 0, compiled.stderr
    assert compiled.stdout == ""
    assert "3 jobs compiled in " in compiled.stderr
    again = kdbforge("plan", small, *GPU)
    assert "3 jobs, 3 of them in the store\n" in again.stderr
    built = kdbforge("build", small, *GPU, "-o", tmp_path / "out", "--json")
    assert built.returncode == 0, built.stderr
    report = json.loads(built.stdout)
    assert (report["compile"]["found"], report["compile"]["compiled"]) == (3, 0)
    assert report["complete"]
    assert report["databases"][0]["path"] == str(tmp_path / "out" / "gfx906_60.kdb")


def test_equal_plans_are_equal_files(kdbforge: Run, tmp_path: Path, small: Path) -> None:
    for name, jobs in (("a", "1"), ("b", "2")):
        assert kdbforge("plan", small, *GPU, "-o", tmp_path / name, "-j", jobs).returncode == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_quiet_says_nothing(kdbforge: Run, tmp_path: Path, small: Path, shared_store: Path) -> None:
    for args in (
        ("-q", "build", small, *GPU, "-o", tmp_path / "out", "--store", shared_store),
        ("--store", shared_store, "build", small, *GPU, "-o", tmp_path / "out", "-q"),
        ("plan", "-q", small, "--gpu", "gfx90a_104", "-o", tmp_path / "plan"),
        ("prove", tmp_path / "out" / "gfx906_60.kdb", small, *GPU, "--quiet"),
    ):
        done = kdbforge(*args)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (tmp_path / "store").exists()


def test_quiet_errors_are_still_said(kdbforge: Run, small: Path) -> None:
    done = kdbforge("plan", "-q", small, "--gpu", "gfx9999")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")


def test_problems_from_standard_input(kdbforge: Run, tmp_path: Path, shared_store: Path) -> None:
    done = kdbforge(
        "--store", shared_store, "build", "-", *GPU, "-o", tmp_path / "out", stdin=None, input=SMALL
    )
    assert done.returncode == 0, done.stderr


def test_a_build_may_be_unproven(
    kdbforge: Run, tmp_path: Path, small: Path, shared_store: Path
) -> None:
    done = kdbforge(
        "--store", shared_store, "build", small, *GPU, "-o", tmp_path / "out", "--no-prove"
    )
    assert done.returncode == 0, done.stderr
    assert " proven: " not in done.stderr
    manifest = json.loads((tmp_path / "out" / "gfx906_60.manifest.json").read_text())
    assert manifest["proofs"] == []


def test_the_manifest_says_what_the_user_needs(
    toolchain: kf.Toolchain, kdbforge: Run, tmp_path: Path, small: Path, shared_store: Path
) -> None:
    done = kdbforge("--store", shared_store, "build", small, *GPU, "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "out" / "gfx906_60.manifest.json").read_text()
    manifest = json.loads(text)
    assert manifest["toolchain"]["build_id"] == toolchain.build_id
    assert manifest["toolchain"]["fingerprint"] == toolchain.fingerprint
    assert manifest["problems"]["count"] == 3
    assert manifest["environment"] == (
        {} if toolchain.asm_kernels else {"MIOPEN_DEBUG_GCN_ASM_KERNELS": "0"}
    )
    for name in manifest["environment"]:
        assert f"The user must set {name}=" in done.stderr
    for place in (str(tmp_path), os.uname().nodename):
        assert place not in text


def test_a_failed_job_is_partial_and_is_tried_again(kdbforge: Run, tmp_path: Path) -> None:
    source, output = tmp_path / "one.txt", tmp_path / "out"
    source.write_text(SMALL.splitlines()[0])
    build = ("build", source, "--gpu", "gfx1030_36", "-o", output, "--json")
    # naive_conv.cpp takes five seconds and more. The other kernel takes one, or, on a busy machine,
    # longer than the limit, too.
    done = kdbforge(*build, "--timeout", "2")
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert not report["complete"]
    failures = {failure["kernel_file"]: failure for failure in report["compile"]["failures"]}
    failure = failures["naive_conv.cpp"]
    assert {entry["reason"] for entry in failures.values()} == {"timeout"}
    assert f"kdbforge log {failure['key'][:16]}\n" in done.stderr
    assert "gfx1030/36 not proven: 1 problems" in done.stderr
    manifest = json.loads((output / "gfx1030_36.manifest.json").read_text())
    missing = {record["kernel_name"] for record in manifest["missing"]}
    assert missing == {f"{file}.o" for file in failures}
    log = kdbforge("log", failure["key"][:16])
    assert (log.returncode, log.stderr) == (0, "")
    assert log.stdout.startswith("timeout\n")
    done = kdbforge(*build)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)["compile"]
    done_before = 2 - len(failures)
    assert (report["found"], report["compiled"]) == (done_before, len(failures))
    assert report["failures"] == []
    assert kdbforge("log", failure["key"][:16]).stdout == "(the compiler said nothing)\n"


def test_a_build_replaces_an_earlier_one(
    kdbforge: Run, tmp_path: Path, small: Path, shared_store: Path
) -> None:
    output = tmp_path / "out"
    output.mkdir()
    (output / "gfx906_60.kdb").write_text("old")
    (output / "notes.txt").write_text("the user's own")
    done = kdbforge("--store", shared_store, "build", small, *GPU, "-o", output)
    assert done.returncode == 0, done.stderr
    assert len(list(read_kdb(output / "gfx906_60.kdb"))) == 3
    assert (output / "notes.txt").read_text() == "the user's own"


def test_python_api(toolchain: kf.Toolchain, tmp_path: Path, small: Path) -> None:
    from kdbforge import BuildOptions, Gpu, Toolchain, build, find_gpu, plan, prove

    gpu: Gpu = find_gpu("gfx906_60")
    assert (str(gpu.target), gpu.num_cu) == ("gfx906", 60)
    assert isinstance(toolchain, Toolchain)
    made = plan([str(small)], [gpu])
    assert [record.kernel_name for record in made.gpus[0].records] == [
        "MIOpenCol2Im2d.cpp.o",
        "MIOpenIm2d2Col.cpp.o",
        "MIOpenSubTensorOpWithScalarKernel.cl.o",
    ]
    report = build(
        [str(small)], [gpu, "gfx906_60"], tmp_path / "out",
        store=tmp_path / "store", options=BuildOptions(kf.POLICIES["default"], workers=2),
    )  # fmt: skip
    assert report.complete
    (database,) = report.databases
    with sqlite3.connect(database.path) as kdb:
        assert kdb.execute("SELECT count(*) FROM kern_db").fetchone() == (database.records,)
    (proof,) = prove([database.path], [str(small)], [gpu], toolchain=toolchain)
    assert proof.proven
    with pytest.raises(kf.KdbforgeError) as caught:
        build(["suite:resnet51"], [gpu], tmp_path / "out")
    assert "resnet51" in caught.value.message
    assert caught.value.hint
