"""`kdbforge kdb verify`: whether MIOpen can use a kernel database, and all that is in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from kdbforge.cli.console import emit_json, progress_bar
from kdbforge.cli.kdb.records import printable
from kdbforge.cli.options import Settings, common_options, jobs_option
from kdbforge.errors import DatabaseError, InputError
from kdbforge.kdb.verify import VerifyOptions, verify_kdb
from kdbforge.kdb.verify_device import Device, device_of_name
from kdbforge.kdb.verify_report import Fate, Finding, Level, Report
from kdbforge.package.manifest import check_files, manifest_path, read_manifest
from kdbforge.planner.planfile import read_plan
from kdbforge.vgpu.profiles import load_profiles, resolve

__all__ = ["verify"]

_LABELS = {
    Level.FATAL: "fatal to MIOpen",
    Level.NEVER_HITS: "never hits",
    Level.SUSPICIOUS: "suspicious",
    Level.NOTE: "note",
}
_FATES = {
    Fate.HIT: "MIOpen looks kernels up in it",
    Fate.MISS: "MIOpen does without it",
    Fate.FATAL: "MIOpen fails on it",
}
#: Findings of one check that are listed before "and N more"; those that are kept with -v.
_LISTED = 5


@click.command("verify")
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option("--gpu", metavar="GPU", help="Check for this GPU, not for those of the file's name.")
@click.option("--manifest", is_flag=True, help="Compare with the manifest beside the file.")
@click.option(
    "--plan", "plan_path", type=click.Path(path_type=Path), metavar="PLAN",
    help="Check that nothing of this plan is missing.",
)  # fmt: skip
@click.option("--strict", is_flag=True, help="Let what is suspicious fail, too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@jobs_option
@common_options
def verify(
    settings: Settings,
    files: tuple[Path, ...],
    gpu: str | None,
    manifest: bool,
    plan_path: Path | None,
    strict: bool,
    as_json: bool,
    jobs: int,
) -> int:
    """Check whether MIOpen can use kernel databases, and every record in them.

    Opens each file as MIOpen would and says which step fails, then unpacks all records and
    checks key, MD5, size, code object, target and kernels. For which GPUs a file is follows
    from its name. Nothing is written. What the code ought to be is not known here; `kdbforge kdb
    rebuild` compiles it again. Exit code 0: nothing is wrong; 1: something is fatal to
    MIOpen, never hits, or could not be checked; 2: a file could not be read.

    \b
    Example:
      kdbforge kdb verify out/gfx1030_40.kdb --manifest
      kdbforge kdb verify my.kdb --gpu gfx90a:xnack-/104 --strict --json
    """
    device = Device(resolve(gpu).target, exact=True) if gpu else None
    planned = _planned(plan_path, files, gpu) if plan_path else {}
    reports = [
        _verified(path, device, planned.get(path), jobs, manifest=manifest) for path in files
    ]
    if as_json:
        emit_json([_json(report, strict=strict) for report in reports])
    elif not settings.quiet:
        for report in reports:
            _print(report, verbose=settings.verbose)
    if not all(report.readable for report in reports):
        return 2
    return int(any(report.failing(strict=strict) for report in reports))


def _verified(
    path: Path,
    device: Device | None,
    planned: set[tuple[str, str]] | None,
    jobs: int,
    *,
    manifest: bool,
) -> Report:
    device = device or device_of_name(path.name.partition(".")[0], load_profiles())
    with progress_bar(f"Verifying {printable(path.name)}", None) as bar:
        report = verify_kdb(path, VerifyOptions(device, planned, jobs), progress=bar.set)
    if manifest and report.readable:
        found = [Finding(Level.SUSPICIOUS, "manifest", text) for text in _against_manifest(report)]
        counts = {**report.counts, (Level.SUSPICIOUS, "manifest"): len(found)} if found else None
        report = dataclasses.replace(
            report, findings=(*found, *report.findings), counts=counts or report.counts
        )
    return report


def _against_manifest(report: Report) -> list[str]:
    """How the file differs from what the manifest beside it says."""
    path = manifest_path(report.path)
    if not path.is_file():
        return [f"There is no manifest `{path.name}` beside it"]
    try:
        says = read_manifest(path)
        entry = next((file for file in says.files if file.name == report.path.name), None)
        if entry is None:
            return [f"`{path.name}` does not speak of it"]
        check_files(says)
    except (InputError, DatabaseError) as error:
        return ["; ".join((error.message, *error.context))]
    if entry.records != report.records:
        return [f"`{path.name}` says {entry.records} records; it has {report.records}"]
    return []


def _planned(
    path: Path, files: Sequence[Path], gpu: str | None
) -> dict[Path, set[tuple[str, str]]]:
    """For each file the keys that a plan has for it."""
    found = {}
    plan = read_plan(path)
    target = resolve(gpu) if gpu else None
    for file in files:
        stem = file.name.partition(".")[0]
        parts = [
            part
            for part in plan.gpus
            if (stem in (part.basename, part.db_id))
            or (target and (part.target, part.num_cu) == (str(target.target), target.num_cu))
        ]
        if not parts:
            known = ", ".join(sorted(part.basename for part in plan.gpus))
            raise InputError(f"`{path}` has nothing for `{file.name}`; it is for {known}")
        keys = {(record.kernel_name, record.kernel_args) for p in parts for record in p.records}
        found[file] = keys
    return found


def _print(report: Report, *, verbose: bool) -> None:
    click.echo(f"{printable(str(report.path))}: {printable(report.kind)}. {_FATES[report.fate]}")
    if verbose:
        for step in report.steps:
            state = "ok" if step.passed else "FAILED"
            click.echo(f"  {step.name:<10} {state:<6} {printable(step.detail)}")
    listed: dict[tuple[Level, str], int] = {}
    for finding in report.findings:
        kind = (finding.level, finding.check)
        listed[kind] = listed.get(kind, 0) + 1
        if verbose or listed[kind] <= _LISTED:
            click.echo(f"  {_line(finding)}")
    for kind, count in report.counts.items():
        more = count - (listed[kind] if verbose else min(listed[kind], _LISTED))
        if more:
            click.echo(f"  {_LABELS[kind[0]]}: [{kind[1]}] {more} more of these")
    noun = "record" if report.records == 1 else "records"
    click.echo(f"  {report.records} {noun}, {report.sound} can be found and loaded")


def _line(finding: Finding) -> str:
    where = ""
    if finding.record is not None:
        where = f"record {finding.record} {printable(finding.kernel)}: ".replace(" :", ":")
    return f"{_LABELS[finding.level]}: {where}{printable(finding.message)} [{finding.check}]"


def _json(report: Report, *, strict: bool) -> dict[str, Any]:
    return {
        "file": str(report.path),
        "kind": report.kind,
        "ok": report.readable and not report.failing(strict=strict),
        "readable": report.readable,
        "miopen": report.fate.value,
        "steps": [dataclasses.asdict(step) for step in report.steps],
        "records": report.records,
        "sound": report.sound,
        "counts": [
            {"level": _name(level), "check": check, "count": count}
            for (level, check), count in report.counts.items()
        ],
        "findings": [
            {
                "level": _name(finding.level),
                "check": finding.check,
                "record": finding.record,
                "kernel": finding.kernel,
                "message": finding.message,
            }
            for finding in report.findings
        ],
    }


def _name(level: Level) -> str:
    return level.name.lower().replace("_", "-")
