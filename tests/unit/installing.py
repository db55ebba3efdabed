"""A library that is only described, and databases with manifests for it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from kdbforge.kdb.record import Record
from kdbforge.kdb.writer import write_kdb
from kdbforge.package.libraries import Library
from kdbforge.package.manifest import manifest_path

__all__ = ["BUILD_ID", "digest", "library", "make_kdb", "records"]

BUILD_ID = "ab" * 20


def library(root: Path, **changes: object) -> Library:
    """A library below `root` that cannot be run here."""
    values = {
        "path": root / "lib/libMIOpen.so.1",
        "build_id": BUILD_ID,
        "miopen_version": "3.5.1",
        "system_folder": root / "share/miopen/db",
        "embedded": False,
        "in_process": True,
        "toolchain": None,
        "reason": "it is made of air",
        **changes,
    }
    return Library(**values)  # type: ignore[arg-type]


def records(arch: str, count: int = 3, text: bytes = b"s_nop 0\n") -> list[Record]:
    return [
        Record.pack(f"k{n}.cpp.o", f" -O3 -mcpu={arch}", text * 50 * n) for n in range(1, count + 1)
    ]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def make_kdb(
    path: Path, arch: str, *, build_id: str = BUILD_ID, num_cus: tuple[int, ...] = (),
    count: int = 3, text: bytes = b"s_nop 0\n", environment: dict[str, str] | None = None,
    manifest: bool = True,
) -> Path:  # fmt: skip
    """Write a database, and its manifest unless not wanted."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_kdb(path, records(arch, count, text))
    if not manifest:
        return path
    counts = num_cus or (int(path.stem.partition("_")[2]),)
    document = {
        "schema": 1,
        "toolchain": {
            "name": "t", "version": "7.2.4", "miopen_version": "3.5.1", "build_id": build_id,
            "fingerprint": "cd" * 32,
        },
        "policy": "default",
        "problems": {"count": 1, "sha256": "0" * 64},
        "environment": environment or {},
        "files": [
            {
                "name": path.name, "records": count, "sha256": digest(path),
                "size": path.stat().st_size,
            }
        ],
        "gpus": [
            {
                "requested": "g", "target": arch, "num_cu": n, "basename": f"{arch}_{n}",
                "records": count, "unplanned": [], "unstable": [],
            }
            for n in counts
        ],
        "proofs": [],
        "missing": [],
    }  # fmt: skip
    manifest_path(path).write_text(json.dumps(document))
    return path
