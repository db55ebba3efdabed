"""`kdbforge kdb`: kernel database files; one module for each command."""

from __future__ import annotations

import click

from kdbforge.cli.kdb.extract import extract
from kdbforge.cli.kdb.info import info
from kdbforge.cli.kdb.ls import ls
from kdbforge.cli.kdb.show import show

__all__ = ["kdb"]


@click.group("kdb")
def kdb() -> None:
    """Look into kernel databases, check and change them."""


for command in (
    info, ls, show, extract,
):  # fmt: skip
    kdb.add_command(command)
