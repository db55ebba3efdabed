"""Compile jobs of keys: from plans, by analogy, and never with options that are a stranger's."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from kdbforge.errors import InputError
from kdbforge.model.job import Action, ActionOutput, FileInput, Job
from kdbforge.model.plan import GpuPlan, Plan, PlannedRecord, ToolchainId
from kdbforge.model.target import TargetId
from kdbforge.model.toolchain import Toolchain
from kdbforge.planner.derive import Derivation, Way, fitting_gpus, job_target
from kdbforge.vgpu.profiles import resolve

FINGERPRINT = "f" * 64
NAVI = TargetId("gfx1030")
NAME, ARGS = "a.cl.o", " -DN=1 -O2 -mcpu=gfx1030"
KEY = (NAME, ARGS)


def job(target: str = "gfx1030", options: tuple[str, ...] = ("-DN=1", "-O2")) -> Job:
    isa = f"amdgcn-amd-amdhsa--{target}"
    first = Action(12, 2, isa, ("-first", *options, "-last"), "", False, (FileInput(1, "a", "d"),))
    second = Action(4, 2, isa, (*options, "-O3"), "", False, (ActionOutput(0, 6, 0),))
    link = Action(7, 2, isa, (), "", False, (ActionOutput(1, 7, 0),))
    return Job((first, second, link), ActionOutput(2, 8, 0))


def plan(*jobs: tuple[str, Job]) -> Plan:
    """A plan with a job for each kernel_args."""
    keys = [(args, made.key(FINGERPRINT), made) for args, made in jobs]
    records = tuple(PlannedRecord(NAME, args, key) for args, key, _ in keys)
    gpu = GpuPlan("g", "gfx1030", 40, "gfx1030_40", records, (), (), ())
    toolchain = ToolchainId("t", "1", "1", "b", FINGERPRINT)
    jobs_by_key = {key: made for _, key, made in keys}
    return Plan(toolchain, "default", {}, (), (gpu,), jobs_by_key, {"d": b"text"})


def test_jobs_from_plans() -> None:
    derivation = Derivation(NAVI, [KEY, ("b.cl.o", ARGS)], FINGERPRINT)
    derivation.take(plan((ARGS, job())), Way.PLAN)
    derived = derivation.found[KEY]
    assert (derived.job, derived.way, derived.key) == (job(), Way.PLAN, job().key(FINGERPRINT))
    assert derivation.open == {("b.cl.o", ARGS)}
    assert derivation.blobs == {"d": b"text"}
    derivation.take(plan((ARGS, job())), Way.LIBRARY)
    assert derivation.found[KEY].way is Way.PLAN


@pytest.mark.parametrize("other", ["gfx1031", "gfx1030:xnack-", "gfx90a"])
def test_a_job_for_another_target_is_none(other: str) -> None:
    derivation = Derivation(NAVI, [KEY], FINGERPRINT)
    derivation.take(plan((ARGS, job(other))), Way.LIBRARY)
    assert (derivation.open, derivation.found, derivation.by_analogy()) == ({KEY}, {}, {})


def test_target_of_a_job() -> None:
    assert job_target(job("gfx90a:sramecc+:xnack-")) == TargetId("gfx90a", True, False)
    bare = dataclasses.replace(job(), actions=(dataclasses.replace(job().actions[0], isa=""),))
    assert job_target(bare) is None


def by_analogy(wanted: str, known: str = ARGS, made: Job | None = None) -> Job | None:
    derivation = Derivation(NAVI, [(NAME, wanted)], FINGERPRINT)
    derivation.take(plan((known, made or job())), Way.LIBRARY)
    found = derivation.by_analogy().get((NAME, wanted))
    assert found is None or found.key == found.job.key(FINGERPRINT)
    return found.job if found else None


def test_by_analogy() -> None:
    found = by_analogy("-DN=2  -DM=f(x) -O2 -UK -mcpu=gfx1030")
    assert found == job(options=("-DN=2", "-DM=f(x)", "-O2", "-UK"))


@pytest.mark.parametrize(
    "wanted",
    [
        " -DN=1 -fplugin=evil.so -mcpu=gfx1030",
        " -DN=1 -include /etc/shadow -mcpu=gfx1030",
        " -DN=1 -O3 -mcpu=gfx1030",
        " @options -mcpu=gfx1030",
        " -D N=1 -mcpu=gfx1030",
        ' -DN="1" -mcpu=gfx1030',
        " -DN=`x` -mcpu=gfx1030",
        " -DN=1 -mcpu=gfx1031",
        " -DN=1",
        "",
    ],
)
def test_what_is_not_derived_by_analogy(wanted: str) -> None:
    assert by_analogy(wanted) is None


def test_no_analogy_without_the_known_options() -> None:
    odd = job(options=("-DN=1", "-x", "-O2"))
    assert by_analogy(" -DN=2 -O2 -mcpu=gfx1030", made=odd) is None
    assert by_analogy(" -DN=2 -mcpu=gfx1030", known=" -mcpu=gfx1030") is None


def test_settled_by_an_equal_result() -> None:
    wanted = (NAME, " -DN=7 -mcpu=gfx1030")
    derivation = Derivation(NAVI, [wanted], FINGERPRINT)
    derivation.take(plan((ARGS, job())), Way.LIBRARY)
    assert derivation.open == {wanted}
    offered = derivation.by_analogy()
    assert derivation.by_analogy() == {}  # once
    derivation.settle(wanted, offered[wanted])
    assert (derivation.open, derivation.found[wanted].way) == (set(), Way.ANALOGY)


@pytest.fixture
def toolchain(tmp_path: Path) -> Toolchain:
    """One that has a find-db for some CU counts."""
    for name in ("gfx1030_36", "gfx90a68"):
        (tmp_path / f"{name}.HIP.fdb.txt").touch()
    return Toolchain(
        "t", "installed", "1", "1", "b", FINGERPRINT, tmp_path, (), None, tmp_path, None, tmp_path,
        (), (), (), asm_kernels=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("target", "basename", "gpu", "expected"),
    [
        ("gfx1030", "gfx1030_40", None, ["gfx1030/40"]),
        ("gfx1030", "friend", "gfx1030_30", ["gfx1030/30"]),
        ("gfx1030", "gfx1030_40", "gfx1030_30", ["gfx1030/30"]),
        ("gfx90a:sramecc+:xnack-", "gfx90a68", None, ["gfx90a:sramecc+:xnack-/104"]),
        ("gfx90a:xnack+", "gfx90a_xnack6e", None, ["gfx90a:xnack+/110"]),
    ],
)
def test_fitting_gpus(
    toolchain: Toolchain, target: str, basename: str, gpu: str | None, expected: list[str]
) -> None:
    found = fitting_gpus(toolchain, TargetId.parse(target), basename, resolve(gpu) if gpu else None)
    assert [str(one) for one in found] == expected


@pytest.mark.parametrize("basename", ["gfx1030", "friend", "gfx906_60"])
def test_every_cu_count_that_makes_a_difference(toolchain: Toolchain, basename: str) -> None:
    """One with each find-db, and one for all others."""
    first, second = fitting_gpus(toolchain, NAVI, basename, None)
    assert (first.num_cu, second.num_cu != 36) == (36, True)


def test_no_such_gpu(toolchain: Toolchain) -> None:
    with pytest.raises(InputError, match="There is no device profile for `gfx941`"):
        fitting_gpus(toolchain, TargetId("gfx941"), "gfx941", None)
    with pytest.raises(InputError, match="has no feature `xnack`"):
        fitting_gpus(toolchain, TargetId("gfx1030", xnack=True), "gfx1030_40", None)
