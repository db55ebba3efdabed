"""Networks among the sources where the extra `onnx` may be missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kdbforge.errors import HostError, InputError, UnknownNameError
from kdbforge.problems import CONSUMERS, ModelOptions, load


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(b"whatever it is")
    for name in [name for name in sys.modules if name.startswith("kdbforge.problems.onnx")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(HostError) as caught:
        load([str(path)])
    assert caught.value.message == f"Reading `{path}` needs the Python package `onnx`"
    assert caught.value.hint == "`pip install 'kdbforge[onnx]'`"


def test_options_are_checked_before_anything_is_read() -> None:
    with pytest.raises(InputError, match="Option `--dim` is for networks"):
        load(["list.txt"], models=ModelOptions({"h": 3}))
    with pytest.raises(InputError, match="Option `--consumer` is for networks"):
        load(["suite:vgg16"], models=ModelOptions())
    with pytest.raises(UnknownNameError, match="Unknown consumer `tvm`") as caught:
        load(["none.onnx"], models=ModelOptions(consumer="tvm"))
    assert caught.value.hint == "one of " + ", ".join(f"`{name}`" for name in CONSUMERS)
    with pytest.raises(InputError, match="Size `-1` of dimension `h` is not from 1"):
        load(["none.onnx"], models=ModelOptions({"h": -1}))


def test_a_suite_is_no_file() -> None:
    with pytest.raises(UnknownNameError, match=r"Unknown suite `net\.onnx`"):
        load(["suite:net.onnx"])
