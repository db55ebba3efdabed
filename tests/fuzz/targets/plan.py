"""Plan files: what is read is whole and of the right types, and is written back as it was."""

from __future__ import annotations

import dataclasses
import io
import json
import random
import zipfile
from contextlib import suppress
from typing import Any

from fuzz.scratch import empty_folder
from fuzz.trees import change
from kdbforge.errors import InputError
from kdbforge.model.job import Action, ActionOutput, FileInput, Job
from kdbforge.model.plan import Plan
from kdbforge.planner.planfile import read_plan, write_plan
from kdbforge.problems.driver import driver_line

TOKENS = (b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"plan.json", b"blobs/", b'"schema": 1')


def target(data: bytes) -> None:
    folder = empty_folder()
    path, again = folder / "a.plan", folder / "b.plan"
    path.write_bytes(data)
    try:
        plan = read_plan(path)
    except InputError:
        return
    _use(plan)
    write_plan(plan, again)
    assert read_plan(again) == plan
    written = again.read_bytes()
    write_plan(plan, again)
    assert again.read_bytes() == written


def _use(plan: Plan) -> None:
    """Do what compiling and assembling do with a plan."""
    for problem in plan.problems:
        driver_line(problem)
    for job in plan.jobs.values():
        assert isinstance(job.kernel_file, str)
        assert all(plan.blobs[digest] is not None for digest in job.digests())
        for number, action in enumerate(job.actions):
            for item in action.inputs:
                if isinstance(item, ActionOutput):
                    assert 0 <= item.action < number
        assert 0 <= job.output.action < len(job.actions)
    for gpu in plan.gpus:
        assert gpu.db_id is not None
        assert sorted(gpu.records) is not None
        assert all(record.job in plan.jobs for record in gpu.records)
        assert all(key in plan.jobs for keys in gpu.needs for key in keys)
        assert all(0 <= entry.problem < len(plan.problems) for entry in gpu.unplanned)
        assert len(gpu.needs) == len(plan.problems)
    assert all("".join(pair) is not None for pair in plan.environment.items())


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Change the JSON in it, and compute digests and job keys again."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {info.filename: _member(archive, info) for info in archive.infolist()[:50]}
    content = json.loads(members["plan.json"])
    for _ in range(rng.randint(1, 2)):
        change(content, rng)
    with suppress(Exception):  # what is not that of a job any more needs no key
        _rekey(content)
    members["plan.json"] = json.dumps(content).encode()
    if rng.random() < 0.2:
        name = rng.choice(list(members))
        members[rng.choice(("../x", "/x", "blobs/", "x"))] = members.pop(name)
    return _zip(members, rng)


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    if info.compress_type == zipfile.ZIP_BZIP2:
        return b""  # could be a bomb
    with archive.open(info) as file:
        return file.read(1 << 20)


def _zip(members: dict[str, bytes], rng: random.Random) -> bytes:
    out = io.BytesIO()
    method = rng.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_BZIP2))
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return out.getvalue()


def _rekey(content: dict[str, Any]) -> None:
    """Give each job the key that its changed fields have, and use it everywhere."""
    text = json.dumps(content["gpus"])
    for key, item in list(content["jobs"].items()):
        new = _job(item).key(content["toolchain"]["fingerprint"])
        content["jobs"][new] = content["jobs"].pop(key)
        text = text.replace(key, new) if len(key) == 64 else text
    content["gpus"] = json.loads(text)


def _job(item: dict[str, Any]) -> Job:
    names = [field.name for field in dataclasses.fields(Action)]
    actions = tuple(
        Action(**{name: action[name] for name in names if name != "inputs"},
               inputs=tuple(map(_input, action["inputs"])))
        for action in item["actions"]
    )  # fmt: skip
    output = _input(item["output"])
    assert isinstance(output, ActionOutput)
    return Job(actions, output)


def _input(item: list[Any]) -> FileInput | ActionOutput:
    return FileInput(*item[1:]) if item[0] == "FileInput" else ActionOutput(*item[1:])
