"""`kdbforge kdb rebuild`: whether a stranger's database holds what its keys say."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from kdbforge import api
from kdbforge.cli.console import console, emit_json
from kdbforge.cli.kdb.records import kdb_argument, printable
from kdbforge.cli.observe import ConsoleObserver
from kdbforge.cli.options import Settings, common_options, jobs_option
from kdbforge.cli.problems import Asked, load_problems, suite_options
from kdbforge.compiler.report import Progress
from kdbforge.errors import InputError
from kdbforge.model.toolchain import Toolchain
from kdbforge.package.manifest import manifest_path, read_manifest
from kdbforge.planner.planfile import read_plan
from kdbforge.problems import SUITES
from kdbforge.problems.suites import PREFIX
from kdbforge.rebuild import RebuildObserver, RebuildOptions, RebuildReport, Rebuilt, Verdict

__all__ = ["rebuild"]

_path = click.Path(path_type=Path)
_LOOKING = "Looking for compile jobs"
#: Lines of a function's difference that are printed without -v.
_LINES = 30


class _Observer(ConsoleObserver, RebuildObserver):
    """Prints the stages of a rebuild on stderr."""

    def __init__(self) -> None:
        super().__init__()
        self._total = 0

    def deriving(self, found: int, total: int) -> None:
        self._total = total
        self._enter(_LOOKING, total).set(found, total)

    def trying(self, progress: Progress) -> None:
        names = ", ".join(progress.running)[:50]
        self._enter(_LOOKING, self._total).describe(f"Trying {names}" if names else _LOOKING)

    def comparing(self, done: int, total: int) -> None:
        self._enter("Comparing", total).set(done, total)


@click.command("rebuild")
@kdb_argument
@click.option(
    "--plan", "plans", multiple=True, type=_path, metavar="PLAN",
    help="A plan of your own whose compile jobs are used first. May be repeated.",
)  # fmt: skip
@click.option(
    "--from", "sources", multiple=True, metavar="SRC",
    help="Problems that may ask for the keys (default: all suites). May be repeated.",
)  # fmt: skip
@suite_options
@click.option("--gpu", metavar="GPU", help="Ask as this GPU, not as that of the file's name.")
@click.option(
    "--kernel", "kernels", multiple=True, metavar="GLOB",
    help="Only kernel files that fit, such as `naive_conv*`. May be repeated.",
)  # fmt: skip
@jobs_option
@click.option("--timeout", type=click.FloatRange(0.01), default=600.0, show_default=True,
              metavar="SECONDS", help="Wall time that one job may take.")  # fmt: skip
@click.option("--memory", type=click.FloatRange(0.1), metavar="GB",
              help="Memory that one job may allocate; no limit if not given.")  # fmt: skip
@click.option("--work-dir", type=_path, help="Folder for temporary files.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with all records.")
@common_options
def rebuild(
    settings: Settings,
    file: Path,
    plans: tuple[Path, ...],
    sources: tuple[str, ...],
    asked: Asked,
    gpu: str | None,
    kernels: tuple[str, ...],
    jobs: int,
    timeout: float,
    memory: float | None,
    work_dir: Path | None,
    as_json: bool,
) -> int:
    """Compile every record's key again, and compare with what the record holds.

    The toolchain's own kernel sources are compiled, for the target of the recorded object. The
    compile job of a key is found by asking libMIOpen about problems until it asks for the key;
    keys that none of them needs cannot be judged. docs/trust.md says what each verdict means.

    Exit code 0: all are identical, or the same code; 1: some are not; 2: the file or the
    toolchain cannot be used.

    \b
    Example:
      kdbforge kdb rebuild downloaded/gfx1030_40.kdb
      kdbforge kdb rebuild friend.ukdb --from my-problems.txt --gpu gfx90a_104 --json
    """
    options = RebuildOptions(
        workers=jobs,
        kernels=kernels,
        gpu=api.find_gpu(gpu) if gpu else None,
        timeout_s=timeout,
        memory_bytes=None if memory is None else int(memory * 1e9),
        **({"max_diffs": sys.maxsize} if settings.verbose else {}),
    )
    every_suite = [f"{PREFIX}{name}" for name in SUITES]
    toolchain = api.find_toolchain(settings.toolchain)
    _warn_of_toolchain(file, toolchain)
    with _Observer() as observer:
        report = api.rebuild(
            file,
            load_problems(sources or every_suite, asked),
            plans=[read_plan(path) for path in plans],
            toolchain=toolchain,
            store=api.open_store(settings.store, max_gb=settings.store_size),
            options=options,
            work_dir=work_dir,
            observer=observer,
        )
    if as_json:
        emit_json(_json(report))
    elif not settings.quiet:
        for line in _lines(report, verbose=settings.verbose):
            click.echo(line)
    return 0 if report.reproduced else 1


def _warn_of_toolchain(file: Path, toolchain: Toolchain) -> None:
    """Say if the manifest beside the file names another toolchain; nothing else is believed."""
    path = manifest_path(file)
    if not path.is_file():
        return
    try:
        made_with = read_manifest(path).toolchain
    except InputError as error:
        console.print(f"[yellow]warning:[/] {escape(error.message)}")
        return
    if made_with is not None and made_with.fingerprint != toolchain.fingerprint:
        console.print(
            f"[yellow]warning:[/] {escape(f'`{path.name}` says that it was built with ')}"
            + escape(f"`{made_with.name}`, which is not this toolchain; its code may be another")
        )


def _lines(report: RebuildReport, *, verbose: bool) -> Iterator[str]:
    for record in report.records:
        if verbose or record.verdict is not Verdict.IDENTICAL:
            yield from _record_lines(record, verbose=verbose)
    total = len(report.records)
    counts = ", ".join(f"{count} {v.value}" for v, count in report.counts.items() if count)
    yield (
        f"{printable(str(report.path))}: {total} record{'' if total == 1 else 's'}"
        f"{': ' if counts else ''}{counts} (toolchain {report.toolchain})"
    )


def _record_lines(record: Rebuilt, *, verbose: bool) -> Iterator[str]:
    name = printable(f"{record.kernel_name}  {record.kernel_args.strip()}")
    yield f"{record.verdict.value}: record {record.number}  {name}"
    for reason in record.reasons:
        yield f"    {printable(reason)}"
    if record.verdict is Verdict.NOT_REPRODUCIBLE:
        yield f"    kdbforge log {record.job[:16]}"
    for diff in record.diffs:
        yield f"    {printable(diff.name)}: - recorded, + rebuilt"
        limit = len(diff.lines) if verbose else _LINES
        yield from (f"      {printable(line)}" for line in diff.lines[:limit])
        if len(diff.lines) > limit:
            yield f"      and {len(diff.lines) - limit} more lines; -v shows all"
        if diff.note:
            yield f"      {printable(diff.note)}"


def _json(report: RebuildReport) -> dict[str, Any]:
    return {
        "file": str(report.path),
        "toolchain": report.toolchain,
        "reproduced": report.reproduced,
        "counts": {verdict.value: count for verdict, count in report.counts.items()},
        "records": [
            {
                **dataclasses.asdict(record),
                "verdict": record.verdict.value,
                "way": record.way.value if record.way else None,
            }
            for record in report.records
        ],
    }
