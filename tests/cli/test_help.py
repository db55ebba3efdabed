"""Every command explains itself: help, an example that parses, and the documented options."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from kdbforge import __version__
from kdbforge.cli.main import cli


def walk(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """Every command below, with the words that call it."""
    yield name, command
    if isinstance(command, click.Group):
        for child in command.commands.values():
            yield from walk(child, f"{name} {child.name}")


ALL = dict(walk(cli, "kdbforge"))
LEAVES = [name for name, command in ALL.items() if not isinstance(command, click.Group)]
#: Commands that print values have them as JSON too; `compile`, `log` and those that change
#: the toolchains print none.
LISTING = ("build", "plan", "prove", "problems", "list", "show")


def help_of(name: str, flag: str = "--help") -> str:
    done = CliRunner().invoke(cli, [*name.split()[1:], flag], prog_name="kdbforge")
    assert done.exit_code == 0
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("name", ALL)
def test_help(name: str) -> None:
    text = help_of(name)
    assert text.startswith(f"Usage: {name} ")
    summary = text.split("\n\n")[1].strip()
    assert summary.endswith((".", ":"))
    assert ALL[name].get_short_help_str(200)


def test_short_flag_of_help() -> None:
    assert help_of("kdbforge", "-h") == help_of("kdbforge")


@pytest.mark.parametrize("name", ["kdbforge", *LEAVES])
def test_example(name: str) -> None:
    """Each line of an example is a command line that its own parser accepts."""
    lines = [
        line.strip()
        for line in help_of(name).partition("Example:\n")[2].split("\n\n")[0].splitlines()
    ]
    assert lines, "no example"
    for line in lines:
        words = shlex.split(line.partition(" > ")[0])
        assert words[0] == "kdbforge"
        context: click.Context | None = None
        command: click.Command = cli
        arguments = words[1:]
        while isinstance(command, click.Group):
            child = command.commands[arguments[0]]
            context = click.Context(command, parent=context)
            command, arguments = child, arguments[1:]
        command.make_context(command.name, list(arguments), parent=context)
    if name != "kdbforge":
        assert any(line.startswith(f"{name} ") or line == name for line in lines)


@pytest.mark.parametrize("name", [name for name in LEAVES if name.split()[-1] in LISTING])
def test_commands_that_list_have_json(name: str) -> None:
    assert "--json" in help_of(name)


@pytest.mark.parametrize("name", ALL)
def test_options_have_help(name: str) -> None:
    for parameter in ALL[name].params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name


def test_version() -> None:
    done = CliRunner().invoke(cli, ["--version"])
    assert done.stdout == f"kdbforge, version {__version__}\n"
