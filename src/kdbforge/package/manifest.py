"""The manifest beside each database: what it was made from, and what its user must set.

It holds no time and no path, so that equal builds give equal manifests.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kdbforge.errors import DatabaseError, InputError
from kdbforge.files import host_errors, write_whole
from kdbforge.model.plan import Plan, ToolchainId
from kdbforge.model.proof import Proof
from kdbforge.package.assemble import Assembly

__all__ = [
    "SCHEMA",
    "Manifest",
    "ManifestFile",
    "ManifestGpu",
    "check_files",
    "manifest_path",
    "parse_manifest",
    "read_manifest",
    "write_manifest",
]

SCHEMA = 1
#: A manifest names one database and some hundred GPUs and failures at most.
_LARGEST = 16 << 20


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A file that the manifest vouches for; it lies beside the manifest."""

    name: str
    records: int
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class ManifestGpu:
    """One GPU that the database was built for."""

    target: str
    num_cu: int
    basename: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What the manifest beside a database says."""

    path: Path
    toolchain: ToolchainId | None  # None: it was made from others, and `doubts` say why
    policy: str
    problems: int
    environment: Mapping[str, str]
    files: tuple[ManifestFile, ...]
    gpus: tuple[ManifestGpu, ...]
    missing: int  # planned records that the database lacks
    proven: bool | None  # None: no proof was made
    derived_by: str = ""  # "merge", "prune" or "split"; "": it was built
    doubts: tuple[str, ...] = ()  # why it is not known for which toolchain it is

    @property
    def folder(self) -> Path:
        return self.path.parent


def manifest_path(kdb: Path) -> Path:
    """Where the manifest of a database is: `gfx1030_40.kdb` -> `gfx1030_40.manifest.json`."""
    return kdb.with_suffix(".manifest.json")


def write_manifest(
    plan: Plan, problems_digest: str, assembly: Assembly, proofs: Sequence[Proof]
) -> Path:
    """Write the manifest of a database that was just assembled.

    `proofs` are those of its GPUs; empty where proving was not wanted.

    Raises
    ------
    HostError
        If the file cannot be written.
    """
    path = manifest_path(assembly.path)
    content = _content(plan, problems_digest, assembly, proofs)
    with write_whole(path) as file:
        file.write(json.dumps(content, indent=1, sort_keys=True).encode() + b"\n")
    return path


def read_manifest(path: Path) -> Manifest:
    """Read a manifest; the files that it names are not looked at (`check_files` does).

    Raises
    ------
    InputError
        If it is no manifest, is of a newer schema, or names a file that is not beside it.
    HostError
        If it cannot be read.
    """
    with host_errors(f"read `{path}`"), path.open("rb") as file:
        data = file.read(_LARGEST + 1)
    return parse_manifest(path, data)


def parse_manifest(path: Path, data: bytes) -> Manifest:
    """Read a manifest whose bytes are at hand already; `path` is where it lies.

    Raises
    ------
    InputError
        As for `read_manifest`.
    """
    try:
        if len(data) > _LARGEST:
            raise ValueError(f"it is larger than {_LARGEST >> 20} MiB")
        values = json.loads(data)
        if values["schema"] != SCHEMA:
            raise ValueError(
                f"its schema is {values['schema']!r}, and this kdbforge knows {SCHEMA}"
            )
        return _parse(path, values)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        text = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise InputError(f"`{path}` is not a manifest of kdbforge", context=(text,)) from error


def check_files(manifest: Manifest) -> None:
    """Compare the files that a manifest names with their digests.

    Raises
    ------
    DatabaseError
        If a file is missing or is not what it was; it is named.
    HostError
        If a file cannot be read.
    """
    for entry in manifest.files:
        path = manifest.folder / entry.name
        if not path.is_file():
            raise DatabaseError(f"`{path}` is missing, and its manifest names it")
        with host_errors(f"read `{path}`"), path.open("rb") as file:
            size = path.stat().st_size
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if (size, digest) != (entry.size, entry.sha256):
            raise DatabaseError(
                f"`{path}` has changed since its manifest was written",
                context=(
                    f"manifest: {entry.size} bytes, SHA-256 {entry.sha256}",
                    f"file:     {size} bytes, SHA-256 {digest}",
                ),
                hint="build it again, or get the file again from where it came from",
            )


def _parse(path: Path, values: Mapping[str, Any]) -> Manifest:
    proofs = values["proofs"]
    return Manifest(
        path=path,
        toolchain=_parse_toolchain(values),
        policy=_text(values["policy"]),
        problems=_count(values["problems"]["count"]),
        environment={_text(key): _text(v) for key, v in values["environment"].items()},
        files=tuple(_parse_file(entry) for entry in values["files"]),
        gpus=tuple(
            ManifestGpu(_text(gpu["target"]), _count(gpu["num_cu"]), _text(gpu["basename"]))
            for gpu in values["gpus"]
        ),
        missing=len(values["missing"]),
        proven=all(not p["misses"] and not p["errors"] for p in proofs) if proofs else None,
        derived_by=_text(values["derived"]["by"]) if "derived" in values else "",
        doubts=tuple(map(_text, values.get("derived", {}).get("doubts", ()))),
    )


def _parse_toolchain(values: Mapping[str, Any]) -> ToolchainId | None:
    found = values["toolchain"]
    if found is None and "derived" in values:
        return None
    return ToolchainId(**{key: _text(value) for key, value in found.items()})


def _parse_file(values: Mapping[str, Any]) -> ManifestFile:
    name = _text(values["name"])
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ValueError(f"it names a file that is not beside it: {name!r}")
    records, size = _count(values["records"]), _count(values["size"])
    return ManifestFile(name, records, _text(values["sha256"]), size)


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise TypeError(f"{str(value)[:40]!r} is not a count")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise TypeError(f"{value!r} is not text of one line")
    return value


def _content(
    plan: Plan, problems_digest: str, assembly: Assembly, proofs: Sequence[Proof]
) -> dict[str, Any]:
    data = assembly.path.read_bytes()
    return {
        "schema": SCHEMA,
        "toolchain": dataclasses.asdict(plan.toolchain),
        "policy": plan.policy,
        "problems": {"count": len(plan.problems), "sha256": problems_digest},
        "environment": dict(plan.environment),
        "files": [
            {
                "name": assembly.path.name,
                "records": assembly.records,
                "sha256": hashlib.sha256(data).hexdigest(),
                "size": len(data),
            }
        ],
        "gpus": [
            {
                "requested": gpu.requested,
                "target": gpu.target,
                "num_cu": gpu.num_cu,
                "basename": gpu.basename,
                "records": len(gpu.records),
                "unplanned": [
                    {"problem": entry.problem, "call": entry.call, "reason": entry.reason}
                    for entry in gpu.unplanned
                ],
                "unstable": [dataclasses.asdict(key) for key in gpu.unstable],
            }
            for gpu in assembly.gpus
        ],
        "proofs": [
            {
                "gpu": proof.gpu,
                "problems": proof.problems,
                "hits": proof.hits,
                "misses": len(proof.misses),
                "errors": len(proof.errors),
            }
            for proof in proofs
        ],
        "missing": [
            {"kernel_name": record.kernel_name, "kernel_args": record.kernel_args}
            for record in assembly.missing
        ],
    }
