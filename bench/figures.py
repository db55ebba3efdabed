"""The figures: each a number, and the goal that it must reach; all are ratios or counts."""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kdbforge import api, find_gpu
from kdbforge.miopen.replay import Outcome
from kdbforge.model.policy import POLICIES
from kdbforge.problems import load
from kdbforge.vgpu.process import CompileMode
from lab import WORKERS, Build, Lab

__all__ = ["FIGURES", "Figure"]

#: GPUs with a find-db of their own, one of each of three architectures.
GPUS = {"gfx1030_36": "gfx1030_36", "gfx906_60": "gfx906_60", "gfx90a68": "gfx90a/104"}
#: A CU count of the same architecture for which nothing was asked.
OTHER_CU = {"gfx1030_36": "gfx1030/30", "gfx906_60": "gfx906/56", "gfx90a68": "gfx90a/110"}


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value; `goal` is empty where it is for information."""

    name: str
    value: float
    unit: str
    goal: str = ""
    passed: bool = True


def at_most(name: str, value: float, goal: float, unit: str = "") -> Figure:
    return Figure(name, value, unit, f"<= {goal:g}", value <= goal)


def at_least(name: str, value: float, goal: float, unit: str = "") -> Figure:
    return Figure(name, value, unit, f">= {goal:g}", value >= goal)


def compile_efficiency(lab: Lab) -> Iterator[Figure]:
    """Wall time of compiling x workers / CPU time of the jobs, from an empty store."""
    report = lab.timed_build().report.compile
    ratio = report.wall_seconds * WORKERS / report.cpu_seconds
    yield at_most("compile: wall x workers / CPU time", ratio, 1.10)


def planning_rate(lab: Lab) -> Iterator[Figure]:
    """Problems planned in a second on one core; each is run twice, and counted once."""
    cores = os.sched_getaffinity(0)
    for name in ("gfx1030_36", "gfx906_60", "gfx90a68", "gfx1030_40"):
        os.sched_setaffinity(0, {min(cores)})
        started = time.monotonic()
        api.plan(lab.problems, [name], toolchain=lab.toolchain, workers=1, work_dir=lab.folder)
        rate = len(lab.problems) / (time.monotonic() - started)
        os.sched_setaffinity(0, cores)
        if name in GPUS:
            yield at_least(f"planning on one core, {name}", rate, 40, "problems/s")
        else:  # no find-db, so MIOpen loads a model of 50 MB of JSON, twice
            yield Figure(f"planning on one core, {name} (no find-db)", rate, "problems/s")


def first_run(lab: Lab) -> Iterator[Figure]:
    """Time in MIOpen's calls for the network's problems, without and with the database."""
    gpu, database = "gfx1030_36", lab.timed_build().report.databases[0]
    without = lab.by_itself(gpu, "normal")
    with_kdb = lab.run(find_gpu(gpu), "normal", CompileMode.FORBID, [database.path])
    # A call that fails is fast as well.
    assert not any(outcome.error for outcome in (*without.outcomes, *with_kdb.outcomes))
    ratio = in_calls(without.outcomes) / in_calls(with_kdb.outcomes)
    yield at_least("first run without / with the database, in MIOpen's calls", ratio, 100)
    yield Figure("the same, whole processes", without.seconds / with_kdb.seconds, "")


def in_calls(outcomes: tuple[Outcome, ...]) -> float:
    return sum(outcome.seconds for outcome in outcomes)


def whole_build(lab: Lab) -> Iterator[Figure]:
    """libMIOpen compiling for itself, one GPU after the other, against a build with proof."""
    alone = [lab.by_itself(gpu, "normal").seconds for gpu in ("gfx1030_36", "gfx1030_40")]
    seconds = lab.timed_build().seconds
    yield at_least("libMIOpen by itself / whole build, two GPUs", sum(alone) / seconds, 3)
    # A bound, not a run: two that share the machine would not be faster than the slower one alone.
    yield Figure("the same, at least, with a core for each GPU at once", max(alone) / seconds, "")


def same_records(lab: Lab) -> Iterator[Figure]:
    """Records that equal in every column but id those that libMIOpen writes by itself."""
    for policy in ("default", "normal"):
        built = lab.build(list(GPUS), policy, store=lab.shared_store)
        for name, gpu in GPUS.items():
            own, ours = lab.own_records(gpu, policy), built.records(name)
            different = sum(own.get(key) != ours.get(key) for key in own.keys() | ours.keys())
            title = f"records unlike MIOpen's own, {name}, {policy}, of {len(own)}"
            yield at_most(title, different, 0)


def misses(lab: Lab) -> Iterator[Figure]:
    """Compilations that the real library still asks for, in a process of its own."""
    for policy in POLICIES:
        built = lab.build(list(GPUS), policy, store=lab.shared_store)
        for proof in built.report.proofs:
            count = len(proof.misses) + len(proof.errors)
            yield at_most(f"misses, {proof.gpu}, {policy}, {proof.hits} hits", count, 0)
        per_arch = lab.build(list(GPUS), policy, store=lab.shared_store, per_arch=True)
        for name, other in OTHER_CU.items():
            count = missed(lab, per_arch, name, other, policy)
            yield at_most(f"misses, {other}, {policy}, --per-arch", count, 0)


def missed(lab: Lab, built: Build, name: str, other: str, policy: str) -> int:
    """Misses and errors of a GPU of another CU count with the architecture's database."""
    arch = other.split("/", maxsplit=1)[0]
    path = next(d.path for d in built.report.databases if d.path.stem == arch)
    (proof,) = api.prove(
        [path], lab.problems, [other], toolchain=lab.toolchain, policy=policy, work_dir=lab.folder
    )
    assert proof.hits, name
    return len(proof.misses) + len(proof.errors)


def reproducible(lab: Lab) -> Iterator[Figure]:
    """Files that differ between two builds with other -j, folders and empty stores."""
    first, second = (
        digests(lab.build(list(GPUS), "default", workers=workers)) for workers in (1, WORKERS)
    )
    different = sum(first.get(name) != second.get(name) for name in first.keys() | second.keys())
    yield at_most(f"files that differ between two builds, of {len(first)}", different, 0)


def digests(built: Build) -> dict[str, str]:
    """SHA-256 of every file that a build put out."""
    folder: Path = built.report.databases[0].path.parent
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def log_rate(lab: Lab) -> Iterator[Figure]:
    """Lines of a level-6 log read in a second of one core, and CPU time against `grep -c`."""
    log = lab.long_log(lines=1_000_000)
    started = time.process_time()
    found = load([str(log.path)])
    seconds = time.process_time() - started
    assert len(found) == log.problems
    before = os.times()
    subprocess.run(["grep", "-c", "MIOpenDriver", str(log.path)], check=True, capture_output=True)
    after = os.times()
    grep = sum(after[2:4]) - sum(before[2:4])  # user and system time of children
    rate = log.lines / seconds / 1000
    yield at_least("lines of a level-6 log read on one core", rate, 100, "thousand/s")
    yield Figure(f"the same, CPU time / `grep -c`, {log.lines:,} lines", seconds / grep, "")


FIGURES: dict[str, Callable[[Lab], Iterator[Figure]]] = {
    "planning-rate": planning_rate,
    "compile-efficiency": compile_efficiency,
    "first-run": first_run,
    "whole-build": whole_build,
    "same-records": same_records,
    "misses": misses,
    "reproducible": reproducible,
    "log-rate": log_rate,
}
