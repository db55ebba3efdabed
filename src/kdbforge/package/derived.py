"""Manifests of databases that were made from databases: merged, pruned or split ones.

They say what the result came from, and never more than the manifests of the inputs did.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kdbforge.errors import InputError, KdbforgeError
from kdbforge.files import host_errors, write_whole
from kdbforge.kdb.inspect import open_kdb
from kdbforge.kdb.source import join_targets
from kdbforge.model.plan import ToolchainId
from kdbforge.model.target import TargetId
from kdbforge.package.manifest import (
    SCHEMA,
    Manifest,
    manifest_path,
    parse_manifest,
    read_manifest,
)
from kdbforge.package.receipt import digest

__all__ = ["Input", "check_place", "look_at", "voucher", "write_derived"]

#: Reasons that a manifest lists.
_LISTED = 10


@dataclass(frozen=True, slots=True)
class Input:
    """A database that another one is made from, as it was before that."""

    path: Path
    sha256: str
    size: int
    says: Manifest | None  # its manifest, if that describes this very file
    content: Mapping[str, Any]  # all of the manifest; {} without
    doubt: str  # why it is not known for which libMIOpen it is; "" if it is


def look_at(path: Path, vouched: Manifest | None = None) -> Input:
    """Digest a database and read the manifest beside it.

    Where there is none, `vouched` says for which libMIOpen the database is.

    Raises
    ------
    HostError
        If it cannot be read.
    """
    with host_errors(f"read `{path}`"):
        size = path.stat().st_size
        sha256 = digest(path)
    beside = manifest_path(path)
    try:
        with host_errors(f"read `{beside}`"):
            data = beside.read_bytes() if beside.is_file() else None
        says = None if data is None else parse_manifest(beside, data)
    except KdbforgeError:
        doubt = f"`{beside.name}` is not a manifest of kdbforge that can be read"
        return Input(path, sha256, size, None, {}, doubt)
    if says is None or path.name not in [file.name for file in says.files]:
        doubt = "" if vouched else f"`{path.name}` has no manifest"
        return Input(path, sha256, size, vouched, {}, doubt)
    if sha256 not in [file.sha256 for file in says.files]:
        doubt = f"`{path.name}` is not the file that its manifest describes"
        return Input(path, sha256, size, None, {}, doubt)
    assert data is not None
    doubt = "" if says.toolchain else "; ".join(says.doubts) or f"`{beside.name}` names none"
    return Input(path, sha256, size, says, json.loads(data), doubt)


def voucher(path: Path) -> Manifest:
    """The manifest that the user gives for databases without one; a database stands for its own.

    Raises
    ------
    InputError
        If it is none, or does not name a libMIOpen.
    """
    found = read_manifest(path if path.suffix == ".json" else manifest_path(path))
    if found.toolchain is None:
        raise InputError(f"`{found.path}` does not name a libMIOpen", context=found.doubts)
    return found


def check_place(output: Path, *, force: bool = False) -> None:
    """Check that no manifest is overwritten that belongs to something else.

    Raises
    ------
    InputError
        If one lies where that of `output` goes, and neither `force` is set nor is `output` there.
    """
    path = manifest_path(output)
    if _gets_one(output) and path.exists() and not output.exists() and not force:
        raise InputError(
            f"`{path}` exists, and is not the manifest of `{output.name}`, which does not",
            hint="give another name, or --force to replace it",
        )


def write_derived(
    output: Path, records: int, inputs: Sequence[Input], by: str, target: TargetId | None = None
) -> Manifest | None:
    """Write the manifest of a database that was made from others; None if it gets none.

    Only `.kdb` files get one. It names a toolchain if all inputs are known to be for the same
    one; GPUs and what was missing are the inputs'; there is no proof, since nobody ran it.
    `target` leaves out GPUs on which its code does not load.

    Raises
    ------
    HostError
        If it cannot be written.
    """
    if not _gets_one(output):
        return None
    sha256 = digest(output)
    for i in inputs:
        if i.content and (i.path, i.sha256) == (output, sha256):
            return i.says  # nothing was changed
    doubts = tuple(dict.fromkeys(map(_one_line, _doubts(inputs))))
    content: dict[str, Any] = {
        "schema": SCHEMA,
        "toolchain": None if doubts else dataclasses.asdict(_toolchain(inputs)),
        "policy": _the_one((i.says.policy for i in inputs if i.says), "mixed"),
        "problems": _problems([i.content["problems"] for i in inputs if i.content]),
        "environment": {
            key: value
            for i in inputs if i.says
            for key, value in i.says.environment.items()
        },
        "files": [
            {
                "name": output.name,
                "records": records,
                "sha256": sha256,
                "size": output.stat().st_size,
            }
        ],
        "gpus": _gpus(inputs, target),
        "proofs": [],
        "missing": _missing(output, inputs),
        "derived": {
            "by": by,
            "inputs": [
                {"name": i.path.name, "sha256": i.sha256, "size": i.size}
                for i in sorted(inputs, key=lambda i: (i.path.name, i.sha256))
            ],
            "doubts": list(doubts[:_LISTED]),
        },
    }  # fmt: skip
    path = manifest_path(output)
    with write_whole(path) as file:
        file.write(json.dumps(content, indent=1, sort_keys=True).encode() + b"\n")
    return read_manifest(path)


def _gets_one(output: Path) -> bool:
    return output.suffix == ".kdb" and output.name.isprintable()


def _one_line(text: str) -> str:
    """Text that a manifest may hold, whatever the names of files are."""
    return "".join(character if character.isprintable() else "?" for character in text)


def _doubts(inputs: Sequence[Input]) -> Iterator[str]:
    """Everything that keeps the result from being for one known libMIOpen."""
    yield from sorted(i.doubt for i in inputs if i.doubt)
    known = {
        (i.says.toolchain.build_id, i.says.toolchain.fingerprint): i.path.name
        for i in inputs
        if i.says and i.says.toolchain
    }
    if len(known) > 1:
        listed = ", ".join(f"`{name}` for {build}" for (build, _), name in sorted(known.items()))
        yield f"They were made with different toolchains, by build ID of libMIOpen: {listed}"
    settings: dict[str, set[str]] = {}
    for i in inputs:
        for key, value in (i.says.environment if i.says else {}).items():
            settings.setdefault(key, set()).add(value)
    for key, values in sorted(settings.items()):
        if len(values) > 1:
            yield f"They are for different values of {key}: {', '.join(sorted(values))}"


def _toolchain(inputs: Sequence[Input]) -> ToolchainId:
    found = [i.says.toolchain for i in inputs if i.says and i.says.toolchain]
    return min(found, key=dataclasses.astuple)  # they may call it differently


def _the_one(values: Iterable[str], otherwise: str) -> str:
    found = set(values)
    return found.pop() if len(found) == 1 else otherwise


def _problems(lists: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The list of problems, or for several lists all of them: at most so many, and one digest."""
    found = sorted({(str(entry.get("sha256", "")), int(entry["count"])) for entry in lists})
    if len(found) == 1:
        return {"count": found[0][1], "sha256": found[0][0]}
    sha256 = hashlib.sha256("\n".join(text for text, _ in found).encode()).hexdigest()
    return {"count": sum(count for _, count in found), "sha256": sha256}


