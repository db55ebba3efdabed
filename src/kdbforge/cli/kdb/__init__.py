"""`kdbforge kdb`: kernel database files; one module for each command."""

from __future__ import annotations

import click

from kdbforge.cli.lazy import LazyGroup

__all__ = ["kdb"]

#: Name of each command -> where it is, and the first line of its help.
COMMANDS = {
    "diff": (
        "kdbforge.cli.kdb.diff:diff",
        "Compare two kernel databases: LOST, GAINED and CHANGED records.",
    ),
    "extract": (
        "kdbforge.cli.kdb.extract:extract",
        "Write the code objects of records to files, unpacked and checked against their MD5.",
    ),
    "info": (
        "kdbforge.cli.kdb.info:info",
        "Say what is in kernel databases: counts, sizes, architectures, languages.",
    ),
    "ls": (
        "kdbforge.cli.kdb.ls:ls",
        "List records: number, stored bytes, kernel file and build options.",
    ),
    "merge": (
        "kdbforge.cli.kdb.merge:merge",
        "Merge system (.kdb) and user (.ukdb) databases into one that MIOpen can share.",
    ),
    "prune": (
        "kdbforge.cli.kdb.prune:prune",
        "Remove records: unwanted or stale ones, damaged ones, and keys that are there twice.",
    ),
    "rebuild": (
        "kdbforge.cli.kdb.rebuild:rebuild",
        "Compile every record's key again, and compare with what the record holds.",
    ),
    "show": (
        "kdbforge.cli.kdb.show:show",
        "Show one record: its options, its code object, and each kernel in it.",
    ),
    "split": (
        "kdbforge.cli.kdb.split:split",
        "Split a kernel database by architecture and xnack setting, read from the code itself.",
    ),
    "verify": (
        "kdbforge.cli.kdb.verify:verify",
        "Check whether MIOpen can use kernel databases, and every record in them.",
    ),
}


@click.group("kdb", cls=LazyGroup, table=COMMANDS)
def kdb() -> None:
    """Look into kernel databases, check and change them."""
