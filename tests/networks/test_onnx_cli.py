"""Networks on the command line: lists, JSON, what goes where, exit codes; real models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx", reason="the extra `onnx` is not installed")

import onnx
from click.testing import CliRunner, Result
from onnx import helper
from onnx_models import inputs, model, problems_of, save, weights

from kdbforge.cli.main import cli
from kdbforge.cli.problems import problems
from kdbforge.errors import KdbforgeError
from kdbforge.model.problem import Convolution
from kdbforge.problems import ProblemList, load

#: Real networks that come with the package `onnx`, with their weights left out.
LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(problems, arguments, standalone_mode=False)


def network(tmp_path: Path, name: str = "net.onnx") -> str:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("LRN", ["r"], ["l"], name="norm", size=5),
        helper.make_node("Conv", ["l", "v"], ["y"], name="second"),
    ]
    stored = [weights("w", (8, 3, 3, 3)), weights("v", (4, 8, 1, 1))]
    return save(tmp_path, model(nodes, inputs({"x": ("n", 3, "h", 16)}), ["y"], stored), name)


def test_a_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = network(tmp_path)
    result = run(path, "--batch", "1,8", "--dtype", "fp16", "--dim", "h=12")
    assert result.return_value == 0
    lines = result.stdout.splitlines()
    assert [line.split(" -k ")[0].split(" --in_h")[0] for line in lines] == [
        "MIOpenDriver convfp16 -n 1 -c 3 -H 12 -W 16",
        "MIOpenDriver lrnfp16 --batchsize 1 --in_channels 8",
        "MIOpenDriver convfp16 -n 1 -c 8 -H 12 -W 16",
        "MIOpenDriver convfp16 -n 8 -c 3 -H 12 -W 16",
        "MIOpenDriver lrnfp16 --batchsize 8 --in_channels 8",
        "MIOpenDriver convfp16 -n 8 -c 8 -H 12 -W 16",
    ]
    said = capsys.readouterr().err or result.stderr
    assert f"{path}: 4 nodes, opset 17, run by migraphx" in said
    assert "    2 Conv                         MIOpen: convolution" in said
    assert "6 problems (4 fwd, 0 bwd, 0 wrw, 2 lrn) in 6 found" in said


def test_json(tmp_path: Path) -> None:
    path = network(tmp_path)
    result = run(path, "--batch", "2", "--dim", "h=12", "--consumer", "onnxruntime", "--json")
    value = json.loads(result.stdout)
    assert [(entry["origin"], entry["primitive"]) for entry in value["problems"]] == [
        (f"{path}:first", "conv"),
        (f"{path}:first", "CBAInfer"),
        (f"{path}:first", "activ"),
        (f"{path}:norm", "lrn"),
        (f"{path}:second", "conv"),
    ]
    (report,) = value["models"]
    assert (report["path"], report["consumer"], report["opset"]) == (path, "onnxruntime", 17)
    assert report["nodes"] == 4
    assert {"operator": "Conv", "goes": "MIOpen: convolution", "count": 2} in report["operators"]
    assert report["left_out"] == []


def test_all_can_be_listed(tmp_path: Path) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    proto = model([node], inputs({"x": (1, 3, 8, 8)}), ["y"], [weights("w", (4, 3, 3, 3))])
    result = run(save(tmp_path, proto))
    assert result.return_value == 0
    assert len(result.stdout.splitlines()) == 1


def test_a_network_without_a_problem(tmp_path: Path) -> None:
    """It is listed as such; there is nothing to plan."""
    proto = model([helper.make_node("Relu", ["x"], ["y"])], inputs({"x": (1, 3)}), ["y"])
    path = save(tmp_path, proto)
    result = run(path, "--json")
    assert result.return_value == 0
    value = json.loads(result.stdout)
    assert value["problems"] == []
    assert value["models"][0]["operators"][0]["goes"] == "own kernel of the consumer"


def test_with_other_sources(tmp_path: Path) -> None:
    """Equal problems are merged, wherever they come from."""
    path = network(tmp_path)
    lines = tmp_path / "lines.txt"
    lines.write_text(run(path, "--batch", "1", "--dim", "h=12").stdout)
    result = run(str(lines), "suite:resnet18", path, "--batch", "1", "--dim", "h=12", "--json")
    value = json.loads(result.stdout)
    assert [entry["count"] for entry in value["problems"][:2]] == [2, 2]
    assert value["problems"][0]["origin"] == f"{lines}:1"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--dim", "h"), "`--dim h` is not of the form NAME=N"),
        (("--dim", "=4"), "`--dim =4` is not of the form NAME=N"),
        (("--dim", "h=x"), "`x` in `--dim h=x` is not a whole number from 1"),
        (("--dim", "h=0"), "Size `0` of dimension `h` is not from 1 to 2147483647"),
        (("--dim", "h=1", "--dim", "h=2"), "`--dim h` is given twice, as 1 and 2"),
        (("--dim", "h=12", "--dim", "q=1", "--batch", "1"), "Unknown dimension `q`"),
        (("--direction", "fwd"), "Option `--direction` is for suites, and no source is one"),
        ((), "Dimension `n` (axis 0 of input `x`) has no size"),
    ],
)
def test_bad_arguments(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    result = run(network(tmp_path), *arguments)
    assert isinstance(result.exception, KdbforgeError)
    assert result.exception.message == message


@pytest.mark.parametrize("option", ["--dim=h=1", "--consumer=migraphx"])
def test_options_without_a_network(option: str) -> None:
    result = run("suite:vgg16", option)
    assert isinstance(result.exception, KdbforgeError)
    name = option[2:].partition("=")[0]
    message = f"Option `--{name}` is for networks (`.onnx`), and no source is one"
    assert result.exception.message == message


def test_an_unknown_consumer_is_a_usage_error(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["problems", network(tmp_path), "--consumer", "tensorrt"])
    assert result.exit_code == 2
    assert "'tensorrt' is not one of 'migraphx', 'onnxruntime'" in result.output


# Real models.


def light(name: str, consumer: str = "migraphx", **options: Any) -> Any:
    return problems_of(str(LIGHT / f"light_{name}.onnx"), consumer, **options)


@pytest.mark.parametrize(
    ("name", "consumer", "convolutions"),
    [
        ("bvlc_alexnet", "onnxruntime", 5),
        ("densenet121", "migraphx", 121),
        ("inception_v1", "onnxruntime", 57),
        ("inception_v2", "migraphx", 69),
        ("resnet50", "onnxruntime", 53),
        ("shufflenet", "migraphx", 49),
        ("squeezenet", "migraphx", 26),
        ("squeezenet", "onnxruntime", 26),
        ("vgg19", "onnxruntime", 16),
        ("zfnet512", "migraphx", 5),
    ],
)
def test_real_networks(name: str, consumer: str, convolutions: int) -> None:
    report = light(name, consumer).models[0]
    uses = {use.operator: use for use in report.operators}
    assert uses["Conv"].count == convolutions
    assert uses["Conv"].goes == "MIOpen: convolution"
    assert report.left_out == ()


def test_resnet50_is_the_suite() -> None:
    """A file that others wrote, and a list from the paper's table."""
    network = light("resnet50", batch=[1, 8], dtypes=["fp32", "fp16"])
    suite = load(["suite:resnet50"], batch=[1, 8], dtypes=["fp32", "fp16"], directions=["fwd"])
    assert convolutions(network) == set(suite.problems)


def test_vgg_is_the_suite_and_more() -> None:
    """VGG-19 has the layers of VGG-16, some of them once more."""
    suite = load(["suite:vgg16"], batch=[1], dtypes=["fp32"], directions=["fwd"])
    assert convolutions(light("vgg19")) == set(suite.problems)


def convolutions(network: ProblemList) -> set[Convolution]:
    return {problem for problem in network if isinstance(problem, Convolution)}