def _gpus(inputs: Sequence[Input], target: TargetId | None) -> list[dict[str, Any]]:
    """GPUs of all inputs on which the code loads, each once."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for i in inputs:
        for gpu in i.content.get("gpus", ()):
            name = str(gpu["target"])
            if target is not None and join_targets(TargetId.parse(name), target) is None:
                continue
            known = found.setdefault((name, int(gpu["num_cu"])), {**gpu, **_NOTHING_LACKS})
            for key in _NOTHING_LACKS:
                known[key] = [*known[key], *(e for e in gpu.get(key, ()) if e not in known[key])]
    for gpu in found.values():
        gpu.pop("records", None)  # of the input
    return [found[key] for key in sorted(found)]


_NOTHING_LACKS: dict[str, list[Any]] = {"unplanned": [], "unstable": []}


def _missing(output: Path, inputs: Sequence[Input]) -> list[dict[str, str]]:
    """Planned records that inputs lacked and the result lacks as well."""
    lacked = {
        (str(entry["kernel_name"]), str(entry["kernel_args"]))
        for i in inputs
        for entry in i.content.get("missing", ())
    }
    if lacked:
        with open_kdb(output) as kdb:
            lacked -= {(entry.kernel_name, entry.kernel_args) for entry in kdb.entries()}
    return [{"kernel_name": name, "kernel_args": args} for name, args in sorted(lacked)]
