"""`kdbforge kdb extract`: code objects out of a kernel database, into files."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any

import click

from kdbforge.cli.console import console, emit_json
from kdbforge.cli.kdb.records import filter_options, kdb_argument
from kdbforge.errors import InputError
from kdbforge.files import host_errors, write_whole
from kdbforge.kdb.inspect import Entry, Filter, open_kdb

__all__ = ["extract"]

_UNSAFE = re.compile(r"[^A-Za-z0-9._+-]+")
_MAX_STEM = 100


@click.command("extract")
@kdb_argument
@filter_options
@click.option("--id", "number", type=click.IntRange(0), help="Only the record of this number.")
@click.option(
    "-o", "--output", required=True, metavar="DIR", type=click.Path(path_type=Path),
    help="Folder to write to; it is made if there is none.",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Overwrite files that are there.")
@click.option("--json", "as_json", is_flag=True, help="Print files and their keys as JSON.")
def extract(
    file: Path, wanted: Filter, number: int | None, output: Path, force: bool, as_json: bool
) -> None:
    """Write the code objects of records to files, unpacked and checked against their MD5.

    A file is named after its kernel file and a digest of its key, so that the same record
    always gets the same name. Nothing is overwritten without --force.

    \b
    Example:
      kdbforge kdb extract out/gfx1030_40.kdb --kernel 'naive_conv*' -o objects
    """
    with open_kdb(file) as kdb:
        entries = list(kdb.entries(Filter(wanted.kernels, wanted.args, number)))
        if not entries:
            raise InputError(f"`{file}` has no such record", hint=f"kdbforge kdb ls {file}")
        paths = [output / object_name(entry) for entry in entries]
        if not force:
            _refuse_existing(paths)
        with host_errors(f"make folder `{output}`"):
            output.mkdir(parents=True, exist_ok=True)
        for entry, path in zip(entries, paths, strict=True):
            _write(path, kdb.record(entry.id).unpack(), force=force)
            if not as_json:
                click.echo(str(path))
    if as_json:
        emit_json([_json(entry, path) for entry, path in zip(entries, paths, strict=True)])
    console.print(f"{len(entries)} code objects extracted")


def object_name(entry: Entry) -> str:
    """File name for a record's code object; names from a database are not to be trusted."""
    stem = _UNSAFE.sub("_", entry.kernel_name.removesuffix(".o"))[:_MAX_STEM].lstrip(".-")
    key = f"{entry.kernel_name}\0{entry.kernel_args}".encode("utf-8", "surrogatepass")
    return f"{stem or 'kernel'}-{hashlib.sha256(key).hexdigest()[:16]}.co"


def _refuse_existing(paths: list[Path]) -> None:
    for path in paths:
        if os.path.lexists(path):
            raise InputError(f"`{path}` is there already", hint="--force overwrites it")


def _write(path: Path, data: bytes, *, force: bool) -> None:
    if force:
        with write_whole(path) as file:
            file.write(data)
        return
    # Fails for whatever has come into being since, a dangling symbolic link among it.
    with host_errors(f"write `{path}`"), path.open("xb") as file:
        file.write(data)


def _json(entry: Entry, path: Path) -> dict[str, Any]:
    return {
        "path": str(path),
        "id": entry.id,
        "kernel_name": entry.kernel_name,
        "kernel_args": entry.kernel_args,
    }
