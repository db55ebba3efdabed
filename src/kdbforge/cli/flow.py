"""The commands of the main flow: build, plan, compile, prove, and the compiler's log."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from kdbforge import api
from kdbforge.build import BuildOptions
from kdbforge.cli.console import console, emit_json
from kdbforge.cli.observe import ConsoleObserver, describe_estimate
from kdbforge.cli.options import (
    Settings,
    common_options,
    gpu_option,
    jobs_option,
    policy_options,
)
from kdbforge.cli.problems import Asked, load_problems, problem_options, suite_options
from kdbforge.cli.reports import (
    build_json,
    plan_json,
    print_build,
    print_compile,
    print_proofs,
    print_unplanned,
)
from kdbforge.errors import InputError
from kdbforge.files import host_errors
from kdbforge.kdb.verify_kind import file_kind
from kdbforge.model.device import Gpu
from kdbforge.model.policy import Policy, find_policy
from kdbforge.planner.estimate import estimate
from kdbforge.planner.planfile import read_plan, write_plan

__all__ = ["build", "compile_", "log", "plan", "prove"]

_output = click.Path(path_type=Path)
_limits = (
    click.option("--timeout", type=click.FloatRange(0.01), default=600.0, show_default=True,
                 metavar="SECONDS", help="Wall time that one job may take."),
    click.option("--memory", type=click.FloatRange(0.1), metavar="GB",
                 help="Memory that one job may allocate; no limit if not given."),
    click.option("--work-dir", type=_output, help="Folder for temporary files."),
)  # fmt: skip


def _limit_options(function: Any) -> Any:
    for option in reversed(_limits):
        function = option(function)
    return function


def _options(
    policy: Policy,
    jobs: int,
    timeout: float,
    memory: float | None,
    work_dir: Path | None,
    **more: Any,
) -> BuildOptions:
    return BuildOptions(
        policy,
        workers=jobs,
        timeout_s=timeout,
        memory_bytes=None if memory is None else int(memory * 1e9),
        work_dir=work_dir,
        **more,
    )


def _resolve(names: tuple[str, ...]) -> tuple[Gpu, ...]:
    gpus = api.find_gpus(names)
    for gpu in gpus:
        for warning in gpu.warnings:
            console.print(f"[yellow]warning:[/] {escape(warning)}")
    return gpus


@click.command()
@problem_options
@gpu_option
@click.option("-o", "--output", required=True, type=_output, help="Folder for the databases.")
@policy_options
@jobs_option
@click.option("--per-arch", is_flag=True, help="One database per architecture, for every CU count.")
@click.option("--no-prove", is_flag=True, help="Do not replay the problems at the end.")
@click.option("--json", "as_json", is_flag=True, help="Report as JSON on stdout.")
@_limit_options
@common_options
def build(
    settings: Settings,
    sources: tuple[str, ...],
    asked: Asked,
    gpus: tuple[str, ...],
    output: Path,
    policy: Policy,
    jobs: int,
    per_arch: bool,
    no_prove: bool,
    as_json: bool,
    **limits: Any,
) -> int:
    """Build and prove a kernel database for every GPU.

    SRC is a file of MIOpenDriver lines or a MIOpen log, `-` for standard input, a network
    (`.onnx`), or a suite such as `suite:resnet50`. An interrupted build goes on where it was when
    it is run again.

    Exit code: 0 all built and proven, 1 partly, 2 nothing could be done.

    \b
    Example:
      kdbforge build suite:resnet50 --gpu gfx1030_40 --gpu gfx906_60 -o out
    """
    options = _options(policy, jobs, per_arch=per_arch, prove=not no_prove, **limits)
    toolchain = api.find_toolchain(settings.toolchain)
    problems = load_problems(sources, asked)
    with ConsoleObserver() as observer:
        report = api.build(
            problems,
            _resolve(gpus),
            output,
            toolchain=toolchain,
            store=api.open_store(settings.store, max_gb=settings.store_size),
            options=options,
            observer=observer,
        )
    print_build(report, verbose=settings.verbose)
    if as_json:
        emit_json(build_json(report))
    return 0 if report.complete and problems.complete else 1


@click.command()
@problem_options
@gpu_option
@click.option("-o", "--output", type=_output, help="Write the plan to this file.")
@policy_options
@jobs_option
@click.option("--work-dir", type=_output, help="Folder for temporary files.")
@click.option("--json", "as_json", is_flag=True, help="Summary as JSON on stdout.")
@common_options
def plan(
    settings: Settings,
    sources: tuple[str, ...],
    asked: Asked,
    gpus: tuple[str, ...],
    output: Path | None,
    policy: Policy,
    jobs: int,
    work_dir: Path | None,
    as_json: bool,
) -> int:
    """Find out what MIOpen would compile, without compiling it.

    The plan file holds all inputs of all jobs; `kdbforge compile` needs nothing else.

    \b
    Example:
      kdbforge plan suite:resnet50 --gpu gfx1030_40 -o resnet50.kdbplan
    """
    problems = load_problems(sources, asked)
    with ConsoleObserver() as observer:
        made = api.plan(
            problems,
            _resolve(gpus),
            toolchain=api.find_toolchain(settings.toolchain),
            policy=policy,
            workers=jobs,
            observer=observer,
            work_dir=work_dir or (output.parent if output else None),
        )
    if output:
        write_plan(made, output)
    observer.planned(made)
    expected = estimate(made, api.open_store(settings.store, max_gb=settings.store_size))
    console.print(describe_estimate(expected))
    failed = print_unplanned(made, verbose=settings.verbose)
    if as_json:
        emit_json({**plan_json(made), "estimate": dataclasses.asdict(expected)})
    return 1 if failed or not problems.complete else 0


@click.command("compile")
@click.argument("plan_file", metavar="PLAN", type=_output)
@jobs_option
@_limit_options
@common_options
def compile_(settings: Settings, plan_file: Path, jobs: int, **limits: Any) -> int:
    """Compile what the store lacks of a plan's jobs.

    \b
    Example:
      kdbforge compile resnet50.kdbplan -j 8
    """
    made = read_plan(plan_file)
    with ConsoleObserver() as observer:
        report = api.compile_jobs_of(
            made,
            toolchain=api.find_toolchain(settings.toolchain),
            store=api.open_store(settings.store, max_gb=settings.store_size),
            observer=observer,
            options=_options(find_policy(made.policy), jobs, **limits),
        )
    print_compile(report, verbose=settings.verbose)
    return 1 if report.failures else 0


@click.command()
@click.argument("inputs", nargs=-1, required=True, metavar="KDB... SRC...")
@suite_options
@gpu_option
@policy_options
@click.option("--work-dir", type=_output, help="Folder for temporary files.")
@click.option("--json", "as_json", is_flag=True, help="Report as JSON on stdout.")
@common_options
def prove(
    settings: Settings,
    inputs: tuple[str, ...],
    asked: Asked,
    gpus: tuple[str, ...],
    policy: Policy,
    work_dir: Path | None,
    as_json: bool,
) -> int:
    """Replay problems with databases installed and the compiler forbidden.

    Arguments that end in .kdb are databases, the others are sources of problems. Databases are
    looked up under their own names, as the library does it.

    \b
    Example:
      kdbforge prove out/gfx1030_40.kdb suite:resnet50 --gpu gfx1030_40
    """
    kdbs = [Path(name) for name in inputs if name.endswith(".kdb")]
    sources = [name for name in inputs if not name.endswith(".kdb")]
    if not kdbs or not sources:
        missing = "database (*.kdb)" if not kdbs else "source of problems"
        raise InputError(f"No {missing} among the arguments", hint="see `kdbforge prove --help`")
    for path in kdbs:
        _warn_of_another_kind(path)
    proofs = api.prove(
        kdbs,
        load_problems(sources, asked),
        _resolve(gpus),
        policy=policy,
        work_dir=work_dir,
        toolchain=api.find_toolchain(settings.toolchain),
    )
    print_proofs(proofs, verbose=settings.verbose)
    if as_json:
        emit_json([dataclasses.asdict(proof) for proof in proofs])
    return 0 if all(proof.proven for proof in proofs) else 1


def _warn_of_another_kind(path: Path) -> None:
    """Say what a file really is; what libMIOpen makes of it the proof shows."""
    with host_errors(f"read `{path}`"), path.open("rb") as file:
        start = file.read(4096)
        kind = file_kind(start, os.fstat(file.fileno()).st_size)
    if not kind.database:
        console.print(f"[yellow]warning:[/] {escape(f'`{path}` is {kind.words}')}")


@click.command()
@click.argument("job")
@common_options
def log(settings: Settings, job: str) -> int:
    """Show what the compiler said about a job; JOB is its key or the start of it.

    \b
    Example:
      kdbforge log 3f9a
    """
    store = api.open_store(settings.store, max_gb=settings.store_size)
    keys = store.find(job)
    if len(keys) != 1:
        known = "no job" if not keys else f"{len(keys)} jobs"
        raise InputError(f"`{job}` names {known} in the store `{store.root}`")
    click.echo(store.log(keys[0]) or "(the compiler said nothing)")
    return 0
