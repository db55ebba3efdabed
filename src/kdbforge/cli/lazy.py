"""Groups of commands that are imported when they are called, not when they are listed.

What a command needs may take longer to import than the command takes to run.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

__all__ = ["LazyGroup"]


class LazyGroup(click.Group):
    """A group with a table of its commands: name -> (`module:attribute`, first line of its help).

    Commands that are added to it as usual are there as well.
    """

    def __init__(
        self, *args: Any, table: Mapping[str, tuple[str, str]] | None = None, **kwargs: Any
    ):
        super().__init__(*args, **kwargs)
        self.table = table or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self.table})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.table:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self.table[cmd_name][0].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table alone."""
        rows = [(name, self._short_help(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def _short_help(self, ctx: click.Context, name: str) -> str:
        if name in self.table:
            return self.table[name][1]
        command = self.get_command(ctx, name)
        return command.get_short_help_str(200) if command else ""
