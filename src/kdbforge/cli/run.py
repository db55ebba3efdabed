"""`kdbforge run`: any program on virtual GPUs."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from kdbforge import api
from kdbforge.build import work_folder
from kdbforge.cli.console import console
from kdbforge.cli.options import Settings, common_options, gpu_option
from kdbforge.runner.run import RunOptions, RunReport, run_program
from kdbforge.vgpu.process import CompileMode, MemoryMode

__all__ = ["run"]

_path = click.Path(path_type=Path)
_LIST_LIMIT = 20


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@gpu_option
@click.option(
    "--collect-problems",
    "problems",
    type=_path,
    metavar="FILE",
    help="Write every MIOpen call as a driver line, each once with its count.",
)
@click.option(
    "--capture",
    type=_path,
    metavar="FILE",
    help="Write the compile jobs as a plan, for `kdbforge compile`.",
)
@click.option(
    "--compile",
    "mode",
    type=click.Choice([mode.value for mode in CompileMode]),
    default=CompileMode.CAPTURE.value,
    show_default=True,
    help="What becomes of a kernel to compile: noted and left out, really compiled, or refused.",
)
@click.option(
    "--kdb", type=_path, metavar="DIR", help="Let MIOpen find the kernel databases of this folder."
)
@click.option(
    "--keep-cache",
    "cache",
    type=_path,
    metavar="DIR",
    help="Keep MIOpen's user databases in this folder.",
)
@click.option(
    "--memory",
    type=click.Choice([mode.value for mode in MemoryMode]),
    default=MemoryMode.BACKED.value,
    show_default=True,
    help="What is behind device memory: host memory, or addresses only.",
)
@click.option(
    "--library-path",
    type=_path,
    multiple=True,
    metavar="DIR",
    help="Where to find more of the program's libraries; may be repeated.",
)
@click.option("--work-dir", type=_path, help="Folder for temporary files.")
@click.argument(
    "command", nargs=-1, required=True, metavar="-- PROGRAM [ARGS]...", type=click.UNPROCESSED
)
@common_options
def run(
    settings: Settings,
    gpus: tuple[str, ...],
    command: tuple[str, ...],
    mode: str,
    memory: str,
    work_dir: Path | None,
    **files: Any,
) -> int:
    """Run a program on virtual GPUs: no kernel runs, and nothing else is different.

    PROGRAM is a path, one of the toolchain's own programs such as MIOpenDriver, or a program in
    PATH. HIP numbers the GPUs in the order given. What the program compiles through MIOpen, HIPRTC
    or COMGR is captured, and it gets as many results as it reads: numbers mean nothing.

    Exit code: the program's own, 128 and the number of the signal that ended it; 2 if it could
    not be started.

    \b
    Example:
      kdbforge run --gpu gfx1030_40 --collect-problems p.txt -- MIOpenDriver conv -n 8 -c 64
    """
    options = RunOptions(mode=CompileMode(mode), memory=MemoryMode(memory), **files)
    resolved = [api.find_gpu(name) for name in gpus]
    for gpu in resolved:
        for warning in gpu.warnings:
            console.print(f"[yellow]warning:[/] {escape(warning)}")
    toolchain = api.find_toolchain(settings.toolchain)
    with work_folder(work_dir or Path(tempfile.gettempdir())) as work:
        report = run_program(toolchain, resolved, command, options, work)
    _print(report, options, verbose=settings.verbose)
    return report.exit_code


def _print(report: RunReport, options: RunOptions, *, verbose: bool) -> None:
    if options.problems is not None:
        calls = sum(report.calls.values())
        _say(f"{options.problems}: {len(report.calls)} driver lines of {calls} MIOpen calls")
    if report.plan is not None:
        records = sum(len(gpu.records) for gpu in report.plan.gpus)
        _say(f"{options.capture}: {len(report.plan.jobs)} jobs for {records} records")
    refused = report.journal.forbidden
    if refused:
        _say(f"{len(refused)} compilations were refused")
    limit = len(refused) if verbose else _LIST_LIMIT
    for entry in refused[:limit]:
        _say(f"  {entry.kernel_file} for {entry.isa}")
    if len(refused) > limit:
        _say(f"  and {len(refused) - limit} more; -v lists all")


def _say(text: str) -> None:
    console.print(escape(text))
