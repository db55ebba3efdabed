"""`kdbforge kdb merge`: several kernel databases into one."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from kdbforge.cli.console import console, emit_json
from kdbforge.cli.kdb.manifests import manifest_option, say_manifest
from kdbforge.cli.kdb.records import printable
from kdbforge.errors import KdbforgeError
from kdbforge.kdb.merge import InputReport, MergeInput, MergeReport, OnConflict, merge_kdbs
from kdbforge.package.derived import check_place, look_at, voucher, write_derived
from kdbforge.package.manifest import Manifest, check_files, manifest_path, read_manifest

__all__ = ["merge"]

_path = click.Path(path_type=Path)
#: Damaged rows of one input that are listed.
_LISTED = 20


@click.command("merge")
@click.argument("output", metavar="OUT", type=_path)
@click.argument("inputs", metavar="IN...", nargs=-1, required=True, type=_path)
@click.option(
    "--on-conflict", type=click.Choice([policy.value for policy in OnConflict]),
    default=OnConflict.ERROR.value, show_default=True,
    help="Whose code to take where inputs have different code for one key.",
)  # fmt: skip
@manifest_option
@click.option("--strict", is_flag=True, help="Fail on a damaged input or record.")
@click.option("--force", is_flag=True, help="Replace OUT if it exists.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def merge(
    context: click.Context,
    output: Path,
    inputs: tuple[Path, ...],
    on_conflict: str,
    manifest_from: Path | None,
    *,
    strict: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Merge system (.kdb) and user (.ukdb) databases into one that MIOpen can share.

    Inputs are never modified. Every record is unpacked and checked; code for different
    architectures or xnack settings is never mixed. Exit code 1: something was damaged and left
    out. Use this for databases of one MIOpen only: keys do not tell versions apart.

    OUT gets a manifest. If those of all inputs name the same libMIOpen, it does, and
    `kdbforge install` takes it.

    \b
    Example:
      kdbforge kdb merge gfx1030_40.kdb ~/.cache/miopen/3.5.1/gfx1030_40.ukdb other/gfx1030_40.ukdb
    """
    policy = OnConflict(on_conflict)
    _warn_of_different_libraries(inputs)
    check_place(output, force=force)
    vouched = voucher(manifest_from) if manifest_from else None
    described = [look_at(path, vouched) for path in inputs]
    entries = [
        MergeInput(path, _release(path) if policy is OnConflict.NEWEST else None) for path in inputs
    ]
    report = merge_kdbs(output, entries, on_conflict=policy, strict=strict, force=force)
    left_out = {entry.path for entry in report.inputs if entry.error}
    used = [entry for entry in described if entry.path not in left_out]
    manifest = write_derived(output, report.rows_out, used, "merge")
    if as_json:
        emit_json(_json(report))
    else:
        for line in _lines(report):
            click.echo(line)
    say_manifest(manifest)
    context.exit(0 if report.complete else 1)


def _lines(report: MergeReport) -> Iterator[str]:
    for entry in report.inputs:
        yield from _input_lines(entry)
    for conflict in report.conflicts:
        name = printable(conflict.kernel_name + conflict.kernel_args)
        yield f"conflict: {name}: taken from {printable(str(conflict.taken))}"
    yield (
        f"{printable(str(report.path))}: {report.rows_out} records for {report.target}"
        f" ({report.rows_in} in = {report.rows_out} out + {report.same} the same"
        f" + {report.replaced} replaced + {report.rejected} damaged)"
    )


def _input_lines(entry: InputReport) -> Iterator[str]:
    name = printable(str(entry.path))
    if entry.error:
        yield f"{name}: LEFT OUT: {printable(entry.error)}"
        return
    yield f"{name}: {entry.rows} records"
    for note in entry.notes:
        yield f"  note: {printable(note)}"
    for bad in entry.rejected[:_LISTED]:
        yield f"  record {bad.number} LEFT OUT: {printable(bad.kernel_name)}: " + printable(
            bad.reason
        )
    if len(entry.rejected) > _LISTED:
        yield f"  and {len(entry.rejected) - _LISTED} more; --json lists all"


def _json(report: MergeReport) -> dict[str, Any]:
    return {
        "output": str(report.path),
        "target": str(report.target),
        "records_in": report.rows_in,
        "records_out": report.rows_out,
        "same": report.same,
        "replaced": report.replaced,
        "damaged": report.rejected,
        "complete": report.complete,
        "inputs": [
            {
                "file": str(entry.path),
                "records": entry.rows,
                "error": entry.error or None,
                "notes": list(entry.notes),
                "damaged": [dataclasses.asdict(bad) for bad in entry.rejected],
            }
            for entry in report.inputs
        ],
        "conflicts": [
            {
                "kernel_name": conflict.kernel_name,
                "kernel_args": conflict.kernel_args,
                "files": [str(path) for path in conflict.paths],
                "taken": str(conflict.taken),
            }
            for conflict in report.conflicts
        ],
    }


def _manifest(path: Path) -> Manifest | None:
    """The manifest beside a database; None if there is none, or it speaks of others."""
    beside = manifest_path(path)
    if not beside.is_file():
        return None
    manifest = read_manifest(beside)
    return manifest if path.name in [file.name for file in manifest.files] else None


def _release(path: Path) -> tuple[int, ...] | None:
    """Version of the libMIOpen that a database was made with, once its digest is checked."""
    manifest = _manifest(path)
    if manifest is None or manifest.toolchain is None:
        return None
    check_files(manifest)
    own = [int(part) for part in re.findall(r"\d+", manifest.toolchain.miopen_version)][:4]
    package = [int(part) for part in re.findall(r"\d+", manifest.toolchain.version)]
    return (*own, *[0] * (4 - len(own)), *package)


def _warn_of_different_libraries(paths: Sequence[Path]) -> None:
    builds: dict[str, Path] = {}
    for path in paths:
        try:
            manifest = _manifest(path)
        except KdbforgeError as error:
            console.print(f"[yellow]warning:[/] {escape(error.message)}")
            continue
        if manifest is not None and manifest.toolchain is not None:
            builds.setdefault(manifest.toolchain.build_id, path)
    if len(builds) > 1:
        listed = ", ".join(f"`{path}` for {build}" for build, path in builds.items())
        console.print(
            "[yellow]warning:[/] "
            + escape(f"The inputs were made for different libMIOpens, by build ID: {listed}")
        )
