"""`kdbforge kdb split`: one file for each architecture and xnack setting."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from kdbforge.cli.console import emit_json
from kdbforge.cli.kdb.manifests import manifest_option, say_manifest
from kdbforge.cli.kdb.records import kdb_argument, printable
from kdbforge.kdb.split import split_kdb
from kdbforge.package.derived import look_at, voucher, write_derived

__all__ = ["split"]


@click.command("split")
@kdb_argument
@click.option(
    "-o", "--output", "folder", required=True, metavar="DIR", type=click.Path(path_type=Path),
    help="Folder for the files.",
)  # fmt: skip
@manifest_option
@click.option("--force", is_flag=True, help="Replace files that exist.")
@click.option("--strict", is_flag=True, help="Fail on a damaged record.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def split(
    context: click.Context,
    file: Path,
    folder: Path,
    manifest_from: Path | None,
    *,
    force: bool,
    strict: bool,
    as_json: bool,
) -> None:
    """Split a kernel database by architecture and xnack setting, read from the code itself.

    Files are named as MIOpen looks for them on any CU count, such as `gfx90a.kdb` and
    `gfx90a_xnack.kdb`, and have manifests. Exit code 1: damaged records were left out.

    \b
    Example:
      kdbforge kdb split everything.kdb -o by-arch
    """
    source = look_at(file, voucher(manifest_from) if manifest_from else None)
    report = split_kdb(file, folder, strict=strict, force=force)
    manifests = [
        write_derived(part.path, part.rows, [source], "split", part.target) for part in report.parts
    ]
    if as_json:
        emit_json(
            {
                "file": str(report.source),
                "records_in": report.rows_in,
                "records_out": report.rows_out,
                "parts": [
                    {
                        "file": str(part.path),
                        "db_id": part.db_id,
                        "target": str(part.target),
                        "records": part.rows,
                    }
                    for part in report.parts
                ],
                "damaged": [dataclasses.asdict(bad) for bad in report.rejected],
            }
        )
    else:
        for part in report.parts:
            click.echo(f"{printable(str(part.path))}: {part.rows} records for {part.target}")
        for bad in report.rejected:
            click.echo(
                f"record {bad.number} LEFT OUT: {printable(bad.kernel_name)}: "
                + printable(bad.reason)
            )
        click.echo(
            f"{report.rows_in} records in = {report.rows_out} out + {len(report.rejected)} damaged"
        )
    for manifest in manifests:
        say_manifest(manifest)
    context.exit(1 if report.rejected else 0)
