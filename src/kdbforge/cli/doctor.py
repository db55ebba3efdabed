"""`kdbforge doctor`: what MIOpen looks for on this machine, and why it would not find it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from kdbforge.cli.console import console, emit_json
from kdbforge.cli.options import Settings, common_options
from kdbforge.model.device import Gpu
from kdbforge.package.doctor import Diagnosis, LibraryReport, diagnose
from kdbforge.package.host import Finding, Host
from kdbforge.package.libraries import host_places
from kdbforge.toolchain import describe
from kdbforge.vgpu.profiles import expected_files, resolve

__all__ = ["doctor"]


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[PATH...]")
@click.option("--gpu", metavar="GPU", help="The GPU to look for.  [default: that of this machine]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@common_options
def doctor(settings: Settings, paths: tuple[Path, ...], gpu: str | None, as_json: bool) -> int:
    """Say which kernel databases every libMIOpen here opens, and why it would find none.

    Looks at each PATH (a libMIOpen, or a folder such as /opt/rocm), or else at all libMIOpen of
    the system, of /opt/rocm* and of the active Python environment. Each is run on a virtual GPU;
    nothing is changed. The exit code is 1 if there is anything worse than a note.

    \b
    Example:
      kdbforge doctor
      kdbforge doctor /opt/rocm --gpu gfx1030_40
    """
    chosen = resolve(gpu) if gpu else None
    if settings.toolchain and not paths:
        paths = (describe(settings.toolchain).folder or Path(settings.toolchain),)
    found = diagnose(paths, chosen, Host(), host_places())
    if as_json:
        emit_json(_json(found))
    else:
        _print(found)
    if chosen:
        for warning in chosen.warnings:
            console.print(f"[bold yellow]warning:[/] {escape(warning)}")
    return 0 if found.healthy else 1


def _print(found: Diagnosis) -> None:
    if found.gpu is not None:
        names = " and then ".join(expected_files(found.gpu))
        click.echo(f"GPU as MIOpen sees it: {found.gpu}; its system database is {names}")
    for finding in found.findings:
        _print_finding(finding, "")
    for report in found.libraries:
        click.echo(f"{report.path}:")
        for label, value in _facts(report, found.gpu):
            click.echo(f"  {label}: {value}")
        for finding in report.findings:
            _print_finding(finding, "  ")


def _facts(report: LibraryReport, gpu: Gpu | None) -> list[tuple[str, str]]:
    facts = []
    if report.library:
        version, build_id = report.library.miopen_version, report.library.build_id
        facts.append(("MIOpen", f"{version}, build ID {build_id or 'none'}"))
        facts.append(("system databases", str(report.folder or "unknown")))
    if gpu is not None:
        facts.append(("opens", str(report.opens or "no system database")))
    if report.lookup:
        facts.append(("before it", str(report.lookup.user or "no user database")))
    return facts


def _print_finding(finding: Finding, indent: str) -> None:
    click.echo(f"{indent}{finding.level}: {finding.what}")
    if finding.why:
        click.echo(f"{indent}  why: {finding.why}")
    if finding.hint:
        click.echo(f"{indent}  hint: {finding.hint}")


def _json(found: Diagnosis) -> dict[str, Any]:
    return {
        "gpu": None if found.gpu is None else str(found.gpu),
        "healthy": found.healthy,
        "findings": [dataclasses.asdict(finding) for finding in found.findings],
        "libraries": [_report_json(report) for report in found.libraries],
    }


def _report_json(report: LibraryReport) -> dict[str, Any]:
    library, lookup = report.library, report.lookup
    return {
        "path": str(report.path),
        "build_id": library and library.build_id,
        "miopen_version": library and library.miopen_version,
        "embedded": library and library.embedded,
        "runs_here": library is not None and library.toolchain is not None,
        "reason": library and library.reason,
        "system_folder": report.folder and str(report.folder),
        "opens": report.opens and str(report.opens),
        "user_database": None if lookup is None or lookup.user is None else str(lookup.user),
        "basename": lookup and lookup.basename,
        "findings": [dataclasses.asdict(finding) for finding in report.findings],
    }
