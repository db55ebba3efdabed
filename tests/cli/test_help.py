"""Every command explains itself: help, an example that parses, and the documented options."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from kdbforge import __version__
from kdbforge.cli.lazy import LazyGroup
from kdbforge.cli.main import cli


def walk(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """Every command below, with the words that call it."""
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for word in command.list_commands(context):
            child = command.get_command(context, word)
            assert child is not None
            assert child.name == word
            yield from walk(child, f"{name} {word}")


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
            context = click.Context(command, parent=context)
            child = command.get_command(context, arguments[0])
            assert child is not None
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


@pytest.mark.parametrize(
    "name", [name for name, command in ALL.items() if isinstance(command, LazyGroup)]
)
def test_tables_of_groups_have_the_help_of_their_commands(name: str) -> None:
    group = ALL[name]
    assert isinstance(group, LazyGroup)
    own = {word: ALL[f"{name} {word}"].get_short_help_str(200) for word in group.table}
    assert {word: text for word, (_, text) in group.table.items()} == own
    listed = " ".join(help_of(name).partition("Commands:\n")[2].split())
    assert all(f"{word} {text}" in listed for word, text in own.items())


def test_commands_import_what_they_need_and_no_more() -> None:
    """To look at a file takes neither MIOpen's part of kdbforge nor a library for drawing."""
    for words in (["--help"], ["kdb", "--help"], ["kdb", "ls", "--help"], ["kdb", "info", "-h"]):
        script = (
            "import sys; from kdbforge.cli.main import cli\n"
            f"cli({words}, standalone_mode=False)\n"
            "print(*(name for name in sys.modules if name.startswith(('kdbforge.', 'rich'))))"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        )
        loaded = {
            name.split(".")[1] for name in done.stdout.splitlines()[-1].split() if "." in name
        }
        assert loaded <= {"cli", "codeobject", "errors", "files", "kdb", "model"}, words


def test_version() -> None:
    done = CliRunner().invoke(cli, ["--version"])
    assert done.stdout == f"kdbforge, version {__version__}\n"
