"""`kdbforge kdb prune`: remove records from a kernel database."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from kdbforge import api
from kdbforge.cli.console import emit_json
from kdbforge.cli.kdb.manifests import manifest_option, say_manifest
from kdbforge.cli.kdb.records import kdb_argument, printable
from kdbforge.cli.options import Settings, common_options
from kdbforge.errors import InputError
from kdbforge.kdb.prune import PruneReport, PruneRules, prune_kdb
from kdbforge.package.derived import check_place, look_at, voucher, write_derived
from kdbforge.planner.planfile import read_plan

__all__ = ["prune"]

_path = click.Path(path_type=Path)
_LISTED = 20


@click.command("prune")
@common_options
@kdb_argument
@click.option(
    "--keep-plan", "plan", metavar="PLAN", type=_path,
    help="Remove what this plan does not have.",
)  # fmt: skip
@click.option(
    "--kernel", "kernels", multiple=True, metavar="GLOB",
    help="Remove kernel files that fit, such as `*.mlir`. May be repeated.",
)  # fmt: skip
@click.option(
    "--stale", is_flag=True,
    help="Remove kernel files that the toolchain's libMIOpen does not know.",
)  # fmt: skip
@click.option("-o", "--output", type=_path, help="File to write; it must not exist.")
@click.option("--in-place", is_flag=True, help="Replace FILE, as a whole.")
@manifest_option
@click.option("--force", is_flag=True, help="Replace the output if it exists.")
@click.option("--strict", is_flag=True, help="Fail on a damaged record.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with all that is removed.")
def prune(
    settings: Settings,
    file: Path,
    plan: Path | None,
    kernels: tuple[str, ...],
    output: Path | None,
    manifest_from: Path | None,
    *,
    stale: bool,
    in_place: bool,
    force: bool,
    strict: bool,
    as_json: bool,
) -> None:
    """Remove records: unwanted or stale ones, damaged ones, and keys that are there twice.

    Without -o or --in-place nothing is written, and the report says what would be removed.
    Damaged records and repeats go in any case. --stale goes by names; records of a kernel file
    that has changed are found by `kdbforge kdb rebuild`. What is written gets a manifest from that
    of FILE.

    \b
    Example:
      kdbforge kdb prune gfx1030.kdb --keep-plan resnet50.plan -o small/gfx1030.kdb
      kdbforge kdb prune gfx908.kdb --stale --kernel '*.mlir' --in-place
    """
    if in_place and output is not None:
        raise InputError("Both -o and --in-place are given", hint="give one of them")
    rules = PruneRules(
        keep=None if plan is None else _keys(plan),
        kernels=kernels,
        library=api.find_toolchain(settings.toolchain).libmiopen if stale else None,
    )
    target = file if in_place else output
    if target is not None:
        check_place(target, force=force)
    source = look_at(file, voucher(manifest_from) if manifest_from else None)
    report = prune_kdb(file, rules, target, strict=strict, force=force)
    if target is not None:
        manifest = write_derived(target, report.rows_out, [source], "prune")
    else:
        manifest = None
    if as_json:
        emit_json(_json(report))
    else:
        for line in _lines(report, verbose=settings.verbose):
            click.echo(line)
    say_manifest(manifest)


def _keys(path: Path) -> frozenset[tuple[str, str]]:
    return frozenset(
        (record.kernel_name, record.kernel_args)
        for gpu in read_plan(path).gpus
        for record in gpu.records
    )


def _lines(report: PruneReport, *, verbose: bool) -> Iterator[str]:
    limit = len(report.removed) if verbose else _LISTED
    for entry in report.removed[:limit]:
        yield printable(f"{entry.rule:<9}  {entry.kernel_name}  {entry.kernel_args.strip()}")
        yield f"             {printable(entry.reason)}"
    if len(report.removed) > limit:
        yield f"and {len(report.removed) - limit} more; -v lists all"
    rules = Counter(entry.rule for entry in report.removed)
    why = ", ".join(f"{count} {rule}" for rule, count in sorted(rules.items()))
    yield (
        f"{report.rows_in} records in = {report.rows_out} kept + {len(report.removed)} removed"
        + (f" ({why})" if why else "")
        + f"; {report.stored_in} -> {report.stored_out} bytes of code"
    )
    if report.output is None:
        yield "Nothing was written; -o FILE or --in-place does it"
    else:
        yield f"{printable(str(report.output))}: {report.rows_out} records"


def _json(report: PruneReport) -> dict[str, Any]:
    return {
        "file": str(report.source),
        "output": None if report.output is None else str(report.output),
        "records_in": report.rows_in,
        "records_out": report.rows_out,
        "stored_in": report.stored_in,
        "stored_out": report.stored_out,
        "removed": [dataclasses.asdict(entry) for entry in report.removed],
    }
