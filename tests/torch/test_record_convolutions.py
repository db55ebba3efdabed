"""Single convolutions recorded from PyTorch, as its ROCm build would hand them to MIOpen."""

from __future__ import annotations

import pytest

nn = pytest.importorskip("torch.nn", reason="needs PyTorch: pip install 'kdbforge[torch]'")
import torch  # noqa: E402
from torch.nn import functional  # noqa: E402

import kdbforge.torch  # noqa: E402
from kdbforge.errors import UnsupportedError  # noqa: E402


def lines(model: nn.Module, *shape: int, backward: bool = False, **options: object) -> list[str]:
    """Record a module; returns the driver lines without what all have."""
    with kdbforge.torch.record(**options) as problems:  # type: ignore[arg-type]
        out = model(torch.randn(*shape, requires_grad=backward))
        if backward:
            out.sum().backward()
    assert len(problems) == len(problems.lines)  # all of them are read back
    return [line.removeprefix("MIOpenDriver ") for line in problems.lines]


def test_forward_and_backward() -> None:
    plain = (
        "conv -n 2 -c 8 -k 16 -H 32 -W 24 -y 3 -x 5 -p 1 -q 2 -u 2 -v 1 -l 1 -j 1 -m conv -g 1 -F"
    )
    model = nn.Conv2d(8, 16, (3, 5), stride=(2, 1), padding=(1, 2))
    assert lines(model, 2, 8, 32, 24, backward=True) == [f"{plain} 1", f"{plain} 2", f"{plain} 4"]


def test_only_the_gradients_that_are_wanted() -> None:
    model = nn.Conv2d(8, 16, 3)
    with kdbforge.torch.record() as problems:
        model(torch.randn(1, 8, 9, 9)).sum().backward()
    assert [line[-1] for line in problems.lines] == ["1", "4"]
    model.weight.requires_grad_(False)
    with kdbforge.torch.record() as problems:
        model(torch.randn(1, 8, 9, 9, requires_grad=True)).sum().backward()
    assert [line[-1] for line in problems.lines] == ["1", "2"]
    with kdbforge.torch.record() as problems, torch.no_grad():
        model(torch.randn(1, 8, 9, 9))
    assert [line[-1] for line in problems.lines] == ["1"]
    with kdbforge.torch.record() as problems, torch.inference_mode():
        model(torch.randn(1, 8, 9, 9))
    assert [line[-1] for line in problems.lines] == ["1"]


def test_a_transposed_convolution_is_a_backward_pass() -> None:
    model = nn.ConvTranspose2d(32, 16, 3, stride=2, padding=1, output_padding=1)
    plain = "-n 4 -c 16 -k 32 -H 20 -W 20 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -l 1 -j 1 -m conv -g 1 -F"
    assert lines(model, 4, 32, 10, 10, backward=True) == [
        f"conv {plain} 2",
        f"conv {plain} 1",
        f"conv {plain} 4",
    ]


def test_depthwise_and_grouped() -> None:
    assert lines(nn.Conv2d(32, 64, 3, groups=32), 1, 32, 8, 8) == [
        "conv -n 1 -c 32 -k 64 -H 8 -W 8 -y 3 -x 3 -p 0 -q 0 -u 1 -v 1 -l 1 -j 1 -m conv -g 32 -F 1"
    ]
    assert lines(nn.ConvTranspose2d(8, 4, 2, groups=2), 1, 8, 5, 5) == [
        "conv -n 1 -c 4 -k 8 -H 6 -W 6 -y 2 -x 2 -p 0 -q 0 -u 1 -v 1 -l 1 -j 1 -m conv -g 2 -F 2"
    ]


def test_one_and_three_dimensions() -> None:
    assert lines(nn.Conv1d(80, 384, 3, stride=2, padding=1, dilation=1), 1, 80, 3000) == [
        "conv -n 1 -c 80 -k 384 -H 1 -W 3000 -y 1 -x 3 -p 0 -q 1 -u 1 -v 2 -l 1 -j 1"
        " -m conv -g 1 -F 1"
    ]
    assert lines(nn.Conv3d(3, 64, (3, 7, 7), (1, 2, 2), (1, 3, 3)), 1, 3, 8, 16, 16) == [
        "conv -n 1 -c 3 -k 64 --in_d 8 -H 16 -W 16 --fil_d 3 -y 7 -x 7 --pad_d 1 -p 3 -q 3"
        " --conv_stride_d 1 -u 2 -v 2 --dilation_d 1 -l 1 -j 1 --spatial_dim 3 -m conv -g 1 -F 1"
    ]


