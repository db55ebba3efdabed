"""How kdbforge speaks: data on stdout, the rest on stderr, bars on a terminal only."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kdbforge.errors import KdbforgeError

# rich is imported when something is to be drawn with it: importing it takes longer than many a
# command does.
if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

__all__ = ["Bar", "Messages", "console", "emit_json", "print_error", "print_table", "progress_bar"]


class Messages:
    """Everything that is not data, on stderr; nothing of it while `quiet` is set."""

    def __init__(self) -> None:
        self.quiet = False

    @functools.cached_property
    def rich(self) -> Console:
        from rich.console import Console  # noqa: PLC0415

        return Console(stderr=True, soft_wrap=True, highlight=False)

    @property
    def is_terminal(self) -> bool:
        return self.rich.is_terminal

    def print(self, text: str) -> None:
        """Print a line in rich's markup."""
        if not self.quiet:
            self.rich.print(text)


console = Messages()


def _safe(text: str) -> str:
    """Text from anywhere, without what a terminal or Rich would obey, or what cannot be encoded."""
    from rich.markup import escape  # noqa: PLC0415

    clean = (c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
    return escape("".join(clean))


class Bar:
    """A progress bar, or nothing where there is no terminal."""

    def __init__(self, progress: Progress | None, task: Any):
        self._progress = progress
        self._task = task

    def advance(self, amount: float) -> None:
        if self._progress:
            self._progress.advance(self._task, amount)

    def set(self, done: float, total: float | None = None) -> None:
        if self._progress:
            self._progress.update(self._task, completed=done, total=total)

    def describe(self, text: str) -> None:
        if self._progress:
            from rich.markup import escape  # noqa: PLC0415

            self._progress.update(self._task, description=escape(text))


@contextmanager
def progress_bar(description: str, total: float | None, unit: str = "items") -> Iterator[Bar]:
    """A bar of items or bytes with its time left; drawn only on a terminal, and not with -q."""
    if console.quiet or not console.is_terminal:
        yield Bar(None, None)
        return
    from rich import progress as bars  # noqa: PLC0415
    from rich.markup import escape  # noqa: PLC0415

    count = bars.DownloadColumn() if unit == "bytes" else bars.MofNCompleteColumn()
    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        count,
        bars.TimeElapsedColumn(),
        bars.TimeRemainingColumn(),
    )
    with bars.Progress(*columns, console=console.rich, transient=True) as progress:
        yield Bar(progress, progress.add_task(escape(description), total=total))


def emit_json(value: Any) -> None:
    """Print a JSON value on stdout."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def print_table(headers: list[str], rows: list[list[str]]) -> None:
    """Print a plain table on stdout."""
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in headers:
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(*map(_safe, row))
    Console(soft_wrap=True, highlight=False).print(table)


def print_error(error: KdbforgeError) -> None:
    """Print an error: what, where, and one way out; also with -q."""
    console.quiet = False
    console.print(f"[bold red]error:[/] {_safe(error.message)}")
    for line in error.context:
        console.print(f"  {_safe(line)}")
    if error.hint:
        console.print(f"\n[bold]hint:[/] {_safe(error.hint)}")
