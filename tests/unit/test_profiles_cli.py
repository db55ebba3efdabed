"""`kdbforge gpu`: data on stdout, warnings beside it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from kdbforge.cli.gpu import gpu
from kdbforge.errors import UnknownNameError
from kdbforge.vgpu.profiles import load_profiles


def _run(*args: str) -> str:
    result = CliRunner().invoke(gpu, args, catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_list_json_has_every_profile() -> None:
    listed = json.loads(_run("list", "--json"))
    assert [item["arch"] for item in listed] == list(load_profiles())
    (navi,) = (item for item in listed if item["arch"] == "gfx1030")
    assert {"name": "Radeon RX 6900 XT", "slug": "rx-6900-xt", "num_cu": 40} in navi["products"]


def test_list_names_each_cu_count() -> None:
    out = _run("list")
    for name in ("gfx1030_40", "gfx90a68", "gfx942130", "gfx803_56"):
        assert name in out


def test_show_tells_the_files() -> None:
    out = _run("show", "RX 6900 XT")
    assert "gfx1030_40.kdb, else gfx1030.kdb" in out
    assert "LLVM AMDGPUUsage" in out


def test_show_json_holds_warnings() -> None:
    shown = json.loads(_run("show", "gfx1010_40", "--json"))
    assert shown["expected_files"] == ["gfx1010_40.kdb", "gfx1010.kdb"]
    assert "HIP reports 20" in shown["warnings"][0]


def test_show_of_an_unknown_name_fails() -> None:
    with pytest.raises(UnknownNameError):
        CliRunner().invoke(gpu, ["show", "voodoo2"], catch_exceptions=False)
