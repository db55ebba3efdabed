"""`kdbforge kdb`: kernel database files; one module for each command."""

from __future__ import annotations

import click

from kdbforge.cli.kdb.diff import diff
from kdbforge.cli.kdb.extract import extract
from kdbforge.cli.kdb.info import info
from kdbforge.cli.kdb.ls import ls
from kdbforge.cli.kdb.merge import merge
from kdbforge.cli.kdb.prune import prune
from kdbforge.cli.kdb.rebuild import rebuild
from kdbforge.cli.kdb.show import show
from kdbforge.cli.kdb.split import split
from kdbforge.cli.kdb.verify import verify

__all__ = ["kdb"]


@click.group("kdb")
def kdb() -> None:
    """Look into kernel databases, check and change them."""


for command in (info, ls, show, extract, verify, diff, merge, prune, rebuild, split):
    kdb.add_command(command)
