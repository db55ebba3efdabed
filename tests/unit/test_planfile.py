"""The plan file: round trip, determinism, and refusal of anything damaged."""

from __future__ import annotations

import hashlib
import json
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdbforge.errors import HostError, InputError
from kdbforge.model.job import Action, ActionOutput, FileInput, Job
from kdbforge.model.plan import GpuPlan, Plan, PlannedRecord, ToolchainId, Unplanned, UnstableKey
from kdbforge.model.problem import Convolution
from kdbforge.planner.planfile import read_plan, write_plan

SOURCE = b"kernel void k() {}"
DIGEST = hashlib.sha256(SOURCE).hexdigest()
JOB = Job(
    (
        Action(2, 2, "gfx1030", ("-O3",), "", False, (FileInput(1, "k.cl", DIGEST),)),
        Action(9, 0, "gfx1030", (), "", False, (ActionOutput(0, 4, 0, "k.o"),)),
    ),
    ActionOutput(1, 8, 0),
)
KEY = JOB.key("f" * 64)
PLAN = Plan(
    ToolchainId("debian-7", "7", "3.5.1", "ab", "f" * 64),
    "default",
    {"MIOPEN_DEBUG_GCN_ASM_KERNELS": "0"},
    (
        Convolution("fp32", "fwd", "NCHW", 1, 3, 8, (8, 8), (3, 3), (1, 1), (1, 1), (1, 1)),
        Convolution("fp16", "wrw", "NHWC", 2, 4, 8, (8, 8), (1, 1), (0, 0), (1, 1), (1, 1), 2),
    ),
    (
        GpuPlan(
            "rx", "gfx1030", 40, "gfx1030_40", (PlannedRecord("k.cl.o", " -O3", KEY),),
            ((KEY,), ()), (Unplanned(1, "find", "status 7", "log"),), (UnstableKey("b.o", "x"),),
        ),
    ),
    {KEY: JOB},
    {DIGEST: SOURCE},
)  # fmt: skip


def test_round_trip(tmp_path: Path) -> None:
    write_plan(PLAN, tmp_path / "a.kdbplan")
    assert read_plan(tmp_path / "a.kdbplan") == PLAN


def test_equal_plans_are_equal_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_plan(PLAN, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_truncated_or_damaged_plan_is_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("plan")
    write_plan(PLAN, folder / "a")
    content = bytearray((folder / "a").read_bytes())
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    else:
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    (folder / "a").write_bytes(content)
    # Some bytes of a ZIP mean nothing (time stamps, for instance): then nothing has changed.
    with suppress(InputError):
        assert read_plan(folder / "a") == PLAN


def rewrite(path: Path, change: dict[str, object]) -> None:
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    content = {**json.loads(members["plan.json"]), **change}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {**members, "plan.json": json.dumps(content).encode()}.items():
            archive.writestr(name, data)


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 99},
        {"jobs": {}},
        {"gpus": [{}]},
        {"problems": [{"dtype": "fp32"}]},
        {"toolchain": {"name": "x"}},
        {"jobs": {"0" * 64: {"actions": [], "output": ["ActionOutput", 0, 8, 0]}}},
        {"jobs": 7},
    ],
)
def test_a_plan_that_lies_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    write_plan(PLAN, tmp_path / "a")
    rewrite(tmp_path / "a", change)
    with pytest.raises(InputError, match="is not a whole kdbforge plan"):
        read_plan(tmp_path / "a")


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(InputError):
        read_plan(tmp_path / "a")


def test_a_missing_plan_is_named(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="No such file"):
        read_plan(tmp_path / "none")


def test_nothing_is_left_behind_where_writing_fails(tmp_path: Path) -> None:
    with pytest.raises(HostError):
        write_plan(PLAN, tmp_path / "no" / "such" / "folder")
    assert not list(tmp_path.iterdir())