def test_channels_last_of_either_tensor() -> None:
    model = nn.Conv2d(8, 16, 3)
    assert "NHWC" not in lines(model, 1, 8, 9, 9, nhwc=True)[0]
    model = model.to(memory_format=torch.channels_last)
    assert lines(model, 1, 8, 9, 9, nhwc=True)[0].count("NHWC") == 3
    three = nn.Conv3d(8, 16, 3).to(memory_format=torch.channels_last_3d)
    assert lines(three, 1, 8, 9, 9, 9, nhwc=True)[0].count("NDHWC") == 3
    assert "layout" not in lines(nn.Conv1d(8, 16, 3), 1, 8, 9, nhwc=True)[0]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: nn.Conv2d(3, 8, 3).double()(torch.randn(1, 3, 8, 8).double()), "float64"),
        (lambda: nn.Conv2d(8, 8, 3, groups=2, dilation=2)(torch.randn(1, 8, 9, 9)), "dilation"),
        (lambda: nn.Conv2d(3, 8, 3)(torch.randn(0, 3, 8, 8)), "an empty tensor"),
        (lambda: nn.Conv2d(3, 64, 1)(torch.randn(512, 3, 300, 300)), "2^31 elements"),
    ],
)
def test_what_never_reaches_miopen(make: object, reason: str) -> None:
    with kdbforge.torch.record() as problems:
        make()  # type: ignore[operator]
    assert problems.lines == ()
    assert [reason in name for name in problems.native] == [True]


def test_settings_of_the_backend() -> None:
    model = nn.Conv2d(3, 8, 3)
    with torch.backends.cudnn.flags(enabled=False), kdbforge.torch.record() as problems:
        model(torch.randn(1, 3, 8, 8))
    assert problems.lines == ()
    with (
        torch.backends.cudnn.flags(enabled=True, benchmark=True),
        kdbforge.torch.record() as problems,
    ):
        model(torch.randn(1, 3, 8, 8))
    assert problems.policy == "normal"


def test_origins_are_modules_or_lines() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Sequential(nn.ReLU(), nn.Conv2d(8, 8, 3)))
    with kdbforge.torch.record() as problems:
        model(torch.randn(1, 3, 8, 8)).sum().backward()
        functional.conv2d(torch.randn(1, 1, 5, 5), torch.randn(1, 1, 3, 3))
    origins = problems.problem_list().origins
    assert origins[:4] == ("Sequential.0", "Sequential.1.1", "Sequential.1.1", "Sequential.1.1")
    assert origins[-1].startswith(f"{__file__}:")


def test_a_model_made_before_is_left_as_it_was() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))
    before = [parameter.clone() for parameter in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    with kdbforge.torch.record() as problems:
        model(torch.randn(2, 3, 8, 8)).sum().backward()
        optimizer.step()
    assert len(problems.calls) > 0
    for old, new in zip(before, model.parameters(), strict=True):
        assert torch.equal(old, new)
    assert model[1].num_batches_tracked == 0


def test_devices_that_do_not_exist_here() -> None:
    with kdbforge.torch.record() as problems:
        torch.set_default_device("cuda")
        try:
            model = nn.Conv2d(3, 8, 3)
            model.to(torch.device("cuda:1"))(torch.zeros(1, 3, 8, 8))
        finally:
            torch.set_default_device("cpu")
    assert len(problems) == 1


@pytest.mark.parametrize(
    "read",
    [lambda x: x.sum().item(), lambda x: bool(x.sum() > 0), lambda x: x.nonzero()],
)
def test_values_are_refused(read: object) -> None:
    with pytest.raises(UnsupportedError, match="reads a value") as caught:  # noqa: SIM117
        with kdbforge.torch.record():
            read(torch.randn(3))  # type: ignore[operator]
    assert caught.value.context[0].startswith(f"{__file__}:")


def test_an_initialisation_that_reads_values() -> None:
    with kdbforge.torch.record() as problems:
        model = nn.Conv2d(3, 8, 3)
        nn.init.trunc_normal_(model.weight, std=0.02)
        model(torch.randn(1, 3, 8, 8))
    assert len(problems) == 1


def test_nothing_is_left_behind() -> None:
    autocast, swap = torch.autocast.__init__, torch.utils.swap_tensors
    with pytest.raises(ZeroDivisionError), kdbforge.torch.record():
        raise ZeroDivisionError
    assert torch.autocast.__init__ is autocast
    assert torch.utils.swap_tensors is swap
    assert torch.ones(2).sum().item() == 2
