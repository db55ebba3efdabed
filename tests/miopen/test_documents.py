"""The documents: their Python runs, and every command that they show can be parsed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from kdbforge import Toolchain
from kdbforge.cli.main import cli

TOP = Path(__file__).parents[2]
DOCUMENTS = sorted([TOP / "README.md", *(TOP / "docs").glob("*.md")])


def blocks(document: Path, language: str) -> list[str]:
    """Code blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", document.read_text(), re.M | re.S)


@pytest.mark.parametrize("name", ["README.md", "docs/python.md", "docs/session.md"])
def test_python_runs(
    toolchain: Toolchain, tmp_path: Path, shared_store: Path, monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KDBFORGE_STORE", str(shared_store))
    (tmp_path / "store").symlink_to(shared_store)
    code = blocks(TOP / name, "python")
    assert code
    namespace: dict[str, object] = {}
    for block in code:
        exec(compile(block, name, "exec"), namespace)  # the reader runs it, too


def commands(document: Path) -> list[str]:
    """Commands after a prompt, and those of indented blocks, continued lines joined."""
    text = document.read_text().replace("\\\n", " ")
    return re.findall(r"^(?:\$ |    )(kdbforge [a-z].*?)(?:  +#.*)?$", text, re.M)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_can_be_parsed(document: Path) -> None:
    for line in commands(document):
        _, *words = shlex.split(line)
        command: click.Command = cli
        context = click.Context(cli)
        while isinstance(command, click.Group):
            name = words.pop(0)
            found = command.get_command(context, name)
            assert found is not None, line
            command = found
        command.make_context(command.name, words)


def test_the_readme_has_commands() -> None:
    assert len(commands(TOP / "README.md")) >= 4


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
        if "://" not in target:
            assert (document.parent / target).exists(), target
