"""`kdbforge kdb info`: what is in a kernel database, at a glance."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from kdbforge.cli.console import emit_json
from kdbforge.cli.kdb.records import printable
from kdbforge.kdb.inspect import Part, Summary, open_kdb, summarize

__all__ = ["info"]


@click.command("info")
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def info(files: tuple[Path, ...], as_json: bool) -> None:
    """Say what is in kernel databases: counts, sizes, architectures, languages.

    Works on system (.kdb) and user (.ukdb) databases, and never writes to them. A few objects
    are unpacked to say what they were really compiled for; `kdb verify` checks all of them.

    \b
    Example:
      kdbforge kdb info out/gfx1030_40.kdb
      kdbforge kdb info ~/.cache/miopen/3.5.1/gfx1030_40.ukdb --json
    """
    summaries = []
    for path in files:
        with open_kdb(path) as kdb:
            summaries.append(summarize(kdb))
    if as_json:
        emit_json([_json(summary) for summary in summaries])
        return
    for number, summary in enumerate(summaries):
        if number:
            click.echo()
        lines = _lines(summary)
        width = max(len(label) for label, _ in lines)
        for label, value in lines:
            click.echo(f"{label:<{width}}  {value}")


def _lines(summary: Summary) -> list[tuple[str, str]]:
    facts = summary.facts
    packed = summary.records - summary.plain
    ratio = f", {summary.object_size / summary.stored_size:.1f} : 1" if summary.stored_size else ""
    lines = [
        ("file", printable(str(facts.path))),
        ("file size", _size(facts.size)),
        ("journal mode", facts.journal_mode),
        ("side files", ", ".join(map(printable, facts.side_files)) or "none"),
        ("written by", f"SQLite {facts.sqlite_version}, pages of {facts.page_size} bytes"),
        ("records", f"{summary.records} of {summary.kernel_files} kernel files"),
        ("code objects", f"{summary.objects} different"),
        ("stored", f"{_size(summary.stored_size)} of {_size(summary.object_size)}{ratio}"),
        ("compression", f"{packed} bzip2, {summary.plain} plain"),
        ("architectures", _parts(summary.architectures, "no -mcpu")),
        ("languages", _parts(summary.languages, "")),
    ]
    if summary.sampled:
        lines.append((f"in {summary.sampled} samples", _samples(summary)))
    return lines


def _samples(summary: Summary) -> str:
    parts = [f"{name} ({count})" for name, count in summary.targets.items()]
    parts += [f"code object v{name} ({count})" for name, count in summary.versions.items()]
    if summary.unreadable:
        parts.append(f"unreadable ({summary.unreadable})")
    return ", ".join(parts)


def _parts(parts: Mapping[str, Part], unnamed: str) -> str:
    return ", ".join(
        f"{printable(name[:100]) or unnamed} ({part.records}, {_size(part.stored_size)})"
        for name, part in parts.items()
    ) or "none"  # fmt: skip


def _json(summary: Summary) -> dict[str, Any]:
    facts = summary.facts
    return {
        "file": str(facts.path),
        "file_size": facts.size,
        "page_size": facts.page_size,
        "journal_mode": facts.journal_mode,
        "side_files": list(facts.side_files),
        "sqlite_version": facts.sqlite_version,
        "records": summary.records,
        "kernel_files": summary.kernel_files,
        "code_objects": summary.objects,
        "stored_size": summary.stored_size,
        "object_size": summary.object_size,
        "plain": summary.plain,
        "architectures": _parts_json(summary.architectures),
        "languages": _parts_json(summary.languages),
        "sampled": summary.sampled,
        "targets": dict(summary.targets),
        "code_object_versions": {str(name): count for name, count in summary.versions.items()},
        "unreadable": summary.unreadable,
    }


def _parts_json(parts: Mapping[str, Part]) -> dict[str, dict[str, int]]:
    return {
        name: {"records": part.records, "stored_size": part.stored_size}
        for name, part in parts.items()
    }


def _size(size: int) -> str:
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} bytes"
