"""Prints what a plan, a compile run, a build or a proof came to."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from rich.markup import escape

from kdbforge.build import BuildReport
from kdbforge.cli.console import console
from kdbforge.compiler.report import CompileReport
from kdbforge.model.plan import Plan
from kdbforge.model.proof import Proof
from kdbforge.problems import driver_line

__all__ = [
    "build_json",
    "plan_json",
    "print_build",
    "print_compile",
    "print_proofs",
    "print_unplanned",
]

#: How many misses, failures and the like are listed before "and N more"; all of them with -v.
_LIST_LIMIT = 20
T = TypeVar("T")


def print_build(report: BuildReport, *, verbose: bool) -> None:
    """What was not planned, compiled and proven, then the files, then what the user must set."""
    print_unplanned(report.plan, verbose=verbose)
    print_compile(report.compile, verbose=verbose)
    print_proofs(report.proofs, verbose=verbose)
    for database in report.databases:
        lacks = f", {len(database.missing)} missing" if database.missing else ""
        size = database.path.stat().st_size
        _say(f"{database.path}: {database.records} records, {size / 1e6:.2f} MB{lacks}")
    for name, value in report.plan.environment.items():
        _say(f"The user must set {name}={value} (see the manifest)")


def print_compile(report: CompileReport, *, verbose: bool) -> None:
    """Counts and times, and every failed job with the command that shows its log."""
    _say(
        f"{report.compiled} jobs compiled in {report.wall_seconds:.1f} s "
        f"({report.cpu_seconds:.1f} s of CPU time), {report.found} found in the store, "
        f"{report.deduplicated} the same as another"
    )
    for failure in _some(report.failures, verbose=verbose):
        _say(f"{failure.kernel_file} ({failure.reason})", "[red]failed:[/] ")
        _say(f"  kdbforge log {failure.key[:16]}")


def print_unplanned(made: Plan, *, verbose: bool) -> int:
    """Problems that MIOpen could not run, and unstable keys; returns the number that failed."""
    count = 0
    for gpu in made.gpus:
        absent = Counter(entry.absent for entry in gpu.unplanned if entry.absent)
        for name, times in sorted(absent.items()):
            problems = f"{times} problem" + "s" * (times > 1)
            _say(f" from this libMIOpen: {name}, for {problems}", "[yellow]absent[/]")
        failures = frozenset(gpu.failures)
        count += len(failures)
        told = [entry for entry in gpu.unplanned if not entry.absent]
        for entry in _some(told, verbose=verbose):
            line = driver_line(made.problems[entry.problem])
            label = "[red]not planned[/]" if entry in failures else "[yellow]no solution[/]"
            _say(f" on {gpu.basename}, {entry.call}: {line}", label)
            log = entry.log.splitlines()
            for text in (entry.reason, *(log if verbose else log[-2:])):
                _say(f"  {text}")
        for key in _some(gpu.unstable, verbose=verbose):
            args = f" {key.kernel_args}" if verbose else ""
            _say(f" on {gpu.basename}: {key.kernel_name}{args}", "[yellow]unstable key[/]")
    return count


def print_proofs(proofs: Sequence[Proof], *, verbose: bool) -> None:
    """A verdict for every GPU, and what it rests on."""
    for proof in proofs:
        verdict = "[green]proven[/]" if proof.proven else "[red]not proven[/]"
        console.print(
            f"{proof.gpu} {verdict}: {proof.problems} problems, {proof.hits} hits, "
            f"{len(proof.misses)} misses, {len(proof.errors)} errors, {proof.seconds:.1f} s"
        )
        for name in sorted({miss.kernel_file for miss in proof.unstable}):
            _say(f"  unstable key: {name} is compiled anew in every process")
        for miss in _some(proof.misses, verbose=verbose):
            options = f" {miss.options}" if verbose else ""
            _say(f"  miss: {miss.kernel_file}{options} for {miss.problem} ({miss.call})")
        for error in _some(proof.errors, verbose=verbose):
            _say(f"  error: {error}")


def _say(text: str, label: str = "") -> None:
    """Print a line; only the label may have markup."""
    console.print(label + escape(text))


def _some(items: Sequence[T], *, verbose: bool) -> Iterator[T]:
    """The items, or the first of many and how many more there are."""
    limit = len(items) if verbose else _LIST_LIMIT
    yield from items[:limit]
    if len(items) > limit:
        _say(f"  and {len(items) - limit} more; -v lists all")


def plan_json(made: Plan) -> dict[str, Any]:
    return {
        "toolchain": dataclasses.asdict(made.toolchain),
        "policy": made.policy,
        "environment": dict(made.environment),
        "problems": len(made.problems),
        "jobs": len(made.jobs),
        "gpus": [
            {
                "requested": gpu.requested,
                "target": gpu.target,
                "num_cu": gpu.num_cu,
                "basename": gpu.basename,
                "records": len(gpu.records),
                "unplanned": [dataclasses.asdict(entry) for entry in gpu.unplanned],
                "unstable": [dataclasses.asdict(key) for key in gpu.unstable],
            }
            for gpu in made.gpus
        ],
    }


def build_json(report: BuildReport) -> dict[str, Any]:
    return {
        "plan": plan_json(report.plan),
        "compile": dataclasses.asdict(report.compile),
        "databases": [
            {
                "path": str(database.path),
                "records": database.records,
                "missing": [dataclasses.asdict(record) for record in database.missing],
            }
            for database in report.databases
        ],
        "proofs": [dataclasses.asdict(proof) for proof in report.proofs],
        "complete": report.complete,
    }
