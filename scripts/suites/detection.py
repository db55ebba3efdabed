"""The YOLO family and U-Net, from their published configurations."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Conv(nn.Sequential):
    """A convolution without bias, batch normalisation and an activation."""

    def __init__(self, channels: int, width: int, size: int = 1, stride: int = 1, pad: int = -1):
        super().__init__(
            nn.Conv2d(channels, width, size, stride, size // 2 if pad < 0 else pad, bias=False),
            nn.BatchNorm2d(width),
            nn.SiLU(),
        )


class Bottleneck(nn.Module):
    def __init__(self, width: int, hidden: int, sizes: tuple[int, int], add: bool):
        super().__init__()
        self.cv1, self.cv2 = Conv(width, hidden, sizes[0]), Conv(hidden, width, sizes[1])
        self.add = add

    def forward(self, x: Tensor) -> Tensor:
        return x + self.cv2(self.cv1(x)) if self.add else self.cv2(self.cv1(x))


class C3(nn.Module):
    """YOLOv5's cross stage partial block."""

    def __init__(self, channels: int, width: int, repeats: int, add: bool = True):
        super().__init__()
        half = width // 2
        self.cv1, self.cv2, self.cv3 = (
            Conv(channels, half), Conv(channels, half), Conv(width, width),
        )  # fmt: skip
        self.m = nn.Sequential(*(Bottleneck(half, half, (1, 3), add) for _ in range(repeats)))

    def forward(self, x: Tensor) -> Tensor:
        return self.cv3(torch.cat([self.m(self.cv1(x)), self.cv2(x)], 1))


class C2f(nn.Module):
    """YOLOv8's block, which keeps each bottleneck's output."""

    def __init__(self, channels: int, width: int, repeats: int, add: bool = True):
        super().__init__()
        half = width // 2
        self.half = half
        self.cv1, self.cv2 = Conv(channels, width), Conv((2 + repeats) * half, width)
        self.m = nn.ModuleList(Bottleneck(half, half, (3, 3), add) for _ in range(repeats))

    def forward(self, x: Tensor) -> Tensor:
        parts = list(self.cv1(x).split(self.half, 1))
        for layer in self.m:
            parts.append(layer(parts[-1]))
        return self.cv2(torch.cat(parts, 1))


