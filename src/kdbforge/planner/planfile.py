"""A plan as one portable file: a ZIP of `plan.json` and every job input once, by digest."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from kdbforge.errors import HostError, InputError
from kdbforge.files import write_whole
from kdbforge.model.job import Action, ActionOutput, Command, FileInput, Job
from kdbforge.model.plan import (
    GpuPlan,
    Plan,
    PlannedRecord,
    ToolchainId,
    Unplanned,
    UnstableKey,
)
from kdbforge.model.problem import Convolution, Operation, Problem
from kdbforge.problems import driver_line, parse
from kdbforge.problems.limits import check

__all__ = ["read_plan", "write_plan"]

# Layout of the ZIP, members sorted by name and stamped 1980-01-01, so that equal plans are equal
# files:
#   blobs/<SHA-256>   the bytes of a job input
#   plan.json         everything else; "schema" is the version of this layout
SCHEMA = 1
_PLAN = "plan.json"
_BLOBS = "blobs/"
_EPOCH = (1980, 1, 1, 0, 0, 0)
#: Caps for files that somebody else made: bytes of one member, and of all members unpacked.
_MAX_MEMBER = 64 << 20
_MAX_TOTAL = 512 << 20
_MAX_NUMBER = 1 << 31
T = TypeVar("T")


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
    # RuntimeError: an encrypted member; OverflowError: offsets that are no file's.
    except (
        OSError, zipfile.BadZipFile, zlib.error, KeyError, TypeError, ValueError, IndexError,
        EOFError, RuntimeError, AttributeError, OverflowError, InputError,
    ) as error:  # fmt: skip
        # EINVAL: the directory of the ZIP makes its reader seek to before the start.
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise HostError(f"Cannot read plan `{path}`: {error.strerror}") from error
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
    return {info.filename: _member(archive, info) for info in infos}


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    # Other methods unpack without a limit, and so does `ZipFile.read`, whatever a member promises.
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError("a member is packed in an unknown way")
    with archive.open(info) as file:
        return file.read(info.file_size)


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
        _check_chain(job)
    for gpu in plan.gpus:
        _check_gpu(plan, gpu)
    return plan


def _check_chain(job: Job) -> None:
    for number, action in enumerate(job.actions):
        if any(isinstance(i, ActionOutput) and i.action >= number for i in action.inputs):
            raise ValueError("an action builds on a later one")
    job.actions[job.output.action]


def _check_gpu(plan: Plan, gpu: GpuPlan) -> None:
    for record in gpu.records:
        plan.jobs[record.job]
    for entry in gpu.unplanned:
        plan.problems[entry.problem]
    if len(gpu.needs) != len(plan.problems):
        raise ValueError(f"{len(gpu.needs)} lists of jobs for {len(plan.problems)} problems")
    for keys in gpu.needs:
        for key in keys:
            plan.jobs[key]


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
    environment = content["environment"]
    return Plan(
        _typed(ToolchainId, content["toolchain"]),
        _checked(content["policy"], str),
        {_checked(key, str): _checked(value, str) for key, value in environment.items()},
        tuple(_problem(item) for item in content["problems"]),
        tuple(_gpu_plan(item) for item in content["gpus"]),
        {key: _job(item) for key, item in content["jobs"].items()},
        blobs,
    )


def _problem(item: dict[str, Any]) -> Problem:
    if "primitive" in item:
        return _operation(item)
    problem = _typed(Convolution, item)
    check(problem)
    return problem


def _operation(item: dict[str, Any]) -> Operation:
    """An operation that its own line means, and nothing else."""
    pairs = item["arguments"]
    arguments = tuple((_checked(name, str), _checked(value, str)) for name, value in pairs)
    operation = Operation(_checked(item["primitive"], str), _checked(item["dtype"], str), arguments)
    if parse(driver_line(operation)) != [operation]:
        raise ValueError("a problem is not what its line says")
    return operation


def _gpu_plan(item: dict[str, Any]) -> GpuPlan:
    return _typed(
        GpuPlan,
        {
            **item,
            "records": tuple(_typed(PlannedRecord, record) for record in item["records"]),
            "needs": tuple(_checked(keys, tuple[str, ...]) for keys in item["needs"]),
            "unplanned": tuple(_typed(Unplanned, entry) for entry in item["unplanned"]),
            "unstable": tuple(_typed(UnstableKey, entry) for entry in item["unstable"]),
        },
    )


def _job(item: dict[str, Any]) -> Job:
    output = _input(item["output"])
    if not isinstance(output, ActionOutput):
        raise TypeError("the output of a job is an action's")
    return Job(tuple(map(_action, item["actions"])), output)


def _action(action: dict[str, Any]) -> Action | Command:
    inputs = tuple(map(_input, action["inputs"]))
    if "program" not in action:
        return _typed(Action, {**action, "inputs": inputs})
    if not all(isinstance(item, FileInput) for item in inputs):
        raise TypeError("a run of clang takes files only")
    return _typed(Command, {**action, "inputs": inputs})


def _input(item: list[Any]) -> FileInput | ActionOutput:
    name, *values = item
    kind = {"FileInput": FileInput, "ActionOutput": ActionOutput}[name]
    fields = dataclasses.fields(kind)
    return _typed(kind, {f.name: value for f, value in zip(fields, values, strict=True)})


def _typed(kind: type[T], values: Mapping[str, Any]) -> T:
    """Make a dataclass of JSON values, and check that each is of its field's type."""
    hints = _HINTS[kind]
    return kind(**{name: _checked(value, hints[name]) for name, value in values.items()})


#: Types of the fields of what a plan is made of, by class.
_HINTS: Mapping[type, Mapping[str, Any]] = {
    kind: get_type_hints(kind)
    for kind in (
        Action, ActionOutput, Command, Convolution, FileInput, GpuPlan, PlannedRecord, ToolchainId,
        Unplanned, UnstableKey,
    )
}  # fmt: skip


def _checked(value: Any, hint: Any) -> Any:
    """A value of JSON, once it is what the hint says; dataclasses were checked before."""
    if hint is int and type(value) is int and 0 <= value < _MAX_NUMBER:
        return value
    if hint is str and isinstance(value, str):
        value.encode("utf-8", "surrogateescape")  # as `digest_fields` does
        return value
    if hint is bool and isinstance(value, bool):
        return value
    if isinstance(value, list) and hint in (tuple[int, ...], tuple[str, ...]):
        return tuple(_checked(item, hint.__args__[0]) for item in value)
    if isinstance(value, tuple):
        return value
    raise TypeError(f"{str(value)[:100]!r} is of the wrong type or out of range")
