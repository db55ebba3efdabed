"""Networks written from their papers, for recording."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional


class Bottleneck(nn.Module):
    """He et al. 2015, figure 5, with the stride on the 3x3."""

    def __init__(self, channels: int, width: int, stride: int):
        super().__init__()
        out = 4 * width
        self.main = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip
        self.side = nn.Sequential()
        if channels != out or stride != 1:
            self.side = nn.Sequential(
                nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out)
            )

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.main(x) + self.side(x))


def resnet50() -> nn.Module:
    """He et al. 2015, table 1, 50 layers."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    ]  # fmt: skip
    channels = 64
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            layers.append(Bottleneck(channels, width, 2 if stage and not block else 1))
            channels = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


class Residual(nn.Module):
    """A residual block of Stable Diffusion's U-Net, with the time embedding added inside."""

    def __init__(self, channels: int, width: int):
        super().__init__()
        self.norm1 = nn.GroupNorm(32, channels)
        self.conv1 = nn.Conv2d(channels, width, 3, padding=1)
        self.time = nn.Linear(1280, width)
        self.norm2 = nn.GroupNorm(32, width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.side = nn.Conv2d(channels, width, 1) if channels != width else nn.Identity()

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        hidden = self.conv1(functional.silu(self.norm1(x)))
        hidden = hidden + self.time(functional.silu(time))[:, :, None, None]
        return self.side(x) + self.conv2(functional.silu(self.norm2(hidden)))


class Attention(nn.Module):
    """A transformer between two 1x1 convolutions; one self-attention stands for all of it."""

    def __init__(self, width: int):
        super().__init__()
        self.norm = nn.GroupNorm(32, width)
        self.proj_in = nn.Conv2d(width, width, 1)
        self.attention = nn.MultiheadAttention(width, 8, batch_first=True)
        self.proj_out = nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.proj_in(self.norm(x))
        tokens = hidden.flatten(2).transpose(1, 2)
        tokens = tokens + self.attention(tokens, tokens, tokens, need_weights=False)[0]
        return x + self.proj_out(tokens.transpose(1, 2).reshape(x.shape))


class UNet(nn.Module):
    """Stable Diffusion v1's U-Net (v1-inference.yaml): 320 x (1, 2, 4, 4), two blocks a level."""

    widths = (320, 640, 1280, 1280)
    attention = (True, True, True, False)

    def __init__(self) -> None:
        super().__init__()
        self.conv_in = nn.Conv2d(4, self.widths[0], 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        channels, skips = self.widths[0], [self.widths[0]]
        for level, width in enumerate(self.widths):
            for _ in range(2):
                self.down.append(self._stage(level, channels, width))
                channels = width
                skips.append(width)
            if level < 3:
                self.down.append(nn.ModuleList([nn.Conv2d(width, width, 3, 2, 1)]))
                skips.append(width)
        self.middle = nn.ModuleList(
            [Residual(channels, channels), Attention(channels), Residual(channels, channels)]
        )
        for level, width in reversed(list(enumerate(self.widths))):
            for block in range(3):
                stage = self._stage(level, channels + skips.pop(), width)
                channels = width
                if level > 0 and block == 2:
                    stage += [nn.Upsample(scale_factor=2), nn.Conv2d(width, width, 3, padding=1)]
                self.up.append(stage)
        self.norm_out = nn.GroupNorm(32, channels)
        self.conv_out = nn.Conv2d(channels, 4, 3, padding=1)

    def _stage(self, level: int, channels: int, width: int) -> nn.ModuleList:
        stage = nn.ModuleList([Residual(channels, width)])
        return stage.append(Attention(width)) if self.attention[level] else stage

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        x = self.conv_in(x)
        skips = [x]
        for stage in self.down:
            x = _run(stage, x, time)
            skips.append(x)
        x = _run(self.middle, x, time)
        for stage in self.up:
            x = _run(stage, torch.cat([x, skips.pop()], 1), time)
        return self.conv_out(functional.silu(self.norm_out(x)))


def _run(stage: Sequence[nn.Module], x: Tensor, time: Tensor) -> Tensor:
    for layer in stage:
        x = layer(x, time) if isinstance(layer, Residual) else layer(x)
    return x


def forward_and_backward(model: Callable[..., Tensor], *inputs: Tensor) -> None:
    """Run a step in which the gradient of the first input is wanted too."""
    inputs[0].requires_grad_()
    model(*inputs).float().sum().backward()