class Sppf(nn.Module):
    def __init__(self, channels: int, width: int):
        super().__init__()
        self.cv1, self.cv2 = Conv(channels, channels // 2), Conv(2 * channels, width)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        parts = [self.cv1(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.cv2(torch.cat(parts, 1))


class YoloPan(nn.Module):
    """Backbone of five levels, a path up and a path down, and a head at strides 8, 16 and 32."""

    def __init__(self, widths: Sequence[int], depth: int, *, v8: bool):
        super().__init__()
        a, b, c, d, e = widths
        block: type[C3] | type[C2f] = C2f if v8 else C3
        self.stem = nn.Sequential(
            Conv(3, a, 3, 2) if v8 else Conv(3, a, 6, 2, 2),
            Conv(a, b, 3, 2), block(b, b, depth),
        )  # fmt: skip
        middle = 2 * depth if v8 else 3 * depth
        self.level3 = nn.Sequential(Conv(b, c, 3, 2), block(c, c, 2 * depth))
        self.level4 = nn.Sequential(Conv(c, d, 3, 2), block(d, d, middle))
        self.level5 = nn.Sequential(Conv(d, e, 3, 2), block(e, e, depth), Sppf(e, e))
        self.v8 = v8
        if v8:
            self.up4 = block(e + d, d, depth, False)
            self.up3 = block(d + c, c, depth, False)
            self.down4, self.out4 = Conv(c, c, 3, 2), block(c + d, d, depth, False)
            self.down5, self.out5 = Conv(d, d, 3, 2), block(d + e, e, depth, False)
        else:
            self.lateral5, self.up4 = Conv(e, d), block(2 * d, d, depth, False)
            self.lateral4, self.up3 = Conv(d, c), block(2 * c, c, depth, False)
            self.down4, self.out4 = Conv(c, c, 3, 2), block(2 * c, d, depth, False)
            self.down5, self.out5 = Conv(d, d, 3, 2), block(2 * d, e, depth, False)
        self.heads = nn.ModuleList(self._head(width, c) for width in (c, d, e))
        # YOLOv8 takes the mean of a distribution over 16 distances by a convolution.
        self.distances = nn.Conv2d(16, 1, 1, bias=False) if v8 else None
        self.upsample = nn.Upsample(scale_factor=2)

    def _head(self, width: int, least: int) -> nn.Module:
        if not self.v8:
            return nn.Conv2d(width, 3 * 85, 1)  # three anchors of 80 classes, a box and a score
        boxes, classes = max(16, least // 4, 64), max(least, 80)
        return nn.ModuleList(
            nn.Sequential(Conv(width, hidden, 3), Conv(hidden, hidden, 3), nn.Conv2d(hidden, n, 1))
            for hidden, n in ((boxes, 64), (classes, 80))
        )

    def forward(self, x: Tensor) -> list[Tensor]:
        x3 = self.level3(self.stem(x))
        x4 = self.level4(x3)
        x5 = self.level5(x4)
        top = x5 if self.v8 else self.lateral5(x5)
        up4 = self.up4(torch.cat([self.upsample(top), x4], 1))
        mid = up4 if self.v8 else self.lateral4(up4)
        out3 = self.up3(torch.cat([self.upsample(mid), x3], 1))
        out4 = self.out4(torch.cat([self.down4(out3), mid], 1))
        out5 = self.out5(torch.cat([self.down5(out4), top], 1))
        outs: list[Tensor] = []
        for head, level in zip(self.heads, (out3, out4, out5), strict=True):
            branches = head if isinstance(head, nn.ModuleList) else [head]
            outs += [branch(level) for branch in branches]
        if self.distances is not None:
            boxes = torch.cat([out.flatten(2) for out in outs[::2]], 2)
            outs.append(self.distances(boxes.unflatten(1, (4, 16)).transpose(1, 2)))
        return outs


def yolov5s() -> nn.Module:
    return YoloPan((32, 64, 128, 256, 512), 1, v8=False)


def yolov8n() -> nn.Module:
    return YoloPan((16, 32, 64, 128, 256), 1, v8=True)


def yolov8s() -> nn.Module:
    return YoloPan((32, 64, 128, 256, 512), 1, v8=True)


class YoloV3(nn.Module):
    """Darknet-53 and three heads (Redmon and Farhadi 2018, yolov3.cfg)."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList()
        channels = 32
        for index, repeats in enumerate((1, 2, 8, 8, 4)):
            stem = [Conv(3, 32, 3)] if index == 0 else []
            blocks = [Bottleneck(2 * channels, channels, (1, 3), True) for _ in range(repeats)]
            self.stages.append(nn.Sequential(*stem, Conv(channels, 2 * channels, 3, 2), *blocks))
            channels *= 2
        self.heads = nn.ModuleList()
        for width, extra in ((512, 0), (256, 256), (128, 128)):
            wide = 2 * width
            inside = [Conv(wide + (extra if extra else 0), width), Conv(width, wide, 3),
                      Conv(wide, width), Conv(width, wide, 3), Conv(wide, width)]  # fmt: skip
            last = [Conv(width, wide, 3), nn.Conv2d(wide, 255, 1)]
            lateral = Conv(width, width // 2)
            parts = [nn.Sequential(*inside), nn.Sequential(*last)]
            self.heads.append(nn.ModuleList([*parts, lateral] if width > 128 else parts))
        self.upsample = nn.Upsample(scale_factor=2)

    def forward(self, x: Tensor) -> list[Tensor]:
        levels = []
        for stage in self.stages:
            x = stage(x)
            levels.append(x)
        outs = []
        for head, skip in zip(self.heads, (None, levels[3], levels[2]), strict=True):
            if skip is not None:
                x = torch.cat([x, skip], 1)
            x = head[0](x)
            outs.append(head[1](x))
            if len(head) > 2:
                x = self.upsample(head[2](x))
        return outs


class UNet(nn.Module):
    """Ronneberger et al. 2015, figure 1: unpadded 3x3 convolutions, 2x2 up-convolutions."""

    def __init__(self) -> None:
        super().__init__()
        widths = (64, 128, 256, 512, 1024)
        self.down = nn.ModuleList(
            _double(i, o) for i, o in zip((1, *widths[:-1]), widths, strict=True)
        )
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in widths[-2::-1])
        self.joined = nn.ModuleList(_double(2 * w, w) for w in widths[-2::-1])
        self.last = nn.Conv2d(64, 2, 1)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for index, block in enumerate(self.down):
            x = block(x if index == 0 else self.pool(x))
            skips.append(x)
        skips.pop()
        for up, block in zip(self.up, self.joined, strict=True):
            x, skip = up(x), skips.pop()
            cut = (skip.shape[-1] - x.shape[-1]) // 2
            skip = skip[..., cut : cut + x.shape[-2], cut : cut + x.shape[-1]]
            x = block(torch.cat([skip, x], 1))
        return self.last(x)


def _double(channels: int, width: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(channels, width, 3), nn.ReLU(), nn.Conv2d(width, width, 3), nn.ReLU()
    )
