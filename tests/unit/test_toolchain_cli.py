"""`kdbforge toolchain`: what it prints, where, and that its help shows how."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from test_toolchain_probe import make

from kdbforge.cli.toolchain import toolchain
from kdbforge.errors import InputError, ToolchainError, UnknownNameError


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setenv("KDBFORGE_DATA", str(tmp_path / "data"))
    return CliRunner()


def test_an_empty_list(runner: CliRunner) -> None:
    assert runner.invoke(toolchain, ["list"]).stdout == ""
    assert json.loads(runner.invoke(toolchain, ["list", "--json"]).stdout) == []


def test_add_list_show_remove(runner: CliRunner, tmp_path: Path) -> None:
    make(tmp_path / "rocm")
    added = runner.invoke(toolchain, ["add", str(tmp_path / "rocm"), "--name", "mine"])
    assert (added.exit_code, added.stdout) == (0, "mine\n")
    (listed,) = json.loads(runner.invoke(toolchain, ["list", "--json"]).stdout)
    shown = json.loads(runner.invoke(toolchain, ["show", "mine", "--verify", "--json"]).stdout)
    assert listed["problem"] is None
    for key in ("name", "version", "miopen_version", "origin", "build_id", "fingerprint"):
        assert listed[key] == shown[key]
    assert shown["libmiopen"] == str(tmp_path / "rocm/lib/libMIOpen.so.1")
    text = runner.invoke(toolchain, ["show"]).stdout
    assert f"libMIOpen         {tmp_path}/rocm/lib/libMIOpen.so.1\n" in text
    assert "MIOPEN_DEBUG_GCN_ASM_KERNELS=0" in text
    (tmp_path / "rocm/lib/libLLVM.so.22.1").unlink()
    (listed,) = json.loads(runner.invoke(toolchain, ["list", "--json"]).stdout)
    assert "has lost" in listed["problem"]
    assert isinstance(runner.invoke(toolchain, ["show"]).exception, ToolchainError)
    assert runner.invoke(toolchain, ["remove", "mine"]).exit_code == 0
    assert json.loads(runner.invoke(toolchain, ["list", "--json"]).stdout) == []


def test_errors(runner: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(runner.invoke(toolchain, ["show", "nix"]).exception, UnknownNameError)
    assert isinstance(runner.invoke(toolchain, ["add", str(tmp_path)]).exception, ToolchainError)
    for name in ("KDBFORGE_DATA", "XDG_DATA_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    assert isinstance(runner.invoke(toolchain, ["list"]).exception, InputError)


@pytest.mark.parametrize("command", sorted(toolchain.commands))
def test_help_has_an_example(runner: CliRunner, command: str) -> None:
    text = runner.invoke(toolchain, [command, "--help"]).stdout
    assert f"Example:\n    kdbforge toolchain {command}" in text
