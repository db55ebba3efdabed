"""`kdbforge problems`: what goes to stdout, what to stderr."""

from __future__ import annotations

import io
import json

import click
import pytest
from click.testing import CliRunner, Result

from kdbforge.cli.problems import problems
from kdbforge.errors import InputError
from kdbforge.problems import SUITES, load


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(problems, arguments, input=stdin)


def test_lines_can_be_fed_back() -> None:
    first = run("suite:resnet18", "--batch", "1,8", "--dtype", "bf16", "--direction", "fwd,wrw")
    assert first.exit_code == 0
    lines = first.stdout.splitlines()
    assert len(lines) == 44
    assert lines[0] == (
        "MIOpenDriver convbfp16 -n 1 -c 3 -H 224 -W 224 -k 64 -y 7 -x 7 -p 3 -q 3 -u 2 -v 2"
        " -l 1 -j 1 -m conv -g 1 -F 1"
    )
    second = run("-", stdin=first.stdout)
    assert second.stdout == first.stdout


def test_json() -> None:
    result = run("-", "--json", stdin="conv -n 1 -F 1\nMIOpenDriver conv -n 1 -F 3\n")
    value = json.loads(result.stdout)
    assert value["digest"] == load(["-"], stdin=io.StringIO("conv -n 1 -F 3")).digest
    assert value["found"] == 3
    assert [(p["direction"], p["count"], p["origin"]) for p in value["problems"]] == [
        ("fwd", 2, "<stdin>:1"),
        ("bwd", 1, "<stdin>:2"),
    ]
    assert value["problems"][0]["in_size"] == [32, 32]
    assert value["problems"][0]["line"].startswith("MIOpenDriver conv -n 1 -c 3 ")


def test_counts_go_to_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr("kdbforge.cli.problems.console.print", written.append)
    result = run("-", stdin="MIOpenDriver conv -n 1\nconv -n 1 -F 1\n")
    assert written == ["3 problems (1 fwd, 1 bwd, 1 wrw) in 4 found"]
    assert "found" not in result.stdout


def test_suites_are_listed() -> None:
    result = run("suite:")
    assert result.exit_code == 0
    for name, suite in SUITES.items():
        assert f"suite:{name}" in result.stdout
        assert suite.source in result.stdout
    assert "53 convolutions, 138 problems" in result.stdout
    listed = json.loads(run("suite:", "--json").stdout)
    assert [suite["name"] for suite in listed] == [f"suite:{name}" for name in SUITES]
    assert {suite["name"]: suite["weights"] for suite in listed}["suite:resnet50"] == 23_454_912


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("suite:vgg16", "--batch", "1,x"),
            "`x` in `--batch 1,x` is not a whole number from 1",
        ),
        (("suite:vgg16", "--batch", ","), "Option `--batch` names no value"),
        (("suite:vgg16", "--batch", "-1"), "`-1` in `--batch -1` is not a whole number from 1"),
        (("suite:vgg16", "--dtype", "fp23"), "Unknown dtype `fp23`"),
        (("-", "--dtype", "fp32"), "Option `--dtype` is for suites, and no source is one"),
        (("suite:", "suite:vgg16"), "`suite:` names no suite"),
    ],
)
def test_bad_arguments(arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments, stdin="conv -n 1")
    assert isinstance(result.exception, InputError)
    assert result.exception.message == message


def test_no_source_is_a_usage_error() -> None:
    assert run().exit_code == click.UsageError.exit_code


def test_help_has_an_example() -> None:
    result = run("--help")
    assert "Example:" in result.output
    assert "kdbforge problems suite:resnet50 --batch 1,8 --direction fwd" in result.output
