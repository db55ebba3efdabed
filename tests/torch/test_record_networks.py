"""Whole networks recorded from PyTorch, against the suites of the same networks."""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("torch.nn", reason="needs PyTorch: pip install 'kdbforge[torch]'")
import torch
from torch_networks import Bottleneck, UNet, forward_and_backward, resnet50

import kdbforge.torch
from kdbforge.problems import load


def convolutions(recording: kdbforge.torch.Recording) -> Counter[str]:
    """Driver lines of convolutions and how often each was called."""
    lines = [call.line for call in recording.calls]
    return Counter(line for line in lines if line.split()[1].startswith("conv"))


def test_resnet50_is_its_suite() -> None:
    with kdbforge.torch.record() as problems:
        model = resnet50().to("cuda")
        forward_and_backward(model, torch.randn(1, 3, 224, 224, device="cuda"))
    expected = load(["suite:resnet50"], dtypes=["fp32"])
    found = problems.problem_list()
    convs = [p for p in found if p in set(expected)]
    assert set(convs) == set(expected)
    assert sum(convolutions(problems).values()) == expected.total == 3 * 53
    assert problems.policy == "default"
    assert problems.native["pooling (`max_pool2d_with_indices`)"] == 1


@pytest.mark.parametrize(
    ("dtype", "command"),
    [(None, "convfp16"), (torch.float16, "convfp16"), (torch.bfloat16, "convbfp16")],
)
def test_autocast_casts_convolutions(dtype: torch.dtype | None, command: str) -> None:
    with kdbforge.torch.record() as problems:
        model = Bottleneck(16, 8, 2).to("cuda")
        image = torch.randn(4, 16, 64, 64, device="cuda", requires_grad=True)
        with torch.autocast("cuda", dtype=dtype):
            loss = model(image).sum()
        loss.backward()
    assert {line.split()[1] for line in convolutions(problems)} == {command}
    assert sum(convolutions(problems).values()) == 3 * 4
    assert model.main[0].weight.dtype == torch.float32


def test_half_precision() -> None:
    with kdbforge.torch.record() as problems:
        forward_and_backward(
            Bottleneck(16, 8, 2).half().cuda(), torch.randn(4, 16, 64, 64).cuda().half()
        )
    assert {line.split()[1] for line in convolutions(problems)} == {"convfp16"}


def test_unet_of_stable_diffusion_is_its_suite() -> None:
    with kdbforge.torch.record() as problems:
        forward_and_backward(UNet(), torch.randn(1, 4, 64, 64), torch.randn(1, 1280))
    expected = load(["suite:unet-sd"], dtypes=["fp32"])
    assert set(problems) == set(expected)
    assert sum(convolutions(problems).values()) == expected.total == 3 * 98
    assert problems.native["group normalisation (`native_group_norm`)"] == 61


def test_channels_last_reaches_miopen_only_where_the_build_allows_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def layouts(*, nhwc: bool | None = None) -> set[str]:
        with kdbforge.torch.record(nhwc=nhwc) as problems:
            model = Bottleneck(16, 8, 2).to("cuda", memory_format=torch.channels_last)
            image = torch.randn(4, 16, 64, 64, device="cuda")
            forward_and_backward(model, image.to(memory_format=torch.channels_last))
        lines = convolutions(problems)
        assert sum(lines.values()) == 3 * 4
        return {"NHWC" if "--in_layout NHWC" in line else "NCHW" for line in lines}

    monkeypatch.delenv("PYTORCH_MIOPEN_SUGGEST_NHWC", raising=False)
    assert layouts() == {"NCHW"}
    assert layouts(nhwc=True) == {"NHWC"}
    monkeypatch.setenv("PYTORCH_MIOPEN_SUGGEST_NHWC", "1")
    assert layouts() == {"NHWC"}
    assert layouts(nhwc=False) == {"NCHW"}
