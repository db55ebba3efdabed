"""What is printed of text from anywhere: never what a terminal would obey."""

from __future__ import annotations

import pytest

from kdbforge.cli.console import print_error, print_table
from kdbforge.errors import InputError

HOSTILE = "a\x1b[2J\x9b31m\x07[red]b\ud800\u202e"
SHOWN = "a\ufffd[2J\ufffd31m\ufffd[red]b\ufffd\ufffd"


def test_error(capsys: pytest.CaptureFixture[str]) -> None:
    error = InputError(f"Bad name `{HOSTILE}`", context=(f"one\n{HOSTILE}",), hint=HOSTILE)
    print_error(error)
    expected = f"error: Bad name `{SHOWN}`\n  one\n{SHOWN}\n\nhint: {SHOWN}\n"
    assert capsys.readouterr().err == expected


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["NAME"], [[HOSTILE]])
    assert SHOWN in capsys.readouterr().out
