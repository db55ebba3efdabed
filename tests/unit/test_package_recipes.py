"""The recipes for distributions: their scripts are well-formed, and call what there is."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest

from kdbforge.cli.main import cli

RECIPES = sorted((Path(__file__).parents[2] / "docs" / "packaging").glob("*.md"))


def blocks(recipe: Path) -> list[tuple[str, str]]:
    """Language and text of each code block."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", recipe.read_text(), re.M | re.S)


def test_there_is_one_for_each() -> None:
    assert [path.stem for path in RECIPES] == ["arch", "debian", "gentoo", "nixpkgs"]


@pytest.mark.parametrize("name", ["arch", "gentoo"])
def test_shell_syntax(name: str) -> None:
    (script,) = (
        text for path in RECIPES if path.stem == name
        for language, text in blocks(path) if language == "bash"
    )  # fmt: skip
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_commands_have_these_options(recipe: Path) -> None:
    count = 0
    for _, text in blocks(recipe):
        for line in re.findall(r"^\s+(kdbforge .*)$", text.replace("\\\n", " "), re.M):
            words = shlex.split(line.split("||")[0].split(" > ")[0].replace('" "', "' '"))
            command: click.Command = cli
            context = click.Context(cli)
            position = 1
            while isinstance(command, click.Group):
                found = command.get_command(context, words[position])
                assert found is not None, line
                command, position = found, position + 1
            known = {option for p in command.params for option in p.opts}
            given = {word for word in words[position:] if re.fullmatch(r"--?[a-z][a-z-]*", word)}
            assert given <= known, line
            count += 1
    assert count
