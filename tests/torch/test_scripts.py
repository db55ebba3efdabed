"""`kdbforge problems script.py:callable`: steps, their output, and everything that goes wrong."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kdbforge.cli.main import cli
from kdbforge.errors import KdbforgeError

pytest.importorskip("torch.nn", reason="needs PyTorch: pip install 'kdbforge[torch]'")
import torch

from kdbforge.torch.__main__ import report_of

SCRIPT = """
import os, sys
import torch
from torch import nn
import helper_beside_it

print("printed on import")
net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
net(torch.randn(7, 3, 8, 8))


def make_step():
    model = net.cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")

    def step():
        print("printed by the step")
        with torch.autocast("cuda"):
            loss = model(torch.randn(2, 3, 16, 16, device="cuda")).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)

    return step


def tuned():
    torch.backends.cudnn.benchmark = True
    with torch.inference_mode():
        net(torch.randn(1, 3, 8, 8))


def wrong_shape():
    net(torch.randn(1, 5, 8, 8))


def leaves():
    sys.exit("enough")


def reads():
    return net(torch.randn(1, 3, 8, 8)).sum().item()


def gives_module():
    return net


def dies():
    os.abort()


class Trainer:
    @staticmethod
    def step():
        net(torch.randn(1, 3, 8, 8))
"""


def line_of(text: str) -> int:
    return SCRIPT[: SCRIPT.index(text)].count("\n") + 1


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("script")
    (folder / "helper_beside_it.py").write_text("")
    path = folder / "train.py"
    path.write_text(SCRIPT)
    return path


def problems(source: str, *options: str) -> Result:
    return CliRunner().invoke(cli, ["problems", source, *options])


def told(result: Result) -> str:
    error = result.exception
    assert isinstance(error, KdbforgeError), result.stderr
    assert error.exit_code == 2
    assert result.stdout == ""
    return "\n".join((error.message, *error.context, error.hint or ""))


def test_a_step_that_is_returned(script: Path) -> None:
    result = problems(f"{script}:make_step")
    assert result.exit_code == 0, result.stderr
    plain = "-n 2 -c 3 -H 16 -W 16 -k 8 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 -m conv -g 1 -F"
    assert [line for line in result.stdout.splitlines() if " conv" in line] == [
        f"MIOpenDriver convfp16 {plain} 1",
        f"MIOpenDriver convfp16 {plain} 4",
    ]
    assert "printed" not in result.stdout
    assert "1 x activation (`relu`) by PyTorch itself" in result.stderr
    assert "--policy" not in result.stderr


def test_a_script_that_raises(script: Path) -> None:
    text = told(problems(f"{script}:wrong_shape"))
    assert text.startswith("The script raised RuntimeError: Given groups=1")
    assert f"{script}:{line_of('net(torch.randn(1, 5')}: net(torch.randn(1, 5, 8, 8))" in text


def test_a_script_that_dies(script: Path) -> None:
    text = told(problems(f"{script}:dies"))
    assert "died with code -6" in text
    assert "printed on import" in text


def test_sources_that_are_refused_at_once(tmp_path: Path, script: Path) -> None:
    assert "there is no such file" in told(problems(f"{tmp_path}/none.py:step"))
    text = told(problems(str(script)))
    assert "names no callable" in text
    assert "train.py:FUNCTION" in text


def test_a_step_that_runs_at_once(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = recorded(script, "tuned", monkeypatch)
    lines = {line.split()[1]: origin for line, origin, _ in report["calls"]}
    assert lines["conv"] == "Sequential.0"
    assert report["benchmark"] is True
    torch.backends.cudnn.benchmark = False


def test_a_dotted_name(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = recorded(script, "Trainer.step", monkeypatch)
    assert "MIOpenDriver conv -n 1" in report["calls"][0][0]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "leaves",
            ("The script ended itself with 'enough'", f"train.py:{line_of('sys.exit')}: sys.exit"),
        ),
        (
            "reads",
            (
                "The program reads a value",
                f"train.py:{line_of('.item()')}",
                "record a step without",
            ),
        ),
        ("gives_module", ("`gives_module` gives a module", "let `gives_module` return")),
        ("stap", ("has no `stap`", "it has `Trainer`, `dies`")),
        ("net", ("`net` gives a module",)),
    ],
)
def test_what_goes_wrong(
    script: Path, name: str, expected: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    report = recorded(script, name, monkeypatch)
    text = "\n".join((report["error"], *report["context"], report["hint"] or ""))
    for part in expected:
        assert part in text


def test_a_script_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("def step(:\n")
    report = recorded(broken, "step", monkeypatch)
    assert report["error"].startswith("The script raised SyntaxError")
    assert report["context"] == [f"{broken}:1"]


def test_a_program_without_problems(tmp_path: Path) -> None:
    script = tmp_path / "relu.py"
    script.write_text("import torch\n\ndef step():\n    torch.relu(torch.randn(3))\n")
    text = told(problems(f"{script}:step"))
    assert "makes no problem for MIOpen" in text
    assert "1 x activation (`relu`) by PyTorch itself" in text


def recorded(script: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the child process reports, without the process."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    report = report_of(script, name)
    sys.modules.pop(script.stem, None)
    return json.loads(json.dumps(report))
