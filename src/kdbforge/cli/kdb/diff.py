"""`kdbforge kdb diff`: what sets two kernel databases apart."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from kdbforge.cli.console import emit_json
from kdbforge.cli.kdb.records import printable
from kdbforge.kdb.diff import Change, Difference, Side, diff_kdbs

__all__ = ["diff"]

_path = click.Path(path_type=Path)


@click.command("diff")
@click.argument("before", metavar="A", type=_path)
@click.argument("after", metavar="B", type=_path)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def diff(context: click.Context, before: Path, after: Path, *, as_json: bool) -> None:
    """Compare two kernel databases: LOST, GAINED and CHANGED records.

    Code objects are compared, not how they are packed. Exit code 0: the same; 1: different;
    2: trouble.

    \b
    Example:
      kdbforge kdb diff old/gfx1030_40.kdb out/gfx1030_40.kdb
      kdbforge kdb diff out/gfx1030_40.kdb ~/.cache/miopen/3.5.1/gfx1030_40.ukdb --json
    """
    found = diff_kdbs(before, after)
    if as_json:
        emit_json(_json(found))
    else:
        for line in _lines(found):
            click.echo(line)
    context.exit(1 if found else 0)


def _lines(found: Difference) -> Iterator[str]:
    for label, sides in (("LOST", found.lost), ("GAINED", found.gained)):
        for side in sides:
            yield f"{label:<7}  {_name(side)}"
            yield f"           object   {_object(side)}"
    for change in found.changed:
        yield f"CHANGED  {_name(change.before)}"
        yield from (f"           {line}" for line in _changes(change))
    yield (
        f"{len(found.lost)} lost, {len(found.gained)} gained, {len(found.changed)} changed, "
        f"{found.same} the same" + (f" ({found.repacked} packed anew)" if found.repacked else "")
    )
    yield (
        f"{found.rows[0]} -> {found.rows[1]} records, "
        f"{found.file_sizes[0]} -> {found.file_sizes[1]} bytes"
    )


def _changes(change: Change) -> Iterator[str]:
    one, other = change.before, change.after
    yield f"object   {one.object_size} -> {other.object_size} bytes"
    yield f"MD5      {printable(one.kernel_hash)} -> {printable(other.kernel_hash)}"
    for side, name in ((one, "A"), (other, "B")):
        if side.damage:
            yield f"damaged  in {name}: {printable(side.damage)}"
    if one.damage or other.damage:
        return
    for label, left, right in (
        ("target", one.targets, other.targets),
        ("version", one.versions, other.versions),
    ):
        if left != right:
            yield f"{label:<8} {_list(left)} -> {_list(right)}"
    words = [f"-{name}" for name in one.kernels if name not in other.kernels]
    words += [f"+{name}" for name in other.kernels if name not in one.kernels]
    if words:
        yield f"kernels  {printable(' '.join(words))}"


def _name(side: Side) -> str:
    return printable(f"{side.kernel_name}  {side.kernel_args.strip()}".rstrip())


def _object(side: Side) -> str:
    if side.damage:
        return f"damaged: {printable(side.damage)}"
    return (
        f"{side.object_size} bytes, {_list(side.targets)}, code object v{_list(side.versions)}, "
        f"{len(side.kernels)} kernels"
    )


def _list(values: tuple[object, ...]) -> str:
    return ", ".join(map(str, values))


def _json(found: Difference) -> dict[str, Any]:
    return {
        "different": bool(found),
        "lost": [dataclasses.asdict(side) for side in found.lost],
        "gained": [dataclasses.asdict(side) for side in found.gained],
        "changed": [dataclasses.asdict(change) for change in found.changed],
        "same": found.same,
        "repacked": found.repacked,
        "records": list(found.rows),
        "file_sizes": list(found.file_sizes),
    }
