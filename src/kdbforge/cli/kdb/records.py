"""Which records of a file are meant: options that several commands share, and safe text."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from kdbforge.errors import InputError
from kdbforge.kdb.inspect import Entry, Filter, Kdb

__all__ = ["filter_options", "kdb_argument", "one_entry", "printable"]

F = TypeVar("F", bound=Callable[..., Any])
_MANY = 10

kdb_argument = click.argument("file", metavar="FILE", type=click.Path(path_type=Path))


def filter_options(function: F) -> F:
    """Add --kernel and --arg; the function gets them as `wanted`."""

    @click.option(
        "--kernel", "kernels", multiple=True, metavar="GLOB",
        help="Only kernel files that fit, such as `naive_conv*`. May be repeated.",
    )  # fmt: skip
    @click.option(
        "--arg", "args", multiple=True, metavar="TEXT",
        help="Only records with this text in their build options. May be repeated.",
    )  # fmt: skip
    @functools.wraps(function)
    def wrapper(
        *positional: Any, kernels: tuple[str, ...], args: tuple[str, ...], **rest: Any
    ) -> Any:
        return function(*positional, wanted=Filter(kernels, args), **rest)

    return wrapper  # type: ignore[return-value]


def one_entry(kdb: Kdb, record: str, args: tuple[str, ...]) -> Entry:
    """The one record that a number or a glob means.

    Raises
    ------
    InputError
        If there is none, or more than one.
    """
    number = int(record) if record.isdecimal() and len(record) < 20 else None
    wanted = Filter((), args, number) if number is not None else Filter((record,), args)
    found = list(kdb.entries(wanted))
    if len(found) == 1:
        return found[0]
    path = kdb.facts.path
    if not found:
        raise InputError(
            f"`{path}` has no record `{record}`" + (" with these options" if args else ""),
            hint=f"kdbforge kdb ls {path}",
        )
    lines = [f"{entry.id}: {printable(entry.kernel_name)}" for entry in found[:_MANY]]
    raise InputError(
        f"`{record}` means {len(found)} records of `{path}`",
        context=(*lines, *(["..."] if len(found) > _MANY else [])),
        hint=f"name one by its number, or narrow it down: kdbforge kdb ls {path} --kernel {record}",
    )


def printable(text: str) -> str:
    """Text of a foreign file, without characters that a terminal would obey."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )
