"""The record of what `install` put into a folder, so that `uninstall` takes away just that.

One JSON file per folder; installs over installs are layers, the newest last.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from kdbforge.errors import HostError
from kdbforge.files import host_errors, write_whole

__all__ = ["FILE_NAME", "Layer", "Receipt", "digest", "read_receipt", "write_receipt"]

FILE_NAME = ".kdbforge-install.json"
_SCHEMA = 1
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Layer:
    """One file that was written, and what was there before."""

    sha256: str
    build_id: str  # of the libMIOpen that it was installed for
    backup: str | None = None  # name of the file that was moved aside
    backup_sha256: str | None = None


Receipt = dict[str, list[Layer]]  # by file name


def digest(path: Path) -> str:
    """SHA-256 of a file, in hex.

    Raises
    ------
    HostError
        If it cannot be read.
    """
    sha = hashlib.sha256()
    with host_errors(f"read `{path}`"), path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            sha.update(chunk)
    return sha.hexdigest()


def read_receipt(folder: Path) -> Receipt:
    """What was installed into a folder; empty where nothing was.

    Raises
    ------
    HostError
        If the record cannot be read or is damaged.
    """
    path = folder / FILE_NAME
    with host_errors(f"read `{path}`"):
        if not path.exists():
            return {}
        text = path.read_bytes()
    try:
        document = json.loads(text)
        if document["schema"] != _SCHEMA:
            raise ValueError(f"schema {document['schema']}")
        found = {
            name: [Layer(**layer) for layer in layers] for name, layers in document["files"].items()
        }
        if any("/" in name or not layers for name, layers in found.items()):
            raise ValueError("a bad file name")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise HostError(
            f"`{path}` is damaged, so it is not known what was installed: {error}",
            hint="look at the folder, then delete this record",
        ) from error
    return found


def write_receipt(folder: Path, receipt: Receipt) -> None:
    """Write the record whole; remove it when nothing is left.

    Raises
    ------
    HostError
        If it cannot be written.
    """
    path = folder / FILE_NAME
    files = {
        name: [dataclasses.asdict(layer) for layer in layers]
        for name, layers in sorted(receipt.items())
        if layers
    }
    if not files:
        with host_errors(f"remove `{path}`"):
            path.unlink(missing_ok=True)
        return
    document = {"schema": _SCHEMA, "files": files}
    with write_whole(path) as file:
        file.write(json.dumps(document, indent=1, sort_keys=True).encode() + b"\n")
