"""MobileNet v1, Inception v4, and the convolutions of speech models."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


def conv(channels: int, width: int, size: int | tuple[int, int], stride: int = 1,
         pad: int | tuple[int, int] = 0, groups: int = 1) -> nn.Module:  # fmt: skip
    return nn.Sequential(
        nn.Conv2d(channels, width, size, stride, pad, groups=groups, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
    )


def mobilenet_v1() -> nn.Module:
    """Howard et al. 2017, table 1."""
    layers, channels = [conv(3, 32, 3, 2, 1)], 32
    for width, stride in (
        (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2),
        *(((512, 1),) * 5), (1024, 2), (1024, 1),
    ):  # fmt: skip
        layers.append(conv(channels, channels, 3, stride, 1, channels))
        layers.append(conv(channels, width, 1))
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, 1000))


class Branches(nn.Module):
    """What several paths make of one input, side by side."""

    def __init__(self, *branches: nn.Module):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


def _pool() -> nn.Module:
    return nn.AvgPool2d(3, 1, 1)


def _inception_a() -> nn.Module:
    return Branches(
        conv(384, 96, 1),
        nn.Sequential(conv(384, 64, 1), conv(64, 96, 3, 1, 1)),
        nn.Sequential(conv(384, 64, 1), conv(64, 96, 3, 1, 1), conv(96, 96, 3, 1, 1)),
        nn.Sequential(_pool(), conv(384, 96, 1)),
    )


def _inception_b() -> nn.Module:
    wide, tall = ((1, 7), (0, 3)), ((7, 1), (3, 0))
    return Branches(
        conv(1024, 384, 1),
        nn.Sequential(
            conv(1024, 192, 1), conv(192, 224, wide[0], 1, wide[1]),
            conv(224, 256, tall[0], 1, tall[1]),
        ),
        nn.Sequential(
            conv(1024, 192, 1), conv(192, 192, tall[0], 1, tall[1]),
            conv(192, 224, wide[0], 1, wide[1]), conv(224, 224, tall[0], 1, tall[1]),
            conv(224, 256, wide[0], 1, wide[1]),
        ),
        nn.Sequential(_pool(), conv(1024, 128, 1)),
    )  # fmt: skip


def _inception_c() -> nn.Module:
    def split(channels: int) -> nn.Module:
        return Branches(
            conv(channels, 256, (1, 3), 1, (0, 1)), conv(channels, 256, (3, 1), 1, (1, 0))
        )

    return Branches(
        conv(1536, 256, 1),
        nn.Sequential(conv(1536, 384, 1), split(384)),
        nn.Sequential(
            conv(1536, 384, 1), conv(384, 448, (3, 1), 1, (1, 0)),
            conv(448, 512, (1, 3), 1, (0, 1)), split(512),
        ),
        nn.Sequential(_pool(), conv(1536, 256, 1)),
    )  # fmt: skip


def inception_v4() -> nn.Module:
    """Szegedy et al. 2016, arXiv:1602.07261, figures 3 to 9."""
    stem = nn.Sequential(
        conv(3, 32, 3, 2), conv(32, 32, 3), conv(32, 64, 3, 1, 1),
        Branches(nn.MaxPool2d(3, 2), conv(64, 96, 3, 2)),
        Branches(
            nn.Sequential(conv(160, 64, 1), conv(64, 96, 3)),
            nn.Sequential(
                conv(160, 64, 1), conv(64, 64, (1, 7), 1, (0, 3)),
                conv(64, 64, (7, 1), 1, (3, 0)), conv(64, 96, 3),
            ),
        ),
        Branches(conv(192, 192, 3, 2), nn.MaxPool2d(3, 2)),
    )  # fmt: skip
    reduction_a = Branches(
        conv(384, 384, 3, 2),
        nn.Sequential(conv(384, 192, 1), conv(192, 224, 3, 1, 1), conv(224, 256, 3, 2)),
        nn.MaxPool2d(3, 2),
    )
    reduction_b = Branches(
        nn.Sequential(conv(1024, 192, 1), conv(192, 192, 3, 2)),
        nn.Sequential(
            conv(1024, 256, 1), conv(256, 256, (1, 7), 1, (0, 3)),
            conv(256, 320, (7, 1), 1, (3, 0)), conv(320, 320, 3, 2),
        ),
        nn.MaxPool2d(3, 2),
    )  # fmt: skip
    return nn.Sequential(
        stem, *(_inception_a() for _ in range(4)), reduction_a,
        *(_inception_b() for _ in range(7)), reduction_b, *(_inception_c() for _ in range(3)),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1536, 1000),
    )  # fmt: skip


class Whisper(nn.Module):
    """Radford et al. 2022: the two convolutions before the encoder, of one size of the model."""

    def __init__(self, mels: int, width: int):
        super().__init__()
        self.conv1 = nn.Conv1d(mels, width, 3, padding=1)
        self.conv2 = nn.Conv1d(width, width, 3, 2, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return functional.gelu(self.conv2(functional.gelu(self.conv1(x))))


class Wav2Vec2(nn.Module):
    """Baevski et al. 2020, section 4.2: feature encoder and positional convolution of BASE."""

    def __init__(self) -> None:
        super().__init__()
        sizes, strides = (10, 3, 3, 3, 3, 2, 2), (5, 2, 2, 2, 2, 2, 2)
        self.features = nn.Sequential(
            *(
                nn.Sequential(
                    nn.Conv1d(1 if i == 0 else 512, 512, size, stride, bias=False), nn.GELU()
                )
                for i, (size, stride) in enumerate(zip(sizes, strides, strict=True))
            )
        )
        self.project = nn.Linear(512, 768)
        self.position = nn.Conv1d(768, 768, 128, padding=64, groups=16)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.project(self.features(x).transpose(1, 2))
        return self.position(hidden.transpose(1, 2))
