"""The manifest beside each database: what it was made from, and what its user must set.

It holds no time and no path, so that equal builds give equal manifests.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kdbforge.files import write_whole
from kdbforge.model.plan import Plan
from kdbforge.model.proof import Proof
from kdbforge.package.assemble import Assembly

__all__ = ["manifest_path", "write_manifest"]

SCHEMA = 1


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
