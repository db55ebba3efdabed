"""Batch normalisation and recurrent layers recorded from PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

nn = pytest.importorskip("torch.nn", reason="needs PyTorch: pip install 'kdbforge[torch]'")
import torch  # noqa: E402
from torch_networks import forward_and_backward, resnet50  # noqa: E402

import kdbforge.torch  # noqa: E402
from kdbforge.torch import Recording  # noqa: E402


def recorded(step: Callable[[], object], **options: bool) -> Recording:
    with kdbforge.torch.record(**options) as problems:
        step()
    return problems


def lines(problems: Recording) -> list[str]:
    return [line.removeprefix("MIOpenDriver ") for line in problems.lines]


def normalise(
    make: Callable[[], nn.Module], *shape: int, dtype: torch.dtype = torch.float32, **options: bool
) -> Recording:
    """Record a normalisation forward and backward."""
    nhwc = options.pop("channels_last", False)
    train = options.pop("train", True)

    def step() -> None:
        x = torch.randn(*shape, dtype=dtype)
        x = x.to(memory_format=torch.channels_last) if nhwc else x
        forward_and_backward(make().train(train), x)

    return recorded(step, **options)


def test_batch_norm_in_training() -> None:
    plain = "-n 4 -c 8 -H 10 -W 12 -m 1"
    assert lines(normalise(lambda: nn.BatchNorm2d(8), 4, 8, 10, 12)) == [
        f"bnorm {plain} --forw 1 -b 0 -s 1 -r 1",
        f"bnorm {plain} --forw 0 -b 1 -s 1",
    ]
    without = lambda: nn.BatchNorm2d(8, track_running_stats=False)  # noqa: E731
    assert lines(normalise(without, 4, 8, 10, 12))[0] == f"bnorm {plain} --forw 1 -b 0 -s 1"


def test_batch_norm_in_inference() -> None:
    problems = normalise(lambda: nn.BatchNorm2d(8), 4, 8, 10, 12, train=False)
    assert lines(problems) == ["bnorm -n 4 -c 8 -H 10 -W 12 -m 1 --forw 2 -b 0 -r 1"]
    assert dict(problems.native) == {"batch normalisation: backward without training": 1}
    model = nn.BatchNorm2d(8).eval()
    with torch.inference_mode():
        assert lines(recorded(lambda: model(torch.randn(4, 8, 10, 12)))) == lines(problems)


@pytest.mark.parametrize(
    ("dtype", "command"),
    [(torch.float16, "bnormfp16"), (torch.bfloat16, "bnormbfp16")],
)
def test_batch_norm_of_mixed_types(dtype: torch.dtype, command: str) -> None:
    problems = normalise(lambda: nn.BatchNorm2d(8), 4, 8, 10, 12, dtype=dtype)
    assert {line.split()[0] for line in lines(problems)} == {command}


def test_batch_norm_of_other_dimensions() -> None:
    three = lines(normalise(lambda: nn.BatchNorm3d(8), 2, 8, 3, 4, 5))
    assert three[0] == "bnorm -n 2 -c 8 -D 3 -H 4 -W 5 -m 1 --forw 1 -b 0 -s 1 -r 1"
    one = lines(normalise(lambda: nn.BatchNorm1d(8), 2, 8, 30))
    assert one[0] == "bnorm -n 2 -c 8 -H 30 -W 1 -m 1 --forw 1 -b 0 -s 1 -r 1"
    instance = lines(normalise(lambda: nn.InstanceNorm2d(8, affine=True), 4, 8, 10, 12))
    assert instance[0] == "bnorm -n 1 -c 32 -H 10 -W 12 -m 1 --forw 1 -b 0 -s 1"


def test_batch_norm_in_channels_last(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(**options: bool) -> Recording:
        return normalise(lambda: nn.BatchNorm2d(8), 4, 8, 10, 12, channels_last=True, **options)

    monkeypatch.setenv("PYTORCH_MIOPEN_SUGGEST_NHWC", "1")  # which is for convolutions
    assert dict(run().native) == {"batch normalisation: channels_last": 2}
    assert lines(run(nhwc=True))[0].endswith("-m 1 --forw 1 -b 0 -s 1 -r 1 --layout NHWC")
    monkeypatch.setenv("PYTORCH_MIOPEN_SUGGEST_NHWC_BATCHNORM", "1")
    assert len(run().lines) == 2


@pytest.mark.parametrize(
    ("make", "shape", "dtype", "reason"),
    [
        (lambda: nn.BatchNorm2d(8).half(), (2, 8, 5, 5), torch.float16, "parameters of float16"),
        (lambda: nn.BatchNorm2d(8).double(), (2, 8, 5, 5), torch.float64, "float64"),
        (lambda: nn.BatchNorm1d(8), (2, 8), torch.float32, "2 dimensions"),
        (lambda: nn.BatchNorm2d(8, affine=False), (2, 8, 5, 5), torch.float32, "no scale"),
    ],
)
def test_batch_norms_that_never_reach_miopen(
    make: Callable[[], nn.Module], shape: tuple[int, ...], dtype: torch.dtype, reason: str
) -> None:
    problems = normalise(make, *shape, dtype=dtype)
    assert problems.lines == ()
    assert all(reason in name for name in problems.native)
    assert sum(problems.native.values()) == 2


def test_batch_norms_of_a_network() -> None:
    problems = recorded(lambda: forward_and_backward(resnet50(), torch.randn(2, 3, 64, 64)))
    norms = [call.line for call in problems.calls if " bnorm " in call.line]
    assert len(norms) == 2 * 53


def test_lstm_forward_and_backward() -> None:
    def step() -> None:
        model = nn.LSTM(16, 32, num_layers=2, bidirectional=True, dropout=0.5, batch_first=True)
        out, (hidden, cell) = model(torch.randn(4, 7, 16))
        assert out.shape == (4, 7, 64)
        assert hidden.shape == cell.shape == (4, 4, 32)
        nn.functional.mse_loss(out, torch.zeros_like(out)).backward()
        assert model.weight_hh_l1.grad.shape == (128, 32)

    plain = "rnn -n 4 -W 16 -H 32 -l 2 -b 1 -m lstm -p 0 -r 1 -q 0 -k 7"
    assert lines(recorded(step)) == [
        f"{plain} -c 0 -F 1 -U 1 -P 0.5",
        f"{plain} -F 2 -U 1 -P 0.5",
        f"{plain} -F 4 -U 1 -P 0.5",
    ]


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("lengths", [[7, 5, 5, 2], [2, 7, 5, 5]])
def test_packed_sequences(lengths: list[int], batch_first: bool) -> None:
    def step() -> None:
        model = nn.GRU(16, 32, batch_first=batch_first)
        padded = torch.randn(*((4, 7) if batch_first else (7, 4)), 16)
        packed = nn.utils.rnn.pack_padded_sequence(
            padded, torch.tensor(lengths), batch_first, enforce_sorted=False
        )
        assert packed.data.shape == (19, 16)
        out, hidden = model(packed)
        unpacked, found = nn.utils.rnn.pad_packed_sequence(out, batch_first)
        assert unpacked.shape == (*padded.shape[:2], 32)
        assert found.shape == (4,)
        assert hidden.shape == (1, 4, 32)
        unpacked.sum().backward()
        assert model.weight_ih_l0.grad.shape == (96, 16)

    plain = "rnn -n 4,4,3,3,3,1,1 -W 16 -H 32 -l 1 -b 1 -m gru -p 0 -r 0 -q 0 -k 7"
    assert lines(recorded(step)) == [f"{plain} -c 0 -F 1", f"{plain} -F 2", f"{plain} -F 4"]


@pytest.mark.parametrize(
    ("make", "mode"),
    [
        (nn.GRU, "gru"),
        (nn.RNN, "tanh"),
        (lambda *sizes: nn.RNN(*sizes, nonlinearity="relu"), "relu"),
        (nn.LSTM, "lstm"),
    ],
)
def test_recurrent_layers_in_inference(make: Callable[..., nn.Module], mode: str) -> None:
    problems = recorded(lambda: make(16, 32).eval().half()(torch.randn(7, 4, 16).half()))
    assert lines(problems) == [
        f"rnnfp16 -n 4 -W 16 -H 32 -l 1 -b 1 -m {mode} -p 0 -r 0 -q 0 -k 7 -c 1 -F 1"
    ]


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (lambda: nn.LSTM(16, 32, proj_size=8)(torch.randn(7, 4, 16)), "projections"),
        (lambda: nn.GRU(16, 32).double()(torch.randn(7, 4, 16).double()), "float64"),
        (lambda: nn.GRU(16, 32).bfloat16()(torch.randn(7, 4, 16).bfloat16()), "bfloat16"),
    ],
)
def test_recurrent_layers_that_never_reach_miopen(step: Callable[[], object], reason: str) -> None:
    problems = recorded(step)
    assert problems.lines == ()
    assert any("recurrent layer" in name and reason in name for name in problems.native)
