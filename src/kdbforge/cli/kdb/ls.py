"""`kdbforge kdb ls`: the records of a kernel database, one a line."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from kdbforge.cli.console import emit_json
from kdbforge.cli.kdb.records import filter_options, kdb_argument, printable
from kdbforge.kdb.inspect import Entry, Filter, open_kdb

__all__ = ["ls"]


@click.command("ls")
@kdb_argument
@filter_options
@click.option(
    "--sort", type=click.Choice(["id", "name", "size"]), default="id", show_default=True,
    help="Order; `size` puts what takes most room first.",
)  # fmt: skip
@click.option("-l", "--long", is_flag=True, help="With size and MD5 of the unpacked code objects.")
@click.option("--json", "form", flag_value="json", help="Print a JSON list.")
@click.option("--nl", "form", flag_value="nl", help="Print one JSON object a line.")
@click.option("--csv", "form", flag_value="csv", help="Print CSV with a header.")
def ls(file: Path, wanted: Filter, sort: str, long: bool, form: str | None) -> None:
    """List records: number, stored bytes, kernel file and build options.

    No blob is read. On a terminal lines are cut at its width.

    \b
    Example:
      kdbforge kdb ls out/gfx1030_40.kdb --kernel 'naive_conv*' --sort size
      kdbforge kdb ls out/gfx1030_40.kdb --arg=-DMLO_FILTER_SIZE0=3 --nl
    """
    with open_kdb(file) as kdb:
        entries = kdb.entries(wanted, order=sort, full=long)
        if form == "json":
            emit_json([_json(entry, long=long) for entry in entries])
        elif form == "nl":
            for entry in entries:
                sys.stdout.write(json.dumps(_json(entry, long=long)) + "\n")
        elif form == "csv":
            _print_csv(entries, long=long)
        else:
            _print_lines(entries, long=long)


def _print_lines(entries: Iterable[Entry], *, long: bool) -> None:
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    write = sys.stdout.write
    for entry in entries:
        number, name, args, stored, digest, _ = entry
        more = f" {entry.object_size:>9} {digest}" if long else ""
        line = f"{number:>6} {stored:>9}{more}  {name}  {args.strip()}"
        write((line if line.isprintable() else printable(line))[:width] + "\n")


def _print_csv(entries: Iterable[Entry], *, long: bool) -> None:
    writer: Any = None
    for entry in entries:
        row = _json(entry, long=long)
        if writer is None:
            writer = csv.DictWriter(sys.stdout, list(row), lineterminator="\n")
            writer.writeheader()
        writer.writerow(row)


def _json(entry: Entry, *, long: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": entry.id,
        "kernel_name": entry.kernel_name,
        "kernel_args": entry.kernel_args,
        "stored_size": entry.stored_size,
    }
    if long:
        row |= {"object_size": entry.object_size, "kernel_hash": entry.kernel_hash}
    return row
