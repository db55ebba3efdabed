"""A plan as one portable file: a ZIP of `plan.json` and every job input once, by digest."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kdbforge.errors import HostError, InputError
from kdbforge.files import write_whole
from kdbforge.model.job import Action, ActionOutput, FileInput, Job
from kdbforge.model.plan import (
    GpuPlan,
    Plan,
    PlannedRecord,
    ToolchainId,
    Unplanned,
    UnstableKey,
)
from kdbforge.model.problem import Convolution, Operation, Problem

__all__ = ["read_plan", "write_plan"]

# Layout of the ZIP, members sorted by name and stamped 1980-01-01, so that equal plans are equal
# files:
#   blobs/<SHA-256>   the bytes of a job input
#   plan.json         everything else; "schema" is the version of this layout
SCHEMA = 2
_PLAN = "plan.json"
_BLOBS = "blobs/"
_EPOCH = (1980, 1, 1, 0, 0, 0)
#: Caps for files that somebody else made: bytes of one member, and of all members unpacked.
_MAX_MEMBER = 64 << 20
_MAX_TOTAL = 2 << 30


def write_plan(plan: Plan, path: Path) -> None:
    """Write the plan whole or not at all.

    Raises
    ------
    HostError
        If the file cannot be written.
    """
    with write_whole(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for digest, data in sorted(plan.blobs.items()):
            _add(archive, _BLOBS + digest, data)
        _add(archive, _PLAN, json.dumps(_to_json(plan), indent=1, sort_keys=True).encode())


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED)


def read_plan(path: Path) -> Plan:
    """Read a plan and check that it is whole: every digest and job key is computed again.

    Raises
    ------
    InputError
        If the file is no plan, is truncated or damaged, or of another schema version.
    HostError
        If it cannot be read.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return _from_members(_members(archive))
    except OSError as error:
        raise HostError(f"Cannot read plan `{path}`: {error.strerror}") from error
    except (
        zipfile.BadZipFile, zlib.error, KeyError, TypeError, ValueError, IndexError, EOFError,
        NotImplementedError, RecursionError, AttributeError,
    ) as error:  # fmt: skip
        raise InputError(
            f"`{path}` is not a whole kdbforge plan",
            context=(f"{type(error).__name__}: {error}",),
            hint="make it again with `kdbforge plan`",
        ) from error


def _members(archive: zipfile.ZipFile) -> dict[str, bytes]:
    infos = archive.infolist()
    if any(info.file_size > _MAX_MEMBER for info in infos):
        raise ValueError("a member is too large")
    if sum(info.file_size for info in infos) > _MAX_TOTAL:
        raise ValueError("too much data")
    return {info.filename: archive.read(info) for info in infos}


def _from_members(members: dict[str, bytes]) -> Plan:
    content = json.loads(members.pop(_PLAN))
    if content["schema"] != SCHEMA:
        raise ValueError(f"schema {content['schema']}, not {SCHEMA}")
    blobs = {}
    for name, data in members.items():
        digest = name.removeprefix(_BLOBS)
        if hashlib.sha256(data).hexdigest() != digest:
            raise ValueError(f"member {name} is damaged")
        blobs[digest] = data
    plan = _from_json(content, blobs)
    for key, job in plan.jobs.items():
        if job.key(plan.toolchain.fingerprint) != key:
            raise ValueError(f"job {key} is not what its key says")
        if not blobs.keys() >= set(job.digests()):
            raise ValueError(f"job {key} lacks an input")
    for gpu in plan.gpus:
        for record in gpu.records:
            plan.jobs[record.job]
    return plan


def _to_json(plan: Plan) -> dict[str, Any]:
    content = {
        field.name: getattr(plan, field.name)
        for field in dataclasses.fields(plan)
        if field.name not in ("blobs", "jobs")
    }
    jobs = {key: _job_to_json(job) for key, job in plan.jobs.items()}
    return {"schema": SCHEMA, **_plain(content), "jobs": jobs}


def _plain(value: Any) -> Any:
    """Dataclasses and mappings as plain JSON values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _job_to_json(job: Job) -> dict[str, Any]:
    actions = [
        {**_plain(action), "inputs": [_input_to_json(item) for item in action.inputs]}
        for action in job.actions
    ]
    return {"actions": actions, "output": _input_to_json(job.output)}


def _input_to_json(item: FileInput | ActionOutput) -> list[Any]:
    return [type(item).__name__, *dataclasses.astuple(item)]


def _from_json(content: dict[str, Any], blobs: Mapping[str, bytes]) -> Plan:
    return Plan(
        ToolchainId(**content["toolchain"]),
        content["policy"],
        content["environment"],
        tuple(_problem(item) for item in content["problems"]),
        tuple(_gpu_plan(item) for item in content["gpus"]),
        {key: _job(item) for key, item in content["jobs"].items()},
        blobs,
    )


def _problem(item: dict[str, Any]) -> Problem:
    if "primitive" in item:
        arguments = tuple((str(name), str(value)) for name, value in item["arguments"])
        return Operation(item["primitive"], item["dtype"], arguments)
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in item.items()
    }
    return Convolution(**values)


def _gpu_plan(item: dict[str, Any]) -> GpuPlan:
    return GpuPlan(
        item["requested"],
        item["target"],
        item["num_cu"],
        item["basename"],
        tuple(PlannedRecord(**record) for record in item["records"]),
        tuple(tuple(keys) for keys in item["needs"]),
        tuple(Unplanned(**entry) for entry in item["unplanned"]),
        tuple(UnstableKey(**entry) for entry in item["unstable"]),
    )


def _job(item: dict[str, Any]) -> Job:
    actions = tuple(
        Action(
            action["kind"],
            action["language"],
            action["isa"],
            tuple(action["options"]),
            action["working_directory"],
            action["device_lib_linking"],
            tuple(map(_input, action["inputs"])),
        )
        for action in item["actions"]
    )
    output = _input(item["output"])
    if not isinstance(output, ActionOutput):
        raise TypeError("the output of a job is an action's")
    return Job(actions, output)


def _input(item: list[Any]) -> FileInput | ActionOutput:
    name, *values = item
    return FileInput(*values) if name == FileInput.__name__ else ActionOutput(*values)
