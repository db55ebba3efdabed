"""Shows how far a build is, as bars on a terminal and as one line per stage elsewhere."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Self

from kdbforge.build import Observer
from kdbforge.cli.console import Bar, console, progress_bar
from kdbforge.compiler.report import Progress
from kdbforge.model.plan import Plan
from kdbforge.planner.estimate import Estimate

__all__ = ["ConsoleObserver", "describe_estimate"]


class ConsoleObserver(Observer):
    """Prints the stages of a build on stderr."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._bar: Bar | None = None
        self._stage = ""

    def _enter(self, stage: str, total: int) -> Bar:
        """The bar of the current stage; a new stage closes the bar of the last."""
        if stage != self._stage or self._bar is None:
            self.close()
            self._stage = stage
            if not console.is_terminal:
                console.print(stage)
            self._bar = self._stack.enter_context(progress_bar(stage, total))
        return self._bar

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Take the current bar away."""
        self._stack.close()
        self._bar = None

    def planning(self, done: int, total: int) -> None:
        self._enter("Planning", total).set(done, total)

    def planned(self, plan: Plan) -> None:
        self.close()
        for gpu in plan.gpus:
            console.print(
                f"{gpu.basename}: {len(gpu.records)} records for {len(plan.problems)} problems"
            )

    def compiling(self, progress: Progress) -> None:
        bar = self._enter(f"Compiling {progress.total - progress.in_store} jobs", progress.total)
        bar.set(progress.in_store + progress.done + progress.failed, progress.total)
        bar.describe("Compiling " + (", ".join(progress.running)[:50] or "..."))

    def proving(self, plan: Plan) -> None:
        self._enter("Proving", len(plan.gpus))


def describe_estimate(estimate: Estimate) -> str:
    """One line on what compiling a plan will take."""
    text = f"{estimate.jobs} jobs, {estimate.in_store} of them in the store"
    if estimate.in_store == estimate.jobs:
        return text
    return (
        f"{text}; about {estimate.seconds:.0f} CPU seconds and "
        f"{estimate.blob_bytes / 1e6:.1f} MB to go"
        + ("" if estimate.seen else " (a guess: the store has seen none of these kernels)")
    )
