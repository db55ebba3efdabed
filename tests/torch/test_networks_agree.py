"""One network, as a PyTorch program and exported to ONNX: both name the same convolutions."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch.nn", reason="needs PyTorch: pip install 'kdbforge[torch]'")
pytest.importorskip("onnx", reason="the extra `onnx` is not installed")
import torch
from torch import nn

import kdbforge.torch
from kdbforge.model.problem import Convolution
from kdbforge.problems import ModelOptions, ProblemList, load


class Network(nn.Module):
    """Convolutions of all kinds, with what stands between them in real networks."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 16, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
            nn.MaxPool2d(3, stride=2, padding=1),
        )  # fmt: skip
        self.depthwise = nn.Conv2d(16, 16, 3, padding=1, groups=16)
        # PyTorch keeps a convolution with both groups and dilation from MIOpen.
        self.grouped = nn.Conv2d(16, 32, 3, padding=1, groups=4)
        self.dilated = nn.Conv2d(32, 32, 3, padding=2, dilation=2)
        self.pointwise = nn.Conv2d(32, 24, 1)
        self.wide = nn.Conv2d(24, 8, (1, 5), padding=(0, 2))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        image = torch.relu(self.depthwise(self.stem(image)))
        image = torch.relu(self.dilated(self.grouped(image)))
        return self.wide(self.pointwise(image)).mean((2, 3))


def convolutions(found: ProblemList) -> set[Convolution]:
    return {problem for problem in found if isinstance(problem, Convolution)}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("consumer", ["migraphx", "onnxruntime"])
@pytest.mark.parametrize("batch", [1, 4])
def test_forward_convolutions_are_the_same(tmp_path: Path, consumer: str, batch: int) -> None:
    path = tmp_path / "network.onnx"
    torch.onnx.export(
        Network().eval(), (torch.randn(1, 3, 64, 48),), path, dynamo=False, opset_version=17,
        input_names=["image"], dynamic_axes={"image": {0: "n"}},
    )  # fmt: skip
    exported = load([str(path)], batch=[batch], models=ModelOptions({}, consumer))
    with kdbforge.torch.record() as problems, torch.no_grad():
        Network().eval().cuda()(torch.randn(batch, 3, 64, 48).cuda())
    assert len(convolutions(exported)) == 6
    assert convolutions(exported) == convolutions(problems.problem_list())
