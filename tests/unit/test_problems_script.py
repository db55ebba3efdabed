"""Python scripts as sources of problems, as far as that needs no PyTorch."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

import kdbforge.torch
from kdbforge.errors import HostError, InputError
from kdbforge.problems import load
from kdbforge.problems.script import is_script
from kdbforge.torch import Recording
from kdbforge.torch.recording import Call

FORWARD = "MIOpenDriver conv -n 1 -c 3 -k 8 -F 1"
UNKNOWN = "MIOpenDriver convfp8 -n 1"  # of no data type that kdbforge knows


@pytest.mark.parametrize(
    ("source", "script"),
    [
        ("train.py:make_step", True),
        ("../a b/train.py:Trainer.step", True),
        ("train.py", True),
        ("train.py:", True),
        ("train.pyc", False),
        ("suite:resnet50", False),
        ("log.txt:12", False),
        ("-", False),
    ],
)
def test_which_sources_are_scripts(source: str, script: bool) -> None:
    assert is_script(source) is script


def test_without_pytorch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "train.py"
    script.touch()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(HostError, match="needs PyTorch, which is not installed") as caught:
        load([f"{script}:step"])
    assert caught.value.hint == "pip install 'kdbforge[torch]'"
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(HostError, match="PyTorch is not installed here") as caught:
        kdbforge.torch.record()
    assert caught.value.hint == "pip install 'kdbforge[torch]'"


def test_sources_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        load([f"{tmp_path}/train.py:step"])
    script = tmp_path / "train.py"
    script.touch()
    for source in (f"{script}", f"{script}:"):
        with pytest.raises(InputError, match="names no callable to record") as caught:
            load([source])
        assert caught.value.hint == f"write `{script}:FUNCTION`, a function without arguments"


def test_a_recording_gives_a_problem_list() -> None:
    recording = Recording([Call(FORWARD, "a"), Call(UNKNOWN, "b"), Call(FORWARD, "c")])
    found = recording.problem_list()
    assert (found.counts, found.origins) == ((2,), ("a",))
    assert list(recording) == list(found)
    assert len(recording) == 1
    assert recording.lines == (FORWARD, UNKNOWN)
    assert recording.unsupported == (UNKNOWN,)
    assert recording.policy == "default"
    recording.benchmark = True
    assert recording.policy == "normal"
