"""Prints what a plan, a compile run, a build or a proof came to."""

from __future__ import annotations

import dataclasses
from typing import Any

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

#: How many misses, failures and the like are listed before "and N more".
_LIST_LIMIT = 20


def print_build(report: BuildReport) -> None:
    print_unplanned(report.plan)
    print_compile(report.compile)
    print_proofs(report.proofs)
    for database in report.databases:
        lacks = f", {len(database.missing)} missing" if database.missing else ""
        size = database.path.stat().st_size
        console.print(f"{database.path}: {database.records} records, {size / 1e6:.2f} MB{lacks}")
    for name, value in report.plan.environment.items():
        console.print(f"The user must set {name}={value} (see the manifest)")


def print_compile(report: CompileReport) -> None:
    console.print(
        f"{report.compiled} jobs compiled in {report.wall_seconds:.1f} s "
        f"({report.cpu_seconds:.1f} s of CPU time), {report.found} found in the store, "
        f"{report.deduplicated} the same as another"
    )
    for failure in report.failures[:_LIST_LIMIT]:
        console.print(f"[red]failed:[/] {failure.kernel_file} ({failure.reason})")
        console.print(f"  kdbforge log {failure.key[:16]}", markup=False)
    _print_more(len(report.failures))


def print_unplanned(made: Plan) -> int:
    count = 0
    for gpu in made.gpus:
        count += len(gpu.unplanned) + len(gpu.unstable)
        for entry in gpu.unplanned[:_LIST_LIMIT]:
            line = driver_line(made.problems[entry.problem])
            console.print(f"[yellow]not planned[/] on {gpu.basename}, {entry.call}: {line}")
            for text in (entry.reason, *entry.log.splitlines()[-2:]):
                console.print(f"  {text}", markup=False)
        _print_more(len(gpu.unplanned))
        for key in gpu.unstable[:_LIST_LIMIT]:
            console.print(f"[yellow]unstable key[/] on {gpu.basename}: {key.kernel_name}")
        _print_more(len(gpu.unstable))
    return count


def print_proofs(proofs: tuple[Proof, ...]) -> None:
    for proof in proofs:
        verdict = "[green]proven[/]" if proof.proven else "[red]not proven[/]"
        console.print(
            f"{proof.gpu} {verdict}: {proof.problems} problems, {proof.hits} hits, "
            f"{len(proof.misses)} misses, {len(proof.errors)} errors, {proof.seconds:.1f} s"
        )
        for miss in proof.misses[:_LIST_LIMIT]:
            console.print(f"  miss: {miss.kernel_file} for {miss.problem} ({miss.call})")
        _print_more(len(proof.misses))
        for error in proof.errors[:_LIST_LIMIT]:
            console.print(f"  error: {error}", markup=False)
        _print_more(len(proof.errors))


def _print_more(count: int) -> None:
    if count > _LIST_LIMIT:
        console.print(f"  and {count - _LIST_LIMIT} more")


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
